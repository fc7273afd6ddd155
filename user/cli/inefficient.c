// SPDX-License-Identifier: Apache-2.0
/* memtap inefficient: blocks of a dump that hold memory for nothing. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/offline.h"

enum { OPT_IDLE = 256, OPT_SIZE };

static const struct option longs[] = { { "idle-threshold", required_argument, NULL, OPT_IDLE },
				       { "min-size", required_argument, NULL, OPT_SIZE },
				       { "format", required_argument, NULL, OFFLINE_FORMAT },
				       { "stacks", no_argument, NULL, OFFLINE_STACKS },
				       { "strict", no_argument, NULL, OFFLINE_STRICT },
				       { "help", no_argument, NULL, 'h' },
				       { 0 } };

static struct {
	struct offline_common common;
	uint64_t idle;
	int64_t min_size;
} o = { .idle = 3000 };

static void help(void)
{
	puts("Usage: memtap inefficient [OPTIONS] DIR|FILE...\n"
	     "\n"
	     "Print the blocks of the pools of PyTorch and ATB that were allocated long before\n"
	     "their first use (early_allocation), kept after the last (late_deallocation) while\n"
	     "others were freed or allocated, or not used for many calls in between\n"
	     "(temporary_idleness). The dump needs rows of operators and accesses.\n"
	     "\n"
	     "      --idle-threshold=N  so many calls between two accesses are too many (3000)\n"
	     "      --min-size=SIZE     blocks of at least this size (0)\n"
	     "      --format=FORMAT     text, or csv: one row a block\n"
	     "      --stacks            text: with the call stacks of their allocation\n"
	     "      --strict            exit with 3 when rows are missing in the files\n"
	     "  -h, --help              this text");
}

static void print_kinds(const struct ineff_block *b)
{
	unsigned int i;

	for (i = 0; i < b->n_kinds; i++)
		printf("%s%s", i ? "," : "", ineff__name((enum ineff)b->kinds[i]));
}

static void print_csv(const struct ineff_block *b, size_t n)
{
	size_t i;

	puts("Process Id,Device Id,Event Type,ID,allocation_id,Ptr,Size(byte),Timestamp(ns),"
	     "Longest gap(calls),inefficient_type");
	for (i = 0; i < n; i++) {
		printf("%u,%s,%s,%llu,%llu,%llu,%lld,%llu,%llu,\"", b[i].pid,
		       offline__device(b[i].device), row_type__name(b[i].type),
		       (unsigned long long)b[i].id, (unsigned long long)b[i].alloc,
		       (unsigned long long)b[i].ptr, (long long)b[i].size,
		       (unsigned long long)b[i].time, (unsigned long long)b[i].idle);
		print_kinds(&b[i]);
		puts("\"");
	}
}

static void print_text(const struct ineff_block *b, size_t n, const struct ineff_counts *c,
		       const struct texts *t)
{
	uint64_t blocks[INEFF_MAX] = { 0 }, bytes[INEFF_MAX] = { 0 };
	unsigned int k;
	size_t i;

	for (i = 0; i < n; i++) {
		for (k = 0; k < b[i].n_kinds; k++) {
			blocks[b[i].kinds[k]]++;
			bytes[b[i].kinds[k]] += b[i].size > 0 ? (uint64_t)b[i].size : 0;
		}
	}
	printf("====== Inefficient memory: %zu of %llu block(s) ======\n", n,
	       (unsigned long long)c->blocks);
	for (k = 0; k < INEFF_MAX; k++)
		printf("%-20s %10llu block(s) %14.6f Mb(s)\n", ineff__name((enum ineff)k),
		       (unsigned long long)blocks[k], (double)bytes[k] / 1048576);
	for (i = 0; i < n; i++) {
		printf("%s block of %f Mb(s) at 0x%llx on device %s of process %u, allocation_id "
		       "%llu: ",
		       row_type__name(b[i].type), (double)b[i].size / 1048576,
		       (unsigned long long)b[i].ptr, offline__device(b[i].device), b[i].pid,
		       (unsigned long long)b[i].alloc);
		print_kinds(&b[i]);
		putchar('\n');
		if (o.common.stacks)
			offline__stacks(t, b[i].stack_py, b[i].stack_c);
	}
}

static int on_item(void *ctx, const struct item *it)
{
	return inefficient__item(ctx, it);
}

static int one(const char *path, bool *incomplete)
{
	const struct in_want want = { .events = 1u << ROW_MALLOC | 1u << ROW_FREE |
						1u << ROW_ACCESS | 1u << ROW_OP_LAUNCH,
				      .stacks = o.common.stacks };
	struct texts *texts = texts__new(OFFLINE_TEXTS);
	struct inefficient *x = texts ? inefficient__new(o.idle, o.min_size) : NULL;
	int err = x ? 0 : -ENOMEM;
	const struct ineff_block *b;
	struct ineff_counts c;
	size_t n;

	if (!err)
		err = offline__read(path, &want, texts, on_item, x, incomplete);
	if (!err)
		err = inefficient__finish(x);
	if (!err) {
		b = inefficient__list(x, &n);
		inefficient__counts(x, &c);
		if (o.common.csv)
			print_csv(b, n);
		else
			print_text(b, n, &c, texts);
		if (c.blocks && !c.accesses)
			pr_warn("%s: has no ACCESS rows, so nothing can be told: record with "
				"--events=alloc,free,launch,access",
				cli__text(path));
		if (c.unknown)
			pr_info("%s: %llu accesses to blocks from before the first row",
				cli__text(path), (unsigned long long)c.unknown);
	}
	inefficient__free(x);
	texts__free(texts);
	return err;
}

static int read_option(int opt)
{
	if (opt == OPT_SIZE)
		return offline__size("inefficient", "--min-size", optarg, &o.min_size);
	return offline__number("inefficient", "--idle-threshold", optarg, 0, UINT32_MAX, &o.idle);
}

int cmd_inefficient(int argc, char **argv)
{
	static const struct offline_cmd cmd = { .name = "inefficient",
						.longs = longs,
						.common = &o.common,
						.help = help,
						.option = read_option,
						.one = one };

	return offline__run(&cmd, argc, argv);
}
