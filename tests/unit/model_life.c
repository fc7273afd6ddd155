// SPDX-License-Identifier: Apache-2.0
/* The model over the lives of processes: what is kept of them, and what is not. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "model/internal.h"

static uint64_t n_rows;

static void on_row(void *ctx, const struct row *r)
{
	(void)ctx;
	(void)r;
	n_rows++;
}

static struct model *new_model(void)
{
	struct model_opts o = { .level = LEVEL_OP | LEVEL_KERNEL,
				.events = EVENTS_ALLOC | EVENTS_LAUNCH };
	struct model_ops ops = { .row = on_row };

	return model__new(&o, &ops, NULL);
}

static struct event event_of(enum event_kind kind, uint32_t tgid, uint64_t addr, int64_t size)
{
	static uint64_t time;

	return (struct event){
		.kind = kind, .tgid = tgid, .tid = tgid, .time = ++time, .addr = addr, .size = size
	};
}

static void feed(struct model *m, enum event_kind kind, uint32_t tgid, uint64_t addr, int64_t size)
{
	struct event e = event_of(kind, tgid, addr, size);

	cr_assert_eq(model__event(m, &e), 0);
}

static uint64_t live(struct model *m)
{
	struct model_counts c;

	model__counts(m, &c);
	return c.live_blocks;
}

Test(model_life, ended_process_is_small)
{
	struct model *m = new_model();
	uint32_t n = 4000, i;
	struct pool_state p[8];
	size_t before = 0, used;

	for (i = 0; i < n + 100; i++) {
		struct event e = event_of(EV_STREAM_ID, i + 1, 0, 0);

		if (i == 100)
			before = mallinfo2().uordblks;
		e.stream = 7;
		cr_assert_eq(model__event(m, &e), 0);
		e = event_of(EV_FUNC_NAME, i + 1, 0x1000, 0);
		e.text = "some_kernel_name";
		e.text_len = 16;
		cr_assert_eq(model__event(m, &e), 0);
		e = event_of(EV_RANGE_START, i + 1, 0, 0);
		cr_assert_eq(model__event(m, &e), 0);
		feed(m, EV_HAL_ALLOC, i + 1, 0x1000, 4096);
		feed(m, EV_EXIT, i + 1, 0, 0);
	}
	used = mallinfo2().uordblks - before;
	cr_expect_lt(used / n, 1024, "%zu bytes a process", used / n);
	cr_expect_eq(live(m), 0);
	/* The peaks are still known, and nothing is held any more. */
	cr_expect_eq(model__pools(m, p, 8), n + 100);
	cr_expect_eq(p[7].tgid, 8);
	cr_expect_eq(p[7].device, 0);
	cr_expect_eq(p[7].peak, 4096);
	cr_expect_eq(p[7].used, 0);
	model__free(m);
}

/* However many have ended before: the largest is shown, wherever it stands. */
Test(model_life, pools_of_all_processes)
{
	struct model *m = new_model();
	struct pool_state *p;
	uint32_t i;
	size_t n;

	for (i = 1; i <= 1000; i++) {
		feed(m, EV_HAL_ALLOC, i, 0x1000, i == 999 ? 1 << 20 : 4096);
		if (i < 999)
			feed(m, EV_EXIT, i, 0, 0);
	}
	p = model__pool_list(m, &n);
	cr_assert(p);
	cr_assert_eq(n, 1000);
	cr_expect_eq(p[0].tgid, 999);
	cr_expect_eq(p[0].used, 1 << 20);
	cr_expect_eq(p[1].tgid, 1);
	cr_expect_eq(p[1].used, 0);
	cr_expect_eq(p[1].peak, 4096);
	cr_expect_eq(p[999].tgid, 1000);
	cr_expect_eq(p[999].used, 4096);
	free(p);
	model__free(m);
}

Test(model_life, blocks_go_with_their_process)
{
	struct model *m = new_model();
	uint64_t i;

	for (i = 0; i < 100; i++) {
		feed(m, EV_HAL_ALLOC, 1, 0x1000 * (i + 1), 1);
		feed(m, EV_HAL_ALLOC, 2, 0x1000 * (i + 1), 1);
	}
	feed(m, EV_HAL_FREE, 1, 0x1000, 0);
	feed(m, EV_MARK, 3, 0, 0);
	cr_expect_eq(live(m), 199);
	feed(m, EV_EXIT, 3, 0, 0);
	cr_expect_eq(live(m), 199);
	feed(m, EV_EXEC, 2, 0, 0);
	cr_expect_eq(live(m), 99);
	feed(m, EV_HAL_ALLOC, 2, 0x1000, 1);
	feed(m, EV_EXIT, 1, 0, 0);
	cr_expect_eq(live(m), 1);
	feed(m, EV_EXIT, 2, 0, 0);
	cr_expect_eq(live(m), 0);
	model__free(m);
}

