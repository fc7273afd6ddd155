// SPDX-License-Identifier: Apache-2.0
/* memtap cut: a window of a dump, or its processes and devices, as dumps of their own. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/cut.h"
#include "output/copy.h"

/* Files open at once; MindStudio Insight shows one anyway. */
#define MAX_PARTS 256
#define MAX_PAIRS 64
#define BY_PROCESS 1u
#define BY_DEVICE 2u

enum { OPT_FROM = 256, OPT_TO, OPT_SPLIT, OPT_FORMAT, OPT_STRICT };

static const struct option longs[] = { { "from", required_argument, NULL, OPT_FROM },
				       { "to", required_argument, NULL, OPT_TO },
				       { "split", required_argument, NULL, OPT_SPLIT },
				       { "output", required_argument, NULL, 'o' },
				       { "data-format", required_argument, NULL, OPT_FORMAT },
				       { "strict", no_argument, NULL, OPT_STRICT },
				       { "help", no_argument, NULL, 'h' },
				       { 0 } };

static struct {
	struct cut_edge from, to;
	unsigned int split;
	const char *dir;
	enum out_format format;
	bool strict;
} o;

static void help(void)
{
	puts("Usage: memtap cut [OPTIONS] -o DIR DIR|FILE\n"
	     "\n"
	     "Write the rows of a dump in a window of time, or those of each process or device, "
	     "as\n"
	     "dumps of their own: DIR/dump/leaks_dump_<time>.csv or .db.\n"
	     "\n"
	     "      --from=TIME           from this time on: ns since 1970 as in the dump, "
	     "+SECONDS\n"
	     "                            after its first row, or step:N, the begin of a step\n"
	     "      --to=TIME             rows before this time; step:N: up to the end of a step\n"
	     "      --split=BY            one file for each process, device or process,device, "
	     "below\n"
	     "                            DIR/process_<pid>, DIR/device_<device> ...\n"
	     "  -o, --output=DIR          where to write; made when missing\n"
	     "      --data-format=FORMAT  csv (default), or db for MindStudio Insight\n"
	     "      --strict              exit with 3 when rows are missing in the files\n"
	     "  -h, --help                this text");
}

struct part {
	uint32_t pid;
	int32_t device;
	struct copy *copy;
};

struct cutting {
	struct cut_window w;
	struct part parts[MAX_PARTS];
	size_t n;

	struct strbuf scratch;
	uint64_t left_out;
};

static int open_part(struct cutting *c, uint32_t pid, int32_t device, struct part **out)
{
	char path[4096], sub[64] = "";
	struct part *p;
	int err;

	if (c->n == MAX_PARTS) {
		pr_err("more than %d processes and devices: split a window, or by one of the two",
		       MAX_PARTS);
		return -E2BIG;
	}
	if (o.split == BY_PROCESS)
		snprintf(sub, sizeof(sub), "/process_%u", pid);
	else if (o.split == BY_DEVICE)
		snprintf(sub, sizeof(sub), "/device_%s", offline__device(device));
	else if (o.split)
		snprintf(sub, sizeof(sub), "/process_%u_device_%s", pid, offline__device(device));
	if ((size_t)snprintf(path, sizeof(path), "%s%s", o.dir, sub) >= sizeof(path)) {
		pr_err("%s: the path is too long", cli__text(o.dir));
		return -ENAMETOOLONG;
	}
	p = &c->parts[c->n];
	*p = (struct part){ .pid = pid, .device = device };
	err = copy__open(path, o.format, &p->copy);
	if (err)
		return err;
	c->n++;
	*out = p;
	return 0;
}

static bool belongs(const struct part *p, const struct in_row *r)
{
	return (!(o.split & BY_PROCESS) || p->pid == r->pid) &&
	       (!(o.split & BY_DEVICE) || p->device == r->device || r->device == DEV_NA);
}

/* Make the file that this row belongs to, when it has none. */
static int make_part(struct cutting *c, const struct in_row *r)
{
	struct part *p;
	size_t i;

	if (o.split & BY_DEVICE && r->device == DEV_NA)
		return 0;
	for (i = 0; i < c->n; i++) {
		if (belongs(&c->parts[i], r))
			return 0;
	}
	return open_part(c, r->pid, r->device, &p);
}

static int each_row(const struct in_set *set, struct cutting *c, bool *incomplete,
		    int (*row)(struct cutting *c, const struct in_row *r))
{
	struct in_counts counts;
	struct in_file *f;
	struct in_row r;
	int err = 0;
	size_t i;

	for (i = 0; i < set->n && !err; i++) {
		err = in_file__open(set->paths[i], &f);
		if (err)
			return err;
		while ((err = in_file__next(f, &r)) > 0) {
			err = r.time < c->w.from || r.time >= c->w.to ? 0 : row(c, &r);
			if (err)
				break;
		}
		in_file__counts(f, &counts);
		*incomplete |= counts.bad || counts.bad_attrs || counts.torn;
		in_file__close(f);
	}
	return err;
}

