/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The walk of stack_cpu.bpf.h in a program of its own, to which the program of an
 * event goes on: for programs that are cloned, without their types (probe/clone.c).
 *
 * One object defines STACK_TAIL_WALKER and has that program. It is loaded once, with
 * its types, and put in `uw_steps` at MT_UW_STEP_WALK.
 */
#ifndef MEMTAP_STACK_TAIL_BPF_H
#define MEMTAP_STACK_TAIL_BPF_H

#include "stack_cpu.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, MT_UW_STEPS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} uw_steps SEC(".maps");

/*
 * Walk the stack and send it, as the last act of a program: what stands behind it
 * runs only if it could not. The program must not call functions that are not inlined
 * (arm64 before 6.0: no tail calls beside them). It may itself have been reached by a
 * tail call: this is one more, of 33.
 */
static __always_inline void stack_tail__begin(struct pt_regs *ctx, const struct mt_hdr *h,
					      __u32 limit, int always)
{
	if (!stack_cpu__start(ctx, h, limit, always))
		return;
	bpf_tail_call(ctx, &uw_steps, MT_UW_STEP_WALK);
	uw_count(MT_END_ROOM);
}

#ifdef STACK_TAIL_WALKER
SEC("uprobe")
int uw_step_walk(struct pt_regs *ctx)
{
	uw_frames();
	return 0;
}
#endif

#endif
