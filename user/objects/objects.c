// SPDX-License-Identifier: Apache-2.0
/* The optimizers and modules of one process, and where their tensors lie: found, and read twice. */
#include "objects/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OBJECTS (64u << 20) /* of the garbage collector, looked at */
#define MAX_ROOTS (1u << 20) /* optimizers and modules */
#define MAX_STORAGES (4u << 20)

struct root {
	uint64_t obj, type;
	bool optimizer;
};

struct list {
	struct object_storage *v;
	size_t n, cap;
	bool over;
};

struct objects {
	struct python *py;
	struct heap heap;
	struct types types;
	struct tensor_layout layout;
	struct gc gc;
	struct root *roots;
	size_t n_roots, cap_roots;
	struct objects_counts counts;
};

const char *object_kind__name(enum object_kind k)
{
	static const char *const names[OBJECT_KINDS] = { "weight", "gradient", "optimizer_state",
							 "buffer" };

	return k < OBJECT_KINDS ? names[k] : "unknown";
}

int objects__open(pid_t pid, struct objects **out, char *why, size_t n)
{
	struct objects *o = calloc(1, sizeof(*o));
	unsigned int no;
	int err;

	snprintf(why, n, "no memory");
	if (!o)
		return -ENOMEM;
	err = python__open(pid, &o->py);
	if (err)
		goto out;
	no = python__why(o->py);
	snprintf(why, n, "%s", python__text(o->py));
	if (no == MT_PY_NOT_READY || no == MT_PY_NO_INTERPRETER || no == MT_PY_UNVERIFIED)
		err = -EAGAIN;
	else if (no)
		err = -ENOTSUP;
	if (!err && o->py->layout.free_threaded) {
		snprintf(why, n, "its interpreter has no global lock: its objects are in no list");
		err = -ENOTSUP;
	}
	if (!err)
		err = heap__init(&o->heap, o->py->mem, &o->py->layout);
out:
	if (err) {
		objects__close(o);
		return err;
	}
	*out = o;
	return 0;
}

void objects__close(struct objects *o)
{
	if (!o)
		return;
	heap__free(&o->heap);
	types__forget(&o->types);
	python__close(o->py);
	free(o->roots);
	free(o);
}

/* ---- the search ---- */

static int on_object(void *ctx, uint64_t obj, uint64_t type)
{
	struct objects *o = ctx;
	unsigned int kind = types__kind(&o->types, &o->heap, type);

	if (!(kind & (KIND_OPTIMIZER | KIND_MODULE)))
		return kind & KIND_NONE ? -ENOENT : 0;
	if (o->n_roots >= MAX_ROOTS)
		return -E2BIG;
	if (o->n_roots == o->cap_roots) {
		size_t cap = o->cap_roots ? o->cap_roots * 2 : 256;
		void *p = realloc(o->roots, cap * sizeof(*o->roots));

		if (!p)
			return -ENOMEM;
		o->roots = p;
		o->cap_roots = cap;
	}
	o->roots[o->n_roots++] = (struct root){ obj, type, kind & KIND_OPTIMIZER };
	return 0;
}

/* Optimizers first; an object that moved between two lists was met twice, the last time counts. */
static int by_kind(const void *a, const void *b)
{
	const struct root *x = a, *y = b;

	if (x->optimizer != y->optimizer)
		return x->optimizer ? -1 : 1;
	return x->obj < y->obj ? -1 : x->obj > y->obj;
}

static void settle(struct objects *o)
{
	size_t i, n = 0;

	if (o->n_roots)
		qsort(o->roots, o->n_roots, sizeof(*o->roots), by_kind);
	for (i = 0; i < o->n_roots; i++)
		if (o->roots[i].type && (!n || o->roots[n - 1].obj != o->roots[i].obj))
			o->roots[n++] = o->roots[i];
	o->n_roots = n;
	o->counts.optimizers = o->counts.modules = 0;
	for (i = 0; i < n; i++) {
		if (o->roots[i].optimizer)
			o->counts.optimizers++;
		else
			o->counts.modules++;
	}
}

static void begin(struct objects *o, unsigned int ms)
{
	o->heap.deadline = clock__boot() + ms * 1000000ULL;
	heap__forget(&o->heap);
}

/* They stay where they are, but for interpreters that come and go: those that were found serve. */
static int find_lists(struct objects *o)
{
	struct gc g;
	int err = gc__find(&o->heap, o->py->runtime, &g);

	if (!err)
		o->gc = g;
	return err == -ENOENT && o->gc.n ? 0 : err;
}

