// SPDX-License-Identifier: Apache-2.0
/* The vendor's row order, the journal, and recovery of killed runs. */
#include "out_kill.h"

#include <sqlite3.h>
#include <sys/mount.h>
#include "output/journal.h"

static char *golden(const char *name)
{
	const char *src = getenv("SRCDIR");
	char *path, *s;

	cr_assert(asprintf(&path, "%s/tests/unit/data/steps/%s", src ? src : ".", name) > 0);
	s = read_all(path, NULL);
	free(path);
	return s;
}

/* Time order in, the vendor's own file out. */
Test(order, golden_file)
{
	struct out_opts opts = { .vendor = true,
				 .order = OUT_ORDER_BLOCK,
				 .timeline = OUT_TIMELINE_KERNEL };
	char *want = golden("leaks_dump.csv"), *copy = strdup(want), *got;
	struct row *rows;
	size_t n;

	rows = rows_of_csv(copy, &n);
	got = csv_of(opts, rows, n);
	drop_task_ids(want);
	drop_task_ids(got);
	expect_text(got, want);
}

/* The IDs of a csv's rows, like "1 2 3 ". */
static char *ids_of(char *csv)
{
	struct strbuf sb = { 0 };
	char *line, *save = NULL;

	strtok_r(csv, "\n", &save);
	while ((line = strtok_r(NULL, "\n", &save)))
		strbuf__printf(&sb, "%d ", atoi(line));
	return sb.data ? sb.data : strdup("");
}

Test(order, ends_of_lives)
{
	struct row rows[] = {
		plain_row(ROW_START_TRACE, 1, 5),
		block_row(ROW_MALLOC, ROW_HAL, 2, 5, 100),
		block_row(ROW_MALLOC, ROW_PTA, 3, 5, 100),
		block_row(ROW_MALLOC, ROW_PTA, 4, 5, 200),
		block_row(ROW_MALLOC, ROW_PTA, 5, 5, 300),
		block_row(ROW_MALLOC, ROW_PTA, 6, 6, 200), /* another process */
		block_row(ROW_FREE, ROW_PTA, 7, 5, 200),
		plain_row(ROW_KERNEL, 8, 5),
		block_row(ROW_MALLOC, ROW_PTA, 9, 5, 300), /* its FREE was missed */
		block_row(ROW_FREE, ROW_PTA, 10, 5, 999), /* of no block */
		block_row(ROW_MALLOC, ROW_ATB, 11, 5, 1),
		plain_row(ROW_STOP_TRACE, 12, 5),
		block_row(ROW_MALLOC, ROW_PTA, 13, 5, 100),
		block_row(ROW_MALLOC, ROW_PTA, 14, 6, 300),
	};
	struct out_opts opts = { .order = OUT_ORDER_BLOCK };
	char *ids = ids_of(csv_of(opts, rows, MT_ARRAY_SIZE(rows)));

	/* 12 ends process 5: pools ATB, PTA, HAL, newest block first. */
	cr_expect_str_eq(ids, "1 4 7 8 5 10 11 9 3 2 12 13 14 6 ", "%s", ids);
}

/* V-now goes on with its blocks over a stop (data/msleaks/real/now_deferred). */
Test(order, newer_goes_on)
{
	struct row rows[] = {
		block_row(ROW_MALLOC, ROW_PTA, 1, 5, 100), plain_row(ROW_STOP_TRACE, 2, 5),
		plain_row(ROW_START_TRACE, 3, 5), block_row(ROW_FREE, ROW_PTA, 4, 5, 100),
	};
	struct out_opts opts = { .order = OUT_ORDER_BLOCK, .newer = true };
	char *d = tmp_dir();

	opts.dir = d;
	cr_assert(!write_rows(opts, rows, MT_ARRAY_SIZE(rows)));
	cr_expect_str_eq(ids_of(read_found(d, "dump", "memscope_dump_", ".csv")), "2 3 1 4 ");
	rm_dir(d);
}

