/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records into the ring; every one that cannot be written is counted. */
#ifndef MEMTAP_EMIT_BPF_H
#define MEMTAP_EMIT_BPF_H

#include "refs.bpf.h"

/*
 * A due record has no room or no data. Adds to `losses` on this CPU; an atomic
 * add although the value is per CPU: programs are preemptible since 6.0, a
 * second probe can run here in between. The target chooses the device: one that no
 * host has is none, or the table would fill with them.
 */
static __always_inline void probe__lose_n(struct probe *p, __u16 reason, __s32 device, __u64 n)
{
	struct mt_loss_key k = { .site = p->site_no,
				 .reason = reason,
				 .device = (__u32)device < MT_LOSS_DEVICES ? device : -1 };
	struct mt_loss_val fresh = {}, *v;

	__sync_fetch_and_add(&p->stat->lost, n);
	v = bpf_map_lookup_elem(&losses, &k);
	if (!v) {
		bpf_map_update_elem(&losses, &k, &fresh, BPF_NOEXIST);
		v = bpf_map_lookup_elem(&losses, &k);
		if (!v)
			return; /* still in stat->lost: told as "not listed" */
	}
	if (!v->first)
		v->first = p->now;
	v->last = p->now;
	__sync_fetch_and_add(&v->count, n);
}

static __always_inline void probe__lose(struct probe *p, __u16 reason, __s32 device)
{
	probe__lose_n(p, reason, device, 1);
}

static __always_inline void hdr__fill(struct mt_hdr *h, struct probe *p, __u8 type, __u16 size,
				      __u64 time)
{
	h->size = size;
	h->type = type;
	h->flags = 0;
	h->cpu = bpf_get_smp_processor_id();
	h->site = p->site_no;
	h->tgid = p->tgid;
	h->tid = p->tid;
	h->start = p->start;
	h->fn = p->site->fn;
	h->strlen = 0;
	h->time = time;
}

/* The reader drains by timer; wake it early only when much is waiting. */
static __always_inline __u64 wake_flag(struct probe *p)
{
	return bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= p->cfg->wake_bytes
		       ? BPF_RB_FORCE_WAKEUP
		       : BPF_RB_NO_WAKEUP;
}

#define EMIT_SUBMIT(p, rec)                              \
	do {                                             \
		stat_inc(p, submitted);                  \
		bpf_ringbuf_submit((rec), wake_flag(p)); \
	} while (0)

/* A finished call without text. */
static __always_inline void emit_call(struct probe *p, __u64 time, const struct mt_inflight *f,
				      __s64 ret, __s32 device)
{
	struct mt_call *c;

	stat_inc(p, seen);
	c = bpf_ringbuf_reserve(&events, sizeof(*c) + REFS_SIZE, 0);
	if (!c) {
		probe__lose(p, MT_LOSS_RING, device);
		return;
	}
	hdr__fill(&c->h, p, MT_REC_CALL, sizeof(*c), time);
	c->begin = f->begin;
	c->ret = ret;
	c->a[0] = f->a[0];
	c->a[1] = f->a[1];
	c->a[2] = f->a[2];
	c->a[3] = f->a[3];
	c->a[4] = f->a[4];
	refs__put(p, &c->h, sizeof(*c));
	EMIT_SUBMIT(p, c);
}

/*
 * Text at `addr` into a record of type T (mt_call_name or mt_call_msg). It is read
 * before there is a record, which must not wait for it (user_str).
 */
#define EMIT_CALL_TEXT(T, p, time, f, rc, addr)                                        \
	do {                                                                           \
		char text_[sizeof(((struct T *)0)->text)] __attribute__((aligned(8))); \
		__u64 addr_ = (addr);                                                  \
		struct T *r_;                                                          \
		long n_;                                                               \
		stat_inc(p, seen);                                                     \
		n_ = addr_ ? user_str(text_, sizeof(text_), addr_) : -1;               \
		r_ = bpf_ringbuf_reserve(&events, sizeof(*r_) + REFS_SIZE, 0);         \
		if (!r_) {                                                             \
			probe__lose(p, MT_LOSS_RING, -1);                              \
			break;                                                         \
		}                                                                      \
		hdr__fill(&r_->c.h, p, MT_REC_CALL, sizeof(*r_), time);                \
		r_->c.begin = (f)->begin;                                              \
		r_->c.ret = (rc);                                                      \
		r_->c.a[0] = (f)->a[0];                                                \
		r_->c.a[1] = (f)->a[1];                                                \
		r_->c.a[2] = (f)->a[2];                                                \
		r_->c.a[3] = (f)->a[3];                                                \
		r_->c.a[4] = (f)->a[4];                                                \
		if (n_ < 0)                                                            \
			r_->c.h.flags |= MT_F_NOTEXT;                                  \
		else                                                                   \
			__builtin_memcpy(r_->text, text_, sizeof(r_->text));           \
		if (n_ == sizeof(r_->text))                                            \
			r_->c.h.flags |= MT_F_TRUNC;                                   \
		r_->c.h.strlen = n_ > 0 ? n_ - 1 : 0;                                  \
		refs__put(p, &r_->c.h, sizeof(*r_));                                   \
		EMIT_SUBMIT(p, r_);                                                    \
	} while (0)

#endif
