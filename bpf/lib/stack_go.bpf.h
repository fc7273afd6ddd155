/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What programs call to have the stack at a probe. Who includes this gives, before it,
 * stack__place(): where the walk has its place, NULL and counted if there is none; and
 * stack__walk(): the walk from there.
 */
#ifndef MEMTAP_STACK_GO_BPF_H
#define MEMTAP_STACK_GO_BPF_H

#include "stack_maps.bpf.h"

/* All that the walk begins with but u->rec.h: who and when. */
static __always_inline void stack__begin(struct mt_uw *u, struct pt_regs *ctx, __u32 limit,
					 int always)
{
	u->rec.h.type = MT_REC_STACK;
	u->limit = limit;
	u->always = always;
	uw_start(u, ctx);
}

/*
 * Walk the stack, its innermost `limit` frames, and send it: with `always`, or
 * only if the reader does not have it. u->rec.h: who and when. Returns the hash
 * under which it is known.
 */
static __always_inline __u64 stack__go(struct mt_uw *u, struct pt_regs *ctx, __u32 limit,
				       int always)
{
	stack__begin(u, ctx, limit, always);
	stack__walk();
	return u->rec.hash[0];
}

static __always_inline void stack__take(struct pt_regs *ctx, const struct mt_hdr *h)
{
	struct mt_uw *u = stack__place();

	if (!u)
		return;
	u->rec.h = *h;
	stack__go(u, ctx, MT_UW_MAX_FRAMES, 1);
}

#endif
