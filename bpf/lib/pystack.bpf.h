/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Walks the Python frames of a thread: reads only, no shared scratch, bounded.
 *
 * The same text is compiled for user space (user/symbol/pywalk.c), where
 * PY_READ(mem, dst, n, addr) reads another process; in BPF `mem` is NULL. What
 * is counted in a loop is kept in the caller's buffer: numbers that the verifier
 * can follow would make each way through the loop another state to look at.
 */
#ifndef MEMTAP_PYSTACK_BPF_H
#define MEMTAP_PYSTACK_BPF_H

#ifndef PY_READ
#include "user.bpf.h"
#define PY_READ(mem, dst, n, addr) user_read(dst, n, addr)
#endif
#ifdef __bpf__
#include <bpf/bpf_core_read.h>
#define PY_INLINE static __always_inline
#else
#define PY_INLINE static inline
#endif
#include <memtap/python.h>

/* What is not inlined: programs and what they call share 512 bytes of stack. */
#ifdef __bpf__
#define PY_APART static __noinline
#else
#define PY_APART PY_INLINE
#endif
/*
 * A frame is looked at by the verifier once: bpf_loop's callback (PY_BPF_LOOP), or, before
 * 5.17, a global function of the includer's, PY_STEP_FN(), that calls py_frame with what it
 * finds where the walk has its place. So is a state of the interpreters' lists, PY_LIST_FN().
 */
#ifdef PY_BPF_LOOP
#define PY_STEP static
#define PY_FRAMES PY_INLINE
#else
#define PY_STEP PY_INLINE
#ifdef PY_STEP_FN
#define PY_FRAMES PY_INLINE
#else
#define PY_FRAMES PY_APART
#endif
#endif
#ifdef PY_STEP_FN
int PY_STEP_FN(void);
int PY_LIST_FN(void);
#define PY_ONE(i, w) PY_STEP_FN()
#define PY_ONE_STATE(mem, o, l, s) PY_LIST_FN()
#else
#define PY_ONE(i, w) py_frame(i, w)
#define PY_ONE_STATE(mem, o, l, s) py_list_step(mem, o, l, s)
#endif

PY_INLINE int py_u64(const void *mem, __u64 addr, __u64 *v)
{
	*v = 0;
	return PY_READ(mem, v, sizeof(*v), addr);
}

/* The frame that a thread's state is at. */
PY_INLINE int py_top_frame(const void *mem, const struct mt_py_offsets *o, __u64 t, __u64 *frame)
{
	if (py_u64(mem, t + o->frame, frame))
		return -1;
	return o->cframe && *frame ? py_u64(mem, *frame + o->cframe_frame, frame) : 0;
}

/*
 * The thread's state in the interpreters' lists. A thread has a state in each interpreter that
 * it was in. It is in the one that was made last of those where it has frames, for interpreters
 * are entered from others and listed newest first.
 */
struct py_lists {
	__u64 self; /* what is looked for: pthread_self(), */
	__u64 tid; /* or the number */
	__u64 interp, t; /* the next ones */
	__u64 idle; /* its state in the last interpreter where it has no frames */
};

/* One more of the lists. 1: l->t is the state, 0 and s->why: it is not there. */
PY_INLINE int py_list_step(const void *mem, const struct mt_py_offsets *o, struct py_lists *l,
			   struct mt_py_stack *s)
{
	__u64 t = l->t, id = 0, frame = 0;

	if (!t) {
		if (!l->interp) {
			s->why = MT_PY_NO_THREAD;
			l->t = l->idle;
			return 1;
		}
		if (py_u64(mem, l->interp + o->threads_head, &t) ||
		    py_u64(mem, l->interp + o->interp_next, &id))
			goto out;
		l->t = t;
		l->interp = id;
		return 0;
	}
	if (py_u64(mem, t + (o->native_id ? o->native_id : o->thread_id), &id))
		goto out;
	if (id == (o->native_id ? l->tid : l->self)) {
		if (py_top_frame(mem, o, t, &frame))
			goto out;
		if (frame)
			return 1;
		l->idle = t;
	}
	if (py_u64(mem, t + o->thread_next, &id))
		goto out;
	l->t = id;
	return 0;
out:
	l->t = 0;
	return 1;
}

