// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * MindSpore's pools (ascend-abi.md 2.10). The type name of the pool object
 * travels with each record: the same functions serve the host pools. Exceptions
 * leave these functions: entry probes and `ret` sites only.
 */
#include "lib/mspool.bpf.h"

#define MS_ALIGN 512

/*
 * A list of blocks is cut from one: that is the first allocation inside the call,
 * asked for once. An exception may leave the call: nothing but this takes it back.
 */
static __always_inline int for_a_list(struct probe *p)
{
	if (!guard__around(p, MT_GUARD_MS_LIST))
		return 0;
	guard__drop(p, MT_GUARD_MS_LIST);
	return 1;
}

/* arg[0] = size; the result is the address or a MemBuf * (off[0] size, off[1] address) */
SEC("uprobe")
int ms_alloc_e(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	f.a[1] = ctx_arg(ctx, p.site->arg[0], p.sp);
	f.a[3] = ctx_arg(ctx, 0, p.sp);
	f.a[4] = for_a_list(&p);
	if (f.a[4])
		hold(&p, &f);
	else
		inflight__put(&p, &f);
	refs__keep(&p, ctx);
	return 0;
}

SEC("uprobe")
int ms_alloc_r(struct pt_regs *ctx)
{
	struct mt_inflight f;
	struct probe p;
	__u64 rc, obj;

	if (!probe__start(&p, ctx) || !inflight__take(&p, &f))
		return 0;
	rc = CTX_RC(ctx);
	if (f.a[4]) {
		if (rc) {
			stat_inc(&p, nested);
			return 0;
		}
		stat_inc(&p, entry);
	}
	f.a[0] = rc;
	obj = f.a[3];
	f.a[3] = obj << 8;
	if (p.site->flags & MT_SITE_RC_ADDR) { /* the size before alignment (2.10) */
		f.a[1] = f.a[1] ? (f.a[1] + MS_ALIGN - 1) & ~(__u64)(MS_ALIGN - 1) : MS_ALIGN;
		f.a[3] |= MT_MS_LOOSE;
	}
	if (rc && !(p.site->flags & MT_SITE_RC_ADDR) &&
	    (user_u64(rc + p.site->off[0], &f.a[1]) || user_u64(rc + p.site->off[1], &f.a[0]))) {
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, -1);
		return 0;
	}
	alloc_totals(&p, obj, &f);
	EMIT_CALL_TEXT(mt_call_name, &p, p.now, &f, rc ? 0 : 1, type_name(obj));
	return 0;
}

/*
 * DoFreeTensorMem(this, void *const &): false when the block is not of this pool,
 * or still in use by a stream: then it is freed by another call. FreeTensorMemInner
 * of the older pool returns nothing: the bytes in use tell.
 */
SEC("uprobe")
int ms_free_e(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;
	__u64 obj;

	if (!probe__start(&p, ctx))
		return 0;
	obj = ctx_arg(ctx, 0, p.sp);
	if (user_u64(ctx_arg(ctx, 1, p.sp), &f.a[0])) {
		stat_inc(&p, entry);
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, -1);
		return 0;
	}
	pool_totals(&p, obj, &f);
	f.a[1] = f.a[2];
	f.a[3] = obj;
	f.a[4] = 0;
	inflight__put(&p, &f);
	refs__keep(&p, ctx);
	return 0;
}

SEC("uprobe")
int ms_free_r(struct pt_regs *ctx)
{
	struct mt_inflight f;
	__u64 obj, before;
	struct probe p;
	int rc = 0;

	if (!probe__start(&p, ctx) || !inflight__take(&p, &f))
		return 0;
	obj = f.a[3];
	before = f.a[1];
	f.a[1] = 0;
	f.a[3] = obj << 8;
	pool_totals(&p, obj, &f);
	if (!(p.site->flags & MT_SITE_BESTFIT))
		rc = !(CTX_RC(ctx) & 0xff);
	else if (before && f.a[2])
		rc = before == f.a[2];
	if (guard__around(&p, MT_GUARD_MS_PART))
		f.a[3] |= MT_MS_PART;
	EMIT_CALL_TEXT(mt_call_name, &p, f.begin, &f, rc, type_name(obj));
	return 0;
}

/* KeepTensorMemByAddr(this, void *const &, size) of the older pool: out of what was just freed. */
SEC("uprobe")
int ms_keep_e(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	(void)user_u64(ctx_arg(ctx, 1, p.sp), &f.a[0]);
	f.a[1] = ctx_arg(ctx, 2, p.sp);
	f.a[3] = ctx_arg(ctx, 0, p.sp);
	inflight__put(&p, &f);
	refs__keep(&p, ctx);
	return 0;
}

