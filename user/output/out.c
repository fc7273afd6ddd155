// SPDX-License-Identifier: Apache-2.0
/* All output of a run: the dump, in one of two orders, and the trace. */
#include "output/internal.h"

#include <errno.h>
#include <stdlib.h>

struct out {
	struct out_opts opts;
	struct outdir dir;
	struct dump dump;
	struct trace *trace;
	bool made;          /* the dump file exists */
	uint64_t rejected;  /* rows refused after a failure */
	uint64_t not_vendor; /* rows that the front end does not write */
	int err;
};

static int fail(struct out *o, int err, const char *what)
{
	if (!err || o->err)
		return o->err;
	o->err = err;
	pr_err("cannot write %s: %s; what is written stays, the rest is counted", what,
	       strerror(-err));
	return err;
}

int out__open(const struct out_opts *opts, struct out **out)
{
	struct out *o = calloc(1, sizeof(*o));
	int err;

	if (!o)
		return -ENOMEM;
	o->opts = *opts;
	o->dump.csv.fd = -1;
	err = outdir__open(&o->dir, opts->dir);
	if (err)
		goto fail;
	o->opts.dir = o->dir.path;
	err = trace__open(&o->dir, &o->opts, &o->trace);
	if (err)
		goto fail;
	*out = o;
	return 0;
fail:
	outdir__close(&o->dir);
	free(o);
	return err;
}

static int make_dump(struct out *o)
{
	char ts[16];

	o->made = true;
	return dump__create(&o->dump, &o->dir, &o->opts, ts);
}

int out__row(struct out *o, const struct row *r)
{
	int err = 0;

	if (o->err) {
		o->rejected++;
		return o->err;
	}
	if (o->opts.vendor && !row__is_vendor(r)) {
		o->not_vendor++;
		return 0;
	}
	if (!o->made)
		err = make_dump(o);
	if (!err)
		err = dump__row(&o->dump, r);
	if (err) {
		o->rejected++;
		return fail(o, err, "the dump");
	}
	return fail(o, trace__row(o->trace, r), "the trace");
}

int out__flush(struct out *o)
{
	int err = o->made ? dump__flush(&o->dump) : 0;

	fail(o, err, "the dump");
	return fail(o, trace__flush(o->trace), "the trace");
}

int out__process_end(struct out *o, uint32_t pid)
{
	return o->err;
}

int out__close(struct out *o)
{
	int err;

	out__flush(o);
	fail(o, trace__close(o->trace), "the trace");
	if (o->made)
		fail(o, dump__close(&o->dump), "the dump");
	err = o->err;
	outdir__close(&o->dir);
	free(o);
	return err;
}

const char *out__path(const struct out *o, unsigned int i)
{
	return i < o->dir.n_paths ? o->dir.paths[i] : NULL;
}

void out__counts(const struct out *o, uint64_t *rows, uint64_t *unwritten, uint64_t *bytes)
{
	uint64_t lost = o->made ? dump__lost(&o->dump) : 0;

	if (rows)
		*rows = o->dump.taken - lost;
	if (unwritten)
		*unwritten = o->rejected + lost;
	if (bytes)
		*bytes = (o->made ? dump__bytes(&o->dump) : 0) + trace__bytes(o->trace);
}

int out__error(const struct out *o)
{
	return o->err;
}
