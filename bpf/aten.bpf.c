// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Operators of torch: the outermost on a thread that a TorchDispatchMode would see,
 * and their tensors (ascend-abi.md 2.7.7, msleaks.md 12.5). Exceptions leave these
 * functions, so entry probes and `ret` sites only.
 */
#include "lib/tensors.bpf.h"

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

/* Start or end; a start with its Python stack, which is that of all that the operator does. */
static __always_inline void op__emit(struct probe *p, __u16 fn, __u32 no, __u64 time)
{
	struct refs refs = {};
	struct mt_call *c;

	stat_inc(p, entry);
	stat_inc(p, seen);
	if (fn == MT_FN_ATEN_START)
		refs__python(p, &refs);
	c = bpf_ringbuf_reserve(&events, sizeof(*c) + REFS_SIZE, 0);
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
	refs__put_taken(&refs, &c->h, sizeof(*c));
	EMIT_SUBMIT(p, c);
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

/* Is this the outermost operator of a thread of ours? Its number, 0 = no. */
static __always_inline __u32 op__start(struct pt_regs *ctx, struct probe *p)
{
	__u32 no;

	if (!probe__start(p, ctx))
		return 0;
	if (op__enclosed(p)) {
		stat_inc(p, nested);
		return 0;
	}
	return op__get(ctx, p, &no) ? no : 0;
}

/* It and its torch; 0: there is none of this number. */
static __always_inline int op__find(__u32 no, struct mt_op **op, struct mt_torch **t)
{
	__u32 which;

	*op = bpf_map_lookup_elem(&ops, &no);
	if (!*op)
		return 0;
	which = (*op)->torch;
	*t = bpf_map_lookup_elem(&torches, &which);
	return *t != 0;
}

/* steps: one a tensor, so that it is one loop. */
static __always_inline void op__look(struct probe *p, const __u64 *word, struct mt_op *op,
				     struct mt_torch *t, struct mt_guard *g, __u32 no,
				     const __u32 steps)
{
	if ((p->site->flags & MT_SITE_ACCESS) && t->key_set && !(op->flags & MT_OP_NO_ACCESS))
		op__inputs(word, p, op, t, g, no, steps);
}

#ifndef MT_WITH_STACKS
static __always_inline int op__enter(struct pt_regs *ctx, const __u32 steps)
{
	__u64 word[MT_OP_WORDS] = {};
	struct mt_torch *t;
	struct mt_guard *g;
	struct mt_op *op;
	struct probe p;
	__u32 no;

	no = op__start(ctx, &p);
	if (!no || !op__find(no, &op, &t))
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
	op__look(&p, word, op, t, g, no, steps);
	return 0;
}
#else
/*
 * The words of the arguments and the walk of a stack do not fit into 512 bytes together, so these
 * are functions, one after the other. They have no marks that are patched: prog__patch() sees the
 * program alone.
 */
static __noinline int op__begin(struct pt_regs *ctx, struct probe *p, __u32 no)
{
	__u64 word[MT_OP_WORDS] = {};
	struct mt_torch *t;
	struct mt_op *op;

	if (!op__find(no, &op, &t))
		return 0;
	args__take(word, ctx, p);
	if (!is_seen(ctx, word, op, t)) {
		stat_inc(p, nested);
		return 0;
	}
	return 1;
}

static __noinline int op__guard(struct pt_regs *ctx, struct probe *p, __u32 no)
{
	const struct mt_op *op = bpf_map_lookup_elem(&ops, &no);

	return op && op__open(ctx, p, op, no);
}

static __noinline int op__tell(struct probe *p, __u32 no)
{
	op__emit(p, MT_FN_ATEN_START, no, p->now);
	return 0;
}

static __noinline int op__arguments(struct pt_regs *ctx, struct probe *p, __u32 no,
				    const __u32 steps)
{
	struct mt_guard *g = guard__mine(p, MT_GUARD_OP);
	__u64 word[MT_OP_WORDS] = {};
	struct mt_torch *t;
	struct mt_op *op;

	if (!g || !op__find(no, &op, &t))
		return 0;
	args__take(word, ctx, p);
	op__look(p, word, op, t, g, no, steps);
	return 0;
}

static __always_inline int op__enter(struct pt_regs *ctx, const __u32 steps)
{
	struct probe p;
	__u32 no;

	no = op__start(ctx, &p);
	if (!no || !op__begin(ctx, &p, no) || !op__guard(ctx, &p, no))
		return 0;
	if (!(p.site->flags & MT_SITE_NO_OPS))
		op__tell(&p, no);
	if (p.site->flags & MT_SITE_ACCESS)
		op__arguments(ctx, &p, no, steps);
	return 0;
}
#endif

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
