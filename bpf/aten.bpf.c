// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Operators of torch: the outermost on a thread that a TorchDispatchMode would see,
 * and their tensors (ascend-abi.md 2.7.7, msleaks.md 12.5). Exceptions leave these
 * functions, so entry probes and `ret` sites only.
 */
#include "lib/inflight.bpf.h"

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

/* Number of the operator, which the cookie or else the site brings. */
static __always_inline struct mt_op *op__get(struct pt_regs *ctx, struct probe *p, __u32 *no)
{
	*no = 0;
	if (patch_mode() & MT_MODE_COOKIE)
		*no = bpf_get_attach_cookie(ctx) >> 32;
	if (!*no)
		*no = p->site->off[0];
	return bpf_map_lookup_elem(&ops, no);
}

/* Where it returns to, as it is called: on the stack, or in a register that it saves first. */
static __always_inline __u64 return_address(struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	return word_at(ctx->sp);
#else
	return ((const volatile struct user_pt_regs *)ctx)->regs[30];
#endif
}

/* Of a return address, what code that signs it leaves as it is. */
#define SIGNED_FROM 47

/*
 * Is an operator open on this thread that encloses this one? What an exception has
 * left is no more: its return address is not in its place.
 */
static __always_inline int op__enclosed(struct probe *p)
{
	struct mt_guard_key k = { .tid = p->ktid, .class = MT_GUARD_OP };
	struct mt_guard *g = bpf_map_lookup_elem(&guards, &k);
	__u64 sp, back;
	__s32 place;

	if (!g || g->sp <= p->sp)
		return 0;
	sp = g->sp;
	back = g->size;
	place = g->place;
	return place == MT_OP_NO_BACK || (word_at(sp + place) ^ back) << (64 - SIGNED_FROM) == 0;
}

static __always_inline struct mt_guard *op__open(struct pt_regs *ctx, struct probe *p,
						 const struct mt_op *op, __u32 no)
{
	struct mt_guard_key k = { .tid = p->ktid, .class = MT_GUARD_OP };
	struct mt_guard g = { .sp = p->sp, .pair = p->site->pair, .fn = no };

	g.size = return_address(ctx);
	g.place = op->back;
	if (!bpf_map_update_elem(&guards, &k, &g, BPF_ANY))
		return bpf_map_lookup_elem(&guards, &k);
	stat_inc(p, entry);
	stat_inc(p, seen);
	probe__lose(p, MT_LOSS_INFLIGHT, -1);
	return 0;
}

/* Start or end. */
static __always_inline void op__emit(struct probe *p, __u16 fn, __u32 no, __u64 time)
{
	struct mt_call *c;

	stat_inc(p, entry);
	stat_inc(p, seen);
	c = bpf_ringbuf_reserve(&events, sizeof(*c), 0);
	if (!c) {
		probe__lose(p, MT_LOSS_RING, -1);
		return;
	}
	hdr__fill(&c->h, p, MT_REC_CALL, sizeof(*c), time);
	c->h.fn = fn;
	c->begin = time;
	c->ret = 0;
	c->a[0] = no;
	c->a[1] = c->a[2] = c->a[3] = c->a[4] = 0;
	EMIT_SUBMIT(p, c);
}

/* ---- tensors ---- */

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

/* ---- what is made of other operators ---- */

#define TLS_NEAR (1 << 20) /* bytes from the thread pointer: more than glibc has of static TLS */

/*
 * Keys that the thread excludes beyond those that a new one does: gradients in inference mode
 * and in code below them, the Python key where torch keeps modes out. 0 where it is not known.
 * Global: verified once, however it is come to.
 */
__noinline __u64 keys_off(__u64 slot, __u32 form)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 word[2] = {}, tp, dtv, block;

#if defined(__TARGET_ARCH_x86)
	tp = BPF_CORE_READ(task, thread.fsbase);
	dtv = tp + 8; /* glibc, sysdeps/x86_64/nptl/tls.h: tcbhead_t */
#else
	tp = BPF_CORE_READ(task, thread.uw.tp_value);
	dtv = tp; /* glibc, sysdeps/aarch64/nptl/tls.h: tcbhead_t */
#endif
	read_there(word, sizeof(word), slot);
	if (form == MT_TLS_DESC) {
		/*
		 * What the resolver is given: an offset from the thread pointer, or where a
		 * tls_index is (glibc, elf/dl-tlsdesc.h). No heap is that low.
		 */
		slot = word[1];
		if (slot + TLS_NEAR < 2 * TLS_NEAR)
			return word_at(tp + slot + 8);
		read_there(word, sizeof(word), slot);
	} else if (form == MT_TLS_OFFSET) {
		return word_at(tp + word[0] + 8);
	}
	/* tls_index: module, offset; dtv[module] is {block, …} (ELF Handling For TLS, 3.4) */
	block = word_at(word_at(dtv) + 16 * (word[0] & 0xfff));
	/* included, excluded; not there: 0 */
	return word_at(block + word[1] + 8);
}

