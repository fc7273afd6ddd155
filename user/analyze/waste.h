/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that hold memory for nothing (inefficient.c; msleaks.md 7). */
#ifndef MEMTAP_ANALYZE_WASTE_H
#define MEMTAP_ANALYZE_WASTE_H

#include <stddef.h>
#include <stdint.h>

#include "model/item.h"

enum ineff { INEFF_EARLY, INEFF_LATE, INEFF_IDLE, INEFF_MAX };
/* "early_allocation" and the like. */
const char *ineff__name(enum ineff k);

struct ineff_block {
	uint64_t ptr, alloc, time, id;
	int64_t size;
	uint32_t pid;
	int32_t device;
	enum row_type type;
	uint8_t kinds[INEFF_MAX], n_kinds; /* in the order of their detection */
	uint64_t idle; /* the longest gap, in calls */
	uint32_t stack_py, stack_c;
};

struct inefficient;

/* idle: so many calls between two accesses are too many; the vendor has 3000. */
struct inefficient *inefficient__new(uint64_t idle, int64_t min_size);
/*
 * While a recording runs: nothing is kept of blocks that end, each mark is told when it is found,
 * before inefficient__item() returns, with those before it.
 */
typedef void (*ineff_fn)(void *ctx, const struct ineff_block *b);
void inefficient__live(struct inefficient *x, ineff_fn fn, void *ctx);
/* A process has ended, or has a new program. */
void inefficient__forget(struct inefficient *x, uint32_t pid);
/* 0 or -ENOMEM. Wants MALLOC, FREE, ACCESS, OP_LAUNCH. */
int inefficient__item(struct inefficient *x, const struct item *it);
/* No more items. 0 or -ENOMEM. */
int inefficient__finish(struct inefficient *x);
/* Those that are, by time of their MALLOC. */
const struct ineff_block *inefficient__list(const struct inefficient *x, size_t *n);
struct ineff_counts {
	uint64_t blocks, bytes; /* of the pools PTA and ATB */
	uint64_t accesses, unknown; /* unknown: of blocks whose MALLOC was not seen */
	uint64_t calls; /* operators */
};
void inefficient__counts(const struct inefficient *x, struct ineff_counts *c);
void inefficient__free(struct inefficient *x);

#endif
