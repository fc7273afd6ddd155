// SPDX-License-Identifier: Apache-2.0
/* Operators of torch and their accesses: whose call stacks their rows have. */
#include "model_test.h"

static struct event op(enum event_kind kind, uint64_t number, uint64_t py)
{
	struct event e = text_event(kind, "aten.add.Tensor");

	e.key = number;
	e.refs.py = py;
	e.device = 0;
	e.size = 8;
	e.access.dtype = "torch.float32";
	return e;
}

static uint64_t stack_of(struct event e)
{
	const struct row *r = row_of(e);

	cr_expect_eq(r->stack_c, 0);
	return r->attrs & ATTR_STACKS ? r->stack_py : 0;
}

/* An operator's Python stack is that of all its rows, on its thread. */
Test(ops, stacks)
{
	struct model_opts o = ALL_OPTS;

	o.level |= LEVEL_OP;
	o.events |= EVENTS_ACCESS;
	o.stacks = true;
	begin_opts(o);
	cr_expect_eq(stack_of(op(EV_OP_START, 7, 0xabc)), 0xabc);
	cr_expect_eq(stack_of(op(EV_ACCESS, 7, 0)), 0xabc);
	cr_expect_eq(rows[n_rows - 1].start, START);
	/* Of another thread, of another operator: not known. */
	cr_expect_eq(stack_of(on_thread(op(EV_ACCESS, 7, 0), PID + 5)), 0);
	cr_expect_eq(stack_of(op(EV_ACCESS, 8, 0)), 0);
	cr_expect_eq(stack_of(op(EV_OP_END, 7, 0)), 0xabc);
	cr_expect_eq(stack_of(op(EV_ACCESS, 7, 0)), 0);
	/* An exception left it; then it begins without a stack. */
	cr_expect_eq(stack_of(op(EV_OP_START, 7, 0xdef)), 0xdef);
	cr_expect_eq(stack_of(op(EV_OP_START, 7, 0)), 0);
	cr_expect_eq(stack_of(op(EV_OP_END, 7, 0)), 0);
	end();
}

/* Also where starts have no row of their own. */
Test(ops, stacks_of_accesses_alone)
{
	struct model_opts o = ALL_OPTS;

	o.level |= LEVEL_OP;
	o.events = EVENTS_ALLOC | EVENTS_ACCESS;
	o.stacks = true;
	begin_opts(o);
	ruled_out(op(EV_OP_START, 7, 0xabc), RULE_FILTERED);
	cr_expect_eq(stack_of(op(EV_ACCESS, 7, 0)), 0xabc);
	end();
}
