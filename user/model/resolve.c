// SPDX-License-Identifier: Apache-2.0
/* Frees whose record names another block than the one that was freed: which one it was. */
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "model/internal.h"

/* ---- merged blocks ---- */

/* Index of the first address that is not below. */
static size_t first_at(const struct addrs *a, uint64_t addr)
{
	size_t lo = 0, hi = a->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (a->v[mid] < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

void merged__add(struct process *p, uint64_t addr)
{
	struct addrs *a = &p->pta_live;
	size_t i = first_at(a, addr);

	if (i < a->n && a->v[i] == addr)
		return;
	if (a->n >= MAX_MERGED)
		return; /* as below */
	if (a->n == a->cap) {
		size_t cap = a->cap ? a->cap * 2 : 256;
		uint64_t *v = realloc(a->v, cap * sizeof(*v));

		if (!v)
			return; /* its free is then one of an unknown block, and counted */
		a->v = v;
		a->cap = cap;
	}
	memmove(a->v + i + 1, a->v + i, (a->n - i) * sizeof(*a->v));
	a->v[i] = addr;
	a->n++;
}

void merged__del(struct process *p, uint64_t addr)
{
	struct addrs *a = &p->pta_live;
	size_t i = first_at(a, addr);

	if (i == a->n || a->v[i] != addr)
		return;
	a->n--;
	memmove(a->v + i, a->v + i + 1, (a->n - i) * sizeof(*a->v));
}

bool merged__resolve(const struct model *m, const struct process *p, const struct pool *q,
		     struct event *e)
{
	const struct addrs *a = &p->pta_live;
	int64_t fell = q && q->prev ? q->prev_allocated - e->allocated : -1;
	const struct block *b, *one = NULL, *fits = NULL;
	uint64_t end = e->addr + (uint64_t)e->size;
	size_t first = first_at(a, e->addr), i, n = 0, n_fits = 0;

	for (i = first; i < a->n && a->v[i] < end; i++) {
		/* A segment has not so many: the range is made up. */
		if (i - first >= MERGED_LOOKED_AT) {
			n = 2;
			n_fits = 0;
			break;
		}
		b = model__live(m, p, LAYER_PTA, a->v[i]);
		if (!b || b->device != e->device)
			continue;
		n++;
		one = b;
		if (b->size == fell) {
			n_fits++;
			fits = b;
		}
	}
	/* Several: another thread took a part of it meanwhile. The total tells which one it was. */
	if (n != 1)
		one = n_fits == 1 ? fits : NULL;
	if (one) {
		e->addr = one->addr;
		e->size = one->size;
		return true;
	}
	e->size = fell > 0 && fell <= e->size ? fell : -1;
	return false;
}

/* ---- workspaces in use ---- */

void uses__add(struct process *p, const struct event *e)
{
	struct uses *u = &p->ws_uses;
	struct use *v;
	size_t i;

	for (i = 0; i < u->n && u->v[i].addr != e->addr; i++)
		;
	if (i >= MAX_WS_USES)
		return; /* as below */
	if (i == u->cap) {
		size_t cap = u->cap ? u->cap * 2 : 8;

		v = realloc(u->v, cap * sizeof(*v));
		if (!v)
			return; /* its free is taken as the record names it */
		u->v = v;
		u->cap = cap;
	}
	u->v[i] = (struct use){
		.addr = e->addr, .stream = e->stream, .tid = e->tid, .device = e->device
	};
	u->n = MT_MAX(u->n, i + 1);
}

/* The youngest that passes: this thread's, else the one that is named, else any of the device. */
static struct use *use_of(struct uses *u, const struct event *e)
{
	struct use *named = NULL, *other = NULL;
	size_t i;

	for (i = u->n; i-- > 0;) {
		struct use *x = &u->v[i];

		if (x->device != e->device)
			continue;
		if (x->tid == e->tid)
			return x;
		if (x->addr == e->addr)
			named = x;
		if (!other)
			other = x;
	}
	return named ? named : other;
}

void uses__resolve(struct process *p, struct event *e)
{
	struct uses *u = &p->ws_uses;
	struct use *x = use_of(u, e);

	if (!x)
		return;
	e->addr = x->addr;
	e->stream = x->stream;
	memmove(x, x + 1, (size_t)(u->v + u->n - (x + 1)) * sizeof(*x));
	u->n--;
}
