// SPDX-License-Identifier: Apache-2.0
/* What processes and their users ask for: start, stop, steps, labels, snapshots (collect.c). */
#include "model_test.h"

static struct model_opts custom(bool vendor, bool newer)
{
	struct model_opts o = ALL_OPTS;

	o.paused = true;
	o.vendor = o.npus = vendor;
	o.newer = newer;
	return o;
}

static struct event asks(enum mt_ask what, uint64_t value, const char *text)
{
	struct event e = text_event(EV_ASK, text);

	e.key = what;
	e.addr = value;
	return e;
}

static struct event block(enum event_kind kind, uint64_t addr)
{
	return pta(kind, addr, 512, 0);
}

static struct event launch(void)
{
	struct event e = text_event(EV_LAUNCH, "AddKernel");

	e.name_kind = MT_NAME_STRING;
	return e;
}

/* data/msleaks/real/custom: rows, numbers of rows and of blocks. */
Test(ask, seed)
{
	begin_opts(custom(true, false));
	put(ev(EV_ACL_INIT));
	cr_assert_eq(n_rows, 2);
	cr_expect(rows[0].type == ROW_ACL_INIT && rows[1].type == ROW_STOP_TRACE);
	ruled_out(block(EV_PTA_MALLOC, 0x1000), RULE_PAUSED);
	ruled_out(launch(), RULE_PAUSED);
	cr_expect_eq(row_of(text_event(EV_MARK, "before"))->id, 3);
	cr_expect_eq(row_of(asks(MT_ASK_START, 0, ""))->type, ROW_START_TRACE);
	cr_expect_eq(rows[n_rows - 1].id, 4);
	cr_expect_eq(row_of(block(EV_PTA_MALLOC, 0x2000))->allocation_id, 1);
	/* Of a block that was made while paused: with its size, and a number of its own. */
	cr_expect_eq(row_of(block(EV_PTA_FREE, 0x1000))->allocation_id, 2);
	cr_expect_eq(rows[n_rows - 1].size, 512);
	cr_expect_eq(rows[n_rows - 1].attrs & ATTR_PREATTACH, 0);
	cr_expect_eq(row_of(launch())->kernel_index, 1);
	ruled_out(asks(MT_ASK_START, 0, ""), RULE_STATE);
	ruled_out(asks(MT_ASK_STEP, 0, ""), RULE_STATE);
	cr_expect_eq(row_of(asks(MT_ASK_STOP, 0, ""))->type, ROW_STOP_TRACE);
	ruled_out(block(EV_PTA_MALLOC, 0x3000), RULE_PAUSED);
	put(asks(MT_ASK_START, 0, ""));
	cr_expect_eq(row_of(block(EV_PTA_FREE, 0x2000))->allocation_id, 3);
	cr_expect_eq(row_of(block(EV_PTA_FREE, 0x3000))->allocation_id, 4);
	cr_expect_eq(rows[n_rows - 1].id, 11);
	end();
}

/* data/msleaks/real/now_deferred */
Test(ask, now)
{
	begin_opts(custom(true, true));
	ruled_out(ev(EV_ACL_INIT), RULE_PAUSED);
	ruled_out(text_event(EV_MARK, "before"), RULE_PAUSED);
	cr_expect_eq(row_of(asks(MT_ASK_START, 0, "512,1024"))->id, 0);
	cr_expect_eq(rows[0].attrs, ATTR_FREE_TOTAL);
	cr_expect(rows[0].snapshot.free == 512 && rows[0].snapshot.total == 1024);
	cr_expect_eq(row_of(block(EV_PTA_MALLOC, 0x2000))->allocation_id, 1);
	cr_expect_eq(row_of(asks(MT_ASK_STEP, 0, ""))->type, ROW_STEP);
	cr_expect_str_eq(rows[n_rows - 1].name, "1");
	put(asks(MT_ASK_STOP, 0, ""));
	put(asks(MT_ASK_START, 0, "much,,,"));
	cr_expect(rows[n_rows - 1].snapshot.free == -1 && rows[n_rows - 1].snapshot.total == -1);
	cr_expect_eq(row_of(block(EV_PTA_FREE, 0x2000))->allocation_id, 1);
	end();
}

