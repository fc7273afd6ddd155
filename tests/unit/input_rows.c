// SPDX-License-Identifier: Apache-2.0
/* Rows of csv dumps: RFC 4180, the vendor's forms of each generation, and what is no row. */
#include "input_test.h"

#include <errno.h>

TestSuite(rows, .init = in_setup, .fini = in_teardown);

static struct in_counts counts;

/* The rows of a csv of this text, each handed to `see`; how many. */
static unsigned int read_rows(const char *text, size_t n,
			      void (*see)(unsigned int, struct in_row *))
{
	struct in_file *f;
	struct in_row r;
	unsigned int i = 0;
	int err;

	cr_assert_eq(in_file__open(put_file("leaks_dump_1.csv", text, n), &f), 0);
	while ((err = in_file__next(f, &r)) > 0)
		see(i++, &r);
	cr_expect_eq(err, 0);
	in_file__counts(f, &counts);
	in_file__close(f);
	return i;
}

#define READ(text, see) read_rows(text, sizeof(text) - 1, see)

static void see_seed(unsigned int i, struct in_row *r)
{
	int64_t v;

	cr_expect_eq(r->pid, 25559);
	switch (i) {
	case 0:
		cr_expect_eq(r->event, ROW_SYSTEM);
		cr_expect_eq(r->type, ROW_ACL_INIT);
		cr_expect_eq(r->device, DEV_NA);
		cr_expect_eq(r->time, 1795977008516726324);
		cr_expect_not(r->has_ptr);
		cr_expect_null(r->name.s);
		break;
	case 1:
		cr_expect_eq(r->type, ROW_RANGE_START);
		EXPECT_SLICE(r->name, "step start");
		break;
	case 2:
		cr_expect_eq(r->event, ROW_MALLOC);
		cr_expect_eq(r->type, ROW_PTA);
		cr_expect_eq(r->ptr, 20616935636992);
		cr_expect_not(r->hex);
		cr_expect(in_row__num(r, KEY_ALLOCATION_ID, &v) && v == 3);
		cr_expect(in_row__num(r, KEY_TOTAL, &v) && v == 20971520);
		EXPECT_SLICE(r->attr[KEY_OWNER], "PTA@ops@aten");
		EXPECT_SLICE(r->attr[KEY_INEFFICIENT], "early_allocation,late_deallocation");
		break;
	case 3:
		cr_expect_eq(r->event, ROW_ACCESS);
		cr_expect_eq(r->type, ROW_WRITE);
		EXPECT_SLICE(r->name, "torch._ops.aten.mul.Tensor");
		EXPECT_SLICE(r->attr[KEY_SHAPE], "torch.Size([2, 3])");
		EXPECT_SLICE(r->attr[KEY_TYPE], "PTA");
		break;
	case 4:
		cr_expect_eq(r->device, DEV_HOST);
		cr_expect_eq(r->type, ROW_HOST);
		break;
	default:
		cr_expect_eq(r->event, ROW_KERNEL_LAUNCH);
		cr_expect_eq(r->type, ROW_KERNEL);
	}
}

Test(rows, of_v_seed)
{
	cr_expect_eq(
		READ(HEAD
		     "1,SYSTEM,ACL_INIT,N/A,1795977008516726324,25559,25559,N/A,N/A,,,\n"
		     "8,MSTX,Range_start,\"step start\",1795977008518501764,25559,25559,0,N/A,,,\n"
		     "6,MALLOC,PTA,N/"
		     "A,1795977010418843710,25559,25631,0,20616935636992,\"{allocation_id:3,addr:"
		     "20616935636992,size:512,total:20971520,used:512,owner:PTA@ops@aten,"
		     "inefficient_type:early_allocation,late_deallocation}\",,\n"
		     "14,ACCESS,WRITE,torch._ops.aten.mul.Tensor,1795977010419016558,25559,25631,0,"
		     "20616935636992,\"{allocation_id:3,addr:20616935636992,size:24,type:PTA,dtype:"
		     "torch.float32,shape:torch.Size([2, 3])}\",,\n"
		     "45,FREE,HOST,N/"
		     "A,1795977008518939733,25559,25559,host,94021505870288,\"{allocation_id:0,"
		     "addr:94021505870288,size:0}\",,\n"
		     "10,KERNEL_LAUNCH,KERNEL_LAUNCH,AddKernel,1795977008518715079,25559,25559,0,N/"
		     "A,\"{streamId:3,taskId:0}\",,",
		     see_seed),
		6);
	cr_expect_eq(counts.bad + counts.torn + counts.loose + counts.bad_attrs, 0);
}