#ifdef PY_BPF_LOOP
struct py_list_way {
	const struct mt_py_offsets *o;
	struct mt_py_stack *s;
	__u64 found; /* or not: the lists are at their end */
};

static long py_list_one(__u32 i, struct py_list_way *w)
{
	w->found = py_list_step((void *)0, w->o, (void *)w->s->scratch, w->s);
	return (long)w->found;
}
#endif

PY_INLINE __u64 py_thread_in_lists(const void *mem, const struct mt_py_offsets *o, __u64 self,
				   __u32 tid, struct mt_py_stack *s)
{
	/* Where a global function finds it, too. */
	struct py_lists *l = (void *)s->scratch;
#ifdef PY_BPF_LOOP
	struct py_list_way w = { .o = o, .s = s };
#else
	int i;
#endif

	s->why = MT_PY_UNREADABLE;
	l->self = self;
	l->tid = tid;
	l->t = l->idle = 0;
	if (PY_READ(mem, &l->interp, sizeof(l->interp), o->interp_head))
		return 0;
#ifdef PY_BPF_LOOP
	bpf_loop(MT_PY_THREADS, py_list_one, &w, 0);
	if (w.found)
		return l->t;
#else
#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (i = 0; i < MT_PY_THREADS; i++)
		if (PY_ONE_STATE(mem, o, l, s))
			return l->t;
#endif
	s->why = MT_PY_MANY_THREADS;
	return 0;
}

/* The state of a thread by its thread pointer and number; 0 and s->why. */
PY_APART __u64 py_thread(const void *mem, const struct mt_py_offsets *o, __u64 tp, __u32 tid,
			 struct mt_py_stack *s)
{
	__u64 self = tp + (__s64)o->self, t = 0, id = 0, now = 0, next = 0;

	s->why = MT_PY_UNREADABLE;
	if (o->find != MT_PY_FIND_LIST) {
		if (py_u64(mem, tp + (__s64)o->slot, &t))
			return 0;
		if (o->find == MT_PY_FIND_BLOCK && t && py_u64(mem, t + o->block, &t))
			return 0;
		s->why = MT_PY_NO_THREAD;
		if (!t)
			return 0;
		s->why = MT_PY_UNREADABLE;
		if (py_u64(mem, t + o->thread_id, &id))
			return 0;
		s->why = MT_PY_OTHER_THREAD;
		if (id != self)
			return 0;
		if (!o->current)
			return t;
		/* t is that of its first interpreter. Who holds the lock says where it is now. */
		s->why = MT_PY_UNREADABLE;
		if (py_u64(mem, o->current, &now))
			return 0;
		if (now == t || (now && !py_u64(mem, now + o->thread_id, &id) && id == self))
			return now;
		if (py_u64(mem, o->interp_head, &now) || !now ||
		    py_u64(mem, now + o->interp_next, &next))
			return 0;
		if (!next) /* the only interpreter */
			return t;
	}
	return py_thread_in_lists(mem, o, self, tid, s);
}

#define PY_COUNT(s) (*(volatile __u32 *)&(s)->n)
#define PY_NEXT(s) (*(volatile __u64 *)&(s)->next)
#define PY_BEGINS(s) (*(volatile __u16 *)&(s)->begins)

/*
 * Words at offsets that the target may have chosen: BPF is given them whole on any
 * address. PY_KEEP: the compiler knows that n is small, the verifier forgets it
 * (before 5.16 with a spill).
 */
