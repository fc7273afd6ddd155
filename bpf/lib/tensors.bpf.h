/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tensors among the arguments and the results of an operator of torch: where they are, one record
 * each. */
#ifndef MEMTAP_TENSORS_BPF_H
#define MEMTAP_TENSORS_BPF_H

#include "inflight.bpf.h"

/*
 * What the operator was called with has just been written: its pages are there, and nothing
 * here waits for one. That also spares the verifier half of the ways.
 */
static __always_inline long read_there(void *dst, __u32 n, __u64 addr)
{
	return bpf_probe_read_user(dst, n, (const void *)addr);
}

/* 0 where nothing can be read. */
static __always_inline __u64 word_at(__u64 addr)
{
	__u64 v = 0;

	read_there(&v, sizeof(v), addr);
	return v;
}

#define HOW_WRITE 0x1
#define HOW_RESULT 0x2

/*
 * c10::DeviceType::PrivateUse1 is 20. Bytes 2 to 4 are an optional<Device>: type, index,
 * is there one; before 2.2 the last came first.
 */
static __always_inline int is_npu(__u64 raw)
{
	return (raw & 0xff00ff0000) == 0x0100140000 || (raw & 0xffff0000) == 0x14010000;
}

/* Losses are counted in the guard, and told behind the loop. */
#define FAULTS(g) (*(volatile __u32 *)&(g)->flag)
#define FULL(g) (*(volatile __u32 *)&(g)->device)

/* Few ways through it: the verifier looks at each of them for each step of a loop. */
static __always_inline void tensor__emit(struct probe *p, const struct mt_torch *t,
					 struct mt_guard *g, __u64 impl, __u32 no, __u32 how)
{
	struct {
		__s64 offset, numel;
		__u64 raw;
	} at;
	__u64 dim[2], sizes;
	struct mt_access *r;