static void see_now(unsigned int i, struct in_row *r)
{
	switch (i) {
	case 0:
		cr_expect(r->hex);
		cr_expect_eq(r->ptr, 0x12c041200000);
		EXPECT_SLICE(r->attr[KEY_PAGE_TYPE], "normal");
		EXPECT_SLICE(r->attr[KEY_ALLOC_TYPE], "alloc");
		break;
	case 1:
		cr_expect_eq(r->device, DEV_CPU);
		cr_expect_eq(r->type, ROW_HOST_PINNED);
		break;
	case 2:
		cr_expect(r->keys & 1u << KEY_SHADOW);
		cr_expect_eq(r->id, 0);
		break;
	case 3:
		cr_expect_eq(r->event, ROW_SNAPSHOT);
		EXPECT_SLICE(r->name, "Memory Snapshot");
		break;
	case 4:
		cr_expect_eq(r->type, ROW_OOM_RECENT);
		EXPECT_SLICE(r->cell[COL_C], "./app(f+0x1) [0x1]\n./app(g+0x2) [0x2]\n");
		break;
	default:
		cr_expect_eq(r->event, ROW_EVENT_MAX); /* of a version to come: kept, not known */
		EXPECT_SLICE(r->cell[COL_EVENT], "NEWER");
	}
}

Test(rows, of_v_now)
{
	cr_expect_eq(
		READ(HEAD
		     "1,MALLOC,HAL,N/"
		     "A,1795975736676220055,16298,16298,0,0x000012c041200000,\"{allocation_id:1,"
		     "addr:0x000012c041200000,size:2097152,page_type:normal,alloc_type:alloc}\",,\n"
		     "4,MALLOC,HOST_PINNED,N/"
		     "A,1795975736676253899,16298,16298,cpu,0x00007f0000000000,\"{allocation_id:4,"
		     "addr:0x00007f0000000000,size:65536,pinned:true,used:6119424}\",,\n" HEAD
		     "0,FREE,PTA,N/"
		     "A,1795975736686848172,16298,16298,0,0x000012c041500000,\"{allocation_id:8,"
		     "addr:0x000012c041500000,size:1048576,shadow:true}\",,\n"
		     "5,SNAPSHOT,SNAPSHOT,Memory "
		     "Snapshot,1795984898755407488,7354,7354,0,N/"
		     "A,\"{reserved:2097152,device_rate:0.003052}\",,\n"
		     "18,OOM_DETAIL,OOM_RECENT_ALLOC,OOM_RecentAlloc,1795975787943305659,16992,"
		     "16992,N/A,N/"
		     "A,\"{pool:PTA,ptr:0x000012c100000000,size:2048,timestamp:1795975787942040283}"
		     "\",\"NA\",\"./app(f+0x1) [0x1]\n./app(g+0x2) [0x2]\n\"\n"
		     "19,NEWER,THING,N/A,1795975787943305659,16992,16992,N/A,N/A,,,\n",
		     see_now),
		6);
	cr_expect_eq(counts.headers, 1);
	cr_expect_eq(counts.bad + counts.torn + counts.loose, 0);
}

static void see_names(unsigned int i, struct in_row *r)
{
	static const char *const names[] = { "a,b \"q\" x", "two\nlines",	 "",
					     "x\"",	    "say \"hi\", twice", "k<int, 2>",
					     "\"",	    "a\",1,2,3,0,",	 "last" };

	if (*names[i])
		EXPECT_SLICE(r->name, names[i]);
	else
		cr_expect_eq(r->name.n, 0);
	cr_expect_eq(r->time, 100 + i);
	cr_expect_eq(r->tid, 7);
}

