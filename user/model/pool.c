// SPDX-License-Identifier: Apache-2.0
/* Sums of pools by process and device. */
#include "model/internal.h"

void pool__change(struct pool *q, int64_t by, uint64_t time)
{
	q->met = true;
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
	q->met = true;
	q->used = used > 0 ? (uint64_t)used : 0;
	q->total = total > 0 ? (uint64_t)total : 0;
	q->peak_total = MT_MAX(q->peak_total, q->total);
	if (q->used > q->peak) {
		q->peak = q->used;
		q->peak_time = time;
	}
}

struct pool *pool__of(struct pool *array, int32_t device)
{
	return device >= 0 && device < MAX_DEVICES ? &array[device] : NULL;
}

struct pool *pool__summed(struct process *p, enum layer l, int32_t device)
{
	switch (l) {
	case LAYER_HAL:
	case LAYER_HANDLE:
		return device == DEV_HOST ? &p->hal[MAX_DEVICES] : pool__of(p->hal, device);
	case LAYER_MS:
		return pool__of(p->ms, device);
	default:
		return NULL;
	}
}

/* ---- views ---- */

static size_t add_pools(const struct process *p, enum row_type type, const struct pool *array,
			size_t n, bool partial, struct pool_state *out, size_t max)
{
	size_t i, k = 0;

	for (i = 0; i < n && k < max; i++)
		if (array[i].met)
			out[k++] = (struct pool_state){ .type = type,
							.tgid = p->tgid,
							.device = i == MAX_DEVICES ? DEV_HOST
										   : (int32_t)i,
							.used = array[i].used,
							.peak = array[i].peak,
							.total = array[i].total,
							.peak_total = array[i].peak_total,
							.peak_time = array[i].peak_time,
							.partial = partial };
	return k;
}

size_t model__pools(const struct model *m, struct pool_state *out, size_t max)
{
	size_t i, n = 0;

	for (i = 0; i < m->n_procs; i++) {
		const struct process *p = m->procs[i];

		n += add_pools(p, ROW_HAL, p->hal, MAX_DEVICES + 1, true, out + n, max - n);
		n += add_pools(p, ROW_PTA, p->pta, MAX_DEVICES, false, out + n, max - n);
		n += add_pools(p, ROW_PTA_WORKSPACE, p->ws, MAX_DEVICES, false, out + n, max - n);
		n += add_pools(p, ROW_MINDSPORE, p->ms, MAX_DEVICES, true, out + n, max - n);
	}
	return n;
}
