// SPDX-License-Identifier: Apache-2.0
/* memtap compare: two dumps side by side, in the vendor's memory_compare_*.csv. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/offline.h"

enum { OPT_LEVEL = 256, OPT_STRICT };

static const char *tell_as; /* NULL: in ours */

void compare__tell_as(const char *tool)
{
	tell_as = tool;
}

static const struct option longs[] = { { "level", required_argument, NULL, OPT_LEVEL },
				       { "output", required_argument, NULL, 'o' },
				       { "strict", no_argument, NULL, OPT_STRICT },
				       { "help", no_argument, NULL, 'h' },
				       { 0 } };

static void help(void)
{
	puts("Usage: memtap compare [OPTIONS] BASE OTHER\n"
	     "\n"
	     "Align the operators or kernels of two dumps (DIR or FILE each, best of one step) by\n"
	     "name, and print for each the size of the next row of the framework's pool in both.\n"
	     "\n"
	     "      --level=LEVEL  0 or op: operators, 1 or kernel: kernels, or both: 0,1 (0)\n"
	     "  -o, --output=DIR   write DIR/compare/memory_compare_<time>.csv, not standard "
	     "output\n"
	     "      --strict       exit with 3 when rows are missing in the files\n"
	     "  -h, --help         this text");
}

/* A list of 0, 1, op, kernel. 0 or -EINVAL. */
static int parse_level(const char *text, unsigned int *level)
{
	size_t n;

	for (*level = 0;; text += n + 1) {
		n = strcspn(text, ",");
		if ((n == 1 && *text == '0') || (n == 2 && !strncmp(text, "op", n)))
			*level |= LEVEL_OP;
		else if ((n == 1 && *text == '1') || (n == 6 && !strncmp(text, "kernel", n)))
			*level |= LEVEL_KERNEL;
		else
			return -EINVAL;
		if (!text[n])
			return 0;
	}
}

struct reading {
	struct compare *c;
	unsigned int side;
};

static int on_item(void *ctx, const struct item *it)
{
	struct reading *r = ctx;

	return compare__item(r->c, r->side, it);
}

static void put_side(FILE *f, bool in, int64_t size)
{
	if (in)
		fprintf(f, ",%lld", (long long)size);
	else
		fputs(",N/A", f);
}

static void print_rows(FILE *f, const struct compare *c, const struct texts *t)
{
	size_t n, i, len;
	const struct compare_row *r = compare__rows(c, &n);

	fputs(",,,Base,Compare\n"
	      "Event,Name,Device Id,Allocated Memory(byte),Allocated Memory(byte),Diff "
	      "Memory(byte)\n",
	      f);
	for (i = 0; i < n; i++) {
		const char *name = texts__get(t, r[i].name, &len);

		fprintf(f, "%s,", row_event__name((enum row_event)r[i].event));
		if (r[i].name)
			offline__csv_text(f, name, len);
		else
			fputs("N/A", f);
		fprintf(f, ",%s", offline__device(r[i].device));
		put_side(f, r[i].in_base, r[i].base);
		put_side(f, r[i].in_other, r[i].other);
		fprintf(f, ",%lld\n", (long long)r[i].diff);
	}
}

/* A new file of the vendor's name; its path is said. NULL: a message was printed. */
static FILE *create(const char *dir, char path[4096])
{
	time_t now = time(NULL);
	int fd = -EEXIST, i, err;
	struct tm tm;
	char ts[16];
	FILE *f;

	snprintf(path, 4096, "%s/compare", dir);
	err = path__mkdirs(path);
	if (err) {
		pr_err("%s: cannot be made: %s", cli__text(path), strerror(-err));
		return NULL;
	}
	for (i = 0; i < 60 && fd == -EEXIST; i++, now++) {
		localtime_r(&now, &tm);
		strftime(ts, sizeof(ts), "%Y%m%d%H%M%S", &tm);
		if (snprintf(path, 4096, "%s/compare/memory_compare_%s.csv", dir, ts) >= 4096) {
			fd = -ENAMETOOLONG;
			break;
		}
		fd = path__create(path);
	}
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f)
		pr_err("%s: cannot be made: %s", cli__text(path), strerror(fd < 0 ? -fd : errno));
	return f;
}

static int print(const struct compare *c, const struct texts *t, const char *dir)
{
	char path[4096], full[PATH_MAX];
	FILE *f;

	if (!dir) {
		print_rows(stdout, c, t);
		return 0;
	}
	f = create(dir, path);
	if (!f)
		return -EIO;
	print_rows(f, c, t);
	if (ferror(f) | fclose(f)) {
		pr_err("%s: not all of it could be written: %s", cli__text(path), strerror(errno));
		return -EIO;
	}
	if (tell_as)
		printf("[%s] Info: create file %s.\n", tell_as,
		       cli__text(realpath(path, full) ? full : path));
	else
		pr_info("create file %s", cli__text(path));
	return 0;
}

static int run(char **paths, unsigned int level, const char *dir, bool *incomplete)
{
	const struct in_want want = { .events = 1u << ROW_MALLOC | 1u << ROW_FREE | 1u << ROW_MSTX |
						1u << ROW_OP_LAUNCH | 1u << ROW_KERNEL_LAUNCH };
	struct texts *texts = texts__new(OFFLINE_TEXTS);
	struct reading r = { .c = texts ? compare__new(level) : NULL };
	int err = r.c ? 0 : -ENOMEM;

	for (; !err && r.side < 2; r.side++) {
		err = offline__read(paths[r.side], &want, texts, on_item, &r, incomplete);
		if (err == -EPROTO)
			pr_err("%s: rows of PTA and of MINDSPORE cannot be compared with each "
			       "other: "
			       "give two dumps of one framework",
			       cli__text(paths[r.side]));
	}
	if (!err) {
		err = compare__finish(r.c);
		if (err == -EPROTO)
			pr_err("MindSpore's operators have no rows: compare kernels (--level=1)");
		if (err == -E2BIG)
			pr_err("the two differ in more than 100000 operators: cut one step of each "
			       "out first (memtap cut)");
	}
	if (!err)
		err = print(r.c, texts, dir);
	compare__free(r.c);
	texts__free(texts);
	return err;
}

int cmd_compare(int argc, char **argv)
{
	bool strict = false, incomplete = false;
	unsigned int level = LEVEL_OP;
	const char *dir = NULL;
	int opt;

	while ((opt = getopt_long(argc, argv, "ho:", longs, NULL)) != -1) {
		switch (opt) {
		case OPT_LEVEL:
			if (parse_level(optarg, &level)) {
				pr_err("--level '%s': 0 (op), 1 (kernel) or 0,1 is wanted",
				       cli__text(optarg));
				return cli__usage_error("compare");
			}
			break;
		case 'o':
			dir = optarg;
			break;
		case OPT_STRICT:
			strict = true;
			break;
		case 'h':
			help();
			return EXIT_OK;
		default:
			return cli__usage_error("compare");
		}
	}
	if (argc - optind != 2) {
		pr_err("two dumps are wanted, the base and what is compared with it; %d given",
		       argc - optind);
		return cli__usage_error("compare");
	}
	return offline__status(run(argv + optind, level, dir, &incomplete), incomplete, strict);
}
