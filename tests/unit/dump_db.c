// SPDX-License-Identifier: Apache-2.0
/* leaks_dump_*.db: the vendor's table, MindStudio Insight's rules. */
#include "out_test.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>

static const struct out_opts db_opts = { .format = OUT_DB, .start_real = 1 };

static struct row block(enum row_event e, uint64_t id, uint32_t pid, uint64_t time, uint64_t alloc)
{
	return (struct row){ .id = id,
			     .event = e,
			     .type = ROW_HAL,
			     .time = time,
			     .pid = pid,
			     .tid = pid,
			     .ptr = 4096,
			     .allocation_id = alloc,
			     .size = 512,
			     .owner = "CANN@APP",
			     .attrs = ATTR_BLOCK | (e == ROW_MALLOC ? ATTR_OWNER : 0) };
}

/* All rows of a query as "a|b|c\n". */
static char *query(const char *path, const char *sql)
{
	struct strbuf sb = { 0 };
	sqlite3_stmt *st;
	sqlite3 *h;
	int i;

	cr_assert(!sqlite3_open_v2(path, &h, SQLITE_OPEN_READONLY, NULL));
	cr_assert(!sqlite3_prepare_v2(h, sql, -1, &st, NULL), "%s", sqlite3_errmsg(h));
	strbuf__puts(&sb, "");
	while (sqlite3_step(st) == SQLITE_ROW) {
		for (i = 0; i < sqlite3_column_count(st); i++) {
			const char *s = (const char *)sqlite3_column_text(st, i);

			strbuf__printf(&sb, "%s%s", i ? "|" : "", s ? s : "NULL");
		}
		strbuf__puts(&sb, "\n");
	}
	sqlite3_finalize(st);
	sqlite3_close(h);
	return sb.data;
}

/* Run a query on the db of these rows. */
static char *query_rows(struct out_opts opts, const struct row *rows, size_t n, const char *sql)
{
	char *d = tmp_dir(), *path, *got;

	opts.dir = d;
	cr_assert(!write_rows(opts, rows, n));
	path = find_file(d, "dump", "leaks_dump_", ".db");
	cr_assert(path);
	got = query(path, sql);
	free(path);
	rm_dir(d);
	return got;
}

/* The independent checker of the live tests; skips without Python. */
static void expect_insight(const char *path, bool good)
{
	const char *src = getenv("SRCDIR");
	char *cmd;
	int rc;

	cr_assert(asprintf(&cmd, "python3 '%s/tests/live/readers/insight.py' '%s'", src ? src : ".",
			   path) > 0);
	rc = system(cmd);
	cr_expect((rc == 0) == good, "%s: %d", cmd, rc);
	free(cmd);
}

