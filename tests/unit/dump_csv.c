// SPDX-License-Identifier: Apache-2.0
/* leaks_dump_*.csv: bytes of each kind of row, hostile names, full disks. */
#include "out_test.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define VENDOR ((struct out_opts){ .vendor = true, .timeline = OUT_TIMELINE_KERNEL })
#define RECORD ((struct out_opts){ .start_real = 1000 })

/* Rows of spec/msleaks.md 3.7; the task id cannot be known from outside. */
static const char golden[] = CSV_HEADER
	"1,SYSTEM,ACL_INIT,N/A,1795977008516726324,25559,25559,N/A,N/A,,,\n"
	"2,SYSTEM,START_TRACE,N/A,1795977008516791237,25559,25559,N/A,N/A,,,\n"
	"3,MALLOC,HAL,N/A,1795977008516828127,25559,25559,0,20616935636992,"
	"\"{allocation_id:1,addr:20616935636992,size:2097152}\",,\n"
	"6,MSTX,Mark,\"test\",1795977008518473371,25559,25559,0,N/A,,,\n"
	"8,MSTX,Range_start,\"step start\",1795977008518501764,25559,25559,0,N/A,,,\n"
	"9,MALLOC,PTA,N/A,1795977008518506934,25559,25559,0,20616937738240,"
	"\"{allocation_id:5,addr:20616937738240,size:1024,total:20971520,used:1536}\",,\n"
	"10,KERNEL_LAUNCH,KERNEL_LAUNCH,AddKernel,1795977008518715079,25559,25559,0,N/A,"
	"\"{streamId:3,taskId:N/A}\",,\n"
	"12,FREE,PTA,N/A,1795977008518757779,25559,25559,0,20616937738240,"
	"\"{allocation_id:5,addr:20616937738240,size:1024,total:20971520,used:512}\",,\n"
	"13,MSTX,Range_end,\"Range end from id 1\",1795977008518762909,25559,25559,0,N/A,,,\n"
	"24,MALLOC,PTA_WORKSPACE,N/A,1795977008518832841,25559,25559,0,20616946122752,"
	"\"{allocation_id:9,addr:20616946122752,size:4096,total:20971520,used:4096}\",,\n"
	"58,FREE,HAL,N/A,1795977008519611555,25559,25559,0,20616935636992,"
	"\"{allocation_id:1,addr:20616935636992,size:2097152}\",,\n"
	"59,SYSTEM,ACL_FINI,N/A,1795977008519618458,25559,25559,N/A,N/A,,,\n"
	"60,MALLOC,HAL,N/A,1795977010418527501,25631,25631,0,20616956608512,"
	"\"{allocation_id:2,addr:20616956608512,size:4096,owner:CANN@HCCL}\",,\n"
	"61,MALLOC,HOST,N/A,1795977010418527502,23670,23670,host,94184063561680,"
	"\"{allocation_id:2577,addr:94184063561680,size:12345}\",,\n"
	"62,FREE,HOST,N/A,1795977010418527503,23670,23670,host,94184063554032,"
	"\"{allocation_id:0,addr:94184063554032,size:0}\",,\n"
	"75,MALLOC,MINDSPORE,N/A,1795977010500000005,25631,25631,1,20620137988096,"
	"\"{allocation_id:21,addr:20620137988096,size:2048,total:1073741824,used:2048,"
	"owner:MINDSPORE}\",,\n";

Test(dump_csv, golden_rows)
{
	char *copy = strdup(golden), *got;
	struct row *rows;
	size_t n;

	rows = rows_of_csv(copy, &n);
	cr_assert_eq(n, 16);
	got = csv_of(VENDOR, rows, n);
	expect_text(got, golden);
}

