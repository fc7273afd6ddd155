// SPDX-License-Identifier: Apache-2.0
/*
 * Throughput of the writers: synthetic rows into a folder, rows per second of
 * CPU time as a Markdown table row each.
 *
 *   bench_writer [ROWS [DIR]]    DIR is emptied by the caller; default: a new
 *                                folder in $TMPDIR or /tmp, removed at the end
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/base.h"
#include "output/internal.h"

#define LIVE 4096

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Row i of a training-like stream: pool blocks come and go, some launches. */
static void make_row(struct row *r, uint64_t i, bool with_trace)
{
	uint64_t slot = (i / 2) % LIVE;

	r->id = i + 1;
	r->time = 1795977008516726324ULL + i * 731;
	r->event = i & 1 ? ROW_FREE : ROW_MALLOC;
	/* Workspace blocks give no trace event: that leaves the dump alone. */
	r->type = with_trace ? ROW_PTA : ROW_PTA_WORKSPACE;
	r->ptr = 20616937734144ULL + slot * 512;
	r->allocation_id = i / 2 + 1;
	r->size = 512 * (int64_t)(1 + slot);
	r->used = 1024 * slot;
	r->total = 1073741824;
}

struct result {
	double seconds;
	uint64_t rows, bytes;
};

static int run(const char *dir, struct out_opts opts, uint64_t n, bool with_trace,
	       struct result *res)
{
	struct row r = {
		.pid = 25559, .tid = 25559, .attrs = ATTR_BLOCK | ATTR_POOL, .stream_id = -1
	};
	struct out *o;
	double start;
	uint64_t i;
	int err;

	opts.dir = dir;
	opts.start_real = 1795977008516726000ULL;
	err = out__open(&opts, &o);
	if (err)
		return err;
	start = cpu_seconds();
	for (i = 0; i < n; i++) {
		make_row(&r, i, with_trace);
		out__row(o, &r);
		if (i % 50000 == 49999)
			out__flush(o);
	}
	out__flush(o);
	res->seconds = cpu_seconds() - start;
	out__counts(o, &res->rows, NULL, &res->bytes);
	return out__close(o);
}

/* Formatting alone: what is written goes nowhere. */
static int run_null(uint64_t n, struct result *res)
{
	struct row r = { .pid = 25559, .tid = 25559, .attrs = ATTR_BLOCK | ATTR_POOL };
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC), err;
	uint64_t guarded = 0, i;
	struct sink s;
	double start;

	if (fd < 0)
		return -errno;
	err = sink__init(&s, fd, 0);
	if (err)
		return err;
	start = cpu_seconds();
	for (i = 0; i < n; i++) {
		make_row(&r, i, false);
		csv__row(&s, &r, false, &guarded);
	}
	err = sink__flush(&s);
	res->seconds = cpu_seconds() - start;
	res->rows = n;
	res->bytes = s.size;
	sink__close(&s);
	return err;
}

static void print_row(const char *name, const struct result *r)
{
	printf("| %s | %llu | %.2f M | %.0f | %.0f |\n", name, (unsigned long long)r->rows,
	       (double)r->rows / r->seconds / 1e6, (double)r->bytes / r->seconds / 1e6,
	       r->seconds * 1e9 / (double)r->rows);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct result null;
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;
	const char *tmp = getenv("TMPDIR");
	char dir[256], cmd[300];
	static const struct {
		const char *name;
		struct out_opts opts;
		bool trace;
		unsigned int divide;
	} cases[] = {
		{ "csv, time order", { .format = OUT_CSV }, false, 1 },
		{ "csv, block order", { .format = OUT_CSV, .order = OUT_ORDER_BLOCK }, false, 1 },
		{ "csv and trace, real axis", { .format = OUT_CSV }, true, 1 },
		{ "db, time order", { .format = OUT_DB }, false, 4 },
		{ "db, block order", { .format = OUT_DB, .order = OUT_ORDER_BLOCK }, false, 4 },
	};
	int err = 0;
	size_t i;

	snprintf(dir, sizeof(dir), "%s/memtap-bench-XXXXXX", tmp ? tmp : "/tmp");
	if (argc > 2)
		snprintf(dir, sizeof(dir), "%s", argv[2]);
	else if (!mkdtemp(dir))
		return 1;
	log__set_level(LOG_ERROR);
	printf("| writer | rows | rows/s | MB/s | ns/row |\n|---|---|---|---|---|\n");
	err = run_null(n, &null);
	if (!err)
		print_row("csv, into /dev/null", &null);
	for (i = 0; i < MT_ARRAY_SIZE(cases) && !err; i++) {
		struct result r;

		err = run(dir, cases[i].opts, n / cases[i].divide, cases[i].trace, &r);
		print_row(cases[i].name, &r);
	}
	if (argc <= 2) {
		snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
		if (system(cmd))
			err = -EIO;
	}
	return err ? 1 : 0;
}
