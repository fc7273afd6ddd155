// SPDX-License-Identifier: Apache-2.0
/* memtap decompose: who owns the memory of each pool of a dump. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/offline.h"

enum { OPT_BLOCKS = 256, OPT_RULES, OPT_NO_DEFAULT, OPT_PRINT, OPT_REFINE };

static const struct option longs[] = { { "blocks", no_argument, NULL, OPT_BLOCKS },
				       { "format", required_argument, NULL, OFFLINE_FORMAT },
				       { "rules", required_argument, NULL, OPT_RULES },
				       { "no-default-rules", no_argument, NULL, OPT_NO_DEFAULT },
				       { "print-rules", no_argument, NULL, OPT_PRINT },
				       { "refine", no_argument, NULL, OPT_REFINE },
				       { "strict", no_argument, NULL, OFFLINE_STRICT },
				       { "help", no_argument, NULL, 'h' },
				       { 0 } };

static struct {
	struct offline_common common;
	bool blocks, no_default, print, refine;
	struct rules *rules;
} o;

static void help(void)
{
	puts("Usage: memtap decompose [OPTIONS] DIR|FILE...\n"
	     "\n"
	     "Print for each pool of a dump who owns its memory at its peak and at the end: what "
	     "the\n"
	     "dump says, else what was read from Python objects (memtap record --owners), else "
	     "what\n"
	     "rules on call stacks, accesses and lifetimes tell, each with its confidence.\n"
	     "\n"
	     "      --blocks            one csv row a block instead\n"
	     "      --format=FORMAT     text, or csv: one row an owner\n"
	     "      --rules=FILE        rules that come before those of memtap; may be repeated\n"
	     "      --no-default-rules  only rules of --rules\n"
	     "      --print-rules       print the rules of memtap, which tell their format, and "
	     "exit\n"
	     "      --refine            rules also for blocks that the dump gives to PTA@ops\n"
	     "      --strict            exit with 3 when rows are missing in the files\n"
	     "  -h, --help              this text");
}

static const char *source_name(enum owner_source s)
{
	static const char *const names[] = { "dump", "objects", "rule", "pool" };

	return names[s];
}

static void put_source(enum owner_source s, unsigned int rule)
{
	if (s == OWNER_RULE)
		printf("rule %u", rule);
	else
		fputs(source_name(s), stdout);
}

static int print_block(void *ctx, const struct owner_block *b)
{
	const struct item *m = b->malloc;

	(void)ctx;
	printf("%u,%s,%s,%llu,%llu,%llu,%lld,%llu,", m->pid, offline__device(m->device),
	       row_type__name((enum row_type)m->type), (unsigned long long)m->id,
	       (unsigned long long)m->alloc, (unsigned long long)m->ptr, (long long)m->size,
	       (unsigned long long)m->time);
	if (b->freed)
		printf("%llu", (unsigned long long)b->freed);
	putchar(',');
	offline__csv_text(stdout, b->label, strlen(b->label));
	printf(",%.2f,", b->confidence);
	put_source(b->source, b->rule);
	putchar('\n');
	return ferror(stdout) ? -EIO : 0;
}

static void print_csv(const struct decompose *d)
{
	size_t n, i, k;
	const struct owner_pool *p = decompose__pools(d, &n);
	const struct owned *w = decompose__owned(d);

	puts("Process Id,Device Id,Event Type,Owner,Peak(byte),Peak blocks,End(byte),End blocks,"
	     "Allocated(byte),Blocks,Confidence,Source");
	for (i = 0; i < n; i++) {
		for (k = p[i].first; k < p[i].first + p[i].n; k++) {
			printf("%u,%s,%s,", w[k].pid, offline__device(w[k].device),
			       row_type__name(w[k].type));
			offline__csv_text(stdout, w[k].label, strlen(w[k].label));
			printf(",%llu,%llu,%llu,%llu,%llu,%llu,%.2f,",
			       (unsigned long long)w[k].peak.bytes,
			       (unsigned long long)w[k].peak.blocks,
			       (unsigned long long)w[k].end.bytes,
			       (unsigned long long)w[k].end.blocks,
			       (unsigned long long)w[k].all.bytes,
			       (unsigned long long)w[k].all.blocks, w[k].confidence);
			put_source(w[k].source, w[k].rule);
			putchar('\n');
		}
	}
}

static double mega(uint64_t v)
{
	return (double)v / 1048576;
}

static void print_text(const struct decompose *d)
{
	size_t n, i, k;
	const struct owner_pool *p = decompose__pools(d, &n);
	const struct owned *w = decompose__owned(d);

	for (i = 0; i < n; i++) {
		uint64_t peak = 0, end = 0;

		printf("======= %s of Device %s of Process %u: peak %.4f MB, end %.4f MB =======\n",
		       row_type__name(p[i].type), offline__device(p[i].device), p[i].pid,
		       mega(p[i].peak), mega(p[i].end));
		printf("%-40s%14s%14s%16s%10s%12s  %s\n", "Owner", "Peak(MB)", "End(MB)",
		       "Allocated(MB)", "Blocks", "Confidence", "Source");
		for (k = p[i].first; k < p[i].first + p[i].n; k++) {
			printf("%-40s%14.4f%14.4f%16.4f%10llu%12.2f  ", cli__text(w[k].label),
			       mega(w[k].peak.bytes), mega(w[k].end.bytes), mega(w[k].all.bytes),
			       (unsigned long long)w[k].all.blocks, w[k].confidence);
			put_source(w[k].source, w[k].rule);
			putchar('\n');
			peak += w[k].peak.bytes;
			end += w[k].end.bytes;
		}
		if (p[i].peak > peak || p[i].end > end)
			printf("%-40s%14.4f%14.4f\n", "(of before the dump, or not seen)",
			       mega(p[i].peak > peak ? p[i].peak - peak : 0),
			       mega(p[i].end > end ? p[i].end - end : 0));
	}
}

static int on_item(void *ctx, const struct item *it)
{
	return decompose__item(ctx, it);
}

static int on_owner(void *ctx, const struct in_owner *w)
{
	/* Of before all that the dump has, if it has no number. */
	const struct item it = { .pid = w->pid,
				 .device = w->device,
				 .event = ROW_MALLOC,
				 .type = (uint8_t)w->type,
				 .pool = (uint8_t)w->type,
				 .alloc = w->alloc,
				 .ptr = w->ptr,
				 .size = w->size,
				 .flags = ITEM_SHADOW | ITEM_SIZE };

	return decompose__told(ctx, &it, w->owner, w->confidence);
}

