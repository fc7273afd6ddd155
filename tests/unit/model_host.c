// SPDX-License-Identifier: Apache-2.0
/* Memory of the host: rows of malloc and free, and what the driver has there inside of ranges. */
#include "model_test.h"

#define RANGE "report host memory info start"

static struct event host_alloc(uint64_t addr, int64_t size, uint64_t call)
{
	struct event e = ev(EV_HOST_ALLOC);

	e.addr = addr;
	e.size = size;
	e.key = call;
	return e;
}

static struct event host_free(uint64_t addr, uint64_t call)
{
	struct event e = ev(EV_HOST_FREE);

	e.addr = addr;
	e.key = call;
	return e;
}

static struct row *put_row(struct event e)
{
	size_t before = n_rows;

	put(e);
	return n_rows > before ? &rows[n_rows - 1] : NULL;
}

static struct model_opts seed(void)
{
	struct model_opts o = ALL_OPTS;

	o.vendor = o.npus = true;
	return o;
}

Test(host, record_has_all_functions)
{
	struct row *r;

	begin();
	put(ev(EV_ACL_INIT));
	r = put_row(host_alloc(0x1000, 100, MT_HOST_OTHER));
	cr_assert(r && r->type == ROW_HOST && r->event == ROW_MALLOC);
	cr_expect(r->device == DEV_HOST && r->size == 100 && r->held == 100);
	cr_expect_eq(r->attrs, ATTR_BLOCK);
	r = put_row(host_alloc(0x2000, 50, MT_HOST_MALLOC));
	cr_expect(r && r->held == 150);
	r = put_row(host_free(0x1000, MT_HOST_OTHER));
	cr_expect(r && r->event == ROW_FREE && r->size == 100 && r->held == 50);
	/* from before the range */
	r = put_row(host_free(0x9000, MT_HOST_CFREE));
	cr_expect(r && r->size == -1 && r->device == DEV_HOST && r->attrs & ATTR_PREATTACH);
	/* The driver's blocks are others, at whatever address. */
	r = put_row(hal(0x2000, 4096, 0));
	cr_expect(r && r->type == ROW_HAL);
	r = put_row(host_free(0x2000, MT_HOST_CFREE));
	cr_expect(r && r->type == ROW_HOST && r->size == 50 && !r->held);
	end();
}

/* msleaks.md 10: of the functions malloc and free alone, so a FREE may be of a block nobody saw. */
Test(host, seed_has_malloc_and_free)
{
	struct row *r;

	begin_opts(seed());
	put(ev(EV_ACL_INIT));
	r = put_row(host_alloc(0x1000, 100, MT_HOST_MALLOC));
	cr_assert(r);
	cr_expect(r->allocation_id == 1 && r->size == 100 && r->attrs == ATTR_BLOCK);
	cr_expect_null(put_row(host_alloc(0x2000, 100, MT_HOST_OTHER)));
	cr_expect_null(put_row(host_free(0x1000, MT_HOST_OTHER)), "by realloc");
	cr_expect_null(put_row(host_alloc(0x3000, 100, MT_HOST_NEW)));
	r = put_row(host_free(0x2000, MT_HOST_CFREE));
	cr_assert(r);
	cr_expect(!r->allocation_id && !r->size && r->device == DEV_HOST && r->attrs == ATTR_BLOCK);
	r = put_row(host_free(0x1000, MT_HOST_CFREE));
	cr_assert(r);
	cr_expect(r->allocation_id == 1 && r->size == 100);
	/* No number was taken by the one without. */
	r = put_row(host_alloc(0x1000, 7, MT_HOST_MALLOC));
	cr_expect(r && r->allocation_id == 2);
	end();
}

/* Owners are of the driver's blocks and of pools. */
Test(host, has_no_owner)
{
	struct model_opts o = seed();
	struct row *r;

	o.owners = true;
	begin_opts(o);
	put(ev(EV_ACL_INIT));
	r = put_row(host_alloc(0x1000, 100, MT_HOST_MALLOC));
	cr_expect(r && !(r->attrs & ATTR_OWNER));
	end();
}

Test(host, pinned_memory_of_seed)
{
	struct event pinned = hal(0x9000, 4096, 0);
	struct row *r;

	pinned.flags = EVF_HOST;
	begin_opts(seed());
	put(ev(EV_ACL_INIT));
	ruled_out(pinned, RULE_FILTERED);
	put(range(1, RANGE "s"));
	pinned.addr = 0xa000;
	ruled_out(pinned, RULE_FILTERED);
	put(range(2, RANGE));
	pinned.addr = 0xb000;
	r = put_row(pinned);
	cr_assert(r);
	cr_expect(r->device == DEV_HOST && r->held == 4096);
	put(range_end(1));
	pinned.addr = 0xc000;
	cr_expect(put_row(pinned), "the other range has ended");
	/* Of one that was not seen inside there is no row, there either. */
	cr_expect_null(put_row(hal_free(0x9000)));
	put(range_end(2));
	pinned.addr = 0xd000;
	ruled_out(pinned, RULE_FILTERED);
	/* A block that has a row ends in one, which no sum counts. */
	r = put_row(hal_free(0xb000));
	cr_expect(r && r->size == 4096 && r->uncounted);
	cr_expect_null(put_row(hal_free(0xa000)));
	end();
}

/* A new program has no ranges of the old one. */
Test(host, exec_ends_ranges)
{
	struct event pinned = hal(0x9000, 4096, 0), e = ev(EV_EXEC);

	pinned.flags = EVF_HOST;
	begin_opts(seed());
	put(ev(EV_ACL_INIT));
	put(range(1, RANGE));
	put(e);
	ruled_out(pinned, RULE_FILTERED);
	end();
}

/* Failures are no memory. */
Test(host, failures)
{
	struct event e = host_alloc(0, 1LL << 50, MT_HOST_MALLOC);
	struct model_counts c;

	begin();
	e.ret = -1;
	ruled_out(e, RULE_FAILED);
	model__counts(m, &c);
	cr_expect(c.failures[0] == 1 && !c.failures[1]);
	end();
}
