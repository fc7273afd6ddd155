// SPDX-License-Identifier: Apache-2.0
/* Events to rows: live blocks, pools, devices, ranges; every event a row or a rule. */
#include "model/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "model/internal.h"

const char *rule__name(enum rule r)
{
	static const char *const names[RULE_MAX] = {
		[RULE_FAILED] = "failed calls",
		[RULE_BLOCK_FREE] = "PTA blocks back in the pool",
		[RULE_SEGMENT] = "workspace segments",
		[RULE_STATE] = "devices, streams and names learnt",
		[RULE_OTHER_POOL] = "MindSpore host pools",
		[RULE_NOT_FREED] = "MindSpore frees that wait or find nothing",
		[RULE_PART] = "MindSpore blocks cut apart",
		[RULE_CROWDED] = "MindSpore pools and parts beyond what is kept",
		[RULE_FILTERED] = "filtered by options",
		[RULE_PAUSED] = "outside of start and stop",
		[RULE_WITHDRAWN] = "withdrawn probes",
		[RULE_DOUBTED] = "processes that tell nonsense",
		[RULE_LIFECYCLE] = "process lifecycle",
	};

	return r < RULE_MAX ? names[r] : "unknown";
}

struct model *model__new(const struct model_opts *opts, const struct model_ops *ops, void *ctx)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->opts = *opts;
	m->ops = *ops;
	m->ctx = ctx;
	m->next_block = 1;
	m->paused = opts->paused;
	return m;
}

void model__free(struct model *m)
{
	size_t i;

	if (!m)
		return;
	for (i = 0; i < m->n_procs; i++)
		process__free(m->procs[i]);
	free(m->procs);
	hmap__free(&m->by_tgid);
	hmap__free(&m->live);
	free(m->blocks);
	free(m);
}

uint64_t model__real(const struct model *m, uint64_t boot)
{
	return boot + (uint64_t)m->opts.boot_to_real;
}

bool model__emit(struct model *m, struct process *p, struct row *r, bool is_event)
{
	/* The newer tool has the row only where its Python interface asks for it. */
	bool first = m->opts.vendor && !m->opts.newer && is_event && !p->started;

	if (first && r->type != ROW_ACL_INIT) {
		vendor__announce(m, p, r);
		first = false;
	}
	if (!model__is_wanted(m, p, r, is_event)) {
		if (is_event)
			m->counts.rules[p->paused ? RULE_PAUSED : RULE_FILTERED]++;
		/* The vendor numbers marks before it looks whether they are wanted. */
		if (m->opts.vendor && r->event == ROW_MSTX && !p->paused)
			p->next_id++;
		if (p->paused)
			shadow__gone(m, p, r);
		if (first)
			vendor__announce(m, p, r);
		return false;
	}
	if (m->opts.vendor)
		vendor__dress(m, r);
	if (is_event && m->opts.stacks && m->refs &&
	    (r->event == ROW_MALLOC || r->event == ROW_FREE || r->event == ROW_OOM_DETAIL)) {
		r->attrs |= ATTR_STACKS;
		r->stack_c = m->refs->c;
		r->stack_py = m->refs->py;
		r->start = p->start;
	}
	if (!(r->attrs & ATTR_SHADOW))
		collect__own(m, p, r);
	r->id = ++p->next_id - (m->opts.vendor && m->opts.newer); /* there from 0 */
	r->pid = p->tgid;
	r->kernel_index = p->kernel_index;
	if (is_event) {
		m->counts.rows_events++;
		m->last_time = MT_MAX(m->last_time, r->time - (uint64_t)m->opts.boot_to_real);
	} else {
		m->counts.rows_extra++;
	}
	m->counts.by_type[r->type][r->event == ROW_FREE]++;
	m->ops.row(m->ctx, r);
	if (first)
		vendor__announce(m, p, r);
	return true;
}

void model__no_row(struct model *m, enum rule r)
{
	m->counts.rules[r]++;
}

static void system_row(struct model *m, struct process *p, enum row_type type, uint64_t time,
		       uint32_t tid, uint32_t nspid, bool is_event)
{
	struct row r = { .event = ROW_SYSTEM,
			 .type = type,
			 .time = model__real(m, time),
			 .tid = tid,
			 .device = DEV_NA };

	/* The vendor's tool begins at the first contact, and ends without a word. */
	if (m->opts.vendor && !is_event)
		return;
	if (nspid && nspid != p->tgid && !m->opts.vendor) {
		r.attrs |= ATTR_NSPID;
		r.nspid = nspid;
	}
	model__emit(m, p, &r, is_event);
}