static int one(const char *path, bool *incomplete)
{
	const struct in_want want = { .events = 1u << ROW_MALLOC | 1u << ROW_FREE |
						1u << ROW_ACCESS | 1u << ROW_OP_LAUNCH |
						1u << ROW_MSTX,
				      .stacks = true };
	const struct decompose_opts opts = { .refine = o.refine,
					     .block = o.blocks ? print_block : NULL };
	struct texts *texts = texts__new(OFFLINE_TEXTS);
	struct decompose *d = texts ? decompose__new(o.rules, texts, &opts) : NULL;
	int err = d ? 0 : -ENOMEM;

	if (!err && o.blocks)
		puts("Process Id,Device Id,Event "
		     "Type,ID,allocation_id,Ptr,Size(byte),Timestamp(ns),"
		     "Freed(ns),Owner,Confidence,Source");
	if (!err)
		err = offline__owners(path, on_owner, d, incomplete);
	if (!err)
		err = offline__read(path, &want, texts, on_item, d, incomplete);
	if (!err)
		err = decompose__finish(d);
	if (!err && !o.blocks)
		(o.common.csv ? print_csv : print_text)(d);
	decompose__free(d);
	texts__free(texts);
	return err;
}

static int read_rules(const char *path)
{
	char *text;
	ssize_t n = file__read(path, 1 << 20, &text);
	int err;

	if (n < 0) {
		pr_err("%s: the rules cannot be read: %s", cli__text(path),
		       n == -EFBIG ? "more than 1 MiB" : strerror((int)-n));
		return EXIT_FAIL;
	}
	err = rules__parse(o.rules, text, (size_t)n, cli__text(path));
	free(text);
	if (err == -ENOMEM)
		pr_err("%s: not enough memory for its rules", cli__text(path));
	return !err ? 0 : err == -EINVAL ? EXIT_USAGE : EXIT_FAIL;
}

static int read_option(int opt)
{
	switch (opt) {
	case OPT_BLOCKS:
		o.blocks = true;
		return 0;
	case OPT_RULES:
		return read_rules(optarg);
	case OPT_NO_DEFAULT:
		o.no_default = true;
		return 0;
	case OPT_PRINT:
		o.print = true;
		return 0;
	default:
		o.refine = true;
		return 0;
	}
}

static int ready(void)
{
	int err = 0;

	if (o.print) {
		fputs(rules__default, stdout);
		return -1;
	}
	if (!o.no_default)
		err = rules__parse(o.rules, rules__default, strlen(rules__default), "owners.rules");
	if (err == -ENOMEM)
		pr_err("not enough memory for the rules");
	return err ? EXIT_FAIL : 0;
}

int cmd_decompose(int argc, char **argv)
{
	static const struct offline_cmd cmd = { .name = "decompose",
						.longs = longs,
						.common = &o.common,
						.help = help,
						.option = read_option,
						.ready = ready,
						.one = one };
	int status;

	o.rules = rules__new();
	if (!o.rules) {
		pr_err("not enough memory for the rules");
		return EXIT_FAIL;
	}
	status = offline__run(&cmd, argc, argv);
	rules__free(o.rules);
	o.rules = NULL;
	return status;
}
