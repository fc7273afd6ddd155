// SPDX-License-Identifier: Apache-2.0
/* Readings of tensors and the blocks that they lie in. */
#include <errno.h>

#include "model_test.h"

TestSuite(owned, .init = begin, .fini = end);

static int owned(uint64_t addr, uint64_t t0, bool around, struct model_owned_block *b)
{
	const struct model_owned o = {
		.tgid = PID, .start = START, .addr = addr, .device = 0, .t0 = t0
	};

	return model__owned(m, &o, around, b);
}

static bool own(uint64_t addr, uint8_t kind)
{
	const struct model_owned o = { .tgid = PID, .start = START, .addr = addr, .t0 = now };
	struct model_owned_block b;

	cr_assert_eq(owned(addr, now + 5, false, &b), 0);
	return model__own(m, &o, &b, kind);
}

Test(owned, a_block_that_lived)
{
	struct model_owned_block b;
	const struct row *r;

	r = row_of(pta(EV_PTA_MALLOC, 0x1000, 512, 0));
	cr_expect_eq(owned(0x1000, now + 5, false, &b), 0);
	cr_expect_eq(b.addr, 0x1000);
	cr_expect_eq(b.size, 512);
	cr_expect_eq(b.allocation_id, r->allocation_id);
	/* Made after the reading began: what was read may be of the block before. */
	cr_expect_eq(owned(0x1000, now, false, &b), -EAGAIN);
	cr_expect_eq(owned(0x1000, now - 5, false, &b), -EAGAIN);
	/* It has ended. */
	put(pta(EV_PTA_FREE, 0x1000, 512, 0));
	cr_expect_eq(owned(0x1000, now + 5, false, &b), -ENOENT);
}

Test(owned, of_the_caching_allocator_alone)
{
	struct model_owned_block b;

	put(hal(0x200000, 1 << 21, 0));
	cr_expect_eq(owned(0x200000, now + 5, false, &b), -ENOENT);
	cr_expect_eq(owned(0x200100, now + 5, true, &b), -ENOENT);
}

Test(owned, inside_of_a_block)
{
	struct model_owned_block b;

	put(pta(EV_PTA_MALLOC, 0x1000, 512, 0));
	put(pta(EV_PTA_MALLOC, 0x2000, 1024, 0));
	cr_expect_eq(owned(0x2100, now + 5, false, &b), -ENOENT);
	cr_expect_eq(owned(0x2100, now + 5, true, &b), 0);
	cr_expect_eq(b.addr, 0x2000);
	cr_expect_eq(owned(0x23ff, now + 5, true, &b), 0);
	cr_expect_eq(owned(0x2400, now + 5, true, &b), -ENOENT, "behind its end");
	cr_expect_eq(owned(0x1fff, now + 5, true, &b), -ENOENT);
}

Test(owned, of_another_device_or_process)
{
	struct model_owned o = {
		.tgid = PID, .start = START, .addr = 0x1000, .device = 1, .t0 = UINT64_MAX
	};
	struct model_owned_block b;

	put(pta(EV_PTA_MALLOC, 0x1000, 512, 0));
	cr_expect_eq(model__owned(m, &o, false, &b), -EAGAIN);
	o.device = 0;
	cr_expect_eq(model__owned(m, &o, false, &b), 0);
	o.start++;
	cr_expect_eq(model__owned(m, &o, false, &b), -ESRCH);
	o.start--;
	o.tgid++;
	cr_expect_eq(model__owned(m, &o, false, &b), -ESRCH);
}

/* Told once, and again when it is something else, or another block at the place. */
Test(owned, what_is_new)
{
	put(pta(EV_PTA_MALLOC, 0x1000, 512, 0));
	cr_expect(own(0x1000, 0));
	cr_expect_not(own(0x1000, 0));
	cr_expect(own(0x1000, 2));
	put(pta(EV_PTA_FREE, 0x1000, 512, 0));
	put(pta(EV_PTA_MALLOC, 0x1000, 512, 0));
	cr_expect(own(0x1000, 2));
	put(ev(EV_EXIT));
	cr_expect_eq(owned(0x1000, now + 5, false, &(struct model_owned_block){ 0 }), -ESRCH);
}