/* data/msleaks/real/now_snapshot and now_deferred; what nobody knows is no number. */
Test(dump_csv, snapshots)
{
	struct row rows[] = {
		{ .id = 5,
		  .event = ROW_SNAPSHOT,
		  .type = ROW_SNAP,
		  .name = "Memory Snapshot",
		  .name_len = 15,
		  .time = 9,
		  .pid = 7,
		  .tid = 7,
		  .attrs = ATTR_SNAPSHOT,
		  .snapshot = { 25165824, 25165824, 20976128, 20976128, 68719476736, 68694310912 } },
		{ .id = 6,
		  .event = ROW_SNAPSHOT,
		  .type = ROW_SNAP,
		  .name = "=1+1",
		  .name_len = 4,
		  .time = 9,
		  .pid = 7,
		  .tid = 7,
		  .attrs = ATTR_SNAPSHOT,
		  .snapshot = { 0, -1, 0, -1, -1, -1 } },
		{ .id = 7,
		  .event = ROW_SYSTEM,
		  .type = ROW_START_TRACE,
		  .time = 9,
		  .pid = 7,
		  .tid = 7,
		  .device = DEV_NA,
		  .attrs = ATTR_FREE_TOTAL,
		  .snapshot = { .free = 68717379584, .total = 68719476736 } },
	};
	char *got = csv_of(VENDOR, rows, MT_ARRAY_SIZE(rows));

	expect_text(strchr(got, '\n') + 1,
		    "5,SNAPSHOT,SNAPSHOT,Memory Snapshot,9,7,7,0,N/A,\"{reserved:25165824,max_reserved:25165824,"
		    "allocated:20976128,max_allocated:20976128,total:68719476736,free:68694310912,"
		    "device_rate:0.036621,reserved_rate:83.351644}\",,\n"
		    "6,SNAPSHOT,SNAPSHOT,'=1+1,9,7,7,0,N/A,\"{reserved:0,max_reserved:N/A,allocated:0,"
		    "max_allocated:N/A,total:N/A,free:N/A,device_rate:N/A,reserved_rate:N/A}\",,\n"
		    "7,SYSTEM,START_TRACE,N/A,9,7,7,N/A,N/A,\"{free:68717379584,total:68719476736}\",,\n");
}

