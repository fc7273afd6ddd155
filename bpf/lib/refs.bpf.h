/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The call stacks of an event: taken at the entry of a function, sent once each,
 * named by their hashes at the end of the event's record.
 *
 * Compiled in with MT_WITH_STACKS only: bpf_loop and task storage do not load
 * before 5.17, not even where they are not reached. With MT_STACKS_CPU there are
 * none of them, for these kernels (stack_cpu.bpf.h).
 */
#ifndef MEMTAP_REFS_BPF_H
#define MEMTAP_REFS_BPF_H

#include "probe.bpf.h"

#ifdef MT_WITH_STACKS
#ifdef MT_STACKS_CPU
#define PY_STEP_FN py_step
#define PY_LIST_FN py_state
#else
#define PY_BPF_LOOP
#endif
#include "pystack.bpf.h"
#ifdef MT_STACKS_CPU
#include "stack_cpu.bpf.h"
#else
#include "stack.bpf.h"
#endif

#define REFS_SIZE sizeof(struct mt_refs)

/* The place of a walk. */
#ifdef MT_STACKS_CPU
/* What a step is given, for it takes no arguments (uw_frame): also the interpreter. */
struct py_place {
	struct mt_pywalk w;
	struct mt_py_offsets o;
	__u32 max, hashed;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct py_place);
} py_walks SEC(".maps");

static __always_inline struct py_place *py_place(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&py_walks, &zero);
}

static __always_inline struct mt_pywalk *py_here(void)
{
	struct py_place *p = py_place();

	return p ? &p->w : 0;
}

__attribute__((noinline)) int py_step(void)
{
	struct py_place *p = py_place();
	struct py_way w = {};

	if (!p)
		return 1;
	w.o = &p->o;
	w.s = &p->w.s;
	w.memo = &p->w.memo;
	w.max = p->max;
	return py_frame(0, &w);
}

__attribute__((noinline)) int py_state(void)
{
	struct py_place *p = py_place();

	return p ? py_list_step((void *)0, &p->o, (void *)p->w.s.scratch, &p->w.s) : 1;
}
#else
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mt_pywalk);
} py_walks SEC(".maps");

static __always_inline struct mt_pywalk *py_here(void)
{
	return bpf_task_storage_get(&py_walks, bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}
#endif

/* The interpreters of processes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32); /* tgid, in memtap's PID namespace */
	__type(value, struct mt_py_offsets);
} py_procs SEC(".maps");

/* As uw_known. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u64);
} py_known SEC(".maps");

/* Stacks by enum mt_py_why, and behind them those that the ring had no room for. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MT_PY_WHY_MAX + 1);
	__type(key, __u32);
	__type(value, __u64);
} py_ends SEC(".maps");

static __always_inline void py_count(__u32 why)
{
	__u64 *n = bpf_map_lookup_elem(&py_ends, &why);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static long py_hash_one(__u32 i, struct mt_pywalk **w)
{
	struct mt_py_frame *f;
	__u64 a, b, v;

	if (i >= MT_PY_DEPTH)
		return 1;
	f = &(*w)->s.frame[i];
	v = f->code ^ ((__u64)f->check << 32 | (__u32)f->at) * 0x9e3779b97f4a7c15ULL;
	a = ((*w)->hash[0] ^ v) * 0xff51afd7ed558ccdULL;
	b = ((*w)->hash[1] + v) * 0xc4ceb9fe1a85ec53ULL;
	(*w)->hash[0] = a ^ a >> 29;
	(*w)->hash[1] = b ^ b >> 31;
	return 0;
}

static __always_inline void py_send(struct mt_pywalk *w)
{
	__u64 *known = bpf_map_lookup_elem(&py_known, &w->hash[0]);
	__u32 n = w->s.n, size;

	if (known && *known == w->hash[1]) {
		py_count(w->s.why);
		return;
	}
	if (n > MT_PY_DEPTH)
		n = MT_PY_DEPTH;
	size = __builtin_offsetof(struct mt_pywalk, s.frame) + n * sizeof(struct mt_py_frame);
	w->h.size = size;
	if (bpf_ringbuf_output(&events, w, size, BPF_RB_NO_WAKEUP)) {
		py_count(MT_PY_WHY_MAX);
		return;
	}
	py_count(w->s.why);
	bpf_map_update_elem(&py_known, &w->hash[0], &w->hash[1], BPF_ANY);
}

/* What is behind the frames tells stacks apart too. */
static __always_inline void py_hash_end(struct mt_pywalk *w)
{
	__u64 v = ((__u64)w->s.why << 16 | w->s.begins) * 0x9e3779b97f4a7c15ULL;

	w->hash[0] ^= v;
	w->hash[1] += v;
}

#ifdef MT_STACKS_CPU
__attribute__((noinline)) int py_hash_step(void)
{
	struct py_place *p = py_place();
	struct mt_pywalk *w;

	if (!p || p->hashed >= p->w.s.n)
		return 1;
	w = &p->w;
	return py_hash_one(p->hashed++, &w);
}
#endif

