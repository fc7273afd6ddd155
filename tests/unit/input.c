// SPDX-License-Identifier: Apache-2.0
/* The files of a capture, csv and db, and their events in the order of time. */
#include "input_test.h"

#include <errno.h>
#include <sqlite3.h>

TestSuite(files, .init = in_setup, .fini = in_teardown);
TestSuite(db, .init = in_setup, .fini = in_teardown);
TestSuite(stream, .init = in_setup, .fini = in_teardown);

static size_t found(const char *path, int want)
{
	struct in_set set;
	size_t n;

	cr_expect_eq(in_set__find(path, &set), want, "%s", path);
	n = set.n;
	in_set__free(&set);
	return n;
}

Test(files, of_each_layout)
{
	char path[128];

	put_text("seed/dump/leaks_dump_20260101000000.csv", HEAD);
	put_text("seed/trace/npu0_trace_20260101000000.json", "[");
	put_text("seed/dump/python_trace_1_20260101000000.csv", "");
	put_text("now/msmemscope_1_2_ascend/device_0/dump/memscope_dump_20260101000000.csv", HEAD);
	put_text("now/msmemscope_1_2_ascend/device_1/dump/memscope_dump_20260101000000.db", "");
	put_text("now/msmemscope_2_2_ascend/device_cpu/dump/memscope_dump_20260101000001.csv",
		 HEAD);
	put_text("two/leaks_dump_1.csv", HEAD);
	put_text("two/leaks_dump_2.csv", HEAD);
	put_text("none/leaks_dump_x.csv", HEAD);
	put_text("none/leaks_dump_.csv", HEAD);
	put_text("none/leaks_dump_1.csv.gz", HEAD);
	snprintf(path, sizeof(path), "%s/seed", dir);
	cr_expect_eq(found(path, 0), 1);
	snprintf(path, sizeof(path), "%s/seed/dump/leaks_dump_20260101000000.csv", dir);
	cr_expect_eq(found(path, 0), 1);
	snprintf(path, sizeof(path), "%s/now/", dir);
	cr_expect_eq(found(path, 0), 3);
	snprintf(path, sizeof(path), "%s/two", dir);
	cr_expect_eq(found(path, -EEXIST), 0);
	snprintf(path, sizeof(path), "%s/none", dir);
	cr_expect_eq(found(path, -ENOENT), 0);
	cr_expect_eq(found("/nowhere/at/all", -ENOENT), 0);
}

static void exec_sql(const char *path, const char *sql)
{
	sqlite3 *h;
	char *msg = NULL;

	cr_assert_eq(sqlite3_open(path, &h), SQLITE_OK);
	sqlite3_exec(h, sql, NULL, NULL, &msg);
	cr_assert_null(msg, "%s", msg);
	sqlite3_close(h);
}

#define TABLE(name)                                                                             \
	"CREATE TABLE " name "(\"ID\" INTEGER, \"Event\" TEXT, \"Event Type\" TEXT, \"Name\" "  \
	"TEXT, \"Timestamp(ns)\" INTEGER, \"Process Id\" INTEGER, \"Thread Id\" INTEGER, "      \
	"\"Device Id\" TEXT, \"Ptr\" TEXT, \"Attr\" TEXT, \"Call Stack(Python)\" TEXT, \"Call " \
	"Stack(C)\" TEXT);"

static const char *db_path(const char *sql)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/leaks_dump_1.db", dir);
	unlink(path);
	exec_sql(path, sql);
	return path;
}

Test(db, that_insight_has_changed)
{
	const char *path = db_path(TABLE("leaks_dump") TABLE(
		"preattach_free") "ALTER TABLE leaks_dump ADD COLUMN Depth INTEGER;"
				  "CREATE TABLE memory_block(x); CREATE TABLE status_info(y); "
				  "PRAGMA user_version=3;"
				  "INSERT INTO leaks_dump VALUES(1,'MSTX','Mark','\"say "
				  "\"hi\"\"',100,5,6,'0','N/A','{}','','',3);"
				  "INSERT INTO leaks_dump "
				  "VALUES(2,'MALLOC','PTA','N/A',101,5,6,'0','512',"
				  "'{\"allocation_id\":\"7\",\"addr\":\"512\", \"size\" : 1024 "
				  ",\"used\":\"1024\",\"owner\":\"PTA@a\\\"b\\u00e9\"}','py','c',3)"
				  ";"
				  "INSERT INTO preattach_free "
				  "VALUES(3,'FREE','PTA','N/A',102,5,6,'0','0x400','',NULL,NULL);");
	struct in_counts c;
	struct in_file *f;
	struct in_row r;
	int64_t v;

	cr_assert_eq(in_file__open(path, &f), 0);
	cr_assert_eq(in_file__next(f, &r), 1);
	EXPECT_SLICE(r.name, "say \"hi\"");
	cr_assert_eq(in_file__next(f, &r), 1);
	cr_expect(in_row__num(&r, KEY_ALLOCATION_ID, &v) && v == 7);
	cr_expect(in_row__num(&r, KEY_SIZE, &v) && v == 1024);
	EXPECT_SLICE(r.attr[KEY_OWNER], "PTA@a\"b\xc3\xa9");
	EXPECT_SLICE(r.cell[COL_C], "c");
	cr_assert_eq(in_file__next(f, &r), 1);
	cr_expect_eq(r.ptr, 1024);
	cr_expect(r.hex);
	cr_expect_eq(in_file__next(f, &r), 0);
	in_file__counts(f, &c);
	cr_expect_eq(c.rows, 3);
	cr_expect_eq(c.bad + c.bad_attrs, 0);
	in_file__close(f);
}