#ifdef __bpf__
#define PY_KEEP(n, mask) asm volatile("%0 &= %1" : "+r"(n) : "i"(mask))
#define PY_AT64(s, off) (*(const __u64 *)((s)->scratch + (off)))
#define PY_AT32(s, off) (*(const __u32 *)((s)->scratch + (off)))
#else
#define PY_KEEP(n, mask) ((n) &= (mask))
PY_INLINE __u64 PY_AT64(const struct mt_py_stack *s, __u8 off)
{
	__u64 v;

	__builtin_memcpy(&v, s->scratch + off, sizeof(v));
	return v;
}
PY_INLINE __u32 PY_AT32(const struct mt_py_stack *s, __u8 off)
{
	__u32 v;

	__builtin_memcpy(&v, s->scratch + off, sizeof(v));
	return v;
}
#endif

/* A str's own hash, in that place: it has none yet. */
#define PY_NO_HASH (~0ULL)
#define PY_TEXT 64 /* bytes of a text, its last ones, that stand for all of it */

/* What a text is, from its end. 0: it cannot be read. */
PY_INLINE __u64 py_text_id(const void *mem, const struct mt_py_offsets *o, struct mt_py_stack *s,
			   __u64 str, __u64 length, __u32 state)
{
	/* Where the bits of the state are: see python.bpf.h. */
	__u32 kind = state & 0xfc ? 2 : state & 0xff00 ? 8 : 16;
	__u64 at = state >> (kind + 4) & 1 ? o->str_ascii : o->str_compact, h = length;
	__u64 n = length < PY_TEXT ? length : PY_TEXT;

	__builtin_memset(s->scratch, 0, PY_TEXT);
	PY_KEEP(n, 2 * PY_TEXT - 1);
	if (PY_READ(mem, s->scratch, n, str + at + length - n))
		return 0;
	h = (h ^ PY_AT64(s, 0)) * 0xff51afd7ed558ccdULL;
	h = (h ^ h >> 32 ^ PY_AT64(s, 8)) * 0xff51afd7ed558ccdULL;
	h = (h ^ h >> 32 ^ PY_AT64(s, 16)) * 0xff51afd7ed558ccdULL;
	h = (h ^ h >> 32 ^ PY_AT64(s, 24)) * 0xff51afd7ed558ccdULL;
	h = (h ^ h >> 32 ^ PY_AT64(s, 32)) * 0xff51afd7ed558ccdULL;
	h = (h ^ h >> 32 ^ PY_AT64(s, 40)) * 0xff51afd7ed558ccdULL;
	h = (h ^ h >> 32 ^ PY_AT64(s, 48)) * 0xff51afd7ed558ccdULL;
	h = (h ^ h >> 32 ^ PY_AT64(s, 56)) * 0xff51afd7ed558ccdULL;
	return (h ^ h >> 32) | 1;
}

/* What a str is: its own hash, or (it has none yet, or `text`) its text. 0: it cannot be read. */
PY_INLINE __u64 py_str_id(const void *mem, const struct mt_py_offsets *o, struct mt_py_stack *s,
			  __u64 str, int text)
{
	__u64 hash;

	if (PY_READ(mem, s->scratch, 24, str + o->str_length))
		return 0;
	hash = PY_AT64(s, 8);
	if (!text && hash != PY_NO_HASH)
		return hash | 1;
	return py_text_id(mem, o, s, str, PY_AT64(s, 0), PY_AT32(s, 16));
}

#define PY_NAME_BY_TEXT 1
#define PY_FILE_BY_TEXT 2

PY_INLINE struct mt_py_known *py_known_at(struct mt_py_known *of, __u64 key)
{
	return &of[key * 0x9e3779b97f4a7c15ULL >> (64 - MT_PY_MEMO_SHIFT)];
}

PY_INLINE void py_know(const struct mt_py_memo *memo, struct mt_py_known *k, __u64 key, __u64 value)
{
	k->key = key;
	k->walk = memo->walk;
	k->value = value;
}

/* py_str_id of a file name: of a walk's frames many have the same. */
PY_INLINE __u64 py_file_id(const void *mem, const struct mt_py_offsets *o, struct mt_py_stack *s,
			   struct mt_py_memo *memo, __u64 file, int text)
{
	struct mt_py_known *k;
	__u64 id;

