// SPDX-License-Identifier: Apache-2.0
/* Pools of torch_npu: which records are rows, which only state. */
#include "model_test.h"

TestSuite(torch, .init = begin, .fini = end);

Test(torch, malloc_and_free)
{
	const struct row *r = row_of(pta(EV_PTA_MALLOC, 0x1000, 1024, 1));
	uint64_t id = r->allocation_id;

	cr_expect_eq(r->type, ROW_PTA);
	cr_expect_eq(r->event, ROW_MALLOC);
	cr_expect_eq(r->device, 1);
	cr_expect_eq(r->attrs, ATTR_BLOCK | ATTR_POOL | ATTR_ACTIVE | ATTR_STREAM);
	cr_expect_eq(r->total, 20971520);
	cr_expect_eq(r->used, 1536);
	cr_expect_eq(r->active, 2048);
	cr_expect_eq(r->stream, 0xabc);
	r = row_of(pta(EV_PTA_FREE, 0x1000, 1024, 1));
	cr_expect_eq(r->event, ROW_FREE);
	cr_expect_eq(r->allocation_id, id);
	cr_expect_eq(r->size, 1024);
	cr_expect_eq(pool_used(ROW_PTA, 1), 1536);
}

Test(torch, block_free_has_no_row)
{
	put(pta(EV_PTA_MALLOC, 0x1000, 1024, 1));
	ruled_out(pta(EV_PTA_BLOCK_FREE, 0x1000, 1024, 1), RULE_BLOCK_FREE);
	/* the block is still there for its FREE, which comes behind it */
	cr_expect(!(row_of(pta(EV_PTA_FREE, 0x1000, 1024, 1))->attrs & ATTR_PREATTACH));
	cr_expect_eq(counts().live_blocks, 0);
}

Test(torch, address_used_again_without_a_free)
{
	const struct row *r;

	put(pta(EV_PTA_MALLOC, 0x1000, 1024, 1));
	r = row_of(pta(EV_PTA_MALLOC, 0x1000, 512, 1));
	cr_expect_eq(r->event, ROW_MALLOC);
	cr_expect_eq(counts().residual, 1);
	cr_expect_eq(row_of(pta(EV_PTA_FREE, 0x1000, 512, 1))->size, 512);
	/* both were missed: a FREE of another size is that of another block */
	put(pta(EV_PTA_MALLOC, 0x1000, 1024, 1));
	r = row_of(pta(EV_PTA_FREE, 0x1000, 2048, 1));
	cr_expect(r->attrs & ATTR_PREATTACH);
	cr_expect_eq(r->size, 2048);
	cr_expect_eq(counts().residual, 2);
	cr_expect_eq(counts().live_blocks, 0);
}

Test(torch, without_totals)
{
	struct event e = pta(EV_PTA_MALLOC, 0x1000, 1024, 1);

	e.flags = 0;
	e.stream = 0;
	cr_expect_eq(row_of(e)->attrs, ATTR_BLOCK);
}

/* ---- frees as 6.0.rc2 reports them ---- */

static struct event merged(enum event_kind kind, uint64_t addr, int64_t size, int64_t allocated)
{
	struct event e = pta(kind, addr, size, 0);

	e.flags |= EVF_MERGED;
	e.allocated = allocated;
	return e;
}