static int copy_row(struct cutting *c, const struct in_row *r)
{
	struct in_pair pairs[MAX_PAIRS];
	bool ok, any = false;
	size_t n, i;
	int err = 0;

	ok = in_row__pairs(r, pairs, MAX_PAIRS, &n, &c->scratch);
	for (i = 0; i < c->n && !err; i++) {
		if (!belongs(&c->parts[i], r))
			continue;
		err = copy__row(c->parts[i].copy, r, ok ? pairs : NULL, ok ? n : 0);
		any = true;
	}
	c->left_out += !any;
	return err;
}

/* What has no row is there at the time at which it was read. */
static int copy_owner(void *ctx, const struct in_owner *w)
{
	struct cutting *c = ctx;
	int err = 0;
	size_t i;

	if (!w->alloc && (w->time < c->w.from || w->time >= c->w.to))
		return 0;
	for (i = 0; i < c->n && !err; i++) {
		if ((!(o.split & BY_PROCESS) || c->parts[i].pid == w->pid) &&
		    (!(o.split & BY_DEVICE) || c->parts[i].device == w->device))
			err = copy__owner(c->parts[i].copy, w);
	}
	return err;
}

static int run(const char *path, bool *incomplete)
{
	struct cutting c = { 0 };
	struct in_set set;
	bool told = false; /* the second reading says it */
	int err, e;
	size_t i;

	err = in_set__find(path, &set);
	if (err)
		return err;
	err = cut_window__find(path, &o.from, &o.to, &c.w);
	if (!err && o.split) /* first all files, so that rows of no device find theirs */
		err = each_row(&set, &c, &told, make_part);
	else if (!err)
		err = open_part(&c, 0, 0, &(struct part *){ NULL });
	if (!err)
		err = each_row(&set, &c, incomplete, copy_row);
	if (!err)
		err = offline__owners(path, copy_owner, &c, incomplete);
	for (i = 0; i < c.n; i++) {
		if (!err)
			pr_info("create file %s, %llu rows", cli__text(copy__path(c.parts[i].copy)),
				(unsigned long long)copy__rows(c.parts[i].copy));
		e = copy__close(c.parts[i].copy);
		err = err ? err : e;
	}
	if (!err && c.left_out)
		pr_warn("%s: %llu rows of no device and of processes without one were left out",
			cli__text(path), (unsigned long long)c.left_out);
	strbuf__free(&c.scratch);
	in_set__free(&set);
	return err;
}

static int edge_option(const char *name, struct cut_edge *e)
{
	if (!cut_edge__parse(optarg, e))
		return 0;
	pr_err("%s '%s': nanoseconds, +SECONDS or step:N is wanted", name, cli__text(optarg));
	return cli__usage_error("cut");
}

static int split_option(const char *text)
{
	size_t n;

	for (;; text += n + 1) {
		n = strcspn(text, ",");
		if (n == 7 && !strncmp(text, "process", n))
			o.split |= BY_PROCESS;
		else if (n == 6 && !strncmp(text, "device", n))
			o.split |= BY_DEVICE;
		else
			break;
		if (!text[n])
			return 0;
	}
	pr_err("--split '%s': process, device or process,device is wanted", cli__text(optarg));
	return cli__usage_error("cut");
}

static int parse(int argc, char **argv)
{
	int opt, err = 0;

	while (!err && (opt = getopt_long(argc, argv, "ho:", longs, NULL)) != -1) {
		switch (opt) {
		case OPT_FROM:
			err = edge_option("--from", &o.from);
			break;
		case OPT_TO:
			err = edge_option("--to", &o.to);
			break;
		case OPT_SPLIT:
			err = split_option(optarg);
			break;
		case 'o':
			o.dir = optarg;
			break;
		case OPT_FORMAT:
			if (strcmp(optarg, "csv") != 0 && strcmp(optarg, "db") != 0) {
				pr_err("--data-format '%s': csv or db is wanted",
				       cli__text(optarg));
				return cli__usage_error("cut");
			}
			o.format = *optarg == 'd' ? OUT_DB : OUT_CSV;
			break;
		case OPT_STRICT:
			o.strict = true;
			break;
		case 'h':
			help();
			return -1;
		default:
			return cli__usage_error("cut");
		}
	}
	if (err)
		return err;
	if (argc - optind != 1) {
		pr_err("one DIR or FILE is wanted, %d given", argc - optind);
		return cli__usage_error("cut");
	}
	if (!o.dir || !*o.dir) {
		pr_err("no folder to write into: name one with -o");
		return cli__usage_error("cut");
	}
	return 0;
}

int cmd_cut(int argc, char **argv)
{
	bool incomplete = false;
	int err = parse(argc, argv);

	if (err)
		return err < 0 ? EXIT_OK : err;
	err = run(argv[optind], &incomplete);
	return offline__status(err, incomplete, o.strict);
}
