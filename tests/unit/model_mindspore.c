// SPDX-License-Identifier: Apache-2.0
/* MindSpore's pools: which of them count, blocks cut into several, what the pool says of itself. */
#include <time.h>

#include "model_test.h"

TestSuite(mindspore, .init = begin, .fini = end);

static struct event ms(enum event_kind kind, uint64_t addr, int64_t size, const char *type)
{
	struct event e = text_event(kind, type);

	e.addr = addr;
	e.size = size;
	return e;
}

#define BEST_FIT "N9mindspore6device6ascend23DefaultAscendMemoryPoolE"
#define PIN_POOL "N9mindspore6device6ascend16AscendPinMemPoolE"
#define CPU_POOL "N9mindspore6device3cpu13CPUMemoryPoolE"

Test(mindspore, device_pool)
{
	const struct row *r;
	uint64_t id;

	put(set_device(PID + 1, 1));
	put(hal(0x100000, 1 << 20, 1));
	r = row_of(ms(EV_MS_ALLOC, 0x100000, 2048, BEST_FIT));
	cr_expect_eq(r->type, ROW_MINDSPORE);
	cr_expect_eq(r->device, 1);
	cr_expect_eq(r->size, 2048);
	cr_expect_eq(r->attrs, ATTR_BLOCK | ATTR_POOL);
	cr_expect_eq(r->used, 2048);
	cr_expect_eq(r->total, 1 << 20);
	id = r->allocation_id;
	row_of(ms(EV_MS_ALLOC, 0x100800, 512, BEST_FIT));
	r = row_of(ms(EV_MS_FREE, 0x100000, 0, BEST_FIT));
	cr_expect_eq(r->event, ROW_FREE);
	cr_expect_eq(r->allocation_id, id);
	cr_expect_eq(r->size, 2048);
	cr_expect_eq(r->used, 512);
	cr_expect_eq(r->device, 1);
}

Test(mindspore, other_pools)
{
	ruled_out(ms(EV_MS_ALLOC, 0x1000, 512, PIN_POOL), RULE_OTHER_POOL);
	ruled_out(ms(EV_MS_FREE, 0x1000, 0, PIN_POOL), RULE_OTHER_POOL);
	ruled_out(ms(EV_MS_ALLOC, 0x1000, 512, CPU_POOL), RULE_OTHER_POOL);
	cr_expect_eq(counts().live_blocks, 0);
}

Test(mindspore, pool_whose_name_is_unreadable)
{
	const struct row *r = row_of(ms(EV_MS_ALLOC, 0x1000, 512, ""));

	cr_expect(r->attrs & ATTR_NOTE);
	cr_expect_str_eq(r->note, "pool unknown");
	r = row_of(ms(EV_MS_FREE, 0x1000, 0, ""));
	cr_expect_eq(r->size, 512);
	cr_expect(!(r->attrs & ATTR_PREATTACH));
}

Test(mindspore, free_from_before_the_attach)
{
	const struct row *r;

	put(set_device(PID + 1, 1));
	r = row_of(ms(EV_MS_FREE, 0x1000, 0, BEST_FIT));
	cr_expect(r->attrs & ATTR_PREATTACH);
	cr_expect_eq(r->size, -1);
	cr_expect_eq(r->device, 1);
	cr_expect_eq(r->used, 0);
}

Test(mindspore, missed_free)
{
	put(set_device(PID + 1, 1));
	put(ms(EV_MS_ALLOC, 0x1000, 512, BEST_FIT));
	cr_expect_eq(row_of(ms(EV_MS_ALLOC, 0x1000, 1024, BEST_FIT))->used, 1024);
	cr_expect_eq(counts().residual, 1);
	cr_expect_eq(row_of(ms(EV_MS_FREE, 0x1000, 0, BEST_FIT))->used, 0);
}

Test(mindspore, failed)
{
	struct event e = ms(EV_MS_ALLOC, 0, 512, BEST_FIT);

	e.ret = -1;
	ruled_out(e, RULE_FAILED);
	cr_expect_eq(counts().failures[0], 1);
}

/* ---- what the pool tells ---- */

#define POOL 0x7000

static struct event told(struct event e, int64_t used, int64_t reserved, uint32_t flags)
{
	e.key = POOL;
	e.flags |= EVF_TOTALS | flags;
	e.allocated = used;
	e.reserved = reserved;
	return e;
}

