// SPDX-License-Identifier: Apache-2.0
/* Allocations and frees of the driver: pairs, ids, devices, what is not known. */
#include "model_test.h"

TestSuite(hal, .init = begin, .fini = end);

Test(hal, malloc_and_free)
{
	const struct row *r = row_of(hal(0x1000, 4096, 2));
	uint64_t id = r->allocation_id, begin_time = r->time;

	cr_expect_eq(r->event, ROW_MALLOC);
	cr_expect_eq(r->type, ROW_HAL);
	cr_expect_eq(r->ptr, 0x1000);
	cr_expect_eq(r->size, 4096);
	cr_expect_eq(r->device, 2);
	cr_expect_eq(r->attrs, ATTR_BLOCK | ATTR_OWNER | ATTR_PAGE | ATTR_PHYS);
	cr_expect_eq(r->phys_device, 2);
	cr_expect_str_eq(r->page_type, "normal");
	cr_expect_str_eq(r->alloc_type, "alloc");
	cr_expect_eq(counts().live_blocks, 1);
	r = row_of(hal(0x2000, 8192, 2));
	cr_expect_eq(r->allocation_id, id + 1);
	r = row_of(hal_free(0x1000));
	cr_expect_eq(r->event, ROW_FREE);
	cr_expect_eq(r->allocation_id, id);
	cr_expect_eq(r->size, 4096);
	cr_expect_eq(r->device, 2);
	cr_expect_eq(r->begin_time, begin_time);
	cr_expect_eq(r->attrs, ATTR_BLOCK | ATTR_PHYS);
	cr_expect_eq(counts().live_blocks, 1);
	cr_expect_eq(counts().by_type[ROW_HAL][0], 2);
	cr_expect_eq(counts().by_type[ROW_HAL][1], 1);
	cr_expect_eq(pool_used(ROW_HAL, 2), 8192);
}

Test(hal, start_trace_comes_first)
{
	const struct row *r;

	nspid = 7;
	row_of(hal(0x1000, 4096, 0));
	nspid = 0;
	cr_assert_eq(n_rows, 2);
	r = &rows[0];
	cr_expect_eq(r->event, ROW_SYSTEM);
	cr_expect_eq(r->type, ROW_START_TRACE);
	cr_expect_eq(r->id, 1);
	cr_expect_eq(r->pid, PID);
	cr_expect_eq(r->attrs, ATTR_NSPID);
	cr_expect_eq(r->nspid, 7);
	cr_expect_eq(counts().rows_extra, 1);
	cr_expect_eq(counts().rows_events, 1);
}

Test(hal, ids_of_rows_are_per_process)
{
	uint64_t next[3] = { 0 };
	unsigned int i;
	size_t k;

	for (i = 0; i < 300; i++) {
		uint32_t tgid = PID + i * 7 % 3;

		put(of_process(hal(0x1000 + i * 512, 512, 0), tgid));
		if (i % 4 == 0)
			put(of_process(hal_free(0x1000 + i * 512), tgid));
		if (i % 5 == 0) /* an event without a row takes no number */
			put(of_process(set_device(PID, 0), tgid));
	}
	for (k = 0; k < n_rows; k++)
		cr_assert_eq(rows[k].id, ++next[rows[k].pid - PID], "row %zu", k);
	cr_expect(next[0] > 100 && next[1] > 100 && next[2] > 100);
}

/* The same number of a process that is another one: its blocks are others. */
Test(hal, pid_used_again)
{
	struct event e = hal(0x1000, 4096, 0);

	row_of(e);
	e = hal_free(0x1000);
	e.start = START + 1;
	cr_expect(row_of(e)->attrs & ATTR_PREATTACH);
	cr_expect_eq(rows[n_rows - 1].id, 2);
	cr_expect(!(row_of(hal_free(0x1000))->attrs & ATTR_PREATTACH));
}

Test(hal, addresses_of_processes_are_apart)
{
	put(of_process(hal(0x1000, 4096, 0), PID));
	put(of_process(hal(0x1000, 8192, 0), PID + 1));
	cr_expect_eq(counts().residual, 0);
	cr_expect_eq(row_of(of_process(hal_free(0x1000), PID))->size, 4096);
	cr_expect_eq(row_of(of_process(hal_free(0x1000), PID + 1))->size, 8192);
}