Test(dump_db, table_and_rows)
{
	struct row rows[] = {
		{ .id = 1,
		  .event = ROW_SYSTEM,
		  .type = ROW_ACL_INIT,
		  .time = 10,
		  .pid = 7,
		  .tid = 8,
		  .device = DEV_NA },
		{ .id = 2,
		  .event = ROW_MSTX,
		  .type = ROW_MARK,
		  .time = 11,
		  .pid = 7,
		  .tid = 8,
		  .name = "a,b \"q\"\n\0x",
		  .name_len = 10 },
		{ .id = 3,
		  .event = ROW_KERNEL_LAUNCH,
		  .type = ROW_KERNEL,
		  .time = 12,
		  .pid = 7,
		  .tid = 8,
		  .name = "=k",
		  .name_len = 2,
		  .attrs = ATTR_KERNEL,
		  .stream_id = 3 },
		{ .id = 4,
		  .event = ROW_MALLOC,
		  .type = ROW_PTA,
		  .time = 13,
		  .pid = 7,
		  .tid = 8,
		  .ptr = 20616935636992,
		  .allocation_id = 5,
		  .size = 1024,
		  .total = 3,
		  .used = 2,
		  .owner = "PTA\"\\",
		  .attrs = ATTR_BLOCK | ATTR_POOL | ATTR_OWNER },
		{ .id = 5,
		  .event = ROW_MALLOC,
		  .type = ROW_HOST_PINNED,
		  .time = 14,
		  .pid = 7,
		  .tid = 8,
		  .device = DEV_CPU,
		  .ptr = 1,
		  .allocation_id = 6,
		  .size = 9,
		  .attrs = ATTR_BLOCK },
		{ .id = 6,
		  .event = ROW_SYSTEM,
		  .type = ROW_LOST,
		  .time = 15,
		  .pid = 7,
		  .tid = 8,
		  .device = 2,
		  .attrs = ATTR_LOST,
		  .lost_reason = "ring",
		  .lost_library = "/a\"{}/lib.so" },
		{ .id = 7,
		  .event = ROW_FREE,
		  .type = ROW_HAL,
		  .time = 16,
		  .pid = 7,
		  .tid = 8,
		  .ptr = 77,
		  .size = -1,
		  .attrs = ATTR_BLOCK | ATTR_PREATTACH },
	};
	static const char want[] =
		"1|SYSTEM|ACL_INIT|N/A|10|7|8|N/A|N/A|{}||\n"
		"2|MSTX|Mark|\"a,b \"q\"\n\xef\xbf\xbdx\"|11|7|8|0|N/A|{}||\n"
		"3|KERNEL_LAUNCH|KERNEL_LAUNCH|=k|12|7|8|0|N/A|"
		"{\"streamId\":\"3\",\"taskId\":\"N/A\"}||\n"
		"4|MALLOC|PTA|N/A|13|7|8|0|20616935636992|{\"allocation_id\":\"5\","
		"\"addr\":\"20616935636992\",\"size\":\"1024\",\"total\":\"3\",\"used\":\"2\","
		"\"owner\":\"PTA\\\"\\\\\"}||\n"
		"5|MALLOC|HOST_PINNED|N/A|14|7|8|cpu|1|"
		"{\"allocation_id\":\"6\",\"addr\":\"1\",\"size\":\"9\"}||\n"
		"6|SYSTEM|LOST|N/A|15|7|8|2|N/A|{\"reason\":\"ring\",\"probe\":\"N/A\","
		"\"count\":\"0\",\"first\":\"0\",\"last\":\"0\","
		"\"library\":\"/a\\\"{}/lib.so\"}||\n";
	size_t n = MT_ARRAY_SIZE(rows);
	char *got;

	expect_text(query_rows(db_opts, rows, n, "SELECT * FROM leaks_dump"), want);
	got = query_rows(db_opts, rows, n, "SELECT ID, Ptr, Attr FROM preattach_free");
	expect_text(got, "7|77|{\"allocation_id\":\"0\",\"addr\":\"77\",\"size\":\"N/A\","
			 "\"preattach\":\"true\"}\n");
	got = query_rows(db_opts, rows, n, "SELECT sql FROM sqlite_master WHERE name='leaks_dump'");
	expect_text(got, "CREATE TABLE leaks_dump (\"ID\" INTEGER, \"Event\" TEXT, "
			 "\"Event Type\" TEXT, \"Name\" TEXT, \"Timestamp(ns)\" INTEGER, "
			 "\"Process Id\" INTEGER, \"Thread Id\" INTEGER, \"Device Id\" TEXT, "
			 "\"Ptr\" TEXT, \"Attr\" TEXT, \"Call Stack(Python)\" TEXT, "
			 "\"Call Stack(C)\" TEXT)\n");
	expect_text(query_rows(db_opts, rows, n, "PRAGMA journal_mode"), "delete\n");
	expect_text(query_rows(db_opts, rows, n, "PRAGMA user_version"), "0\n");
}

#define TIMES "SELECT ID, Event, \"Timestamp(ns)\" FROM leaks_dump"

