// SPDX-License-Identifier: Apache-2.0
/* Memory of the host: malloc and free, and the ranges in which they are recorded (msleaks.md 10).
 */
#include "capture/capture.h"
#include "model/internal.h"

/* Sum of the process, also into the row. */
static void hold(struct process *p, struct row *r, int64_t by, uint64_t time)
{
	struct pool *q = pool__of(&p->host, DEV_HOST);

	if (!q)
		return;
	pool__change(q, by, time);
	r->held = q->used;
}

/*
 * A block of which nothing is known is freed: from before the range, or from a function that the
 * vendor's tool does not see. It has a row there all the same, without size and number.
 */
static void unknown(const struct model *m, struct row *r)
{
	r->device = DEV_HOST;
	if (!m->opts.vendor)
		return;
	r->attrs &= ~ATTR_PREATTACH;
	r->allocation_id = 0;
	r->size = 0;
}

void host__event(struct model *m, struct process *p, const struct event *e)
{
	struct row r;

	/* Of the functions the vendor's tool has malloc and free alone. */
	if (m->opts.vendor && e->key != MT_HOST_MALLOC && e->key != MT_HOST_CFREE) {
		m->counts.rules[RULE_FILTERED]++;
		return;
	}
	if (e->kind == EV_HOST_ALLOC) {
		if (!model__malloc_row(m, p, e, LAYER_HOST, ROW_HOST, DEV_HOST, &r))
			return;
		hold(p, &r, e->size, e->time);
	} else if (!model__free_row(m, p, e, LAYER_HOST, ROW_HOST, &r)) {
		unknown(m, &r);
	} else {
		hold(p, &r, -r.size, e->time);
		if (m->opts.vendor && !r.allocation_id)
			unknown(m, &r);
	}
	model__emit(m, p, &r, true);
}

void host__range(struct process *p, int by)
{
	p->host_open += (uint32_t)by;
}

bool host__wants(const struct process *p, const struct row *r)
{
	if (r->device != DEV_HOST)
		return false;
	/* Of a block that has a row, wherever it ends. */
	return r->event == ROW_FREE ? r->allocation_id != 0 : p->host_open != 0;
}

bool host__counts(const struct model *m, const struct process *p, const struct row *r)
{
	return !m->opts.vendor || m->opts.newer || r->device != DEV_HOST || p->host_open ||
	       model__wants(&p->wants, DEV_HOST);
}
