// SPDX-License-Identifier: Apache-2.0
/* What V-now makes up: rows of blocks that lived before a start, went between windows, or live at the end. */
#include "model_test.h"

static struct event asks(enum mt_ask what)
{
	struct event e = ev(EV_ASK);

	e.key = what;
	e.text = "";
	return e;
}

static struct event block(enum event_kind kind, uint64_t addr)
{
	return pta(kind, addr, 512, 0);
}

static void begin_custom(bool newer)
{
	struct model_opts o = ALL_OPTS;

	o.paused = o.vendor = o.npus = true;
	o.newer = newer;
	begin_opts(o);
}

static void expect_row(size_t i, enum row_event event, enum row_type type, uint64_t ptr, uint64_t block_id)
{
	cr_assert_lt(i, n_rows);
	cr_expect(rows[i].event == event && rows[i].type == type, "row %zu: %s %s", i,
		  row_event__name(rows[i].event), row_type__name(rows[i].type));
	cr_expect_eq(rows[i].ptr, ptr);
	cr_expect_eq(rows[i].allocation_id, block_id);
	cr_expect_eq(rows[i].id, i);
}

/* data/msleaks/real/now_deferred, row by row. */
Test(shadow, windows)
{
	begin_custom(true);
	put(hal(0x100000, 2 << 20, 0));
	put(block(EV_PTA_MALLOC, 0x1000));
	cr_expect_eq(n_rows, 0);
	put(asks(MT_ASK_START));
	expect_row(0, ROW_MALLOC, ROW_HAL, 0x100000, 1);
	cr_expect_eq(rows[0].attrs, ATTR_BLOCK | ATTR_SHADOW | ATTR_PAGE);
	cr_expect_str_eq(rows[0].alloc_type, "alloc");
	expect_row(1, ROW_MALLOC, ROW_PTA, 0x1000, 2);
	cr_expect_eq(rows[1].attrs, ATTR_BLOCK | ATTR_SHADOW);
	cr_expect(rows[1].time == now && rows[1].size == 512 && rows[1].device == 0);
	cr_expect_eq(rows[2].type, ROW_START_TRACE);
	put(block(EV_PTA_MALLOC, 0x2000));
	put(block(EV_PTA_MALLOC, 0x3000));
	/* Its end is its own. */
	put(block(EV_PTA_FREE, 0x1000));
	expect_row(5, ROW_FREE, ROW_PTA, 0x1000, 2);
	cr_expect_eq(rows[5].attrs & (ATTR_SHADOW | ATTR_POOL), ATTR_POOL);
	put(asks(MT_ASK_STOP));
	ruled_out(block(EV_PTA_FREE, 0x2000), RULE_PAUSED);
	ruled_out(block(EV_PTA_MALLOC, 0x4000), RULE_PAUSED);
	/* Come and gone between windows: no row at all. */
	ruled_out(block(EV_PTA_MALLOC, 0x5000), RULE_PAUSED);
	ruled_out(block(EV_PTA_FREE, 0x5000), RULE_PAUSED);
	put(asks(MT_ASK_START));
	expect_row(7, ROW_FREE, ROW_PTA, 0x2000, 3);
	cr_expect(rows[7].attrs == (ATTR_BLOCK | ATTR_SHADOW) && rows[7].time == now && rows[7].size == 512);
	expect_row(8, ROW_MALLOC, ROW_PTA, 0x4000, 5);
	cr_expect_eq(rows[9].type, ROW_START_TRACE);
	put(asks(MT_ASK_STOP));
	ruled_out(block(EV_PTA_FREE, 0x3000), RULE_PAUSED);
	/* What went first, then the youngest that live. */
	put(ev(EV_EXIT));
	expect_row(11, ROW_FREE, ROW_PTA, 0x3000, 4);
	expect_row(12, ROW_FREE, ROW_PTA, 0x4000, 5);
	expect_row(13, ROW_FREE, ROW_HAL, 0x100000, 1);
	cr_expect_eq(rows[13].attrs, ATTR_BLOCK | ATTR_SHADOW);
	cr_expect_eq(n_rows, 14);
	cr_expect_eq(counts().rows_events + counts().rows_extra, n_rows);
	end();
}

/* Whoever is there at the end of the recording, once. */
Test(shadow, at_the_stop)
{
	begin_custom(true);
	put(asks(MT_ASK_START));
	put(block(EV_PTA_MALLOC, 0x1000));
	model__stop(m, ++now);
	expect_row(2, ROW_FREE, ROW_PTA, 0x1000, 1);
	put(ev(EV_EXIT));
	cr_expect_eq(n_rows, 3);
	end();
}