Test(torch, free_of_a_merged_block)
{
	const struct row *r;

	/* three neighbours of one segment of 0x4000 bytes */
	put(merged(EV_PTA_MALLOC, 0x1000, 0x200, 0x200));
	put(merged(EV_PTA_MALLOC, 0x1200, 0x400, 0x600));
	put(merged(EV_PTA_MALLOC, 0x1600, 0x800, 0xe00));
	/* the last goes, merged with the rest of the segment behind it */
	ruled_out(merged(EV_PTA_BLOCK_FREE, 0x1600, 0x3a00, 0x600), RULE_BLOCK_FREE);
	r = row_of(merged(EV_PTA_FREE, 0x1600, 0x3a00, 0x600));
	cr_expect_eq(r->ptr, 0x1600);
	cr_expect_eq(r->size, 0x800);
	cr_expect_eq(r->allocation_id, 3);
	/* the first, with nothing beside it */
	r = row_of(merged(EV_PTA_FREE, 0x1000, 0x200, 0x400));
	cr_expect_eq(r->ptr, 0x1000);
	cr_expect_eq(r->size, 0x200);
	/* the middle one, with both sides: the record has the address of the first */
	r = row_of(merged(EV_PTA_FREE, 0x1000, 0x4000, 0));
	cr_expect_eq(r->ptr, 0x1200);
	cr_expect_eq(r->size, 0x400);
	cr_expect_eq(r->allocation_id, 2);
	cr_expect(!(r->attrs & (ATTR_PREATTACH | ATTR_NOTE)));
	cr_expect_eq(counts().residual, 0);
	cr_expect_eq(counts().live_blocks, 0);
}

Test(torch, merged_free_of_a_block_from_before_the_attach)
{
	const struct row *r;

	/* the first record: nothing to compare its total with */
	r = row_of(merged(EV_PTA_FREE, 0x1000, 0x4000, 0x1000));
	cr_expect_eq(r->ptr, 0x1000);
	cr_expect_lt(r->size, 0);
	cr_expect(r->attrs & ATTR_PREATTACH);
	cr_expect_str_eq(r->note, "address after merging");
	put(merged(EV_PTA_MALLOC, 0x9000, 0x400, 0x1400));
	r = row_of(merged(EV_PTA_FREE, 0x1000, 0x4000, 0x1200));
	cr_expect_eq(r->size, 0x200);
	cr_expect(r->attrs & ATTR_PREATTACH);
	/* a block of another device that lies there too is not it */
	put(merged(EV_PTA_MALLOC, 0x2000, 0x200, 0x1400));
	{
		struct event e = merged(EV_PTA_FREE, 0x1000, 0x4000, 0);

		e.device = 1;
		r = row_of(e);
	}
	cr_expect_eq(r->ptr, 0x1000);
	cr_expect(r->attrs & ATTR_PREATTACH);
	cr_expect_eq(counts().live_blocks, 2);
}

Test(torch, merged_free_while_others_allocate)
{
	const struct row *r;

	/* another thread took a part of the range before the report: the total tells which block
	 * went */
	put(merged(EV_PTA_MALLOC, 0x1000, 0x200, 0x200));
	put(merged(EV_PTA_MALLOC, 0x1200, 0x600, 0x800));
	r = row_of(merged(EV_PTA_FREE, 0x1000, 0x4000, 0x600));
	cr_expect_eq(r->ptr, 0x1000);
	cr_expect_eq(r->size, 0x200);
	/* both are as large: which one is not known, and said so */
	put(merged(EV_PTA_MALLOC, 0x1800, 0x600, 0xc00));
	r = row_of(merged(EV_PTA_FREE, 0x1100, 0x4000, 0x600));
	cr_expect(r->attrs & ATTR_PREATTACH);
	cr_expect_eq(r->size, 0x600);
	cr_expect_eq(counts().live_blocks, 2);
}

/* ---- workspace ---- */

static struct event ws(bool alloc, uint64_t addr, int64_t size, int64_t allocated, int64_t reserved)
{
	struct event e = pta(EV_WS, addr, size, 0);

	e.flags |= alloc ? EVF_ALLOC : 0;
	e.allocated = e.active = allocated;
	e.reserved = reserved;
	return e;
}

static struct event ws_b(bool alloc, uint64_t addr, int64_t size, int64_t allocated)
{
	struct event e = ws(alloc, addr, size, allocated, 0);

	e.flags |= EVF_LAYOUT_B;
	e.active = 0;
	return e;
}

