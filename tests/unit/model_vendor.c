// SPDX-License-Identifier: Apache-2.0
/* The front end's rows: where the vendor's tool has them, no others; and --steps. */
#include "model_test.h"

static struct model_opts vendor_opts(void)
{
	struct model_opts o = ALL_OPTS;

	o.vendor = o.npus = true;
	return o;
}

static struct event launch(void)
{
	struct event e = text_event(EV_LAUNCH, "AddKernel");

	e.name_kind = MT_NAME_STRING;
	return e;
}

/* msleaks.md 3.7: ACL_INIT is the first row, START_TRACE the second. */
Test(vendor, begins_at_the_first_contact)
{
	begin_opts(vendor_opts());
	cr_assert_eq(model__process(m, PID, START, 5), 0);
	cr_expect_eq(n_rows, 0);
	put(ev(EV_ACL_INIT));
	put(hal(0x1000, 512, 0));
	cr_assert_eq(n_rows, 3);
	cr_expect(rows[0].type == ROW_ACL_INIT && rows[0].id == 1);
	cr_expect(rows[1].type == ROW_START_TRACE && rows[1].id == 2);
	cr_expect_eq(rows[1].time, rows[0].time);
	cr_expect_eq(rows[1].tid, rows[0].tid);
	cr_expect(rows[2].type == ROW_HAL && rows[2].id == 3);
	/* Without it, before the first row. */
	put(of_process(hal(0x1000, 512, 0), PID + 7));
	cr_assert_eq(n_rows, 5);
	cr_expect_eq(rows[3].type, ROW_START_TRACE);
	cr_expect_eq(rows[4].type, ROW_HAL);
	/* No end: msleaks has it from its Python interface only. */
	model__stop(m, now + 5);
	cr_expect_eq(n_rows, 5);
	end();
}

Test(vendor, no_row_that_it_has_not)
{
	struct event pinned = ev(EV_HOST_REG), oom = ev(EV_OOM);
	struct lost_row l = { .reason = "ring full", .probe = "all", .device = -1, .count = 1 };

	pinned.addr = 0x5000;
	pinned.size = 4096;
	oom.size = 1 << 20;
	begin_opts(vendor_opts());
	put(ev(EV_ACL_INIT));
	n_rows = 0;
	/* A block from before: counted. */
	ruled_out(pta(EV_PTA_FREE, 0x1000, 512, 0), RULE_FILTERED);
	cr_expect_eq(counts().preattach, 1);
	ruled_out(pinned, RULE_FILTERED);
	ruled_out(oom, RULE_FAILED);
	model__lost(m, &l);
	cr_expect_eq(n_rows, 0);
	/* They take no number. */
	cr_expect_eq(row_of(hal(0x1000, 1, 0))->id, 3);
	end();
	/* The newer tool has pinned memory, where the host is asked for, and failures. */
	{
		struct model_opts o = vendor_opts();

		o.newer = o.cpu = o.oom = true;
		begin_opts(o);
		/* It counts from 0, and has no START_TRACE. */
		cr_expect(row_of(ev(EV_ACL_INIT))->id == 0 && n_rows == 1);
		cr_expect_eq(row_of(pinned)->type, ROW_HOST_PINNED);
		cr_expect_eq(rows[1].id, 1);
		cr_expect_eq(row_of(oom)->type, ROW_OOM_TRIGGER);
		cr_expect_eq(row_of(hal(0x1000, 1, 0))->attrs, ATTR_BLOCK | ATTR_PAGE);
		end();
	}
}

Test(vendor, owners)
{
	struct model_opts o = vendor_opts();
	struct event e = hal(0x1000, 1, 0);

	e.module = 33;
	o.owners = true;
	begin_opts(o);
	cr_expect_str_eq(row_of(e)->owner, "CANN@APP");
	cr_expect_eq(rows[n_rows - 1].attrs, ATTR_BLOCK | ATTR_OWNER);
	cr_expect_str_eq(row_of(pta(EV_PTA_MALLOC, 0x2000, 512, 0))->owner, "PTA");
	cr_expect_eq(rows[n_rows - 1].attrs, ATTR_BLOCK | ATTR_POOL | ATTR_OWNER);
	cr_expect(!(row_of(pta(EV_PTA_FREE, 0x2000, 512, 0))->attrs & ATTR_OWNER));
	cr_expect(!(row_of(hal_free(0x1000))->attrs & ATTR_OWNER));
	end();
}