/* The vendor doubles no quotes; memtap does (the last but one). */
Test(rows, with_names_of_any_text)
{
	cr_expect_eq(READ(HEAD "1,MSTX,Mark,\"a,b \"q\" x\",100,5,7,0,N/A,,,\n"
			       "2,MSTX,Mark,\"two\nlines\",101,5,7,0,N/A,,,\n"
			       "3,MSTX,Mark,\"\",102,5,7,0,N/A,,,\n"
			       "4,MSTX,Mark,\"x\"\",103,5,7,0,N/A,,,\n"
			       "5,MSTX,Mark,\"say \"hi\", twice\",104,5,7,0,N/A,,,\n"
			       "6,KERNEL_LAUNCH,KERNEL_LAUNCH,k<int, "
			       "2>,105,5,7,0,N/A,\"{streamId:1,taskId:2}\",,\n"
			       "7,MSTX,Mark,\"\"\"\",106,5,7,0,N/A,,,\n"
			       "8,MSTX,Mark,\"a\"\",1,2,3,0,\",107,5,7,0,N/A,,,\n"
			       "9,MSTX,Mark,\"last\",108,5,7,0,N/A,,,\r\n",
			  see_names),
		     9);
	cr_expect_eq(counts.bad, 0);
	cr_expect_eq(counts.loose, 4);
}

static void see_attrs(unsigned int i, struct in_row *r)
{
	int64_t v;

	cr_expect(in_row__num(r, KEY_ALLOCATION_ID, &v) && v == 1, "row %u", i);
	cr_expect(in_row__num(r, KEY_SIZE, &v) && v == (i == 4 ? -512 : 512), "row %u", i);
	if (i == 3)
		EXPECT_SLICE(r->attr[KEY_OWNER], "PTA@a\"b,c:d@e");
	EXPECT_SLICE(r->cell[COL_PY], i == 2 ? "a.py(3): f\nb.py(4): \"g\"" : "");
}

Test(rows, with_attributes_in_each_form)
{
	cr_expect_eq(
		READ(HEAD
		     "1,MALLOC,PTA,N/A,100,5,7,0,512,{allocation_id:1,addr:512,size:512},,\n"
		     "2,MALLOC,PTA,N/A,100,5,7,0,512,\"allocation_id:1,addr:512,size:512\",,\n"
		     "3,MALLOC,PTA,N/A,100,5,7,0,512,allocation_id:1,addr:512,size:512,\"a.py(3): "
		     "f\nb.py(4): \"g\"\",\n"
		     "4,MALLOC,PTA,N/"
		     "A,100,5,7,0,512,\"{allocation_id:1,addr:512,size:512,owner:PTA@a\"b,c:d@e}\","
		     ",\n"
		     "5,FREE,PTA,N/A,100,5,7,0,512,\"{allocation_id:1,addr:512,size:-512}\",,\n",
		     see_attrs),
		5);
	cr_expect_eq(counts.bad + counts.bad_attrs, 0);
}

static uint64_t ids[8];

static void see_ids(unsigned int i, struct in_row *r)
{
	ids[i % 8] = r->id;
}

Test(rows, that_are_none_are_left_out)
{
	cr_expect_eq(READ(HEAD "1,SYSTEM,ACL_INIT,N/A,100,5,7,N/A,N/A,,,\n"
			       "what is this\n"
			       "and \"this,\n"
			       "2,SYSTEM,ACL_INIT,N/A,abc,5,7,N/A,N/A,,,\n"
			       "3,SYSTEM,ACL_FINI,N/A,101,5,7,N/A,N/A,,,\n"
			       "99999999999999999999,SYSTEM,ACL_FINI,N/A,101,5,7,N/A,N/A,,,\n"
			       "4,SYSTEM,ACL_FINI,N/A,101,5,7,N/A,N/A,,,\n"
			       "5,SYSTEM,ACL_FINI,N/A,101,5,7,N",
			  see_ids),
		     3);
	cr_expect_eq(ids[0], 1);
	cr_expect_eq(ids[1], 3);
	cr_expect_eq(ids[2], 4);
	cr_expect_eq(counts.bad, 3);
	cr_expect_eq(counts.torn, 1);
}

