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
	cr_expect_eq(model__pools(m, p, 2), 2);
	cr_assert_eq(model__pools(m, p, MT_ARRAY_SIZE(p)), 3);
	cr_expect_eq(p[0].type, ROW_HAL);
	cr_expect(p[0].partial);
}
