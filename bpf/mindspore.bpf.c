// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * MindSpore's pools (ascend-abi.md 2.10). The type name of the pool object
 * travels with each record: the same functions serve the host pools.
 */
#include "lib/inflight.bpf.h"

#define MS_ALIGN 512

/* Address of the type name: vtable[-1] is the typeinfo, whose second word is it. */
static __always_inline __u64 type_name(__u64 obj)
{
	__u64 vptr, info, name;

	if (user_u64(obj, &vptr) || user_u64(vptr - 8, &info) || user_u64(info + 8, &name))
		return 0;
	return name;
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
	f.a[3] = type_name(ctx_arg(ctx, 0, p.sp));
	inflight__put(&p, &f);
	return 0;
}

SEC("uprobe")
int ms_alloc_r(struct pt_regs *ctx)
{
	struct mt_inflight f;
	struct probe p;
	__u64 rc;

	if (!probe__start(&p, ctx) || !inflight__take(&p, &f))
		return 0;
	rc = CTX_RC(ctx);
	f.a[0] = rc;
	if (p.site->flags & MT_SITE_RC_ADDR) /* the size before alignment (2.10) */
		f.a[1] = f.a[1] ? (f.a[1] + MS_ALIGN - 1) & ~(__u64)(MS_ALIGN - 1) : MS_ALIGN;
	if (rc && !(p.site->flags & MT_SITE_RC_ADDR) &&
	    (user_u64(rc + p.site->off[0], &f.a[1]) || user_u64(rc + p.site->off[1], &f.a[0]))) {
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, -1);
		return 0;
	}
	EMIT_CALL_TEXT(mt_call_name, &p, p.now, &f, rc ? 0 : 1, f.a[3]);
	return 0;
}

/* DoFreeTensorMem(this, void *const &) */
SEC("uprobe")
int ms_free_e(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	stat_inc(&p, entry);
	f.begin = p.now;
	if (user_u64(ctx_arg(ctx, 1, p.sp), &f.a[0])) {
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, -1);
		return 0;
	}
	f.a[3] = type_name(ctx_arg(ctx, 0, p.sp));
	EMIT_CALL_TEXT(mt_call_name, &p, p.now, &f, 0, f.a[3]);
	return 0;
}

/*
 * DoFreePartTensorMems(this, const std::vector<void *> &, …): one record a block.
 * Result by value: on x86-64 its place is the first argument.
 */
#define MS_PART_MAX 64

/*
 * One of the records; 0 = no room. The name of the pool was read once for all: a
 * loop with a read of text and ways to lose in each round takes the verifier a second.
 */
static __always_inline int emit_part(struct probe *p, const struct mt_inflight *f, const char *name,
				     __u32 flags, __u32 len)
{
	struct mt_call_name *r;

	r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	if (!r)
		return 0;
	hdr__fill(&r->c.h, p, MT_REC_CALL, sizeof(*r), p->now);
	r->c.begin = f->begin;
	r->c.ret = 0;
	r->c.a[0] = f->a[0];
	r->c.a[1] = r->c.a[2] = r->c.a[4] = 0;
	r->c.a[3] = f->a[3];
	__builtin_memcpy(r->text, name, sizeof(r->text));
	r->c.h.flags = flags;
	r->c.h.strlen = len;
	/* No choice of wake-up: two ways in each of the rounds are too many for old verifiers. */
	stat_inc(p, submitted);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 1;
}

SEC("uprobe")
int ms_free_part_e(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	__u64 vec, begin = 0, end = 0, n, i;
	char name[MT_NAME_LEN] = {};
	__u64 flags, len, none;
	__u32 reason = MT_LOSS_LENGTH;
	struct probe p;
	long got;

	if (!probe__start(&p, ctx))
		return 0;
	f.begin = p.now;
	vec = ctx_arg(ctx, p.site->arg[1], p.sp);
	if (user_u64(vec, &begin) || user_u64(vec + 8, &end) || end < begin ||
	    end - begin > 1 << 24) {
		stat_inc(&p, entry);
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, -1);
		return 0;
	}
	n = (end - begin) / sizeof(__u64);
	f.a[3] = type_name(ctx_arg(ctx, p.site->arg[0], p.sp));
	/* Without branches: each way into the loop is walked through all of its rounds. */
	if (patch_mode() & MT_MODE_SLEEPABLE)
		got = user_str(name, sizeof(name), f.a[3]);
	else
		got = bpf_probe_read_user_str(name, sizeof(name), (const void *)f.a[3]);
	none = (__u64)got >> 63;
	KEEP(none);
	flags = none * MT_F_NOTEXT | (((__u64)got >> 7) & 1 & ~none) * MT_F_TRUNC;
	KEEP(flags);
	len = (got - 1) & (MT_NAME_LEN - 1) & (none - 1);
	KEEP(len);
	__sync_fetch_and_add(&p.stat->entry, n);
	__sync_fetch_and_add(&p.stat->seen, n);
#pragma clang loop unroll(disable)
	for (i = 0; i < MS_PART_MAX; i++) {
		if (i >= n)
			return 0;
		if (user_u64(begin + i * sizeof(__u64), &f.a[0])) {
			reason = MT_LOSS_FAULT;
			break;
		}
		if (!emit_part(&p, &f, name, flags, len)) {
			reason = MT_LOSS_RING;
			break;
		}
	}
	if (n > i)
		probe__lose_n(&p, reason, -1, n - i);
	return 0;
}