SEC("uprobe")
int ms_keep_r(struct pt_regs *ctx)
{
	struct mt_inflight f;
	struct probe p;
	__u64 obj;

	if (!probe__start(&p, ctx) || !inflight__take(&p, &f))
		return 0;
	obj = f.a[3];
	f.a[3] = obj << 8;
	pool_totals(&p, obj, &f);
	f.a[4] = 0; /* what is mapped is not asked for here */
	EMIT_CALL_TEXT(mt_call_name, &p, p.now, &f, 0, type_name(obj));
	return 0;
}

/* GetVmmUsedMemSize() at its returns: each allocation asks, behind its growth. */
SEC("uprobe")
int ms_vmm_r(struct pt_regs *ctx)
{
	struct mt_guard g = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	struct mt_guard_key k = { .tid = p.ktid, .class = MT_GUARD_MS_VMM };

	g.sp = p.sp;
	g.size = CTX_RC(ctx);
	g.flag = p.now;
	/* No room: the allocation does not tell what is reserved. */
	(void)bpf_map_update_elem(&guards, &k, &g, BPF_ANY);
	return 0;
}

/* ---- several blocks in one call ---- */

#define MS_LIST_MAX 128

/* Name of a pool, read once for all records of a list. */
struct pool_name {
	char text[MT_NAME_LEN];
	__u32 flags, len;
};

/*
 * Without branches: each way into the loop is walked through all of its rounds, and
 * a read of text with ways to lose in each round takes the verifier a second.
 */
static __always_inline void name__read(struct pool_name *n, __u64 obj)
{
	__u64 at = type_name(obj), none, flags, len;
	long got;

	if (patch_mode() & MT_MODE_SLEEPABLE)
		got = user_str(n->text, sizeof(n->text), at);
	else
		got = bpf_probe_read_user_str(n->text, sizeof(n->text), (const void *)at);
	none = (__u64)got >> 63;
	KEEP(none);
	flags = none * MT_F_NOTEXT | (((__u64)got >> 7) & 1 & ~none) * MT_F_TRUNC;
	KEEP(flags);
	len = (got - 1) & (MT_NAME_LEN - 1) & (none - 1);
	KEEP(len);
	n->flags = flags;
	n->len = len;
}

/* One of the records; 0 = no room. */
static __always_inline int emit_block(struct probe *p, const struct mt_inflight *f,
				      const struct pool_name *name, __u64 fn)
{
	struct mt_call_name *r;

	r = bpf_ringbuf_reserve(&events, sizeof(*r) + REFS_SIZE, 0);
	if (!r)
		return 0;
	hdr__fill(&r->c.h, p, MT_REC_CALL, sizeof(*r), p->now);
	r->c.h.fn = fn;
	r->c.begin = f->begin;
	r->c.ret = 0;
	r->c.a[0] = f->a[0];
	r->c.a[1] = f->a[1];
	r->c.a[2] = f->a[2];
	r->c.a[3] = f->a[3];
	r->c.a[4] = f->a[4];
	__builtin_memcpy(r->text, name->text, sizeof(r->text));
	r->c.h.flags = name->flags;
	r->c.h.strlen = name->len;
	refs__put(p, &r->c.h, sizeof(*r));
	/* No choice of wake-up: two ways in each of the rounds are too many for old verifiers. */
	stat_inc(p, submitted);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 1;
}

/* The same value, of which the verifier knows nothing: for the ways into a loop to be one. */
static __always_inline __u64 forget(const struct probe *p, __u64 v)
{
	v ^= p->now;
	KEEP(v);
	return v ^ p->now;
}

/* Bounds of a std::vector of words; its length, or -1. */
static __always_inline __s64 vector(__u64 at, __u64 *begin)
{
	__u64 end;

	if (user_u64(at, begin) || user_u64(at + 8, &end) || end < *begin || end - *begin > 1 << 24)
		return -1;
	return (end - *begin) / sizeof(__u64);
}

/*
 * AllocContinuousTensorMem(this, const std::vector<size_t> &, stream) returns a
 * std::vector of addresses.
 */
SEC("uprobe")
int ms_list_e(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	f.a[0] = CTX_SRET(ctx);
	f.a[1] = ctx_arg(ctx, SRET + 1, p.sp);
	f.a[3] = ctx_arg(ctx, SRET, p.sp);
	struct mt_guard_key k = { .tid = p.ktid, .class = MT_GUARD_MS_LIST };
	struct mt_guard g = { .sp = p.sp, .pair = p.site->pair };

	/* Without room for it the block is told as a whole, which its frees are not. */
	if (bpf_map_update_elem(&guards, &k, &g, BPF_ANY)) {
		stat_inc(&p, entry);
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_INFLIGHT, -1);
		return 0;
	}
	hold(&p, &f);
	refs__keep(&p, ctx);
	return 0;
}

