// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that hold memory for nothing (msleaks.md 7): allocated long before
 * their first use, kept after the last, idle in between. Time is counted in
 * calls: operators, and memory events outside of them.
 *
 * Accesses are told by allocation_id, so those at inner addresses of a block
 * are its own.
 */
#include "analyze/internal.h"

#include <errno.h>

#define NEVER UINT64_MAX

enum kind { OF_PTA, OF_ATB, OF_MAX };

struct clock {
	uint64_t now; /* calls so far */
	uint64_t malloc_at, free_at; /* the last call with one */
	bool in_op, pending_malloc, pending_free;
};

struct block {
	struct ineff_block is;
	uint64_t born; /* call */
	uint64_t first; /* the first access in another call than the MALLOC's, NEVER: none */
	uint64_t last; /* the last event */
	bool last_access; /* it was an access */
	uint32_t next; /* of the free ones */
};

struct inefficient {
	uint64_t idle;
	int64_t min_size;
	struct hmap clocks, live;
	struct clock *clock_list;
	size_t n_clocks, cap_clocks;
	struct block *blocks;
	size_t n_blocks, cap_blocks;
	uint32_t free_block;
	struct ineff_block *list;
	size_t n, cap;
	struct ineff_counts counts;
	ineff_fn fn; /* NULL: of a file */
	void *ctx;
};

const char *ineff__name(enum ineff k)
{
	static const char *const names[INEFF_MAX] = { "early_allocation", "late_deallocation",
						      "temporary_idleness" };

	return (unsigned int)k < INEFF_MAX ? names[k] : "N/A";
}

struct inefficient *inefficient__new(uint64_t idle, int64_t min_size)
{
	struct inefficient *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->idle = idle;
	x->min_size = min_size;
	return x;
}

void inefficient__live(struct inefficient *x, ineff_fn fn, void *ctx)
{
	x->fn = fn;
	x->ctx = ctx;
}

void inefficient__free(struct inefficient *x)
{
	if (!x)
		return;
	hmap__free(&x->clocks);
	hmap__free(&x->live);
	free(x->clock_list);
	free(x->blocks);
	free(x->list);
	free(x);
}

static struct clock *clock_of(struct inefficient *x, uint32_t pid, enum kind kind)
{
	struct hkey k = { pid, kind };
	bool fresh;
	uint64_t *v = hmap__put(&x->clocks, k, &fresh);

	if (!v)
		return NULL;
	if (fresh) {
		*v = x->n_clocks;
		if (!VEC_GROW(x->clock_list, x->n_clocks, x->cap_clocks)) {
			hmap__del(&x->clocks, k, NULL);
			return NULL;
		}
		x->clock_list[x->n_clocks++] = (struct clock){ .malloc_at = NEVER,
							       .free_at = NEVER };
	}
	return &x->clock_list[*v];
}

static void classify(struct clock *c)
{
	if (c->pending_malloc)
		c->malloc_at = c->now;
	if (c->pending_free)
		c->free_at = c->now;
	c->pending_malloc = c->pending_free = false;
}

static int operator(struct inefficient *x, const struct item *it)
{
	enum kind kind = it->type == ROW_ATEN_START || it->type == ROW_ATEN_END ? OF_PTA : OF_ATB;
	struct clock *c = clock_of(x, it->pid, kind);

	if (!c)
		return -ENOMEM;
	if (it->type == ROW_ATEN_START || it->type == ROW_ATB_START) {
		c->in_op = true;
		c->now++;
		x->counts.calls++;
	} else if (it->type == ROW_ATEN_END || it->type == ROW_ATB_END) {
		c->in_op = false;
		classify(c);
	}
	return 0;
}

static void flag(const struct inefficient *x, struct ineff_block *b, enum ineff kind)
{
	unsigned int i;

	for (i = 0; i < b->n_kinds; i++) {
		if (b->kinds[i] == kind)
			return;
	}
	b->kinds[b->n_kinds++] = (uint8_t)kind;
	if (x->fn)
		x->fn(x->ctx, b);
}

static int ended(struct inefficient *x, uint64_t index)
{
	struct block *b = &x->blocks[index];

	if (b->is.n_kinds && !x->fn) {
		if (!VEC_GROW(x->list, x->n, x->cap))
			return -ENOMEM;
		x->list[x->n++] = b->is;
	}
	b->next = x->free_block;
	x->free_block = (uint32_t)index + 1;
	return 0;
}

static int allocated(struct inefficient *x, const struct item *it, const struct clock *c)
{
	bool fresh;
	uint64_t *v, index;
	int err;

	if (x->free_block) {
		index = x->free_block - 1;
		x->free_block = x->blocks[index].next;
	} else {
		if (x->n_blocks == UINT32_MAX - 1 ||
		    !VEC_GROW(x->blocks, x->n_blocks, x->cap_blocks))
			return -ENOMEM;
		index = x->n_blocks++;
	}
	v = hmap__put(&x->live, item__key(it), &fresh);
	if (!v)
		return -ENOMEM;
	err = fresh ? 0 : ended(x, *v);
	if (err)
		return err;
	*v = index;
	x->blocks[index] = (struct block){
		.is = { .ptr = it->ptr,
			.alloc = it->alloc,
			.time = it->time,
			.id = it->id,
			.size = it->size,
			.pid = it->pid,
			.device = it->device,
			.type = (enum row_type)it->pool,
			.stack_py = it->stack_py,
			.stack_c = it->stack_c },
		.born = c->now,
		.first = NEVER,
		.last = c->now,
	};
	x->counts.blocks++;
	x->counts.bytes += it->size > 0 ? (uint64_t)it->size : 0;
	return 0;
}

