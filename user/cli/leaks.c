// SPDX-License-Identifier: Apache-2.0
/* memtap leaks: what a dump shows as leaked, in the vendor's words. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/offline.h"

enum { OPT_FREED = 256, OPT_HAL, OPT_MARKS, OPT_START };

static const struct option longs[] = { { "freed", no_argument, NULL, OPT_FREED },
				       { "hal", no_argument, NULL, OPT_HAL },
				       { "marks", required_argument, NULL, OPT_MARKS },
				       { "start-index", required_argument, NULL, OPT_START },
				       { "stacks", no_argument, NULL, OFFLINE_STACKS },
				       { "strict", no_argument, NULL, OFFLINE_STRICT },
				       { "help", no_argument, NULL, 'h' },
				       { 0 } };

static struct {
	struct offline_common common;
	bool freed, hal;
	const char *marks;
	uint64_t start;
} o;

static void help(void)
{
	puts("Usage: memtap leaks [OPTIONS] DIR|FILE...\n"
	     "\n"
	     "Print the blocks of a dump that were allocated in a step, from the second on, and\n"
	     "still lived at the end of the next one, and how evenly the steps use their pools.\n"
	     "Steps are marked in the program by mstx ranges named \"step start\".\n"
	     "\n"
	     "      --freed            also blocks that were freed before the last step ended\n"
	     "      --hal              driver memory that lives at the end instead\n"
	     "      --marks=TEXT       instead driver memory allocated between the first and the\n"
	     "                         second mark of this text that lives at the third\n"
	     "      --start-index=N    leave out the first N of these marks (0)\n"
	     "      --stacks           with the call stacks of their allocation\n"
	     "      --strict           exit with 3 when rows are missing in the files\n"
	     "  -h, --help             this text");
}

static double mega(int64_t bytes)
{
	return (double)bytes / 1048576;
}

/* One device of one process; their number. */
static size_t print_device(const struct leak *k, size_t n, const struct texts *t, bool shared)
{
	size_t i, end, shown = 0;
	double sum = 0;

	for (end = 0; end < n && k[end].order == k->order; end++) {
		if (!k[end].withdrawn || o.freed)
			shown++;
	}
	if (!shown)
		return end;
	printf("====== ERROR: Detected memory leaks on device %s", offline__device(k->device));
	if (shared)
		printf(" of process %u", k->pid);
	puts(" ======");
	for (i = 0; i < end; i++) {
		if (k[i].withdrawn && !o.freed)
			continue;
		printf("Direct %s leak of %f Mb(s) at 0x%llx in kernel_%llu at step %llu.\n",
		       pool__title(k[i].type), mega(k[i].size), (unsigned long long)k[i].ptr,
		       (unsigned long long)k[i].kernel, (unsigned long long)k[i].step);
		if (o.common.stacks)
			offline__stacks(t, k[i].stack_py, k[i].stack_c);
		sum += mega(k[i].size);
	}
	printf("====== SUMMARY: %g Mb(s) leaked in %zu allocation(s) ======\n", sum, shown);
	return end;
}

static void print_leaks(const struct leaks *l, const struct texts *t, const char *path)
{
	size_t n, n_gaps, i, withdrawn = 0;
	const struct leak *k = leaks__list(l, &n);
	const struct gap *g = leaks__gaps(l, &n_gaps);
	struct hmap users = { 0 };
	uint64_t steps, open;

	for (i = 0; i < n; i++)
		withdrawn += k[i].withdrawn;
	gap__users(g, n_gaps, &users);
	for (i = 0; i < n;)
		i += print_device(k + i, n - i, t, offline__shared(&users, k[i].device));
	hmap__free(&users);
	gap__print(g, n_gaps);
	if (withdrawn && !o.freed)
		pr_info("%s: %zu block(s) outlived a step and were freed in a later one: --freed "
			"shows them",
			cli__text(path), withdrawn);
	leaks__steps(l, &steps, &open);
	if (!steps)
		pr_info("%s: no step is marked, so none can leak: mark steps with mstx ranges "
			"named "
			"\"step start\", or use --hal or --marks",
			cli__text(path));
	else if (steps == open)
		pr_warn("%s: no step ends, so none can be judged: dumps of single steps (--steps) "
			"cannot show leaks",
			cli__text(path));
}

static void print_hal(const struct leaks *l, const struct texts *t)
{
	size_t n, i;
	const struct leak *k = leaks__hal(l, &n);
	double sum = 0;

	for (i = 0; i < n; i++) {
		printf("[client %u][device: %s]: Leak memory in Malloc operator, addr: 0x%llx, "
		       "size: %lld\n",
		       k[i].pid, offline__device(k[i].device), (unsigned long long)k[i].ptr,
		       (long long)k[i].size);
		if (o.common.stacks)
			offline__stacks(t, k[i].stack_py, k[i].stack_c);
		sum += mega(k[i].size);
	}
	if (n)
		printf("====== SUMMARY: %g Mb(s) of driver memory live in %zu block(s) at the end "
		       "======\n",
		       sum, n);
	else
		puts("There is no hal leak memory.");
}