/* msleaks.md 3.2: a FREE was missed. */
Test(shadow, of_what_is_replaced)
{
	begin_custom(true);
	put(asks(MT_ASK_START));
	put(block(EV_PTA_MALLOC, 0x1000));
	put(block(EV_PTA_MALLOC, 0x1000));
	expect_row(2, ROW_FREE, ROW_PTA, 0x1000, 1);
	cr_expect(rows[2].attrs == (ATTR_BLOCK | ATTR_SHADOW) && rows[2].time == now);
	expect_row(3, ROW_MALLOC, ROW_PTA, 0x1000, 2);
	/* While nothing is collected it waits for the start, as what was freed. */
	put(asks(MT_ASK_STOP));
	ruled_out(block(EV_PTA_MALLOC, 0x1000), RULE_PAUSED);
	put(asks(MT_ASK_START));
	expect_row(5, ROW_FREE, ROW_PTA, 0x1000, 2);
	expect_row(6, ROW_MALLOC, ROW_PTA, 0x1000, 3);
	end();
}

/* Labels of the thread that starts are not those of the blocks that are there. */
Test(shadow, no_labels)
{
	struct event e = asks(MT_ASK_ENTER);

	begin_custom(true);
	put(block(EV_PTA_MALLOC, 0x1000));
	e.text = "a";
	e.text_len = 1;
	e.tid = PID;
	put(e);
	put(on_thread(asks(MT_ASK_START), PID));
	cr_expect_eq(rows[0].attrs & ATTR_OWNER, 0);
	end();
}

/* V-seed makes up nothing, nor does record. */
Test(shadow, of_v_now_only)
{
	struct model_opts o = ALL_OPTS;
	size_t i;

	begin_custom(false);
	put(block(EV_PTA_MALLOC, 0x1000));
	put(asks(MT_ASK_START));
	put(ev(EV_EXIT));
	cr_expect_eq(rows_with(ROW_MALLOC, ROW_PTA), 0);
	end();
	o.paused = o.newer = true;
	begin_opts(o);
	put(block(EV_PTA_MALLOC, 0x1000));
	put(asks(MT_ASK_START));
	put(ev(EV_EXIT));
	for (i = 0; i < n_rows; i++)
		cr_expect_eq(rows[i].attrs & ATTR_SHADOW, 0);
	end();
}

/* ---- what fails ---- */

static struct event refused(void)
{
	struct event e = ev(EV_OOM);

	e.size = 1 << 20;
	e.device = 0;
	return e;
}

/* data/msleaks/real/now_oom: the allocator's numbers, where there is one. */
Test(shadow, snapshot_of_a_failure)
{
	struct model_opts o = ALL_OPTS;
	const struct row *r;

	o.vendor = o.npus = o.newer = o.oom = true;
	begin_opts(o);
	put(hal(0x100000, 2 << 20, 0));
	row_of(refused());
	cr_expect_eq(rows_with(ROW_SNAPSHOT, ROW_SNAP), 0);
	put(block(EV_PTA_MALLOC, 0x1000));
	row_of(refused());
	r = &rows[n_rows - 2];
	cr_assert(r->type == ROW_SNAP);
	cr_expect_str_eq(r->name, "OOM_Snapshot");
	cr_expect(r->attrs == ATTR_SNAPSHOT && r->device == 0 && r->time == now);
	cr_expect(r->snapshot.allocated == 1536 && r->snapshot.max_allocated == 1536 &&
		  r->snapshot.reserved == 20971520 && r->snapshot.max_reserved == 20971520);
	cr_expect(r->snapshot.total == -1 && r->snapshot.free == -1);
	cr_expect_eq(counts().rows_events + counts().rows_extra, n_rows);
	end();
	/* V-seed has none. */
	o.newer = false;
	begin_opts(o);
	put(block(EV_PTA_MALLOC, 0x1000));
	put(refused());
	cr_expect_eq(rows_with(ROW_SNAPSHOT, ROW_SNAP), 0);
	end();
}

/* A workspace of ATB that lives at the end. */
Test(shadow, of_atb)
{
	struct model_opts o = ALL_OPTS;
	struct event e = ev(EV_ATB_MALLOC);
	size_t i;

	o.vendor = o.npus = o.newer = true;
	begin_opts(o);
	put(set_device(PID + 1, 0));
	e.addr = 0x20000;
	e.size = 4096;
	e.key = true;
	put(e);
	model__stop(m, now + 1000);
	for (i = 0; i < n_rows; i++)
		if (rows[i].event == ROW_FREE && rows[i].ptr == 0x20000)
			break;
	cr_assert_lt(i, n_rows);
	cr_expect(rows[i].type == ROW_ATB && rows[i].attrs & ATTR_SHADOW, "%s", row_type__name(rows[i].type));
}

/* A process may free without end while nothing is collected. */
Test(shadow, as_many_as_there_is_room_for)
{
	uint64_t i, n = (1u << 20) + 5;

	begin_custom(true);
	put(asks(MT_ASK_START));
	for (i = 0; i < n; i++) {
		n_rows = 1;
		put(block(EV_PTA_MALLOC, 0x1000 * (i + 1)));
	}
	put(asks(MT_ASK_STOP));
	for (i = 0; i < n; i++)
		ruled_out(block(EV_PTA_FREE, 0x1000 * (i + 1)), RULE_PAUSED);
	cr_expect_eq(counts().gone_over, 5);
	end();
}