static struct process *find(const struct model *m, uint32_t tgid, uint32_t start)
{
	const uint64_t *v = hmap__get(&m->by_tgid, (struct hkey){ tgid, start });

	return v ? m->procs[*v] : NULL;
}

/* parent: whose state it begins in, 0 = the common one. */
static struct process *meet(struct model *m, uint32_t tgid, uint32_t start, uint64_t time,
			    uint32_t parent)
{
	struct process *p = find(m, tgid, start);
	struct process_desc d = { 0 };
	uint64_t *v;
	void *more;

	if (p)
		return p;
	if (m->ops.describe)
		m->ops.describe(m->ctx, tgid, start, &d);
	p = process__new(tgid, start, d.visible);
	free(d.visible);
	if (!p)
		return NULL;
	more = realloc(m->procs, (m->n_procs + 1) * sizeof(*m->procs));
	if (more)
		m->procs = more;
	v = more ? hmap__put(&m->by_tgid, (struct hkey){ tgid, start }, NULL) : NULL;
	if (!v) {
		process__free(p);
		return NULL;
	}
	p->index = (uint32_t)m->n_procs;
	*v = m->n_procs;
	m->procs[m->n_procs++] = p;
	p->started = !m->opts.vendor;
	p->segments = d.segments;
	collect__begin(m, p);
	if (parent)
		collect__forked(m, p, parent);
	system_row(m, p, p->paused ? ROW_STOP_TRACE : ROW_START_TRACE, time, tgid, d.nspid, false);
	return p;
}

struct process *model__meet(struct model *m, uint32_t tgid, uint32_t start, uint64_t time)
{
	return meet(m, tgid, start, time, 0);
}

int model__process(struct model *m, uint32_t tgid, uint32_t start, uint64_t time)
{
	return model__meet(m, tgid, start, time) ? 0 : -ENOMEM;
}

bool model__knows(const struct model *m, uint32_t tgid, uint32_t start)
{
	return find(m, tgid, start);
}

uint32_t model__start(const struct model *m, uint32_t tgid)
{
	size_t i;

	for (i = m->n_procs; i-- > 0;)
		if (m->procs[i]->tgid == tgid)
			return m->procs[i]->start;
	return 0;
}

void model__segments(struct model *m, uint32_t tgid, uint32_t start)
{
	struct process *p = find(m, tgid, start);

	if (p)
		p->segments = true;
}

/* ---- marks ---- */

static void on_mark(struct model *m, struct process *p, const struct event *e)
{
	struct row r = { .event = ROW_MSTX,
			 .type = ROW_MARK,
			 .name = e->text,
			 .name_len = e->text_len,
			 .time = model__real(m, e->time),
			 .tid = e->tid,
			 .device = process__device(p, e->tid, e->stream) };

	if (e->flags & EVF_NOTEXT) {
		r.attrs = ATTR_NOTE;
		r.note = "message unreadable";
	} else if (e->flags & EVF_TRUNC) {
		r.attrs = ATTR_NOTE;
		r.note = "message cut";
	}
	if (m->opts.vendor)
		r.attrs = 0;
	if (e->kind == EV_RANGE_START) {
		struct range g = { .lib_id = e->key,
				   .domain = (uint64_t)e->size, /* a[1] of the wire record */
				   .begin = r.time,
				   .kernel_index = p->kernel_index,
				   .tid = e->tid,
				   .py = e->flags & EVF_PY };

		p->next_range = MT_MAX(p->next_range + 1, e->key);
		g.id = e->key ? e->key : p->next_range;
		if (e->text_len == 10 && memcmp(e->text, "step start", 10) == 0)
			g.step_id = ++p->step;
		g.host = e->text_len == sizeof(MT_HOST_RANGE) - 1 &&
			 !memcmp(e->text, MT_HOST_RANGE, e->text_len);
		model__enter_step(m, p, g.step_id);
		if (!process__open_range(p, &g))
			m->counts.ranges_over++;
		else if (g.host)
			host__range(p, 1);
		r.type = ROW_RANGE_START;
		r.range_id = g.id;
		r.step_id = g.step_id;
	}
	model__emit(m, p, &r, true);
}

