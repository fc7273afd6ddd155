// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Markers: the C library, and the Python functions that never reach it in a
 * process without a tool (ascend-abi.md 2.6, msleaks.md 12.3).
 */
#include "lib/inflight.bpf.h"

/* A Python mark that does reach the library must not count twice. */
static __always_inline int from_python(struct probe *p)
{
	if (!guard__around(p, MT_GUARD_PYMSTX))
		return 0;
	stat_inc(p, nested);
	return 1;
}

/* arg[0] = message, arg[1] = stream, arg[2] = domain */
SEC("uprobe")
int mstx_mark(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx) || from_python(&p))
		return 0;
	stat_inc(&p, entry);
	f.begin = p.now;
	f.a[0] = ctx_arg(ctx, p.site->arg[1], p.sp);
	if (p.site->arg[2] >= 0)
		f.a[1] = ctx_arg(ctx, p.site->arg[2], p.sp);
	f.a[2] = MT_MSTX_LIB;
	EMIT_CALL_TEXT(mt_call_msg, &p, p.now, &f, 0, ctx_arg(ctx, p.site->arg[0], p.sp));
	return 0;
}

static __always_inline int mstx_start_enter(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx) || from_python(&p))
		return 0;
	f.a[0] = ctx_arg(ctx, p.site->arg[1], p.sp);
	if (p.site->arg[2] >= 0)
		f.a[1] = ctx_arg(ctx, p.site->arg[2], p.sp);
	f.a[2] = MT_MSTX_LIB;
	f.a[3] = ctx_arg(ctx, p.site->arg[0], p.sp);
	inflight__put(&p, &f);
	return 1;
}

static __always_inline void mstx_start_leave(struct pt_regs *ctx, __u32 session)
{
	struct mt_inflight f;
	struct probe p;

	if (!probe__start_ret(&p, ctx, session) || guard__around(&p, MT_GUARD_PYMSTX) || !inflight__take(&p, &f))
		return;
	EMIT_CALL_TEXT(mt_call_msg, &p, f.begin, &f, CTX_RC(ctx), f.a[3]);
}
MT_PAIR(mstx_start)

/* arg[0] = id, arg[2] = domain */
SEC("uprobe")
int mstx_end(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx) || from_python(&p))
		return 0;
	stat_inc(&p, entry);
	f.begin = p.now;
	f.a[0] = ctx_arg(ctx, p.site->arg[0], p.sp);
	if (p.site->arg[2] >= 0)
		f.a[1] = ctx_arg(ctx, p.site->arg[2], p.sp);
	f.a[2] = MT_MSTX_LIB;
	emit_call(&p, p.now, &f, 0, -1);
	return 0;
}

/*
 * Python: f(self, args, kwds); the message is the first item of the tuple
 * `args`, else the first value of the dict `kwds` is left to user space (none).
 * off[0] = payload of an ASCII str object: 48, from CPython 3.12 on 40;
 * off[1] = digits of an int object (24). CPython offsets: ascend-abi.md 3.2.
 */
#define TUPLE_ITEM0 24
#define TUPLE_SIZE  16

/* PyASCIIObject: length@16, flags@32 (kind, then compact, then ascii). */
#define PY_STR_LENGTH 16
#define PY_STR_STATE  32
#define PY_KIND       0x07
#define PY_COMPACT    0x08
#define PY_ASCII      0x10

static __always_inline __u64 py_item0(struct pt_regs *ctx, struct probe *p)
{
	__u64 args = ctx_arg(ctx, 1, p->sp), n, item;

	if (!args || user_u64(args + TUPLE_SIZE, &n) || !n || n > 16 ||
	    user_u64(args + TUPLE_ITEM0, &item))
		return 0;
	return item;
}

/*
 * The text of a str object: UTF-8 if it is ASCII, else its code points as they
 * lie there, a[4] bytes each, which user space turns into UTF-8. off[3] = lowest
 * bit of `kind` in the word of flags: 2, from CPython 3.14 on 16.
 */
