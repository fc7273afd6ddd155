/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the walk of a stack at a probe needs on every kernel: the rows, the first
 * frame, what is sent. How it goes from frame to frame: stack.bpf.h where there is
 * bpf_loop, stack_tail.bpf.h where there is not.
 */
#ifndef MEMTAP_STACK_MAPS_BPF_H
#define MEMTAP_STACK_MAPS_BPF_H

#include "user.bpf.h"
#include <bpf/bpf_core_read.h>
#include <memtap/unwind.h>

#define UW_LOOP _Pragma("clang loop unroll(disable)")

struct uw_chunk_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct mt_uw_chunk));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MT_UW_MAX_CHUNKS);
	__type(key, __u32);
	__array(values, struct uw_chunk_map);
} uw_chunks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MT_UW_MAX_PAGES);
	__type(key, __u32);
	__type(value, struct mt_uw_page);
} uw_pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MT_UW_MAX_RULES);
	__type(key, __u32);
	__type(value, struct mt_uw_rule);
} uw_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MT_UW_MAX_MAPS);
	__type(key, __u32);
	__type(value, struct mt_uw_map);
} uw_maps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32); /* tgid, in memtap's PID namespace */
	__type(value, struct mt_uw_proc);
} uw_procs SEC(".maps");

/* How often something took the place of code: what is read of a process meanwhile may be old. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u64);
} uw_changes SEC(".maps");

/* Stacks that the reader has been given: first half of the hash -> second half. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u64);
} uw_known SEC(".maps");

/* By how stacks ended, and in the place of MT_END_NOT those that the ring had no room for. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MT_END_MAX);
	__type(key, __u32);
	__type(value, __u64);
} uw_ends SEC(".maps");

static __always_inline int uw_read(void *dst, __u32 n, __u64 addr)
{
#ifdef UW_NO_SLEEP
	return bpf_probe_read_user(dst, n, (const void *)addr);
#else
	return user_read(dst, n, addr);
#endif
}

static __always_inline int uw_peek(void *dst, __u32 n, __u64 addr)
{
	return bpf_probe_read_user(dst, n, (const void *)addr);
}

static __always_inline struct mt_uw_map *uw_map_at(__u32 i)
{
	return bpf_map_lookup_elem(&uw_maps, &i);
}

static __always_inline struct mt_uw_page *uw_page_at(__u32 i)
{
	return bpf_map_lookup_elem(&uw_pages, &i);
}

static __always_inline struct mt_uw_rule *uw_rule_at(__u32 i)
{
	return bpf_map_lookup_elem(&uw_rules, &i);
}

static __always_inline struct mt_uw_chunk *uw_chunk_at(__u32 i)
{
	void *inner = bpf_map_lookup_elem(&uw_chunks, &i);
	__u32 zero = 0;

	return inner ? bpf_map_lookup_elem(inner, &zero) : 0;
}

/* Return probes that a thread can have open: MAX_URETPROBE_DEPTH of kernel/events/uprobes.c. */
#define UW_RETURNS 64
/* Of a walk: the frames, what ends it, and returns that are looked up. */
#define UW_STEPS (MT_UW_MAX_FRAMES + 1 + UW_RETURNS)

/*
 * Is it where return probes lead to? Then what stood in its slot goes on: of a function's
 * several probes the oldest has the caller. Looked at only where code is in no file.
 */
static __always_inline int uw_replaced(struct mt_uw *u)
{
	struct task_struct *t = (void *)bpf_get_current_task();
	struct return_instance *ri;
	__u64 trampoline, orig;
	int i;

	if (!bpf_core_field_exists(struct return_instance, orig_ret_vaddr) ||
	    !bpf_core_field_exists(struct xol_area, vaddr))
		return 0;
	ri = BPF_CORE_READ(t, utask, return_instances);
	if (!ri)
		return 0;
	trampoline = BPF_CORE_READ(t, mm, uprobes_state.xol_area, vaddr);
	if (!trampoline || u->pc != trampoline)
		return 0;
	UW_LOOP
	for (i = 0; i < UW_RETURNS; i++) {
		if (!ri)
			break;
		orig = BPF_CORE_READ(ri, orig_ret_vaddr);
		if (BPF_CORE_READ(ri, stack) == u->slot && orig != trampoline) {
			u->pc = orig;
			return 1;
		}
		ri = BPF_CORE_READ(ri, next);
	}
	return 0;
}