static struct event alloc(uint64_t addr, int64_t size)
{
	struct event e = ms(EV_MS_ALLOC, addr, size, BEST_FIT);

	e.key = POOL;
	return e;
}

static struct event release(uint64_t addr)
{
	struct event e = ms(EV_MS_FREE, addr, 0, BEST_FIT);

	e.key = POOL;
	return e;
}

Test(mindspore, totals_of_the_pool)
{
	const struct row *r;

	put(set_device(PID + 1, 1));
	/* attached late: the pool has more than what was seen */
	r = row_of(told(alloc(0x1000, 512), 10240, 1 << 30, EVF_RESERVED));
	cr_expect_eq(r->used, 10240);
	cr_expect_eq(r->total, 1 << 30);
	r = row_of(told(release(0x1000), 9728, 1 << 30, EVF_RESERVED));
	cr_expect_eq(r->used, 9728);
	/* a block from before, whose size nobody knows */
	r = row_of(told(release(0x9000), 9216, 1 << 29, EVF_RESERVED));
	cr_expect(r->attrs & ATTR_PREATTACH);
	cr_expect_eq(r->used, 9216);
	cr_expect_eq(r->total, 1 << 29);
	cr_expect_eq(pool_used(ROW_MINDSPORE, 1), 9216);
}

static bool partial(void)
{
	struct pool_state p[8];
	size_t n = model__pools(m, p, MT_ARRAY_SIZE(p)), i;

	for (i = 0; i < n; i++)
		if (p[i].type == ROW_MINDSPORE)
			return p[i].partial;
	cr_assert_fail("no such pool");
	return false;
}

Test(mindspore, sum_since_the_attach)
{
	put(set_device(PID + 1, 1));
	put(alloc(0x1000, 512));
	cr_expect(partial());
	put(told(alloc(0x2000, 512), 4096, 0, 0));
	cr_expect(!partial());
}

Test(mindspore, mapped_part_of_a_range)
{
	const struct row *r;
	struct event h;

	put(set_device(PID + 1, 1));
	h = hal(0x55, 4 << 20, 1);
	h.flags = EVF_CREATE;
	put(h);
	r = row_of(told(alloc(0x1000, 512), 512, 6 << 20, EVF_RESERVED | EVF_VMM));
	cr_expect_eq(r->total, 6 << 20);
	/* the words of its statistics have the whole range */
	r = row_of(told(release(0x1000), 0, 1LL << 40, EVF_RESERVED));
	cr_expect_eq(r->total, 6 << 20);
	/* an allocation that fails in the end has got more of it: it does not tell */
	h = hal(0x66, 2 << 20, 1);
	h.flags = EVF_CREATE;
	put(h);
	r = row_of(told(release(0x3000), 0, 1LL << 40, EVF_RESERVED));
	cr_expect_eq(r->total, 8 << 20);
	h = hal_free(0x66);
	h.flags = EVF_CREATE;
	put(h);
	/* the driver takes a handle back: the cache was emptied */
	h = hal_free(0x55);
	h.flags = EVF_CREATE;
	put(h);
	r = row_of(told(release(0x2000), 0, 1LL << 40, EVF_RESERVED));
	cr_expect_eq(r->total, 2 << 20);
}

Test(mindspore, what_is_reserved_is_not_known_before_an_allocation)
{
	const struct row *r;

	put(set_device(PID + 1, 1));
	put(hal(0x100000, 1 << 20, 1));
	r = row_of(told(release(0x1000), 4096, 1LL << 40, EVF_RESERVED));
	cr_expect_eq(r->used, 4096);
	cr_expect_eq(r->total, 1 << 20);
}

Test(mindspore, totals_read_too_late)
{
	const struct row *r;

	put(set_device(PID + 1, 1));
	r = row_of(told(alloc(0x1000, 512), 1024, 0, EVF_LOOSE));
	cr_expect_eq(r->used, 1024); /* better than nothing */
	/* another thread has allocated before this one has read */
	r = row_of(told(alloc(0x2000, 512), 9999872, 0, EVF_LOOSE));
	cr_expect_eq(r->used, 1536);
	r = row_of(told(release(0x2000), 1024, 0, 0));
	cr_expect_eq(r->used, 1024);
}