	if (!memo)
		return py_str_id(mem, o, s, file, text);
	k = py_known_at(memo->file, file);
	if (k->key == file && k->walk == memo->walk)
		return k->value;
	id = py_str_id(mem, o, s, file, text);
	py_know(memo, k, file, id);
	return id;
}

/* The check of a code object; 0: it cannot be read. by: what is to be taken by its text. */
PY_INLINE __u32 py_check(const void *mem, const struct mt_py_offsets *o, struct mt_py_stack *s,
			 struct mt_py_memo *memo, __u64 code, int by)
{
	__u64 name, file, table, id, id2;
	__u32 first, version = 0;

	if (PY_READ(mem, s->scratch, o->code_size, code + o->code_base))
		return 0;
	name = PY_AT64(s, o->code_name);
	table = PY_AT64(s, o->code_table);
	file = PY_AT64(s, o->code_file);
	first = PY_AT32(s, o->code_first);
	if (o->code_version != MT_PY_NONE)
		version = PY_AT32(s, o->code_version);
	/* Each interpreter counts for itself, and 0 is that there are no numbers left. */
	id = py_str_id(mem, o, s, name, by & PY_NAME_BY_TEXT);
	id2 = py_file_id(mem, o, s, memo, file, by & PY_FILE_BY_TEXT);
	if (!id || !id2)
		return 0;
	id = (id ^ file) * 0xc4ceb9fe1a85ec53ULL + id2 + version;
	return mt_py_check(name, table, first, id);
}

/* The check of a frame's code object. */
PY_INLINE __u32 py_check_once(const void *mem, const struct mt_py_offsets *o, struct mt_py_stack *s,
			      struct mt_py_memo *memo, __u64 code)
{
	struct mt_py_known *k;
	__u32 check;

	if (!memo)
		return py_check(mem, o, s, memo, code, 0);
	k = py_known_at(memo->code, code);
	if (k->key == code && k->walk == memo->walk)
		return (__u32)k->value;
	check = py_check(mem, o, s, memo, code, 0);
	py_know(memo, k, code, check);
	return check;
}

/* Offset of an instruction in the copy of the code that the thread runs (free-threaded). */
PY_INLINE __s32 py_at_copy(const void *mem, const struct mt_py_offsets *o, __u64 code, __u64 instr,
			   __u32 copy)
{
	__u64 copies = 0, start = 0;

	/* co_tlbc: a count, then a pointer for each thread that ran it; the first is the original.
	 */
	if (py_u64(mem, code + o->code_tlbc, &copies) ||
	    py_u64(mem, copies + 8 + 8 * (__u64)copy, &start))
		return -1;
	return (__s32)(instr - start);
}

/* The walk from frame to frame; s->next is the next one. */
struct py_way {
	const void *mem;
	const struct mt_py_offsets *o;
	struct mt_py_stack *s;
	struct mt_py_memo *memo;
	__u32 max;
};