Test(torch, workspace_of_layout_b)
{
	const struct row *r = row_of(ws_b(true, 0x1000, 4096, 4096));

	cr_expect_eq(r->type, ROW_PTA_WORKSPACE);
	cr_expect_eq(r->event, ROW_MALLOC);
	cr_expect_eq(r->size, 4096);
	cr_expect_eq(r->used, 4096);
	cr_expect_eq(r->total, 4096); /* it has no other total */
	cr_expect(!(r->attrs & ATTR_ACTIVE));
	r = row_of(ws_b(true, 0x8000, 8192, 12288));
	cr_expect_eq(r->total, 12288);
	/* growth: the old block is released */
	r = row_of(ws_b(false, 0x1000, 4096, 8192));
	cr_expect_eq(r->event, ROW_FREE);
	cr_expect_eq(r->allocation_id, 1);
	cr_expect_eq(counts().rules[RULE_SEGMENT], 0);
}

Test(torch, workspace_of_layout_c)
{
	const struct row *r;
	uint64_t id;

	/* growth: segment MALLOC, at once use MALLOC of the same address */
	ruled_out(ws(true, 0x1000, 4096, 0, 4096), RULE_SEGMENT);
	r = row_of(ws(true, 0x1000, 4096, 4096, 4096));
	cr_expect_eq(r->event, ROW_MALLOC);
	cr_expect_eq(r->type, ROW_PTA_WORKSPACE);
	cr_expect_eq(r->total, 4096);
	cr_expect_eq(r->used, 4096);
	id = r->allocation_id;
	/* the tensor dies; another use; it dies */
	r = row_of(ws(false, 0x1000, 4096, 0, 4096));
	cr_expect_eq(r->event, ROW_FREE);
	cr_expect_eq(r->allocation_id, id);
	row_of(ws(true, 0x1000, 4096, 4096, 4096));
	row_of(ws(false, 0x1000, 4096, 0, 4096));
	/* it grows: the segment goes, a larger one comes, perhaps at the same place */
	ruled_out(ws(false, 0x1000, 4096, 0, 0), RULE_SEGMENT);
	ruled_out(ws(true, 0x1000, 8192, 0, 8192), RULE_SEGMENT);
	r = row_of(ws(true, 0x1000, 8192, 8192, 8192));
	cr_expect_eq(r->size, 8192);
	row_of(ws(false, 0x1000, 8192, 0, 8192));
	ruled_out(ws(false, 0x1000, 8192, 0, 0), RULE_SEGMENT);
	cr_expect_eq(counts().live_blocks, 0);
	cr_expect_eq(counts().residual, 0);
	cr_expect_eq(counts().preattach, 0);
	cr_expect_eq(counts().rules[RULE_SEGMENT], 4);
}

Test(torch, workspaces_of_two_devices)
{
	struct event e = ws(true, 0x1000, 4096, 0, 4096);

	ruled_out(e, RULE_SEGMENT);
	e = ws(true, 0x2000, 512, 0, 512);
	e.device = 1;
	ruled_out(e, RULE_SEGMENT);
	/* compared with the record before on its own device */
	row_of(ws(true, 0x1000, 4096, 4096, 4096));
	e = ws(true, 0x2000, 512, 512, 512);
	e.device = 1;
	cr_expect_eq(row_of(e)->device, 1);
	row_of(ws(false, 0x1000, 4096, 0, 4096));
}

