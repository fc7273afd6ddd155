// SPDX-License-Identifier: Apache-2.0
/* Marks, ranges, steps, launches and the names of kernels. */
#include "model_test.h"

TestSuite(marks, .init = begin, .fini = end);

static struct event range_in(uint32_t tid, uint64_t lib_id, uint64_t domain, const char *text)
{
	struct event e = on_thread(text_event(EV_RANGE_START, text), tid);

	e.key = lib_id;
	e.size = (int64_t)domain;
	return e;
}

static struct event range_end_in(uint32_t tid, uint64_t lib_id, uint64_t domain)
{
	struct event e = on_thread(ev(EV_RANGE_END), tid);

	e.key = lib_id;
	e.size = (int64_t)domain;
	return e;
}

static struct event py(struct event e)
{
	e.flags |= EVF_PY;
	return e;
}

Test(marks, mark)
{
	const struct row *r = row_of(text_event(EV_MARK, "hello, \"world\"\n"));

	cr_expect_eq(r->event, ROW_MSTX);
	cr_expect_eq(r->type, ROW_MARK);
	cr_expect_str_eq(r->name, "hello, \"world\"\n");
	cr_expect_eq(r->attrs, 0);
	cr_expect_eq(r->device, DEV_NA);
	cr_expect_eq(counts().by_type[ROW_MARK][0], 1);
}

Test(marks, text_that_is_not_whole)
{
	struct event e = text_event(EV_MARK, "beginni");

	e.flags = EVF_TRUNC;
	cr_expect_str_eq(row_of(e)->note, "message cut");
	e = text_event(EV_MARK, "");
	e.flags = EVF_NOTEXT;
	cr_expect_str_eq(row_of(e)->note, "message unreadable");
	cr_expect(rows[n_rows - 1].attrs & ATTR_NOTE);
}

Test(marks, range_with_the_id_of_the_library)
{
	const struct row *r = row_of(range_in(7, 42, 0, "a"));
	uint64_t begin_time = r->time;

	cr_expect_eq(r->type, ROW_RANGE_START);
	cr_expect_eq(r->range_id, 42);
	cr_expect_eq(r->step_id, 0);
	row_of(range_in(7, 43, 0, "b"));
	/* ended by another thread, not the newest */
	r = row_of(range_end_in(8, 42, 0));
	cr_expect_eq(r->type, ROW_RANGE_END);
	cr_expect_eq(r->range_id, 42);
	cr_expect_eq(r->begin_time, begin_time);
	cr_expect_str_eq(r->name, "Range end from id 42");
	cr_expect_eq(row_of(range_end_in(8, 43, 0))->range_id, 43);
	cr_expect_eq(counts().unpaired_ranges, 0);
}

Test(marks, made_up_ids_are_new)
{
	uint64_t a = row_of(range_in(7, 0, 0, "a"))->range_id, b, c;

	cr_expect_gt(a, 0);
	b = row_of(range_in(7, 50, 0, "b"))->range_id;
	c = row_of(range_in(7, 0, 0, "c"))->range_id;
	cr_expect_eq(b, 50);
	cr_expect(c != a && c != b && c != 0);
}

Test(marks, without_ids_newest_of_the_thread_first)
{
	uint64_t a = row_of(range_in(7, 0, 0, "a"))->range_id;
	uint64_t b = row_of(range_in(7, 0, 0, "b"))->range_id;
	uint64_t c = row_of(range_in(8, 0, 0, "c"))->range_id;

	cr_expect_eq(row_of(range_end_in(7, 0, 0))->range_id, b);
	cr_expect_eq(row_of(range_end_in(8, 0, 0))->range_id, c);
	cr_expect_eq(row_of(range_end_in(7, 0, 0))->range_id, a);
	cr_expect_eq(counts().unpaired_ranges, 0);
}

Test(marks, domains_are_apart)
{
	uint64_t a = row_of(range_in(7, 5, 0xd1, "a"))->range_id, b;

	cr_expect_eq(a, 5);
	/* the same id in another domain is another range */
	row_of(range_end_in(7, 5, 0xd2));
	cr_expect_eq(counts().unpaired_ranges, 1);
	row_of(range_end_in(7, 5, 0xd1));
	cr_expect_eq(counts().unpaired_ranges, 1);
	/* made-up ones: the newest of the domain */
	a = row_of(range_in(7, 0, 0xd1, "a"))->range_id;
	b = row_of(range_in(7, 0, 0xd2, "b"))->range_id;
	cr_expect_eq(row_of(range_end_in(7, 0, 0xd1))->range_id, a);
	cr_expect_eq(row_of(range_end_in(7, 0, 0xd2))->range_id, b);
}

Test(marks, end_without_a_start)
{
	const struct row *r = row_of(range_end_in(7, 99, 0));

	cr_expect_str_eq(r->name, "Range end from id 99");
	cr_expect_eq(r->begin_time, r->time);
	cr_expect_eq(r->step_id, 0);
	cr_expect_eq(counts().unpaired_ranges, 1);
	row_of(range_in(7, 3, 0, "a"));
	row_of(range_end_in(7, 3, 0));
	row_of(range_end_in(7, 3, 0)); /* twice */
	cr_expect_eq(counts().unpaired_ranges, 2);
	cr_expect_eq(counts().rows_events, 4); /* each of them is a row */
}