/* msleaks.md 17.1, 17.13: what has no row takes no number of blocks either. */
Test(vendor, numbers_of_blocks)
{
	struct event create = hal(0x7000, 512, 0), gone = hal_free(0x7000),
		     host = hal(0x8000, 512, 0);
	struct model_opts o = vendor_opts();

	create.flags = gone.flags = EVF_CREATE;
	host.flags = EVF_HOST;
	o.npus = false;
	o.npu_slots = 1;
	begin_opts(o);
	cr_expect_eq(row_of(hal(0x1000, 1, 0))->allocation_id, 1);
	ruled_out(hal(0x2000, 1, 1), RULE_FILTERED);
	ruled_out(host, RULE_FILTERED);
	ruled_out(create, RULE_FILTERED);
	ruled_out(gone, RULE_FILTERED);
	ruled_out(hal_free(0x2000), RULE_FILTERED);
	cr_expect_eq(row_of(pta(EV_PTA_MALLOC, 0x3000, 512, 0))->allocation_id, 2);
	cr_expect_eq(row_of(hal_free(0x1000))->allocation_id, 1);
	cr_expect_eq(row_of(pta(EV_PTA_FREE, 0x3000, 512, 0))->allocation_id, 2);
	cr_expect_eq(row_of(pta(EV_PTA_MALLOC, 0x3000, 512, 0))->allocation_id, 3);
	end();
	o.newer = o.cpu = true;
	begin_opts(o);
	cr_expect_eq(row_of(create)->type, ROW_HAL);
	cr_expect_str_eq(rows[n_rows - 1].alloc_type, "create");
	row_of(host);
	cr_expect(rows[n_rows - 1].type == ROW_HOST_PINNED && rows[n_rows - 1].device == DEV_CPU);
	cr_expect_eq(rows[n_rows - 1].attrs, ATTR_BLOCK | ATTR_PINNED);
	cr_expect_eq(row_of(hal_free(0x8000))->type, ROW_HOST_PINNED);
	cr_expect_eq(rows[n_rows - 1].allocation_id, 2);
	end();
}

/* The driver's number, where the process sees the device by another one. */
Test(vendor, physical_device)
{
	visible = "3";
	begin_opts(vendor_opts());
	put(set_device(PID + 1, 0));
	cr_expect_eq(row_of(hal(0x1000, 512, 3))->device, 3);
	end();
	begin();
	put(set_device(PID + 1, 0));
	cr_expect_eq(row_of(hal(0x1000, 512, 3))->device, 0);
	end();
	visible = NULL;
}

/* msleaks.md 1.2 and 17.1, the run with --steps=2,3. */
Test(steps, of_the_vendor)
{
	struct model_opts o = vendor_opts();

	o.steps[0] = 2;
	o.steps[1] = 3;
	o.n_steps = 2;
	begin_opts(o);
	put(ev(EV_ACL_INIT)); /* SYSTEM rows vanish */
	put(range(1, "step start"));
	ruled_out(hal(0x1000, 512, 0), RULE_FILTERED);
	ruled_out(launch(), RULE_FILTERED);
	put(range_end(1));
	cr_expect_eq(n_rows, 0);
	/* Marks alone have taken a number: the first row is number 3. */
	cr_expect_eq(row_of(range(2, "step start"))->id, 3);
	/* The FREE of a block from before has its row. */
	cr_expect(row_of(hal_free(0x1000))->id == 4 && rows[1].size == 512);
	/* It is the first that has a number (train_steps23). */
	cr_expect_eq(rows[1].allocation_id, 1);
	/* Kernels are counted from the first recorded one. */
	cr_expect_eq(row_of(launch())->kernel_index, 1);
	put(hal(0x3000, 1, 0));
	/* The end is outside already. */
	ruled_out(range_end(2), RULE_FILTERED);
	ruled_out(hal(0x4000, 512, 0), RULE_FILTERED);
	/* A hole of one. */
	cr_expect_eq(row_of(range(3, "step start"))->id, 8);
	ruled_out(range_end(3), RULE_FILTERED);
	ruled_out(range(4, "step start"), RULE_FILTERED);
	ruled_out(hal_free(0x3000), RULE_FILTERED);
	cr_expect_eq(n_rows, 5);
	end();
}

/* Another range within, and its end, are no step. */
Test(steps, with_ranges_inside)
{
	struct model_opts o = ALL_OPTS;

	o.steps[0] = 1;
	o.n_steps = 1;
	begin_opts(o);
	ruled_out(hal(0x1000, 1, 0), RULE_FILTERED);
	row_of(range(1, "step start"));
	row_of(range(2, "forward"));
	row_of(range_end(2));
	row_of(hal(0x2000, 1, 0));
	ruled_out(range_end(1), RULE_FILTERED);
	ruled_out(hal(0x3000, 1, 0), RULE_FILTERED);
	/* A new program is in no step of the old one. */
	row_of(of_process(range(1, "step start"), PID + 8));
	put(of_process(ev(EV_EXEC), PID + 8));
	ruled_out(of_process(hal(0x3000, 1, 0), PID + 8), RULE_FILTERED);
	/* Steps are counted for each process. */
	row_of(of_process(range(1, "step start"), PID + 9));
	/* The frame of `record` stands, and its numbers have no hole. */
	cr_expect_eq(rows_with(ROW_SYSTEM, ROW_START_TRACE), 3);
	cr_expect_eq(rows[0].type, ROW_START_TRACE);
	cr_expect_eq(rows[4].id, 5);
	model__stop(m, now + 1);
	cr_expect_eq(rows_with(ROW_SYSTEM, ROW_STOP_TRACE), 3);
	end();
}