Test(dump_db, equal_times_rise)
{
	struct row rows[] = {
		block(ROW_MALLOC, 1, 5, 100, 1),
		block(ROW_FREE, 2, 5, 100, 1),
		block(ROW_MALLOC, 3, 5, 100, 2),
		block(ROW_FREE, 4, 5, 200, 2),
	};

	expect_text(query_rows(db_opts, rows, 4, TIMES),
		    "1|MALLOC|100\n2|FREE|101\n3|MALLOC|102\n4|FREE|200\n");
}

Test(dump_db, missed_free)
{
	struct row rows[] = {
		block(ROW_MALLOC, 1, 5, 100, 1),
		block(ROW_MALLOC, 2, 5, 300, 2),
		block(ROW_FREE, 3, 5, 400, 2),
	};
	struct out_opts vendor = db_opts;

	expect_text(query_rows(db_opts, rows, 3, TIMES),
		    "1|MALLOC|100\n0|FREE|299\n2|MALLOC|300\n3|FREE|400\n");
	expect_text(query_rows(db_opts, rows, 3, "SELECT Attr FROM leaks_dump WHERE ID=0"),
		    "{\"allocation_id\":\"1\",\"addr\":\"4096\",\"size\":\"512\",\"shadow\":"
		    "\"true\"}\n");
	vendor.vendor = true;
	expect_text(query_rows(vendor, rows, 3, TIMES), "1|MALLOC|100\n2|MALLOC|300\n3|FREE|400\n");
}

Test(dump_db, late_free_replaces_its_shadow)
{
	struct row rows[] = {
		block(ROW_MALLOC, 1, 5, 1000000, 1),
		block(ROW_MALLOC, 2, 5, 3000000, 2),
		block(ROW_FREE, 3, 5, 2000000, 1),
		block(ROW_FREE, 4, 5, 4000000, 2),
	};

	expect_text(query_rows(db_opts, rows, 4, TIMES " ORDER BY 3"),
		    "1|MALLOC|1000000\n3|FREE|2000000\n2|MALLOC|3000000\n4|FREE|4000000\n");
}

/* Rows of two processes with one key are not changed, only told. */
Test(dump_db, colliding_processes)
{
	struct row rows[] = {
		block(ROW_MALLOC, 1, 5, 100000, 1),
		block(ROW_MALLOC, 1, 6, 200000, 2),
		block(ROW_FREE, 2, 5, 300000, 1),
		block(ROW_FREE, 2, 6, 400000, 2),
	};

	expect_text(query_rows(db_opts, rows, 4, TIMES),
		    "1|MALLOC|100000\n1|MALLOC|200000\n2|FREE|300000\n2|FREE|400000\n");
}

static uint64_t seed = 0x2545f4914f6cdd1dULL;

static uint32_t rnd(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % n;
}

/* A lossy stream of a process, in both orders, opens in Insight. */
Test(dump_db, insight)
{
	int order;

	for (order = 0; order < 2; order++) {
		struct out_opts opts = { .format = OUT_DB,
					 .order = order ? OUT_ORDER_BLOCK : OUT_ORDER_TIME };
		uint64_t live[300] = { 0 }, id = 1, alloc = 1, time = 1700000000000000000ULL;
		char *d = tmp_dir(), *path;
		struct row r;
		struct out *o;
		int i;

		opts.dir = d;
		opts.start_real = time;
		cr_assert(!out__open(&opts, &o));
		r = block(ROW_MALLOC, id++, 5, time, alloc++);
		r.ptr = 1;
		out__row(o, &r);
		for (i = 0; i < 20000; i++) {
			uint32_t a = rnd(300);

			time += rnd(3); /* ties are common */
			r = block(live[a] ? ROW_FREE : ROW_MALLOC, id++, 5, time,
				  live[a] ? live[a] : alloc++);
			r.type = ROW_PTA;
			r.attrs |= ATTR_POOL;
			r.ptr = 1000 + a;
			r.size = 512 + a;
			live[a] = r.event == ROW_MALLOC ? r.allocation_id : 0;
			/* One FREE in fifty is lost. */
			if (r.event == ROW_MALLOC || rnd(50))
				cr_assert(!out__row(o, &r));
			if (i % 1000 == 0)
				out__flush(o);
		}
		path = strdup(out__path(o, 0));
		cr_assert(!out__close(o));
		expect_insight(path, true);
		rm_dir(d);
	}
}

