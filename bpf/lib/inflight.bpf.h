/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls between their entry and their return. Keyed by thread, function and
 * the stack pointer at entry, which the return recomputes: the driver calls
 * halMemAlloc inside halMemAlloc, and a thread slot would lose the outer one.
 */
#ifndef MEMTAP_INFLIGHT_BPF_H
#define MEMTAP_INFLIGHT_BPF_H

#include "emit.bpf.h"

static __always_inline void inflight__put(struct probe *p, struct mt_inflight *f)
{
	struct mt_inflight_key k = { .tid = p->ktid, .pair = p->site->pair, .sp = p->sp };

	f->begin = p->now;
	stat_inc(p, entry);
	if (!bpf_map_update_elem(&inflight, &k, f, BPF_NOEXIST))
		return;
	/* Either full, or a call that never returned here (longjmp, thread death). */
	if (!bpf_map_update_elem(&inflight, &k, f, BPF_EXIST)) {
		stat_inc(p, stale);
		return;
	}
	stat_inc(p, seen);
	probe__lose(p, MT_LOSS_INFLIGHT, -1);
}

/*
 * State of the call that returns now, removed. 0 when there is none: it began
 * before the attach (counted as orphan), or its entry was lost.
 */
static __always_inline int inflight__take(struct probe *p, struct mt_inflight *out)
{
	struct mt_inflight_key k = { .tid = p->ktid, .pair = p->site->pair, .sp = p->sp };
	struct mt_inflight *f = bpf_map_lookup_elem(&inflight, &k);

	if (!f) {
		stat_inc(p, orphan);
		return 0;
	}
	*out = *f;
	bpf_map_delete_elem(&inflight, &k);
	return 1;
}

/* Ours is the open call of the class. 1; -1 = no room, and the loss is counted. */
static __always_inline int guard__put(struct probe *p, __u32 class, __u64 size)
{
	struct mt_guard_key k = { .tid = p->ktid, .class = class };
	struct mt_guard fresh = { .sp = p->sp, .pair = p->site->pair, .size = size };

	if (!bpf_map_update_elem(&guards, &k, &fresh, BPF_ANY))
		return 1;
	stat_inc(p, entry);
	stat_inc(p, seen);
	probe__lose(p, MT_LOSS_INFLIGHT, -1);
	return -1;
}

/*
 * Outermost call of a class on this thread. The stack grows down: an open call
 * whose entry lies above ours encloses us; one below or at our place cannot
 * be open any more, its return was missed. A tail call has the same place and
 * another function: still enclosed. 1 = go on; 0 = enclosed; -1 = no room, and
 * the loss is counted.
 */
static __always_inline int guard__enter(struct probe *p, __u32 class)
{
	struct mt_guard_key k = { .tid = p->ktid, .class = class };
	struct mt_guard *g = bpf_map_lookup_elem(&guards, &k);

	if (g && (g->sp > p->sp || (g->sp == p->sp && g->pair != p->site->pair)))
		return 0;
	return guard__put(p, class, 0);
}

/* 1 = the outermost call, go on. An enclosed one is counted and is no event. */
static __always_inline int guard__only(struct probe *p, __u32 class)
{
	int r = guard__enter(p, class);

	if (!r)
		stat_inc(p, nested);
	return r > 0;
}

/* The guard if it is ours, to be removed with guard__drop. */
static __always_inline struct mt_guard *guard__mine(struct probe *p, __u32 class)
{
	struct mt_guard_key k = { .tid = p->ktid, .class = class };
	struct mt_guard *g = bpf_map_lookup_elem(&guards, &k);

	return g && g->sp == p->sp && g->pair == p->site->pair ? g : 0;
}

static __always_inline void guard__drop(struct probe *p, __u32 class)
{
	struct mt_guard_key k = { .tid = p->ktid, .class = class };

	bpf_map_delete_elem(&guards, &k);
}

/* An open call of the class that encloses this one. */
static __always_inline struct mt_guard *guard__around(struct probe *p, __u32 class)
{
	struct mt_guard_key k = { .tid = p->ktid, .class = class };
	struct mt_guard *g = bpf_map_lookup_elem(&guards, &k);

	return g && g->sp >= p->sp ? g : 0;
}

/*
 * Session programs (6.13): one program, one link and one filter for both ends;
 * an entry that returns 1 spares the return trap.
 */
extern bool bpf_session_is_return(void) __ksym __weak;

#define MT_PAIR(name)                             \
	SEC("uprobe")                             \
	int name##_e(struct pt_regs *ctx)         \
	{                                         \
		name##_enter(ctx);                \
		return 0;                         \
	}                                         \
	SEC("uprobe")                             \
	int name##_r(struct pt_regs *ctx)         \
	{                                         \
		name##_leave(ctx, 0);             \
		return 0;                         \
	}                                         \
	SEC("?uprobe")                            \
	int name##_s(struct pt_regs *ctx)         \
	{                                         \
		if (bpf_session_is_return()) {    \
			name##_leave(ctx, 1);     \
			return 0;                 \
		}                                 \
		return name##_enter(ctx) ? 0 : 1; \
	}

#endif
