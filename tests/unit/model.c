// SPDX-License-Identifier: Apache-2.0
/* Life of a process, losses, filters, and the sum: each event a row or a rule. */
#include "model_test.h"

TestSuite(life, .init = begin, .fini = end);

static struct event life(enum event_kind kind)
{
	struct event e = ev(kind);

	e.tid = e.tgid;
	return e;
}

Test(life, exit_stops_once)
{
	put(hal(0x1000, 4096, 0));
	put(life(EV_EXIT));
	cr_expect_eq(rows_with(ROW_SYSTEM, ROW_STOP_TRACE), 1);
	cr_expect_eq(rows[n_rows - 1].time, now);
	cr_expect_eq(n_ended, 1);
	cr_expect_eq(counts().live_blocks, 0);
	put(life(EV_EXIT));
	model__stop(m, now);
	cr_expect_eq(rows_with(ROW_SYSTEM, ROW_STOP_TRACE), 1);
	cr_expect_eq(n_ended, 1);
	cr_expect_eq(counts().rules[RULE_LIFECYCLE], 2);
}

Test(life, exit_of_a_process_never_met)
{
	put(life(EV_EXIT));
	put(life(EV_EXEC));
	cr_expect_eq(n_rows, 0);
	cr_expect_eq(n_ended, 0);
	cr_expect_eq(counts().rules[RULE_LIFECYCLE], 2);
}

Test(life, stop_of_those_still_there)
{
	put(of_process(hal(0x1000, 1, 0), PID));
	put(of_process(hal(0x1000, 1, 0), PID + 1));
	put(of_process(life(EV_EXIT), PID));
	model__stop(m, now + 5);
	cr_expect_eq(rows_with(ROW_SYSTEM, ROW_STOP_TRACE), 2);
	cr_expect_eq(rows[n_rows - 1].pid, PID + 1);
	cr_expect_eq(rows[n_rows - 1].time, now + 5);
	cr_expect_eq(rows[n_rows - 1].id, 3);
}

Test(life, fork_meets_the_child)
{
	struct event e = of_process(life(EV_FORK), PID + 1);

	e.addr = PID;
	put(e);
	cr_assert_eq(n_rows, 1);
	cr_expect_eq(rows[0].type, ROW_START_TRACE);
	cr_expect_eq(rows[0].pid, PID + 1);
	cr_expect_eq(counts().rules[RULE_LIFECYCLE], 1);
}

Test(life, met_once)
{
	cr_assert_eq(model__process(m, PID, START, 5), 0);
	cr_assert_eq(model__process(m, PID, START, 6), 0);
	put(hal(0x1000, 1, 0));
	cr_expect_eq(rows_with(ROW_SYSTEM, ROW_START_TRACE), 1);
	cr_expect_eq(rows[0].time, 5);
}

Test(life, exec_forgets)
{
	struct event e = ev(EV_STREAM_ID);
	const struct row *r;

	put(set_device(PID + 1, 2));
	put(hal(0x1000, 4096, 0));
	put(pta(EV_PTA_MALLOC, 0x1000, 512, 2)); /* stream 0xabc on device 2 */
	e.stream = 0xabc;
	e.stream_id = 4;
	put(e);
	e = text_event(EV_FUNC_NAME, "Name");
	e.addr = 0x55;
	put(e);
	put(text_event(EV_RANGE_START, "open"));
	put(life(EV_EXEC));
	cr_expect_eq(n_ended, 1);
	cr_expect_eq(rows_with(ROW_SYSTEM, ROW_STOP_TRACE), 0);
	cr_expect_eq(counts().live_blocks, 0);
	r = row_of(hal_free(0x1000));
	cr_expect(r->attrs & ATTR_PREATTACH);
	cr_expect_eq(r->id, 5); /* it is the same process */
	e = ev(EV_LAUNCH);
	e.addr = 0x55;
	e.name_kind = MT_NAME_STUB;
	e.stream = 0xabc;
	r = row_of(e);
	cr_expect_str_eq(r->name, "stub:0x55");
	cr_expect_eq(r->stream_id, -1);
	cr_expect_eq(r->device, DEV_NA);
	row_of(ev(EV_RANGE_END));
	cr_expect_eq(counts().unpaired_ranges, 1);
	cr_expect_eq(counts().residual, 0);
	put(hal(0x1000, 100, 0));
	cr_expect_eq(counts().residual, 0);
}

