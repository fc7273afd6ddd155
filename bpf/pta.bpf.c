// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * torch_npu's caching allocator. Exceptions leave these functions, so entry
 * probes and `ret` sites only, never a uretprobe (ascend-abi.md 0.2, 2.7).
 */
#include "lib/inflight.bpf.h"

/* reportMemoryDataToNpuProfiler(const MemoryUsage &): 56 bytes, decoded outside. */
SEC("uprobe")
int pta_report(struct pt_regs *ctx)
{
	__u64 usage[7];
	struct mt_pta *r;
	struct refs refs;
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	stat_inc(&p, entry);
	stat_inc(&p, seen);
	/* Before there is a record, which must not wait for a page (user_str). */
	if (user_read(usage, sizeof(usage), ctx_arg(ctx, 0, p.sp))) {
		probe__lose(&p, MT_LOSS_FAULT, -1);
		return 0;
	}
	refs__here(&p, ctx, &refs);
	r = bpf_ringbuf_reserve(&events, sizeof(*r) + REFS_SIZE, 0);
	if (!r) {
		probe__lose(&p, MT_LOSS_RING, (__s8)(usage[0] >> 8));
		return 0;
	}
	hdr__fill(&r->h, &p, MT_REC_PTA, sizeof(*r), p.now);
	__builtin_memcpy(r->raw, usage, sizeof(usage));
	refs__put_taken(&refs, &r->h, sizeof(*r));
	EMIT_SUBMIT(&p, r);
	return 0;
}

/* c10::reportMemoryUsageToProfiler(void *, i64, size_t, size_t, Device), 2.7.4 */
SEC("uprobe")
int c10_report(struct pt_regs *ctx)
{
	struct mt_pta *r;
	struct refs refs;
	struct probe p;
	__u64 dev;

	if (!probe__start(&p, ctx))
		return 0;
	dev = ctx_arg(ctx, 4, p.sp);
	if ((dev & 0xff) != p.site->off[0]) /* CUDA and CPU use the function too */
		return 0;
	stat_inc(&p, entry);
	stat_inc(&p, seen);
	refs__here(&p, ctx, &refs);
	r = bpf_ringbuf_reserve(&events, sizeof(*r) + REFS_SIZE, 0);
	if (!r) {
		probe__lose(&p, MT_LOSS_RING, (__s8)(dev >> 8));
		return 0;
	}
	hdr__fill(&r->h, &p, MT_REC_PTA, sizeof(*r), p.now);
	r->raw[0] = dev;
	r->raw[1] = dev >> 8;
	r->raw[2] = r->raw[3] = r->raw[4] = 0xff;
	r->raw[5] = r->raw[6] = r->raw[7] = 0;
	r->ptr = ctx_arg(ctx, 0, p.sp);
	r->size = ctx_arg(ctx, 1, p.sp);
	r->allocated = ctx_arg(ctx, 2, p.sp);
	r->reserved = ctx_arg(ctx, 3, p.sp);
	r->active = 0;
	r->stream = 0;
	refs__put_taken(&refs, &r->h, sizeof(*r));
	EMIT_SUBMIT(&p, r);
	return 0;
}

/*
 * Fall-back: DeviceCachingAllocator::malloc(this, device, size, stream, type)
 * returns a Block *; off[0] = ptr, off[1] = size in Block, off[2], off[3] =
 * current allocated and reserved bytes in the allocator. The allocator's mutex
 * is released before the `ret`, so the totals may be younger than the block.
 */
SEC("uprobe")
int pta_alloc_e(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	f.a[3] = ctx_arg(ctx, 0, p.sp);
	f.a[2] = (__u32)ctx_arg(ctx, 1, p.sp);
	inflight__put(&p, &f);
	refs__keep(&p, ctx);
	return 0;
}

SEC("uprobe")
int pta_alloc_r(struct pt_regs *ctx)
{
	struct mt_inflight f;
	struct probe p;
	__u64 block;

	if (!probe__start(&p, ctx) || !inflight__take(&p, &f))
		return 0;
	block = CTX_RC(ctx);
	if (user_u64(block + p.site->off[0], &f.a[0]) ||
	    user_u64(block + p.site->off[1], &f.a[1])) {
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, (__s32)f.a[2]);
		return 0;
	}
	if (user_u64(f.a[3] + p.site->off[3], &f.a[4]) ||
	    user_u64(f.a[3] + p.site->off[2], &f.a[3]))
		f.a[3] = f.a[4] = 0;
	emit_call(&p, p.now, &f, 0, (__s32)f.a[2]);
	return 0;
}

/* DeviceCachingAllocator::free(this, Block *, type) */
SEC("uprobe")
int pta_free_e(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;
	__u64 block;
	__s32 dev = -1;

	if (!probe__start(&p, ctx))
		return 0;
	stat_inc(&p, entry);
	f.begin = p.now;
	refs__keep(&p, ctx);
	f.a[3] = ctx_arg(ctx, 0, p.sp);
	block = ctx_arg(ctx, 1, p.sp);
	if (user_read(&dev, sizeof(dev), block) || user_u64(block + p.site->off[0], &f.a[0]) ||
	    user_u64(block + p.site->off[1], &f.a[1])) {
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_FAULT, dev);
		return 0;
	}
	f.a[2] = (__u32)dev;
	if (user_u64(f.a[3] + p.site->off[3], &f.a[4]) ||
	    user_u64(f.a[3] + p.site->off[2], &f.a[3]))
		f.a[3] = f.a[4] = 0;
	emit_call(&p, p.now, &f, 0, dev);
	return 0;
}
