// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Allocators of the host: malloc and its family in the C library, and in libraries that take
 * their place. A function that calls another one (realloc(NULL, n), a wrapper) counts once.
 */
#include "lib/host.bpf.h"

/*
 * Is it recorded? Probes stay for a moment when a range has closed. since: when the one that is
 * open has been, which tells it from others.
 */
static __always_inline int host__on(struct probe *p, __u64 *since)
{
	struct mt_host_gate *g;

	*since = 0;
	if (p->cfg->host != MT_HOST_RANGES)
		return p->cfg->host == MT_HOST_ALWAYS;
	g = bpf_map_lookup_elem(&host_gates, &p->tgid);
	if (!g)
		return 0;
	*since = g->since;
	return 1;
}

/* As guard__around: a call that a range has left open (its return was not seen) is of no other. */
static __always_inline int host__inside(struct probe *p, __u64 since)
{
	struct mt_guard *g = guard__around(p, MT_GUARD_HOST);

	if (!g || g->size != since)
		return 0;
	return g->sp > p->sp || g->pair != p->site->pair;
}

/* As guard__only. */
static __always_inline int host__outermost(struct probe *p, __u64 since)
{
	if (host__inside(p, since)) {
		stat_inc(p, nested);
		return 0;
	}
	return guard__put(p, MT_GUARD_HOST, since) > 0;
}

static __always_inline void host__emit(struct probe *p, __u64 time, struct mt_inflight *f, int bad,
				       __u64 taken, struct refs *refs)
{
	struct mt_call *c;

	stat_inc(p, seen);
	c = bpf_ringbuf_reserve(&events, sizeof(*c) + REFS_SIZE, 0);
	if (!c) {
		probe__lose(p, MT_LOSS_RING, -1);
		return;
	}
	hdr__fill(&c->h, p, MT_REC_CALL, sizeof(*c), time);
	c->begin = f->begin;
	c->ret = bad ? -1 : 0;
	c->a[0] = f->a[0];
	c->a[1] = f->a[1];
	c->a[2] = p->site->name_kind;
	c->a[3] = taken;
	c->a[4] = 0;
	refs__put_taken(refs, &c->h, sizeof(*c));
	EMIT_SUBMIT(p, c);
}

/* arg[0], arg[1] = size, its factor; arg[2] = block to be resized; arg[3] = place of the result */
static __always_inline int host_alloc_enter(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;
	__u64 since;

	if (!probe__start(&p, ctx) || !host__on(&p, &since) || !host__outermost(&p, since))
		return 0;
	f.a[1] = ctx_arg(ctx, p.site->arg[0], p.sp);
	if (p.site->arg[1] >= 0)
		f.a[1] *= ctx_arg(ctx, p.site->arg[1], p.sp);
	if (p.site->arg[2] >= 0)
		f.a[2] = ctx_arg(ctx, p.site->arg[2], p.sp);
	if (p.site->arg[3] >= 0)
		f.a[3] = ctx_arg(ctx, p.site->arg[3], p.sp);
	inflight__put(&p, &f);
	refs__keep(&p, ctx);
	return 1;
}

static __always_inline void host_alloc_leave(struct pt_regs *ctx, __u32 session)
{
	struct mt_inflight f;
	struct refs refs;
	struct probe p;
	__u64 old;

	if (!probe__start_ret(&p, ctx, session) || !guard__mine(&p, MT_GUARD_HOST))
		return;
	guard__drop(&p, MT_GUARD_HOST);
	if (!inflight__take(&p, &f))
		return;
	refs__take(&p, &refs);
	old = f.a[2];
	f.a[0] = CTX_RC(ctx);
	if (p.site->arg[3] >= 0) { /* posix_memalign: its result is an error number */
		if ((__u32)f.a[0]) {
			f.a[0] = 0;
		} else if (user_u64(f.a[3], &f.a[0])) {
			stat_inc(&p, seen);
			probe__lose(&p, MT_LOSS_FAULT, -1);
			return;
		}
	}
	/* realloc(p, 0) gives p back; where that is so its result is no failure. */
	if (f.a[0] || !old || f.a[1])
		host__emit(&p, p.now, &f, !f.a[0], 0, &refs);
	if (old && (f.a[0] || !f.a[1])) {
		f.a[0] = old;
		f.a[1] = 0;
		host__emit(&p, f.begin, &f, 0, 1, &refs);
	}
}
MT_PAIR(host_alloc)

/* 1 = a block is freed, for which nobody around is counted. */
static __always_inline int host__freed(struct pt_regs *ctx, struct probe *p)
{
	struct mt_inflight f = {};
	struct refs refs;

	f.a[0] = ctx_arg(ctx, p->site->arg[0], p->sp);
	if (!f.a[0])
		return 0; /* free(NULL) frees nothing */
	stat_inc(p, entry);
	f.begin = p->now;
	refs__here(p, ctx, &refs);
	host__emit(p, p->now, &f, 0, 0, &refs);
	return 1;
}

/* arg[0] = address */
SEC("uprobe")
int host_free(struct pt_regs *ctx)
{
	struct probe p;
	__u64 since;

	if (!probe__start(&p, ctx) || !host__on(&p, &since))
		return 0;
	if (host__inside(&p, since)) {
		stat_inc(&p, nested);
		return 0;
	}
	host__freed(ctx, &p);
	return 0;
}

/* In libraries that may hand the block on to the free of the C library. */
static __always_inline int host_wrap_enter(struct pt_regs *ctx)
{
	struct probe p;
	__u64 since;

	if (!probe__start(&p, ctx) || !host__on(&p, &since) || !host__outermost(&p, since))
		return 0;
	host__freed(ctx, &p);
	return 1;
}

static __always_inline void host_wrap_leave(struct pt_regs *ctx, __u32 session)
{
	struct probe p;

	if (probe__start_ret(&p, ctx, session) && guard__mine(&p, MT_GUARD_HOST))
		guard__drop(&p, MT_GUARD_HOST);
}
MT_PAIR(host_wrap)