Test(hal, layers_are_apart)
{
	struct event create = hal(0x1000, 8192, 0), release = hal_free(0x1000);
	struct event reg = ev(EV_HOST_REG), unreg = ev(EV_HOST_UNREG);

	create.flags = release.flags = EVF_CREATE;
	reg.addr = unreg.addr = 0x1000;
	reg.size = 16384;
	put(hal(0x1000, 4096, 0));
	cr_expect_str_eq(row_of(create)->alloc_type, "create");
	put(reg);
	put(pta(EV_PTA_MALLOC, 0x1000, 512, 0));
	cr_expect_eq(counts().residual, 0);
	cr_expect_eq(counts().live_blocks, 4);
	cr_expect_eq(row_of(release)->size, 8192);
	cr_expect_eq(row_of(unreg)->size, 16384);
	cr_expect_eq(row_of(pta(EV_PTA_FREE, 0x1000, 512, 0))->size, 512);
	cr_expect_eq(row_of(hal_free(0x1000))->size, 4096);
	cr_expect_eq(counts().preattach, 0);
}

Test(hal, host_memory)
{
	struct event e = hal(0x1000, 4096, 3);
	const struct row *r;

	e.flags = EVF_HOST;
	r = row_of(e);
	cr_expect_eq(r->device, DEV_HOST);
	cr_expect(!(r->attrs & ATTR_PHYS));
	cr_expect_eq(pool_used(ROW_HAL, DEV_HOST), 4096);
	r = row_of(hal_free(0x1000));
	cr_expect_eq(r->device, DEV_HOST);
	cr_expect(!(r->attrs & ATTR_PHYS));
	cr_expect_eq(pool_used(ROW_HAL, DEV_HOST), 0);
}

Test(hal, pinned_memory)
{
	struct event e = ev(EV_HOST_REG);
	const struct row *r;

	e.addr = 0x5000;
	e.size = 12345;
	r = row_of(e);
	cr_expect_eq(r->type, ROW_HOST_PINNED);
	cr_expect_eq(r->device, DEV_CPU);
	cr_expect_eq(r->attrs, ATTR_BLOCK | ATTR_PINNED);
	e = ev(EV_HOST_UNREG);
	e.addr = 0x5000;
	r = row_of(e);
	cr_expect_eq(r->event, ROW_FREE);
	cr_expect_eq(r->size, 12345);
	cr_expect_eq(r->device, DEV_CPU);
	e = ev(EV_HOST_UNREG); /* once more: from before the attach */
	e.addr = 0x5000;
	r = row_of(e);
	cr_expect_eq(r->size, -1);
	cr_expect_eq(r->device, DEV_CPU);
	cr_expect(r->attrs & ATTR_PREATTACH);
}

Test(hal, owner_and_page)
{
	struct event e = hal(0x1000, 4096, 0);

	e.module = 3;
	e.page = 1;
	cr_expect_str_eq(row_of(e)->owner, "CANN@HCCL");
	cr_expect_str_eq(rows[n_rows - 1].page_type, "huge");
	e = hal(0x2000, 4096, 0);
	e.module = 0xffffffff;
	e.page = 2;
	cr_expect_str_eq(row_of(e)->owner, "CANN@UNKNOWN");
	cr_expect_str_eq(rows[n_rows - 1].page_type, "giant");
	e = hal(0x3000, 4096, 0);
	e.page = 3;
	cr_expect_str_eq(row_of(e)->page_type, "unknown");
}

Test(hal, frees_from_before_the_attach)
{
	const struct row *r;
	uint64_t id;

	put(set_device(PID + 1, 4));
	r = row_of(hal_free(0x9000));
	cr_expect_eq(r->attrs, ATTR_BLOCK | ATTR_PREATTACH);
	cr_expect_eq(r->size, -1);
	cr_expect_eq(r->device, DEV_NA); /* whatever the thread's device is */
	id = r->allocation_id;
	r = row_of(pta(EV_PTA_FREE, 0x9000, 1024, 3));
	cr_expect(r->attrs & ATTR_PREATTACH);
	cr_expect_eq(r->size, 1024);
	cr_expect_eq(r->device, 3);
	cr_expect_neq(r->allocation_id, id);
	cr_expect_eq(counts().preattach, 2);
	cr_expect_eq(counts().rows_events, 2);
	/* sums do not go below nothing */
	put(on_thread(hal(0x1000, 100, 0), PID + 2));
	cr_expect_eq(pool_used(ROW_HAL, 0), 100);
}

