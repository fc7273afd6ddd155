// SPDX-License-Identifier: Apache-2.0
/* ATB: runners and kernels with their paths, accesses to tensors, workspaces of operations. */
#include "model/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "capture/capture.h"

/* What a process may make us remember; beyond it names and paths are N/A. */
#define MAX_THREADS 1024u
#define MAX_DEPTH 32u
#define MAX_WORKSPACES 256u
#define PATH_LEN 768

/* An execution on a thread; ended ones stay until the next begins, their tensors come behind. */
struct run {
	uint64_t sp, runner;
	bool kernel;
	uint32_t name_len;
	char name[MT_ATB_NAME + 24];
	char path[PATH_LEN]; /* empty: not known */
};

struct atb_thread {
	uint32_t tid;
	struct run *v; /* the outermost first */
	unsigned int n;
};

struct atb {
	struct atb_thread *threads;
	size_t n;
	unsigned int oldest; /* when there are as many as can be */
	uint64_t live[MAX_WORKSPACES]; /* addresses */
	size_t n_live;
};

void atb__forget(struct process *p)
{
	size_t i;

	for (i = 0; p->runs && i < p->runs->n; i++)
		free(p->runs->threads[i].v);
	if (p->runs)
		free(p->runs->threads);
	free(p->runs);
	p->runs = NULL;
}

static struct atb *atb_of(struct process *p)
{
	if (!p->runs)
		p->runs = calloc(1, sizeof(*p->runs));
	return p->runs;
}

static struct atb_thread *thread_of(struct process *p, uint32_t tid)
{
	struct atb *a = atb_of(p);
	struct atb_thread *t;
	size_t i;

	for (i = 0; a && i < a->n; i++)
		if (a->threads[i].tid == tid)
			return &a->threads[i];
	if (!a)
		return NULL;
	/* Threads come and go: the place of the one that came first is the next one's. */
	if (a->n == MAX_THREADS) {
		t = &a->threads[a->oldest++ % MAX_THREADS];
		free(t->v);
		*t = (struct atb_thread){ .tid = tid };
		return t;
	}
	t = realloc(a->threads, (a->n + 1) * sizeof(*t));
	if (!t)
		return NULL;
	a->threads = t;
	t = &t[a->n++];
	*t = (struct atb_thread){ .tid = tid };
	return t;
}

static struct run *run_at(const struct atb_thread *t, uint64_t sp, bool kernel)
{
	unsigned int i;

	for (i = t ? t->n : 0; i-- > 0;)
		if (t->v[i].sp == sp && t->v[i].kernel == kernel)
			return &t->v[i];
	return NULL;
}

/* The stack grows down: what stands at this place or below it is over. */
static struct run *run_new(struct atb_thread *t, const struct mt_atb *r, bool kernel)
{
	struct run *v;

	while (t && t->n && t->v[t->n - 1].sp <= r->sp)
		t->n--;
	if (!t || t->n >= MAX_DEPTH)
		return NULL;
	v = realloc(t->v, (t->n + 1) * sizeof(*v));
	if (!v)
		return NULL;
	t->v = v;
	v = &v[t->n++];
	*v = (struct run){ .sp = r->sp, .runner = r->runner, .kernel = kernel };
	return v;
}

static bool is_dir(const struct mt_atb *r)
{
	return memchr(r->dir, '/', r->dir_len);
}

/*
 * Where ATB would save tensors to, which the vendor's tool makes it compute: of an operation
 * <device>_<pid>/<executions before>/<its number>_<its name>, of a node of a graph that of the
 * graph and /<number>_<name>. With ATB's own dump on it stands in the runner.
 */
static void runner_path(const struct process *p, const struct atb_thread *t, const struct run *self,
			const struct event *e, char out[PATH_LEN])
{
	const struct mt_atb *r = e->atb;
	int32_t device = process__device(p, e->tid, 0);
	/* An end has been counted already. */
	uint64_t count = r->count - (e->kind == EV_ATB_END && r->count);
	const struct run *outer = NULL;
	char dev[16] = "?";
	unsigned int i;

	out[0] = '\0';
	if (is_dir(r)) {
		snprintf(out, PATH_LEN, "%.*s", r->dir_len, r->dir);
		return;
	}
	if (!r->ids || !r->name_len)
		return;
	if (device >= 0)
		snprintf(dev, sizeof(dev), "%d", device);
	if (r->ids == 1) {
		snprintf(out, PATH_LEN, "%s_%u/%" PRIu64 "/%" PRId64 "_%.*s", dev, p->tgid, count,
			 (int64_t)r->id, r->name_len, r->name);
		return;
	}
	for (i = t ? t->n : 0; i-- > 0 && !outer;)
		if (t->v[i].sp > r->sp && !t->v[i].kernel && &t->v[i] != self)
			outer = &t->v[i];
	/* One whose begin was not seen has no known path, and so have those inside. */
	if (!outer || !outer->path[0] ||
	    snprintf(out, PATH_LEN, "%s/%" PRId64 "_%.*s", outer->path, (int64_t)r->id, r->name_len,
		     r->name) >= PATH_LEN)
		out[0] = '\0';
}