Test(marks, python)
{
	uint64_t c = row_of(range_in(7, 0, 0, "C"))->range_id;
	uint64_t a = row_of(py(range_in(7, 0, 0, "py")))->range_id;

	/* a pop in C does not end what Python began, nor the other way round */
	cr_expect_eq(row_of(range_end_in(7, 0, 0))->range_id, c);
	/* the id that Python has is not known: the newest of the thread */
	cr_expect_eq(row_of(py(range_end_in(7, 77, 0)))->range_id, a);
	cr_expect_eq(counts().unpaired_ranges, 0);
	row_of(py(range_end_in(7, 77, 0)));
	cr_expect_eq(counts().unpaired_ranges, 1);
}

Test(marks, refused_by_python)
{
	struct event e = py(range_in(7, 0, 0, "step start"));

	e.ret = 1;
	ruled_out(e, RULE_FAILED);
	cr_expect_eq(counts().failures[1], 1);
	cr_expect_eq(row_of(range_in(7, 0, 0, "step start"))->step_id, 1);
}

Test(marks, steps)
{
	const struct row *r;

	cr_expect_eq(row_of(hal(0x1000, 1, 0))->born_step, 0);
	cr_expect_eq(row_of(range_in(7, 1, 0, "step start"))->step_id, 1);
	row_of(hal(0x2000, 1, 0));
	cr_expect_eq(row_of(range_end_in(7, 1, 0))->step_id, 1);
	cr_expect_eq(row_of(range_in(7, 2, 0, "step start "))->step_id, 0);
	cr_expect_eq(row_of(range_in(7, 3, 0, "Step start"))->step_id, 0);
	cr_expect_eq(row_of(range_in(7, 4, 0, "step start"))->step_id, 2);
	row_of(range_end_in(7, 4, 0));
	cr_expect_eq(row_of(range_in(7, 5, 0, "step start"))->step_id, 3);
	r = row_of(hal_free(0x2000));
	cr_expect_eq(r->born_step, 1);
	cr_expect_eq(r->steps_lived, 2);
	r = row_of(hal_free(0x1000));
	cr_expect_eq(r->born_step, 0);
	cr_expect_eq(r->steps_lived, 3);
	/* steps of another process are its own */
	cr_expect_eq(row_of(of_process(range_in(7, 1, 0, "step start"), PID + 5))->step_id, 1);
}

Test(marks, many_open_ranges)
{
	uint64_t id[100];
	int i;

	for (i = 0; i < 100; i++)
		id[i] = row_of(range_in(7, 0, 0, "r"))->range_id;
	for (i = 99; i >= 0; i--)
		cr_assert_eq(row_of(range_end_in(7, 0, 0))->range_id, id[i]);
	cr_expect_eq(counts().unpaired_ranges, 0);
}

Test(marks, ids_that_are_open_twice)
{
	uint64_t first = row_of(range_in(7, 5, 0, "a"))->time, second;

	second = row_of(range_in(8, 5, 0, "b"))->time;
	cr_expect_eq(row_of(range_end_in(9, 5, 0))->begin_time, second);
	cr_expect_eq(row_of(range_end_in(9, 5, 0))->begin_time, first);
	cr_expect_eq(counts().unpaired_ranges, 0);
}

/* A target may open ranges that it never ends, and end what it never began. */
Test(marks, open_ranges_do_not_cost_more_and_more)
{
	uint64_t t = clock__boot(), i, n = 200000;

	cr_assert_eq(model__process(m, PID, START, now), 0);
	for (i = 0; i < n; i++) {
		n_rows = 1;
		put(range_in(7, 1000 + i, 0, "r"));
	}
	for (i = 0; i < n; i++) {
		n_rows = 1;
		put(range_end_in(7, 10 * n + i, 0));
	}
	/* each of them looked at all that were open: minutes */
	cr_expect_lt(clock__boot() - t, 5000000000ULL);
	cr_expect_eq(counts().unpaired_ranges, n);
	cr_expect_eq(counts().ranges_over, n - 65536);
	cr_expect_eq(counts().rows_events, 2 * n);
	/* one that is remembered ends, and there is room for one */
	n_rows = 1;
	row_of(range_end_in(7, 1000, 0));
	cr_expect_eq(counts().unpaired_ranges, n);
	row_of(range_in(7, 1, 0, "r"));
	cr_expect_eq(counts().ranges_over, n - 65536);
	row_of(range_end_in(7, 1, 0));
	cr_expect_eq(counts().unpaired_ranges, n);
}

/* ---- launches ---- */

TestSuite(launches, .init = begin, .fini = end);

static struct event launch(uint64_t addr, uint8_t kind, const char *text)
{
	struct event e = text_event(EV_LAUNCH, text);

