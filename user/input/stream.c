// SPDX-License-Identifier: Apache-2.0
/*
 * The events of all files of a capture in the order of time. The vendor writes
 * the rows of a block when it ends, so the files have to be sorted.
 */
#include "input/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* So many items of one time are looked at for one that stands there twice. */
#define SAME_TIME 64

struct in_stream {
	struct sorter *sorter;
	struct in_counts counts;
	struct item same[SAME_TIME]; /* those of the last time */
	size_t n_same;
};

static void count(struct in_counts *to, const struct in_counts *c)
{
	if (c->rows) {
		to->first = !to->rows || c->first < to->first ? c->first : to->first;
		to->last = !to->rows || c->last > to->last ? c->last : to->last;
	}
	to->rows += c->rows;
	to->bad += c->bad;
	to->bad_attrs += c->bad_attrs;
	to->torn += c->torn;
	to->headers += c->headers;
	to->loose += c->loose;
}

static uint32_t put(struct texts *t, struct slice c, int *err)
{
	return c.n && !*err ? texts__put(t, c.s, c.n, err) : 0;
}

static uint8_t pool_of(const struct in_row *r)
{
	enum row_type t = r->keys & 1u << KEY_TYPE ? cell__type(r->attr[KEY_TYPE]) : ROW_TYPE_MAX;

	return (uint8_t)t;
}

/* "torch.float32 torch.Size([2, 3])" */
static uint32_t detail(struct texts *texts, const struct in_row *r, int *err)
{
	const struct slice *a = &r->attr[KEY_DTYPE], *b = &r->attr[KEY_SHAPE];
	char buf[256];
	int n;

	if (!(r->keys & (1u << KEY_DTYPE | 1u << KEY_SHAPE)))
		return 0;
	n = snprintf(buf, sizeof(buf), "%.*s%s%.*s", a->s ? (int)MT_MIN(a->n, 100) : 0,
		     a->s ? a->s : "", a->s && b->s ? " " : "", b->s ? (int)MT_MIN(b->n, 150) : 0,
		     b->s ? b->s : "");
	return put(texts, (struct slice){ buf, MT_MIN((size_t)n, sizeof(buf) - 1) }, err);
}

static int to_item(const struct in_row *r, const struct in_want *w, struct texts *texts,
		   struct item *it)
{
	int64_t v;
	int err = 0;

	*it = (struct item){ .time = r->time,
			     .id = r->id,
			     .ptr = r->ptr,
			     .pid = r->pid,
			     .tid = r->tid,
			     .device = r->device,
			     .event = (uint8_t)r->event,
			     .type = (uint8_t)r->type,
			     .pool = ROW_TYPE_MAX };
	it->flags = r->hex ? ITEM_HEX : 0;
	it->name = put(texts, r->name, &err);
	if (r->has_ptr) {
		if (in_row__num(r, KEY_ALLOCATION_ID, &v) && v > 0)
			it->alloc = (uint64_t)v;
		if (in_row__num(r, KEY_SIZE, &it->size))
			it->flags |= ITEM_SIZE;
		if (in_row__num(r, KEY_USED, &v) && v >= 0) {
			it->used = (uint64_t)v;
			it->flags |= ITEM_USED;
		}
		if (w->details && r->event == ROW_ACCESS)
			it->owner = detail(texts, r, &err);
		else if (r->keys & 1u << KEY_OWNER)
			it->owner = put(texts, r->attr[KEY_OWNER], &err);
		it->flags |= r->keys & 1u << KEY_PREATTACH ? ITEM_PREATTACH : 0;
		it->flags |= r->keys & 1u << KEY_SHADOW ? ITEM_SHADOW : 0;
		it->pool = r->event == ROW_ACCESS ? pool_of(r) : (uint8_t)r->type;
	}
	if (w->stacks) {
		it->stack_py = put(texts, r->cell[COL_PY], &err);
		it->stack_c = put(texts, r->cell[COL_C], &err);
	}
	if (err == -E2BIG)
		pr_err("the names and stacks of these files are too many to be held in memory: cut "
		       "a window out first (memtap cut)");
	return err;
}

static int read_file(struct in_stream *s, const char *path, const struct in_want *w,
		     struct texts *texts, uint32_t *seq)
{
	struct in_counts c;
	struct in_file *f;
	struct in_row r;
	struct item it;
	int err;

	err = in_file__open(path, &f);
	if (err)
		return err;
	while ((err = in_file__next(f, &r)) > 0) {
		if ((unsigned int)r.event >= ROW_EVENT_MAX || !(w->events & 1u << r.event))
			continue;
		err = to_item(&r, w, texts, &it);
		if (err)
			break;
		if (*seq == UINT32_MAX) {
			pr_err("%s: more than 4,294,967,295 events: cut a window out first (memtap "
			       "cut)",
			       path);
			err = -E2BIG;
			break;
		}
		it.seq = (*seq)++;
		err = sorter__add(s->sorter, &it);
		if (err)
			break;
	}
	in_file__counts(f, &c);
	count(&s->counts, &c);
	in_file__close(f);
	return err;
}

int in_stream__open(const struct in_set *set, const struct in_want *w, struct texts *texts,
		    struct in_stream **out)
{
	struct in_stream *s = calloc(1, sizeof(*s));
	uint32_t seq = 0;
	int err = -ENOMEM;
	size_t i;

	if (!s)
		return -ENOMEM;
	s->sorter = sorter__new(w->memory);
	if (!s->sorter)
		goto fail;
	for (i = 0; i < set->n; i++) {
		err = read_file(s, set->paths[i], w, texts, &seq);
		if (err)
			goto fail;
	}
	err = sorter__finish(s->sorter);
	if (err)
		goto fail;
	*out = s;
	return 0;
fail:
	if (err == -ENOMEM)
		pr_err("out of memory while reading %s", set->n ? set->paths[0] : "nothing");
	in_stream__close(s);
	return err;
}

/* Stands the same row there twice? (V-now: in each device's file, and again after a fork.) */
static bool doubled(struct in_stream *s, const struct item *it)
{
	size_t i;

	if (s->n_same && s->same[0].time != it->time)
		s->n_same = 0;
	for (i = 0; i < s->n_same; i++) {
		const struct item *o = &s->same[i];

		if (o->id == it->id && o->pid == it->pid && o->tid == it->tid &&
		    o->event == it->event && o->type == it->type && o->ptr == it->ptr &&
		    o->device == it->device && o->name == it->name)
			return true;
	}
	if (s->n_same < SAME_TIME)
		s->same[s->n_same++] = *it;
	return false;
}

int in_stream__next(struct in_stream *s, struct item *it)
{
	int err;

	while ((err = sorter__next(s->sorter, it)) > 0) {
		if (!doubled(s, it))
			return 1;
		s->counts.doubled++;
	}
	return err;
}

void in_stream__counts(const struct in_stream *s, struct in_counts *c)
{
	*c = s->counts;
}

void in_stream__close(struct in_stream *s)
{
	if (!s)
		return;
	sorter__free(s->sorter);
	free(s);
}