/* record: numbers of blocks stay; who was made while paused says so at its end. */
Test(ask, record)
{
	uint64_t id;

	begin_opts(custom(false, false));
	cr_assert_eq(model__process(m, PID, START, 5), 0);
	cr_expect_eq(rows[0].type, ROW_STOP_TRACE);
	put(block(EV_PTA_MALLOC, 0x1000));
	put(asks(MT_ASK_START, 0, ""));
	cr_expect_eq(rows[n_rows - 1].type, ROW_START_TRACE);
	cr_expect(row_of(block(EV_PTA_FREE, 0x1000))->attrs & ATTR_PREATTACH);
	id = row_of(block(EV_PTA_MALLOC, 0x2000))->allocation_id;
	put(asks(MT_ASK_STOP, 0, ""));
	put(asks(MT_ASK_START, 0, ""));
	cr_expect_eq(row_of(block(EV_PTA_FREE, 0x2000))->allocation_id, id);
	cr_expect_eq(rows[n_rows - 1].attrs & ATTR_PREATTACH, 0);
	cr_expect_eq(counts().rows_events + counts().rows_extra, n_rows);
	/* Paused at its end, it has its STOP_TRACE already. */
	put(of_process(ev(EV_ACL_INIT), PID + 1));
	cr_expect_eq(rows_with(ROW_SYSTEM, ROW_STOP_TRACE), 3);
	model__stop(m, ++now);
	cr_expect_eq(rows_with(ROW_SYSTEM, ROW_STOP_TRACE), 4);
	end();
}

/* From outside: for one process, for all and those to come; it is no event. */
Test(ask, from_outside)
{
	uint64_t events;

	begin_opts(custom(false, false));
	put(ev(EV_ACL_INIT));
	put(of_process(ev(EV_ACL_INIT), PID + 1));
	cr_expect(model__all_paused(m));
	events = counts().rows_events;
	cr_expect_eq(model__ask(m, MT_ASK_START, PID + 1, "", ++now), 1);
	cr_expect_eq(rows[n_rows - 1].pid, PID + 1);
	cr_expect_eq(rows[n_rows - 1].time, now);
	cr_expect_not(model__all_paused(m));
	ruled_out(block(EV_PTA_MALLOC, 0x1000), RULE_PAUSED);
	row_of(of_process(block(EV_PTA_MALLOC, 0x1000), PID + 1));
	cr_expect_eq(model__ask(m, MT_ASK_STOP, PID + 1, "", ++now), 1);
	cr_expect(model__all_paused(m));
	cr_expect_eq(model__ask(m, MT_ASK_START, 0, "", ++now), 2);
	row_of(block(EV_PTA_MALLOC, 0x2000));
	put(of_process(block(EV_PTA_MALLOC, 0x1000), PID + 2));
	cr_expect(rows[n_rows - 2].pid == PID + 2 && rows[n_rows - 2].type == ROW_START_TRACE);
	cr_expect_eq(rows[n_rows - 1].type, ROW_PTA);
	cr_expect_eq(model__ask(m, MT_ASK_MARK, PID, "a mark", ++now), 1);
	cr_expect_str_eq(rows[n_rows - 1].name, "a mark");
	cr_expect_eq(model__ask(m, MT_ASK_SNAPSHOT, PID, "s", ++now), 1);
	cr_expect(rows[n_rows - 1].type == ROW_SNAP && rows[n_rows - 1].device == 0);
	cr_expect_eq(rows[n_rows - 1].snapshot.allocated, 1536);
	cr_expect_eq(rows[n_rows - 1].snapshot.reserved, 20971520);
	cr_expect_eq(rows[n_rows - 1].snapshot.total, -1);
	cr_expect_eq(model__ask(m, MT_ASK_START, 12345, "", ++now), 0);
	cr_expect_eq(counts().rows_events, events + 3);
	cr_expect_eq(model__starts(m), 0);
	end();
}

/* A child goes on as its parent was; a new program begins as all do. */
Test(ask, fork_and_exec)
{
	struct event e;

	begin_opts(custom(false, false));
	put(asks(MT_ASK_START, 0, ""));
	cr_expect_eq(model__starts(m), 1);
	e = of_process(ev(EV_FORK), PID + 1);
	e.addr = PID;
	put(e);
	row_of(of_process(block(EV_PTA_MALLOC, 0x1000), PID + 1));
	put(of_process(ev(EV_EXEC), PID + 1));
	ruled_out(of_process(block(EV_PTA_MALLOC, 0x1000), PID + 1), RULE_PAUSED);
	row_of(block(EV_PTA_MALLOC, 0x1000));
	end();
}

