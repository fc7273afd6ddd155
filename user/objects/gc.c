// SPDX-License-Identifier: Apache-2.0
/*
 * All objects that the garbage collector of an interpreter knows, by its lists. Where
 * their heads are differs with the release; they show themselves: some of them in a
 * row, each the beginning of a list that leads back to it.
 */
#include "objects/internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define GENERATION 24u /* head, threshold, count */
#define LISTS 4u
/* PyInterpreterState is searched so far; of 3.8 it is _PyRuntime. */
#define SEARCHED (256u << 10)
#define MAX_INTERPRETERS 8
#define TRIES 20
#define PAUSE_NS 1000000
/* In front of an object. The lowest bits of its words are flags. */
#define GC_HEAD 16u
#define LINK(w) ((w) & ~(uint64_t)3)

/* Could it lead to an object, or a head? */
static bool is_link(uint64_t w)
{
	return LINK(w) >= 0x10000 && w < 1ULL << 56;
}

/* The list that begins at this address. 1: has objects, 0: has none, -1: there is none. */
static int list_at(struct heap *h, uint64_t at, const uint64_t *w)
{
	uint64_t next = LINK(w[0]), prev = LINK(w[1]), back;

	if (next == at && prev == at)
		return 0;
	if (!heap__is_pointer(next) || !heap__is_pointer(prev) || next == at || prev == at)
		return -1;
	if (heap__u64(h, next + 8, &back) || LINK(back) != at || heap__u64(h, prev, &back) ||
	    LINK(back) != at)
		return -1;
	return 1;
}

/* From 3.14 on: the young, two old ones, the frozen. */
static bool newer(struct heap *h, uint64_t at, const uint64_t *w)
{
	int i, is, some = 0;

	for (i = 0; i < (int)LISTS; i++) {
		is = list_at(h, at + GENERATION * (unsigned int)i, w + 3 * i);
		if (is < 0)
			return false;
		some += is;
	}
	return some > 0;
}

/*
 * To 3.13: three, a pointer to the first of them, which is aligned, the frozen. That pointer
 * tells so much that what the lists are may change meanwhile.
 */
static bool older(struct heap *h, uint64_t at, const uint64_t *w, uint64_t *frozen)
{
	uint64_t pointer = (at + 3 * GENERATION + 7) & ~(uint64_t)7, first, f[2];
	int i;

	*frozen = pointer + 8;
	if (heap__u64(h, pointer, &first) || first != at)
		return false;
	for (i = 0; i < 3; i++)
		if (!is_link(w[3 * i]) || !is_link(w[3 * i + 1]))
			return false;
	/* Nobody but gc.freeze() changes this one. */
	return !heap__read(h, *frozen, f, sizeof(f)) && list_at(h, *frozen, f) >= 0;
}

/* Lists in the memory from base on. */
static int search(struct heap *h, uint64_t base, struct gc *g)
{
	uint64_t off, frozen, w[12];
	unsigned int i;
	bool old;
	int err;

	/* Heads are aligned to four bytes in some builds of 3.13. */
	for (off = 0; off < SEARCHED; off += 4) {
		err = heap__read(h, base + off, w, sizeof(w));
		if (err)
			return err == -EFAULT ? -ENOENT : err;
		/* Most words are no such thing. */
		if (!is_link(w[0]) || !is_link(w[1]))
			continue;
		old = older(h, base + off, w, &frozen);
		if (!old && !newer(h, base + off, w))
			continue;
		if (!old)
			frozen = base + off + 3 * GENERATION;
		if (g->n + LISTS > MT_ARRAY_SIZE(g->heads))
			return -ENOENT;
		for (i = 0; i < LISTS - 1; i++)
			g->heads[g->n++] = base + off + GENERATION * i;
		g->heads[g->n++] = frozen;
		return 0;
	}
	return -ENOENT;
}