/* A quote that is never closed must not take the rest of the file with it. */
Test(rows, behind_an_open_quote)
{
	struct strbuf sb = { 0 };
	unsigned int i;

	strbuf__puts(&sb, HEAD "1,MALLOC,PTA,N/A,100,5,7,0,512,,\"open,\n");
	for (i = 0; i < 400000; i++)
		strbuf__printf(&sb, "%u,SYSTEM,ACL_FINI,N/A,101,5,7,N/A,N/A,,,\n", i + 2);
	cr_assert_not(sb.failed);
	cr_expect_eq(read_rows(sb.data, sb.len, see_ids), 400000);
	cr_expect_eq(counts.bad, 1);
	strbuf__free(&sb);
}

/* Rows that lie across the end of the buffer, of every length. */
Test(rows, across_buffers)
{
	struct strbuf sb = { 0 };
	unsigned int i, n = 30000;

	strbuf__puts(&sb, HEAD);
	for (i = 0; i < n; i++)
		strbuf__printf(
			&sb,
			"%u,MALLOC,PTA,N/A,100,5,7,0,512,\"{allocation_id:1,addr:512,size:512}\","
			"\"%.*s\nf \"\"x\"\"\",\n",
			i, (int)(i % 97),
			"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
			"xxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	cr_assert_gt(sb.len, 3u << 20);
	cr_expect_eq(read_rows(sb.data, sb.len, see_ids), n);
	cr_expect_eq(ids[(n - 1) % 8], n - 1);
	cr_expect_eq(counts.bad + counts.loose + counts.bad_attrs, 0);
	strbuf__free(&sb);
}

Test(rows, of_no_dump)
{
	struct in_file *f;

	cr_expect_eq(in_file__open(put_text("a.csv", ""), &f), -ENODATA);
	cr_expect_eq(in_file__open(put_text("b.csv", "a,b,c\n1,2,3\n"), &f), -EBADMSG);
	cr_expect_eq(in_file__open(put_text("c.csv", "Record Index,Timestamp(ns),Event\n"), &f),
		     -EBADMSG);
	cr_expect_eq(in_file__open("/dev/null", &f), -EINVAL);
	cr_expect_eq(in_file__open("/nowhere/x.csv", &f), -ENOENT);
}

/* What might take for ever to be told apart does not. */
static int read_many(const char *line, unsigned int n)
{
	struct strbuf sb = { 0 };
	struct in_file *f;
	struct in_row r;
	unsigned int i;
	int err;

	strbuf__puts(&sb, HEAD);
	for (i = 0; i < n; i++)
		strbuf__printf(&sb, "%u,MSTX,Mark,%s\n", i + 1, line);
	cr_assert_eq(in_file__open(put_file("leaks_dump_1.csv", sb.data, sb.len), &f), 0);
	while ((err = in_file__next(f, &r)) > 0)
		;
	in_file__counts(f, &counts);
	in_file__close(f);
	strbuf__free(&sb);
	return err;
}

Test(rows, without_an_end, .timeout = 30)
{
	cr_expect_eq(read_many("\"\"\"", 200000), 0);
	cr_expect_eq(counts.rows, 0);
	cr_expect_eq(read_many("\"x", 200000), 0);
	cr_expect_eq(read_many("x", 200000), 0);
	cr_expect_eq(read_many("\"x\"\",100,5,7,0,N/A,,,", 200000), 0);
	cr_expect_eq(counts.rows, 200000);
	cr_expect_eq(read_many("N/A,100,5,7,0,1,\"{a", 200000), 0);
	cr_expect_eq(read_many("N/A,100,5,7,0,1,,\"a", 200000), 0);
	cr_expect_eq(counts.rows, 0);
	/* Quotes that are all doubled: each row would be looked for to the end of the file. */
	cr_expect_eq(read_many("a\",\"\"\"\"x", 1), 0);
	cr_expect_eq(read_many("\"\"\"\"\"x", 200000), 0);
	cr_expect_eq(read_many("\"\"\"\"\"x\"\"", 200000), 0);
}