Test(hal, failed_calls)
{
	struct event e = hal(0x1000, 4096, 0);

	e.ret = 6;
	ruled_out(e, RULE_FAILED);
	cr_expect_eq(counts().failures[0], 1);
	cr_expect_eq(counts().live_blocks, 0);
	put(hal(0x1000, 4096, 0));
	e = hal_free(0x1000);
	e.ret = 1;
	ruled_out(e, RULE_FAILED);
	cr_expect_eq(counts().failures[1], 1);
	cr_expect_eq(counts().live_blocks, 1); /* still there */
	cr_expect(!(row_of(hal_free(0x1000))->attrs & ATTR_PREATTACH));
}

Test(hal, missed_free)
{
	uint64_t id = row_of(hal(0x1000, 4096, 0))->allocation_id;
	const struct row *r = row_of(hal(0x1000, 512, 1));

	cr_expect_eq(r->event, ROW_MALLOC);
	cr_expect_neq(r->allocation_id, id);
	cr_expect_eq(counts().residual, 1);
	cr_expect_eq(counts().live_blocks, 1);
	/* the block that must have gone is in no sum */
	cr_expect_eq(pool_used(ROW_HAL, 0), 0);
	cr_expect_eq(pool_used(ROW_HAL, 1), 512);
	r = row_of(hal_free(0x1000));
	cr_expect_eq(r->size, 512);
	cr_expect_eq(r->allocation_id, id + 1);
	cr_expect_eq(counts().preattach, 0);
	cr_expect_eq(pool_used(ROW_HAL, 1), 0);
}

Test(hal, many_blocks)
{
	static uint64_t id[1000];
	unsigned int i, round;

	for (round = 0; round < 2; round++) {
		n_rows = 0;
		for (i = 0; i < 1000; i++)
			id[i] = row_of(hal(0x100000 + i * 512, 512 + i, 0))->allocation_id;
		for (i = 0; i < 1000; i++) {
			unsigned int k = i * 7 % 1000;
			const struct row *r = row_of(hal_free(0x100000 + k * 512));

			cr_assert_eq(r->allocation_id, id[k]);
			cr_assert_eq(r->size, 512 + k);
		}
	}
	cr_expect_eq(counts().live_blocks, 0);
	cr_expect_eq(pool_used(ROW_HAL, 0), 0);
}

Test(hal, late_events_say_so)
{
	struct event e = hal(0x1000, 4096, 0);

	e.flags = EVF_LATE;
	cr_expect(row_of(e)->attrs & ATTR_LATE);
	cr_expect(!(row_of(hal_free(0x1000))->attrs & ATTR_LATE));
}

Test(hal, segments_are_named_where_no_tensor_is)
{
	struct event e = hal(0x1000, 4096, 0);

	e.flags = EVF_SEGMENT;
	cr_expect(!(row_of(e)->attrs & ATTR_NOTE));
	model__segments(m, PID, START);
	e.addr = 0x2000;
	cr_expect_str_eq(row_of(e)->note, "segment");
	cr_expect(!(row_of(hal(0x3000, 1, 0))->attrs & ATTR_NOTE));
}

/* ---- out of memory ---- */

Test(hal, oom)
{
	struct event e = ev(EV_OOM);
	const struct row *r;

	e.size = 68719476736;
	e.hal_flag = 504403158265496577;
	e.device = 1;
	e.refused = 3;
	r = row_of(e);
	cr_expect_eq(r->event, ROW_OOM_DETAIL);
	cr_expect_eq(r->type, ROW_OOM_TRIGGER);
	cr_expect_str_eq(r->name, "OOM_Trigger");
	cr_expect_eq(r->attrs, ATTR_OOM);
	cr_expect_str_eq(r->oom_func, "halMemAlloc");
	cr_expect_eq(r->oom_size, 68719476736);
	cr_expect_eq(r->oom_flag, 504403158265496577);
	cr_expect_eq(r->device, 1);
	e.fn = MT_FN_HAL_CREATE;
	cr_expect_str_eq(row_of(e)->oom_func, "halMemCreate");
	cr_expect_eq(counts().oom, 2);
	cr_expect_eq(counts().rows_events, 2);
}