/* The new program has an environment of its own: `env VISIBLE=… python`. */
Test(life, exec_reads_the_environment_again)
{
	visible = NULL;
	nspid = PID;
	put(set_device(PID + 1, 0));
	cr_expect_eq(row_of(hal(0x1000, 1, 6))->device, 0); /* learnt */
	visible = "3,5";
	put(life(EV_EXEC));
	cr_expect_eq(rows_with(ROW_SYSTEM, ROW_START_TRACE), 1);
	cr_expect_eq(row_of(hal(0x2000, 1, 5))->device, 1);
	cr_expect_eq(row_of(hal(0x3000, 1, 6))->device, DEV_NA);
	/* gone before anybody could look */
	visible = NULL;
	nspid = 0;
	put(life(EV_EXEC));
	cr_expect_eq(row_of(hal(0x2000, 1, 5))->device, 1);
	cr_expect_eq(row_of(hal(0x3000, 1, 6))->device, DEV_NA);
}

/* ---- losses ---- */

static void lost(int32_t device, bool physical, uint64_t count)
{
	struct lost_row l = { .reason = "ring full",
			      .probe = "pta",
			      .device = device,
			      .physical = physical,
			      .count = count,
			      .first = 5,
			      .last = 9,
			      .now = now };

	n_rows = 0;
	model__lost(m, &l);
}

Test(life, loss_of_a_known_device)
{
	put(hal(0x1000, 1, 3));
	lost(3, true, 7);
	cr_assert_eq(n_rows, 1);
	cr_expect_eq(rows[0].event, ROW_SYSTEM);
	cr_expect_eq(rows[0].type, ROW_LOST);
	cr_expect_eq(rows[0].attrs, ATTR_LOST);
	cr_expect_eq(rows[0].device, 3);
	cr_expect_eq(rows[0].lost_count, 7);
	cr_expect_eq(rows[0].lost_first, 5);
	cr_expect_eq(rows[0].lost_last, 9);
	cr_expect_str_eq(rows[0].lost_reason, "ring full");
	cr_expect_str_eq(rows[0].lost_probe, "pta");
}

Test(life, loss_of_an_unknown_device)
{
	visible = "6,7";
	put(hal(0x1000, 1, 7));
	put(of_process(pta(EV_PTA_MALLOC, 0x1000, 512, 4), PID + 1));
	visible = NULL;
	lost(-1, false, 7);
	cr_assert_eq(n_rows, 3);
	cr_expect_eq(rows[0].device, DEV_NA);
	cr_expect_eq(rows[0].lost_count, 7);
	/* a notice for each device that was seen, whatever the process */
	cr_expect_eq(rows[1].device, 1);
	cr_expect_eq(rows[2].device, 4);
	cr_expect_eq(rows[1].lost_count, 0);
	cr_expect_eq(rows[2].lost_count, 0);
	cr_expect_eq(rows[0].pid, rows[2].pid);
	/* numbers of the driver are mapped, those of torch_npu are not */
	lost(4, false, 7);
	cr_assert_eq(n_rows, 1);
	cr_expect_eq(rows[0].device, 4);
}

Test(life, loss_stands_at_a_living_process)
{
	put(of_process(hal(0x1000, 1, 0), PID));
	put(of_process(hal(0x1000, 1, 0), PID + 1));
	put(of_process(life(EV_EXIT), PID + 1));
	lost(0, true, 1);
	cr_assert_eq(n_rows, 1);
	cr_expect_eq(rows[0].pid, PID);
	put(of_process(life(EV_EXIT), PID));
	lost(0, true, 1);
	cr_expect_eq(n_rows, 1); /* nobody is left: told all the same */
}

static bool late(uint32_t tgid, uint32_t start)
{
	struct lost_row l = { .reason = "late library",
			      .probe = "all",
			      .library = "/l.so",
			      .tgid = tgid,
			      .start = start,
			      .device = -1,
			      .count = LOST_UNKNOWN,
			      .first = 5,
			      .last = 9,
			      .now = now };

	n_rows = 0;
	return model__lost(m, &l);
}