/* The checker is not one that says yes to all. */
Test(dump_db, insight_refuses)
{
	struct row rows[] = { block(ROW_MALLOC, 1, 5, 100, 1), block(ROW_FREE, 2, 5, 200, 1),
			      block(ROW_FREE, 3, 5, 300, 1) };
	struct out_opts opts = db_opts;
	char *d = tmp_dir(), *path;

	opts.dir = d;
	cr_assert(!write_rows(opts, rows, 3));
	path = find_file(d, "dump", "leaks_dump_", ".db");
	expect_insight(path, false);
	rm_dir(d);
}

/* A reader at the end of a run: no failure, and recovery merges later. */
Test(dump_db, reader_at_close)
{
	struct row rows[] = { block(ROW_MALLOC, 1, 5, 100, 1), block(ROW_FREE, 2, 5, 200, 1) };
	struct out_opts opts = db_opts;
	char *d = tmp_dir(), *path;
	struct out *o;
	sqlite3 *h;

	opts.dir = d;
	cr_assert(!out__open(&opts, &o));
	out__row(o, &rows[0]);
	cr_assert(!out__flush(o));
	path = strdup(out__path(o, 0));
	cr_assert(!sqlite3_open(path, &h));
	cr_assert(!sqlite3_exec(h, "BEGIN; SELECT count(*) FROM leaks_dump", NULL, NULL, NULL));
	out__row(o, &rows[1]);
	cr_expect_eq(out__close(o), 0);
	cr_expect(find_file(d, "dump", "leaks_dump_", "-wal"));
	cr_expect_lt(out__recover(d), 0); /* not yet */
	sqlite3_close(h);
	cr_assert(!out__recover(d));
	cr_expect_null(find_file(d, "dump", "leaks_dump_", "-wal"));
	expect_text(query(path, TIMES), "1|MALLOC|100\n2|FREE|200\n");
	expect_insight(path, true);
	rm_dir(d);
}

Test(dump_db, disk_full)
{
	struct out_opts opts = db_opts;
	uint64_t rows, unwritten;
	char *d = tmp_dir(), *count, *path;
	struct row r;
	struct out *o;
	int i, err = 0;

	if (mount("tmpfs", d, "tmpfs", 0, "size=2m")) {
		rmdir(d);
		cr_skip_test("cannot mount a tmpfs: %s", strerror(errno));
	}
	opts.dir = d;
	cr_assert(!out__open(&opts, &o));
	for (i = 0; i < 30000; i++) {
		r = block(i % 2 ? ROW_FREE : ROW_MALLOC, (uint64_t)i + 1, 5, 1000 + (uint64_t)i,
			  (uint64_t)i / 2 + 1);
		r.type = ROW_PTA_WORKSPACE; /* no trace: the db alone fills the disk */
		err = out__row(o, &r);
		if (i % 500 == 499)
			out__flush(o);
	}
	cr_expect_eq(err, -ENOSPC);
	out__counts(o, &rows, &unwritten, NULL);
	cr_expect_eq(rows + unwritten, 30000);
	cr_expect_gt(rows, 0);
	path = strdup(out__path(o, 0));
	cr_expect_eq(out__close(o), -ENOSPC);
	count = query(path, "SELECT count(*) FROM leaks_dump");
	cr_expect_eq(strtoull(count, NULL, 10), rows, "%s, not %lu", count, rows);
	umount2(d, MNT_DETACH);
	rm_dir(d);
}
