// SPDX-License-Identifier: Apache-2.0
/* Rows that tell what is missing: where they stand, and on which devices. */
#include "model/internal.h"

/* Devices of which anything was seen in a process. */
static uint64_t devices_of(const struct process *p)
{
	uint64_t set = 0;
	const struct pools *kinds[] = { &p->hal, &p->pta, &p->ws, &p->ms, &p->atb };
	size_t i, j;

	for (i = 0; i < MT_ARRAY_SIZE(kinds); i++)
		for (j = 0; j < kinds[i]->n; j++)
			if (kinds[i]->v[j].slot < MAX_DEVICES)
				set |= 1ULL << kinds[i]->v[j].slot;
	return set;
}

/*
 * One row: a loss that is the capture's must not multiply by processes. It stands
 * at one that lives, if there is one.
 */
static struct process *lost_at(struct model *m, const struct lost_row *l, uint64_t *devices)
{
	struct process *p = NULL;
	size_t i;

	if (l->tgid) {
		p = model__meet(m, l->tgid, l->start, MT_MAX(l->now, m->last_time));
		*devices = p ? devices_of(p) : 0;
		return p;
	}
	for (i = m->n_procs; i-- > 0;) {
		if (!p || p->ended)
			p = m->procs[i];
		*devices |= devices_of(m->procs[i]);
	}
	return p;
}

bool model__lost(struct model *m, const struct lost_row *l)
{
	struct row r = { .event = ROW_SYSTEM,
			 .type = ROW_LOST,
			 /* Behind all rows of events, for they are in the order of time. */
			 .time = model__real(m, MT_MAX(l->now, m->last_time)),
			 .device = DEV_NA,
			 .attrs = ATTR_LOST,
			 .lost_reason = l->reason,
			 .lost_probe = l->probe,
			 .lost_count = l->count,
			 .lost_first = model__real(m, l->first),
			 .lost_last = model__real(m, l->last),
			 .lost_cpu = l->cpu,
			 .lost_library = l->library };
	uint64_t devices = 0;
	struct process *p = lost_at(m, l, &devices);
	int32_t i;

	if (!p)
		return false;
	r.tid = p->tgid;
	if (l->device >= 0)
		r.device = l->physical ? process__logical(p, 0, l->device) : l->device;
	model__emit(m, p, &r, false);
	if (r.device != DEV_NA || m->opts.vendor)
		return true;
	/* Each device's view shows that something, perhaps its own, is missing. */
	r.lost_count = 0;
	for (i = 0; i < MAX_DEVICES; i++) {
		if (!(devices >> i & 1) || !model__wants(&p->wants, i))
			continue;
		r.device = i;
		model__emit(m, p, &r, false);
	}
	return true;
}
