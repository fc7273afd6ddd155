// SPDX-License-Identifier: Apache-2.0
/*
 * What happened to chosen blocks between their MALLOC and their FREE: who touched them, and what
 * ran in between (msleaks.md 9, as far as a dump tells it: no contents).
 *
 * Counts are of the process. Names of what ran are kept for the last few only: between two
 * events of a block there may be a whole step.
 */
#include "analyze/internal.h"

#include <errno.h>

#define OPEN_MAX 16 /* operators inside one another on a thread; deeper ones are not told apart */

/* The last of a kind that ran in a process. */
struct recent {
	uint64_t n; /* so far */
	uint32_t name[WATCH_NAMES];
};

struct proc {
	struct recent ops, kernels;
};

struct thread {
	uint32_t open[OPEN_MAX];
	unsigned int depth;
};

struct live {
	struct watch_block is;
	bool on; /* its events are wanted */
	bool ended; /* the operator that ends the watch has run */
	size_t cap;
	uint64_t ops, kernels; /* of the process at the last event */
	uint32_t next; /* of the free ones */
};

struct watch {
	struct watch_opts o;
	const struct texts *texts;
	struct hmap procs, threads, live; /* live: block -> index */
	struct proc *proc_list;
	size_t n_procs, cap_procs;
	struct thread *thread_list;
	size_t n_threads, cap_threads;
	struct live *blocks;
	size_t n_blocks, cap_blocks;
	uint32_t free_block;
	/* Outputs of the operator that begins a watch, until it ends. */
	struct hkey outputs[WATCH_OUTPUTS];
	uint32_t n_outputs, out_pid, out_tid;
	bool begun, over;
	struct watch_counts counts;
};

struct watch *watch__new(const struct watch_opts *o, const struct texts *texts)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->o = *o;
	w->texts = texts;
	w->blocks = calloc(1, sizeof(*w->blocks));
	w->n_blocks = w->cap_blocks = 1; /* 0 is none */
	if (!w->blocks) {
		free(w);
		return NULL;
	}
	return w;
}

void watch__free(struct watch *w)
{
	size_t i;

	if (!w)
		return;
	for (i = 0; i < w->n_blocks; i++)
		free(w->blocks[i].is.events);
	hmap__free(&w->procs);
	hmap__free(&w->threads);
	hmap__free(&w->live);
	free(w->proc_list);
	free(w->thread_list);
	free(w->blocks);
	free(w);
}

static struct proc *proc_of(struct watch *w, uint32_t pid)
{
	struct hkey k = { pid, 0 };
	bool fresh;
	uint64_t *v = hmap__put(&w->procs, k, &fresh);

	if (!v)
		return NULL;
	if (fresh) {
		*v = w->n_procs;
		if (!VEC_GROW(w->proc_list, w->n_procs, w->cap_procs)) {
			hmap__del(&w->procs, k, NULL);
			return NULL;
		}
		w->proc_list[w->n_procs++] = (struct proc){ .ops = { 0 } };
	}
	return &w->proc_list[*v];
}

static struct thread *thread_of(struct watch *w, const struct item *it)
{
	struct hkey k = { it->tid, it->pid };
	bool fresh;
	uint64_t *v = hmap__put(&w->threads, k, &fresh);

	if (!v)
		return NULL;
	if (fresh) {
		*v = w->n_threads;
		if (!VEC_GROW(w->thread_list, w->n_threads, w->cap_threads)) {
			hmap__del(&w->threads, k, NULL);
			return NULL;
		}
		w->thread_list[w->n_threads++] = (struct thread){ .depth = 0 };
	}
	return &w->thread_list[*v];
}

static void ran(struct recent *r, uint32_t name)
{
	r->name[r->n++ % WATCH_NAMES] = name;
}

/* Those since there were `before`: how many, and the names of the last, oldest first. */
static void since(const struct recent *r, uint64_t before, struct watch_ran *out)
{
	uint64_t i;

	out->n = r->n - before;
	out->n_names = (uint32_t)MT_MIN(out->n, (uint64_t)WATCH_NAMES);
	for (i = 0; i < out->n_names; i++)
		out->name[i] = r->name[(r->n - out->n_names + i) % WATCH_NAMES];
}

static bool is_start(uint8_t type)
{
	return type == ROW_ATEN_START || type == ROW_ATB_START;
}

static bool is_name(const struct watch *w, uint32_t text, const char *name)
{
	return name && !strcmp(texts__get(w->texts, text, NULL), name);
}

static struct live *find(struct watch *w, struct hkey k)
{
	const uint64_t *v = hmap__get(&w->live, k);