/* One frame into w->s. 1: that was the last one, or why it could not be is in w->s->why. */
PY_STEP long py_frame(__u32 i, struct py_way *w)
{
	const struct mt_py_offsets *o = w->o;
	struct mt_py_stack *s = w->s;
	__u32 n = PY_COUNT(s), copy = 0, check;
	__u64 code, prev, instr, frame = PY_NEXT(s);
	struct mt_py_frame *f;
	__u8 owner = 0, first;
	__s32 at;

	if (!frame) {
		s->why = MT_PY_OK;
		return 1;
	}
	if (PY_READ(w->mem, s->scratch, o->frame_size, frame + o->frame_base)) {
		s->why = MT_PY_UNREADABLE;
		return 1;
	}
	code = PY_AT64(s, o->frame_code) & ~(__u64)o->tag;
	prev = PY_AT64(s, o->frame_prev);
	if (o->shim != MT_PY_NONE)
		owner = s->scratch[o->frame_owner];
	if ((o->shim != MT_PY_NONE && owner >= o->shim) || !code || code == o->none) {
		PY_BEGINS(s) = PY_BEGINS(s) + 1;
		PY_NEXT(s) = prev;
		return 0;
	}
	/* Behind the last one that has room there may be shims only. */
	if (n >= w->max || n >= MT_PY_DEPTH)
		return 1;
	/* No branch: it would double the ways through this that a verifier looks at. */
	first = o->each | (s->scratch[o->frame_entry] & o->entry_mask);
	if (o->frame_tlbc != MT_PY_NONE)
		copy = PY_AT32(s, o->frame_tlbc);
	if (o->lasti) {
		/* -1: not begun. */
		at = (__s32)(PY_AT32(s, o->frame_instr) << o->lasti_shift);
	} else {
		instr = PY_AT64(s, o->frame_instr);
		at = o->code_tlbc ? py_at_copy(w->mem, o, code, instr, copy)
				  : (__s32)(instr - code - o->code_start);
	}
	check = py_check_once(w->mem, o, s, w->memo, code);
	n = PY_COUNT(s);
	PY_KEEP(n, MT_PY_DEPTH - 1);
	f = &s->frame[n];
	f->code = (code & MT_PY_CODE) | (__u64)PY_BEGINS(s) << MT_PY_BEGINS_SHIFT;
	PY_BEGINS(s) = first;
	f->check = check;
	f->at = at;
	PY_COUNT(s) = n + 1;
	PY_NEXT(s) = prev;
	return 0;
}

/* Frames from s->next outwards into s, at most w->max; s->n, s->why, s->next. */
PY_FRAMES int py_frames(struct py_way *w)
{
	struct mt_py_stack *s = w->s;

	s->begins = 0;
	s->why = MT_PY_TOO_DEEP;
	if (w->memo)
		w->memo->walk++;
#ifdef PY_BPF_LOOP /* 5.17: the verifier looks at a frame once */
	bpf_loop(MT_PY_STEPS, py_frame, w, 0);
#else
	int i;

#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (i = 0; i < MT_PY_STEPS; i++)
		if (PY_ONE(i, w))
			break;
#endif
	return 0;
}

/*
 * The Python stack of a thread, its innermost `max` frames. tp: its thread
 * pointer, tid: its number in its own PID namespace. All of s but scratch is set. memo: at first
 * zeros, this walk's alone as long as it lasts; NULL: nothing is remembered.
 */
PY_INLINE void py_walk(const void *mem, const struct mt_py_offsets *o, __u64 tp, __u32 tid,
		       __u32 max, struct mt_py_stack *s, struct mt_py_memo *memo)
{
	struct py_way w = { .mem = mem, .o = o, .s = s, .memo = memo, .max = max };
	__u64 t;

	s->n = 0;
	s->thread = 0;
	s->next = 0;
	s->why = o->why;
	s->begins = 0;
	if (o->why)
		return;
	t = py_thread(mem, o, tp, tid, s);
	s->thread = t;
	if (!t)
		return;
	s->why = MT_PY_UNREADABLE;
	if (py_top_frame(mem, o, t, &s->next))
		return;
	py_frames(&w);
	/* Threads of C code that once called Python keep a state, and may keep a shim. */
	if (!s->n && s->why == MT_PY_OK)
		s->why = MT_PY_NO_FRAMES;
}

#ifdef __bpf__
/* The thread pointer of the current thread, as at its last context switch or set by the kernel. */
static __always_inline __u64 py_thread_pointer(struct task_struct *t)
{
#if defined(__TARGET_ARCH_x86)
	return BPF_CORE_READ(t, thread.fsbase);
#else
	return BPF_CORE_READ(t, thread.uw.tp_value);
#endif
}

/* Its number in the innermost PID namespace: what gettid() says there. */
static __always_inline __u32 py_thread_number(struct task_struct *t)
{
	struct pid *pid = BPF_CORE_READ(t, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	struct upid *u = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
			 level * bpf_core_type_size(struct upid);

	return BPF_CORE_READ(u, nr);
}
#endif

#endif
