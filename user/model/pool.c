// SPDX-License-Identifier: Apache-2.0
/* Sums of pools by process and device. */
#include "model/internal.h"

#include <stdlib.h>

void pool__change(struct pool *q, int64_t by, uint64_t time)
{
	if (by < 0 && q->used < (uint64_t)-by)
		q->used = 0; /* blocks from before the attach */
	else
		q->used += (uint64_t)by;
	if (q->used > q->peak) {
		q->peak = q->used;
		q->peak_time = time;
	}
}

void pool__set(struct pool *q, int64_t used, int64_t total, uint64_t time)
{
	q->used = used > 0 ? (uint64_t)used : 0;
	q->total = total > 0 ? (uint64_t)total : 0;
	q->peak_total = MT_MAX(q->peak_total, q->total);
	if (q->used > q->peak) {
		q->peak = q->used;
		q->peak_time = time;
	}
}

struct pool *pool__of(struct pools *s, int32_t device)
{
	return device == DEV_HOST     ? pools__get(s, MAX_DEVICES)
	       : device < MAX_DEVICES ? pools__get(s, device)
				      : NULL;
}

struct pool *pool__summed(struct process *p, enum layer l, int32_t device)
{
	switch (l) {
	case LAYER_HAL:
	case LAYER_HANDLE:
		return pool__of(&p->hal, device);
	case LAYER_HOST_REG:
		return &p->pinned;
	case LAYER_HOST:
		return pool__of(&p->host, DEV_HOST);
	default:
		return NULL;
	}
}

/* ---- views ---- */

static size_t add_pools(const struct process *p, enum row_type type, const struct pools *s,
			bool partial, struct pool_state *out, size_t max)
{
	size_t i;

	for (i = 0; i < s->n && i < max; i++)
		out[i] = (struct pool_state){ .type = type,
					      .tgid = p->tgid,
					      .device = s->v[i].slot == MAX_DEVICES ? DEV_HOST
										    : s->v[i].slot,
					      .used = s->v[i].used,
					      .peak = s->v[i].peak,
					      .total = s->v[i].total,
					      .peak_total = s->v[i].peak_total,
					      .peak_time = s->v[i].peak_time,
					      .partial = partial || s->v[i].partial };
	return s->n;
}

size_t model__pools(const struct model *m, struct pool_state *out, size_t max)
{
	size_t i, j, n = 0;

	for (i = 0; i < m->n_procs; i++) {
		const struct process *p = m->procs[i];
		const struct {
			enum row_type type;
			const struct pools *pools;
			bool partial;
		} kinds[] = {
			{ ROW_HAL, &p->hal, true },	      { ROW_PTA, &p->pta, false },
			{ ROW_PTA_WORKSPACE, &p->ws, false }, { ROW_MINDSPORE, &p->ms, false },
			{ ROW_ATB, &p->atb, false },	      { ROW_HOST, &p->host, true }
		};

		for (j = 0; j < MT_ARRAY_SIZE(kinds); j++)
			n += add_pools(p, kinds[j].type, kinds[j].pools, kinds[j].partial,
				       n < max ? out + n : NULL, n < max ? max - n : 0);
	}
	return n;
}

/* Largest first; of equal ones the order of processes and pools is kept apart by PID. */
static int by_peak(const void *a, const void *b)
{
	const struct pool_state *x = a, *y = b;

	if (x->peak != y->peak)
		return x->peak < y->peak ? 1 : -1;
	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	return (x->device > y->device) - (x->device < y->device);
}

struct pool_state *model__pool_list(const struct model *m, size_t *n)
{
	struct pool_state *list;

	*n = model__pools(m, NULL, 0);
	list = calloc(*n + 1, sizeof(*list));
	if (!list) {
		*n = 0;
		return NULL;
	}
	model__pools(m, list, *n);
	qsort(list, *n, sizeof(*list), by_peak);
	return list;
}