Test(dump_csv, attributes_in_order)
{
	struct row rows[] = {
		{ .id = 1,
		  .event = ROW_MALLOC,
		  .type = ROW_PTA,
		  .time = 11,
		  .pid = 7,
		  .tid = 8,
		  .ptr = 4096,
		  .allocation_id = 1,
		  .size = 512,
		  .total = 2,
		  .used = 3,
		  .active = 4,
		  .owner = "PTA",
		  .stream = 0xaBc,
		  .phys_device = 6,
		  .attrs = ATTR_BLOCK | ATTR_POOL | ATTR_OWNER | ATTR_ACTIVE | ATTR_STREAM |
			   ATTR_PHYS | ATTR_LATE },
		{ .id = 2,
		  .event = ROW_FREE,
		  .type = ROW_HAL,
		  .time = 12,
		  .pid = 7,
		  .tid = 8,
		  .ptr = UINT64_MAX,
		  .size = -1,
		  .attrs = ATTR_BLOCK | ATTR_PREATTACH },
		{ .id = 3,
		  .event = ROW_MALLOC,
		  .type = ROW_HOST_PINNED,
		  .time = 13,
		  .pid = 7,
		  .tid = 8,
		  .device = DEV_CPU,
		  .ptr = 1,
		  .allocation_id = 2,
		  .size = 5,
		  .page_type = "huge",
		  .alloc_type = "create",
		  .attrs = ATTR_BLOCK | ATTR_PINNED | ATTR_PAGE },
		{ .id = 4,
		  .event = ROW_OOM_DETAIL,
		  .type = ROW_OOM_TRIGGER,
		  .time = 14,
		  .pid = 7,
		  .tid = 8,
		  .device = 1,
		  .attrs = ATTR_OOM,
		  .oom_size = 68719476736,
		  .oom_flag = 504403158265496577 },
		{ .id = 5,
		  .event = ROW_SYSTEM,
		  .type = ROW_LOST,
		  .time = 15,
		  .pid = 7,
		  .tid = 8,
		  .device = DEV_NA,
		  .attrs = ATTR_LOST,
		  .lost_reason = "ring",
		  .lost_probe = "pta",
		  .lost_count = 9,
		  .lost_first = 1,
		  .lost_last = 2,
		  .lost_cpu = 4 },
		{ .id = 6,
		  .event = ROW_SYSTEM,
		  .type = ROW_LOST,
		  .time = 15,
		  .pid = 7,
		  .tid = 7,
		  .device = DEV_NA,
		  .attrs = ATTR_LOST,
		  .lost_reason = "late library",
		  .lost_probe = "all",
		  .lost_count = LOST_UNKNOWN,
		  .lost_first = 1,
		  .lost_last = 2,
		  .lost_library = "/a,count:1}\n\"/libruntime.so" },
		{ .id = 7,
		  .event = ROW_SYSTEM,
		  .type = ROW_START_TRACE,
		  .time = 16,
		  .pid = 7,
		  .tid = 8,
		  .device = DEV_NA,
		  .attrs = ATTR_NSPID | ATTR_NOTE,
		  .nspid = 12,
		  .note = "a \"b\"\nc" },
		{ .id = 8,
		  .event = ROW_KERNEL_LAUNCH,
		  .type = ROW_KERNEL,
		  .time = 17,
		  .pid = 7,
		  .tid = 8,
		  .name = "a,b",
		  .name_len = 3,
		  .attrs = ATTR_KERNEL | ATTR_STREAM,
		  .stream_id = -1 },
	};
	static const char want[] = CSV_HEADER
		"1,MALLOC,PTA,N/"
		"A,11,7,8,0,4096,\"{allocation_id:1,addr:4096,size:512,total:2,used:3,"
		"owner:PTA,active:4,stream:0xabc,physical_device:6,late:true}\",,\n"
		"2,FREE,HAL,N/A,12,7,8,0,18446744073709551615,\"{allocation_id:0,"
		"addr:18446744073709551615,size:N/A,preattach:true}\",,\n"
		"3,MALLOC,HOST_PINNED,N/"
		"A,13,7,8,cpu,1,\"{allocation_id:2,addr:1,size:5,pinned:true,"
		"page_type:huge,alloc_type:create}\",,\n"
		"4,OOM_DETAIL,OOM_TRIGGER,OOM_Trigger,14,7,8,1,N/A,\"{func:halMemAlloc,"
		"req_size:68719476736,flag:504403158265496577}\",,\n"
		"5,SYSTEM,LOST,N/A,15,7,8,N/A,N/"
		"A,\"{reason:ring,probe:pta,count:9,first:1,last:2,cpu:3}\",,\n"
		"6,SYSTEM,LOST,N/A,15,7,7,N/A,N/"
		"A,\"{reason:late library,probe:all,count:N/A,first:1,last:2,"
		"library:/a?count:1? '/libruntime.so}\",,\n"
		"7,SYSTEM,START_TRACE,N/A,16,7,8,N/A,N/A,\"{nspid:12,note:a 'b' c}\",,\n"
		"8,KERNEL_LAUNCH,KERNEL_LAUNCH,\"a,b\",17,7,8,0,N/A,"
		"\"{streamId:N/A,taskId:N/A,stream:0x0}\",,\n";
	char *got = csv_of(RECORD, rows, MT_ARRAY_SIZE(rows));

	expect_text(got, want);
	free(got);
	/* The front end writes none of the additions. */
	got = csv_of(VENDOR, rows, MT_ARRAY_SIZE(rows));
	cr_expect(!strstr(got, "LOST") && !strstr(got, "preattach") && !strstr(got, "nspid"));
	cr_expect(strstr(got, "used:3,owner:PTA}\""));
	cr_expect(strstr(got, "START_TRACE,N/A,16,7,8,N/A,N/A,,,\n"));
}