SEC("uprobe")
int ms_list_r(struct pt_regs *ctx)
{
	__u64 addrs = 0, sizes = 0, obj, i, used, reserved, flags, last;
	struct pool_name name = {};
	struct mt_inflight f;
	__u32 reason = MT_LOSS_LENGTH;
	struct probe p;
	__s64 n;

	if (!probe__start(&p, ctx) || !inflight__take(&p, &f))
		return 0;
	if (guard__mine(&p, MT_GUARD_MS_LIST))
		guard__drop(&p, MT_GUARD_MS_LIST);
	n = vector(f.a[0], &addrs);
	if (!n)
		return 0; /* the allocation inside has failed, and told so */
	obj = f.a[3];
	f.a[3] = 0;
	/* The blocks lie one behind the other: the first address will do. */
	if (n < 0 || vector(f.a[1], &sizes) < n || user_u64(addrs, &f.a[0])) {
		stat_inc(&p, entry);
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, -1);
		return 0;
	}
	alloc_totals(&p, obj, &f);
	used = forget(&p, f.a[2]);
	reserved = forget(&p, f.a[4]);
	/* The pool's lock is released before the return. */
	flags = forget(&p, f.a[3] | MT_MS_LOOSE);
	name__read(&name, obj);
	__sync_fetch_and_add(&p.stat->entry, n);
	__sync_fetch_and_add(&p.stat->seen, n);
#pragma clang loop unroll(disable)
	for (i = 0; i < MS_LIST_MAX; i++) {
		if (i >= (__u64)n)
			return 0;
		if (user_u64(sizes + i * sizeof(__u64), &f.a[1])) {
			reason = MT_LOSS_FAULT;
			break;
		}
		/* The last one tells the totals, those of all. Without a branch, as above. */
		last = 0 - (((i + 1 ^ (__u64)n) - 1) >> 63);
		KEEP(last);
		f.a[2] = used & last;
		f.a[4] = reserved & last;
		f.a[3] = obj << 8 | (flags & last);
		if (!emit_block(&p, &f, &name, MT_FN_MS_ALLOC)) {
			reason = MT_LOSS_RING;
			break;
		}
		f.a[0] += f.a[1];
	}
	if ((__u64)n > i)
		probe__lose_n(&p, reason, -1, n - i);
	return 0;
}

/*
 * DoFreePartTensorMems(this, free, keep, sizes) cuts out of the blocks of one list what
 * is to be kept, frees the pieces by DoFreeTensorMem and returns what it has kept as a
 * std::vector of MemBuf *.
 */
SEC("uprobe")
int ms_part_e(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	f.a[0] = CTX_SRET(ctx);
	f.a[3] = ctx_arg(ctx, SRET, p.sp);
	struct mt_guard_key k = { .tid = p.ktid, .class = MT_GUARD_MS_PART };
	struct mt_guard g = { .sp = p.sp, .pair = p.site->pair };

	if (bpf_map_update_elem(&guards, &k, &g, BPF_ANY)) {
		stat_inc(&p, entry);
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_INFLIGHT, -1);
		return 0;
	}
	hold(&p, &f);
	refs__keep(&p, ctx);
	return 0;
}

SEC("uprobe")
int ms_part_r(struct pt_regs *ctx)
{
	struct pool_name name = {};
	__u64 bufs = 0, buf, obj, i;
	__u32 reason = MT_LOSS_LENGTH;
	struct mt_inflight f;
	struct probe p;
	__s64 n;

	if (!probe__start(&p, ctx) || !inflight__take(&p, &f))
		return 0;
	if (guard__mine(&p, MT_GUARD_MS_PART))
		guard__drop(&p, MT_GUARD_MS_PART);
	n = vector(f.a[0], &bufs);
	obj = f.a[3];
	f.a[3] = obj << 8 | MT_MS_PART;
	f.a[2] = f.a[4] = 0;
	name__read(&name, obj);
	if (n < 0) {
		n = 1;
		bufs = 0; /* no such vector: the first read fails, and is told so */
	}
	/* One for each kept part, one for the end. */
	__sync_fetch_and_add(&p.stat->entry, n + 1);
	__sync_fetch_and_add(&p.stat->seen, n + 1);
#pragma clang loop unroll(disable)
	for (i = 0; i < MS_LIST_MAX; i++) {
		if (i >= (__u64)n)
			break;
		if (user_u64(bufs + i * sizeof(__u64), &buf) ||
		    user_u64(buf + p.site->off[0], &f.a[1]) ||
		    user_u64(buf + p.site->off[1], &f.a[0])) {
			reason = MT_LOSS_FAULT;
			break;
		}
		if (!emit_block(&p, &f, &name, MT_FN_MS_KEEP)) {
			reason = MT_LOSS_RING;
			break;
		}
	}
	if ((__u64)n > i)
		probe__lose_n(&p, reason, -1, n - i);
	f.a[0] = f.a[1] = 0;
	pool_totals(&p, obj, &f);
	if (!emit_block(&p, &f, &name, MT_FN_MS_PART))
		probe__lose(&p, MT_LOSS_RING, -1);
	return 0;
}