	e.addr = addr;
	e.name_kind = kind;
	e.stream = 0xabc;
	return e;
}

static struct event name_of(uint64_t handle, const char *text)
{
	struct event e = text_event(EV_FUNC_NAME, text);

	e.addr = handle;
	return e;
}

static struct event stream_id(uint64_t stream, int64_t id)
{
	struct event e = ev(EV_STREAM_ID);

	e.stream = stream;
	e.stream_id = id;
	return e;
}

Test(launches, text_of_the_record)
{
	const struct row *r = row_of(launch(0x55, MT_NAME_HANDLE, "AddKernel"));

	cr_expect_eq(r->event, ROW_KERNEL_LAUNCH);
	cr_expect_eq(r->type, ROW_KERNEL);
	cr_expect_str_eq(r->name, "AddKernel");
	cr_expect_eq(r->attrs, ATTR_KERNEL | ATTR_STREAM);
	cr_expect_eq(r->stream, 0xabc);
	cr_expect_eq(r->stream_id, -1);
	cr_expect_eq(r->kernel_index, 1);
	cr_expect_eq(row_of(launch(0x55, MT_NAME_HANDLE, "B"))->kernel_index, 2);
}

Test(launches, names_from_handles)
{
	struct event e;

	ruled_out(name_of(0x55, "MatMul"), RULE_STATE);
	cr_expect_str_eq(row_of(launch(0x55, MT_NAME_STUB, ""))->name, "MatMul");
	ruled_out(name_of(0x55, "Renamed"), RULE_STATE);
	cr_expect_str_eq(row_of(launch(0x55, MT_NAME_STUB, ""))->name, "Renamed");
	/* a name that could not be read, or of a refused call, takes none away */
	ruled_out(name_of(0x55, ""), RULE_STATE);
	e = name_of(0x55, "Wrong");
	e.ret = 107000;
	ruled_out(e, RULE_FAILED);
	cr_expect_str_eq(row_of(launch(0x55, MT_NAME_STUB, ""))->name, "Renamed");
	/* of this process only */
	cr_expect_str_eq(row_of(of_process(launch(0x55, MT_NAME_STUB, ""), PID + 5))->name,
			 "stub:0x55");
}

Test(launches, unknown_names)
{
	struct event e;

	cr_expect_str_eq(row_of(launch(0xab, MT_NAME_HANDLE, ""))->name, "handle:0xab");
	cr_expect_str_eq(row_of(launch(0xab, MT_NAME_STRING, ""))->name, "name:0xab");
	cr_expect_str_eq(row_of(launch(0, MT_NAME_NONE, ""))->name, "kernel:0x0");
	cr_expect_str_eq(row_of(launch(0xab, 200, ""))->name, "kernel:0xab");
	e = launch(UINT64_MAX, MT_NAME_PROGRAM, "");
	e.key = UINT64_MAX;
	cr_expect_str_eq(row_of(e)->name, "program:0xffffffffffffffff+18446744073709551615");
}

Test(launches, stream_ids)
{
	struct event e = stream_id(0xabc, 5);

	e.ret = 107000;
	ruled_out(e, RULE_FAILED);
	cr_expect_eq(row_of(launch(1, MT_NAME_STUB, "k"))->stream_id, -1);
	ruled_out(stream_id(0xabc, 5), RULE_STATE);
	ruled_out(stream_id(0xabd, 0), RULE_STATE);
	cr_expect_eq(row_of(launch(1, MT_NAME_STUB, "k"))->stream_id, 5);
	e = launch(1, MT_NAME_STUB, "k");
	e.stream = 0xabd;
	cr_expect_eq(row_of(e)->stream_id, 0);
	e = launch(1, MT_NAME_STUB, "k");
	e.stream = 0;
	cr_expect(!(row_of(e)->attrs & ATTR_STREAM));
	cr_expect_eq(row_of(of_process(launch(1, MT_NAME_STUB, "k"), PID + 5))->stream_id, -1);
}

Test(launches, the_stream_tells_the_device)
{
	put(pta(EV_PTA_MALLOC, 0x1000, 512, 3)); /* on stream 0xabc */
	cr_expect_eq(row_of(on_thread(launch(1, MT_NAME_STUB, "k"), PID + 9))->device, 3);
}

Test(launches, refused)
{
	struct event e = launch(1, MT_NAME_STUB, "k");

	e.ret = 207001;
	ruled_out(e, RULE_FAILED);
	cr_expect_eq(row_of(launch(1, MT_NAME_STUB, "k"))->kernel_index, 1);
}

Test(launches, counted_between_malloc_and_free)
{
	row_of(launch(1, MT_NAME_STUB, "k"));
	cr_expect_eq(row_of(hal(0x1000, 1, 0))->kernel_index, 1);
	row_of(launch(1, MT_NAME_STUB, "k"));
	row_of(launch(1, MT_NAME_STUB, "k"));
	cr_expect_eq(row_of(hal_free(0x1000))->kernel_index, 3);
	cr_expect_eq(rows[n_rows - 1].begin_kernel, 1);
}