static void accessed(const struct inefficient *x, struct block *b, const struct clock *c)
{
	uint64_t gap = c->now - b->last;

	if (b->first == NEVER && c->now != b->born)
		b->first = c->now;
	if (b->last_access) {
		b->is.idle = MT_MAX(b->is.idle, gap);
		if (gap > x->idle)
			flag(x, &b->is, INEFF_IDLE);
	}
	if (c->free_at != NEVER && b->first != NEVER && b->first > c->free_at &&
	    b->born < c->free_at)
		flag(x, &b->is, INEFF_EARLY);
	b->last = c->now;
	b->last_access = true;
}

static void freed(const struct inefficient *x, struct block *b, const struct clock *c)
{
	if (c->malloc_at != NEVER && b->last_access && b->last != c->now &&
	    b->last < c->malloc_at && c->now > c->malloc_at)
		flag(x, &b->is, INEFF_LATE);
}

static int memory(struct inefficient *x, const struct item *it)
{
	enum kind kind;
	struct clock *c;
	uint64_t *v, index;

	if (it->pool != ROW_PTA && it->pool != ROW_ATB)
		return 0;
	kind = it->pool == ROW_PTA ? OF_PTA : OF_ATB;
	c = clock_of(x, it->pid, kind);
	if (!c)
		return -ENOMEM;
	if (!c->in_op)
		c->now++;
	c->pending_malloc |= it->event == ROW_MALLOC;
	c->pending_free |= it->event == ROW_FREE;
	if (!c->in_op)
		classify(c);
	if (it->event == ROW_MALLOC)
		return allocated(x, it, c);
	v = hmap__get(&x->live, item__key(it));
	x->counts.accesses += it->event == ROW_ACCESS;
	if (!v) {
		x->counts.unknown += it->event == ROW_ACCESS;
		return 0;
	}
	index = *v;
	if (it->event == ROW_ACCESS) {
		if (x->blocks[index].is.size >= x->min_size)
			accessed(x, &x->blocks[index], c);
		return 0;
	}
	if (x->blocks[index].is.size >= x->min_size && !(it->flags & ITEM_SHADOW))
		freed(x, &x->blocks[index], c);
	hmap__del(&x->live, item__key(it), NULL);
	return ended(x, index);
}

int inefficient__item(struct inefficient *x, const struct item *it)
{
	switch (it->event) {
	case ROW_OP_LAUNCH:
		return operator(x, it);
	case ROW_MALLOC:
	case ROW_FREE:
	case ROW_ACCESS:
		return memory(x, it);
	default:
		return 0;
	}
}

void inefficient__forget(struct inefficient *x, uint32_t pid)
{
	size_t pos = 0, n = 0, i = 0;
	struct hkey k, *gone;
	uint64_t v;

	/* Short workers end by the thousand, and most have had no block. */
	while (i < OF_MAX && !hmap__get(&x->clocks, (struct hkey){ pid, i }))
		i++;
	if (i == OF_MAX)
		return;
	gone = malloc((x->live.n + 1) * sizeof(*gone));
	/* Without memory they stay: an address that comes again is another block all the same. */
	while (gone && hmap__next(&x->live, &pos, &k, &v))
		if (x->blocks[v].is.pid == pid)
			gone[n++] = k;
	for (i = 0; i < n; i++)
		if (hmap__del(&x->live, gone[i], &v))
			ended(x, v);
	free(gone);
	for (i = 0; i < OF_MAX; i++) {
		uint64_t *at = hmap__get(&x->clocks, (struct hkey){ pid, i });

		if (at)
			x->clock_list[*at] = (struct clock){ .malloc_at = NEVER, .free_at = NEVER };
	}
}

static int by_time(const void *a, const void *b)
{
	const struct ineff_block *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->alloc < y->alloc ? -1 : x->alloc > y->alloc;
}

int inefficient__finish(struct inefficient *x)
{
	struct hkey k;
	size_t pos = 0;
	uint64_t v;
	int err;

	/* Those that live still. */
	while (hmap__next(&x->live, &pos, &k, &v)) {
		err = ended(x, v);
		if (err)
			return err;
	}
	hmap__free(&x->live);
	if (x->n)
		qsort(x->list, x->n, sizeof(*x->list), by_time);
	return 0;
}

const struct ineff_block *inefficient__list(const struct inefficient *x, size_t *n)
{
	*n = x->n;
	return x->list;
}

void inefficient__counts(const struct inefficient *x, struct ineff_counts *c)
{
	*c = x->counts;
}