/* A FREE was missed when its address is given out again. */
Test(model_life, missed_free_is_taken_off)
{
	struct model *m = new_model();
	struct pool_state p[2];
	struct model_counts c;

	feed(m, EV_HAL_ALLOC, 1, 0x1000, 100);
	feed(m, EV_HAL_ALLOC, 1, 0x1000, 30);
	cr_assert_eq(model__pools(m, p, 2), 1);
	cr_expect_eq(p[0].used, 30);
	cr_expect_eq(p[0].peak, 100);
	feed(m, EV_HAL_FREE, 1, 0x1000, 0);
	model__pools(m, p, 2);
	cr_expect_eq(p[0].used, 0);
	model__counts(m, &c);
	cr_expect_eq(c.residual, 1);
	model__free(m);
}

static struct row last_row;

static void keep_row(void *ctx, const struct row *r)
{
	(void)ctx;
	last_row = *r;
}

/* What the counters of the trace show: never more than what the model says is there. */
Test(model_life, held_in_rows)
{
	struct model_opts o = { .level = LEVEL_OP, .events = EVENTS_ALLOC };
	struct model_ops ops = { .row = keep_row };
	struct model *m = model__new(&o, &ops, NULL);

	feed(m, EV_HAL_ALLOC, 1, 0x1000, 100);
	cr_expect_eq(last_row.held, 100);
	feed(m, EV_HAL_ALLOC, 1, 0x1000, 30); /* a FREE was missed */
	cr_expect_eq(last_row.held, 30);
	feed(m, EV_HAL_ALLOC, 2, 0x1000, 7); /* of another process */
	cr_expect_eq(last_row.held, 7);
	feed(m, EV_HAL_ALLOC, 1, 0x2000, 5);
	cr_expect_eq(last_row.held, 35);
	feed(m, EV_HAL_FREE, 1, 0x1000, 0);
	cr_expect_eq(last_row.held, 5);
	feed(m, EV_HOST_REG, 1, 0x1000, 64);
	cr_expect_eq(last_row.held, 64);
	feed(m, EV_HOST_REG, 1, 0x1000, 16);
	cr_expect_eq(last_row.held, 16);
	feed(m, EV_HOST_REG, 1, 0x2000, 16);
	feed(m, EV_HOST_UNREG, 1, 0x1000, 0);
	cr_expect_eq(last_row.held, 16);
	feed(m, EV_EXEC, 1, 0, 0); /* the memory is gone with the program */
	feed(m, EV_HAL_ALLOC, 1, 0x3000, 9);
	cr_expect_eq(last_row.held, 9);
	feed(m, EV_HOST_REG, 1, 0x3000, 8);
	cr_expect_eq(last_row.held, 8);
	feed(m, EV_EXIT, 1, 0, 0);
	{
		struct event e = event_of(EV_HAL_ALLOC, 1, 0x3000, 3);

		e.start = 77; /* the number is another process's now */
		cr_assert_eq(model__event(m, &e), 0);
	}
	cr_expect_eq(last_row.held, 3);
	model__free(m);
}

/* Pools stand in the order of devices, the host last; logical numbers are learnt. */
Test(model_life, pools_by_device)
{
	struct process *p = process__new(1, 1, "5, 3-4");
	struct pools s = { 0 };

	cr_expect_eq(process__logical(p, 1, 3), 1);
	cr_expect_eq(process__logical(p, 1, 5), 0);
	cr_expect_eq(process__logical(p, 1, 6), DEV_NA);
	process__set_device(p, 1, 3);
	cr_expect_eq(process__logical(p, 1, 6), 3);
	process__end(p);
	cr_expect_eq(process__logical(p, 1, 6), 3);
	process__free(p);

	pools__get(&s, MAX_DEVICES)->peak = 1;
	pools__get(&s, 3)->peak = 2;
	pools__get(&s, 0)->peak = 3;
	cr_expect_eq(s.n, 3);
	cr_expect_eq(s.v[0].peak, 3);
	cr_expect_eq(s.v[1].peak, 2);
	cr_expect_eq(s.v[2].peak, 1);
	cr_expect_null(pools__get(&s, MAX_DEVICES + 1));
	cr_expect_null(pools__get(&s, -1));
	cr_expect_null(pools__find(&s, 1));
	free(s.v);
}

Test(model_life, exit_after_the_stop_adds_no_row)
{
	struct model *m = new_model();
	struct event e = { .kind = EV_EXIT, .tgid = 7, .tid = 7, .start = 1, .time = 40 };

	n_rows = 0;
	model__process(m, 7, 1, 10);
	model__stop(m, 50);
	cr_assert_eq(n_rows, 2);
	model__event(m, &e);
	model__stop(m, 60);
	cr_expect_eq(n_rows, 2);
	model__free(m);
}
