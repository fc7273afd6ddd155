// SPDX-License-Identifier: Apache-2.0
/* What a process or its user asks for: start, stop, steps, labels of owners, snapshots. */
#include "model/internal.h"

#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"

/* A request: of the process itself (an event), or from outside. */
struct ask {
	unsigned int what; /* enum mt_ask */
	uint64_t value, time; /* boot time */
	uint32_t tid;
	const char *text; /* not NUL-terminated */
	size_t len;
	bool is_event;
};

void collect__begin(const struct model *m, struct process *p)
{
	p->paused = m->paused;
	p->wants = (struct model_wants){ .level = m->opts.level,
					 .events = m->opts.events,
					 .npus = m->opts.npus,
					 .cpu = m->opts.cpu,
					 .npu_slots = m->opts.npu_slots };
}

/* A child has the memory of its parent, so it is in the state that this had. */
void collect__forked(const struct model *m, struct process *p, uint32_t parent)
{
	size_t i;

	for (i = m->n_procs; i-- > 0;) {
		if (m->procs[i]->tgid != parent || m->procs[i] == p)
			continue;
		p->paused = m->procs[i]->paused;
		p->wants = m->procs[i]->wants;
		return;
	}
}

bool collect__passes(const struct model *m, const struct row *r)
{
	/* V-seed has its marks and SYSTEM rows always, V-now none (msleaks.md 17.16). */
	if (r->event == ROW_SNAPSHOT)
		return true;
	return !(m->opts.vendor && m->opts.newer) &&
	       (r->event == ROW_MSTX || r->event == ROW_SYSTEM);
}

bool model__all_paused(const struct model *m)
{
	size_t i;

	if (!m->paused)
		return false;
	for (i = 0; i < m->n_procs; i++)
		if (!m->procs[i]->ended && !m->procs[i]->paused)
			return false;
	return true;
}

uint64_t model__starts(const struct model *m)
{
	return m->starts;
}

/* ---- labels ---- */

static struct labels *labels_of(const struct process *p, uint32_t tid)
{
	size_t i;

	for (i = 0; i < p->n_labels; i++)
		if (p->labels[i].tid == tid)
			return &p->labels[i];
	return NULL;
}

static struct labels *labels_new(struct process *p, uint32_t tid)
{
	struct labels *l;

	if (p->n_labels >= MAX_LABEL_THREADS)
		return NULL;
	l = realloc(p->labels, (p->n_labels + 1) * sizeof(*l));
	if (!l)
		return NULL;
	p->labels = l;
	l += p->n_labels++;
	*l = (struct labels){ .tid = tid };
	return l;
}

static size_t label_len(const struct model *m, size_t len)
{
	return MT_MIN(len, m->opts.vendor && !m->opts.newer ? 64u : MAX_LABEL);
}

static struct label *find_label(struct labels *l, const char *text, size_t len)
{
	unsigned int i;

	for (i = 0; l && i < l->n; i++)
		if (strlen(l->v[i].text) == len && !memcmp(l->v[i].text, text, len))
			return &l->v[i];
	return NULL;
}

static void enter(struct model *m, struct process *p, const struct ask *a)
{
	struct labels *l = labels_of(p, a->tid);
	size_t len = label_len(m, a->len);
	struct label *known = find_label(l, a->text, len);

	if (known) {
		known->depth++;
		return;
	}
	if (!l)
		l = labels_new(p, a->tid);
	if (!l || l->n == MAX_LABELS || !len) {
		m->counts.labels_over++;
		return;
	}
	memcpy(l->v[l->n].text, a->text, len);
	l->v[l->n].text[len] = '\0';
	l->v[l->n++].depth = 1;
}

static void leave(struct model *m, struct process *p, const struct ask *a)
{
	struct labels *l = labels_of(p, a->tid);
	struct label *known = find_label(l, a->text, label_len(m, a->len));

	/* One that was dropped. */
	if (!known || --known->depth)
		return;
	memmove(known, known + 1, (size_t)(l->v + l->n - known - 1) * sizeof(*known));
	if (--l->n)
		return;
	*l = p->labels[--p->n_labels];
}

void collect__own(struct model *m, const struct process *p, struct row *r)
{
	const struct labels *l = p->n_labels ? labels_of(p, r->tid) : NULL;
	const char *own = r->attrs & ATTR_OWNER && r->owner ? r->owner : "";
	unsigned int i;
	int n;

	if (!l || r->event != ROW_MALLOC || r->type == ROW_HOST_PINNED)
		return;
	n = snprintf(m->owner, sizeof(m->owner), "%.64s", own);
	for (i = 0; i < l->n; i++)
		n += snprintf(m->owner + n, sizeof(m->owner) - (size_t)n, "@%s", l->v[i].text);
	r->attrs |= ATTR_OWNER;
	r->owner = m->owner;
}