int objects__find(struct objects *o, bool young, unsigned int ms)
{
	uint64_t t0 = clock__boot(), n;
	size_t before = o->n_roots;
	bool torn;
	int err;

	begin(o, ms);
	if (!young || !o->gc.n)
		err = find_lists(o);
	else
		err = 0;
	if (err)
		return err;
	if (!young)
		types__forget(&o->types);
	err = gc__each(&o->heap, &o->gc, young ? GC_YOUNG : GC_LISTS, MAX_OBJECTS, on_object, o, &n,
		       &torn);
	/* Those of before that were not met again are gone, if all could be met. */
	if (!young && !err && !torn) {
		o->n_roots -= before;
		memmove(o->roots, o->roots + before, o->n_roots * sizeof(*o->roots));
	}
	settle(o);
	if (young) {
		o->counts.young_ns = clock__boot() - t0;
	} else {
		o->counts.walked = n;
		o->counts.torn = torn;
		o->counts.walk_ns = clock__boot() - t0;
		o->counts.cut = err == -E2BIG || err == -ETIME;
	}
	return err == -E2BIG ? 0 : err;
}

/* ---- the reading ---- */

static int on_storage(void *ctx, const struct object_storage *s)
{
	struct list *l = ctx;

	if (l->n >= MAX_STORAGES) {
		l->over = true;
		return 0;
	}
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 256;
		void *p = realloc(l->v, cap * sizeof(*l->v));

		if (!p)
			return -ENOMEM;
		l->v = p;
		l->cap = cap;
	}
	l->v[l->n++] = *s;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct object_storage *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->kind < y->kind ? -1 : x->kind > y->kind;
}

/* Each address once, as the first of what it is. */
static void unite(struct list *l)
{
	size_t i, n = 0;

	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_address);
	for (i = 0; i < l->n; i++)
		if (!n || l->v[n - 1].addr != l->v[i].addr || l->v[n - 1].device != l->v[i].device)
			l->v[n++] = l->v[i];
	l->n = n;
}

/* Of the first those that the second has too. */
static void agree(struct list *a, const struct list *b)
{
	size_t i, j = 0, n = 0;

	for (i = 0; i < a->n; i++) {
		while (j < b->n && by_address(&b->v[j], &a->v[i]) < 0)
			j++;
		if (j < b->n && !by_address(&b->v[j], &a->v[i]) && b->v[j].bytes == a->v[i].bytes)
			a->v[n++] = a->v[i];
	}
	a->n = n;
}

static int pass(struct objects *o, struct list *l)
{
	struct module_reader r = { .h = &o->heap,
				   .types = &o->types,
				   .layout = &o->layout,
				   .storage = on_storage,
				   .ctx = l };
	uint64_t type, flags, count;
	size_t i;
	int err = 0;

	heap__forget(&o->heap);
	for (i = 0; i < o->n_roots && !err; i++) {
		struct root *root = &o->roots[i];

		/* Is it still there? */
		if (heap__u64(&o->heap, root->obj, &count) ||
		    !py_object__alive(&o->heap.layout, count) ||
		    type__of(&o->heap, root->obj, &type, &flags) || type != root->type) {
			root->type = 0;
			continue;
		}
		err = root->optimizer ? module__optimizer(&r, root->obj)
				      : module__module(&r, root->obj);
	}
	o->counts.tensors = r.tensors;
	unite(l);
	return err;
}

int objects__read(struct objects *o, unsigned int ms, struct object_storage **v, size_t *n)
{
	struct list a = { 0 }, b = { 0 };
	uint64_t t0 = clock__boot();
	int err;

	begin(o, ms);
	err = pass(o, &a);
	if (!err)
		err = pass(o, &b);
	if (!err)
		agree(&a, &b);
	free(b.v);
	/* It may wait for long: without the room that what was there twice took. */
	if (a.n < a.cap / 2) {
		void *less = realloc(a.v, MT_MAX(a.n, (size_t)1) * sizeof(*a.v));

		a.v = less ? less : a.v;
	}
	o->counts.read_ns = clock__boot() - t0;
	if (a.over)
		o->counts.cut = true;
	if (err) {
		free(a.v);
		return err;
	}
	*v = a.v;
	*n = a.n;
	return 0;
}

void objects__counts(const struct objects *o, struct objects_counts *c)
{
	*c = o->counts;
}