/* With a queue a stream uses of one device overlap, and a free names the block used last. */
Test(torch, workspaces_of_two_queues)
{
	const struct row *r;
	struct event e;
	uint64_t one, two;

	ruled_out(ws(true, 0x1000, 4096, 0, 4096), RULE_SEGMENT);
	e = on_thread(ws(true, 0x1000, 4096, 4096, 4096), 11);
	e.stream = 0xa;
	one = row_of(e)->allocation_id;
	ruled_out(ws(true, 0x8000, 8192, 4096, 12288), RULE_SEGMENT);
	e = on_thread(ws(true, 0x8000, 8192, 12288, 12288), 12);
	e.stream = 0xb;
	two = row_of(e)->allocation_id;
	/* thread 11 is done: the record says 0x8000 */
	e = on_thread(ws(false, 0x8000, 8192, 4096, 12288), 11);
	e.stream = 0xb;
	r = row_of(e);
	cr_expect_eq(r->ptr, 0x1000);
	cr_expect_eq(r->size, 4096);
	cr_expect_eq(r->stream, 0xa);
	cr_expect_eq(r->allocation_id, one);
	r = row_of(on_thread(ws(false, 0x8000, 8192, 0, 12288), 12));
	cr_expect_eq(r->ptr, 0x8000);
	cr_expect_eq(r->allocation_id, two);
	/* a thread that took none: the one that is named; none is there any more: as named */
	one = row_of(on_thread(ws(true, 0x1000, 4096, 4096, 12288), 11))->allocation_id;
	row_of(on_thread(ws(true, 0x8000, 8192, 12288, 12288), 12));
	r = row_of(on_thread(ws(false, 0x1000, 4096, 8192, 12288), 13));
	cr_expect_eq(r->allocation_id, one);
	cr_expect_eq(row_of(on_thread(ws(false, 0x1000, 4096, 0, 12288), 14))->ptr, 0x8000);
	r = row_of(on_thread(ws(false, 0x1000, 4096, -4096, 12288), 12));
	cr_expect(r->attrs & ATTR_PREATTACH);
	cr_expect_eq(r->ptr, 0x1000);
	cr_expect_eq(counts().residual, 0);
	cr_expect_eq(counts().live_blocks, 0);
}

Test(torch, workspace_after_a_late_attach)
{
	/* the first record seen is the end of a use, then of the segment */
	const struct row *r = row_of(ws(false, 0x1000, 4096, 0, 4096));

	cr_expect(r->attrs & ATTR_PREATTACH);
	cr_expect_eq(r->size, 4096);
	ruled_out(ws(false, 0x1000, 4096, 0, 0), RULE_SEGMENT);
}

Test(torch, workspace_first_record_is_a_release)
{
	ruled_out(ws(false, 0x1000, 4096, 0, 0), RULE_SEGMENT);
}

Test(torch, workspace_first_record_is_a_use)
{
	cr_expect_eq(row_of(ws(true, 0x1000, 4096, 4096, 4096))->event, ROW_MALLOC);
}

/* ---- sums for the summary ---- */

Test(torch, peaks)
{
	struct event e = pta(EV_PTA_MALLOC, 0x1000, 1024, 1);
	struct pool_state p[8];
	uint64_t at;

	e.allocated = 5000;
	put(e);
	at = e.time;
	e = pta(EV_PTA_FREE, 0x1000, 1024, 1);
	e.allocated = 100;
	e.reserved = 200;
	put(e);
	cr_assert_eq(model__pools(m, p, MT_ARRAY_SIZE(p)), 1);
	cr_expect_eq(p[0].type, ROW_PTA);
	cr_expect_eq(p[0].tgid, PID);
	cr_expect_eq(p[0].device, 1);
	cr_expect_eq(p[0].used, 100);
	cr_expect_eq(p[0].peak, 5000);
	cr_expect_eq(p[0].peak_time, at);
	cr_expect_eq(p[0].total, 200);
	cr_expect_eq(p[0].peak_total, 20971520);
	cr_expect(!p[0].partial);
	put(hal(0x1000, 10, 0));
	put(hal(0x2000, 10, 2));
	cr_expect_eq(model__pools(m, p, 2), 3);
	cr_expect_eq(model__pools(m, NULL, 0), 3);
	cr_assert_eq(model__pools(m, p, MT_ARRAY_SIZE(p)), 3);
	cr_expect_eq(p[0].type, ROW_HAL);
	cr_expect(p[0].partial);
}