static struct row text_row(enum row_event event, const char *name, size_t len)
{
	return (struct row){ .id = 1,
			     .event = event,
			     .type = event == ROW_MSTX ? ROW_MARK : ROW_KERNEL,
			     .name = name,
			     .name_len = (uint32_t)len,
			     .time = 5 };
}

Test(dump_csv, hostile_names)
{
#define T(e, s, w)                     \
	{                              \
		e, s, sizeof(s) - 1, w \
	}
	static const struct {
		enum row_event event;
		const char *name;
		size_t len;
		const char *want;
	} t[] = {
		T(ROW_MSTX, "a,b \"q\" x", "\"a,b \"\"q\"\" x\""),
		T(ROW_MSTX, "two\nlines", "\"two\nlines\""),
		T(ROW_MSTX, "=cmd|' /C calc'!A0", "\"\""),
		T(ROW_MSTX, "+1", "\"\""),
		T(ROW_MSTX, "-1", "\"\""),
		T(ROW_MSTX, "@x", "\"\""),
		T(ROW_MSTX, "\t=1", "\"\""),
		T(ROW_MSTX, "", "\"\""),
		T(ROW_MSTX, "nul\0here", "\"nul\xef\xbf\xbdhere\""),
		T(ROW_MSTX, "\x1b[31m", "\"\xef\xbf\xbd[31m\""),
		T(ROW_MSTX, "bad \xff\xc3", "\"bad \xef\xbf\xbd\xef\xbf\xbd\""),
		T(ROW_MSTX, "\xe4\xb8\xad", "\"\xe4\xb8\xad\""),
		T(ROW_MSTX, "\xc2\x9b", "\"\xef\xbf\xbd\xef\xbf\xbd\""),
		T(ROW_KERNEL_LAUNCH, "plain", "plain"),
		T(ROW_KERNEL_LAUNCH, "=1+1", "'=1+1"),
		T(ROW_KERNEL_LAUNCH, "-a,b", "\"'-a,b\""),
		T(ROW_KERNEL_LAUNCH, "q\"q", "\"q\"\"q\""),
		T(ROW_KERNEL_LAUNCH, "n\nn", "\"n\nn\""),
	};
	char want[256], *got;
	struct row r;
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(t); i++) {
		r = text_row(t[i].event, t[i].name, t[i].len);
		got = csv_of(RECORD, &r, 1);
		snprintf(want, sizeof(want), CSV_HEADER "1,%s,%s,%s,5,0,0,0,N/A,,,\n",
			 row_event__name(r.event), row_type__name(r.type), t[i].want);
		expect_text(got, want);
		free(got);
	}
}

Test(dump_csv, long_name)
{
	size_t n = 1u << 20;
	char *name = malloc(n), *got;
	struct row r;

	memset(name, '"', n);
	r = text_row(ROW_MSTX, name, n);
	got = csv_of(RECORD, &r, 1);
	cr_expect_eq(strlen(got),
		     strlen(CSV_HEADER) + 2 * n + 2 + strlen("1,MSTX,Mark,,5,0,0,0,N/A,,,\n"));
}

Test(dump_csv, names_and_modes)
{
	struct row r = text_row(ROW_MSTX, "x", 1);
	char *d = tmp_dir(), *path, *sub;
	struct out_opts opts = RECORD;
	struct stat st;
	struct out *o;
	uint64_t rows, unwritten, bytes;

	cr_assert(asprintf(&sub, "%s/new/deep", d) > 0);
	opts.dir = sub;
	cr_assert(!out__open(&opts, &o));
	cr_expect_null(out__path(o, 0));
	cr_assert(!out__row(o, &r));
	cr_assert(out__path(o, 0));
	path = strdup(out__path(o, 0));
	cr_assert(!out__flush(o));
	cr_assert(!stat(path, &st));
	cr_expect_eq(st.st_mode & 07777, 0600);
	out__counts(o, &rows, &unwritten, &bytes);
	cr_expect_eq(rows, 1);
	cr_expect_eq(unwritten, 0);
	cr_expect_gt(bytes, (uint64_t)st.st_size); /* and the trace */
	cr_assert(!out__close(o));
	cr_assert(!stat(sub, &st));
	cr_expect_eq(st.st_mode & 07777, 0750);
	/* A second run in the same second gets a later name. */
	cr_assert(!write_rows(opts, &r, 1));
	cr_assert(!write_rows(opts, &r, 1));
	cr_expect(!access(path, F_OK));
	rm_dir(d);
}