Test(mindspore, device_of_the_pool)
{
	/* a thread of which nothing is known, and the driver's memory is on one device */
	cr_expect_eq(row_of(alloc(0x1000, 512))->device, DEV_NA);
	put(on_thread(hal(0x100000, 1 << 20, 3), PID + 7));
	cr_expect_eq(row_of(alloc(0x2000, 512))->device, 3);
	/* and then for good */
	put(on_thread(hal(0x200000, 1 << 20, 4), PID + 7));
	cr_expect_eq(row_of(alloc(0x3000, 512))->device, 3);
	cr_expect_eq(row_of(release(0x1000))->device, 3);
}

Test(mindspore, not_freed)
{
	struct event e = release(0x1000);

	e.ret = 1;
	put(alloc(0x1000, 512));
	ruled_out(e, RULE_NOT_FREED);
	cr_expect_eq(counts().live_blocks, 1);
	cr_expect_eq(counts().failures[1], 0);
}

/* ---- parts of blocks that are kept ---- */

static struct event piece(uint64_t addr)
{
	struct event e = release(addr);

	e.flags |= EVF_PART;
	return e;
}

static struct event keep(uint64_t addr, int64_t size)
{
	struct event e = ms(EV_MS_KEEP, addr, size, BEST_FIT);

	e.key = POOL;
	return e;
}

static struct event over(int64_t used)
{
	return told(ms(EV_MS_PART, 0, 0, BEST_FIT), used, 0, 0);
}

static void is_row(const struct row *r, enum row_event event, uint64_t addr, int64_t size,
		   uint64_t used)
{
	cr_expect_eq(r->event, event);
	cr_expect_eq(r->type, ROW_MINDSPORE);
	cr_expect_eq(r->ptr, addr, "%lx", (unsigned long)r->ptr);
	cr_expect_eq(r->size, size, "%ld", (long)r->size);
	cr_expect_eq(r->used, used, "%lu", (unsigned long)r->used);
}

static void two_blocks(void)
{
	put(set_device(PID + 1, 1));
	put(alloc(0x10000, 0x8000));
	put(told(alloc(0x20000, 0x8000), 0x10000, 0, 0));
}

/* No row, and not settled yet. */
static void waits(struct event e)
{
	size_t n = n_rows;
	uint64_t before = counts().rules[RULE_PART];

	put(e);
	cr_expect_eq(n_rows, n);
	cr_expect_eq(counts().rules[RULE_PART], before);
}

static void cut_apart(uint64_t n)
{
	cr_expect_eq(counts().rules[RULE_PART], n, "%lu", counts().rules[RULE_PART]);
}

Test(mindspore, a_middle_is_kept)
{
	two_blocks();
	/* the pool has cut it into base, kept, rest */
	is_row(row_of(piece(0x10000)), ROW_FREE, 0x10000, 0x8000, 0x8000);
	waits(piece(0x13000));
	is_row(row_of(keep(0x12000, 0x1000)), ROW_MALLOC, 0x12000, 0x1000, 0x9000);
	cut_apart(1);
	put(over(0x9000));
	cut_apart(2);
	is_row(row_of(told(release(0x12000), 0x8000, 0, 0)), ROW_FREE, 0x12000, 0x1000, 0x8000);
	cr_expect_eq(counts().preattach, 0);
}

Test(mindspore, a_beginning_is_kept)
{
	size_t extra;

	two_blocks();
	extra = counts().rows_extra;
	waits(piece(0x11000));
	is_row(row_of(keep(0x10000, 0x1000)), ROW_MALLOC, 0x10000, 0x1000, 0x9000);
	/* one event, two rows: the block goes, its beginning stays */
	is_row(&rows[n_rows - 2], ROW_FREE, 0x10000, 0x8000, 0x8000);
	cr_expect_eq(counts().rows_extra, extra + 1);
	put(over(0x9000));
	cut_apart(2);
	is_row(row_of(release(0x10000)), ROW_FREE, 0x10000, 0x1000, 0x8000);
}

Test(mindspore, an_end_and_another_part_are_kept)
{
	two_blocks();
	is_row(row_of(piece(0x20000)), ROW_FREE, 0x20000, 0x8000, 0x8000);
	waits(piece(0x22000));
	is_row(row_of(keep(0x21000, 0x1000)), ROW_MALLOC, 0x21000, 0x1000, 0x9000);
	is_row(row_of(keep(0x24000, 0x4000)), ROW_MALLOC, 0x24000, 0x4000, 0xd000);
	put(over(0xd000));
	cut_apart(2);
}

