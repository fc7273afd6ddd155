/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks that a BPF program takes, held against those that the program itself notes. */
#ifndef STACKS_TAKEN_H
#define STACKS_TAKEN_H

#include "base/base.h"
#include "stack_tail.skel.h"
#include "symbol/symbol.h"

struct taken {
	const char *failed; /* what could not be done, if run() is negative */
	size_t got; /* stacks; one a call is due */
	size_t wrong; /* frames that differ, stacks of another depth */
	size_t cut; /* stacks that do not end at the root */
	size_t broken; /* records that contradict themselves, or name frames never sent */
	size_t without; /* stacks sent without their frames, as the reader had them */
	size_t frames;
	unsigned int deepest;
	uint64_t hash[2]; /* of the first stack */
};

/*
 * Load the programs of stack_tail.bpf.c, their steps in place; with the maps of
 * `shared` where it has them (NULL: none). NULL and errno.
 */
struct stack_tail_bpf *taken__load_tail(struct bpf_object *shared);

/*
 * Run `calls` calls at many depths, through qsort and a signal handler, in a child
 * with `prog` of `obj` at a probe in it, and compare. pin: the child stays on one
 * CPU. Returns 0, or -errno and t->failed.
 */
int taken__run(struct bpf_object *obj, const struct bpf_program *prog, int calls, bool pin, struct taken *t);

#endif