Test(hal, oom_without_an_enclosing_call)
{
	struct event e = hal(0, 1 << 20, 1);

	e.ret = 6;
	e.flags = EVF_ALONE;
	cr_expect_eq(row_of(e)->type, ROW_OOM_TRIGGER);
	cr_expect_eq(counts().oom, 1);
	cr_expect_eq(counts().failures[0], 1);
	cr_expect_eq(counts().rules[RULE_FAILED], 0); /* it has its row */
	cr_expect_eq(counts().rows_events, 1);
}

static void fails(void)
{
	struct event e = ev(EV_OOM);

	e.size = 1 << 30;
	e.device = 0;
	put(e);
}

/* What lives then: the youngest first, the largest first, each with its own call stack. */
Test(oom, lists)
{
	struct model_opts o = ALL_OPTS;
	struct event e;
	unsigned int i;

	o.oom_top = 3;
	o.stacks = true;
	begin_opts(o);
	for (i = 1; i <= 5; i++) {
		e = hal(0x1000 * i, i == 2 ? 9000 : 512 * i, 0);
		e.refs.c = 100 + i;
		put(e);
	}
	put(hal_free(0x5000));
	n_rows = 0;
	fails();
	cr_assert_eq(n_rows, 7);
	cr_expect_eq(rows[0].type, ROW_OOM_TRIGGER);
	for (i = 1; i < 7; i++) {
		static const uint64_t ptrs[] = { 0x4000, 0x3000, 0x2000, 0x2000, 0x4000, 0x3000 };
		const struct row *r = &rows[i];

		cr_expect_eq(r->type, i < 4 ? ROW_OOM_RECENT : ROW_OOM_TOP);
		cr_expect_str_eq(r->name, i < 4 ? "OOM_RecentAlloc" : "OOM_TopAlloc");
		cr_expect_eq(r->ptr, ptrs[i - 1], "%u: %#jx", i, (uintmax_t)r->ptr);
		cr_expect_eq(r->size, r->ptr == 0x2000 ? 9000 : 512 * (int64_t)(r->ptr / 0x1000));
		cr_expect_eq(r->stack_c, 100 + r->ptr / 0x1000);
		cr_expect_eq(r->attrs, ATTR_LISTED | ATTR_STACKS);
		cr_expect_eq(r->device, DEV_NA);
		cr_expect_str_eq(r->owner, "HAL");
	}
	/* A retry fails at once: its row, and the lists again after two seconds. */
	fails();
	cr_expect_eq(n_rows, 8);
	now += 2000000000;
	fails();
	cr_expect_eq(n_rows, 15);
	end();
}

/* Each block by the name of its pool, of whichever kind. */
Test(oom, pools_of_lists)
{
	static const enum event_kind kinds[] = { EV_ATB_MALLOC, EV_HOST_ALLOC };
	static const char *const names[] = { "ATB", "HOST" };
	struct model_opts o = ALL_OPTS;
	unsigned int i;

	o.oom_top = 1;
	for (i = 0; i < MT_ARRAY_SIZE(kinds); i++) {
		struct event e = ev(kinds[i]);

		begin_opts(o);
		put(hal(0x1000, 512, 0));
		e.addr = 0x20000;
		e.size = 4096;
		put(e);
		n_rows = 0;
		fails();
		cr_assert_eq(n_rows, 3);
		cr_expect_eq(rows[2].ptr, 0x20000u);
		cr_expect_str_eq(rows[2].owner, names[i]);
		end();
	}
}

/* ---- logical and physical devices ---- */

TestSuite(devices, .init = begin, .fini = end);

