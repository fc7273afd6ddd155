/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One event as the analyses take it, from a file or live: of fixed size, its
 * texts are numbers in a table.
 */
#ifndef MEMTAP_ITEM_H
#define MEMTAP_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* item.flags */
#define ITEM_HEX 0x01u /* the file writes addresses as 0x and 16 digits (since V-oct) */
#define ITEM_PREATTACH 0x02u /* FREE of a block from before the attach */
#define ITEM_SHADOW 0x04u /* made up: a MALLOC of before the start, a FREE at the exit */
#define ITEM_USED 0x08u /* `used` is there */
#define ITEM_SIZE 0x10u /* `size` is there */

struct item {
	uint64_t time; /* ns since the epoch */
	uint64_t id; /* per process */
	uint64_t ptr, alloc; /* alloc: allocation_id, 0 = none */
	int64_t size; /* of old files' FREE: negative */
	uint64_t used;
	uint32_t pid, tid;
	int32_t device;
	uint32_t seq; /* place in the files: decides between equal times */
	/* Numbers in the table of texts; 0 = none. */
	uint32_t name, owner, stack_py, stack_c;
	uint8_t event, type; /* enum row_event, enum row_type */
	uint8_t pool; /* of an ACCESS: enum row_type of its block */
	uint8_t flags;
};

/* ---- texts by number (texts.c) ---- */

struct texts;

/* Holds at most max_bytes of text. NULL: no memory. */
struct texts *texts__new(size_t max_bytes);
void texts__free(struct texts *t);
/* The number of a text, from 1; 0 with *err: -ENOMEM or -E2BIG (the table is full). */
uint32_t texts__put(struct texts *t, const char *s, size_t n, int *err);
/* The text of a number, NUL-terminated; "" of 0. *n: its length, may be NULL. */
const char *texts__get(const struct texts *t, uint32_t number, size_t *n);
/* The highest number. */
uint32_t texts__count(const struct texts *t);

#endif
