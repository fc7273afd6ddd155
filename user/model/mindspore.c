// SPDX-License-Identifier: Apache-2.0
/* MindSpore's pools: blocks given, taken back, cut into several; what the pool says of itself. */
#include "model/internal.h"

#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"

/* ascend-abi.md 2.10: pools of the device only. */
static bool is_device_pool(const char *text, size_t len)
{
	return text && memmem(text, len, "Ascend", 6) && !memmem(text, len, "PinMemPool", 10);
}

static struct ms_pool *pool_at(struct process *p, uint64_t object)
{
	struct ms_pool *q;
	size_t i;

	for (i = 0; i < p->n_ms_pools; i++)
		if (p->ms_pools[i].object == object)
			return &p->ms_pools[i];
	/* Each event adds all of them up. */
	if (p->n_ms_pools >= MAX_MS_POOLS)
		return NULL;
	q = realloc(p->ms_pools, (p->n_ms_pools + 1) * sizeof(*q));
	if (!q)
		return NULL;
	p->ms_pools = q;
	q = &q[p->n_ms_pools++];
	*q = (struct ms_pool){ .object = object, .device = DEV_NA };
	return q;
}

/* The only device on which the driver gave this process memory; DEV_NA: none, or several. */
static int32_t only_device(const struct process *p)
{
	int32_t found = DEV_NA;
	size_t i;

	for (i = 0; i < p->hal.n; i++) {
		if (p->hal.v[i].slot == MAX_DEVICES)
			continue;
		if (found != DEV_NA)
			return DEV_NA;
		found = p->hal.v[i].slot;
	}
	return found;
}

/* A pool is of one device: what any of its threads told is true for all. */
static void learn_device(const struct process *p, struct ms_pool *q, const struct event *e)
{
	int32_t dev;

	if (q->device != DEV_NA)
		return;
	dev = process__device(p, e->tid, e->stream);
	q->device = dev != DEV_NA ? dev : only_device(p);
}

static void change(struct ms_pool *q, int64_t by)
{
	q->used = by < 0 && q->used < (uint64_t)-by ? 0 : q->used + (uint64_t)by;
}

/*
 * After the event was counted. What was read without the pool's lock may be younger
 * than the event: a sum that once was right is better.
 */
static void totals(const struct process *p, struct ms_pool *q, const struct event *e)
{
	const struct pool *hal = pools__find(&p->hal, q->device);

	if ((e->flags & EVF_TOTALS) && !((e->flags & EVF_LOOSE) && q->told)) {
		q->used = (uint64_t)e->allocated;
		q->told = true;
	}
	if ((e->flags & EVF_RESERVED) && e->kind == EV_MS_ALLOC) {
		q->mapped = e->flags & EVF_VMM;
		q->reserves = true;
	}
	/* Only an allocation asks how much of an address range is mapped. */
	if ((e->flags & EVF_RESERVED) && q->reserves && (!q->mapped || (e->flags & EVF_VMM)))
		q->total = (uint64_t)e->reserved;
	/* Does the pool not tell, then what the driver gave since the attach stands for it. */
	else if (!q->reserves)
		q->total = hal ? hal->used : 0;
	q->total = MT_MAX(q->total, q->used);
}

void ms__physical(struct process *p, int32_t device, int64_t by)
{
	size_t i;

	for (i = 0; i < p->n_ms_pools; i++) {
		struct ms_pool *q = &p->ms_pools[i];

		if (q->device == device && q->mapped && (by > 0 || q->total >= (uint64_t)-by))
			q->total += (uint64_t)by;
	}
}

/* Sums of the device from those of its pools, into the row too. */
static void show(struct process *p, const struct ms_pool *q, const struct event *e, struct row *r)
{
	struct pool *sum = pool__of(&p->ms, q->device);
	int64_t used = 0, total = 0;
	size_t i;

	for (i = 0; i < p->n_ms_pools; i++)
		if (p->ms_pools[i].device == q->device) {
			used += (int64_t)p->ms_pools[i].used;
			total += (int64_t)p->ms_pools[i].total;
		}
	if (sum) {
		pool__set(sum, used, total, e->time);
		sum->partial = !q->told;
	}
	r->attrs |= ATTR_POOL;
	r->total = (uint64_t)total;
	r->used = (uint64_t)used;
}

static void finish(struct model *m, struct process *p, struct ms_pool *q, const struct event *e,
		   struct row *r, bool is_event)
{
	if (q->device != DEV_NA && r->device == DEV_NA)
		r->device = q->device;
	show(p, q, e, r);
	if (!e->text_len && !m->opts.vendor) {
		r->attrs |= ATTR_NOTE;
		r->note = "pool unknown";
	}
	model__emit(m, p, r, is_event);
}

static void on_alloc(struct model *m, struct process *p, struct ms_pool *q, const struct event *e)
{
	const struct block *old = model__live(m, p, LAYER_MS, e->addr);
	struct row r;

	if (old)
		change(q, -old->size); /* its FREE was missed */
	if (!model__malloc_row(m, p, e, LAYER_MS, ROW_MINDSPORE, q->device, &r))
		return;
	change(q, r.size);
	totals(p, q, e);
	finish(m, p, q, e, &r, true);
}

