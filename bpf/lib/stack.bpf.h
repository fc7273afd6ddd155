/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The call stack at a probe, walked here by the rows of all mapped files.
 *
 * The walk has a place of its own for each thread: uprobe programs are
 * preempted since 6.0, a place for each CPU would be shared. Needs bpf_loop
 * (5.17) and task storage (5.11).
 */
#ifndef MEMTAP_STACK_BPF_H
#define MEMTAP_STACK_BPF_H

#include "stack_maps.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mt_uw);
} uw_walks SEC(".maps");

static __always_inline struct mt_uw *uw_here(void)
{
	return bpf_task_storage_get(&uw_walks, bpf_get_current_task_btf(), 0, 0);
}

#include "stack_copy.bpf.h"

static long uw_one(__u32 i, struct mt_uw **u)
{
	uw_run(*u);
	return uw_step(*u) != MT_END_NOT;
}

/*
 * The walk, from what stack__go has put into the thread's place. A function of
 * its own, which the verifier looks at once a program and not once for each way
 * that leads to it. It must not take the context: as what it is declared there differs
 * between kernels and architectures (user_pt_regs on arm64).
 */
__noinline int uw_walk(int unused)
{
	struct mt_uw *u = uw_here();
	__u32 tgid;

	/* Callers would leave it out: but the kernel wants a number there. */
	asm volatile("" : : "r"(unused));
	if (!u)
		return 0;
	tgid = u->rec.h.tgid;
	if (uw_find_proc(u, tgid)) {
		bpf_loop(UW_STEPS, uw_one, &u, 0);
	} else {
		uw_step(u); /* the frame alone, by its address */
		u->rec.end = MT_END_NOPROC;
	}
	uw_finish(u);
	return 0;
}

/* Where the thread's walk has its place; NULL, and it is counted: there is none. */
static __always_inline struct mt_uw *stack__place(void)
{
	struct mt_uw *u = bpf_task_storage_get(&uw_walks, bpf_get_current_task_btf(), 0,
					       BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!u)
		uw_count(MT_END_ROOM);
	return u;
}

static __always_inline void stack__walk(void)
{
	uw_walk(0);
}

#include "stack_go.bpf.h"

#endif
