// SPDX-License-Identifier: Apache-2.0
/* memtap gap: how evenly the steps of a dump use their pools. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/offline.h"

static const struct option longs[] = { { "strict", no_argument, NULL, OFFLINE_STRICT },
				       { "help", no_argument, NULL, 'h' },
				       { 0 } };

static void help(void)
{
	puts("Usage: memtap gap [OPTIONS] DIR|FILE...\n"
	     "\n"
	     "Print for each device and pool of a dump in which step the least memory in use was\n"
	     "the smallest and the largest share of the most: a share that falls from step to\n"
	     "step is memory held for a short time only. Steps are marked in the program by\n"
	     "mstx ranges named \"step start\"; the first is left out.\n"
	     "\n"
	     "      --strict  exit with 3 when rows are missing in the files\n"
	     "  -h, --help    this text");
}

void gap__users(const struct gap *g, size_t n, struct hmap *users)
{
	size_t i;

	for (i = 0; i < n; i++)
		offline__use(users, g[i].device, g[i].pid);
}

static void print_line(const char *name, double share, uint64_t memory, uint64_t step)
{
	printf("%s\t%-25.4f%-25.4f%-25llu\n", name, share * 100, (double)memory / 1048576,
	       (unsigned long long)step);
}

/* The vendor's words and columns (msleaks.md 6.1). */
void gap__print(const struct gap *g, size_t n)
{
	struct hmap users = { 0 };
	size_t i;

	gap__users(g, n, &users);
	for (i = 0; i < n; i++) {
		printf("======= %s Gap Analysis of Device %s", pool__title(g[i].type),
		       offline__device(g[i].device));
		if (offline__shared(&users, g[i].device))
			printf(" of Process %u", g[i].pid);
		printf(" =======\n\t%-25s%-25s%-25s\n", "MinAlloc/MaxAlloc(%)", "MinAllocMem(MB)",
		       "StepId");
		print_line("MinGap", g[i].min.share, g[i].min.memory, g[i].min.step);
		print_line("MaxGap", g[i].max.share, g[i].max.memory, g[i].max.step);
	}
	hmap__free(&users);
}

static int on_item(void *ctx, const struct item *it)
{
	return leaks__item(ctx, it);
}

static int one(const char *path, bool *incomplete)
{
	const struct in_want want = { .events = 1u << ROW_MALLOC | 1u << ROW_FREE |
						1u << ROW_MSTX };
	struct texts *texts = texts__new(OFFLINE_TEXTS);
	struct leaks *l = texts ? leaks__new(texts) : NULL;
	int err = l ? 0 : -ENOMEM;
	const struct gap *g;
	size_t n;

	if (!err)
		err = offline__read(path, &want, texts, on_item, l, incomplete);
	if (!err)
		err = leaks__finish(l);
	if (!err) {
		g = leaks__gaps(l, &n);
		gap__print(g, n);
		if (!n)
			pr_info("%s: no rows of the pools of PyTorch, ATB or MindSpore",
				cli__text(path));
	}
	leaks__free(l);
	texts__free(texts);
	return err;
}

int cmd_gap(int argc, char **argv)
{
	static struct offline_common common;
	static const struct offline_cmd cmd = {
		.name = "gap", .longs = longs, .common = &common, .help = help, .one = one
	};

	return offline__run(&cmd, argc, argv);
}