	return v ? &w->blocks[*v] : NULL;
}

/* One event of a block that is watched. What is over the limit is counted. */
static int note(struct watch *w, struct live *b, const struct item *it, const struct proc *p,
		const struct thread *t)
{
	struct watch_event *e;

	b->is.n_reads += it->event == ROW_ACCESS && it->type == ROW_READ;
	b->is.n_writes += it->event == ROW_ACCESS && it->type == ROW_WRITE;
	if (b->is.n_events >= WATCH_EVENTS && it->event != ROW_FREE) {
		b->is.more++;
		return 0;
	}
	if (!VEC_GROW(b->is.events, b->is.n_events, b->cap))
		return -ENOMEM;
	e = &b->is.events[b->is.n_events++];
	*e = (struct watch_event){ .time = it->time,
				   .ptr = it->ptr,
				   .size = it->size,
				   .tid = it->tid,
				   .event = it->event,
				   .type = it->type,
				   .name = it->name,
				   .detail = it->event == ROW_ACCESS ? it->owner : 0,
				   .stack_py = it->stack_py,
				   .stack_c = it->stack_c,
				   .op = t->depth ? t->open[MT_MIN(t->depth, OPEN_MAX) - 1] : 0 };
	since(&p->ops, b->ops, &e->ops);
	since(&p->kernels, b->kernels, &e->kernels);
	b->ops = p->ops.n;
	b->kernels = p->kernels.n;
	return 0;
}

/* Is it chosen by what its MALLOC says? */
static bool is_chosen(const struct watch *w, const struct item *it)
{
	const struct watch_opts *o = &w->o;

	if (o->start)
		return false; /* by its operator */
	if (o->has_address &&
	    (o->address < it->ptr || o->address - it->ptr >= (uint64_t)MT_MAX(it->size, 1)))
		return false;
	if (o->alloc && o->alloc != it->alloc)
		return false;
	if (o->has_size && (it->size < o->least || it->size > o->most))
		return false;
	return !o->owner || strstr(texts__get(w->texts, it->owner, NULL), o->owner);
}

static bool is_asked(const struct watch *w, const struct item *it)
{
	return (!w->o.pid || it->pid == w->o.pid) &&
	       (!w->o.has_device || it->device == w->o.device);
}

static bool begin(struct watch *w, struct live *b)
{
	if (w->counts.chosen++ >= w->o.max_blocks)
		return false;
	b->on = true;
	return true;
}

/* The block has ended, or nothing more comes. */
static int hand_out(struct watch *w, struct live *b)
{
	int err = 0;

	if (b->on)
		err = w->o.block(w->o.ctx, &b->is);
	free(b->is.events);
	memset(b, 0, sizeof(*b));
	return err;
}

static int on_malloc(struct watch *w, const struct item *it, const struct proc *p,
		     const struct thread *t)
{
	bool fresh;
	uint64_t *v = hmap__put(&w->live, item__key(it), &fresh);
	struct live *b;
	int err = 0;
	uint32_t no;

	if (!v)
		return -ENOMEM;
	w->counts.blocks++;
	if (!fresh) {
		no = (uint32_t)*v; /* of the one before nobody saw the end */
		err = hand_out(w, &w->blocks[no]);
	} else if (w->free_block) {
		no = w->free_block;
		w->free_block = w->blocks[no].next;
	} else {
		if (!VEC_GROW(w->blocks, w->n_blocks, w->cap_blocks)) {
			hmap__del(&w->live, item__key(it), NULL);
			return -ENOMEM;
		}
		no = (uint32_t)w->n_blocks++;
	}
	*v = no;
	b = &w->blocks[no];
	*b = (struct live){ .is = { .ptr = it->ptr,
				    .alloc = it->alloc,
				    .size = it->size,
				    .born = it->time,
				    .pid = it->pid,
				    .tid = it->tid,
				    .device = it->device,
				    .owner = it->owner,
				    .type = (enum row_type)it->type },
			    .ops = p->ops.n,
			    .kernels = p->kernels.n };
	if (err || !is_asked(w, it))
		return err;
	if (w->o.start) { /* perhaps an output: its beginning is needed then */
		b->is.op = t->depth ? t->open[MT_MIN(t->depth, OPEN_MAX) - 1] : 0;
		return 0;
	}
	if (!is_chosen(w, it) || !begin(w, b))
		return 0;
	return note(w, b, it, p, t);
}