/* A number as Python prints it: the shortest digits that give it back. */
static const char *python_float(double v, char buf[40])
{
	int digits, exponent;
	char tmp[40];

	for (digits = 1; digits < 17; digits++) {
		snprintf(tmp, sizeof(tmp), "%.*e", digits - 1, v);
		if (strtod(tmp, NULL) == v)
			break;
	}
	snprintf(tmp, sizeof(tmp), "%.*e", digits - 1, v);
	exponent = atoi(strchr(tmp, 'e') + 1);
	if (exponent < -4 || exponent >= 16)
		snprintf(buf, 40, "%.*g", digits, v);
	else
		snprintf(buf, 40, "%.*f", MT_MAX(1, digits - 1 - exponent), v);
	return buf;
}

static const char *of_process(const struct range_result *r, bool shared)
{
	static char buf[32];

	snprintf(buf, sizeof(buf), " of process %u", r->pid);
	return shared ? buf : "";
}

static void print_result(const struct range *x, const struct range_result *r, bool shared)
{
	const struct range_leak *k = range__leaks(x) + r->first;
	const char *device = offline__device(r->device), *of = of_process(r, shared);
	char buf[40];
	size_t i;

	if (!r->n) {
		printf("No hal memory leaks detected on device %s%s.\n", device, of);
		return;
	}
	printf("====== ERROR: Detected memory leaks on device %s%s ======\n", device, of);
	for (i = 0; i < r->n; i++) {
		printf("Direct Hal memory leak of %s Mb(s) at ",
		       python_float(mega(k[i].size), buf));
		printf(k[i].hex ? "0x%016llx" : "%llu", (unsigned long long)k[i].ptr);
		printf(" in Index %llu.\n", (unsigned long long)k[i].id);
	}
}

static void print_range(const struct range *x)
{
	size_t n, i;
	const struct range_result *r = range__results(x, &n);
	struct hmap users = { 0 };
	bool any = false;

	for (i = 0; i < n; i++)
		offline__use(&users, r[i].device, r[i].pid);
	for (i = 0; i < n; i++) {
		bool shared = offline__shared(&users, r[i].device);
		const char *device = offline__device(r[i].device), *of = of_process(&r[i], shared);

		printf("INFO: Starting to analyze data for device %s%s...\n", device, of);
		if (r[i].state == RANGE_TOO_FEW)
			printf("ERROR: Device %s%s has fewer than 3 data points. Please re-collect "
			       "the "
			       "data points.\n",
			       device, of);
		else if (r[i].state == RANGE_OUT)
			printf("INFO: Start index %llu is out of bounds. Device %s%s has a total "
			       "of %llu "
			       "MSTX events.\n",
			       (unsigned long long)o.start, device, of,
			       (unsigned long long)r[i].marks);
		any |= r[i].state == RANGE_OK;
	}
	if (any)
		printf("\nLeak Analysis Results for the Custom Range:\n");
	for (i = 0; i < n; i++) {
		if (r[i].state == RANGE_OK)
			print_result(x, &r[i], offline__shared(&users, r[i].device));
	}
	hmap__free(&users);
}

static int on_item(void *ctx, const struct item *it)
{
	return leaks__item(ctx, it);
}

static int on_range(void *ctx, const struct item *it)
{
	return range__item(ctx, it);
}

static int one(const char *path, bool *incomplete)
{
	struct in_want want = { .events = 1u << ROW_MALLOC | 1u << ROW_FREE | 1u << ROW_MSTX,
				.stacks = o.common.stacks };
	struct texts *texts = texts__new(OFFLINE_TEXTS);
	struct leaks *l = NULL;
	struct range *r = NULL;
	int err = -ENOMEM;

	if (!texts)
		goto out;
	if (o.marks) {
		r = range__new(texts, o.marks, o.start);
		if (r)
			err = offline__read(path, &want, texts, on_range, r, incomplete);
		if (!err)
			err = range__finish(r);
		if (!err)
			print_range(r);
		goto out;
	}
	want.events |= 1u << ROW_KERNEL_LAUNCH;
	l = leaks__new(texts);
	if (l)
		err = offline__read(path, &want, texts, on_item, l, incomplete);
	if (!err)
		err = leaks__finish(l);
	if (!err && o.hal)
		print_hal(l, texts);
	else if (!err)
		print_leaks(l, texts, path);
out:
	leaks__free(l);
	range__free(r);
	texts__free(texts);
	return err;
}

static int read_option(int opt)
{
	switch (opt) {
	case OPT_FREED:
		o.freed = true;
		return 0;
	case OPT_HAL:
		o.hal = true;
		return 0;
	case OPT_MARKS:
		o.marks = optarg;
		return 0;
	default:
		return offline__number("leaks", "--start-index", optarg, 0, UINT32_MAX, &o.start);
	}
}

static int ready(void)
{
	if (o.hal && o.marks) {
		pr_err("--hal and --marks are two analyses: call memtap leaks once for each");
		return cli__usage_error("leaks");
	}
	if (o.start && !o.marks) {
		pr_err("--start-index counts marks: name their text with --marks");
		return cli__usage_error("leaks");
	}
	return 0;
}

int cmd_leaks(int argc, char **argv)
{
	static const struct offline_cmd cmd = { .name = "leaks",
						.longs = longs,
						.common = &o.common,
						.help = help,
						.option = read_option,
						.ready = ready,
						.one = one };

	return offline__run(&cmd, argc, argv);
}