static void on_free(struct model *m, struct process *p, struct ms_pool *q, const struct event *e)
{
	struct row r;

	if (model__free_row(m, p, e, LAYER_MS, ROW_MINDSPORE, &r))
		change(q, -r.size);
	/* Inside a call that keeps parts of blocks the pool has freed pieces, the rows tell of
	 * blocks. */
	if (!(e->flags & EVF_PART))
		totals(p, q, e);
	finish(m, p, q, e, &r, true);
}

/*
 * ---- parts of blocks that are kept ----
 *
 * DoFreePartTensorMems cuts the blocks first and then frees pieces: those that start a
 * block, and rests behind a kept part. A piece that starts no known block is either such
 * a rest or a block from before the attach; what is kept tells, and comes behind.
 */

static void put_off(struct model *m, struct process *p, const struct event *e)
{
	struct event *v;

	if (p->n_ms_pieces >= MAX_MS_PIECES) {
		m->counts.rules[RULE_CROWDED]++;
		return;
	}
	if (p->n_ms_pieces == p->cap_ms_pieces) {
		size_t cap = p->cap_ms_pieces ? p->cap_ms_pieces * 2 : 16;

		v = realloc(p->ms_pieces, cap * sizeof(*v));
		if (!v) {
			m->counts.rules[RULE_PART]++;
			return;
		}
		p->ms_pieces = v;
		p->cap_ms_pieces = cap;
	}
	p->ms_pieces[p->n_ms_pieces] = *e;
	/* The text does not outlive the event; a piece is of a pool whose name was looked at. */
	p->ms_pieces[p->n_ms_pieces].text = "";
	p->ms_pieces[p->n_ms_pieces++].text_len = e->text_len;
}

/*
 * What is left of a thread's pieces are blocks from before the attach. The pool is locked
 * meanwhile, but what other threads did just before may be told late.
 */
static void pieces_are_blocks(struct model *m, struct process *p, uint32_t tid)
{
	size_t i, kept = 0, n = p->n_ms_pieces;

	for (i = 0; i < n; i++) {
		struct event e;
		struct ms_pool *q;

		if (p->ms_pieces[i].tid != tid) {
			if (kept != i)
				p->ms_pieces[kept] = p->ms_pieces[i];
			kept++;
			continue;
		}
		e = p->ms_pieces[i];
		q = pool_at(p, e.key);
		/* Rows are written in the order of their times. */
		e.time = MT_MAX(e.time, m->last_time);
		if (q)
			on_free(m, p, q, &e);
		else
			m->counts.rules[RULE_CROWDED]++;
	}
	p->n_ms_pieces = kept;
}

static void on_keep(struct model *m, struct process *p, struct ms_pool *q, const struct event *e)
{
	const struct block *old = model__live(m, p, LAYER_MS, e->addr);
	size_t i;
	struct row r;

	for (i = 0; i < p->n_ms_pieces; i++)
		if (p->ms_pieces[i].tid == e->tid &&
		    p->ms_pieces[i].addr == e->addr + (uint64_t)e->size) {
			p->ms_pieces[i] = p->ms_pieces[--p->n_ms_pieces];
			m->counts.rules[RULE_PART]++;
			break;
		}
	if (old && old->size == e->size) {
		m->counts.rules[RULE_PART]++;
		return;
	}
	if (old) {
		/* The kept part starts the block: the pool has but shortened it. */
		struct event whole = *e;

		whole.kind = EV_MS_FREE;
		model__free_row(m, p, &whole, LAYER_MS, ROW_MINDSPORE, &r);
		change(q, -r.size);
		finish(m, p, q, e, &r, false);
	}
	if (!model__malloc_row(m, p, e, LAYER_MS, ROW_MINDSPORE, q->device, &r))
		return;
	change(q, r.size);
	finish(m, p, q, e, &r, true);
}

void ms__event(struct model *m, struct process *p, const struct event *e)
{
	struct ms_pool *q;

	/* A pool whose name cannot be read may be one of the device: never left out in silence. */
	if (e->text_len && !is_device_pool(e->text, e->text_len)) {
		m->counts.rules[RULE_OTHER_POOL]++;
		return;
	}
	q = pool_at(p, e->key);
	if (!q) {
		m->counts.rules[RULE_CROWDED]++;
		return;
	}
	learn_device(p, q, e);
	switch (e->kind) {
	case EV_MS_ALLOC:
		pieces_are_blocks(m, p, e->tid);
		on_alloc(m, p, q, e);
		break;
	case EV_MS_FREE:
		if (!(e->flags & EVF_PART))
			pieces_are_blocks(m, p, e->tid);
		else if (!model__live(m, p, LAYER_MS, e->addr)) {
			put_off(m, p, e);
			break;
		}
		on_free(m, p, q, e);
		break;
	case EV_MS_KEEP:
		on_keep(m, p, q, e);
		break;
	default: /* EV_MS_PART: that was the last of them */
		totals(p, q, e);
		pieces_are_blocks(m, p, e->tid);
		m->counts.rules[RULE_PART]++;
	}
}

void ms__finish(struct model *m, struct process *p)
{
	/* The call that freed them has not ended: nobody can tell what they were. */
	m->counts.rules[RULE_PART] += p->n_ms_pieces;
	p->n_ms_pieces = 0;
}
