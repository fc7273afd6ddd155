// SPDX-License-Identifier: Apache-2.0
/* Owners of blocks: beside the dump, in its rows, and read again. */
#include "out_kill.h"

#include "input/input.h"

static struct out_owner owner(uint64_t ptr, uint64_t id, const char *text)
{
	return (struct out_owner){ .pid = 5,
				   .type = ROW_PTA,
				   .ptr = ptr,
				   .allocation_id = id,
				   .size = 512,
				   .time = 1234,
				   .owner = text,
				   .confidence = 1 };
}

/* A block of 100 and one of 200, of which the first is a weight. */
static char *run(struct out_opts opts, char **dir)
{
	struct row a = block_row(ROW_MALLOC, ROW_PTA, 1, 5, 100), f = block_row(ROW_FREE, ROW_PTA, 3, 5, 100);
	struct row b = block_row(ROW_MALLOC, ROW_PTA, 2, 5, 200);
	struct out_owner w = owner(100, 1, "PTA@model@weight"), e = owner(4096, 0, "PTA@model@buffer");
	char *path, *csv;
	struct out *o;

	opts.dir = *dir = tmp_dir();
	cr_assert_eq(out__open(&opts, &o), 0);
	cr_assert_eq(out__row(o, &a), 0);
	cr_assert_eq(out__row(o, &b), 0);
	cr_assert_eq(out__owner(o, &w), 0);
	cr_assert_eq(out__owner(o, &e), 0);
	cr_assert_eq(out__flush(o), 0);
	cr_assert_eq(out__row(o, &f), 0);
	cr_assert_eq(out__close(o), 0);
	path = find_file(*dir, "dump", opts.newer ? "memscope_dump_" : "leaks_dump_", ".csv");
	cr_assert(path);
	csv = read_all(path, NULL);
	free(path);
	return csv;
}

static struct in_owner got[8];
static size_t n_got;

static int on_owner(void *ctx, const struct in_owner *o)
{
	(void)ctx;
	cr_assert(n_got < 8);
	got[n_got] = *o;
	got[n_got++].owner = strdup(o->owner);
	return 0;
}

static uint64_t read_back(const char *dir)
{
	char *path = find_file(dir, "dump", "leaks_dump_", ".csv");
	uint64_t bad;

	n_got = 0;
	cr_assert(path);
	cr_assert_eq(in_owners__each(path, on_owner, NULL, &bad), 0);
	free(path);
	return bad;
}

Test(owners, beside_the_dump)
{
	char *dir, *csv = run((struct out_opts){ 0 }, &dir), *path;
	struct stat st;

	cr_expect_not(strstr(csv, "weight"), "in the order of time the row was written before");
	path = find_file(dir, "dump", "owners_", ".csv");
	cr_assert(path);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0600);
	cr_expect_eq(read_back(dir), 0);
	cr_assert_eq(n_got, 2);
	cr_expect_str_eq(got[0].owner, "PTA@model@weight");
	cr_expect(got[0].pid == 5 && got[0].type == ROW_PTA && got[0].ptr == 100 && got[0].alloc == 1 &&
		  got[0].size == 512 && got[0].time == 1234 && got[0].device == 0);
	cr_expect_eq(got[0].confidence, 1);
	cr_expect_str_eq(got[1].owner, "PTA@model@buffer");
	cr_expect_eq(got[1].alloc, 0);
	free(csv);
	rm_dir(dir);
}

Test(owners, in_rows_of_block_order)
{
	char *dir, *csv = run((struct out_opts){ .order = OUT_ORDER_BLOCK }, &dir), *first;

	first = strstr(csv, "\n1,MALLOC");
	cr_assert(first);
	cr_expect(strstr(first, "owner:PTA@model@weight"));
	/* The other one's row has none, and the FREE neither. */
	cr_expect_eq(strstr(strstr(csv, "owner:") + 1, "owner:"), NULL, "%s", csv);
	free(csv);
	rm_dir(dir);
}

Test(owners, no_file_of_the_front_end)
{
	char *dir, *csv = run((struct out_opts){ .order = OUT_ORDER_BLOCK, .vendor = true }, &dir);

	cr_expect(strstr(csv, "owner:PTA@model@weight"));
	cr_expect_eq(find_file(dir, "dump", "owners_", ""), NULL);
	free(csv);
	rm_dir(dir);
}

/* Each line that is none is counted and left out; the last one of a killed run is no error. */
Test(owners, lines_that_are_none)
{
	static const char *const bad[] = {
		"", ",", "x,0,PTA,1,100,512,1,PTA,1", "5,0,NONE,1,100,512,1,PTA,1", "5,0,PTA,1,100,512,1,PTA",
		"5,0,PTA,1,100,512,1,PTA,1,1", "5,0,PTA,1,100,512,1,=cmd(),1", "5,0,PTA,1,100,512,1,@mine,1",
		"5,0,PTA,1,100,512,1,,1", "5,0,PTA,1,100,512,1,PTA,2", "5,0,PTA,1,100,512,1,PTA,nan",
		"5,0,PTA,-1,100,512,1,PTA,1", "5,0,PTA,99999999999999999999,100,512,1,PTA,1",
		"4294967296,0,PTA,1,100,512,1,PTA,1", "5,4294967296,PTA,1,100,512,1,PTA,1",
	};
	char *dir, *csv = run((struct out_opts){ 0 }, &dir), *path = find_file(dir, "dump", "owners_", ".csv");
	char longest[4096];
	size_t i;
	FILE *f;

	cr_assert(path);
	for (i = 0; i < MT_ARRAY_SIZE(bad); i++) {
		f = fopen(path, "w");
		cr_assert(f);
		fprintf(f, "header\n5,0,PTA,1,100,512,1,PTA@a,0.5\n%s\n5,0,PTA,2,200,512,1,PTA@b,1\n5,0,PTA,3,300,5", bad[i]);
		fclose(f);
		cr_expect_eq(read_back(dir), 1, "%s", bad[i]);
		cr_expect_eq(n_got, 2, "%s", bad[i]);
		cr_expect_eq(got[0].confidence, 0.5);
		cr_expect_eq(got[1].alloc, 2);
	}
	memset(longest, '1', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	f = fopen(path, "w");
	cr_assert(f);
	fprintf(f, "header\n%s,5,0,PTA,1,100,512,1,PTA,1\n5,0,PTA,2,200,512,1,PTA@b,1\n", longest);
	fclose(f);
	cr_expect_gt(read_back(dir), 0);
	cr_expect_eq(n_got, 1);
	/* Something else by that name. */
	remove(path);
	cr_assert_eq(mkfifo(path, 0600), 0);
	path = find_file(dir, "dump", "leaks_dump_", ".csv");
	cr_expect_eq(in_owners__each(path, on_owner, NULL, &(uint64_t){ 0 }), -EINVAL);
	free(csv);
	rm_dir(dir);
}
