// SPDX-License-Identifier: Apache-2.0
/* All output of a run: the dump, in one of two orders, and the trace. */
#include "output/journal.h"

#include <errno.h>
#include <stdlib.h>

struct out {
	struct out_opts opts;
	struct outdir dir;
	struct dump dump;
	struct journal journal;
	struct order *order; /* OUT_ORDER_BLOCK */
	struct trace *trace;
	struct sink owners; /* made with the first of them */
	char ts[16]; /* of the dump */
	bool made; /* the dump file and the journal exist */
	uint64_t seen; /* rows given to us that belong into the dump */
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
	o->dump.csv.fd = o->journal.s.fd = o->owners.fd = -1;
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
	int err;

	o->made = true;
	err = dump__create(&o->dump, &o->dir, &o->opts, o->ts);
	if (!err)
		err = journal__create(&o->journal, &o->dir, o->ts, &o->opts);
	if (!err && o->opts.order == OUT_ORDER_BLOCK) {
		o->order = order__new(&o->dump, o->opts.newer);
		if (!o->order)
			err = -ENOMEM;
	}
	return err;
}

int out__row(struct out *o, const struct row *r)
{
	int err = 0;

	if (o->opts.vendor && !row__is_vendor(r)) {
		o->not_vendor++;
		return 0;
	}
	o->seen++;
	if (o->err)
		return o->err;
	if (!o->made)
		err = make_dump(o);
	if (!err)
		err = o->order ? order__row(o->order, r) : dump__row(&o->dump, r);
	if (err)
		return fail(o, err, "the dump");
	/* The vendor's newer tool writes none. */
	if (o->opts.vendor && o->opts.newer)
		return 0;
	return fail(o, trace__row(o->trace, r), "the trace");
}

int out__label(struct out *o, uint32_t pid, enum row_type type, uint64_t ptr, const char *label)
{
	if (o->opts.order != OUT_ORDER_BLOCK)
		return -ENOTSUP;
	return o->order ? order__label(o->order, pid, type, ptr, label) : -ENOENT;
}

void out__waste(struct out *o, uint32_t pid, enum row_type type, uint64_t ptr, const char *waste)
{
	if (o->order)
		order__waste(o->order, pid, type, ptr, waste);
}

uint64_t out__waiting(const struct out *o)
{
	return o->order ? order__open_rows(o->order) : 0;
}

int out__owner(struct out *o, const struct out_owner *w)
{
	int err = 0;

	if (o->err)
		return o->err;
	if (!o->made)
		err = make_dump(o);
	if (!err && o->order)
		order__owner(o->order, w);
	if (err || o->opts.vendor)
		return fail(o, err, "the dump");
	if (o->owners.fd < 0)
		err = owners_file__create(&o->owners, &o->dir, o->ts);
	if (!err)
		err = owners_file__row(&o->owners, w);
	return fail(o, err, "the owners");
}

/* The dump, then the journal: see journal.h. */
static void flush_dump(struct out *o)
{
	int err;

	if (!o->made)
		return;
	err = dump__flush(&o->dump);
	fail(o, err, "the dump");
	if (o->order)
		fail(o, order__flush(o->order, &o->journal, !err && !o->err), "the journal");
	fail(o, sink__flush(&o->journal.s), "the journal");
	if (o->owners.fd >= 0)
		fail(o, sink__flush(&o->owners), "the owners");
}

int out__flush(struct out *o)
{
	flush_dump(o);
	return fail(o, trace__flush(o->trace), "the trace");
}

int out__process_end(struct out *o, uint32_t pid)
{
	if (!o->order || o->err)
		return o->err;
	return fail(o, order__finish(o->order, pid), "the dump");
}

int out__close(struct out *o)
{
	bool keep;
	int err;

	if (o->order && !o->err)
		fail(o, order__finish(o->order, 0), "the dump");
	out__flush(o);
	fail(o, trace__close(o->trace), "the trace");
	if (o->made) {
		fail(o, dump__close(&o->dump), "the dump");
		/* What waits in it can still be written when there is room again. */
		keep = o->err && o->order && order__open_rows(o->order);
		if (keep && !o->journal.s.err)
			pr_err("%llu rows wait in the journal: make room, then memtap recover %s",
			       (unsigned long long)order__open_rows(o->order), o->dir.path);
		fail(o, journal__close(&o->journal, keep), "the journal");
	}
	if (o->owners.fd >= 0)
		fail(o, sink__close(&o->owners), "the owners");
	order__free(o->order);
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
	uint64_t written = o->made ? o->dump.taken - dump__lost(&o->dump) : 0;
	uint64_t waiting = o->order && !o->err ? order__open_rows(o->order) : 0;

	if (rows)
		*rows = written;
	if (unwritten)
		*unwritten = o->seen - written - waiting;
	if (bytes)
		*bytes = (o->made ? dump__bytes(&o->dump) : 0) + trace__bytes(o->trace);
}

uint64_t out__left_out(const struct out *o)
{
	return trace__left_out(o->trace);
}

int out__error(const struct out *o)
{
	return o->err;
}