/* The pool that has a block there: of tensors first. */
static void label_block(struct model *m, struct process *p, const struct ask *a)
{
	static const struct {
		enum layer layer;
		enum row_type type;
	} kinds[] = { { LAYER_PTA, ROW_PTA },
		      { LAYER_WS, ROW_PTA_WORKSPACE },
		      { LAYER_MS, ROW_MINDSPORE },
		      { LAYER_HAL, ROW_HAL } };
	size_t i, len = label_len(m, a->len);
	char text[MAX_LABEL + 1];

	memcpy(text, a->text, len);
	text[len] = '\0';
	/* As the vendor has it: labels of blocks go with the analysis. */
	if (m->opts.vendor && !m->opts.owners)
		return;
	for (i = 0; len && i < MT_ARRAY_SIZE(kinds); i++) {
		if (!model__live(m, p, kinds[i].layer, a->value))
			continue;
		if (m->ops.label)
			m->ops.label(m->ctx, p->tgid, kinds[i].type, a->value, text);
		return;
	}
	m->counts.labels_over++;
}

/* ---- start, stop, steps ---- */

static struct row system_row(const struct model *m, const struct process *p, const struct ask *a,
			     enum row_type type)
{
	(void)p;
	return (struct row){ .event = ROW_SYSTEM,
			     .type = type,
			     .time = model__real(m, a->time),
			     .tid = a->tid,
			     .device = DEV_NA };
}

/* The next number of a list, in *at; -1 for none or one that is no number of bytes. */
static int64_t next_number(const char **at, const char *end)
{
	uint64_t v = 0;
	const char *p = *at;

	while (p < end && *p >= '0' && *p <= '9' && v < (uint64_t)1 << 56)
		v = v * 10 + (uint64_t)(*p++ - '0');
	if (p == *at || (p < end && *p != ',')) {
		v = UINT64_MAX;
		while (p < end && *p != ',')
			p++;
	}
	*at = p < end ? p + 1 : end;
	return (int64_t)v;
}

static bool turn(struct model *m, struct process *p, const struct ask *a)
{
	bool start = a->what == MT_ASK_START;
	struct row r = system_row(m, p, a, start ? ROW_START_TRACE : ROW_STOP_TRACE);
	const char *at = a->text, *end = a->text + a->len;
	bool wrote;

	if (p->paused == !start)
		return false;
	if (m->opts.vendor && !m->opts.newer && !p->started)
		vendor__announce(m, p, &r);
	if (start && m->opts.vendor && m->opts.newer && a->len) {
		r.snapshot.free = next_number(&at, end);
		r.snapshot.total = next_number(&at, end);
		r.attrs = ATTR_FREE_TOTAL;
	}
	/* As V-seed has it: what is left of a block is told as another. */
	p->window += m->opts.vendor && !m->opts.newer;
	p->paused = false;
	if (start)
		shadow__start(m, p, r.time);
	wrote = model__emit(m, p, &r, a->is_event);
	p->paused = !start;
	return wrote || a->is_event;
}

static bool step(struct model *m, struct process *p, const struct ask *a)
{
	struct row r = system_row(m, p, a, ROW_STEP);
	char number[24];

	/* V-seed has the function, and does nothing in it. */
	if (m->opts.vendor && !m->opts.newer)
		return false;
	/* One ends and the next begins: the first began with the process (msleaks.md 6.1). */
	p->step = MT_MAX(p->step, 1) + 1;
	p->chosen = 0;
	model__enter_step(m, p, p->step);
	r.device = process__device(p, a->tid, 0);
	r.name_len = (uint32_t)snprintf(number, sizeof(number), "%llu",
					(unsigned long long)++p->asked_steps);
	r.name = number;
	model__emit(m, p, &r, a->is_event);
	return true;
}

/* ---- snapshots and marks ---- */

static bool snapshot_row(struct model *m, struct process *p, const struct ask *a, int32_t device,
			 const struct snapshot *s, const char *name, size_t len)
{
	struct row r = { .event = ROW_SNAPSHOT,
			 .type = ROW_SNAP,
			 .time = model__real(m, a->time),
			 .tid = a->tid,
			 .device = device,
			 .name = len ? name : "Memory Snapshot",
			 .name_len = len ? (uint32_t)len : 15,
			 .attrs = ATTR_SNAPSHOT,
			 .snapshot = *s };

	model__emit(m, p, &r, a->is_event);
	return true;
}