Test(life, loss_of_a_process)
{
	put(hal(0x1000, 1, 3));
	put(of_process(hal(0x1000, 1, 4), PID + 1));
	cr_assert(late(PID, START));
	/* At that process, and a notice on its device only. */
	cr_assert_eq(n_rows, 2);
	cr_expect_eq(rows[0].pid, PID);
	cr_expect_eq(rows[0].tid, PID);
	cr_expect_eq(rows[0].device, DEV_NA);
	cr_expect_eq(rows[0].lost_count, LOST_UNKNOWN);
	cr_expect_eq(rows[0].lost_cpu, 0);
	cr_expect_str_eq(rows[0].lost_library, "/l.so");
	cr_expect_eq(rows[1].pid, PID);
	cr_expect_eq(rows[1].device, 3);
	cr_expect_eq(rows[1].lost_count, 0);
	cr_expect_str_eq(rows[1].lost_library, "/l.so");
}

Test(life, loss_of_a_process_that_showed_nothing_else)
{
	cr_expect(!late(0, 0));
	cr_expect_eq(n_rows, 0);
	put(hal(0x1000, 1, 3));
	now -= 5; /* the row is told a window later, but no row goes back in time */
	cr_expect(!model__knows(m, PID + 1, START));
	cr_expect(late(PID + 1, START));
	cr_assert_eq(n_rows, 2);
	cr_expect_eq(rows[0].type, ROW_START_TRACE);
	cr_expect_eq(rows[0].time, now + 5);
	cr_expect_eq(rows[1].type, ROW_LOST);
	cr_expect_eq(rows[1].pid, PID + 1);
	cr_expect(model__knows(m, PID + 1, START));
	cr_expect_eq(model__start(m, PID + 1), START);
	cr_expect_eq(model__start(m, PID + 2), 0);
	put(of_process(life(EV_EXIT), PID + 1));
	cr_expect_eq(model__start(m, PID + 1), START);
}

/* ---- options ---- */

TestSuite(options, .fini = end);

static struct event launch(void)
{
	struct event e = text_event(EV_LAUNCH, "k");

	e.stream = 0xabc;
	return e;
}

Test(options, events)
{
	struct event fail = hal(0x1000, 1, 0);

	begin_opts((struct model_opts){ .level = LEVEL_KERNEL, .events = EVENTS_LAUNCH });
	ruled_out(hal(0x1000, 1, 0), RULE_FILTERED);
	ruled_out(hal_free(0x1000), RULE_FILTERED);
	ruled_out(pta(EV_PTA_BLOCK_FREE, 0x1000, 512, 0), RULE_FILTERED);
	row_of(launch());
	row_of(text_event(EV_MARK, "m"));
	fail.ret = 6;
	ruled_out(fail, RULE_FAILED);
	end();
	begin_opts((struct model_opts){ .level = LEVEL_KERNEL, .events = EVENTS_ALLOC });
	row_of(hal(0x1000, 1, 0));
	ruled_out(launch(), RULE_FILTERED);
}

Test(options, level)
{
	begin_opts(
		(struct model_opts){ .level = LEVEL_OP, .events = EVENTS_ALLOC | EVENTS_LAUNCH });
	ruled_out(launch(), RULE_FILTERED);
	row_of(hal(0x1000, 1, 0));
}

Test(options, device)
{
	struct model_opts o = ALL_OPTS;
	struct event host = hal(0x9000, 1, 0);

	o.npu_slots = 1u << 2 | 1u << 31;
	begin_opts(o);
	row_of(hal(0x1000, 1, 2));
	ruled_out(hal(0x2000, 1, 3), RULE_FILTERED);
	ruled_out(hal_free(0x2000), RULE_FILTERED); /* its FREE as well, and no preattach one */
	cr_expect_eq(counts().preattach, 0);
	row_of(pta(EV_PTA_MALLOC, 0x1000, 512, 31));
	ruled_out(pta(EV_PTA_MALLOC, 0x1000, 512, 32), RULE_FILTERED);
	host.flags = EVF_HOST;
	ruled_out(host, RULE_FILTERED);
	/* without a device: for all */
	row_of(of_process(text_event(EV_MARK, "m"), PID + 7));
	/* sums are of all that happens */
	cr_expect_eq(pool_used(ROW_HAL, 2), 1);
	/* ids have no holes for what is left out */
	cr_expect_eq(rows[0].id, 1);
	cr_expect_eq(rows[1].id, 2);
	cr_expect_eq(rows[2].id, 3);
}