Test(dump_csv, refuses_links)
{
	struct row r = text_row(ROW_MSTX, "x", 1);
	char *d = tmp_dir(), *sub, *other = tmp_dir(), *found;
	struct out_opts opts = RECORD;

	cr_assert(asprintf(&sub, "%s/dump", d) > 0);
	cr_assert(!symlink(other, sub));
	opts.dir = d;
	cr_expect_lt(write_rows(opts, &r, 1), 0);
	found = find_file(other, ".", "leaks", ".csv");
	cr_expect_null(found);
	rm_dir(other);
	rm_dir(d);
}

/* A full disk: nothing torn, the rest counted, the trace still valid. */
static void fill(const char *dir, enum out_format format, uint64_t *rows, uint64_t *unwritten)
{
	struct out_opts opts = RECORD;
	struct row r = text_row(ROW_KERNEL_LAUNCH, "kernel", 6);
	struct out *o;
	int i, err = 0;

	opts.dir = dir;
	opts.format = format;
	cr_assert(!out__open(&opts, &o));
	for (i = 0; i < 60000; i++) {
		r.id = r.kernel_index = (uint64_t)i + 1;
		r.time = 2000 + (uint64_t)i;
		err = out__row(o, &r);
		if (i % 1000 == 999)
			out__flush(o);
	}
	cr_expect_lt(err, 0);
	out__flush(o);
	out__counts(o, rows, unwritten, NULL);
	cr_expect_eq(*rows + *unwritten, 60000);
	cr_expect_gt(*rows, 0);
	cr_expect_gt(*unwritten, 0);
	cr_expect_eq(out__error(o), err);
	cr_expect_eq(out__close(o), err);
}

static void check_full(const char *dir, uint64_t rows)
{
	char *s = read_found(dir, "dump", "leaks_dump_", ".csv"), *p, *t;
	uint64_t lines = 0;
	size_t n = strlen(s);

	for (p = s; (p = strchr(p, '\n')); p++)
		lines++;
	cr_expect_eq(lines, rows + 1);
	cr_expect(!strcmp(s + n - 3, ",,\n"));
	t = read_found(dir, "trace", "npu0_trace_", ".json");
	n = strlen(t);
	cr_expect(!strcmp(t + n - 2, "\n]"));
	cr_expect(!strncmp(t + n - 4, "\n}\n]", 4));
	free(s);
	free(t);
}

Test(dump_csv, file_size_limit)
{
	struct rlimit lim = { 300000, 300000 };
	uint64_t rows, unwritten;
	char *d = tmp_dir();

	signal(SIGXFSZ, SIG_IGN);
	cr_assert(!setrlimit(RLIMIT_FSIZE, &lim));
	fill(d, OUT_CSV, &rows, &unwritten);
	check_full(d, rows);
	rm_dir(d);
}

Test(dump_csv, disk_full)
{
	uint64_t rows, unwritten;
	char *d = tmp_dir();

	if (mount("tmpfs", d, "tmpfs", 0, "size=1m")) {
		rmdir(d);
		cr_skip_test("cannot mount a tmpfs: %s", strerror(errno));
	}
	fill(d, OUT_CSV, &rows, &unwritten);
	check_full(d, rows);
	umount2(d, MNT_DETACH);
	rm_dir(d);
}
