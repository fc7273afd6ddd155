/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The call stack at a probe on kernels without bpf_loop (before 5.17).
 *
 * The step is a global function: the verifier looks at it once, by itself, and at a
 * call of it as at any number. So the loop around it may go as deep as stacks are
 * (5438 instructions processed on 5.10, 12506 on 6.12). With the step inside the loop
 * 5.10 takes 128 frames (385 thousand), 6.12 64 (706 thousand). A program that is
 * loaded without its types (BTF func_info) has no global functions: 256 are too many.
 *
 * The walk has a place for each CPU: only for kernels before 6.0, where uprobe
 * programs are not preempted. Nothing newer than 5.8 is used.
 */
#ifndef MEMTAP_STACK_CPU_BPF_H
#define MEMTAP_STACK_CPU_BPF_H

/* Newer kernels refuse a global function that could sleep, be it in dead code. */
#ifdef MEMTAP_STACK_MAPS_BPF_H
#error either stack.bpf.h or stack_cpu.bpf.h
#endif
#define UW_NO_SLEEP
#include "stack_maps.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mt_uw);
} uw_cpu SEC(".maps");

static __always_inline struct mt_uw *uw_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&uw_cpu, &zero);
}

#include "stack_copy.bpf.h"

/* No arguments: before 5.13 they can be but numbers, so the place is looked up again. */
__attribute__((noinline)) int uw_frame(void)
{
	struct mt_uw *u = uw_here();

	return u ? uw_step(u) : MT_END_ROOM;
}

/* Apart: the three of them would have more than the stack that programs share. */
__attribute__((noinline)) int uw_some(void)
{
	struct mt_uw *u = uw_here();

	if (u)
		uw_run(u);
	return 0;
}

/* The walk, from what stack_cpu__start has put into the place of this CPU: as uw_walk. */
__attribute__((noinline)) int uw_frames(void)
{
	struct mt_uw *u = uw_here();
	__u32 tgid, i;

	if (!u)
		return 0;
	tgid = u->rec.h.tgid;
	if (uw_find_proc(u, tgid)) {
		UW_LOOP
		for (i = 0; i < UW_STEPS; i++) {
			uw_some();
			if (uw_frame() != MT_END_NOT)
				break;
		}
	} else {
		uw_frame();
		u->rec.end = MT_END_NOPROC;
	}
	uw_finish(u);
	return 0;
}

/* NULL, and it is counted: there is none. */
static __always_inline struct mt_uw *stack__place(void)
{
	struct mt_uw *u = uw_here();

	if (!u)
		uw_count(MT_END_ROOM);
	return u;
}

/* The program makes no tail call itself, and is loaded with its types. */
static __always_inline void stack__walk(void)
{
	uw_frames();
}

#include "stack_go.bpf.h"

/* All but the walk. NULL, and it is counted, if there is no place. */
static __always_inline struct mt_uw *stack_cpu__start(struct pt_regs *ctx, const struct mt_hdr *h,
						      __u32 limit, int always)
{
	struct mt_uw *u = stack__place();

	if (!u)
		return 0;
	u->rec.h = *h;
	stack__begin(u, ctx, limit, always);
	return u;
}

#endif