#if defined(__TARGET_ARCH_arm64)
#define UW_ARM64
#endif
#include "unwind.bpf.h"

/* Where the stack pointer is in mt_uw.regs. */
#if defined(__TARGET_ARCH_x86)
#define UW_REG_SP 7
#else
#define UW_REG_SP 31
#endif

#define UW_REPLACED 16 /* mappings that one takes the place of: a library's are one or two */

/* The first mapping of a process that begins at an address or above. */
static __always_inline __u32 uw_first_from(const struct mt_uw_proc *proc, __u64 addr)
{
	__u32 lo = 0, hi = proc->n, i;

	UW_LOOP
	for (i = 0; i <= MT_UW_MAPS_SHIFT; i++) {
		__u32 mid = lo + (hi - lo) / 2;
		struct mt_uw_map *m;

		if (lo >= hi)
			break;
		m = uw_map_at(proc->first + mid);
		if (!m)
			break;
		if (m->start >= addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static __always_inline void uw_changed(__u32 tgid)
{
	__u64 *count = bpf_map_lookup_elem(&uw_changes, &tgid), one = 1;

	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&uw_changes, &tgid, &one, BPF_ANY);
}

/*
 * From the mapping *at on: the first that has something in [start, end), whose number *at is
 * then; with `take` all of them, which are none any more. 0: there is none.
 */
static __always_inline int uw_overlap(const struct mt_uw_proc *proc, __u32 *at, __u64 start,
				      __u64 end, int take)
{
	int found = 0;
	__u32 i;

	UW_LOOP
	for (i = 0; i < UW_REPLACED; i++, ++*at) {
		struct mt_uw_map *m;

		if (*at >= proc->n)
			break;
		m = uw_map_at(proc->first + *at);
		if (!m || m->start >= end)
			break;
		if (m->end <= start || m->end == m->start)
			continue;
		found = 1;
		if (!take)
			break;
		m->end = m->start;
	}
	return found;
}

/*
 * Another library may be put in the place of one that is closed at once: its stacks must not be
 * walked by the rows of that one.
 *
 * Mappings may be published meanwhile that were read before. Who does so looks at the count
 * behind that; here it is counted first and then looked whether they have been. One of both sees
 * the other.
 */
static __always_inline void uw_mapped_over(__u32 tgid, __u64 start, __u64 end)
{
	struct mt_uw_proc *proc = bpf_map_lookup_elem(&uw_procs, &tgid), *now;
	__u32 at, gen;

	if (!proc)
		return;
	gen = proc->gen;
	at = uw_first_from(proc, start);
	at = at ? at - 1 : 0; /* which may reach into it */
	if (!uw_overlap(proc, &at, start, end, 0))
		return;
	uw_changed(tgid);
	now = bpf_map_lookup_elem(&uw_procs, &tgid);
	/* A child's parent still has it. */
	if (!now || now != proc || now->gen != gen || proc->owner != tgid) {
		bpf_map_delete_elem(&uw_procs, &tgid);
		return;
	}
	proc->gen = 0; /* what threads remember of it is old too */
	uw_overlap(proc, &at, start, end, 1);
}

#define UW_FIELD(x) (*(const volatile __u32 *)&(x))

/*
 * Where the mappings of the process are. Its entry may be taken away at any time, and be given
 * to another process at once: one that says it is its own is, and a child's is looked at twice.
 */
static __always_inline int uw_find_proc(struct mt_uw *u, __u32 tgid)
{
	struct mt_uw_proc *p = bpf_map_lookup_elem(&uw_procs, &tgid);

	u->gen = u->n = u->first = 0;
	if (!p)
		return 0;
	u->gen = UW_FIELD(p->gen);
	u->first = UW_FIELD(p->first);
	u->n = UW_FIELD(p->n);
	if (UW_FIELD(p->owner) != tgid || UW_FIELD(p->gen) != u->gen) {
		p = bpf_map_lookup_elem(&uw_procs, &tgid);
		if (!p || p->gen != u->gen || p->first != u->first || p->n != u->n)
			u->n = u->gen = 0;
	}
	return u->n != 0; /* 0: it is read just now */
}

static __always_inline void uw_count(__u32 end)
{
	__u64 *n = bpf_map_lookup_elem(&uw_ends, &end);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/* The verifier wants the context read at constant offsets: no loop. */
#define A64_REG(to, r, i) (to)[i] = (r)->regs[i]
#define A64_4REGS(to, r, i)      \
	A64_REG(to, r, i);       \
	A64_REG(to, r, (i) + 1); \
	A64_REG(to, r, (i) + 2); \
	A64_REG(to, r, (i) + 3)
#define A64_REGS(to, r)       \
	A64_4REGS(to, r, 0);  \
	A64_4REGS(to, r, 4);  \
	A64_4REGS(to, r, 8);  \
	A64_4REGS(to, r, 12); \
	A64_4REGS(to, r, 16); \
	A64_4REGS(to, r, 20); \
	A64_4REGS(to, r, 24); \
	A64_REG(to, r, 28);   \
	A64_REG(to, r, 29);   \
	A64_REG(to, r, 30)

static __always_inline void uw_start(struct mt_uw *u, struct pt_regs *ctx)
{
	__u32 zero = 0;
	struct mt_cfg *c = bpf_map_lookup_elem(&cfg, &zero);

#if defined(__TARGET_ARCH_x86)
	u->pc = ctx->ip;
	u->sp = ctx->sp;
	u->fp = ctx->bp;
	u->regs[0] = ctx->ax;
	u->regs[1] = ctx->dx;
	u->regs[2] = ctx->cx;
	u->regs[3] = ctx->bx;
	u->regs[4] = ctx->si;
	u->regs[5] = ctx->di;
	u->regs[6] = ctx->bp;
	u->regs[7] = ctx->sp;
	u->regs[8] = ctx->r8;
	u->regs[9] = ctx->r9;
	u->regs[10] = ctx->r10;
	u->regs[11] = ctx->r11;
	u->regs[12] = ctx->r12;
	u->regs[13] = ctx->r13;
	u->regs[14] = ctx->r14;
	u->regs[15] = ctx->r15;
	u->regs[16] = ctx->ip;
	u->regs_known = 1;
#else
	const volatile struct user_pt_regs *r = (const void *)ctx;

	A64_REGS(u->regs, r);
	u->regs[31] = r->sp;
	u->regs[32] = r->pc;
	u->pc = r->pc;
	u->sp = r->sp;
	u->fp = r->regs[29];
	u->lr = r->regs[30];
	u->regs_known = 0;
#endif
	u->exact = 1;
	u->fp_lost = 0;
	u->sp_lost = 0;
	u->map = 0;
	u->window_size = 0;
	u->slot = 0;
	u->rec.n = 0;
	u->rec.end = MT_END_NOT;
	u->rec.guessed = 0;
	/* Of each run another: nobody makes stacks that have the hash of others. */
	u->rec.hash[0] = c ? c->stack_seed[0] : 0;
	u->rec.hash[1] = c ? c->stack_seed[1] : 0;
}

/*
 * To the reader: the frames only when it does not have them; nothing at all then unless
 * u->always. 1: with the frames.
 */
static __always_inline int uw_send(struct mt_uw *u)
{
	__u64 *known = bpf_map_lookup_elem(&uw_known, &u->rec.hash[0]);
	__u32 n = u->rec.n, size = sizeof(u->rec);

	u->rec.with = !known || *known != u->rec.hash[1];
	if (!u->rec.with && !u->always) {
		uw_count(u->rec.end);
		return 0;
	}
	if (u->rec.with) {
		if (n > MT_UW_MAX_FRAMES)
			n = MT_UW_MAX_FRAMES;
		size += n * sizeof(u->frames[0]);
	}
	u->rec.h.size = size;
	if (bpf_ringbuf_output(&events, &u->rec, size, BPF_RB_NO_WAKEUP)) {
		uw_count(MT_END_NOT);
		return 0;
	}
	uw_count(u->rec.end);
	if (u->rec.with && !u->once)
		bpf_map_update_elem(&uw_known, &u->rec.hash[0], &u->rec.hash[1], BPF_ANY);
	return u->rec.with;
}

#endif