static int on_free(struct watch *w, const struct item *it, const struct proc *p,
		   const struct thread *t)
{
	uint64_t no;
	struct live *b;
	int err = 0;

	/* What the vendor's tool makes up at the exit is no end. */
	if (it->flags & ITEM_SHADOW || !hmap__get(&w->live, item__key(it)))
		return 0;
	hmap__del(&w->live, item__key(it), &no);
	b = &w->blocks[no];
	if (b->on && !b->ended) {
		err = note(w, b, it, p, t);
		b->is.freed = it->time;
		b->is.freed_by = it->tid;
	}
	err = err ? err : hand_out(w, b);
	b->next = w->free_block;
	w->free_block = (uint32_t)no;
	return err;
}

static int on_access(struct watch *w, const struct item *it, const struct proc *p,
		     const struct thread *t)
{
	struct live *b = find(w, item__key(it));

	w->counts.accesses++;
	/* Outputs of the operator that begins the watch: what it writes before its end. */
	if (w->o.start && !w->begun && it->type == ROW_WRITE && is_asked(w, it) &&
	    is_name(w, it->name, w->o.start) && w->n_outputs < WATCH_OUTPUTS) {
		if (w->n_outputs && (w->out_pid != it->pid || w->out_tid != it->tid))
			w->n_outputs = 0;
		w->out_pid = it->pid;
		w->out_tid = it->tid;
		w->outputs[w->n_outputs++] = item__key(it);
	}
	return b && b->on && !b->ended ? note(w, b, it, p, t) : 0;
}

/* The first end of the operator that begins the watch. */
static void start_ends(struct watch *w, const struct proc *p)
{
	uint32_t i;

	w->begun = true;
	for (i = 0; i < w->n_outputs; i++) {
		struct live *b;

		if (w->o.has_output && w->o.output != i)
			continue;
		b = find(w, w->outputs[i]);
		if (!b || b->on || !begin(w, b))
			continue;
		b->ops = p->ops.n;
		b->kernels = p->kernels.n;
	}
}

/* The operator that ends the watch has run. */
static void end_all(struct watch *w)
{
	size_t i;

	w->over = true;
	for (i = 1; i < w->n_blocks; i++)
		w->blocks[i].ended = w->blocks[i].on;
}

static int on_op(struct watch *w, const struct item *it, struct proc *p, struct thread *t)
{
	if (is_start(it->type)) {
		if (t->depth < OPEN_MAX)
			t->open[t->depth] = it->name;
		t->depth++;
		ran(&p->ops, it->name);
		w->counts.ops++;
		return 0;
	}
	if (it->type != ROW_ATEN_END && it->type != ROW_ATB_END)
		return 0;
	t->depth -= t->depth > 0;
	if (!is_asked(w, it))
		return 0;
	if (w->o.start && !w->begun && is_name(w, it->name, w->o.start))
		start_ends(w, p);
	else if (w->o.end && w->begun && !w->over && is_name(w, it->name, w->o.end))
		end_all(w);
	return 0;
}

int watch__item(struct watch *w, const struct item *it)
{
	struct proc *p = proc_of(w, it->pid);
	struct thread *t = p ? thread_of(w, it) : NULL;

	if (!t)
		return -ENOMEM;
	switch (it->event) {
	case ROW_MALLOC:
		return it->flags & ITEM_SHADOW && !it->alloc ? 0 : on_malloc(w, it, p, t);
	case ROW_FREE:
		return on_free(w, it, p, t);
	case ROW_ACCESS:
		return on_access(w, it, p, t);
	case ROW_OP_LAUNCH:
		return on_op(w, it, p, t);
	case ROW_KERNEL_LAUNCH:
		ran(&p->kernels, it->name);
		return 0;
	default:
		return 0;
	}
}

static int by_birth(const void *x, const void *y)
{
	const struct live *a = *(struct live *const *)x, *b = *(struct live *const *)y;

	if (a->is.born != b->is.born)
		return a->is.born < b->is.born ? -1 : 1;
	return a->is.alloc < b->is.alloc ? -1 : a->is.alloc > b->is.alloc;
}

int watch__finish(struct watch *w)
{
	struct live **left = malloc(w->n_blocks * sizeof(struct live *));
	size_t i, n = 0;
	int err = left ? 0 : -ENOMEM;

	for (i = 1; left && i < w->n_blocks; i++)
		if (w->blocks[i].on)
			left[n++] = &w->blocks[i];
	if (n)
		qsort(left, n, sizeof(struct live *), by_birth);
	for (i = 0; i < n && !err; i++)
		err = hand_out(w, left[i]);
	free(left);
	return err;
}

void watch__counts(const struct watch *w, struct watch_counts *c)
{
	*c = w->counts;
	c->begun = w->begun;
}