static const char *owner_after(struct event e)
{
	const struct row *r = row_of(e);

	return r->attrs & ATTR_OWNER ? r->owner : NULL;
}

/* msleaks.md 8.1: of the thread, three of them, on driver memory too; without decompose as well. */
Test(ask, labels)
{
	struct model_opts o = ALL_OPTS;
	struct event e;
	char longer[200];

	o.vendor = o.npus = o.owners = true;
	begin_opts(o);
	cr_expect_str_eq(owner_after(block(EV_PTA_MALLOC, 0x100)), "PTA");
	put(asks(MT_ASK_ENTER, 0, "a"));
	cr_expect_str_eq(owner_after(block(EV_PTA_MALLOC, 0x1000)), "PTA@a");
	put(asks(MT_ASK_ENTER, 0, "b"));
	put(asks(MT_ASK_ENTER, 0, "b"));
	put(asks(MT_ASK_ENTER, 0, "c"));
	put(asks(MT_ASK_ENTER, 0, "d"));
	cr_expect_str_eq(owner_after(block(EV_PTA_MALLOC, 0x2000)), "PTA@a@b@c");
	cr_expect_str_eq(owner_after(on_thread(block(EV_PTA_MALLOC, 0x3000), PID + 9)), "PTA");
	e = hal(0x4000, 512, 0);
	e.module = 33;
	cr_expect_str_eq(owner_after(e), "CANN@APP@a@b@c");
	put(asks(MT_ASK_LEAVE, 0, "d"));
	put(asks(MT_ASK_LEAVE, 0, "b"));
	cr_expect_str_eq(owner_after(block(EV_PTA_MALLOC, 0x5000)), "PTA@a@b@c");
	put(asks(MT_ASK_LEAVE, 0, "b"));
	cr_expect_str_eq(owner_after(block(EV_PTA_MALLOC, 0x6000)), "PTA@a@c");
	put(asks(MT_ASK_LEAVE, 0, "a"));
	put(asks(MT_ASK_LEAVE, 0, "c"));
	put(asks(MT_ASK_LEAVE, 0, "c"));
	cr_expect_str_eq(owner_after(block(EV_PTA_MALLOC, 0x7000)), "PTA");
	cr_expect_eq(counts().labels_over, 1);
	/* V-seed has 64 characters of one. */
	memset(longer, 'x', sizeof(longer));
	longer[199] = '\0';
	put(asks(MT_ASK_ENTER, 0, longer));
	cr_expect_eq(strlen(owner_after(block(EV_PTA_MALLOC, 0x8000))), 4 + 64);
	put(asks(MT_ASK_LEAVE, 0, longer));
	cr_expect_str_eq(owner_after(block(EV_PTA_MALLOC, 0x9000)), "PTA");
	end();

	o.owners = false;
	begin_opts(o);
	put(asks(MT_ASK_ENTER, 0, "a"));
	cr_expect_str_eq(owner_after(block(EV_PTA_MALLOC, 0x1000)), "@a");
	end();
}

/* Threads without end that enter and never leave. */
Test(ask, labels_are_bounded)
{
	uint32_t i;

	begin();
	for (i = 0; i < 5000; i++)
		put(on_thread(asks(MT_ASK_ENTER, 0, "l"), 1000 + i));
	cr_expect_eq(counts().labels_over, 5000 - 4096);
	end();
}

Test(ask, labels_of_blocks)
{
	struct model_opts o = ALL_OPTS;

	o.vendor = o.npus = o.owners = true;
	begin_opts(o);
	put(block(EV_PTA_MALLOC, 0x1000));
	put(hal(0x1000, 2097152, 0));
	put(hal(0x8000, 2097152, 0));
	put(asks(MT_ASK_LABEL, 0x1000, "obj"));
	put(asks(MT_ASK_LABEL, 0x8000, "seg"));
	put(asks(MT_ASK_LABEL, 0x9000, "none"));
	cr_assert_eq(n_labels, 2);
	cr_expect_str_eq(labels[0], "PTA 1000 obj");
	cr_expect_str_eq(labels[1], "HAL 8000 seg");
	cr_expect_eq(counts().labels_over, 1);
	end();
	/* As the vendor has it: they go with decompose. */
	o.owners = false;
	begin_opts(o);
	put(block(EV_PTA_MALLOC, 0x1000));
	put(asks(MT_ASK_LABEL, 0x1000, "obj"));
	cr_expect_eq(n_labels, 0);
	end();
}

