// SPDX-License-Identifier: Apache-2.0
/*
 * Rows that V-now makes up (msleaks.md 11.2): at a start a MALLOC of what lives and a FREE of what
 * went while nothing was collected, at the end a FREE of what lives still.
 */
#include "model/internal.h"

#include <stdlib.h>
#include <string.h>

#define MAX_GONE (1u << 20) /* of one process: some 40 MiB */

static bool wanted(const struct model *m, const struct process *p)
{
	return m->opts.vendor && m->opts.newer && !m->opts.n_steps &&
	       p->wants.events & EVENTS_ALLOC;
}

static void keep(struct model *m, struct process *p, const struct gone *g)
{
	struct gone *v;

	if (p->n_gone == MAX_GONE) {
		m->counts.gone_over++;
		return;
	}
	if (p->n_gone == p->cap_gone) {
		p->cap_gone = p->cap_gone ? p->cap_gone * 2 : 64;
		v = realloc(p->gone, p->cap_gone * sizeof(*v));
		if (!v) {
			p->cap_gone = p->n_gone;
			m->counts.gone_over++;
			return;
		}
		p->gone = v;
	}
	p->gone[p->n_gone++] = *g;
}

void shadow__gone(struct model *m, struct process *p, const struct row *r)
{
	const struct gone g = { .ptr = r->ptr,
				.size = r->size,
				.allocation_id = r->allocation_id,
				.device = r->device,
				.type = (uint8_t)r->type };

	/* Without a number it had no MALLOC row. */
	if (wanted(m, p) && r->event == ROW_FREE && r->allocation_id)
		keep(m, p, &g);
}

static void free_row(struct model *m, struct process *p, const struct gone *g, uint64_t time)
{
	struct row r = { .event = ROW_FREE,
			 .type = (enum row_type)g->type,
			 .time = time,
			 .tid = p->tgid,
			 .device = g->device,
			 .ptr = g->ptr,
			 .size = g->size,
			 .allocation_id = g->allocation_id,
			 .attrs = ATTR_BLOCK | ATTR_SHADOW };

	model__emit(m, p, &r, false);
}

/* As its own rows say it: vendor__hal(). */
static enum row_type type_of(const struct block *b, enum layer l, int32_t *device)
{
	*device = b->device;
	if (b->device != DEV_HOST)
		return layer__row_type(l);
	*device = DEV_CPU;
	return ROW_HOST_PINNED;
}

void shadow__replaced(struct model *m, struct process *p, enum layer l, const struct block *b,
		      uint64_t time)
{
	struct gone g = { .ptr = b->addr, .size = b->size, .allocation_id = b->allocation_id };

	if (!wanted(m, p) || !b->allocation_id)
		return;
	g.type = (uint8_t)type_of(b, l, &g.device);
	if (p->paused)
		keep(m, p, &g);
	else
		free_row(m, p, &g, time);
}

static void free_gone(struct model *m, struct process *p, uint64_t time)
{
	size_t i;

	for (i = 0; i < p->n_gone; i++)
		free_row(m, p, &p->gone[i], time);
	p->n_gone = 0;
}

/* ---- live blocks ---- */

struct found {
	uint64_t time;
	uint32_t no;
	enum layer layer;
};

/* The oldest first; memory of the driver before the pool that lies in it. */
static int by_time(const void *x, const void *y)
{
	const struct found *a = x, *b = y;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return a->layer != b->layer ? (a->layer < b->layer ? -1 : 1)
				    : (a->no > b->no) - (a->no < b->no);
}

/* Those of a process that have a row, or have none; malloced, *n of them. */
static struct found *live(const struct model *m, const struct process *p, bool have, size_t *n)
{
	struct found *f = p->n_live ? malloc(p->n_live * sizeof(*f)) : NULL;
	size_t pos = 0, seen = 0;
	struct hkey k;
	uint64_t no;

	*n = 0;
	while (f && seen < p->n_live && hmap__next(&m->live, &pos, &k, &no)) {
		if (k.b >> 8 != p->index)
			continue;
		seen++;
		if (have == (m->blocks[no].allocation_id != 0))
			f[(*n)++] = (struct found){ .time = m->blocks[no].time,
						    .no = (uint32_t)no,
						    .layer = (enum layer)(k.b & 0xff) };
	}
	if (*n)
		qsort(f, *n, sizeof(*f), by_time);
	return f;
}

static void malloc_row(struct model *m, struct process *p, const struct found *f, uint64_t time)
{
	const struct block *b = &m->blocks[f->no];
	struct row r = { .event = ROW_MALLOC,
			 .time = time,
			 .tid = p->tgid,
			 .ptr = b->addr,
			 .size = b->size,
			 .block = f->no,
			 .attrs = ATTR_BLOCK | ATTR_SHADOW };

	r.type = type_of(b, f->layer, &r.device);
	if (r.type == ROW_HAL) {
		r.owner = b->owner;
		r.page_type = model__page(b->page);
		/* The vendor's says create of all. */
		r.alloc_type = f->layer == LAYER_HANDLE ? "create" : "alloc";
		r.attrs |= ATTR_PAGE | (m->opts.owners && b->owner ? ATTR_OWNER : 0);
	}
	model__emit(m, p, &r, false);
}

void shadow__start(struct model *m, struct process *p, uint64_t time)
{
	struct found *f;
	size_t n, i;

	if (!wanted(m, p))
		return;
	free_gone(m, p, time);
	f = live(m, p, false, &n);
	for (i = 0; i < n; i++)
		malloc_row(m, p, &f[i], time);
	free(f);
}

void shadow__end(struct model *m, struct process *p, uint64_t time)
{
	struct found *f;
	size_t n, i;

	if (!wanted(m, p))
		return;
	free_gone(m, p, time);
	f = live(m, p, true, &n);
	/* The youngest first. */
	for (i = n; i-- > 0;) {
		const struct block *b = &m->blocks[f[i].no];
		struct gone g = { .ptr = b->addr,
				  .size = b->size,
				  .allocation_id = b->allocation_id };

		g.type = (uint8_t)type_of(b, f[i].layer, &g.device);
		free_row(m, p, &g, time);
	}
	free(f);
}