static void on_range_end(struct model *m, struct process *p, const struct event *e)
{
	struct range g = { 0 };
	char name[64];
	bool found = process__close_range(p, e->tid, e->key, (uint64_t)e->size, e->flags & EVF_PY,
					  &g);
	struct row r = { .event = ROW_MSTX,
			 .type = ROW_RANGE_END,
			 .time = model__real(m, e->time),
			 .tid = e->tid,
			 .device = process__device(p, e->tid, e->stream) };

	if (!found && e->key && (e->flags & EVF_PY))
		found = process__close_range(p, e->tid, 0, (uint64_t)e->size, true, &g);
	if (!found)
		m->counts.unpaired_ranges++;
	else if (g.host)
		host__range(p, -1);
	/* As the vendor has it: the end is outside already. */
	if (g.step_id && g.step_id == p->chosen)
		p->chosen = 0;
	r.range_id = found ? g.id : e->key;
	r.step_id = g.step_id;
	r.begin_time = found ? g.begin : r.time;
	r.begin_kernel = found ? g.kernel_index : p->kernel_index;
	r.name_len = (uint32_t)snprintf(name, sizeof(name), "Range end from id %llu",
					(unsigned long long)r.range_id);
	r.name = name;
	model__emit(m, p, &r, true);
}

/* ---- launches ---- */

static void on_launch(struct model *m, struct process *p, const struct event *e)
{
	struct row r = { .event = ROW_KERNEL_LAUNCH,
			 .type = ROW_KERNEL,
			 .time = model__real(m, e->time),
			 .tid = e->tid,
			 .device = process__device(p, e->tid, e->stream),
			 .attrs = ATTR_KERNEL,
			 .stream_id = -1,
			 .stream = e->stream };
	const char *known = NULL;
	const uint64_t *id;
	char name[96];

	if (e->ret) {
		m->counts.rules[RULE_FAILED]++;
		m->counts.failures[1]++;
		return;
	}
	if (p->paused || !(p->wants.level & LEVEL_KERNEL) || !(p->wants.events & EVENTS_LAUNCH) ||
	    !model__in_step(m, p)) {
		m->counts.rules[p->paused ? RULE_PAUSED : RULE_FILTERED]++;
		return;
	}
	p->kernel_index++;
	id = hmap__get(&p->streams, (struct hkey){ e->stream, 0 });
	if (id)
		r.stream_id = (int64_t)*id - 1;
	if (e->stream && !m->opts.vendor)
		r.attrs |= ATTR_STREAM;
	if (e->text_len) {
		r.name = e->text;
		r.name_len = e->text_len;
	} else {
		known = e->addr ? process__find_name(p, e->addr) : NULL;
		if (known) {
			r.name = known;
			r.name_len = (uint32_t)strlen(known);
		} else {
			static const char *const what[] = { "kernel", "handle", "stub", "program",
							    "name" };
			int n = snprintf(name, sizeof(name), "%s:0x%llx",
					 what[e->name_kind <= MT_NAME_STRING ? e->name_kind : 0],
					 (unsigned long long)e->addr);

			if (e->name_kind == MT_NAME_PROGRAM)
				n += snprintf(name + n, sizeof(name) - (size_t)n, "+%llu",
					      (unsigned long long)e->key);
			r.name = name;
			r.name_len = (uint32_t)n;
		}
	}
	model__emit(m, p, &r, true);
}

/* One that is paused has its row already. */
static void end_row(struct model *m, struct process *p, uint64_t time)
{
	if (!p->paused)
		system_row(m, p, ROW_STOP_TRACE, time, p->tgid, 0, false);
}

static void on_exit_process(struct model *m, struct process *p, uint64_t time)
{
	if (p->ended)
		return;
	p->ended = true;
	ms__finish(m, p);
	end_row(m, p, time);
	shadow__end(m, p, model__real(m, time));
	model__drop_blocks(m, p);
	process__end(p);
	process__no_sums(p);
	if (m->ops.ended)
		m->ops.ended(m->ctx, p->tgid);
}

