// SPDX-License-Identifier: Apache-2.0
/* Reading dumps for a command, and what is said of them. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/offline.h"

static bool tell(const char *path, const struct in_counts *c)
{
	if (c->bad)
		pr_warn("%s: %llu places that are no rows were left out", cli__text(path),
			(unsigned long long)c->bad);
	if (c->bad_attrs)
		pr_warn("%s: the attributes of %llu rows cannot be read: they count without them",
			cli__text(path), (unsigned long long)c->bad_attrs);
	if (c->doubled)
		pr_info("%s: %llu rows stand there twice and count once", cli__text(path),
			(unsigned long long)c->doubled);
	return c->bad || c->bad_attrs || c->torn;
}

int offline__read(const char *path, const struct in_want *want, struct texts *texts,
		  int (*item)(void *ctx, const struct item *it), void *ctx, bool *incomplete)
{
	struct in_stream *s = NULL;
	uint64_t lost = 0;
	struct in_want w = *want;
	struct in_counts c;
	struct in_set set;
	struct item it;
	int err;

	w.events |= 1u << ROW_SYSTEM;
	err = in_set__find(path, &set);
	if (err)
		return err;
	err = in_stream__open(&set, &w, texts, &s);
	while (!err && (err = in_stream__next(s, &it)) > 0) {
		lost += it.event == ROW_SYSTEM && it.type == ROW_LOST;
		err = item(ctx, &it);
		if (err == -ENOMEM)
			pr_err("%s: not enough memory for its blocks: cut a window out first "
			       "(memtap cut)",
			       cli__text(path));
	}
	if (s) {
		in_stream__counts(s, &c);
		*incomplete |= tell(path, &c);
	}
	if (lost) {
		pr_warn("%s: %llu LOST rows: events are missing there, a block may only seem to "
			"live",
			cli__text(path), (unsigned long long)lost);
		*incomplete = true;
	}
	in_stream__close(s);
	in_set__free(&set);
	return err;
}

int offline__owners(const char *path, int (*fn)(void *ctx, const struct in_owner *o), void *ctx,
		    bool *incomplete)
{
	struct in_set set;
	uint64_t bad = 0;
	size_t i;
	int err;

	err = in_set__find(path, &set);
	if (err)
		return err;
	for (i = 0; i < set.n && !err; i++) {
		err = in_owners__each(set.paths[i], fn, ctx, &bad);
		if (bad)
			pr_warn("%s: %llu lines of the owners beside it are none and were left out",
				cli__text(set.paths[i]), (unsigned long long)bad);
		*incomplete |= bad;
	}
	in_set__free(&set);
	return err;
}

int offline__no_path(const char *cmd)
{
	pr_err("no DIR or FILE given: name a dump file, or the folder that it was written to");
	return cli__usage_error(cmd);
}

int offline__status(int err, bool incomplete, bool strict)
{
	if (err)
		return EXIT_FAIL;
	return incomplete && strict ? EXIT_INCOMPLETE : EXIT_OK;
}

void offline__title(const char *path, int n_paths)
{
	if (n_paths > 1)
		printf("== %s ==\n", cli__text(path));
}

const char *offline__device(int32_t device)
{
	static char bufs[4][24];
	static unsigned int next;
	char *buf = bufs[next++ % MT_ARRAY_SIZE(bufs)];

	if (device >= 0)
		snprintf(buf, sizeof(bufs[0]), "%d", device);
	else
		snprintf(buf, sizeof(bufs[0]), "%s",
			 device == DEV_HOST  ? "host"
			 : device == DEV_CPU ? "cpu"
					     : "N/A");
	return buf;
}

#define SEVERAL UINT64_MAX

void offline__use(struct hmap *users, int32_t device, uint32_t pid)
{
	bool fresh;
	uint64_t *v = hmap__put(users, (struct hkey){ (uint32_t)device, 0 }, &fresh);

	if (v && !fresh && *v != pid)
		*v = SEVERAL;
	else if (v)
		*v = pid;
}

bool offline__shared(const struct hmap *users, int32_t device)
{
	const uint64_t *v = hmap__get(users, (struct hkey){ (uint32_t)device, 0 });

	/* Without memory nobody knows: it is told which process is meant. */
	return !v || *v == SEVERAL;
}

static void print_stack(const char *title, const char *s)
{
	char line[PATH_MAX];
	const char *nl;

	if (!*s)
		return;
	printf("\t%s:\n", title);
	for (; *s; s = nl + (*nl == '\n')) {
		nl = strchrnul(s, '\n');
		snprintf(line, sizeof(line), "%.*s", (int)MT_MIN(nl - s, PATH_MAX - 1), s);
		printf("\t\t%s\n", cli__text(line));
	}
}

void offline__stacks(const struct texts *t, uint32_t py, uint32_t c)
{
	print_stack("Python", texts__get(t, py, NULL));
	print_stack("C", texts__get(t, c, NULL));
}

void offline__csv_text(FILE *f, const char *s, size_t n)
{
	bool quotes = memchr(s, ',', n) || memchr(s, '"', n) || memchr(s, '\n', n) ||
		      memchr(s, '\r', n);
	size_t i;

	if (quotes)
		putc('"', f);
	if (n && strchr("=+-@\t\r", *s))
		putc('\'', f);
	for (i = 0; i < n; i++) {
		if (s[i] == '"')
			putc('"', f);
		putc(s[i], f);
	}
	if (quotes)
		putc('"', f);
}
