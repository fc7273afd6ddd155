// SPDX-License-Identifier: Apache-2.0
/* trace/ files: byte for byte the vendor's on its own axis; valid on the real one. */
#include "out_test.h"

#include <cjson/cJSON.h>

static char *golden(const char *name)
{
	const char *src = getenv("SRCDIR");
	char *path, *s;

	cr_assert(asprintf(&path, "%s/tests/unit/data/steps/%s", src ? src : ".", name) > 0);
	s = read_all(path, NULL);
	free(path);
	return s;
}

/* Five steps, two kernels each, a block that lives from step 2 to step 4. */
Test(trace_json, golden_sequence)
{
	struct out_opts opts = { .vendor = true, .timeline = OUT_TIMELINE_KERNEL };
	char *csv = golden("leaks_dump.csv"), *d = tmp_dir();
	struct row *rows;
	size_t n;

	rows = rows_of_csv(csv, &n);
	opts.dir = d;
	cr_assert(!write_rows(opts, rows, n));
	expect_text(read_found(d, "trace", "npu0_trace_", ".json"), golden("npu0_trace.json"));
	expect_text(read_found(d, "trace", "cpu_trace_", ".json"), golden("cpu_trace.json"));
	rm_dir(d);
}

static cJSON *parsed(const char *dir, const char *start)
{
	char *s = read_found(dir, "trace", start, ".json");
	cJSON *j = cJSON_ParseWithOpts(s, NULL, true);

	cr_assert(j, "not JSON: %s", s);
	free(s);
	return j;
}

/* The n-th event of that name. */
static cJSON *event(cJSON *j, const char *name, int nth)
{
	cJSON *e, *v;

	cJSON_ArrayForEach(e, j)
	{
		v = cJSON_GetObjectItem(e, "name");
		if (v && !strcmp(v->valuestring, name) && !nth--)
			return e;
	}
	return NULL;
}

static double num(cJSON *e, const char *key)
{
	cJSON *v = cJSON_GetObjectItem(e, key);

	cr_assert(v && cJSON_IsNumber(v), "no %s", key);
	return v->valuedouble;
}

static double arg(cJSON *e, const char *key)
{
	cr_assert(e);
	return num(cJSON_GetObjectItem(e, "args"), key);
}

static const char *text_arg(cJSON *e, const char *key)
{
	cJSON *v;

	cr_assert(e);
	v = cJSON_GetObjectItem(cJSON_GetObjectItem(e, "args"), key);
	return v ? v->valuestring : NULL;
}

#define START 1700000000000000000ULL
#define US(n) (START + (n)*1000ULL)