/* "<number>_<kernel>", and its path without the ending. */
static void kernel_texts(const struct atb_thread *t, const struct mt_atb *r, struct run *k)
{
	const char *dir = NULL;
	int len = 0, n;
	unsigned int i;

	n = snprintf(k->name, sizeof(k->name), "%" PRIu64 "_%.*s", (uint64_t)r->count, r->name_len,
		     r->name);
	k->name_len = n > 0 ? (uint32_t)MT_MIN((size_t)n, sizeof(k->name) - 1) : 0;
	if (is_dir(r)) {
		dir = r->dir;
		len = r->dir_len;
	}
	for (i = t ? t->n : 0; i-- > 0 && !dir;)
		if (t->v[i].runner == r->runner && !t->v[i].kernel && t->v[i].path[0]) {
			dir = t->v[i].path;
			len = (int)strlen(dir);
		}
	if (!dir || snprintf(k->path, sizeof(k->path), "%.*s/%s", len, dir, k->name) >= PATH_LEN)
		k->path[0] = '\0';
}

static bool wants(const struct process *p, unsigned int level, unsigned int events)
{
	return p->wants.level & level && p->wants.events & events;
}

static void filtered(struct model *m, const struct process *p)
{
	m->counts.rules[p->paused ? RULE_PAUSED : RULE_FILTERED]++;
}

static void emit(struct model *m, struct process *p, struct row *r, const struct event *e)
{
	static _Thread_local char note[48];

	if (!m->opts.vendor) {
		r->attrs |= e->flags & EVF_LATE ? ATTR_LATE : 0;
		if (e->kind == EV_ATB_END && e->ret) {
			snprintf(note, sizeof(note), "failed with %" PRId64, e->ret);
			r->attrs |= ATTR_NOTE;
			r->note = note;
		} else if (e->flags & (EVF_NOTEXT | EVF_TRUNC)) {
			r->attrs |= ATTR_NOTE;
			r->note = e->flags & EVF_NOTEXT ? "name unreadable" : "name cut";
		}
	}
	model__emit(m, p, r, true);
}

static void on_runner(struct model *m, struct process *p, const struct event *e)
{
	struct atb_thread *t = thread_of(p, e->tid);
	struct run *run = e->kind == EV_ATB_END ? run_at(t, e->atb->sp, false) : NULL, tmp = { 0 };
	struct row r = { .event = ROW_OP_LAUNCH,
			 .type = e->kind == EV_ATB_START ? ROW_ATB_START : ROW_ATB_END,
			 .time = model__real(m, e->time),
			 .tid = e->tid,
			 .device = process__device(p, e->tid, 0),
			 .attrs = ATTR_PATH | ATTR_WORKSPACE,
			 .workspace = e->atb->workspace,
			 .workspace_size = e->atb->bytes };

	if (!run) {
		run = run_new(t, e->atb, false);
		run = run ? run : &tmp;
		memcpy(run->name, e->atb->name, e->atb->name_len);
		run->name_len = e->atb->name_len;
		runner_path(p, t, run, e, run->path);
	}
	if (!wants(p, LEVEL_OP, EVENTS_LAUNCH)) {
		filtered(m, p);
		return;
	}
	r.name = run->name_len ? run->name : NULL;
	r.name_len = run->name_len;
	r.path = run->path[0] ? run->path : NULL;
	emit(m, p, &r, e);
}

static void on_kernel(struct model *m, struct process *p, const struct event *e)
{
	bool end = e->kind == EV_ATB_KERNEL_END;
	struct atb_thread *t = thread_of(p, e->tid);
	struct run *k = end ? run_at(t, e->atb->sp, true) : NULL, tmp = { 0 };
	struct row r = { .event = ROW_KERNEL_LAUNCH,
			 .type = end ? ROW_KERNEL_END : ROW_KERNEL_START,
			 .time = model__real(m, e->time),
			 .tid = e->tid,
			 .device = process__device(p, e->tid, 0),
			 .attrs = ATTR_PATH };
	char path[PATH_LEN + 8];

	if (!k) {
		k = run_new(t, e->atb, true);
		k = k ? k : &tmp;
		kernel_texts(t, e->atb, k);
	}
	/* ATB saves nothing behind one that has failed, so the vendor's tool sees no end. */
	if (e->ret) {
		m->counts.rules[RULE_FAILED]++;
		m->counts.failures[1]++;
		return;
	}
	if (!wants(p, LEVEL_KERNEL, EVENTS_LAUNCH)) {
		filtered(m, p);
		return;
	}
	r.name = k->name;
	r.name_len = k->name_len;
	if (k->path[0]) {
		snprintf(path, sizeof(path), "%s%s", k->path, end ? "/after" : "/before");
		r.path = path;
	}
	emit(m, p, &r, e);
}

/* ---- tensors ---- */