/* Owners that a block gets while its rows wait stand in its MALLOC row. */
Test(order, labels)
{
	struct row rows[] = { block_row(ROW_MALLOC, ROW_PTA, 1, 5, 100),
			      block_row(ROW_MALLOC, ROW_PTA, 2, 5, 200),
			      block_row(ROW_FREE, ROW_PTA, 3, 5, 100) };
	const struct out_owner found = { .pid = 5, .type = ROW_PTA, .ptr = 200, .owner = "PTA@model@weight", .confidence = 1 };
	struct out_opts opts = { .order = OUT_ORDER_BLOCK };
	char *d = tmp_dir(), *csv, *line;
	struct out *o;
	int i;

	opts.dir = d;
	rows[1].attrs |= ATTR_OWNER;
	rows[1].owner = "PTA@a";
	cr_assert(!out__open(&opts, &o));
	cr_expect_eq(out__label(o, 5, ROW_PTA, 100, "early"), -ENOENT);
	cr_assert(!out__row(o, &rows[0]) && !out__row(o, &rows[1]));
	cr_expect_eq(out__waiting(o), 2);
	cr_expect_eq(out__label(o, 5, ROW_PTA, 100, "x"), 0);
	cr_assert(!out__flush(o)); /* the journal has the row without */
	cr_expect_eq(out__label(o, 5, ROW_PTA, 100, "y"), 0);
	cr_expect_eq(out__label(o, 5, ROW_PTA, 200, "b"), 0);
	cr_expect_eq(out__label(o, 5, ROW_HAL, 100, "of another pool"), -ENOENT);
	cr_expect_eq(out__label(o, 6, ROW_PTA, 100, "of another process"), -ENOENT);
	for (i = 0; i < 1000 && !out__label(o, 5, ROW_PTA, 200, "no end of labels"); i++)
		;
	cr_expect_lt(i, 100);
	/* What its tensor is found to be takes the place of the pool alone. */
	cr_assert(!out__owner(o, &found));
	cr_assert(!out__row(o, &rows[2]));
	cr_expect_eq(out__label(o, 5, ROW_PTA, 100, "late"), -ENOENT);
	cr_assert(!out__close(o));
	csv = read_found(d, "dump", "leaks_dump_", ".csv");
	line = strstr(csv, "\n1,MALLOC");
	cr_assert(line);
	cr_expect(strstr(line, "owner:@x@y}\",") == strstr(line, "owner:"), "%s", line);
	cr_expect(strstr(csv, "owner:PTA@model@weight@a@b@no end of labels"), "%s", csv);
	rm_dir(d);
	/* In the order of time the row is written already. */
	opts.order = OUT_ORDER_TIME;
	opts.dir = d = tmp_dir();
	cr_assert(!out__open(&opts, &o));
	cr_assert(!out__row(o, &rows[0]));
	cr_expect_eq(out__label(o, 5, ROW_PTA, 100, "x"), -ENOTSUP);
	cr_assert(!out__close(o));
	rm_dir(d);
}

/* What a block became stands in its MALLOC row: msleaks.md 8 and 17.7, 7. */
static char *became(bool newer, const char *owner, const char *found, const char *waste)
{
	struct row rows[] = { block_row(ROW_MALLOC, ROW_PTA, 1, 5, 100), block_row(ROW_ACCESS, ROW_READ, 2, 5, 108),
			      block_row(ROW_FREE, ROW_PTA, 3, 5, 100) };
	const struct out_owner w = { .pid = 5, .type = ROW_PTA, .ptr = 100, .owner = found };
	struct out_opts opts = { .order = OUT_ORDER_BLOCK, .vendor = true, .newer = newer };
	char *d = tmp_dir(), *csv, *line, *end;
	struct out *o;

	opts.dir = d;
	rows[0].attrs |= owner ? ATTR_OWNER : 0;
	rows[0].owner = owner;
	rows[1].pool = ROW_PTA;
	rows[1].block_ptr = 100;
	rows[1].attrs |= ATTR_ACCESS;
	rows[1].shape = "torch.Size([2])";
	cr_assert(!out__open(&opts, &o));
	cr_assert(!out__row(o, &rows[0]) && !out__row(o, &rows[1]));
	if (found)
		cr_assert(!out__owner(o, &w));
	if (waste)
		out__waste(o, 5, ROW_PTA, 100, waste);
	out__waste(o, 6, ROW_PTA, 100, "of another process");
	cr_assert(!out__row(o, &rows[2]));
	cr_assert(!out__close(o));
	csv = read_found(d, "dump", newer ? "memscope_dump_" : "leaks_dump_", ".csv");
	rm_dir(d);
	line = strstr(csv, "\n1,MALLOC");
	cr_assert(line);
	end = strstr(line, "}\"");
	cr_assert(end);
	*end = '\0';
	line = strstr(line, ",owner:");
	return line ? line + 1 : strdup("");
}