/* The walk, from what pystack__take has put into the thread's place; see uw_walk. */
__noinline int py_walk_it(void)
{
	struct task_struct *t = (void *)bpf_get_current_task();
	struct mt_pywalk *w = py_here();
	struct mt_py_offsets *o;
	__u32 tgid, limit;
#ifdef MT_STACKS_CPU
	struct py_place *p = py_place();
	__u32 i;
#endif

	if (!w)
		return 0;
	tgid = w->h.tgid;
	limit = w->s.n;
	w->s.n = 0;
	w->s.why = MT_PY_NO_INTERPRETER;
	o = bpf_map_lookup_elem(&py_procs, &tgid);
	if (!o)
		return 0;
#ifdef MT_STACKS_CPU
	if (!p)
		return 0;
	p->o = *o;
	o = &p->o;
	p->max = limit;
#endif
	py_walk((void *)0, o, py_thread_pointer(t), py_thread_number(t), limit, &w->s, &w->memo);
#ifdef MT_STACKS_CPU
	p->hashed = 0;
	UW_LOOP
	for (i = 0; i < MT_PY_DEPTH; i++)
		if (py_hash_step())
			break;
#else
	bpf_loop(w->s.n, py_hash_one, &w, 0);
#endif
	py_hash_end(w);
	return 0;
}

/* Who and when, right into its place: programs and the functions that they call share 512 bytes. */
static __always_inline void refs__hdr(struct probe *p, struct mt_hdr *h)
{
	h->flags = 0;
	h->cpu = bpf_get_smp_processor_id();
	h->site = p->site_no;
	h->tgid = p->tgid;
	h->tid = p->tid;
	h->start = p->start;
	h->fn = h->strlen = 0;
	h->time = p->now;
}

/* The Python stack; its hash, 0: there is none. */
static __always_inline __u64 pystack__take(struct probe *p, __u32 limit)
{
	__u32 tgid = p->tgid;
	struct mt_py_offsets *o = bpf_map_lookup_elem(&py_procs, &tgid);
	struct mt_pywalk *w;

	if (!o || o->why) {
		py_count(o && o->why < MT_PY_WHY_MAX ? o->why : MT_PY_NO_INTERPRETER);
		return 0;
	}
	w = py_here();
	if (!w) {
		py_count(MT_PY_WHY_MAX);
		return 0;
	}
	refs__hdr(p, &w->h);
	w->h.type = MT_REC_PYSTACK;
	/* Addresses of code mean something in one process only. */
	w->hash[0] = ((__u64)p->tgid << 32 | p->start) ^ p->cfg->stack_seed[0];
	w->hash[1] = p->cfg->stack_seed[1];
	w->s.n = limit;
	py_walk_it();
	if (!w->s.n) {
		py_count(w->s.why < MT_PY_WHY_MAX ? w->s.why : MT_PY_UNREADABLE);
		return 0;
	}
	py_send(w);
	return w->hash[0];
}

/* Stacks of calls that have not ended: by the key of their in-flight state. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct mt_inflight_key);
	__type(value, struct mt_refs);
} open_refs SEC(".maps");

static __always_inline void refs__walk(struct probe *p, struct pt_regs *ctx, struct mt_refs *r)
{
	struct mt_uw *u;

	r->c = r->py = 0;
	if (probe__paused(p))
		return;
	u = p->cfg->stacks & MT_STACKS_C ? stack__place() : 0;
	if (u) {
		refs__hdr(p, &u->rec.h);
		r->c = stack__go(u, ctx, p->cfg->c_frames, 0);
	}
	if (p->cfg->stacks & MT_STACKS_PY)
		r->py = pystack__take(p, p->cfg->py_frames);
}

/* Take the stacks of the call that begins here: its record will name them. */
static __always_inline void refs__keep(struct probe *p, struct pt_regs *ctx)
{
	struct mt_inflight_key k = { .tid = p->ktid, .pair = p->site->pair, .sp = p->sp };
	struct mt_refs r;

	if (!(p->site->flags & MT_SITE_STACK))
		return;
	refs__walk(p, ctx, &r);
	bpf_map_update_elem(&open_refs, &k, &r, BPF_ANY);
}

static __always_inline void refs__move(struct mt_inflight_key *from, struct mt_refs *to)
{
	struct mt_refs *r = bpf_map_lookup_elem(&open_refs, from);

	to->c = r ? r->c : 0;
	to->py = r ? r->py : 0;
	if (r)
		bpf_map_delete_elem(&open_refs, from);
}

/* A refused call inside `g`: should that fail too, it is its stack that is wanted. */
static __always_inline void refs__refused(struct probe *p, struct mt_guard *g)
{
	struct mt_inflight_key k = { .tid = p->ktid, .pair = p->site->pair, .sp = p->sp };
	struct mt_refs r = {};

	if (!(p->site->flags & MT_SITE_STACK))
		return;
	refs__move(&k, &r);
	k.pair = g->pair;
	k.sp = g->sp;
	bpf_map_update_elem(&open_refs, &k, &r, BPF_ANY);
}