Test(mindspore, a_whole_block_is_kept)
{
	two_blocks();
	ruled_out(keep(0x10000, 0x8000), RULE_PART);
	put(over(0x10000));
	is_row(row_of(release(0x10000)), ROW_FREE, 0x10000, 0x8000, 0x8000);
}

Test(mindspore, pieces_of_blocks_from_before)
{
	const struct row *r;

	two_blocks();
	waits(piece(0x50000)); /* a block of which nothing is known */
	waits(piece(0x53000)); /* its rest behind the kept part */
	is_row(row_of(keep(0x52000, 0x1000)), ROW_MALLOC, 0x52000, 0x1000, 0x11000);
	put(over(0xe000));
	r = &rows[n_rows - 1];
	cr_expect_eq(r->event, ROW_FREE);
	cr_expect_eq(r->ptr, 0x50000);
	cr_expect(r->attrs & ATTR_PREATTACH);
	cr_expect_eq(counts().preattach, 1);
	/* its size is not known, but what the pool says at the end is right again */
	cr_expect_eq(r->used, 0xe000);
	cr_expect_eq(pool_used(ROW_MINDSPORE, 1), 0xe000);
	is_row(row_of(release(0x52000)), ROW_FREE, 0x52000, 0x1000, 0xd000);
}

Test(mindspore, pieces_whose_end_was_lost)
{
	two_blocks();
	waits(piece(0x50000));
	put(alloc(0x60000, 512));
	cr_expect_eq(rows[n_rows - 2].ptr, 0x50000);
	cr_expect_eq(rows[n_rows - 2].event, ROW_FREE);
	cr_expect_eq(rows[n_rows - 1].ptr, 0x60000);
}

Test(mindspore, pieces_beside_another_thread)
{
	two_blocks();
	waits(piece(0x13000));
	/* the pool was locked for it before, its return is seen only now */
	put(on_thread(alloc(0x60000, 512), PID + 2));
	cr_expect_eq(rows[n_rows - 2].ptr, 0x20000);
	put(on_thread(over(0x10200), PID + 2));
	is_row(row_of(keep(0x12000, 0x1000)), ROW_MALLOC, 0x12000, 0x1000, 0x11200);
	cut_apart(2);
	cr_expect_eq(counts().preattach, 0);
}

Test(mindspore, pieces_at_the_stop)
{
	uint64_t before;

	two_blocks();
	waits(piece(0x50000));
	before = rows_with(ROW_FREE, ROW_MINDSPORE);
	model__stop(m, now + 10);
	cr_expect_eq(rows_with(ROW_FREE, ROW_MINDSPORE), before);
	cut_apart(1);
}

static uint64_t cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Each `this` of a call is a pool: a target may name any. */
Test(mindspore, more_pools_than_a_process_has)
{
	uint64_t t = cpu_time(), quarter = 0, i, n = 100000;

	for (i = 0; i < n; i++) {
		struct event e = alloc(0x1000 * (i + 1), 512);

		e.key = 0x5000 + i;
		n_rows = n_rows > 2 ? 2 : n_rows;
		put(e);
		if (i == n / 4)
			quarter = cpu_time() - t;
	}
	/* Not with the square of their number: that would be 16 times. */
	cr_expect_lt(cpu_time() - t, 10 * quarter);
	cr_expect_eq(counts().rules[RULE_CROWDED], n - 256);
	cr_expect_eq(counts().by_type[ROW_MINDSPORE][0], 256);
}

Test(mindspore, more_pieces_than_a_call_has)
{
	uint64_t t = cpu_time(), quarter = 0, i, n = 100000;

	two_blocks();
	for (i = 0; i < n; i++) {
		struct event e = on_thread(piece(0x100000 + 0x1000 * i), PID + 100);

		put(e);
		put(on_thread(over(0x10000), PID + 2)); /* looks through those of other threads */
		if (i == n / 4)
			quarter = cpu_time() - t;
	}
	cr_expect_lt(cpu_time() - t, 10 * quarter);
	cr_expect_eq(counts().rules[RULE_CROWDED], n - 4096);
}