Test(options, all_npus)
{
	struct model_opts o = ALL_OPTS;
	struct event host = hal(0x9000, 1, 0);

	o.npus = true;
	begin_opts(o);
	row_of(pta(EV_PTA_MALLOC, 0x1000, 512, 31));
	row_of(pta(EV_PTA_MALLOC, 0x2000, 512, 32));
	row_of(pta(EV_PTA_MALLOC, 0x3000, 512, 900));
	host.flags = EVF_HOST;
	ruled_out(host, RULE_FILTERED);
}

Test(options, what_is_lost_is_told_for_every_device)
{
	struct lost_row l = { .reason = "ring full", .probe = "p", .count = 5, .device = 3 };
	struct model_opts o = ALL_OPTS;
	size_t n;

	o.npu_slots = 1u << 2;
	begin_opts(o);
	row_of(hal(0x1000, 1, 2));
	put(hal(0x2000, 1, 3));
	n = n_rows;
	cr_assert(model__lost(m, &l));
	cr_assert_eq(n_rows, n + 1);
	cr_expect_eq(rows[n].lost_count, 5);
	cr_expect_eq(rows[n].device, 3);
	/* of nobody knows which: once, and a hint on each device that is shown */
	l.device = -1;
	cr_assert(model__lost(m, &l));
	cr_assert_eq(n_rows, n + 3);
	cr_expect_eq(rows[n + 1].lost_count, 5);
	cr_expect_eq(rows[n + 2].lost_count, 0);
	cr_expect_eq(rows[n + 2].device, 2);
}

Test(life, loss_stands_in_the_order_of_time)
{
	uint64_t last;

	put(hal(0x1000, 1, 3));
	last = rows[n_rows - 1].time;
	/* what was seen is younger than the time at which the loss is told of */
	now -= 1000;
	lost(3, true, 7);
	cr_assert_eq(n_rows, 1);
	cr_expect_eq(rows[0].time, last);
	n_rows = 0;
	model__stop(m, now);
	cr_assert_eq(n_rows, 1);
	cr_expect_geq(rows[0].time, last);
}

Test(options, cpu_only)
{
	struct model_opts o = ALL_OPTS;
	struct event host = hal(0x9000, 1, 0);

	o.cpu = true;
	begin_opts(o);
	ruled_out(hal(0x1000, 1, 0), RULE_FILTERED);
	host.flags = EVF_HOST;
	cr_expect_eq(row_of(host)->device, DEV_HOST);
}

Test(options, vendor_adds_nothing)
{
	struct model_opts o = ALL_OPTS;
	struct event e = hal(0x1000, 1, 0);

	o.vendor = true;
	begin_opts(o);
	nspid = 9;
	e.flags = EVF_LATE;
	cr_expect_eq(row_of(e)->attrs, ATTR_BLOCK);
	nspid = 0;
	cr_expect_eq(rows[0].attrs, 0);
	cr_expect_eq(row_of(pta(EV_PTA_MALLOC, 0x1000, 512, 0))->attrs, ATTR_BLOCK | ATTR_POOL);
	cr_expect_eq(row_of(launch())->attrs, ATTR_KERNEL);
	e = text_event(EV_MARK, "cut");
	e.flags = EVF_TRUNC;
	cr_expect_eq(row_of(e)->attrs, 0);
}

Test(options, wall_clock)
{
	struct model_opts o = ALL_OPTS;
	struct event e;

	o.boot_to_real = 1000000;
	begin_opts(o);
	e = hal(0x1000, 1, 0);
	put(e);
	cr_expect_eq(rows[1].time, e.time + 1000000);
	o.boot_to_real = -5;
	end();
	begin_opts(o);
	put(e);
	cr_expect_eq(rows[1].time, e.time - 5);
}

/* ---- the sum ---- */

static struct event random_event(unsigned int *seed)
{
	static const char *const texts[] = { "", "step start", "AscendPool", "CPUPool", "kernel" };
	const char *text = texts[(unsigned int)rand_r(seed) % MT_ARRAY_SIZE(texts)];
	struct event e = text_event((enum event_kind)(1 + rand_r(seed) % (EV_KIND_MAX - 1)), text);

