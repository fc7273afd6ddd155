/* SPDX-License-Identifier: Apache-2.0 */
/* What the walker (cwalk.c) and the program that it walks (cwalk_target.c) share. */
#ifndef CWALK_H
#define CWALK_H

#include <stdint.h>

#include <memtap/unwind.h>

#define CWALK_NOTES 4096
#define CWALK_ANY 1 /* in place of an address: some frame is there */

/* A stack as the target itself knows it: [0] is an address in the function that called the site. */
struct cwalk_note {
	char what[24];
	uint64_t pc[MT_UW_MAX_FRAMES + 8];
	int n;
	int guessed; /* frames that only frame records show */
	int end; /* enum mt_uw_end */
};

struct cwalk_shared {
	volatile int n, ready; /* notes; the target has begun */
	volatile int stops; /* the site stops the thread */
	volatile uint64_t from, to; /* steps: between calls of these */
	struct cwalk_note note[CWALK_NOTES];
};

/* The probed function. stop: number of the thread to stop in it, 0 for none. */
void cwalk_site(long pid, long tid, long stop);

typedef void cwalk_fn(void *arg);

/* Functions that are hard to unwind; each calls fn(arg). */
void cwalk_omit(cwalk_fn *fn, void *arg, int depth);
void cwalk_omit_alloca(cwalk_fn *fn, void *arg, int n);
void cwalk_lr_only(cwalk_fn *fn, void *arg); /* return address saved, frame pointer not */
void cwalk_split(cwalk_fn *fn, void *arg); /* a record at the upper end of the frame */
/* Code for a mapping without a file: calls fn(arg), keeps a frame record. */
extern const char cwalk_jit[], cwalk_jit_after[], cwalk_jit_end[];
/* A leaf that reads from address 0; cwalk_fault_size: of the instruction that does. */
void cwalk_leaf_fault(void);
extern const int cwalk_fault_size;

/* Do all of it, `rounds` times; or run the steps. Never returns. */
void cwalk_target(struct cwalk_shared *s, int rounds, int stops) __attribute__((noreturn));
void cwalk_steps(struct cwalk_shared *s) __attribute__((noreturn));

#endif