/* Behind the fixed part of a record, which is `size` bytes long. */
static __always_inline void refs__put(struct probe *p, struct mt_hdr *rec, __u32 size)
{
	struct mt_inflight_key k = { .tid = p->ktid, .pair = p->site->pair, .sp = p->sp };

	if (!(p->site->flags & MT_SITE_STACK)) {
		((struct mt_refs *)((void *)rec + size))->c = 0;
		((struct mt_refs *)((void *)rec + size))->py = 0;
		return;
	}
	refs__move(&k, (void *)rec + size);
	rec->size = size + REFS_SIZE;
	rec->flags |= MT_F_REFS;
}

/*
 * Of a call with several records: taken once, put into each. Without a branch: two
 * ways in each of the rounds are too many for the verifiers of 5.10 and 6.1.
 */
struct refs {
	struct mt_refs r;
	__u32 size, flags;
};

static __always_inline void refs__take(struct probe *p, struct refs *r)
{
	struct mt_inflight_key k = { .tid = p->ktid, .pair = p->site->pair, .sp = p->sp };

	r->r.c = r->r.py = 0;
	r->size = r->flags = 0;
	if (!(p->site->flags & MT_SITE_STACK))
		return;
	refs__move(&k, &r->r);
	r->size = REFS_SIZE;
	r->flags = MT_F_REFS;
}

/* Of a call whose record is written at its entry. */
static __always_inline void refs__here(struct probe *p, struct pt_regs *ctx, struct refs *r)
{
	r->r.c = r->r.py = 0;
	r->size = r->flags = 0;
	if (!(p->site->flags & MT_SITE_STACK))
		return;
	refs__walk(p, ctx, &r->r);
	r->size = REFS_SIZE;
	r->flags = MT_F_REFS;
}

/* The same of Python alone. */
static __always_inline void refs__python(struct probe *p, struct refs *r)
{
	r->r.c = r->r.py = 0;
	r->size = r->flags = 0;
	if (!(p->site->flags & MT_SITE_STACK) || !(p->cfg->stacks & MT_STACKS_PY) ||
	    probe__paused(p))
		return;
	r->r.py = pystack__take(p, p->cfg->py_frames);
	r->size = REFS_SIZE;
	r->flags = MT_F_REFS;
}

static __always_inline void refs__put_taken(const struct refs *r, struct mt_hdr *rec, __u32 size)
{
	*(struct mt_refs *)((void *)rec + size) = r->r;
	rec->size = size + r->size;
	rec->flags |= r->flags;
}

/* A new program, or none any more: nothing is known of it. */
static __always_inline void procs__exec(__u32 tgid)
{
	bpf_map_delete_elem(&uw_procs, &tgid);
	bpf_map_delete_elem(&py_procs, &tgid);
}

/*
 * A child has its parent's code and interpreter until it does something else: what
 * is known of them is true of both, for longer than it takes to look at the child.
 */
static __always_inline void procs__fork(__u32 parent, __u32 child)
{
	struct mt_uw_proc *uw = bpf_map_lookup_elem(&uw_procs, &parent);
	struct mt_py_offsets *py = bpf_map_lookup_elem(&py_procs, &parent);
	__u32 gen = uw ? uw->gen : 0;

	/* Of an earlier process with the number nothing must be left. */
	procs__exec(child);
	if (uw)
		bpf_map_update_elem(&uw_procs, &child, uw, BPF_ANY);
	/* An entry that is replaced meanwhile may be another process's at once. */
	if (uw && (bpf_map_lookup_elem(&uw_procs, &parent) != uw || uw->gen != gen))
		bpf_map_delete_elem(&uw_procs, &child);
	if (py)
		bpf_map_update_elem(&py_procs, &child, py, BPF_ANY);
}

/* Something new is mapped, at a place where there may have been code. */
#define procs__mapped uw_mapped_over

#else
#define REFS_SIZE 0

struct refs {
};

static __always_inline void refs__take(struct probe *p, struct refs *r)
{
}

static __always_inline void refs__here(struct probe *p, struct pt_regs *ctx, struct refs *r)
{
}

static __always_inline void refs__python(struct probe *p, struct refs *r)
{
}

static __always_inline void refs__put_taken(const struct refs *r, struct mt_hdr *rec, __u32 size)
{
}

static __always_inline void procs__fork(__u32 parent, __u32 child)
{
}

static __always_inline void procs__exec(__u32 tgid)
{
}

static __always_inline void refs__keep(struct probe *p, struct pt_regs *ctx)
{
}

static __always_inline void refs__refused(struct probe *p, struct mt_guard *g)
{
}

static __always_inline void refs__put(struct probe *p, struct mt_hdr *rec, __u32 size)
{
}
#endif

#endif