Test(trace_json, real_axis)
{
	struct row rows[] = {
		{ .id = 1,
		  .event = ROW_MALLOC,
		  .type = ROW_HAL,
		  .time = START + 1234567,
		  .pid = 70,
		  .tid = 71,
		  .ptr = 1,
		  .allocation_id = 1,
		  .size = 100,
		  .held = 100,
		  .attrs = ATTR_BLOCK },
		{ .id = 2,
		  .event = ROW_MALLOC,
		  .type = ROW_HAL,
		  .time = US(2),
		  .pid = 70,
		  .tid = 71,
		  .ptr = 2,
		  .allocation_id = 2,
		  .size = 50,
		  .held = 150,
		  .attrs = ATTR_BLOCK },
		{ .id = 3,
		  .event = ROW_FREE,
		  .type = ROW_HAL,
		  .time = US(3),
		  .pid = 70,
		  .tid = 71,
		  .ptr = 3,
		  .size = -1,
		  .attrs = ATTR_BLOCK | ATTR_PREATTACH },
		{ .id = 4,
		  .event = ROW_FREE,
		  .type = ROW_HAL,
		  .time = US(4),
		  .pid = 70,
		  .tid = 71,
		  .ptr = 1,
		  .allocation_id = 1,
		  .size = 100,
		  .held = 50,
		  .attrs = ATTR_BLOCK },
		{ .id = 5,
		  .event = ROW_MALLOC,
		  .type = ROW_HAL,
		  .time = US(5),
		  .pid = 70,
		  .tid = 71,
		  .device = DEV_HOST,
		  .ptr = 9,
		  .allocation_id = 3,
		  .size = 65536,
		  .held = 65536,
		  .attrs = ATTR_BLOCK },
		{ .id = 6,
		  .event = ROW_MALLOC,
		  .type = ROW_HOST_PINNED,
		  .time = US(6),
		  .pid = 70,
		  .tid = 71,
		  .device = DEV_CPU,
		  .ptr = 9,
		  .allocation_id = 4,
		  .size = 7,
		  .held = 7,
		  .attrs = ATTR_BLOCK },
		{ .id = 7,
		  .event = ROW_KERNEL_LAUNCH,
		  .type = ROW_KERNEL,
		  .time = US(7),
		  .pid = 70,
		  .tid = 71,
		  .kernel_index = 1,
		  .name = "MatMul",
		  .name_len = 6,
		  .attrs = ATTR_KERNEL,
		  .stream_id = 2 },
		{ .id = 8,
		  .event = ROW_FREE,
		  .type = ROW_ATB,
		  .time = US(9),
		  .pid = 70,
		  .tid = 71,
		  .ptr = 20,
		  .allocation_id = 5,
		  .size = 64,
		  .attrs = ATTR_BLOCK | ATTR_POOL,
		  .born_step = 2,
		  .steps_lived = 2,
		  .begin_time = US(2) + 500 },
		{ .id = 9,
		  .event = ROW_SYSTEM,
		  .type = ROW_LOST,
		  .time = US(10),
		  .pid = 70,
		  .tid = 71,
		  .attrs = ATTR_LOST,
		  .lost_reason = "ring",
		  .lost_probe = "pta",
		  .lost_count = 3 },
		{ .id = 9,
		  .event = ROW_SYSTEM,
		  .type = ROW_LOST,
		  .time = US(10),
		  .pid = 70,
		  .tid = 71,
		  .attrs = ATTR_LOST,
		  .lost_reason = "late library",
		  .lost_probe = "all",
		  .lost_library = "/l.so" },
		{ .id = 9,
		  .event = ROW_SYSTEM,
		  .type = ROW_LOST,
		  .time = US(10),
		  .pid = 70,
		  .tid = 71,
		  .attrs = ATTR_LOST,
		  .lost_reason = "late library",
		  .lost_probe = "all",
		  .lost_count = LOST_UNKNOWN },
		{ .id = 10,
		  .event = ROW_MSTX,
		  .type = ROW_MARK,
		  .time = US(11),
		  .pid = 70,
		  .tid = 71,
		  .device = DEV_NA,
		  .name = "nowhere",
		  .name_len = 7 },
		{ .id = 11,
		  .event = ROW_SYSTEM,
		  .type = ROW_ACL_INIT,
		  .time = US(12),
		  .pid = 70,
		  .device = 3 },
	};
	struct out_opts opts = { .start_real = START };
	char *d = tmp_dir(), *none;
	cJSON *j, *e;

	opts.dir = d;
	cr_assert(!write_rows(opts, rows, MT_ARRAY_SIZE(rows)));
	j = parsed(d, "npu0_trace_");
	cr_expect_str_eq(text_arg(event(j, "trace_start", 0), "realtime_ns"),
			 "1700000000000000000");
	e = event(j, "hal memory", 0);
	cr_expect_float_eq(num(e, "ts"), 1234.567, 1e-9);
	cr_expect_eq(arg(event(j, "hal memory", 1), "size"), 150);
	cr_expect_eq(arg(event(j, "hal memory", 2), "size"), 50);
	cr_expect_null(event(j, "hal memory", 3));
	cr_expect_str_eq(text_arg(event(j, "kernel_1", 0), "kernel"), "MatMul");
	e = event(j, "mem 20 leak", 0);
	cr_expect_float_eq(num(e, "ts"), 2.5, 1e-9);
	cr_expect_float_eq(num(e, "dur"), 6.5, 1e-9);
	cr_expect(strstr(text_arg(event(j, "lost", 0), "message"), "3 events lost"));
	cr_expect_str_eq(text_arg(event(j, "lost", 1), "message"),
			 "events lost, perhaps of this device: late library, all, /l.so");
	cr_expect_str_eq(text_arg(event(j, "lost", 2), "message"),
			 "an unknown number of events lost: late library, all");
	cr_expect_null(event(j, "mstx_mark", 0));
	cJSON_Delete(j);
	j = parsed(d, "cpu_trace_");
	cr_expect_eq(arg(event(j, "pin memory", 0), "size"), 65536);
	cr_expect_eq(arg(event(j, "pin memory", 1), "size"), 7);
	cr_expect(event(j, "kernel_1", 0));
	cJSON_Delete(j);
	/* A row that gives no event makes no file. */
	none = find_file(d, "trace", "npu3", ".json");
	cr_expect_null(none);
	rm_dir(d);
}

