// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Marks made from Python: in a process without a tool they never reach the C
 * library (ascend-abi.md 2.6.2, msleaks.md 12.3). off[0] = N of CPython 3.N.
 *
 * Where the `ret` sites are probed too (MT_SITE_GUARD) the mark is written at
 * the return: then its text is in UTF-8, the id of a range and failures are
 * known, and a call that does reach the C library is not counted twice.
 */
#include "lib/host.bpf.h"
#include "lib/python.bpf.h"

static __always_inline void emit_mark(struct probe *p, struct mt_inflight *f, __s64 id)
{
	__u64 text = py_str(f->a[3], p->site->off[0]);

	EMIT_CALL_TEXT(mt_call_msg, p, f->begin, f, id, text);
	if (p->site->fn == MT_FN_MSTX_START && !f->a[4])
		host_range__opened(p, id, 0, text);
}

static __always_inline void emit_end(struct probe *p, struct mt_inflight *f)
{
	emit_call(p, f->begin, f, 0, -1);
	if (!f->a[4])
		host_range__closed(p, f->a[0], 0, 1);
}

static __always_inline void guarded_put(struct probe *p, struct mt_inflight *f)
{
	if (guard__enter(p, MT_GUARD_PYMSTX) >= 0)
		inflight__put(p, f);
}

/* mark, range_start, range_push: a[3] = the message object */
SEC("uprobe")
int py_mark(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	f.a[2] = MT_MSTX_PY;
	f.a[3] = py_arg0(ctx, &p, p.site->off[0]);
	if (p.site->flags & MT_SITE_GUARD) {
		guarded_put(&p, &f);
		return 0;
	}
	stat_inc(&p, entry);
	f.begin = p.now;
	emit_mark(&p, &f, 0);
	return 0;
}

/* range_end, range_pop: a[0] = the id, 0 = the newest of the thread */
SEC("uprobe")
int py_end(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	f.a[0] = py_int(py_arg0(ctx, &p, p.site->off[0]), p.site->off[0]);
	f.a[2] = MT_MSTX_PY;
	if (p.site->flags & MT_SITE_GUARD) {
		guarded_put(&p, &f);
		return 0;
	}
	stat_inc(&p, entry);
	f.begin = p.now;
	emit_end(&p, &f);
	return 0;
}

/* `ret` sites of these functions. A NULL result is a Python exception: a[4] = 1. */
SEC("uprobe")
int py_ret(struct pt_regs *ctx)
{
	struct mt_inflight f;
	struct probe p;
	__u64 rc;

	if (!probe__start(&p, ctx))
		return 0;
	if (guard__mine(&p, MT_GUARD_PYMSTX))
		guard__drop(&p, MT_GUARD_PYMSTX);
	if (!inflight__take(&p, &f))
		return 0;
	rc = CTX_RC(ctx);
	f.a[4] = !rc;
	if (p.site->fn == MT_FN_MSTX_END)
		emit_end(&p, &f);
	else
		emit_mark(&p, &f, p.site->fn == MT_FN_MSTX_START ? py_int(rc, p.site->off[0]) : 0);
	return 0;
}
