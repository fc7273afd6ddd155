/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies of stacks whose walk has ended for a reason that user space can mend: the first
 * frame's registers and the stack above them, once for each such stack, page by page.
 *
 * A piece is read right into its place in the ring: nothing that a preempted program would
 * share. Only what is resident is read, for a reservation must not wait (user_str). Who
 * includes this gives uw_here() first: the walk of this program.
 */
#ifndef MEMTAP_STACK_COPY_BPF_H
#define MEMTAP_STACK_COPY_BPF_H

#include "stack_maps.bpf.h"

/* Bytes that were copied in a second. */
struct uw_rate {
	__u64 second, bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32); /* tgid */
	__type(value, struct uw_rate);
} uw_rates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct uw_rate);
} uw_rate_all SEC(".maps");

/* By enum mt_copy_count. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MT_COPY_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} uw_copies SEC(".maps");

static __always_inline void copy_count(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&uw_copies, &what);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/* Two threads at the turn of a second may both begin it: the bound is not an account. */
static __always_inline int rate_has(struct uw_rate *r, __u64 now, __u64 bytes, __u64 limit)
{
	__u64 second = now >> 30;

	if (r->second != second) {
		r->second = second;
		r->bytes = 0;
	}
	return r->bytes + bytes <= limit;
}

/* 1: it may be copied, and is paid for. */
static __always_inline int copy_allowed(struct mt_uw *u, struct mt_cfg *c)
{
	__u64 bytes = c->stack_bytes, now = u->rec.h.time;
	__u32 zero = 0, tgid = u->rec.h.tgid;
	struct uw_rate *all = bpf_map_lookup_elem(&uw_rate_all, &zero), *own, fresh = {};

	own = bpf_map_lookup_elem(&uw_rates, &tgid);
	if (!own) {
		bpf_map_update_elem(&uw_rates, &tgid, &fresh, BPF_NOEXIST);
		own = bpf_map_lookup_elem(&uw_rates, &tgid);
	}
	if (!all || !own || !rate_has(own, now, bytes, c->copy_rate) ||
	    !rate_has(all, now, bytes, 2 * c->copy_rate)) {
		copy_count(MT_COPY_BUDGET);
		return 0;
	}
	/* Events come first: what makes the reader wake up early is theirs. */
	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= c->wake_bytes) {
		copy_count(MT_COPY_RING);
		return 0;
	}
	__sync_fetch_and_add(&own->bytes, bytes);
	__sync_fetch_and_add(&all->bytes, bytes);
	return 1;
}

static __always_inline int copy_can_mend(__u32 end)
{
	return end == MT_END_NOMAP || end == MT_END_NOTABLE || end == MT_END_NOROW ||
	       end == MT_END_RULE || end == MT_END_REG || end == MT_END_NOPROC;
}

/*
 * Of a stack that is cut and hashed: is it to be copied? Then its hash also tells this
 * situation from all others, for what stands above the cut is not in it: thread, stack
 * pointer, some words above the last frame. What code is at an address of no known mapping
 * nothing here tells at all: such a stack is its event's alone.
 */
static __always_inline void copy_decide(struct mt_uw *u)
{
	__u32 zero = 0, end = u->rec.end, i;
	__u64 plain[2], *known = 0;
	struct mt_cfg *c;

	u->copy = u->once = 0;
	if (!copy_can_mend(end))
		return;
	c = bpf_map_lookup_elem(&cfg, &zero);
	if (!c || !c->stack_bytes)
		return;
	plain[0] = u->rec.hash[0];
	plain[1] = u->rec.hash[1];
	u->once = end == MT_END_NOMAP || end == MT_END_NOPROC;
	uw_hash(u, (__u64)u->rec.h.tgid << 32 | u->rec.h.tid);
	uw_hash(u, u->rec.h.start);
	uw_hash(u, u->sp);
	if (u->once)
		uw_hash(u, u->rec.h.time);
	if (!uw_read(u->words, sizeof(u->words), u->sp)) {
		UW_LOOP
		for (i = 0; i < MT_COPY_WORDS; i++)
			uw_hash(u, u->words[i]);
	}
	if (!u->once)
		known = bpf_map_lookup_elem(&uw_known, &u->rec.hash[0]);
	if ((known && *known == u->rec.hash[1]) || copy_allowed(u, c)) {
		u->copy = 1;
		/* Its uses are counted by who knows whether it was mended. */
		u->always = 1;
		return;
	}
	u->once = 0;
	u->rec.hash[0] = plain[0];
	u->rec.hash[1] = plain[1];
}

