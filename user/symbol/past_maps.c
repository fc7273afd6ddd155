// SPDX-License-Identifier: Apache-2.0
/* What processes had mapped a moment ago. */
#include "symbol/past_maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A copy of a stack is looked at within a second. */
#define KEEP_NS 5000000000ULL
#define KEEP_MAX 4096 /* of a process; a dlopen takes 0.1 ms */

struct entry {
	struct past_map m;
	uint64_t came; /* when it was noted, or later: all that it tells of was before */
};

struct past {
	struct entry *v; /* in the order in which they came */
	size_t n, cap;
	uint64_t changes; /* by all that ever came */
};

static struct past *of_pid(const struct past_maps *p, pid_t pid)
{
	uint64_t *v = hmap__get(&p->by_pid, (struct hkey){ (uint64_t)pid, 0 });

	return v ? (struct past *)(uintptr_t)*v : NULL;
}

static uint64_t age_of(const struct past_map *m)
{
	return m->until == UINT64_MAX ? m->from : m->until;
}

/* How often it has changed what is mapped, up to a time. */
static unsigned int changes(const struct past_map *m, uint64_t time)
{
	return (m->from <= time) + (m->until < time);
}

/* Half of the room at least is free then. */
static void prune(struct past *x)
{
	uint64_t now = clock__boot();
	size_t i = 0;

	while (i < x->n && age_of(&x->v[i].m) + KEEP_NS < now)
		i++;
	if (x->n - i > KEEP_MAX / 2)
		i = x->n - KEEP_MAX / 2;
	x->n -= i;
	memmove(x->v, x->v + i, x->n * sizeof(*x->v));
}

int past_maps__add(struct past_maps *p, pid_t pid, const struct past_map *m)
{
	struct past *x = of_pid(p, pid);
	uint64_t *v, came;

	if (!x) {
		x = calloc(1, sizeof(*x));
		v = x ? hmap__put(&p->by_pid, (struct hkey){ (uint64_t)pid, 0 }, NULL) : NULL;
		if (!v) {
			free(x);
			return -ENOMEM;
		}
		*v = (uint64_t)(uintptr_t)x;
	}
	if (x->n == x->cap && x->n)
		prune(x);
	if (x->n == KEEP_MAX)
		prune(x);
	if (x->n == x->cap) {
		size_t cap = x->cap ? x->cap * 2 : 64;
		void *more = realloc(x->v, cap * sizeof(*x->v));

		if (!more)
			return -ENOMEM;
		x->v = more;
		x->cap = cap;
	}
	came = MT_MAX(clock__boot(), age_of(m));
	if (x->n)
		came = MT_MAX(came, x->v[x->n - 1].came);
	x->v[x->n++] = (struct entry){ *m, came };
	x->changes += changes(m, UINT64_MAX);
	return 0;
}

static bool overlaps(const struct mt_uw_map *v, size_t n, const struct mt_uw_map *m)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (m->start < v[i].end && v[i].start < m->end)
			return true;
	return false;
}

/* The youngest of that time first. */
static int by_age(const void *a, const void *b)
{
	const struct past_map *x = *(const struct past_map *const *)a,
			      *y = *(const struct past_map *const *)b;

	if (x->from != y->from)
		return x->from > y->from ? -1 : 1;
	return x < y ? 1 : -1;
}

static int by_start(const void *a, const void *b)
{
	const struct mt_uw_map *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

ssize_t past_maps__at(const struct past_maps *p, pid_t pid, uint64_t time,
		      const struct mt_uw_map *base, size_t n_base, struct mt_uw_map **out)
{
	const struct past *x = of_pid(p, pid);
	size_t n_past = x ? x->n : 0, n = 0, known, i, valid = 0;
	struct mt_uw_map *v = malloc((n_past + n_base) * sizeof(*v) + 1);
	const struct past_map **order = malloc(n_past * sizeof(void *) + 1);

	*out = NULL;
	if (!v || !order) {
		free(v);
		free(order);
		return -ENOMEM;
	}
	for (i = 0; i < n_past; i++)
		if (x->v[i].m.from <= time && x->v[i].m.until >= time)
			order[valid++] = &x->v[i].m;
	qsort(order, valid, sizeof(*order), by_age);
	for (i = 0; i < valid; i++)
		if (!overlaps(v, n, &order[i]->map))
			v[n++] = order[i]->map;
	known = n;
	for (i = 0; i < n_base; i++)
		if (!overlaps(v, known, &base[i]))
			v[n++] = base[i];
	qsort(v, n, sizeof(*v), by_start);
	free(order);
	*out = v;
	return (ssize_t)n;
}

uint64_t past_maps__epoch(const struct past_maps *p, pid_t pid, uint64_t time)
{
	const struct past *x = of_pid(p, pid);
	uint64_t n = x ? x->changes : 0;
	size_t i = x ? x->n : 0;

	/* For each row: only what came since then is looked at. */
	while (i-- > 0 && x->v[i].came >= time)
		n -= changes(&x->v[i].m, UINT64_MAX) - changes(&x->v[i].m, time);
	return n;
}

const struct mt_uw_map *past_maps__address(const struct past_maps *p, pid_t pid, uint64_t time,
					   uint64_t addr)
{
	const struct past *x = of_pid(p, pid);
	const struct past_map *best = NULL;
	size_t i;

	for (i = 0; x && i < x->n; i++) {
		const struct past_map *m = &x->v[i].m;

		if (m->from <= time && m->until >= time && addr >= m->map.start &&
		    addr < m->map.end && (!best || m->from >= best->from))
			best = m;
	}
	return best ? &best->map : NULL;
}

const struct mt_uw_map *past_maps__file(const struct past_maps *p, pid_t pid, uint64_t time,
					uint32_t file, uint64_t vaddr)
{
	const struct past *x = of_pid(p, pid);
	const struct past_map *best = NULL;
	size_t i;

	for (i = 0; x && i < x->n; i++) {
		const struct past_map *m = &x->v[i].m;

		/* A return address may be the one behind the last instruction. */
		if (m->map.file == file && m->from <= time && m->until >= time &&
		    (!best || m->from >= best->from) && vaddr + m->map.bias >= m->map.start &&
		    vaddr + m->map.bias <= m->map.end)
			best = m;
	}
	return best ? &best->map : NULL;
}

static void drop(struct past *x)
{
	if (!x)
		return;
	free(x->v);
	free(x);
}

void past_maps__forget(struct past_maps *p, pid_t pid)
{
	uint64_t v;

	if (hmap__del(&p->by_pid, (struct hkey){ (uint64_t)pid, 0 }, &v))
		drop((struct past *)(uintptr_t)v);
}

void past_maps__free(struct past_maps *p)
{
	size_t pos = 0;
	struct hkey k;
	uint64_t v;

	while (hmap__next(&p->by_pid, &pos, &k, &v))
		drop((struct past *)(uintptr_t)v);
	hmap__free(&p->by_pid);
}