/* Is there a tensor that the code for gradients would look at? Unknown: yes. */
static __always_inline int has_gradients(const __u64 *word, struct mt_op *op,
					 const struct mt_torch *t)
{
	__u64 keys = 0, n;
	__u32 i;

	if (op->flags & MT_OP_CUT)
		return 1;
#pragma clang loop unroll(disable)
	for (i = 0; i < MT_OP_ARGS; i++) {
		if (i >= op->n_args)
			break;
		keys |= word_at(arg__tensor(word, &op->arg[i], 0, &n) + t->key_set);
	}
	return keys >> (t->autograd & 63) & 1;
}

/* Would a dispatch mode see this call, and not only those that it makes? */
static __always_inline int is_seen(struct pt_regs *ctx, const __u64 *word, struct mt_op *op,
				   const struct mt_torch *t)
{
	__u64 grad = t->autograd & 63, off = 0;

	if (t->tls_slot)
		off = keys_off(CTX_IP(ctx) - op->vaddr + t->tls_slot, t->tls_form);
	if (off & t->python)
		return 0;
	if (!(op->flags & MT_OP_COMPOSITE))
		return 1;
	/* Gradients, tracing and the like are dealt with, or not yet. */
	if (op->flags & MT_OP_REDISPATCH)
		return !grad || !(args__word(word, op->keys) >> grad & 1);
	return grad && (off >> grad & 1 || !has_gradients(word, op, t));
}

/* ---- entry and returns ---- */

/* steps: one a tensor, so that it is one loop. */
static __always_inline int op__enter(struct pt_regs *ctx, const __u32 steps)
{
	__u64 word[MT_OP_WORDS] = {};
	struct mt_torch *t;
	struct mt_guard *g;
	struct probe p;
	struct mt_op *op;
	__u32 no, which;

	if (!probe__start(&p, ctx))
		return 0;
	if (op__enclosed(&p)) {
		stat_inc(&p, nested);
		return 0;
	}
	op = op__get(ctx, &p, &no);
	if (!op)
		return 0;
	which = op->torch;
	t = bpf_map_lookup_elem(&torches, &which);
	if (!t)
		return 0;
	args__take(word, ctx, &p);
	if (!is_seen(ctx, word, op, t)) {
		stat_inc(&p, nested);
		return 0;
	}
	g = op__open(ctx, &p, op, no);
	if (!g)
		return 0;
	if (!(p.site->flags & MT_SITE_NO_OPS))
		op__emit(&p, MT_FN_ATEN_START, no, p.now);
	if ((p.site->flags & MT_SITE_ACCESS) && t->key_set && !(op->flags & MT_OP_NO_ACCESS))
		op__inputs(word, &p, op, t, g, no, steps);
	return 0;
}

static __always_inline int op__leave(struct pt_regs *ctx, const __u32 steps)
{
	struct mt_guard *g;
	struct mt_torch *t;
	struct probe p;
	struct mt_op *op;
	__u32 no, which;

	if (!probe__start(&p, ctx))
		return 0;
	g = guard__mine(&p, MT_GUARD_OP);
	if (!g)
		return 0;
	op = op__get(ctx, &p, &no);
	if (!op || g->fn != no)
		return 0;
	which = op->torch;
	t = bpf_map_lookup_elem(&torches, &which);
	if (t && (p.site->flags & MT_SITE_ACCESS) && t->key_set && op->out &&
	    !(op->flags & MT_OP_NO_ACCESS))
		op__outputs(ctx, &p, op, t, g, no, steps);
	guard__drop(&p, MT_GUARD_OP);
	if (!(p.site->flags & MT_SITE_NO_OPS))
		op__emit(&p, MT_FN_ATEN_END, no, bpf_ktime_get_boot_ns());
	return 0;
}

SEC("uprobe")
int aten_e(struct pt_regs *ctx)
{
	return op__enter(ctx, MT_OP_ARGS);
}

SEC("uprobe")
int aten_r(struct pt_regs *ctx)
{
	return op__leave(ctx, MT_OP_OUTS);
}

/* The same with lists of tensors, which take the verifier twenty times as long. */
SEC("uprobe")
int atens_e(struct pt_regs *ctx)
{
	return op__enter(ctx, MT_OP_LIST);
}

SEC("uprobe")
int atens_r(struct pt_regs *ctx)
{
	return op__leave(ctx, MT_OP_LIST);
}
