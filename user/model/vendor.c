// SPDX-License-Identifier: Apache-2.0
/* Which rows are wanted: steps, devices, and what the vendor's tools have; how these look. */
#include "capture/capture.h"
#include "model/internal.h"

bool model__wants(const struct model_wants *w, int32_t device)
{
	if (device == DEV_NA || (!w->npus && !w->npu_slots && !w->cpu))
		return true;
	if (device == DEV_HOST || device == DEV_CPU)
		return w->cpu;
	return w->npus || (device < 32 && (w->npu_slots >> device & 1));
}

bool model__in_step(const struct model *m, const struct process *p)
{
	return !m->opts.n_steps || p->chosen;
}

void model__enter_step(struct model *m, struct process *p, uint64_t step)
{
	unsigned int i;

	for (i = 0; step && i < m->opts.n_steps; i++)
		if (m->opts.steps[i] == step)
			p->chosen = step;
}

bool model__is_wanted(const struct model *m, const struct process *p, const struct row *r,
		      bool is_event)
{
	/* What is lost is in the account, so it is in the rows of `record`. */
	if (r->type == ROW_LOST)
		return !m->opts.vendor;
	if (m->opts.vendor &&
	    (r->attrs & ATTR_PREATTACH || (r->type == ROW_HOST_PINNED && !m->opts.newer)))
		return false;
	if (p->paused && is_event && !collect__passes(m, r))
		return false;
	/* The frame of the rows of `record`; the vendor has it inside of steps only. */
	if (!model__in_step(m, p) && (is_event || m->opts.vendor))
		return false;
	/* Where nobody asks for them there are no events of them. */
	if (r->type == ROW_HOST ||
	    (m->opts.vendor && !m->opts.newer && r->type == ROW_HAL && host__wants(p, r)))
		return true;
	return model__wants(&p->wants, r->device);
}

void vendor__announce(struct model *m, struct process *p, const struct row *first)
{
	struct row r = { .event = ROW_SYSTEM,
			 .type = p->paused ? ROW_STOP_TRACE : ROW_START_TRACE,
			 .time = first->time,
			 .tid = first->tid,
			 .device = DEV_NA };

	p->started = true;
	model__emit(m, p, &r, false);
}

void vendor__dress(struct model *m, struct row *r)
{
	if (m->opts.owners && r->event == ROW_MALLOC && r->type != ROW_HOST_PINNED &&
	    r->type != ROW_HOST && !(r->attrs & ATTR_OWNER)) {
		r->attrs |= ATTR_OWNER;
		r->owner = row_type__name(r->type);
	}
	if (!(r->attrs & ATTR_BLOCK))
		return;
	/* A block has its number from its first row: what is left out takes none. */
	if (!r->allocation_id && (r->type != ROW_HOST || r->event == ROW_MALLOC))
		r->allocation_id = ++m->next_allocation;
	if ((r->event == ROW_MALLOC || r->event == ROW_ACCESS) && r->block)
		m->blocks[r->block].allocation_id = r->allocation_id;
}

bool vendor__hal(struct model *m, const struct event *e, struct row *r)
{
	if (!m->opts.vendor)
		return true;
	if (e->flags & EVF_CREATE && !m->opts.newer) {
		m->counts.rules[RULE_FILTERED]++;
		return false;
	}
	if (m->opts.newer && r->device == DEV_HOST) {
		r->type = ROW_HOST_PINNED;
		r->device = DEV_CPU;
		r->attrs = ATTR_BLOCK | ATTR_PINNED | (r->attrs & ATTR_PREATTACH);
	}
	return true;
}