Test(order, became)
{
	cr_expect_str_eq(became(false, "PTA", NULL, NULL), "owner:PTA@ops@aten");
	cr_expect_str_eq(became(true, "PTA", NULL, NULL), "owner:PTA@ops");
	cr_expect_str_eq(became(false, "PTA@mine", NULL, NULL), "owner:PTA@ops@aten@mine");
	cr_expect_str_eq(became(false, "PTA@mine", "PTA@model@weight", NULL), "owner:PTA@model@weight@mine");
	cr_expect_str_eq(became(true, "PTA", "PTA@weight", NULL), "owner:PTA@weight@ops");
	/* Without the analysis there is no owner but the program's. */
	cr_expect_str_eq(became(false, "@mine", NULL, NULL), "owner:@mine");
	cr_expect_str_eq(became(false, NULL, NULL, NULL), "");
	cr_expect_str_eq(became(false, "PTA", NULL, "early_allocation,late_deallocation"),
			 "owner:PTA@ops@aten,inefficient_type:early_allocation,late_deallocation");
}

Test(order, process_end)
{
	struct out_opts opts = { .order = OUT_ORDER_BLOCK };
	char *d = tmp_dir(), *ids;
	struct out *o;
	struct row a = block_row(ROW_MALLOC, ROW_PTA, 1, 5, 100);
	struct row b = block_row(ROW_MALLOC, ROW_PTA, 2, 6, 100);
	struct row c = plain_row(ROW_KERNEL, 3, 6);
	uint64_t rows, unwritten;

	opts.dir = d;
	cr_assert(!out__open(&opts, &o));
	out__row(o, &a);
	out__row(o, &b);
	out__counts(o, &rows, &unwritten, NULL);
	cr_expect_eq(rows, 0);
	cr_expect_eq(unwritten, 0);
	cr_assert(!out__process_end(o, 5));
	out__row(o, &c);
	out__counts(o, &rows, &unwritten, NULL);
	cr_expect_eq(rows, 2);
	cr_assert(!out__close(o));
	ids = ids_of(read_found(d, "dump", "leaks_dump_", ".csv"));
	cr_expect_str_eq(ids, "1 3 2 ");
	cr_expect_null(find_file(d, "dump", ".", ".journal"));
	rm_dir(d);
}

/* ---- random rows ---- */

static struct row random_row(uint64_t id)
{
	static const enum row_type pools[] = { ROW_HAL, ROW_PTA, ROW_ATB, ROW_HOST };
	uint32_t what = rnd(100), pid = 5 + rnd(3);
	struct row r;

