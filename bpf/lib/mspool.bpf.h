/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* MindSpore's pool objects: their type names, and what they count (ascend-abi.md 2.10). */
#ifndef MEMTAP_MSPOOL_BPF_H
#define MEMTAP_MSPOOL_BPF_H

#include "inflight.bpf.h"

/* Methods that return an object: on x86-64 its place is the first argument, on arm64 x8. */
#if defined(__TARGET_ARCH_x86)
#define SRET 1
#define CTX_SRET(ctx) ((ctx)->di)
#else
#define SRET 0
#define CTX_SRET(ctx) (((const volatile struct user_pt_regs *)(ctx))->regs[8])
#endif

/* Address of the type name: vtable[-1] is the typeinfo, whose second word is it. */
static __always_inline __u64 type_name(__u64 obj)
{
	__u64 vptr, info, name;

	if (user_u64(obj, &vptr) || user_u64(vptr - 8, &info) || user_u64(info + 8, &name))
		return 0;
	return name;
}

/* Adds the words that one statistics object has at the places that the site names. */
static __always_inline int add_stat(struct probe *p, __u64 obj, __u32 off, __u64 *used,
				    __u64 *reserved)
{
	__u64 stat, v;

	if (user_u64(obj + off, &stat) || user_u64(stat + 8 * (__u64)p->site->arg[1], &v))
		return -1;
	*used += v;
	if (p->site->arg[2] >= 0) {
		if (user_u64(stat + 8 * (__u64)p->site->arg[2], &v))
			return -1;
		*reserved += v;
	}
	if (p->site->arg[3] >= 0) {
		if (user_u64(stat + 8 * (__u64)p->site->arg[3], &v))
			return -1;
		*reserved += v;
	}
	return 0;
}

/*
 * What the pool says of itself, each plus one, 0 = not told: a[2] bytes in use,
 * a[4] bytes reserved. off[2], off[3]: where the pool has its statistics.
 */
static __always_inline void pool_totals(struct probe *p, __u64 obj, struct mt_inflight *f)
{
	__u64 used = 0, reserved = 0;

	f->a[2] = f->a[4] = 0;
	if (!p->site->off[2] || add_stat(p, obj, p->site->off[2], &used, &reserved))
		return;
	if (p->site->off[3] && add_stat(p, obj, p->site->off[3], &used, &reserved))
		return;
	f->a[2] = used + 1;
	if (p->site->arg[2] >= 0)
		f->a[4] = reserved + 1;
}

/*
 * The same behind an allocation, which asks how much is mapped of the pool's address
 * range: 0 when it has none. Without the question nothing is known of what is reserved:
 * the pool counts the whole range.
 */
static __always_inline void alloc_totals(struct probe *p, __u64 obj, struct mt_inflight *f)
{
	struct mt_guard_key k = { .tid = p->ktid, .class = MT_GUARD_MS_VMM };
	struct mt_guard *g = bpf_map_lookup_elem(&guards, &k);
	__u64 stat, more = 0;

	pool_totals(p, obj, f);
	if (!g || g->flag < f->begin || g->sp > p->sp) {
		f->a[4] = 0;
		return;
	}
	if (!g->size)
		return;
	f->a[4] = 0;
	/* What does not come from the range is besides. */
	if (p->site->off[2] && p->site->arg[3] >= 0 &&
	    (user_u64(obj + p->site->off[2], &stat) ||
	     user_u64(stat + 8 * (__u64)p->site->arg[3], &more)))
		return;
	f->a[4] = g->size + more + 1;
	f->a[3] |= MT_MS_VMM;
}

/* In-flight state of what is no event by itself. */
static __always_inline void hold(struct probe *p, struct mt_inflight *f)
{
	struct mt_inflight_key k = { .tid = p->ktid, .pair = p->site->pair, .sp = p->sp };

	f->begin = p->now;
	if (!bpf_map_update_elem(&inflight, &k, f, BPF_ANY))
		return;
	stat_inc(p, entry);
	stat_inc(p, seen);
	probe__lose(p, MT_LOSS_INFLIGHT, -1);
}

#endif