	/* dim: their number, and the first of five sizes or the address of more */
	if (read_there(&at, sizeof(at), impl + t->place) |
	    read_there(dim, sizeof(dim), impl + t->ndim)) {
		FAULTS(g) = FAULTS(g) + 1;
		return;
	}
	if (!is_npu(at.raw))
		return;
	r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	if (!r) {
		FULL(g) = FULL(g) + 1;
		return;
	}
	stat_inc(p, entry);
	stat_inc(p, seen);
	stat_inc(p, submitted);
	hdr__fill(&r->h, p, MT_REC_ACCESS, sizeof(*r), bpf_ktime_get_boot_ns());
	r->op = no;
	r->write = how & HOW_WRITE;
	r->result = how & HOW_RESULT;
	r->arg = how >> 8;
	r->dims = dim[0];
	r->data = word_at(word_at(impl + t->storage) + t->data);
	r->offset = at.offset;
	r->numel = at.numel;
	__builtin_memcpy(r->raw, &at.raw, sizeof(r->raw));
	/* Behind either stand strides. */
	sizes = dim[0] > 5 ? dim[1] : impl + t->ndim + 8;
	read_there(r->sizes, sizeof(r->sizes), sizes);
	/* The end of the operator wakes the reader. */
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static __always_inline void tensors__begin(struct mt_guard *g)
{
	g->refused = g->segment = g->device = g->flag = 0;
}

static __always_inline void tensors__end(struct probe *p, struct mt_guard *g, __u32 cut)
{
	__u32 faults = FAULTS(g), full = FULL(g);

	__sync_fetch_and_add(&p->stat->entry, faults + full + cut);
	__sync_fetch_and_add(&p->stat->seen, faults + full + cut);
	if (faults)
		probe__lose_n(p, MT_LOSS_FAULT, -1, faults);
	if (full)
		probe__lose_n(p, MT_LOSS_RING, -1, full);
	if (cut)
		probe__lose_n(p, MT_LOSS_LENGTH, -1, cut);
}

/* The words that hold arguments: registers, and behind them the stack. */
static __always_inline void args__take(__u64 *word, struct pt_regs *ctx, struct probe *p)
{
	__u64 stack = p->sp;

	word[0] = ctx_arg(ctx, 0, p->sp);
	word[1] = ctx_arg(ctx, 1, p->sp);
	word[2] = ctx_arg(ctx, 2, p->sp);
	word[3] = ctx_arg(ctx, 3, p->sp);
	word[4] = ctx_arg(ctx, 4, p->sp);
	word[5] = ctx_arg(ctx, 5, p->sp);
#if REG_ARGS == 8
	word[6] = ctx_arg(ctx, 6, p->sp);
	word[7] = ctx_arg(ctx, 7, p->sp);
#else
	stack += 8; /* the return address */
#endif
	/* What is beyond them is not there or not theirs: nobody asks for it. */
	read_there(&word[REG_ARGS], 8 * (MT_OP_WORDS - REG_ARGS), stack);
}

static __always_inline __u64 args__word(const __u64 *word, __u64 i)
{
	if (i >= MT_OP_WORDS)
		return 0;
	/* The compiler knows it, the verifier is told. */
	asm volatile("%0 &= 31\nif %0 < %1 goto +1\n%0 = 0" : "+r"(i) : "i"(MT_OP_WORDS));
	return word[i];
}

/* The implementation behind an argument, 0 = no tensor; *n = how many stand there. */
static __always_inline __u64 arg__tensor(const __u64 *word, const struct mt_op_arg *a, __u64 i,
					 __u64 *n)
{
	__u64 v = args__word(word, a->where), there, list = a->bits & MT_ARG_LIST;

	/* Without branches: 1 or what the next word says; all bits or none. */
	*n = (args__word(word, a->where + 1) & -(list >> 1)) | (~list >> 1 & 1);
	if (a->bits & MT_ARG_ILIST) {
		/* c10::IListRef: a list of boxed values has another kind */
		*n = word_at(v + 16) & 0xff ? 0 : word_at(v + 8);
		v = word_at(v);
	}
	v += 8 * i;
	there = (word_at(v + a->flag) & 1) | (a->bits & MT_ARG_SURE);
	return word_at(v + a->impl) & -there;
}

/*
 * Where a loop stands is kept in the guard, which is this thread's own: what comes from a
 * map the verifier does not follow, and steps look the same to it.
 */
#define PLACE(g) (*(volatile __u32 *)&(g)->refused)
#define WITHIN(g) (*(volatile __u32 *)&(g)->segment)

static __always_inline void op__inputs(const __u64 *word, struct probe *p, struct mt_op *op,
				       struct mt_torch *t, struct mt_guard *g, __u32 no,
				       const __u32 steps)
{
	__u32 step;

	tensors__begin(g);
#pragma clang loop unroll(disable)
	for (step = 0; step < steps; step++) {
		__u32 arg = PLACE(g), i = WITHIN(g);
		struct mt_op_arg *a;
		__u64 impl, n;

		if (arg >= op->n_args || arg >= MT_OP_ARGS)
			break;
		a = &op->arg[arg];
		impl = arg__tensor(word, a, i, &n);
		if (i + 1 < n) {
			WITHIN(g) = i + 1;
		} else {
			PLACE(g) = arg + 1;
			WITHIN(g) = 0;
		}
		if (impl && i < n)
			tensor__emit(p, t, g, impl, no, (a->bits >> 2 & HOW_WRITE) | arg << 8);
	}
	tensors__end(p, g, PLACE(g) < op->n_args);
}

/* The result, at the end of the function or a little before. */
static __always_inline __u64 op__result(struct pt_regs *ctx, const struct mt_op *op)
{
#if defined(__TARGET_ARCH_x86)
	__u64 v;

	switch (op->from) {
	case MT_FROM_BX:
		v = ctx->bx;
		KEEP(v);
		return v;
	case MT_FROM_R12:
		v = ctx->r12;
		KEEP(v);
		return v;
	case MT_FROM_R13:
		v = ctx->r13;
		KEEP(v);
		return v;
	case MT_FROM_R14:
		v = ctx->r14;
		KEEP(v);
		return v;
	case MT_FROM_R15:
		v = ctx->r15;
		KEEP(v);
		return v;
	case MT_FROM_BP:
		v = ctx->bp;
		KEEP(v);
		return v;
	case MT_FROM_FRAME:
		return word_at(ctx->bp + (__s64)op->disp);
	}
#endif
	return CTX_RC(ctx);
}

static __always_inline void op__outputs(struct pt_regs *ctx, struct probe *p, struct mt_op *op,
					struct mt_torch *t, struct mt_guard *g, __u32 no,
					const __u32 steps)
{
	__u64 at = op__result(ctx, op), n = op->n_outs, list[2] = {};
	__s64 stride = -8; /* the last of a tuple stands first */
	__u32 step;

	if (op->out == MT_OUT_LIST) {
		read_there(list, sizeof(list), at);
		at = list[0];
		n = (list[1] - list[0]) / 8;
		stride = 8;
	} else {
		at += 8 * (n - 1);
	}
	tensors__begin(g);
#pragma clang loop unroll(disable)
	for (step = 0; step < steps; step++) {
		__u32 i = PLACE(g);
		__u64 v = at + stride * (__s64)i, impl;

		if (i >= n)
			break;
		PLACE(g) = i + 1;
		if (op->out == MT_OUT_REFS)
			v = word_at(v);
		impl = word_at(v);
		if (impl)
			tensor__emit(p, t, g, impl, no, HOW_WRITE | HOW_RESULT | i << 8);
	}
	tensors__end(p, g, PLACE(g) < n);
}

#endif
