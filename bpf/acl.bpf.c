// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ACL layer: initialisation, the device of a thread, registered host memory,
 * stream ids, names of functions, allocation calls around the driver
 * (spec ascend-abi.md 2.2, 2.4).
 */
#include "lib/inflight.bpf.h"

/*
 * Any C function: the arguments that the site names, and the result. Several
 * libraries define one function and forward it (libascendcl -> libacl_rt):
 * the outermost counts.
 */
#define CALL_GUARD(p) (MT_GUARD_CALL + (p)->site->fn)

static __always_inline int acl_call_enter(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	if (!guard__only(&p, CALL_GUARD(&p)))
		return 0;
	if (p.site->arg[0] >= 0)
		f.a[0] = ctx_arg(ctx, p.site->arg[0], p.sp);
	if (p.site->arg[1] >= 0)
		f.a[1] = ctx_arg(ctx, p.site->arg[1], p.sp);
	if (p.site->arg[2] >= 0)
		f.a[2] = ctx_arg(ctx, p.site->arg[2], p.sp);
	if (p.site->fn == MT_FN_SET_DEVICE) {
		struct mt_guard *g = guard__mine(&p, CALL_GUARD(&p));

		if (g)
			g->device = (__s32)f.a[0];
	}
	inflight__put(&p, &f);
	refs__keep(&p, ctx);
	return 1;
}

static __always_inline int call__take(struct probe *p, struct mt_inflight *f)
{
	if (!guard__mine(p, CALL_GUARD(p)))
		return 0; /* nested, or begun before the attach */
	guard__drop(p, CALL_GUARD(p));
	return inflight__take(p, f);
}

static __always_inline void acl_call_leave(struct pt_regs *ctx, __u32 session)
{
	struct mt_inflight f;
	struct probe p;

	if (!probe__start_ret(&p, ctx, session) || !call__take(&p, &f))
		return;
	emit_call(&p, p.site->flags & MT_SITE_NOTIFY ? f.begin : p.now, &f, (__s32)CTX_RC(ctx), -1);
}
MT_PAIR(acl_call)

/* aclrtStreamGetId(stream, int32_t *id) */
#define acl_stream_enter acl_call_enter
static __always_inline void acl_stream_leave(struct pt_regs *ctx, __u32 session)
{
	struct mt_inflight f;
	struct probe p;
	__s32 ret, id = -1;

	if (!probe__start_ret(&p, ctx, session) || !call__take(&p, &f))
		return;
	ret = (__s32)CTX_RC(ctx);
	if (!ret && user_read(&id, sizeof(id), f.a[1])) {
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, -1);
		return;
	}
	f.a[1] = (__u64)(__s64)id;
	emit_call(&p, p.now, &f, ret, -1);
}
MT_PAIR(acl_stream)

/*
 * Names at registration: a[0] = handle or stub, a[1] = text. With
 * MT_SITE_RC_ADDR a[0] is where the callee stores the handle.
 */
#define acl_name_enter acl_call_enter
static __always_inline void acl_name_leave(struct pt_regs *ctx, __u32 session)
{
	struct mt_inflight f;
	struct probe p;
	__s32 ret;

	if (!probe__start_ret(&p, ctx, session) || !call__take(&p, &f))
		return;
	ret = (__s32)CTX_RC(ctx);
	if (!ret && (p.site->flags & MT_SITE_RC_ADDR) && user_u64(f.a[0], &f.a[0])) {
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, -1);
		return;
	}
	EMIT_CALL_TEXT(mt_call_name, &p, p.now, &f, ret, f.a[1]);
}
MT_PAIR(acl_name)

/*
 * Segments of torch_npu's caching allocator: by policy 0, with the 1G setting 6;
 * its workspaces by policy 1 (ascend-abi.md 2.7.5).
 */
static __always_inline void note_segment(struct pt_regs *ctx, struct probe *p)
{
	struct mt_guard *g;

	if (p->site->arg[2] >= 0) {
		__u32 policy = ctx_arg(ctx, p->site->arg[2], p->sp);

		if (policy != 0 && policy != 6)
			return;
	}
	g = guard__mine(p, MT_GUARD_ALLOC);
	if (g)
		g->segment = 1;
}

/*
 * Allocation calls of acl and rt. No record of their own: they only decide
 * whether refused halMemAlloc calls inside were an out-of-memory.
 */
static __always_inline int acl_alloc_enter(struct pt_regs *ctx)
{
	struct probe p;

	/* Not counted as an entry: a call that does not fail is no event. */
	if (!probe__start(&p, ctx))
		return 0;
	if (!guard__only(&p, MT_GUARD_ALLOC))
		return 0;
	if (p.site->flags & MT_SITE_SEGMENT)
		note_segment(ctx, &p);
	return 1;
}

static __always_inline void acl_alloc_leave(struct pt_regs *ctx, __u32 session)
{
	struct mt_inflight f = {};
	struct mt_guard *g;
	struct probe p;
	__s32 ret;

	if (!probe__start_ret(&p, ctx, session))
		return;
	g = guard__mine(&p, MT_GUARD_ALLOC);
	if (!g)
		return;
	ret = (__s32)CTX_RC(ctx);
	if (ret && g->refused) {
		f.begin = p.now;
		f.a[0] = g->size;
		f.a[1] = g->flag;
		f.a[2] = g->refused;
		f.a[3] = g->fn;
		f.a[4] = (__u32)g->device;
		stat_inc(&p, entry);
		emit_call(&p, p.now, &f, ret, g->device);
	}
	guard__drop(&p, MT_GUARD_ALLOC);
}
MT_PAIR(acl_alloc)