	if (what < 80) {
		r = block_row(what < 45 ? ROW_MALLOC : ROW_FREE, pools[rnd(4)], id, pid,
			      1 + rnd(300));
		if (!rnd(10)) {
			r.attrs |= ATTR_OWNER | ATTR_PHYS | ATTR_NOTE;
			r.owner = "CANN@HCCL";
			r.note = "text";
			r.phys_device = 3;
		}
		return r;
	}
	if (what < 98)
		return plain_row(ROW_KERNEL, id, pid);
	return plain_row(rnd(2) ? ROW_START_TRACE : ROW_STOP_TRACE, id, pid);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lines sorted, joined. */
static char *sorted(char *csv)
{
	struct strbuf sb = { 0 };
	char **lines = NULL, *line, *save = NULL;
	size_t n = 0, i;

	for (line = strtok_r(csv, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		lines = realloc(lines, (n + 1) * sizeof(*lines));
		lines[n++] = line;
	}
	qsort(lines, n, sizeof(*lines), by_text);
	for (i = 0; i < n; i++)
		strbuf__printf(&sb, "%s\n", lines[i]);
	free(lines);
	return sb.data;
}

Test(order, same_rows_as_time_order)
{
	int round;

	for (round = 0; round < 20; round++) {
		size_t n = 2000, i;
		struct row *rows = calloc(n, sizeof(*rows));
		char *a, *b;

		for (i = 0; i < n; i++)
			rows[i] = random_row(i + 1);
		a = sorted(csv_of((struct out_opts){ .order = OUT_ORDER_TIME }, rows, n));
		b = sorted(csv_of((struct out_opts){ .order = OUT_ORDER_BLOCK }, rows, n));
		expect_text(b, a);
		free(a);
		free(b);
		free(rows);
	}
}

Test(order, codec)
{
	struct row in = block_row(ROW_MALLOC, ROW_PTA, UINT64_MAX, UINT32_MAX, UINT64_MAX), out;
	struct strbuf sb = { 0 };
	ssize_t n;
	size_t i;

	in.name = "na\0me";
	in.name_len = 5;
	in.device = DEV_CPU;
	in.size = INT64_MIN;
	in.attrs = UINT32_MAX;
	in.owner = "o";
	in.stream_id = -1;
	in.phys_device = INT32_MIN;
	in.lost_count = UINT64_MAX;
	in.lost_library = "/l";
	in.snapshot = (struct snapshot){ 1, -1, INT64_MAX, 4, 5, 6 };
	cr_assert(!row__encode(&sb, &in));
	n = row__decode((uint8_t *)sb.data, sb.len, &out);
	cr_assert_eq((size_t)n, sb.len);
	cr_expect_eq(out.id, in.id);
	cr_expect_eq(out.device, in.device);
	cr_expect_eq(out.size, in.size);
	cr_expect_eq(out.phys_device, in.phys_device);
	cr_expect_eq(out.name_len, 5);
	cr_expect(!memcmp(out.name, in.name, 5));
	cr_expect_str_eq(out.owner, "o");
	cr_expect_null(out.note);
	cr_expect(!memcmp(&out.snapshot, &in.snapshot, sizeof(in.snapshot)));
	cr_expect_eq(out.lost_count, UINT64_MAX);
	cr_expect_str_eq(out.lost_library, "/l");
	/* Cut anywhere or with any byte changed: an error or a row, no crash. */
	for (i = 0; i < sb.len; i++) {
		uint8_t *copy = malloc(sb.len);

		cr_expect_lt(row__decode((uint8_t *)sb.data, i, &out), 0);
		memcpy(copy, sb.data, sb.len);
		copy[i] = (uint8_t)rnd(256);
		n = row__decode(copy, sb.len, &out);
		cr_expect_leq(n, (ssize_t)sb.len);
		free(copy);
	}
}

/* ---- kill -9 ---- */

static void check_killed(struct out_opts opts, int ms)
{
	const char *ext = opts.format == OUT_DB ? ".db" : ".csv";
	char *d = tmp_dir(), *before, *after, *path;
	uint64_t flushed;

	opts.dir = d;
	flushed = killed_writer(opts, ms);
	cr_assert(!out__recover(d));
	path = find_file(d, "dump", "leaks_dump_", ext);
	cr_assert(path);
	check_trace_closed(d);
	cr_expect_null(find_file(d, "dump", ".leaks", ".journal"));
	if (opts.format == OUT_CSV) {
		check_csv(d, flushed, opts.vendor);
		before = read_all(path, NULL);
		cr_assert(!out__recover(d));
		after = read_all(path, NULL);
		cr_expect_str_eq(before, after);
	} else {
		sqlite3 *h;
		sqlite3_stmt *st;
		uint8_t *seen = calloc(200000, 1);
		bool twice = false;

		cr_expect_null(find_file(d, "dump", "leaks_dump_", "-wal"));
		cr_assert(!out__recover(d));
		cr_assert(!sqlite3_open(path, &h));
		cr_assert(!sqlite3_prepare_v2(h, "SELECT ID FROM leaks_dump WHERE ID > 0", -1, &st,
					      NULL));
		while (sqlite3_step(st) == SQLITE_ROW) {
			uint64_t id = (uint64_t)sqlite3_column_int64(st, 0);

			cr_assert_lt(id, 200000);
			twice |= seen[id];
			seen[id] = 1;
		}
		sqlite3_finalize(st);
		sqlite3_close(h);
		check_ids(&twice, seen, flushed);
		free(seen);
	}
	free(path);
	rm_dir(d);
}

Test(order, killed_csv)
{
	int i;

	for (i = 0; i < 15; i++)
		check_killed((struct out_opts){ .order = i % 4 ? OUT_ORDER_BLOCK : OUT_ORDER_TIME,
						.vendor = i % 3 == 2 },
			     3 + 7 * i);
}

Test(order, killed_db)
{
	int i;

	for (i = 0; i < 8; i++)
		check_killed((struct out_opts){ .format = OUT_DB,
						.order = i % 4 ? OUT_ORDER_BLOCK : OUT_ORDER_TIME },
			     20 + 11 * i);
}

/* A copy of a killed run's folder, recovered again after a recovery that was
 * itself cut short: the journal is back, some rows are there already. */
Test(order, recovery_is_repeatable)
{
	char *d = tmp_dir(), *journal, *data, *path, *before, *after;
	uint64_t flushed = killed_writer((struct out_opts){ .dir = d, .order = OUT_ORDER_BLOCK },
					 30);
	size_t n;
	int fd;

	journal = find_file(d, "dump", ".leaks_dump_", ".journal");
	cr_assert(journal);
	data = read_all(journal, &n);
	cr_assert(!out__recover(d));
	path = find_file(d, "dump", "leaks_dump_", ".csv");
	before = read_all(path, NULL);
	fd = open(journal, O_WRONLY | O_CREAT | O_EXCL, 0600);
	cr_assert(!fd__write_all(fd, data, n));
	close(fd);
	cr_assert(!out__recover(d));
	after = read_all(path, NULL);
	cr_expect_str_eq(before, after);
	check_csv(d, flushed, false);
	rm_dir(d);
}

/*
 * A full disk in block order: blocks that wait are in the journal, and recovery
 * writes them when there is room.
 */
Test(order, disk_full)
{
	struct out_opts opts = { .order = OUT_ORDER_BLOCK };
	uint64_t rows, unwritten, i;
	char *d = tmp_dir(), *s, *ballast;
	struct row r;
	struct out *o;

	if (mount("tmpfs", d, "tmpfs", 0, "size=1m")) {
		rmdir(d);
		cr_skip_test("cannot mount a tmpfs: %s", strerror(errno));
	}
	opts.dir = d;
	cr_assert(!out__open(&opts, &o));
	for (i = 1; i <= 300; i++) {
		r = block_row(ROW_MALLOC, ROW_HAL, i, 5, i);
		cr_assert(!out__row(o, &r));
	}
	cr_assert(!out__flush(o));
	cr_assert(asprintf(&ballast, "%s/ballast", d) > 0);
	s = calloc(1, 700000);
	put_file(d, "ballast", s, 700000);
	for (; !out__error(o) && i < 100000; i++) {
		r = plain_row(ROW_KERNEL, i, 5);
		r.device = DEV_NA; /* nothing for the trace */
		out__row(o, &r);
		if (i % 50 == 0)
			out__flush(o);
	}
	r = block_row(ROW_FREE, ROW_HAL, i, 5, 1);
	cr_expect_eq(out__row(o, &r), -ENOSPC);
	out__counts(o, &rows, &unwritten, NULL);
	cr_expect_eq(rows + unwritten, i);
	cr_expect_eq(out__close(o), -ENOSPC);
	s = find_file(d, "dump", ".leaks", ".journal");
	cr_assert(s);
	cr_assert(!unlink(ballast));
	cr_assert(!out__recover(d));
	s = read_found(d, "dump", "leaks_dump_", ".csv");
	for (i = 0; (s = strstr(s, ",MALLOC,HAL,")); s++)
		i++;
	cr_expect_eq(i, 300);
	umount2(d, MNT_DETACH);
	rm_dir(d);
}

/* A run that goes on is not touched. */
Test(order, living_writer)
{
	struct out_opts opts = { .order = OUT_ORDER_BLOCK };
	char *d = tmp_dir(), *csv, *json;
	struct row r = block_row(ROW_MALLOC, ROW_PTA, 1, 5, 1);
	struct out *o;
	pid_t pid;
	int status;

	opts.dir = d;
	cr_assert(!out__open(&opts, &o));
	out__row(o, &r);
	out__flush(o);
	pid = fork();
	if (!pid) {
		/* Another process, as recovery always is. */
		_exit(out__recover(d) ? 1 : 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	csv = read_found(d, "dump", "leaks_dump_", ".csv");
	cr_expect_str_eq(csv, CSV_HEADER);
	json = read_found(d, "trace", "npu0_trace_", ".json");
	cr_expect(!strstr(json, "\n]"));
	cr_assert(!out__close(o));
	rm_dir(d);
}

/* Time order, killed in the middle of a write: a torn row is cut off. */
Test(order, torn_files)
{
	static const char csv[] = CSV_HEADER
		"1,SYSTEM,START_TRACE,N/A,1700000000000001000,5,5,N/A,N/A,,,\n"
		"2,MSTX,Mark,\"two\nlines, \"\"q\"\"\",1700000000000002000,5,5,0,N/A,,,\n"
		"3,MALLOC,PTA,N/A,17000000000";
	static const char torn[] =
		"[\n{\n    \"ph\": \"C\",\n    \"name\": \"memory\",\n"
		"    \"pid\": 5,\n    \"tid\": 5,\n    \"ts\": 1,\n    \"args\": {\n"
		"        \"size\": 7\n    }\n},\n{\n    \"ph\": \"i\",\n    \"na";
	struct journal_head head = { .magic = JOURNAL_MAGIC, .version = JOURNAL_VERSION };
	char *d = tmp_dir(), *got;

	cr_assert(!chdir(d));
	cr_assert(!mkdir("dump", 0750) && !mkdir("trace", 0750));
	put_file("dump", "leaks_dump_20260101000000.csv", csv, sizeof(csv) - 1);
	put_file("dump", ".leaks_dump_20260101000000.journal", &head, sizeof(head));
	put_file("trace", "cpu_trace_20260101000000.json", torn, sizeof(torn) - 1);
	put_file("trace", "npu0_trace_20260101000000.json", "", 0);
	put_file("trace", "npu1_trace_20260101000000.json", "[\n", 2);
	put_file("trace", "other.json", "[\n", 2);
	cr_assert(!out__recover(d));
	got = read_all("dump/leaks_dump_20260101000000.csv", NULL);
	cr_expect(!strstr(got, "\n3,MALLOC"));
	cr_expect(strstr(got, "\"\"q\"\"\",1700000000000002000,5,5,0,N/A,,,\n"
			      "3,SYSTEM,STOP_TRACE,N/A,1700000000000002001,5,5,N/A,N/A,"
			      "\"{recovered:true}\",,\n"
			      "4,SYSTEM,LOST,N/A,1700000000000002001,5,5,N/A,N/A,"
			      "\"{reason:killed,probe:all,count:N/A,first:1700000000000002000,"
			      "last:N/A,recovered:true}\",,\n"),
		  "%s", got);
	got = read_all("trace/cpu_trace_20260101000000.json", NULL);
	cr_expect(strstr(got, "\"pid\": 5,\n    \"tid\": 0,\n    \"args\": {\n"
			      "        \"sort_index\": 0\n"));
	cr_expect(!strcmp(got + strlen(got) - 6, "{\n}\n]") || strstr(got, "{\n}\n]"));
	got = read_all("trace/npu0_trace_20260101000000.json", NULL);
	cr_expect(!strncmp(got, "[\n{\n", 4));
	got = read_all("trace/other.json", NULL);
	cr_expect_str_eq(got, "[\n");
	cr_assert(!chdir("/"));
	rm_dir(d);
}

/* Whatever the journal says: no crash, no file outside, bounded memory. */
Test(order, hostile_journal)
{
	struct journal_head head = { .magic = JOURNAL_MAGIC, .version = JOURNAL_VERSION };
	int round;

	for (round = 0; round < 300; round++) {
		char *d = tmp_dir(), *dump;
		struct strbuf sb = { 0 };
		uint32_t n = 1 + rnd(20), i, j;

		strbuf__add(&sb, &head, sizeof(head));
		for (i = 0; i < n; i++) {
			uint8_t payload[64];
			struct journal_rec rec = { .kind = (uint8_t)rnd(5), .len = 8 + rnd(56) };

			for (j = 0; j < sizeof(payload); j++)
				payload[j] = (uint8_t)rnd(j < 8 ? 2 : 256);
			rec.sum = journal__sum(payload, rec.len, rec.kind);
			if (!rnd(10))
				rec.len = rnd(UINT32_MAX);
			strbuf__add(&sb, &rec, sizeof(rec));
			strbuf__add(&sb, payload, MT_MIN(rec.len, (uint32_t)sizeof(payload)));
		}
		cr_assert(asprintf(&dump, "%s/dump", d) > 0);
		cr_assert(!mkdir(dump, 0750));
		put_file(dump, "leaks_dump_20260101000000.csv", CSV_HEADER, strlen(CSV_HEADER));
		put_file(dump, ".leaks_dump_20260101000000.journal", sb.data, sb.len);
		out__recover(d);
		free(dump);
		strbuf__free(&sb);
		rm_dir(d);
	}
}

Test(order, recovery_refuses_links)
{
	struct journal_head head = { .magic = JOURNAL_MAGIC, .version = JOURNAL_VERSION };
	char *d = tmp_dir(), *victim;

	cr_assert(!chdir(d));
	cr_assert(!mkdir("dump", 0750) && !mkdir("trace", 0750));
	put_file(".", "victim", "precious", 8);
	cr_assert(!symlink("../victim", "dump/leaks_dump_20260101000000.csv"));
	put_file("dump", ".leaks_dump_20260101000000.journal", &head, sizeof(head));
	cr_assert(!symlink("../victim", "trace/npu0_trace_20260101000000.json"));
	cr_assert(!link("victim", "trace/npu1_trace_20260101000000.json"));
	cr_expect_lt(out__recover(d), 0);
	victim = read_all("victim", NULL);
	cr_expect_str_eq(victim, "precious");
	cr_assert(!chdir("/"));
	rm_dir(d);
}

/* The journal stays small while blocks come and go. */
Test(order, journal_is_rewritten)
{
	struct out_opts opts = { .order = OUT_ORDER_BLOCK };
	char *d = tmp_dir(), *path;
	off_t max = 0;
	struct stat st;
	struct out *o;
	uint64_t i;

	opts.dir = d;
	cr_assert(!out__open(&opts, &o));
	for (i = 0; i < 400000; i++) {
		struct row r = block_row(i / 1000 % 2 ? ROW_FREE : ROW_MALLOC, ROW_HAL, i + 1, 5,
					 1 + i % 1000);

		out__row(o, &r);
		if (i % 1000 != 999)
			continue;
		cr_assert(!out__flush(o));
		path = find_file(d, "dump", ".leaks_dump_", ".journal");
		cr_assert(!stat(path, &st));
		max = MT_MAX(max, st.st_size);
		free(path);
	}
	cr_expect_lt(max, 6 << 20);
	cr_assert(!out__close(o));
	rm_dir(d);
}
