// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Driver library: device and pinned memory (spec ascend-abi.md 2.5). */
#include "lib/inflight.bpf.h"

#define DRV_OUT_OF_MEMORY 6 /* drvError_t, cann-driver ascend_hal_error.h */

/*
 * A refusal inside an acl or rt allocation call is not yet an out-of-memory:
 * the runtime retries with normal pages (ascend-abi.md 1.3). It is noted at
 * the enclosing call, which reports it if it fails too; without one, the
 * record of the refused call says so (a[0] = MT_REFUSED_ALONE).
 */
static __always_inline void note_refusal(struct probe *p, struct mt_inflight *f, __u64 flag,
					 __s32 device)
{
	struct mt_guard *g = guard__around(p, MT_GUARD_ALLOC);

	if (!g) {
		f->a[0] = MT_REFUSED_ALONE;
		return;
	}
	f->a[0] = 0;
	g->refused++;
	g->size = f->a[1];
	g->flag = flag;
	g->device = device;
	g->fn = p->site->fn;
	refs__refused(p, g);
}

/* What the calls around it say of an allocation: bits of a[4]. */
static __always_inline __u64 said_around(struct probe *p)
{
	struct mt_guard *g = guard__around(p, MT_GUARD_ALLOC), *s;
	__u64 said = g && g->segment ? MT_HAL_SEGMENT : 0;

	/* The runtime allocates for a device before it is the thread's. */
	s = guard__around(p, MT_GUARD_CALL + MT_FN_SET_DEVICE);
	if (s && (__u32)s->device < MT_HAL_SETTING_MAX)
		said |= ((__u64)(__u32)s->device + 1) << MT_HAL_SETTING;
	return said;
}

static __always_inline int hal_alloc_enter(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	f.a[0] = ctx_arg(ctx, 0, p.sp);
	f.a[1] = ctx_arg(ctx, 1, p.sp);
	f.a[2] = ctx_arg(ctx, 2, p.sp);
	inflight__put(&p, &f);
	refs__keep(&p, ctx);
	return 1;
}

static __always_inline void hal_alloc_leave(struct pt_regs *ctx, __u32 session)
{
	struct mt_inflight f;
	struct probe p;
	__s32 ret, dev;

	if (!probe__start_ret(&p, ctx, session) || !inflight__take(&p, &f))
		return;
	ret = (__s32)CTX_RC(ctx);
	dev = f.a[2] & 0x3ff;
	if (ret == DRV_OUT_OF_MEMORY) {
		note_refusal(&p, &f, f.a[2], dev);
	} else if (ret) {
		f.a[0] = 0;
	} else if (user_u64(f.a[0], &f.a[0])) {
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, dev);
		return;
	} else {
		f.a[4] = said_around(&p);
	}
	emit_call(&p, p.now, &f, ret, dev);
}
MT_PAIR(hal_alloc)

/* halMemCreate(handle **, size, const struct drv_mem_prop *, flag) */
static __always_inline int hal_create_enter(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	__u32 prop[5] = {}; /* side, devid, module_id, pg_type, mem_type */
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	f.a[0] = ctx_arg(ctx, 0, p.sp);
	f.a[1] = ctx_arg(ctx, 1, p.sp);
	/* Unreadable properties leave device and owner unknown, not the event lost. */
	if (user_read(prop, sizeof(prop), ctx_arg(ctx, 2, p.sp)))
		prop[1] = prop[2] = ~0u;
	f.a[2] = prop[0] | (__u64)prop[1] << 32;
	f.a[3] = prop[2] | (__u64)prop[3] << 32;
	f.a[4] = prop[4];
	inflight__put(&p, &f);
	refs__keep(&p, ctx);
	return 1;
}

static __always_inline void hal_create_leave(struct pt_regs *ctx, __u32 session)
{
	struct mt_inflight f;
	struct probe p;
	__s32 ret, dev;

	if (!probe__start_ret(&p, ctx, session) || !inflight__take(&p, &f))
		return;
	ret = (__s32)CTX_RC(ctx);
	dev = (__s32)(f.a[2] >> 32);
	if (ret == DRV_OUT_OF_MEMORY) {
		note_refusal(&p, &f, f.a[2] >> 32, dev);
	} else if (ret) {
		f.a[0] = 0;
	} else if (user_u64(f.a[0], &f.a[0])) {
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, dev);
		return;
	} else {
		f.a[4] |= said_around(&p);
	}
	emit_call(&p, p.now, &f, ret, dev);
}
MT_PAIR(hal_create)

/* halMemFree(void *), halMemRelease(handle *): the time is that of the entry. */
static __always_inline int hal_free_enter(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	f.a[0] = ctx_arg(ctx, 0, p.sp);
	inflight__put(&p, &f);
	refs__keep(&p, ctx);
	return 1;
}

static __always_inline void hal_free_leave(struct pt_regs *ctx, __u32 session)
{
	struct mt_inflight f;
	struct probe p;

	if (!probe__start_ret(&p, ctx, session) || !inflight__take(&p, &f))
		return;
	emit_call(&p, f.begin, &f, (__s32)CTX_RC(ctx), -1);
}
MT_PAIR(hal_free)