Test(devices, the_environment_maps)
{
	visible = "3, 1,4-5";
	cr_expect_eq(row_of(hal(0x1000, 1, 3))->device, 0);
	cr_expect_eq(rows[n_rows - 1].phys_device, 3);
	cr_expect_eq(row_of(hal(0x2000, 1, 1))->device, 1);
	cr_expect_eq(row_of(hal(0x3000, 1, 4))->device, 2);
	cr_expect_eq(row_of(hal(0x4000, 1, 5))->device, 3);
	/* not in the list: no logical device at all */
	cr_expect_eq(row_of(hal(0x5000, 1, 0))->device, DEV_NA);
	cr_expect(rows[n_rows - 1].attrs & ATTR_PHYS);
	/* a pool names the logical one itself */
	cr_expect_eq(row_of(pta(EV_PTA_MALLOC, 0x1000, 512, 1))->device, 1);
	cr_expect_eq(row_of(hal_free(0x1000))->device, 0);
}

Test(devices, odd_lists)
{
	static const struct {
		const char *list;
		int32_t phys, logical;
	} cases[] = {
		{ "", 5, 5 },
		{ NULL, 5, 5 },
		{ "x", 5, 5 },
		{ "-1", 5, 5 },
		{ "5,x,6", 5, 0 },
		{ "5,x,6", 6, DEV_NA },
		{ "5;6", 6, DEV_NA },
		{ "7-", 7, 7 },
		{ "6-5", 5, 5 },
		{ "0-99999999", 63, 63 },
		{ "0-99999999", 64, DEV_NA },
		{ "99999999999999999999,2", 2, 0 },
	};
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(cases); i++) {
		visible = cases[i].list;
		put(of_process(hal(0x1000, 1, cases[i].phys), PID + 1 + (uint32_t)i));
		cr_expect_eq(rows[n_rows - 1].device, cases[i].logical, "%s: %d is %d",
			     cases[i].list ? cases[i].list : "unset", cases[i].phys,
			     rows[n_rows - 1].device);
	}
}

Test(devices, learnt_from_set_device)
{
	visible = NULL;
	put(set_device(PID + 1, 0));
	put(set_device(PID + 2, 1));
	cr_expect_eq(row_of(on_thread(hal(0x1000, 1, 6), PID + 1))->device, 0);
	cr_expect_eq(row_of(on_thread(hal(0x2000, 1, 7), PID + 2))->device, 1);
	/* known now, for every thread */
	cr_expect_eq(row_of(on_thread(hal(0x3000, 1, 6), PID + 2))->device, 0);
	cr_expect_eq(row_of(on_thread(hal(0x4000, 1, 7), PID + 3))->device, 1);
	/* a thread whose device is taken by another physical one */
	cr_expect_eq(row_of(on_thread(hal(0x5000, 1, 2), PID + 1))->device, 2);
	cr_expect_eq(counts().rules[RULE_STATE], 2);
}

Test(devices, a_refused_set_device_teaches_nothing)
{
	struct event e = set_device(PID + 1, 0);

	visible = NULL;
	e.ret = 107002;
	ruled_out(e, RULE_FAILED);
	cr_expect_eq(row_of(on_thread(hal(0x1000, 1, 6), PID + 1))->device, 6);
}

Test(devices, of_events_that_name_none)
{
	visible = NULL;
	cr_expect_eq(row_of(text_event(EV_MARK, "a"))->device, DEV_NA);
	put(pta(EV_PTA_MALLOC, 0x1000, 512, 3));
	cr_expect_eq(row_of(text_event(EV_MARK, "seen"))->device, 3);
	cr_expect_eq(row_of(on_thread(text_event(EV_MARK, "other"), PID + 9))->device, DEV_NA);
	put(set_device(PID + 1, 2));
	cr_expect_eq(row_of(text_event(EV_MARK, "set"))->device, 2);
	/* one device only: it is that */
	visible = "5";
	cr_expect_eq(row_of(of_process(text_event(EV_MARK, "b"), PID + 50))->device, 0);
	visible = NULL;
}

Test(devices, out_of_range)
{
	cr_expect_eq(row_of(hal(0x1000, 1, -1))->device, DEV_NA);
	cr_expect(!(rows[n_rows - 1].attrs & ATTR_PHYS));
	cr_expect_eq(row_of(hal(0x2000, 1, 5000))->device, DEV_NA);
	cr_expect_eq(row_of(hal(0x3000, 1, 1023))->device, 1023);
	put(pta(EV_PTA_MALLOC, 0x1000, 512, 100));
	put(pta(EV_WS, 0x1000, 512, 100));
	cr_expect_eq(row_of(hal_free(0x3000))->device, 1023);
}