static __always_inline void py_text(struct pt_regs *ctx, struct probe *p, struct mt_inflight *f)
{
	__u64 s = py_item0(ctx, p);
	__u32 state = 0;

	if (p->site->flags & MT_SITE_GUARD)
		guard__enter(p, MT_GUARD_PYMSTX);
	f->begin = p->now;
	f->a[2] = MT_MSTX_PY;
	if (!s || user_read(&state, sizeof(state), s + PY_STR_STATE))
		return;
	state >>= p->site->off[3] & 31;
	if (!(state & PY_COMPACT))
		return;
	f->a[3] = s + p->site->off[0];
	if (state & PY_ASCII)
		return;
	f->a[3] += p->site->off[2] ? 16 : 24; /* behind utf8_length, utf8[, wstr_length] */
	f->a[4] = state & PY_KIND;
	f->a[1] = s;
}

/* A record with f->a[4] bytes a code point; the object itself is in a[1]. */
static __always_inline void emit_wide(struct probe *p, struct mt_inflight *f)
{
	struct mt_call_msg *r;
	__u64 n = 0;

	stat_inc(p, seen);
	r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	if (!r) {
		probe__lose(p, MT_LOSS_RING, -1);
		return;
	}
	hdr__fill(&r->c.h, p, MT_REC_CALL, sizeof(*r), p->now);
	r->c.begin = f->begin;
	r->c.ret = 0;
	r->c.a[0] = f->a[0];
	r->c.a[1] = 0;
	r->c.a[2] = f->a[2];
	r->c.a[3] = f->a[3];
	r->c.a[4] = f->a[4];
	if (user_u64(f->a[1] + PY_STR_LENGTH, &n))
		n = 0;
	n = n > MT_MSG_LEN ? MT_MSG_LEN * 4 : n * f->a[4];
	if (n > MT_MSG_LEN - 4) {
		r->c.h.flags |= MT_F_TRUNC;
		n = MT_MSG_LEN - 4;
	}
	if (!n || user_read(r->text, n & (MT_MSG_LEN - 1), f->a[3])) {
		r->c.h.flags |= MT_F_NOTEXT;
		n = 0;
	}
	r->c.h.strlen = n;
	EMIT_SUBMIT(p, r);
}

SEC("uprobe")
int py_mark(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	stat_inc(&p, entry);
	py_text(ctx, &p, &f);
	if (f.a[4])
		emit_wide(&p, &f);
	else
		EMIT_CALL_TEXT(mt_call_msg, &p, p.now, &f, 0, f.a[3]);
	return 0;
}

SEC("uprobe")
int py_end(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;
	__u64 item;

	if (!probe__start(&p, ctx))
		return 0;
	stat_inc(&p, entry);
	if (p.site->flags & MT_SITE_GUARD)
		guard__enter(&p, MT_GUARD_PYMSTX);
	item = py_item0(ctx, &p);
	f.begin = p.now;
	f.a[2] = MT_MSTX_PY;
	/* Digits of 30 bits, little end first: ids fit two. */
	if (item && p.site->off[1]) {
		__u32 d[2] = {};
		__u64 size = 0;

		(void)user_u64(item + 16, &size);
		if (!user_read(d, sizeof(d), item + p.site->off[1]))
			f.a[0] = d[0] | (p.site->off[2] ? size >> 3 > 1 : size > 1 ?
					 (__u64)d[1] << 30 : 0);
		if (p.site->off[2] ? !(size >> 3) : !size)
			f.a[0] = 0;
	}
	emit_call(&p, p.now, &f, 0, -1);
	return 0;
}

/* `ret` sites of the Python functions: the end of the nesting guard. */
SEC("uprobe")
int py_ret(struct pt_regs *ctx)
{
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	if (guard__mine(&p, MT_GUARD_PYMSTX))
		guard__drop(&p, MT_GUARD_PYMSTX);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
