/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call stacks of a recording: what the programs need to walk them, the stacks
 * that they send, and the cells of rows that show them.
 *
 * A thread of its own reads mappings and makes rows of unwind tables; everything
 * else is for the one thread that hands out events.
 */
#ifndef MEMTAP_SYMBOL_STACKS_H
#define MEMTAP_SYMBOL_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "memtap/python.h"
#include "memtap/unwind.h"
#include "symbol/symbol.h"

struct stacks;

/* Descriptors of the maps of bpf/lib/{stack,refs}.bpf.h, which stay the caller's. */
struct stacks_maps {
	struct unwind_maps unwind;
	int known, ends; /* uw_known, uw_ends */
	int copies, changes; /* uw_copies, uw_changes */
	int targets; /* which processes are traced; -1: new mappings are told by stacks__process */
	int py_procs, py_known, py_ends;
};

struct stacks_opts {
	struct stacks_maps maps;
	bool c, python;
	/* C cells have Python frames in place of the evaluation loop's: needs both stacks whole. */
	bool mixed;
	bool lines; /* source lines and inlined calls of C frames */
	uint32_t c_depth, python_depth; /* frames of a cell; 0: all */
	bool mangled; /* C++ names as the file has them, as the vendor's tool */
	bool plain; /* nothing but frames: no line that says why a stack is cut */
	size_t max_bytes; /* of the stacks that are kept; 0: 256 MiB */
	uint64_t keep_ns; /* how long a process is known after its end */
	int cache; /* folder of unwind_cache__open, the object's from now on; or -1 */
};

/* 0 or -errno. */
int stacks__new(const struct stacks_opts *o, struct stacks **out);
void stacks__free(struct stacks *s); /* NULL is fine */

/* ---- processes ---- */

/* Read the mappings of a process, now or again, and its interpreter: soon, by the other thread. */
void stacks__process(struct stacks *s, pid_t pid);
/* It is a new child: as its parent, until it has been read. */
void stacks__forked(struct stacks *s, pid_t parent, pid_t pid, uint32_t start);
/* It runs another program from then on (boot time). */
void stacks__exec(struct stacks *s, pid_t pid, uint32_t start, uint64_t time);
/* It has ended. */
void stacks__gone(struct stacks *s, pid_t pid);
/* Does it hear of new mappings by itself? */
bool stacks__watches(const struct stacks *s);
/* Until nothing is left to read, for at most so long. True: it is so. */
bool stacks__wait(struct stacks *s, unsigned int ms);
/*
 * Now and then: interpreters that were not ready, names that were not to be had yet, stacks to be
 * completed, processes to be forgotten. written: all rows up to this time (boot) have their cells.
 */
void stacks__tick(struct stacks *s, uint64_t written);

/*
 * Ask debuginfod for debug files that mapped files are without, for so long in all: never
 * while capturing. *asked: how many files. Returns how many were found, or -errno of what made
 * it futile (debuginfod__fetch, which has stop and ctx).
 */
int stacks__fetch(struct stacks *s, unsigned int ms, bool (*stop)(void *ctx), void *ctx,
		  unsigned int *asked);

/* ---- stacks ---- */

/* A C cell with Python frames in it, or why there are none. */
enum stack_merge {
	STACK_MERGED,
	STACK_NO_PYTHON, /* no frame of the evaluation loop, no frame of Python */
	STACK_NO_LOOP, /* Python frames, and its evaluation loop is not found in its file */
	STACK_NO_FRAMES, /* the evaluation loop, and no stack of Python */
	STACK_DIFFER, /* not as many calls of the evaluation loop as Python has begun */
	STACK_CLASH, /* two stacks have its hash */
	STACK_MERGES
};

/* In words, for those that are not merged. */
const char *stack_merge__text(unsigned int merge);

/*
 * A record of type MT_REC_STACK, MT_REC_PYSTACK, MT_REC_COPY or MT_REC_COPY_PIECE. 0 or -errno
 * (-EBADMSG: it cannot be one).
 */
int stacks__define(struct stacks *s, const void *rec, size_t size);

/* Text as the columns have it, valid until the next call; NULL: none is wanted. */
struct stack_cells {
	const char *python, *c;
	size_t python_len, c_len;
};

/* The cells of an event of a process, time: boot. */
void stacks__cells(struct stacks *s, uint32_t tgid, uint32_t start, uint64_t time,
		   const struct mt_refs *refs, struct stack_cells *out);

/* ---- account ---- */

struct stacks_stats {
	uint64_t ends[MT_END_MAX]; /* C stacks by how they ended, those from copies as completed */
	uint64_t copied[MT_COPY_COUNTS]; /* by enum mt_copy_count */
	uint64_t completed; /* C stacks that are complete by a copy */
	uint64_t copies_longer; /* different ones with more frames by a copy, and still cut */
	uint64_t copies_useless, copies_dropped; /* copies that did not help, that had no room */
	uint64_t unsent, py_unsent; /* the ring had no room for them */
	uint64_t py[MT_PY_WHY_MAX]; /* Python stacks, also why there was none */
	uint64_t kept, py_kept; /* distinct ones */
	uint64_t frames; /* of all C stacks that are kept */
	uint64_t guessed; /* C stacks with frames that came from frame records */
	uint64_t collisions; /* two stacks with one hash: neither is shown from then on */
	uint64_t evicted; /* stacks given up for memory */
	uint64_t unknown; /* cells whose stack was not there */
	uint64_t unnamed; /* Python frames without a name */
	uint64_t unanswered; /* of them, for the memory of their process did not answer */
	uint32_t silent; /* programs whose interpreter could not be looked at for that */
	uint64_t held_back; /* times a process that maps without end was read later */
	uint64_t notices_lost; /* mappings that were told of, and had no room */
	uint64_t merged[STACK_MERGES]; /* cells, by enum stack_merge */
	uint64_t sources, no_source; /* addresses with, without a source line */
	size_t source_bytes;
	size_t bytes;
	size_t programs; /* of processes, that are known */
	struct unwind_stats unwind;
	struct symbols_stats symbols;
};

void stacks__stats(struct stacks *s, struct stacks_stats *out);
/* How a stack ended, in words: "complete", "an address in no mapping that is known". */
const char *stack_end__text(unsigned int end);
static inline bool stack_end__complete(unsigned int end)
{
	return end >= MT_END_ROOT && end <= MT_END_ENTRY;
}

#endif
