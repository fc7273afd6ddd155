// SPDX-License-Identifier: Apache-2.0
/*
 * The vendor's order: the rows of a block are written together when it ends,
 * all others at once (spec/msleaks.md 3.2).
 *
 * Where the vendor's order is that of a hash table we take the one it shows
 * with few blocks, always: at the end of a process its pools in reverse order
 * of their first use, the blocks of a pool in reverse order of their MALLOC.
 */
#include "output/journal.h"

#include <errno.h>
#include <stdlib.h>

struct block {
	struct block *prev, *next; /* in its pool, oldest first */
	struct pool *pool;
	uint64_t seq;
	uint64_t ptr;
	char *data; /* encoded rows */
	uint32_t len, cap;
	uint32_t noted; /* bytes of data that the journal has */
	uint64_t in_journal; /* and of its records with them */
	uint32_t rows;
	struct became became; /* since its MALLOC row */
	size_t dirty; /* index + 1 in order.dirty, 0 = not there */
};

struct pool {
	struct pool *prev, *next; /* in order of first use */
	struct block *first, *last;
	uint32_t pid;
	enum row_type type;
};

struct order {
	struct dump *dump;
	bool newer; /* as in out_opts */
	struct hmap blocks; /* (ptr, pid and type) -> struct block * */
	struct hmap pools; /* (pid, type) -> struct pool * */
	struct pool *first_pool, *last_pool;
	struct block **dirty; /* with rows that the journal has not; NULL = gone */
	size_t n_dirty, cap_dirty;
	uint64_t *ended; /* blocks of the journal that ended since */
	size_t n_ended, cap_ended;
	uint64_t seq;
	uint64_t open_rows;
	uint64_t freed; /* journal bytes of ended blocks, since the last flush */
	struct strbuf sb;
};

struct order *order__new(struct dump *d, bool newer)
{
	struct order *o = calloc(1, sizeof(*o));

	if (o) {
		o->dump = d;
		o->newer = newer;
	}
	return o;
}

static struct hkey block_key(uint32_t pid, enum row_type type, uint64_t ptr)
{
	return (struct hkey){ .a = ptr, .b = (uint64_t)pid << 8 | type };
}

static struct hkey pool_key(uint32_t pid, enum row_type type)
{
	return (struct hkey){ .a = pid, .b = type };
}

static struct pool *pool_of(struct order *o, const struct row *r)
{
	uint64_t *v = hmap__put(&o->pools, pool_key(r->pid, r->type), NULL);
	struct pool *p;

	if (!v)
		return NULL;
	if (*v)
		return (struct pool *)(uintptr_t)*v;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = r->pid;
	p->type = r->type;
	p->prev = o->last_pool;
	if (p->prev)
		p->prev->next = p;
	else
		o->first_pool = p;
	o->last_pool = p;
	*v = (uintptr_t)p;
	return p;
}

static void drop_pool(struct order *o, struct pool *p)
{
	if (p->prev)
		p->prev->next = p->next;
	else
		o->first_pool = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		o->last_pool = p->prev;
	hmap__del(&o->pools, pool_key(p->pid, p->type), NULL);
	free(p);
}

static int add_u64(uint64_t **list, size_t *n, size_t *cap, uint64_t v)
{
	if (*n == *cap) {
		size_t c = *cap ? *cap * 2 : 256;
		uint64_t *p = realloc(*list, c * sizeof(*p));

		if (!p)
			return -ENOMEM;
		*list = p;
		*cap = c;
	}
	(*list)[(*n)++] = v;
	return 0;
}

static int mark_dirty(struct order *o, struct block *b)
{
	if (b->dirty)
		return 0;
	if (o->n_dirty == o->cap_dirty) {
		size_t c = o->cap_dirty ? o->cap_dirty * 2 : 256;
		struct block **p = realloc(o->dirty, c * sizeof(*p));

		if (!p)
			return -ENOMEM;
		o->dirty = p;
		o->cap_dirty = c;
	}
	o->dirty[o->n_dirty++] = b;
	b->dirty = o->n_dirty;
	return 0;
}

