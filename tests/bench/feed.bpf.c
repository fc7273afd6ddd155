// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Synthetic records into the ring of a running memtap, as its own programs
 * would write them. Run by BPF_PROG_TEST_RUN, many times a system call.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <memtap/event.h>

#include "feed.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* memtap's is put here */
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MT_MAX_SITES);
	__type(key, __u32);
	__type(value, struct mt_site_stat);
} stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct feed);
} feed_state SEC(".maps");

static __always_inline void fill(struct mt_hdr *h, struct feed *f, __u8 type, __u16 size, __u32 site,
				 __u16 fn)
{
	struct mt_site_stat *st = bpf_map_lookup_elem(&stats, &site);

	if (st) {
		st->entry++;
		st->seen++;
		st->submitted++;
	}
	h->size = size;
	h->type = type;
	h->flags = 0;
	h->cpu = bpf_get_smp_processor_id();
	h->site = site;
	h->tgid = f->tgid;
	h->tid = f->tid;
	h->start = f->start;
	h->fn = fn;
	h->strlen = 0;
	h->time = bpf_ktime_get_boot_ns();
	f->sent++;
}

/* Layout C: component, type. A block lives for LIVE others; then free, then back in the pool. */
static __always_inline int pta(struct feed *f, __u8 component, __u8 type)
{
	struct mt_pta *r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	__u64 i;

	if (!r)
		return 1;
	i = type == 0 ? f->mallocs++ + FEED_LIVE : type == 1 ? f->frees++ : f->frees;
	fill(&r->h, f, MT_REC_PTA, sizeof(*r), f->site_pta, MT_FN_PTA_REPORT);
	r->raw[0] = 20;
	r->raw[1] = 0;
	r->raw[2] = component;
	r->raw[3] = type;
	r->raw[4] = r->raw[5] = r->raw[6] = r->raw[7] = 0;
	r->ptr = 0x12c000000000ULL + (i % (2 * FEED_LIVE)) * 1048576;
	r->size = (i % 64 + 1) * 512;
	if (type)
		r->size = -r->size;
	/* As a pool in use: used changes, reserved hardly ever. */
	r->allocated = (1ULL << 30) + (f->sent % 4096) * 512;
	r->reserved = 2ULL << 30;
	r->active = r->allocated;
	r->stream = 0x55aa0000;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int launch(struct feed *f)
{
	struct mt_call_name *r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);

	if (!r)
		return 1;
	fill(&r->c.h, f, MT_REC_CALL, sizeof(*r), f->site_launch, MT_FN_LAUNCH);
	r->c.begin = r->c.h.time;
	r->c.ret = 0;
	r->c.a[0] = 0x7f0000001000ULL;
	r->c.a[1] = 0x55aa0000;
	r->c.a[2] = 0;
	r->c.a[3] = MT_NAME_HANDLE;
	r->c.a[4] = 0;
	__builtin_memcpy(r->text, "MatMulV2_6c1fd4e8a37_high_performance", 38);
	r->c.h.strlen = 37;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int hal(struct feed *f)
{
	struct mt_call *r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	__u64 i = f->hal++;

	if (!r)
		return 1;
	fill(&r->h, f, MT_REC_CALL, sizeof(*r), i & 1 ? f->site_free : f->site_alloc,
	     i & 1 ? MT_FN_HAL_FREE : MT_FN_HAL_ALLOC);
	r->begin = r->h.time;
	r->ret = 0;
	r->a[0] = 0x12d000000000ULL + (i >> 1) % 64 * 2097152;
	r->a[1] = i & 1 ? 0 : 2097152;
	r->a[2] = i & 1 ? 0 : 3ULL << 56;
	r->a[3] = r->a[4] = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int one(struct feed *f, __u32 i)
{
	__u8 ws = f->mode == FEED_WORKSPACE;

	if (f->mode != FEED_MIX) /* rows only: every record is one */
		return pta(f, ws, i & 1);
	if (i == 31)
		return hal(f);
	if (i % 5 == 4)
		return launch(f);
	return pta(f, 0, i % 5 == 3 ? i / 5 % 2 : i % 5);
}

SEC("socket")
int feed_run(void *ctx)
{
	__u32 zero = 0, i;
	struct feed *f = bpf_map_lookup_elem(&feed_state, &zero);

	if (!f)
		return 0;
	for (i = 0; i < FEED_BATCH; i++) {
		if (one(f, i)) {
			f->full++;
			break;
		}
	}
	return 0;
}

SEC("socket")
int feed_level(void *ctx)
{
	return bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
