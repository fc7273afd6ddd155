// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Markers of the C library libms_tools_ext (ascend-abi.md 2.6); Python's are in pymark.bpf.c. */
#include "lib/host.bpf.h"

/* A Python mark that does reach the library must not count twice. */
static __always_inline int from_python(struct probe *p)
{
	if (!guard__around(p, MT_GUARD_PYMSTX))
		return 0;
	stat_inc(p, nested);
	return 1;
}

/* Launches that come behind a start are wanted before memtap has heard of it. */
static __always_inline void count_start(__u64 what)
{
	__u32 zero = 0;
	__u64 *n;

	if ((__u32)what != MT_ASK_START)
		return;
	n = bpf_map_lookup_elem(&starts, &zero);
	if (n)
		__sync_fetch_and_add(n, 1);
}

/* arg[0] = message, arg[1] = stream, arg[2] = domain; of memtap_mark(): text, value, what */
SEC("uprobe")
int mstx_mark(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx) || from_python(&p))
		return 0;
	stat_inc(&p, entry);
	f.begin = p.now;
	f.a[0] = ctx_arg(ctx, p.site->arg[1], p.sp);
	if (p.site->arg[2] >= 0)
		f.a[1] = ctx_arg(ctx, p.site->arg[2], p.sp);
	f.a[2] = MT_MSTX_LIB;
	if (p.site->fn == MT_FN_ASK)
		count_start(f.a[1]);
	EMIT_CALL_TEXT(mt_call_msg, &p, p.now, &f, 0, ctx_arg(ctx, p.site->arg[0], p.sp));
	return 0;
}

static __always_inline int mstx_start_enter(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx) || from_python(&p))
		return 0;
	f.a[0] = ctx_arg(ctx, p.site->arg[1], p.sp);
	if (p.site->arg[2] >= 0)
		f.a[1] = ctx_arg(ctx, p.site->arg[2], p.sp);
	f.a[2] = MT_MSTX_LIB;
	f.a[3] = ctx_arg(ctx, p.site->arg[0], p.sp);
	inflight__put(&p, &f);
	return 1;
}

static __always_inline void mstx_start_leave(struct pt_regs *ctx, __u32 session)
{
	struct mt_inflight f;
	struct probe p;

	if (!probe__start_ret(&p, ctx, session) || guard__around(&p, MT_GUARD_PYMSTX) ||
	    !inflight__take(&p, &f))
		return;
	EMIT_CALL_TEXT(mt_call_msg, &p, f.begin, &f, CTX_RC(ctx), f.a[3]);
	host_range__opened(&p, CTX_RC(ctx), f.a[1], f.a[3]);
}
MT_PAIR(mstx_start)

/* arg[0] = id, arg[2] = domain */
SEC("uprobe")
int mstx_end(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx) || from_python(&p))
		return 0;
	stat_inc(&p, entry);
	f.begin = p.now;
	f.a[0] = ctx_arg(ctx, p.site->arg[0], p.sp);
	if (p.site->arg[2] >= 0)
		f.a[1] = ctx_arg(ctx, p.site->arg[2], p.sp);
	f.a[2] = MT_MSTX_LIB;
	emit_call(&p, p.now, &f, 0, -1);
	host_range__closed(&p, f.a[0], f.a[1], 0);
	return 0;
}