	e.tgid = PID + (uint32_t)(rand_r(seed) % 3);
	e.tid = e.tgid + (uint32_t)(rand_r(seed) % 3);
	e.addr = 0x1000u * (uint64_t)(rand_r(seed) % 20);
	e.size = 512 * (rand_r(seed) % 5);
	e.device = rand_r(seed) % 70 - 2;
	e.flags = (uint32_t)rand_r(seed) & 0xfff;
	e.ret = rand_r(seed) % 4 ? 0 : 6;
	e.allocated = 512 * (rand_r(seed) % 3);
	e.reserved = 512 * (rand_r(seed) % 3);
	e.stream = (uint64_t)(rand_r(seed) % 3);
	e.key = (uint64_t)(rand_r(seed) % 5);
	e.name_kind = (uint8_t)(rand_r(seed) % 7);
	if (e.kind >= EV_ATB_START && e.kind <= EV_ATB_KERNEL_END) {
		static struct mt_atb r;

		r = (struct mt_atb){ .sp = e.key,
				     .runner = (uint64_t)(rand_r(seed) % 5),
				     .ids = (uint32_t)(rand_r(seed) % 4),
				     .count = (uint64_t)(rand_r(seed) % 3),
				     .name_len = (uint16_t)strlen(text) };
		memcpy(r.name, text, r.name_len);
		e.atb = &r;
	}
	return e;
}

static void sum_of_random_events(struct model_opts o, unsigned int seed)
{
	uint64_t sum, n = 0, rows_seen = 0, next[3] = { 0 };
	struct model_counts c;
	unsigned int i;
	size_t k;

	begin_opts(o);
	for (i = 0; i < 20000; i++) {
		if (i % 1000 == 999) {
			model__no_row(m, RULE_WITHDRAWN);
		} else {
			struct event e = random_event(&seed);

			put(e);
		}
		n++;
		/* The vendor's have gaps where a mark is left out. */
		for (k = 0; k < n_rows; k++) {
			uint64_t *last = &next[rows[k].pid - PID];

			cr_assert(o.vendor ? rows[k].id > *last : rows[k].id == *last + 1);
			*last = rows[k].id;
		}
		rows_seen += n_rows;
		n_rows = 0;
	}
	c = counts();
	sum = c.rows_events;
	for (i = 0; i < RULE_MAX; i++)
		sum += c.rules[i];
	cr_expect_eq(sum, n, "%lu of %lu events", (unsigned long)sum, (unsigned long)n);
	cr_expect_eq(rows_seen, c.rows_events + c.rows_extra);
	cr_expect_gt(c.rows_events, o.n_steps ? 20 : 500, "%lu", (unsigned long)c.rows_events);
	cr_expect_eq(c.rules[RULE_WITHDRAWN], 20);
	for (i = 0, sum = 0; i < ROW_TYPE_MAX; i++)
		sum += c.by_type[i][0] + c.by_type[i][1];
	cr_expect_eq(sum, rows_seen);
	end();
}

Test(sum, of_random_events)
{
	struct model_opts o = ALL_OPTS;
	unsigned int i;

	for (i = 0; i < 5; i++)
		sum_of_random_events(o, 100 + i);
	o.vendor = true;
	sum_of_random_events(o, 7);
	o.npu_slots = 0xff;
	sum_of_random_events(o, 8);
	o.cpu = true;
	o.level = LEVEL_OP;
	sum_of_random_events(o, 9);
	o = ALL_OPTS;
	o.events = 0;
	sum_of_random_events(o, 10);
	o = ALL_OPTS;
	for (i = 0; i < MODEL_MAX_STEPS; i++)
		o.steps[i] = 3 * i + 1;
	o.n_steps = MODEL_MAX_STEPS;
	sum_of_random_events(o, 11);
	o.vendor = true;
	sum_of_random_events(o, 12);
}

Test(sum, rules_have_names)
{
	unsigned int i, j;

	for (i = 0; i < RULE_MAX; i++) {
		cr_assert(rule__name((enum rule)i));
		for (j = 0; j < i; j++)
			cr_expect_str_neq(rule__name((enum rule)i), rule__name((enum rule)j));
	}
	for (i = 0; i < ROW_TYPE_MAX; i++)
		cr_expect_str_neq(row_type__name((enum row_type)i), "N/A");
	for (i = 0; i < ROW_EVENT_MAX; i++)
		cr_expect_str_neq(row_event__name((enum row_event)i), "N/A");
	cr_expect_str_eq(row_type__name(ROW_TYPE_MAX), "N/A");
	cr_expect_str_eq(row_event__name(ROW_EVENT_MAX), "N/A");
}