static __always_inline void copy_returns(struct mt_copy *r)
{
	struct task_struct *t = (void *)bpf_get_current_task();
	struct return_instance *ri = 0;
	__u32 i;

	r->trampoline = 0;
	if (bpf_core_field_exists(struct return_instance, orig_ret_vaddr) &&
	    bpf_core_field_exists(struct xol_area, vaddr))
		ri = BPF_CORE_READ(t, utask, return_instances);
	if (ri)
		r->trampoline = BPF_CORE_READ(t, mm, uprobes_state.xol_area, vaddr);
	UW_LOOP
	for (i = 0; i < MT_COPY_RETURNS; i++) {
		r->returns[i].slot = r->returns[i].orig = 0;
		if (!ri)
			continue;
		r->returns[i].slot = BPF_CORE_READ(ri, stack);
		r->returns[i].orig = BPF_CORE_READ(ri, orig_ret_vaddr);
		ri = BPF_CORE_READ(ri, next);
	}
}

/* One page of the stack. COPY_GOES_ON; MT_COPY_TAKEN: there is no more; MT_COPY_RING: no room for
 * it. */
#define COPY_GOES_ON (-1)
static __always_inline int copy_piece(struct mt_uw *u, __u64 addr)
{
	struct mt_copy_piece *p = bpf_ringbuf_reserve(&events, sizeof(*p), 0);

	if (!p)
		return MT_COPY_RING;
	if (bpf_probe_read_user(p->bytes, sizeof(p->bytes), (void *)addr)) {
		bpf_ringbuf_discard(p, BPF_RB_NO_WAKEUP);
		return MT_COPY_TAKEN;
	}
	p->h = u->rec.h;
	p->h.type = MT_REC_COPY_PIECE;
	p->h.size = sizeof(*p);
	p->hash[0] = u->rec.hash[0];
	p->hash[1] = u->rec.hash[1];
	p->addr = addr;
	bpf_ringbuf_submit(p, BPF_RB_NO_WAKEUP);
	return COPY_GOES_ON;
}

/* Behind the definition of the stack of u->copy. A function of its own, as uw_walk. */
__attribute__((noinline)) int uw_copy(void)
{
	struct mt_uw *u = uw_here();
	__u32 zero = 0, i, n;
	struct mt_copy *r;
	struct mt_cfg *c = bpf_map_lookup_elem(&cfg, &zero);
	__u64 addr;
	int end = COPY_GOES_ON;

	if (!u || !c)
		return 0;
	r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	if (!r) {
		copy_count(MT_COPY_RING);
		return 0;
	}
	r->h = u->rec.h;
	r->h.type = MT_REC_COPY;
	r->h.size = sizeof(*r);
	r->hash[0] = u->rec.hash[0];
	r->hash[1] = u->rec.hash[1];
	__builtin_memcpy(r->regs, u->regs, sizeof(r->regs));
	copy_returns(r);
	addr = u->regs[UW_REG_SP] & ~(MT_COPY_PIECE - 1ULL);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	/* One more: the first page is not all above the stack pointer. */
	n = c->stack_bytes / MT_COPY_PIECE + 1;
	UW_LOOP
	for (i = 0; i <= MT_COPY_MAX / MT_COPY_PIECE; i++) {
		if (i >= n)
			break;
		end = copy_piece(u, addr);
		if (end != COPY_GOES_ON)
			break;
		addr += MT_COPY_PIECE;
	}
	/* Each copy is counted once; a part of one may do. */
	copy_count(end == MT_COPY_RING ? MT_COPY_RING : MT_COPY_TAKEN);
	return 0;
}

/* At the end of a walk: send it, and a copy of its stack if that can help. */
static __always_inline void uw_finish(struct mt_uw *u)
{
	u->top = u->sp;
	/* The same frames may be all that there is, or all that could be read. */
	uw_hash(u, u->rec.end);
	copy_decide(u);
	/* 0 stands for none: who makes a stack come out so has another. */
	u->rec.hash[0] += !u->rec.hash[0];
	if (uw_send(u) && u->copy)
		uw_copy();
}

#endif