Test(ask, config_of_one_process)
{
	begin();
	put(asks(MT_ASK_CONFIG, 0, "--events=launch"));
	ruled_out(block(EV_PTA_MALLOC, 0x1000), RULE_FILTERED);
	row_of(of_process(block(EV_PTA_MALLOC, 0x1000), PID + 1));
	row_of(launch());
	end();
}

/* Steps that are asked for are steps of --steps; the first began with the process. */
Test(ask, steps)
{
	struct model_opts o = ALL_OPTS;

	o.n_steps = 1;
	o.steps[0] = 2;
	begin_opts(o);
	ruled_out(block(EV_PTA_MALLOC, 0x1000), RULE_FILTERED);
	cr_expect_str_eq(row_of(asks(MT_ASK_STEP, 0, ""))->name, "1");
	row_of(block(EV_PTA_MALLOC, 0x2000));
	ruled_out(asks(MT_ASK_STEP, 0, ""), RULE_FILTERED);
	ruled_out(block(EV_PTA_MALLOC, 0x3000), RULE_FILTERED);
	end();
}

Test(ask, snapshots)
{
	const struct row *r;

	begin();
	r = row_of(asks(MT_ASK_SNAPSHOT, 3, "10,20,5,7,100,40,a, name"));
	cr_expect(r->event == ROW_SNAPSHOT && r->device == 3);
	cr_expect_str_eq(r->name, "a, name");
	cr_expect(r->snapshot.reserved == 10 && r->snapshot.max_reserved == 20 &&
		  r->snapshot.allocated == 5 && r->snapshot.max_allocated == 7 &&
		  r->snapshot.total == 100 && r->snapshot.free == 40);
	/* Nonsense is not known. */
	r = row_of(asks(MT_ASK_SNAPSHOT, 3, "10,-1,99999999999999999999999,x,,"));
	cr_expect(r->snapshot.reserved == 10 && r->snapshot.max_reserved == -1 &&
		  r->snapshot.allocated == -1 && r->snapshot.max_allocated == -1 &&
		  r->snapshot.total == -1 && r->snapshot.free == -1);
	cr_expect_str_eq(r->name, "Memory Snapshot");
	/* A process without a framework: what was seen of it. */
	ruled_out(asks(MT_ASK_SNAPSHOT, 0, ",,,,,,n"), RULE_STATE);
	put(block(EV_PTA_MALLOC, 0x1000));
	r = row_of(asks(MT_ASK_SNAPSHOT, 0, ",,,,,,n"));
	cr_expect(r->device == 0 && r->snapshot.allocated == 1536);
	cr_expect_str_eq(r->name, "n");
	end();
}

/* What fails while paused has neither its row nor its lists. */
Test(ask, oom)
{
	struct model_opts o = custom(true, true);
	struct event e;

	o.oom = true;
	o.oom_top = 10;
	begin_opts(o);
	put(block(EV_PTA_MALLOC, 0x1000));
	e = ev(EV_OOM);
	e.device = 0;
	ruled_out(e, RULE_PAUSED);
	put(asks(MT_ASK_START, 0, ""));
	now += 3000000000ull;
	e.time = ++now;
	put(e);
	cr_expect_eq(rows_with(ROW_OOM_DETAIL, ROW_OOM_TRIGGER), 1);
	cr_expect_eq(rows_with(ROW_OOM_DETAIL, ROW_OOM_RECENT), 1);
	end();
}

/* Numbers that nobody has: the record is nonsense, and counted. */
Test(ask, unknown)
{
	begin();
	ruled_out(asks(MT_ASK_NONE, 0, ""), RULE_STATE);
	ruled_out(asks(MT_ASK_MAX + 7, 0, ""), RULE_STATE);
	cr_expect_eq(row_of(asks(MT_ASK_MARK, 0, "m"))->type, ROW_MARK);
	end();
}
