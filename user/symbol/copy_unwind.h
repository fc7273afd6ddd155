/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack walked over a copy of it, by libdw: for what the walk in the kernel does not
 * understand or did not know yet.
 *
 * libdw is given mapped bytes and never a path (lines.c says why). All of it is for one thread.
 */
#ifndef MEMTAP_SYMBOL_COPY_UNWIND_H
#define MEMTAP_SYMBOL_COPY_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memtap/unwind.h"

/* Bytes of a stack, and the state of its first frame. */
struct stack_copy {
	struct mt_copy head;
	uint64_t from; /* address of the first byte */
	const uint8_t *bytes;
	size_t n;
};

/* The code of a process: mappings as struct mt_uw_map has them, sorted, not overlapping. */
struct copy_space;

/* The files of mappings, by their numbers. */
struct copy_files {
	void *ctx;
	/* A descriptor, which stays the giver's and is needed only during the call; or -1. */
	int (*fd)(void *ctx, uint32_t file);
	/* What copy_space__low says of it. */
	bool (*low)(void *ctx, uint32_t file, uint64_t *low);
};

/* Where the first segment that is loaded begins, in the file's addresses. False: no ELF file. */
bool copy_space__low(int fd, uint64_t *low);
/* 0 or -errno. */
int copy_space__new(const struct mt_uw_map *maps, size_t n, const struct copy_files *files,
		    struct copy_space **out);
void copy_space__free(struct copy_space *s); /* NULL is fine */
/* Does it have these mappings? */
bool copy_space__is(const struct copy_space *s, const struct mt_uw_map *maps, size_t n);
/* The mapping that holds an address; NULL if none. */
const struct mt_uw_map *copy_space__map(const struct copy_space *s, uint64_t addr);

struct copy_frame {
	uint64_t pc;
	bool exact; /* the instruction itself, not what follows a call */
};

/*
 * The frames of a copy, at most `max`, the innermost first. *root: the last one says that it
 * is the outermost. Returns their number, or -errno.
 */
int copy_space__unwind(struct copy_space *s, const struct stack_copy *c, struct copy_frame *frames,
		       uint32_t max, bool *root);

#endif
