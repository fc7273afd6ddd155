// SPDX-License-Identifier: Apache-2.0
/*
 * Files that a process has mapped more than once (dlmopen, or by itself): each place but one
 * has a number of its own, so that a frame tells in which of them it was. The rows are those
 * of the file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/unwind_store.h"

#define MAX_TWINS 16 /* glibc has so many namespaces; what is more shares the last number */

static uint32_t base_of(const struct unwind_store *s, uint32_t no)
{
	const struct ufile *f = s->files[no - 1];

	return f->base ? f->base : no;
}

/* The number for one place more. 0: none is to be had. */
static uint32_t next_twin(struct unwind_store *s, uint32_t no)
{
	struct ufile *f = s->files[no - 1], *twin;

	if (f->twin)
		return f->twin;
	twin = unwind_store__add(s, f->path);
	if (!twin)
		return 0;
	s->stats.files--; /* it is no other file */
	twin->dev = f->dev;
	twin->ino = f->ino;
	twin->base = base_of(s, no);
	f->twin = twin->no;
	if (s->sink.twin)
		s->sink.twin(s->sink.ctx, twin->no, twin->base);
	return twin->no;
}

/* Does a mapping have this number, and lie elsewhere? */
static bool is_taken(const struct mt_uw_map *v, uint32_t n, uint32_t no, uint64_t bias)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (v[i].file == no)
			return v[i].bias != bias;
	return false;
}

uint32_t unwind_twins__number(struct unwind_store *s, const struct mt_uw_map *v, uint32_t n,
			      uint32_t file, uint64_t bias)
{
	uint32_t i, next, no = base_of(s, file);

	for (i = 0; i < MAX_TWINS && is_taken(v, n, no, bias); i++) {
		next = next_twin(s, no);
		if (!next)
			break;
		no = next;
	}
	return no;
}

/* Is a file mapped at two places? */
static bool has_twins(const struct mt_uw_map *v, uint32_t n)
{
	struct hmap first = { 0 };
	bool fresh, found = false;
	uint32_t i;
	uint64_t *at;

	for (i = 0; i < n && !found; i++) {
		if (!v[i].file)
			continue;
		at = hmap__put(&first, (struct hkey){ v[i].file, 0 }, &fresh);
		if (!at)
			break;
		if (fresh)
			*at = v[i].bias;
		found = *at != v[i].bias;
	}
	hmap__free(&first);
	return found;
}

static int by_start(const void *a, const void *b)
{
	const struct mt_uw_map *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

int unwind_twins__assign(struct unwind_store *s, const struct mt_uw_map *old, uint32_t n_old,
			 struct mt_uw_map *v, uint32_t n)
{
	struct mt_uw_map *done, *was;
	uint32_t i, n_done = 0;
	bool *kept;
	int err = -ENOMEM;

	/* A place keeps its number for as long as it is there. */
	for (i = 0; i < n_old && !(old[i].file && s->files[old[i].file - 1]->base); i++)
		;
	if (i == n_old && !has_twins(v, n))
		return 0;
	done = malloc(n * sizeof(*done) + 1);
	kept = calloc(n + 1, sizeof(*kept));
	if (!done || !kept)
		goto out;
	for (i = 0; i < n; i++) {
		was = n_old ? bsearch(&v[i], old, n_old, sizeof(*old), by_start) : NULL;
		if (!v[i].file || !was || !was->file || was->bias != v[i].bias ||
		    base_of(s, was->file) != v[i].file)
			continue;
		v[i].file = was->file;
		kept[i] = true;
		done[n_done++] = v[i];
	}
	for (i = 0; i < n; i++) {
		if (!v[i].file || kept[i])
			continue;
		v[i].file = unwind_twins__number(s, done, n_done, v[i].file, v[i].bias);
		done[n_done++] = v[i];
	}
	err = 0;
out:
	free(done);
	free(kept);
	return err;
}