/* With what was seen of its pools: where there is one, the allocator's, else the driver's memory.
 */
static bool snapshot_seen(struct model *m, struct process *p, const struct ask *a, int32_t device,
			  const char *name, size_t len)
{
	const struct pools *s = p->pta.n ? &p->pta : p->ms.n ? &p->ms : &p->hal;
	bool told = s != &p->hal, any = false;
	size_t i;

	for (i = 0; i < s->n; i++) {
		const struct pool *q = &s->v[i];
		struct snapshot x = { .reserved = (int64_t)(told ? q->total : q->used),
				      .max_reserved = (int64_t)(told ? q->peak_total : q->peak),
				      .allocated = (int64_t)q->used,
				      .max_allocated = (int64_t)q->peak,
				      .total = -1,
				      .free = -1 };

		if (q->slot == MAX_DEVICES || (device != DEV_NA && q->slot != device))
			continue;
		/* One event has one row. */
		if (any && a->is_event)
			break;
		any = snapshot_row(m, p, a, q->slot, &x, name, len);
	}
	return any;
}

/* With what the process itself knows. */
static bool snapshot_told(struct model *m, struct process *p, const struct ask *a)
{
	const char *at = a->text, *end = a->text + a->len;
	int32_t device = a->value < MAX_DEVICES ? (int32_t)a->value : process__device(p, a->tid, 0);
	struct snapshot s;

	s.reserved = next_number(&at, end);
	s.max_reserved = next_number(&at, end);
	s.allocated = next_number(&at, end);
	s.max_allocated = next_number(&at, end);
	s.total = next_number(&at, end);
	s.free = next_number(&at, end);
	/* Without a framework it knows nothing. */
	if (s.reserved < 0 && s.allocated < 0)
		return snapshot_seen(m, p, a, device, at, (size_t)(end - at));
	return snapshot_row(m, p, a, device, &s, at, (size_t)(end - at));
}

static bool mark(struct model *m, struct process *p, const struct ask *a)
{
	struct row r = { .event = ROW_MSTX,
			 .type = ROW_MARK,
			 .name = a->text,
			 .name_len = (uint32_t)a->len,
			 .time = model__real(m, a->time),
			 .tid = a->tid,
			 .device = process__device(p, a->tid, 0) };

	model__emit(m, p, &r, a->is_event);
	return true;
}

/* True: it had its row, or was counted as one that is left out. */
static bool apply(struct model *m, struct process *p, const struct ask *a)
{
	switch (a->what) {
	case MT_ASK_START:
	case MT_ASK_STOP:
		return turn(m, p, a);
	case MT_ASK_STEP:
		return step(m, p, a);
	case MT_ASK_ENTER:
		enter(m, p, a);
		return false;
	case MT_ASK_LEAVE:
		leave(m, p, a);
		return false;
	case MT_ASK_LABEL:
		label_block(m, p, a);
		return false;
	case MT_ASK_CONFIG:
		if (m->ops.config)
			m->ops.config(m->ctx, p->tgid, a->text, a->len, &p->wants);
		return false;
	case MT_ASK_SNAPSHOT:
		return a->is_event ? snapshot_told(m, p, a)
				   : snapshot_seen(m, p, a, DEV_NA, a->text, a->len);
	case MT_ASK_MARK:
		return mark(m, p, a);
	default:
		return false;
	}
}

void collect__event(struct model *m, struct process *p, const struct event *e)
{
	struct ask a = { .what = (unsigned int)e->key,
			 .value = e->addr,
			 .time = e->time,
			 .tid = e->tid,
			 .text = e->text,
			 .len = e->text_len,
			 .is_event = true };

	m->starts += a.what == MT_ASK_START;
	if (!apply(m, p, &a))
		m->counts.rules[RULE_STATE]++;
}

size_t model__ask(struct model *m, unsigned int what, uint32_t tgid, const char *text,
		  uint64_t time)
{
	struct ask a = { .what = what, .time = time, .text = text, .len = strlen(text) };
	size_t i, n = 0;

	if (!tgid && (what == MT_ASK_START || what == MT_ASK_STOP))
		m->paused = what == MT_ASK_STOP;
	for (i = 0; i < m->n_procs; i++) {
		struct process *p = m->procs[i];

		if (p->ended || (tgid && p->tgid != tgid))
			continue;
		a.tid = p->tgid;
		apply(m, p, &a);
		n++;
	}
	return n;
}