/* A new program under the same PID: what the old one held is gone with it. */
static void on_exec(struct model *m, struct process *p)
{
	struct process_desc d = { 0 };

	ms__finish(m, p);
	model__drop_blocks(m, p);
	process__forget(p);
	p->chosen = 0;
	collect__begin(m, p);
	if (m->ops.describe)
		m->ops.describe(m->ctx, p->tgid, p->start, &d);
	/* It may have ended since: then what was known is the best guess. */
	if (d.nspid) {
		process__devices(p, d.visible);
		p->segments = d.segments;
	}
	free(d.visible);
	if (m->ops.ended)
		m->ops.ended(m->ctx, p->tgid);
}

static void learn(struct model *m, struct process *p, const struct event *e)
{
	uint64_t *v;

	m->counts.rules[e->ret ? RULE_FAILED : RULE_STATE]++;
	if (e->ret) {
		m->counts.failures[1]++;
		return;
	}
	switch (e->kind) {
	case EV_SET_DEVICE:
		process__set_device(p, e->tid, e->device);
		break;
	case EV_STREAM_ID:
		v = hmap__put(&p->streams, (struct hkey){ e->stream, 0 }, NULL);
		if (v)
			*v = (uint64_t)(e->stream_id + 1);
		break;
	default:
		if (e->text_len)
			process__name(p, e->addr, e->text, e->text_len);
	}
}

int model__event(struct model *m, const struct event *e)
{
	struct process *p;

	if (e->kind == EV_FORK || e->kind == EV_EXEC || e->kind == EV_EXIT) {
		m->counts.rules[RULE_LIFECYCLE]++;
		if (e->kind == EV_EXIT) {
			p = find(m, e->tgid, e->start);
			if (p)
				on_exit_process(m, p, e->time);
			return 0;
		}
		if (e->kind == EV_EXEC) {
			p = find(m, e->tgid, e->start);
			if (p)
				on_exec(m, p);
			return 0;
		}
	}
	p = meet(m, e->tgid, e->start, e->time, e->kind == EV_FORK ? (uint32_t)e->addr : 0);
	if (!p)
		return -ENOMEM;
	m->refs = &e->refs;
	switch (e->kind) {
	case EV_ACL_INIT:
	case EV_ACL_FINI:
		if (e->ret) {
			m->counts.rules[RULE_FAILED]++;
			m->counts.failures[1]++;
			break;
		}
		p->acl |= e->kind == EV_ACL_INIT;
		system_row(m, p, e->kind == EV_ACL_INIT ? ROW_ACL_INIT : ROW_ACL_FINI, e->time,
			   e->tid, 0, true);
		break;
	case EV_SET_DEVICE:
	case EV_STREAM_ID:
	case EV_FUNC_NAME:
		learn(m, p, e);
		break;
	case EV_MARK:
	case EV_RANGE_START:
	case EV_RANGE_END:
		if (e->ret) {
			m->counts.rules[RULE_FAILED]++;
			m->counts.failures[1]++;
		} else if (e->kind == EV_RANGE_END) {
			on_range_end(m, p, e);
		} else {
			on_mark(m, p, e);
		}
		break;
	case EV_LAUNCH:
		on_launch(m, p, e);
		break;
	case EV_OOM:
		model__oom(m, p, e);
		break;
	case EV_FORK:
		collect__forked(m, p, (uint32_t)e->addr);
		break;
	case EV_ASK:
		collect__event(m, p, e);
		break;
	case EV_ATB_START:
	case EV_ATB_END:
	case EV_ATB_KERNEL_START:
	case EV_ATB_KERNEL_END:
	case EV_ATB_TENSOR:
	case EV_ATB_MALLOC:
	case EV_ATB_FREE:
		atb__event(m, p, e);
		break;
	default:
		if (!ops__event(m, p, e))
			model__memory(m, p, e);
	}
	m->refs = NULL;
	return 0;
}

void model__stop(struct model *m, uint64_t time)
{
	size_t i;

	/* A probe that was past its filter may have read the clock behind the stop. */
	time = MT_MAX(time, m->last_time);
	for (i = 0; i < m->n_procs; i++) {
		struct process *p = m->procs[i];

		if (p->ended)
			continue;
		/* Its exit may still be delivered: one STOP_TRACE is enough. */
		p->ended = true;
		ms__finish(m, p);
		end_row(m, p, time);
		shadow__end(m, p, model__real(m, time));
	}
}

void model__counts(const struct model *m, struct model_counts *c)
{
	*c = m->counts;
	c->live_blocks = m->live.n;
}
