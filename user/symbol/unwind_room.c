// SPDX-License-Identifier: Apache-2.0
/*
 * Room in the arrays of an unwind_store: what is given back may still be read by a program that
 * runs right now, so it is used again only QUARANTINE later; mappings are also those of children
 * that have not been read yet.
 */
#include <stdlib.h>
#include <string.h>

#include "symbol/unwind_store.h"

#define QUARANTINE 200000000ULL /* ns; a program runs for microseconds */
/* Of all pages one file may have so many: 1 GiB of code. */
#define FILE_PAGES (MT_UW_MAX_PAGES / 8)
#define FILE_CHUNKS (MT_UW_MAX_CHUNKS / 4)

static struct held *hold(struct unwind_store *s, enum held_kind kind, struct span span)
{
	void *more;

	if (s->n_held == s->cap_held) {
		more = realloc(s->held, (s->cap_held + 64) * sizeof(*s->held));
		if (!more)
			return NULL; /* lost to us, harmless */
		s->held = more;
		s->cap_held += 64;
	}
	s->held[s->n_held] = (struct held){ .until = clock__boot() + QUARANTINE,
					    .span = span,
					    .kind = kind };
	return &s->held[s->n_held++];
}

void unwind_store__give(struct unwind_store *s, enum held_kind kind, struct span span)
{
	if (span.n)
		hold(s, kind, span);
}

void unwind_store__give_maps(struct unwind_store *s, struct uproc *p)
{
	struct held *h = p->maps.n ? hold(s, HELD_MAPS, p->maps) : NULL;

	if (h) {
		h->files = p->files;
		h->n_files = p->n_files;
	} else {
		free(p->files); /* without memory their tables stay for good */
	}
	s->stats.maps -= p->maps.n;
	p->files = NULL;
	p->n_files = 0;
	p->maps = (struct span){ 0 };
}

/* ---- who has mappings that were given back ---- */

static void on_owner(void *ctx, const struct mt_uw_proc *p)
{
	struct unwind_store *s = ctx;
	size_t i;

	for (i = 0; i < s->n_held; i++)
		if (s->held[i].kind == HELD_MAPS && p->n && s->held[i].span.first == p->first)
			s->held[i].in_use = true;
}

/*
 * A child has its parent's until it is read, which is done by this thread; a child of its own
 * may be entered behind our back where we have looked already: so twice.
 */
static void look_for_owners(struct unwind_store *s)
{
	size_t i;

	for (i = 0; i < s->n_held; i++)
		s->held[i].in_use = false;
	if (!s->sink.owners)
		return;
	s->sink.owners(s->sink.ctx, on_owner, s);
	s->sink.owners(s->sink.ctx, on_owner, s);
}

static void free_maps(struct unwind_store *s, struct held *h)
{
	uint32_t i;

	for (i = 0; i < h->n_files; i++)
		s->files[h->files[i] - 1]->procs--;
	free(h->files);
	spans__give(&s->maps, h->span.first, h->span.n);
}

void unwind_store__settle(struct unwind_store *s)
{
	uint64_t now = clock__boot();
	size_t i, kept = 0;
	bool looked = false;

	for (i = 0; i < s->n_held; i++) {
		struct held *h = &s->held[i];

		if (h->until <= now && h->kind == HELD_MAPS && !looked) {
			look_for_owners(s);
			looked = true;
		}
		if (h->until <= now && h->kind == HELD_MAPS && h->in_use)
			h->until = now + QUARANTINE;
		if (h->until > now)
			s->held[kept++] = *h;
		else if (h->kind == HELD_CHUNK)
			s->chunks[h->span.first].held = false;
		else if (h->kind == HELD_PAGES)
			spans__give(&s->pages, h->span.first, h->span.n);
		else
			free_maps(s, h);
	}
	s->n_held = kept;
}

uint64_t unwind_store__next(const struct unwind_store *s, enum held_kind kind)
{
	uint64_t when = 0;
	size_t i;

	for (i = 0; i < s->n_held; i++)
		if (s->held[i].kind == kind && (!when || s->held[i].until < when))
			when = s->held[i].until;
	return when;
}

/* ---- tables ---- */

struct room unwind_room__of(const struct unwind_store *s, const struct unwind_table *t)
{
	struct room r = { .pages = t->n_pages, .chunks = s->open ? 0 : 1 };
	uint32_t filled = s->open ? s->filled : 0, i;

	for (i = 0; i < t->n_pages; i++) {
		if (t->pages[i].n > MT_UW_CHUNK - filled) {
			r.chunks++;
			filled = 0;
		}
		filled += t->pages[i].n;
	}
	return r;
}

static int by_first(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

static bool pages_fit(const struct unwind_store *s, uint32_t n, bool held)
{
	struct span *v = malloc((s->pages.n + s->n_held + 1) * sizeof(*v));
	uint32_t i, k = 0, run = 0, end = 0;
	bool fits = false;
	size_t h;

	if (!v)
		return false;
	for (i = 0; i < s->pages.n; i++)
		v[k++] = s->pages.free[i];
	for (h = 0; held && h < s->n_held; h++)
		if (s->held[h].kind == HELD_PAGES)
			v[k++] = s->held[h].span;
	qsort(v, k, sizeof(*v), by_first);
	for (i = 0; i < k && !fits; i++) {
		run = (run && v[i].first == end ? run : 0) + v[i].n;
		end = v[i].first + v[i].n;
		fits = run >= n;
	}
	free(v);
	return fits;
}

bool unwind_room__fits(const struct unwind_store *s, struct room need, bool held)
{
	uint32_t i, chunks = 0;

	for (i = 0; i < s->n_chunks; i++) {
		if (s->open && i == s->chunk_no)
			continue;
		chunks += !s->chunks[i].rows && (held || !s->chunks[i].held);
	}
	return chunks >= need.chunks && pages_fit(s, need.pages, held);
}

bool unwind_room__too_large(const struct unwind_store *s, struct room need)
{
	return need.pages > FILE_PAGES || need.chunks > FILE_CHUNKS || need.chunks > s->n_chunks;
}

/* The table that was needed least lately goes; false if all are in use. */
static bool evict(struct unwind_store *s)
{
	struct ufile *old = NULL;
	uint32_t i;

	for (i = 0; i < s->n_files; i++) {
		struct ufile *f = s->files[i];

		if (f->n_pages && !f->procs && f->used <= s->since && (!old || f->used < old->used))
			old = f;
	}
	if (!old)
		return false;
	unwind_store__take_away(s, old);
	old->evicted = true;
	s->stats.evicted++;
	return true;
}

uint64_t unwind_room__make(struct unwind_store *s, struct room need)
{
	uint64_t when = 0;
	size_t i;

	while (!unwind_room__fits(s, need, true))
		if (!evict(s)) /* the mappings of one that has ended may be the last that need it */
			return unwind_store__next(s, HELD_MAPS);
	for (i = 0; i < s->n_held; i++)
		if (s->held[i].kind != HELD_MAPS && s->held[i].until > when)
			when = s->held[i].until;
	return when ? when : clock__boot();
}