Test(db, that_is_none)
{
	struct in_file *f;

	cr_expect_eq(in_file__open(db_path("CREATE TABLE other(x)"), &f), -EBADMSG);
	cr_expect_eq(in_file__open(db_path("CREATE TABLE leaks_dump(\"ID\", \"Event\")"), &f),
		     -EBADMSG);
	cr_expect_eq(
		in_file__open(
			db_path("CREATE TABLE o(x); CREATE VIEW leaks_dump AS SELECT * FROM o"),
			&f),
		-EBADMSG);
	cr_expect_eq(in_file__open(put_text("leaks_dump_3.db", "SQLite format 3"), &f), -EBADMSG);
}

static struct texts *texts;

static struct in_stream *open_stream(const char *path, size_t memory)
{
	struct in_want w = { .events = ~0u, .stacks = true, .memory = memory };
	struct in_stream *s;
	struct in_set set;

	texts = texts__new(1 << 20);
	cr_assert_eq(in_set__find(path, &set), 0);
	cr_assert_eq(in_stream__open(&set, &w, texts, &s), 0);
	in_set__free(&set);
	return s;
}

/* In memory, and in more runs than fit there; equal times stay in the file's order. */
static void sorted(size_t memory)
{
	struct strbuf sb = { 0 };
	struct in_stream *s;
	struct item it, last = { 0 };
	unsigned int i, n = 20000, seen = 0;
	int err;

	strbuf__puts(&sb, HEAD);
	srand(4);
	for (i = 0; i < n; i++)
		strbuf__printf(&sb, "%u,MSTX,Mark,\"m%u\",%u,5,7,0,N/A,,,\n", i + 1, i % 10,
			       (unsigned int)rand() % 5000 + 1000000);
	s = open_stream(put_file("leaks_dump_1.csv", sb.data, sb.len), memory);
	for (; (err = in_stream__next(s, &it)) > 0; last = it, seen++) {
		cr_assert(it.time > last.time || (it.time == last.time && it.seq > last.seq) ||
			  !seen);
		cr_assert_eq(texts__get(texts, it.name, NULL)[1], (char)('0' + (it.id - 1) % 10));
	}
	cr_expect_eq(err, 0);
	cr_expect_eq(seen, n);
	in_stream__close(s);
	texts__free(texts);
	strbuf__free(&sb);
}

Test(stream, is_in_order)
{
	sorted(0);
	sorted(1);
	sorted(200000);
}

Test(stream, that_finds_no_room)
{
	struct in_want w = { .events = ~0u, .memory = 1 };
	struct strbuf sb = { 0 };
	struct in_stream *s;
	struct in_set set;
	unsigned int i;

	strbuf__puts(&sb, HEAD);
	for (i = 0; i < 1000; i++)
		strbuf__printf(&sb, "%u,SYSTEM,ACL_INIT,N/A,%u,5,7,N/A,N/A,,,\n", i, i + 1);
	cr_assert_eq(in_set__find(put_file("leaks_dump_1.csv", sb.data, sb.len), &set), 0);
	texts = texts__new(1 << 20);
	setenv("TMPDIR", "/nowhere", 1);
	cr_expect_eq(in_stream__open(&set, &w, texts, &s), -ENOENT);
	in_set__free(&set);
	texts__free(texts);
	strbuf__free(&sb);
}

Test(stream, has_rows_of_two_files_once)
{
	struct in_counts c;
	struct in_stream *s;
	struct item it;
	unsigned int n = 0;

	put_text("p/device_0/dump/memscope_dump_1.csv", HEAD
		 "1,MALLOC,PTA,N/"
		 "A,100,5,7,0,0x200,\"{allocation_id:1,addr:0x200,size:512,total:4,used:512}\",,\n"
		 "0,SYSTEM,ACL_INIT,N/A,99,5,7,N/A,N/A,,,\n");
	put_text("p/device_1/dump/memscope_dump_1.csv",
		 HEAD "2,FREE,PTA,N/"
		      "A,101,5,7,1,0x200,\"{allocation_id:2,addr:0x200,size:512,shadow:true}\",,\n"
		      "0,SYSTEM,ACL_INIT,N/A,99,5,7,N/A,N/A,,,\n");
	s = open_stream(dir, 0);
	for (; in_stream__next(s, &it) > 0; n++) {
		cr_expect_eq(it.time, 99 + n);
		cr_expect_eq(it.id, n);
		if (n == 1) {
			cr_expect_eq(it.used, 512);
			cr_expect_eq(it.alloc, 1);
			cr_expect_eq(it.flags, ITEM_HEX | ITEM_USED | ITEM_SIZE);
		}
		if (n == 2)
			cr_expect_eq(it.flags, ITEM_HEX | ITEM_SHADOW | ITEM_SIZE);
	}
	cr_expect_eq(n, 3);
	in_stream__counts(s, &c);
	cr_expect_eq(c.doubled, 1);
	cr_expect_eq(c.rows, 4);
	in_stream__close(s);
	texts__free(texts);
}

Test(stream, texts_have_a_limit)
{
	struct texts *t = texts__new(100);
	uint32_t a, b;
	int err = 0;

	a = texts__put(t, "abc", 3, &err);
	b = texts__put(t, "abd", 3, &err);
	cr_expect_eq(texts__put(t, "abc", 3, &err), a);
	cr_expect_neq(a, b);
	cr_expect_eq(err, 0);
	cr_expect_str_eq(texts__get(t, b, NULL), "abd");
	cr_expect_str_eq(texts__get(t, 77, NULL), "");
	cr_expect_eq(
		texts__put(t, "a text that is too long for what is left of the room here .........",
			   66, &err),
		0);
	cr_expect_eq(err, -E2BIG);
	texts__free(t);
}