static int find(struct heap *h, uint64_t runtime, struct gc *g)
{
	uint64_t interp;
	int i, err;

	g->n = 0;
	if (h->minor <= 8)
		return search(h, runtime, g);
	err = heap__u64(h, runtime + h->layout.interp_head, &interp);
	for (i = 0; i < MAX_INTERPRETERS && interp && !err; i++) {
		err = search(h, interp, g);
		if (!err)
			err = heap__u64(h, interp + h->layout.interp_next, &interp);
	}
	/* A second one whose lists are not found leaves those of the first. */
	return g->n && err == -ENOENT ? 0 : err;
}

int gc__find(struct heap *h, uint64_t runtime, struct gc *g)
{
	const struct timespec pause = { 0, PAUSE_NS };
	int i, err = -ENOTSUP;

	/* While a collection runs a list may lead back to another head. */
	for (i = 0; i < TRIES && !h->layout.free_threaded; i++) {
		err = find(h, runtime, g);
		if (err != -ENOENT)
			break;
		nanosleep(&pause, NULL);
		heap__forget(h);
	}
	return err;
}

struct walk {
	struct heap *h;
	const struct gc *g;
	uint64_t max;
	int (*fn)(void *ctx, uint64_t obj, uint64_t type);
	void *ctx;
	uint64_t *n;
	bool *torn;
};

struct node {
	uint64_t next, prev, count, type;
};

/* A whole one, which the one before it leads to. */
static bool is_next(const struct walk *w, const struct node *n, uint64_t prev)
{
	return LINK(n->prev) == prev && heap__is_pointer(n->type) &&
	       py_object__alive(&w->h->layout, n->count);
}

/* The end of this list, or of one that an object has moved to. */
static bool is_head(const struct walk *w, uint64_t at)
{
	size_t i;

	for (i = 0; i < w->g->n; i++)
		if (w->g->heads[i] == at)
			return true;
	return false;
}

/*
 * The object at a place that prev led to; *whole: it leads back. It may have moved since its
 * page was read, and while a collection runs there is a count where the way back stands.
 */
static int next_node(const struct walk *w, uint64_t at, uint64_t prev, struct node *n, bool *whole)
{
	int err = heap__read(w->h, at, n, sizeof(*n));

	*whole = !err && is_next(w, n, prev);
	if (err || *whole)
		return err;
	err = heap__read_now(w->h, at, n, sizeof(*n));
	*whole = !err && is_next(w, n, prev);
	return err;
}

/* 1: it led somewhere else than to its end. */
static int walk_list(struct walk *w, uint64_t head)
{
	/* A list that moves may lead in a circle: then a place comes again. */
	uint64_t at, prev = head, again = 0, steps = 0;
	struct node n;
	bool whole;
	int err;

	err = heap__read_now(w->h, head, &n, 16);
	if (err)
		return err;
	for (at = LINK(n.next); !is_head(w, at); at = LINK(n.next)) {
		if (*w->n >= w->max)
			return -E2BIG;
		if (!heap__is_pointer(at) || at == again)
			return 1;
		steps++;
		if (!(steps & (steps - 1)))
			again = at;
		err = next_node(w, at, prev, &n, &whole);
		if (err == -EFAULT)
			return 1;
		if (err)
			return err;
		*w->torn |= !whole;
		++*w->n;
		err = w->fn(w->ctx, at + GC_HEAD, n.type);
		if (err == -ENOENT && !whole)
			return 1; /* it was freed */
		if (err && err != -ENOENT)
			return err;
		prev = at;
	}
	return at != head;
}

int gc__each(struct heap *h, const struct gc *g, uint64_t max,
	     int (*fn)(void *ctx, uint64_t obj, uint64_t type), void *ctx, uint64_t *n, bool *torn)
{
	struct walk w = { h, g, max, fn, ctx, n, torn };
	size_t i;
	int err = 0;

	*n = 0;
	*torn = false;
	for (i = 0; i < g->n && err >= 0; i++) {
		err = walk_list(&w, g->heads[i]);
		*torn |= err == 1;
	}
	return err < 0 ? err : 0;
}
