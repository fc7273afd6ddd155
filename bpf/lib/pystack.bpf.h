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

PY_INLINE int py_u64(const void *mem, __u64 addr, __u64 *v)
{
	*v = 0;
	return PY_READ(mem, v, sizeof(*v), addr);
}

/* The thread's state in the interpreters' lists; 0 and *why when it is not there. */
PY_INLINE __u64 py_thread_in_lists(const void *mem, const struct mt_py_offsets *o, __u64 self,
				   __u32 tid, __u32 *why)
{
	__u64 interp = 0, t = 0, id = 0;
	int i;

	*why = MT_PY_UNREADABLE;
	if (py_u64(mem, o->interp_head, &interp))
		return 0;
#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (i = 0; i < MT_PY_THREADS; i++) {
		if (!t) {
			if (!interp) {
				*why = MT_PY_NO_THREAD;
				return 0;
			}
			if (py_u64(mem, interp + o->threads_head, &t) ||
			    py_u64(mem, interp + o->interp_next, &interp))
				return 0;
			continue;
		}
		if (py_u64(mem, t + (o->native_id ? o->native_id : o->thread_id), &id))
			return 0;
		if (id == (o->native_id ? tid : self))
			return t;
		if (py_u64(mem, t + o->thread_next, &t))
			return 0;
	}
	*why = MT_PY_MANY_THREADS;
	return 0;
}

/* The state of a thread by its thread pointer and number; 0 and *why. */
PY_INLINE __u64 py_thread(const void *mem, const struct mt_py_offsets *o, __u64 tp, __u32 tid,
			  __u32 *why)
{
	__u64 self = tp + (__s64)o->self, t = 0, id = 0;

	if (o->find == MT_PY_FIND_LIST)
		return py_thread_in_lists(mem, o, self, tid, why);
	*why = MT_PY_UNREADABLE;
	if (py_u64(mem, tp + (__s64)o->slot, &t))
		return 0;
	if (o->find == MT_PY_FIND_BLOCK && t && py_u64(mem, t + o->block, &t))
		return 0;
	*why = MT_PY_NO_THREAD;
	if (!t)
		return 0;
	*why = MT_PY_UNREADABLE;
	if (py_u64(mem, t + o->thread_id, &id))
		return 0;
	*why = MT_PY_OTHER_THREAD;
	return id == self ? t : 0;
}

#define PY_COUNT(s) (*(volatile __u32 *)&(s)->n)
#define PY_BEGINS(s) (*(volatile __u16 *)&(s)->begins)

/*
 * Words at offsets that the target may have chosen: BPF is given them whole on any
 * address. PY_BOUND: the compiler knows that n is small, the verifier forgets it
 * (before 5.16 with a spill).
 */
#ifdef __bpf__
#define PY_BOUND(n) asm volatile("%0 &= %1" : "+r"(n) : "i"(MT_PY_DEPTH - 1))
#define PY_AT64(s, off) (*(const __u64 *)((s)->scratch + (off)))
#define PY_AT32(s, off) (*(const __u32 *)((s)->scratch + (off)))
#else
#define PY_BOUND(n) ((n) &= MT_PY_DEPTH - 1)
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

/* The walk from frame to frame. */
struct py_way {
	const void *mem;
	const struct mt_py_offsets *o;
	struct mt_py_stack *s;
	__u64 frame; /* the next one */
	__u32 max;
};

#ifdef PY_BPF_LOOP
#define PY_STEP static
#else
#define PY_STEP PY_INLINE
#endif

/* One frame into w->s. 1: that was the last one, or why it could not be is in w->s->why. */
PY_STEP long py_frame(__u32 i, struct py_way *w)
{
	const struct mt_py_offsets *o = w->o;
	struct mt_py_stack *s = w->s;
	__u32 n = PY_COUNT(s), copy = 0, check = 0;
	__u64 code, prev, instr;
	struct mt_py_frame *f;
	__u8 owner = 0, first;
	__s32 at;

	if (!w->frame) {
		s->why = MT_PY_OK;
		return 1;
	}
	if (n >= w->max || n >= MT_PY_DEPTH)
		return 1;
	if (PY_READ(w->mem, s->scratch, o->frame_size, w->frame + o->frame_base)) {
		s->why = MT_PY_UNREADABLE;
		return 1;
	}
	code = PY_AT64(s, o->frame_code) & ~(__u64)o->tag;
	prev = PY_AT64(s, o->frame_prev);
	if (o->shim != MT_PY_NONE)
		owner = s->scratch[o->frame_owner];
	if ((o->shim != MT_PY_NONE && owner >= o->shim) || !code || code == o->none) {
		PY_BEGINS(s) = PY_BEGINS(s) + 1;
		w->frame = prev;
		return 0;
	}
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
	if (o->code_size && !PY_READ(w->mem, s->scratch, o->code_size, code + o->code_base))
		check = mt_py_check(PY_AT64(s, o->code_name), PY_AT64(s, o->code_table),
				    PY_AT32(s, o->code_first));
	n = PY_COUNT(s);
	PY_BOUND(n);
	f = &s->frame[n];
	f->code = (code & MT_PY_CODE) | (__u64)PY_BEGINS(s) << MT_PY_BEGINS_SHIFT;
	PY_BEGINS(s) = first;
	f->check = check;
	f->at = at;
	PY_COUNT(s) = n + 1;
	w->frame = prev;
	return 0;
}

/* Frames from `frame` outwards into s, at most `max`; s->n, s->why, s->next. */
PY_INLINE void py_frames(const void *mem, const struct mt_py_offsets *o, __u64 frame, __u32 max,
			 struct mt_py_stack *s)
{
	struct py_way w = { .mem = mem, .o = o, .s = s, .frame = frame, .max = max };

	s->begins = 0;
	s->why = MT_PY_TOO_DEEP;
#ifdef PY_BPF_LOOP /* 5.17: the verifier looks at a frame once */
	bpf_loop(MT_PY_STEPS, py_frame, &w, 0);
#else
	int i;

#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (i = 0; i < MT_PY_STEPS; i++)
		if (py_frame(i, &w))
			break;
#endif
	if (s->why != MT_PY_OK)
		s->next = w.frame;
}

/*
 * The Python stack of a thread, its innermost `max` frames. tp: its thread
 * pointer, tid: its number in its own PID namespace. All of s but scratch is set.
 */
PY_INLINE void py_walk(const void *mem, const struct mt_py_offsets *o, __u64 tp, __u32 tid,
		       __u32 max, struct mt_py_stack *s)
{
	__u64 t, frame = 0;
	__u32 why = o->why;

	s->n = 0;
	s->thread = 0;
	s->next = 0;
	s->why = why;
	s->begins = 0;
	if (why)
		return;
	t = py_thread(mem, o, tp, tid, &why);
	s->thread = t;
	s->why = why;
	if (!t)
		return;
	s->why = MT_PY_UNREADABLE;
	if (py_u64(mem, t + o->frame, &frame))
		return;
	if (o->cframe && frame && py_u64(mem, frame + o->cframe_frame, &frame))
		return;
	py_frames(mem, o, frame, max, s);
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
