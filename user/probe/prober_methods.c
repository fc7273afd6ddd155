// SPDX-License-Identifier: Apache-2.0
/*
 * Probes of Python methods whose table code fills in when the module is
 * imported: found in the memory of a process that has done so.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/prober.h"
#include "probe/pymethod.h"

/* What is unfilled in a file: two arrays of n. */
struct pymethods {
	struct probe_report **rep;
	struct pymethod *v;
	size_t n;
};

void methods__free(struct pymethods *ms)
{
	if (!ms)
		return;
	free(ms->rep);
	free(ms->v);
	free(ms);
}

/* Out of the list: it is found, or will never be. */
static void drop(struct pymethods *ms, size_t i)
{
	ms->rep[i]->unfilled = false;
	ms->n--;
	ms->rep[i] = ms->rep[ms->n];
	ms->v[i] = ms->v[ms->n];
}

/* A text of its own in read-only data, or only the end of a longer one? */
static bool stands_alone(const struct elf_image *img, const struct addr_set *at)
{
	size_t i;

	for (i = 0; i < at->n; i++) {
		const uint8_t *p = elf_image__at(img, at->v[i] - 1, 1);

		if (p && !*p)
			return true;
	}
	return false;
}

void methods__settle(struct batch *b, int fd)
{
	struct probed_file *f = b->file;
	struct pymethods *ms;
	size_t i, n = 0;

	for (i = 0; i < f->n_reports; i++)
		n += f->reports[i].unfilled;
	if (!n)
		return;
	ms = calloc(1, sizeof(*ms));
	if (ms) {
		ms->rep = calloc(n, sizeof(*ms->rep));
		ms->v = calloc(n, sizeof(*ms->v));
	}
	if (!ms || !ms->rep || !ms->v) {
		methods__free(ms);
		return;
	}
	for (i = 0; i < f->n_reports; i++) {
		struct probe_report *rep = &f->reports[i];
		struct pymethod *m = &ms->v[ms->n];

		if (!rep->unfilled)
			continue;
		ms->rep[ms->n++] = rep;
		m->name = rep->symbol;
		pymethod__names(b->img, m->name, &m->at);
		rep->sure = stands_alone(b->img, &m->at);
		snprintf(rep->why, sizeof(rep->why),
			 m->at.over ? "its name stands in too many places"
				    : "in no method table yet: code fills one in at import");
		if (m->at.over)
			drop(ms, ms->n - 1);
	}
	f->unfilled = ms->n;
	f->methods = ms;
	file__keep(f, fd);
}

uint64_t methods__found(const struct probed_file *f, const struct probe_report *rep)
{
	const struct pymethods *ms = f->methods;
	size_t i;

	for (i = 0; ms && i < ms->n; i++)
		if (ms->rep[i] == rep)
			return ms->v[i].twice ? 0 : ms->v[i].fn;
	return 0;
}

struct same {
	const struct prober *pr;
	const struct probed_file *f;
};

static bool is_same(void *ctx, int fd)
{
	const struct same *s = ctx;

	return prober__file_of(s->pr, fd) == s->f;
}

/* Code that a probe of another batch sees already is not probed again. */
static void take_offsets(struct batch *b)
{
	size_t i;

	for (i = 0; i < b->file->n_reports; i++) {
		const struct probe_report *r = &b->file->reports[i];

		if (strcmp(r->state, "attached") == 0 || strcmp(r->state, "found") == 0)
			hmap__put(&b->offsets, (struct hkey){ r->off, r->def->fn }, NULL);
	}
}

/* What was found is no longer looked for, nor what cannot be told apart. */
static void settle_found(struct probed_file *f, uint64_t now)
{
	struct pymethods *ms = f->methods;
	size_t i;

	for (i = ms->n; i-- > 0;) {
		struct probe_report *rep = ms->rep[i];

		if (ms->v[i].twice)
			snprintf(rep->why, sizeof(rep->why),
				 "method tables name several functions so");
		else if (!ms->v[i].fn)
			continue;
		if (strcmp(rep->state, "attached") == 0)
			rep->time = now;
		drop(ms, i);
	}
	f->unfilled = ms->n;
}

int prober__look(struct prober *pr, unsigned int no, pid_t pid)
{
	struct probed_file *f = no < pr->n_files ? pr->files[no] : NULL;
	struct batch b = { .pr = pr, .file = f, .pid = pid, .what = BATCH_METHODS };
	struct same s = { pr, f };
	int n;

	if (!f || !f->unfilled || f->fd < 0)
		return 0;
	n = elf_image__open_fd(f->fd, f->path, &b.img);
	if (!n)
		n = pymethod__look(b.img, pid, is_same, &s, f->methods->v, f->methods->n);
	if (n > 0) {
		b.py_minor = pymethod__python_minor(f->path, pid);
		take_offsets(&b);
		batch__run(&b, f->fd);
	}
	if (n >= 0)
		settle_found(f, clock__boot());
	if (b.full)
		pr_warn("%s: more than %d probe sites; some of its Python functions are not probed",
			f->path, MT_MAX_SITES);
	batch__free(&b);
	return n;
}