/* Each file is a descriptor and a buffer: a target that counts devices up must not take them all.
 */
Test(trace_json, devices_that_a_target_makes_up)
{
	struct row r = {
		.event = ROW_MSTX, .type = ROW_MARK, .time = START, .name = "m", .name_len = 1
	};
	struct out_opts opts = { .start_real = START };
	char *d = tmp_dir(), *trace;
	struct dirent *e;
	struct out *o;
	size_t n = 0;
	DIR *h;

	opts.dir = d;
	cr_assert(!out__open(&opts, &o));
	for (r.device = 0; r.device < 1024; r.device++) {
		r.id++;
		cr_assert_eq(out__row(o, &r), 0);
	}
	r.event = ROW_KERNEL_LAUNCH;
	r.type = ROW_KERNEL;
	r.device = 1000; /* its copy for the processor has a place */
	r.id++;
	cr_assert_eq(out__row(o, &r), 0);
	cr_expect_eq(out__left_out(o), 1024 - MAX_DEVICES + 1);
	cr_assert_eq(out__close(o), 0);
	cr_assert(asprintf(&trace, "%s/trace", d) > 0);
	h = opendir(trace);
	cr_assert(h);
	while ((e = readdir(h)))
		n += e->d_name[0] != '.';
	closedir(h);
	cr_expect_eq(n, MAX_DEVICES + 1, "%zu files", n);
	free(trace);
	rm_dir(d);
}

static struct row long_lived(uint64_t ptr, uint64_t from, uint64_t to)
{
	return (struct row){ .event = ROW_FREE,
			     .type = ROW_PTA,
			     .time = US(to),
			     .begin_time = US(from),
			     .pid = 70,
			     .ptr = ptr,
			     .allocation_id = ptr,
			     .size = 512,
			     .attrs = ATTR_BLOCK,
			     .born_step = 2,
			     .steps_lived = 2 };
}

/* Perfetto drops a bar that overlaps another of its thread: each has a thread that is free then. */
Test(trace_json, bars_do_not_overlap)
{
	struct row rows[] = { long_lived(1, 10, 20), long_lived(2, 15, 25), long_lived(3, 20, 30),
			      long_lived(4, 5, 40), long_lived(5, 40, 50) };
	static const int want[] = { 0, 1, 0, 2, 0 };
	struct out_opts opts = { .start_real = START };
	char *d = tmp_dir(), name[32];
	size_t i;
	cJSON *j;

	opts.dir = d;
	cr_assert(!write_rows(opts, rows, MT_ARRAY_SIZE(rows)));
	j = parsed(d, "npu0_trace_");
	for (i = 0; i < MT_ARRAY_SIZE(rows); i++) {
		snprintf(name, sizeof(name), "mem %zu leak", i + 1);
		cr_expect_eq(num(event(j, name, 0), "tid"), want[i], "%s", name);
	}
	cJSON_Delete(j);
	rm_dir(d);
}

Test(trace_json, hostile_messages)
{
	static const char msg[] = "q\" b\\ n\n t\t z\0 e\x1b \xff\xfe \xed\xa0\x80 ok\xc3\xa9";
	struct row r = { .event = ROW_MSTX,
			 .type = ROW_MARK,
			 .time = START,
			 .name = msg,
			 .name_len = sizeof(msg) - 1 };
	struct out_opts opts = { .start_real = START };
	char *d = tmp_dir();
	cJSON *j;

	opts.dir = d;
	cr_assert(!write_rows(opts, &r, 1));
	j = parsed(d, "npu0_trace_");
	cr_expect_str_eq(text_arg(event(j, "mstx_mark", 0), "message"),
			 "q\" b\\ n\n t\t z\xef\xbf\xbd e\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd "
			 "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd ok\xc3\xa9");
	cJSON_Delete(j);
	rm_dir(d);
}

/* An event before the zero of the axis keeps its place. */
Test(trace_json, before_start)
{
	struct row r = { .event = ROW_MSTX,
			 .type = ROW_MARK,
			 .time = START - 1500,
			 .name = "m",
			 .name_len = 1 };
	struct out_opts opts = { .start_real = START };
	char *d = tmp_dir();
	cJSON *j;

	opts.dir = d;
	cr_assert(!write_rows(opts, &r, 1));
	j = parsed(d, "npu0_trace_");
	cr_expect_float_eq(num(event(j, "mstx_mark", 0), "ts"), -1.5, 1e-9);
	cJSON_Delete(j);
	rm_dir(d);
}
