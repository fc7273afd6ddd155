// SPDX-License-Identifier: Apache-2.0
/* What lives when an allocation fails: the youngest and the largest blocks of the process
 * (msleaks.md 11.3). */
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "model/internal.h"

/* As the vendor's: a job that frees its cache and tries again fails several times in a row. */
#define OOM_QUIET_NS 2000000000ULL

struct found {
	uint32_t block;
	enum layer layer;
	uint64_t time, size, addr;
};

static const char *pool_name(enum layer l)
{
	return row_type__name(layer__row_type(l));
}

/* The youngest first; of one time, and of one size, by address: the same whenever it is asked. */
static int by_time(const void *x, const void *y)
{
	const struct found *a = x, *b = y;

	if (a->time != b->time)
		return a->time > b->time ? -1 : 1;
	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

static int by_size(const void *x, const void *y)
{
	const struct found *a = x, *b = y;

	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return by_time(x, y);
}

static size_t collect(const struct model *m, const struct process *p, struct found *f)
{
	size_t pos = 0, n = 0;
	struct hkey k;
	uint64_t no;

	while (n < p->n_live && hmap__next(&m->live, &pos, &k, &no)) {
		const struct block *b = &m->blocks[no];

		if (k.b >> 8 != p->index || !model__wants(&p->wants, b->device))
			continue;
		f[n++] = (struct found){ .block = (uint32_t)no,
					 .layer = (enum layer)(k.b & 0xff),
					 .time = b->time,
					 .size = b->size > 0 ? (uint64_t)b->size : 0,
					 .addr = b->addr };
	}
	return n;
}

static void list(struct model *m, struct process *p, const struct event *e, const struct found *f,
		 size_t n, enum row_type type, const char *name)
{
	size_t i;

	for (i = 0; i < n && i < m->opts.oom_top; i++) {
		const struct block *b = &m->blocks[f[i].block];
		struct row r = { .event = ROW_OOM_DETAIL,
				 .type = type,
				 .name = name,
				 .name_len = (uint32_t)strlen(name),
				 .time = model__real(m, e->time),
				 .tid = e->tid,
				 .device = DEV_NA,
				 .attrs = ATTR_LISTED,
				 .owner = pool_name(f[i].layer),
				 .ptr = f[i].addr,
				 .size = (int64_t)f[i].size,
				 .begin_time = model__real(m, f[i].time) };

		if (m->opts.stacks) {
			r.attrs |= ATTR_STACKS;
			r.stack_c = b->refs.c;
			r.stack_py = b->refs.py;
			r.start = p->start;
		}
		model__emit(m, p, &r, false);
	}
}

void oom__lists(struct model *m, struct process *p, const struct event *e)
{
	struct found *f;
	size_t n;

	if (!m->opts.oom_top || (p->oom_time && e->time - p->oom_time < OOM_QUIET_NS))
		return;
	p->oom_time = e->time;
	f = malloc((p->n_live + 1) * sizeof(*f));
	if (!f)
		return;
	n = collect(m, p, f);
	qsort(f, n, sizeof(*f), by_time);
	list(m, p, e, f, n, ROW_OOM_RECENT, "OOM_RecentAlloc");
	qsort(f, n, sizeof(*f), by_size);
	list(m, p, e, f, n, ROW_OOM_TOP, "OOM_TopAlloc");
	free(f);
}

/*
 * What the allocator had, as V-now asks torch_npu for it: without torch it has no row. What the
 * device has is not to be read from outside.
 */
static void snapshot(struct model *m, struct process *p, const struct event *e, int32_t device)
{
	const struct pool *q = m->opts.newer ? pools__find(&p->pta, device) : NULL;
	struct row r = { .event = ROW_SNAPSHOT,
			 .type = ROW_SNAP,
			 .name = "OOM_Snapshot",
			 .name_len = 12,
			 .time = model__real(m, e->time),
			 .tid = e->tid,
			 .device = device,
			 .attrs = ATTR_SNAPSHOT };

	if (!q || p->paused || !(p->wants.events & EVENTS_ALLOC))
		return;
	r.snapshot = (struct snapshot){ .reserved = (int64_t)q->total,
					.max_reserved = (int64_t)q->peak_total,
					.allocated = (int64_t)q->used,
					.max_allocated = (int64_t)q->peak,
					.total = -1,
					.free = -1 };
	if (m->opts.stacks && m->refs) {
		r.attrs |= ATTR_STACKS;
		r.stack_c = m->refs->c;
		r.stack_py = m->refs->py;
		r.start = p->start;
	}
	model__emit(m, p, &r, false);
}

void model__oom(struct model *m, struct process *p, const struct event *e)
{
	struct row r = { .event = ROW_OOM_DETAIL,
			 .type = ROW_OOM_TRIGGER,
			 .name = "OOM_Trigger",
			 .name_len = 11,
			 .time = model__real(m, e->time),
			 .tid = e->tid,
			 .device = process__logical(p, e->tid, e->device),
			 .attrs = ATTR_OOM,
			 .oom_func = e->fn == MT_FN_HAL_CREATE ? "halMemCreate" : "halMemAlloc",
			 .oom_size = (uint64_t)e->size,
			 .oom_flag = e->hal_flag };

	m->counts.oom++;
	snapshot(m, p, e, r.device);
	/* V-seed has no row of what failed. */
	if (m->opts.vendor && !m->opts.oom) {
		m->counts.rules[RULE_FAILED]++;
		return;
	}
	if (model__emit(m, p, &r, true))
		oom__lists(m, p, e);
}