static const struct block *workspace_of(const struct model *m, const struct process *p,
					uint64_t addr, int64_t size)
{
	const struct block *b = model__live(m, p, LAYER_ATB, addr);
	size_t i;

	for (i = 0; !b && p->runs && i < p->runs->n_live; i++) {
		const struct block *x = model__live(m, p, LAYER_ATB, p->runs->live[i]);

		if (x && addr >= x->addr && addr - x->addr <= (uint64_t)x->size &&
		    (uint64_t)size <= (uint64_t)x->size - (addr - x->addr))
			b = x;
	}
	return b;
}

/* "[2,3,]", with … for dimensions that were not read. */
static void write_shape(const struct access *a, char *out, size_t n)
{
	size_t len = (size_t)snprintf(out, n, "[");
	unsigned int i;

	for (i = 0; i < a->n_dims && len < n; i++)
		len += (size_t)snprintf(out + len, n - len, "%" PRId64 ",", a->dims[i]);
	if (len < n)
		snprintf(out + len, n - len, a->cut ? "...]" : "]");
}

static void on_tensor(struct model *m, struct process *p, const struct event *e)
{
	const struct run *run = run_at(thread_of(p, e->tid), e->key, e->access.kernel);
	char shape[256];
	struct row r = { .event = ROW_ACCESS,
			 .type = e->access.write ? ROW_WRITE : ROW_UNKNOWN,
			 .time = model__real(m, e->time),
			 .tid = e->tid,
			 .device = process__device(p, e->tid, 0),
			 .attrs = ATTR_BLOCK | ATTR_ACCESS,
			 .ptr = e->addr,
			 .size = e->size,
			 .pool = ROW_ATB,
			 .dtype = e->access.dtype,
			 .format = e->access.format,
			 .shape = shape };
	const struct block *b;

	if (!wants(p, e->access.kernel ? LEVEL_KERNEL : LEVEL_OP, EVENTS_ACCESS) || p->paused ||
	    !model__wants(&p->wants, r.device) || !model__in_step(m, p)) {
		filtered(m, p); /* and takes no number */
		return;
	}
	write_shape(&e->access, shape, sizeof(shape));
	if (run && run->name_len) {
		r.name = run->name;
		r.name_len = run->name_len;
	}
	b = workspace_of(m, p, e->addr, e->size);
	/* The vendor's tool looks into ATB's pool only; most tensors are of torch_npu. */
	if (!b && !m->opts.vendor) {
		enum row_type pool;

		b = ops__holder(m, p, e->addr, e->size, &pool);
		r.pool = b ? pool : ROW_ATB;
	}
	ops__of_block(m, p, &r, b, ROW_ATB);
	emit(m, p, &r, e);
}

/* ---- workspaces ---- */

/*
 * The block is there while the operation runs, as the vendor's tool has it. Each time it begins
 * the tool adds the workspace to the pool's total, and never takes it back.
 */
static void on_workspace(struct model *m, struct process *p, const struct event *e)
{
	struct atb *a = atb_of(p);
	const struct block *old = model__live(m, p, LAYER_ATB, e->addr);
	int32_t device = process__device(p, e->tid, 0);
	struct pool *q;
	struct row r;
	size_t i;

	if (!(p->wants.events & EVENTS_ALLOC) || (m->opts.vendor && !e->key)) {
		filtered(m, p);
		return;
	}
	for (i = 0; a && i < a->n_live && a->live[i] != e->addr; i++)
		;
	if (e->kind == EV_ATB_MALLOC) {
		/* Its FREE was missed, or another thread uses it too. */
		q = old ? pool__of(&p->atb, old->device) : NULL;
		if (q)
			pool__change(q, -old->size, e->time);
		if (!model__malloc_row(m, p, e, LAYER_ATB, ROW_ATB, device, &r))
			return;
		if (a && i == a->n_live && i < MAX_WORKSPACES)
			a->live[a->n_live++] = e->addr;
		if (p->strays.n)
			hmap__del(&p->strays, (struct hkey){ e->addr, ROW_ATB }, NULL);
	} else {
		if (a && i < a->n_live)
			a->live[i] = a->live[--a->n_live];
		model__free_row(m, p, e, LAYER_ATB, ROW_ATB, &r);
	}
	q = pool__of(&p->atb, r.device);
	if (q) {
		if (!(r.attrs & ATTR_PREATTACH))
			pool__change(q, e->kind == EV_ATB_MALLOC ? r.size : -r.size, e->time);
		if (!m->opts.vendor)
			q->total = q->used;
		else if (e->kind == EV_ATB_MALLOC)
			q->total += (uint64_t)r.size;
		q->peak_total = MT_MAX(q->peak_total, q->total);
		r.attrs |= ATTR_POOL;
		r.total = q->total;
		r.used = q->used;
	}
	emit(m, p, &r, e);
}

void atb__event(struct model *m, struct process *p, const struct event *e)
{
	switch (e->kind) {
	case EV_ATB_START:
	case EV_ATB_END:
		on_runner(m, p, e);
		break;
	case EV_ATB_KERNEL_START:
	case EV_ATB_KERNEL_END:
		on_kernel(m, p, e);
		break;
	case EV_ATB_TENSOR:
		on_tensor(m, p, e);
		break;
	default:
		on_workspace(m, p, e);
	}
}
