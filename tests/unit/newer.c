// SPDX-License-Identifier: Apache-2.0
/* Files of the vendor's newer tool: names, table, pointers, no trace; also after a kill. */
#include <criterion/criterion.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "out_test.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

static struct out_opts newer_opts(enum out_format format)
{
	return (struct out_opts){
		.vendor = true, .newer = true, .format = format, .order = OUT_ORDER_BLOCK
	};
}

static struct row block(enum row_event event, enum row_type type, uint64_t id, uint64_t ptr)
{
	return (struct row){ .event = event,
			     .type = type,
			     .id = id,
			     .attrs = ATTR_BLOCK | ATTR_POOL | ATTR_ACTIVE,
			     .time = 100 + id,
			     .pid = 5,
			     .tid = 6,
			     .device = 0,
			     .ptr = ptr,
			     .allocation_id = 1,
			     .size = 512,
			     .total = 2048,
			     .used = 512 };
}

static struct out *write_some(struct out_opts o, char *dir)
{
	struct row r[] = { block(ROW_MALLOC, ROW_PTA, 0, 0x12c041200000),
			   block(ROW_FREE, ROW_PTA, 1, 0x12c041200000),
			   block(ROW_MALLOC, ROW_PTA_WORKSPACE, 2, 0xabcdef),
			   block(ROW_MALLOC, ROW_PTA, 3, UINT64_MAX) };
	struct out *out;
	size_t i;

	o.dir = dir;
	cr_assert_eq(out__open(&o, &out), 0);
	for (i = 0; i < MT_ARRAY_SIZE(r); i++)
		cr_assert_eq(out__row(out, &r[i]), 0);
	cr_assert_eq(out__flush(out), 0);
	return out;
}

#define HEX(p) p ",\"{allocation_id:1,addr:" p ",size:512,total:2048,used:512}\",,\n"
#define ROWS                                                                                     \
	"0,MALLOC,PTA,N/A,100,5,6,0," HEX("0x000012c041200000") "1,FREE,PTA,N/A,101,5,6,0," HEX( \
		"0x000012c041200000")
#define OPEN_ROWS                                                                                  \
	"2,MALLOC,PTA,N/A,102,5,6,0," HEX("0x0000000000abcdef") "3,MALLOC,PTA,N/A,103,5,6,0," HEX( \
		"0xffffffffffffffff")

static bool has(const char *text, const char *part)
{
	return strstr(text, part);
}

static void check_csv(const char *d)
{
	char *s = read_found(d, "dump", "memscope_dump_", ".csv");

	cr_assert(s);
	cr_expect(has(s, ROWS), "%s", s);
	cr_expect(has(s, "2,MALLOC,PTA,N/A,102,5,6,0," HEX("0x0000000000abcdef")), "%s", s);
	cr_expect(has(s, "3,MALLOC,PTA,N/A,103,5,6,0," HEX("0xffffffffffffffff")), "%s", s);
	free(s);
	cr_expect_null(find_file(d, "dump", ".memscope", ".journal"));
	cr_expect_null(find_file(d, "trace", "npu", ".json"));
}

Test(newer, csv)
{
	char *d = tmp_dir();
	struct out *o = write_some(newer_opts(OUT_CSV), d);

	cr_expect(strstr(out__path(o, 0), "/dump/memscope_dump_"));
	cr_expect_null(out__path(o, 1));
	cr_expect_eq(out__close(o), 0);
	check_csv(d);
	rm_dir(d);
}

/* Both names in one folder, each with what is its own. */
Test(newer, beside_the_older)
{
	struct row r = block(ROW_MALLOC, ROW_PTA_WORKSPACE, 1, 255);
	struct out_opts opts = { .vendor = true };
	char *d = tmp_dir(), *s;
	struct out *o = write_some(newer_opts(OUT_CSV), d), *old;

	opts.dir = d;
	cr_assert_eq(out__open(&opts, &old), 0);
	cr_assert_eq(out__row(old, &r), 0);
	cr_expect_eq(out__close(old), 0);
	cr_expect_eq(out__close(o), 0);
	check_csv(d);
	s = read_found(d, "dump", "leaks_dump_", ".csv");
	cr_expect(s && has(s, "1,MALLOC,PTA_WORKSPACE,N/A,101,5,6,0,255,"), "%s", s);
	free(s);
	rm_dir(d);
}

static void kill_a_run(enum out_format format, char *d)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		write_some(newer_opts(format), d);
		_exit(0); /* nothing is closed */
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert(find_file(d, "dump", ".memscope_dump_", ".journal"));
}

static int on_value(void *ctx, int n, char **v, char **names)
{
	strcat(ctx, v[0] ? v[0] : "");
	strcat(ctx, "\n");
	return 0;
}

static void query(const char *path, const char *sql, char *to)
{
	sqlite3 *h;

	*to = '\0';
	cr_assert_eq(sqlite3_open(path, &h), SQLITE_OK);
	cr_assert_eq(sqlite3_exec(h, sql, on_value, to, NULL), SQLITE_OK, "%s", sqlite3_errmsg(h));
	sqlite3_close(h);
}

Test(newer, recovery_of_a_csv)
{
	char *d = tmp_dir(), *s;

	kill_a_run(OUT_CSV, d);
	s = read_found(d, "dump", "memscope_dump_", ".csv");
	cr_expect(has(s, ROWS) && !has(s, OPEN_ROWS));
	free(s);
	cr_expect_eq(out__recover(d), 0);
	check_csv(d);
	rm_dir(d);
}

Test(newer, recovery_of_a_db)
{
	char *d = tmp_dir(), *path, text[1024];

	kill_a_run(OUT_DB, d);
	cr_expect_eq(out__recover(d), 0);
	path = find_file(d, "dump", "memscope_dump_", ".db");
	cr_assert(path);
	query(path, "SELECT name FROM sqlite_master WHERE type='table'", text);
	cr_expect_str_eq(text, "memscope_dump\n");
	query(path, "SELECT ID || Event || \"Event Type\" || Ptr FROM memscope_dump ORDER BY ID",
	      text);
	cr_expect_str_eq(text, "0MALLOCPTA0x000012c041200000\n1FREEPTA0x000012c041200000\n"
			       "2MALLOCPTA0x0000000000abcdef\n3MALLOCPTA0xffffffffffffffff\n");
	query(path, "SELECT Attr FROM memscope_dump WHERE ID=2", text);
	cr_expect_str_eq(
		text, "{\"allocation_id\":\"1\",\"addr\":\"0x0000000000abcdef\",\"size\":\"512\","
		      "\"total\":\"2048\",\"used\":\"512\"}\n");
	cr_expect_null(find_file(d, "dump", ".memscope", ".journal"));
	rm_dir(d);
}