/* Keep a row for the end of its block. */
static int append(struct order *o, struct block *b, const struct row *r)
{
	int err;

	strbuf__reset(&o->sb);
	err = row__encode(&o->sb, r);
	if (err)
		return err;
	if (b->cap - b->len < o->sb.len) {
		size_t cap = b->len + o->sb.len;
		char *p;

		/* Most blocks have one row; those with more get room to grow. */
		if (b->len)
			cap *= 2;
		p = cap > UINT32_MAX ? NULL : realloc(b->data, cap);
		if (!p)
			return -ENOMEM;
		b->data = p;
		b->cap = (uint32_t)cap;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a row is never empty */
	memcpy(b->data + b->len, o->sb.data, o->sb.len);
	b->len += (uint32_t)o->sb.len;
	b->rows++;
	o->open_rows++;
	return mark_dirty(o, b);
}

static struct block *new_block(struct order *o, const struct row *r)
{
	struct pool *p = pool_of(o, r);
	struct block *b;
	uint64_t *v;

	if (!p)
		return NULL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	v = hmap__put(&o->blocks, block_key(r->pid, r->type, r->ptr), NULL);
	if (!v) {
		free(b);
		return NULL;
	}
	*v = (uintptr_t)b;
	b->pool = p;
	b->ptr = r->ptr;
	b->seq = ++o->seq;
	b->prev = p->last;
	if (b->prev)
		b->prev->next = b;
	else
		p->first = b;
	p->last = b;
	return b;
}

static void drop_block(struct order *o, struct block *b)
{
	struct pool *p = b->pool;

	if (b->prev)
		b->prev->next = b->next;
	else
		p->first = b->next;
	if (b->next)
		b->next->prev = b->prev;
	else
		p->last = b->prev;
	if (b->dirty)
		o->dirty[b->dirty - 1] = NULL;
	o->open_rows -= b->rows;
	hmap__del(&o->blocks, block_key(p->pid, p->type, b->ptr), NULL);
	free(b->data);
	became__free(&b->became);
	free(b);
}

/* A row of a block that ends, with what this has become. */
static int write_row(struct order *o, const struct block *b, struct row *r)
{
	char *owner = NULL;
	int err = r->event == ROW_MALLOC ? became__dress(&b->became, o->newer, r, &owner) : 0;

	if (!err)
		err = dump__row(o->dump, r);
	free(owner);
	return err;
}

/*
 * Write a block's rows and forget it. After a failure it stays: its rows are
 * in the journal, from which recovery can still write them.
 */
static int end_block(struct order *o, struct block *b)
{
	const uint8_t *p = (const uint8_t *)b->data;
	size_t left = b->len;
	struct row r;
	ssize_t n;
	int err;

	while (left) {
		n = row__decode(p, left, &r);
		if (n < 0)
			return (int)n;
		err = write_row(o, b, &r);
		if (err)
			return err;
		p += n;
		left -= (size_t)n;
	}
	if (b->noted) {
		err = add_u64(&o->ended, &o->n_ended, &o->cap_ended, b->seq);
		if (err)
			return err;
		o->freed += b->in_journal;
	}
	drop_block(o, b);
	return 0;
}

int order__finish(struct order *o, uint32_t pid)
{
	struct pool *p, *prev;
	int err;

	for (p = o->last_pool; p; p = prev) {
		prev = p->prev;
		if (pid && p->pid != pid)
			continue;
		while (p->last) {
			/* It moves p->last on. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
			err = end_block(o, p->last);
			if (err)
				return err;
		}
		drop_pool(o, p);
	}
	return 0;
}

static struct block *block_at(const struct order *o, uint32_t pid, enum row_type type, uint64_t ptr)
{
	const uint64_t *v = hmap__get(&o->blocks, block_key(pid, type, ptr));

	return v ? (struct block *)(uintptr_t)*v : NULL;
}

/* The live block of a row, or NULL. */
static struct block *find(const struct order *o, const struct row *r)
{
	bool access = r->event == ROW_ACCESS;

	return block_at(o, r->pid, access ? r->pool : r->type, access ? r->block_ptr : r->ptr);
}

int order__label(struct order *o, uint32_t pid, enum row_type type, uint64_t ptr, const char *label)
{
	struct block *b = block_at(o, pid, type, ptr);

	return b ? became__label(&b->became, label) : -ENOENT;
}

void order__waste(struct order *o, uint32_t pid, enum row_type type, uint64_t ptr,
		  const char *waste)
{
	struct block *b = block_at(o, pid, type, ptr);

	if (b)
		b->became.waste = waste;
}

void order__owner(struct order *o, const struct out_owner *w)
{
	struct block *b = block_at(o, w->pid, w->type, w->ptr);

	if (b)
		b->became.owner = w->owner;
}

int order__row(struct order *o, const struct row *r)
{
	struct block *b;
	int err;

	switch (r->event) {
	case ROW_MALLOC:
		b = find(o, r);
		err = b ? end_block(o, b) : 0;
		if (err)
			return err;
		b = new_block(o, r);
		return b ? append(o, b, r) : -ENOMEM;
	case ROW_ACCESS:
		b = find(o, r);
		if (!b)
			return dump__row(o->dump, r);
		b->became.touched = true;
		return append(o, b, r);
	case ROW_FREE:
		b = find(o, r);
		if (b) {
			err = end_block(o, b);
			if (err)
				return err;
		}
		return dump__row(o->dump, r);
	case ROW_SYSTEM:
		/* Tracing of a process that starts or stops ends its blocks; V-now goes on. */
		if (!o->newer && (r->type == ROW_START_TRACE || r->type == ROW_STOP_TRACE)) {
			err = order__finish(o, r->pid);
			if (err)
				return err;
		}
		return dump__row(o->dump, r);
	default:
		return dump__row(o->dump, r);
	}
}

static int note_block(struct block *b, struct journal *j)
{
	uint64_t before = j->live;
	int err = journal__rows(j, b->seq, b->data + b->noted, b->len - b->noted);

	if (!err)
		b->noted = b->len;
	b->in_journal += j->live - before;
	return err;
}

/* All open blocks into a fresh journal. */
static int rewrite(struct order *o, struct journal *j)
{
	struct journal fresh;
	struct block *b;
	struct pool *p;
	uint64_t before;
	int err = journal__rewrite(j, &fresh);

	if (err)
		return 0; /* the old one goes on */
	for (p = o->first_pool; p && !err; p = p->next) {
		for (b = p->first; b && !err; b = b->next) {
			before = fresh.live;
			err = journal__rows(&fresh, b->seq, b->data, b->noted);
			b->in_journal = fresh.live - before;
		}
	}
	if (!err)
		err = journal__commit(&fresh, dump__position(o->dump));
	return journal__rewritten(j, &fresh, err);
}

int order__flush(struct order *o, struct journal *j, bool dump_ok)
{
	size_t i;
	int err = 0;

	/*
	 * A dump that failed may have dropped rows of blocks that ended: in the
	 * journal they stay open, and the last COMMIT stays the last.
	 */
	for (i = 0; i < o->n_ended && !err && dump_ok; i++)
		err = journal__end(j, o->ended[i]);
	for (i = 0; i < o->n_dirty && !err; i++) {
		if (!o->dirty[i])
			continue;
		err = note_block(o->dirty[i], j);
		o->dirty[i]->dirty = 0;
	}
	if (!err && dump_ok && (o->n_ended || o->n_dirty))
		err = journal__commit(j, dump__position(o->dump));
	o->n_ended = o->n_dirty = 0;
	j->live -= MT_MIN(j->live, o->freed);
	o->freed = 0;
	if (!err && dump_ok && journal__is_stale(j))
		err = rewrite(o, j);
	return err;
}

uint64_t order__open_rows(const struct order *o)
{
	return o->open_rows;
}

void order__free(struct order *o)
{
	struct pool *p;

	if (!o)
		return;
	while ((p = o->last_pool)) {
		while (p->last)
			/* It moves p->last on. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
			drop_block(o, p->last);
		drop_pool(o, p);
	}
	hmap__free(&o->blocks);
	hmap__free(&o->pools);
	free(o->dirty);
	free(o->ended);
	strbuf__free(&o->sb);
	free(o);
}
