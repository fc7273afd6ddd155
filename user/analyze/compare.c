// SPDX-License-Identifier: Apache-2.0
/*
 * Two steps side by side (msleaks.md 5): their operators or kernels, aligned
 * by name, each with the size of the next row of the framework's pool.
 */
#include "analyze/internal.h"

#include <errno.h>

/* So many operators may differ: beyond, the two have little in common. */
#define MAX_EDITS 100000

struct op {
	int64_t size;
	uint32_t name;
	uint8_t event;
};

struct side {
	struct op *ops;
	size_t n, cap, waiting; /* from `waiting` on their pool row has not come */
	bool seen;
	uint32_t first; /* seq of its first row */
};

struct device {
	int32_t device;
	struct side sides[2];
};

struct compare {
	unsigned int level;
	uint8_t framework; /* enum row_type; ROW_TYPE_MAX: not known yet */
	struct hmap index;
	struct device *devs;
	size_t n_devs, cap_devs;
	struct compare_row *rows;
	size_t n_rows, cap_rows;
};

struct compare *compare__new(unsigned int level)
{
	struct compare *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->level = level;
	c->framework = ROW_TYPE_MAX;
	return c;
}

void compare__free(struct compare *c)
{
	size_t i;

	if (!c)
		return;
	for (i = 0; i < c->n_devs; i++) {
		free(c->devs[i].sides[0].ops);
		free(c->devs[i].sides[1].ops);
	}
	free(c->devs);
	free(c->rows);
	hmap__free(&c->index);
	free(c);
}

static struct side *side_of(struct compare *c, unsigned int side, const struct item *it)
{
	struct hkey k = { (uint32_t)it->device, 0 };
	bool fresh;
	uint64_t *v = hmap__put(&c->index, k, &fresh);
	struct side *s;

	if (!v)
		return NULL;
	if (fresh) {
		*v = c->n_devs;
		if (!VEC_GROW(c->devs, c->n_devs, c->cap_devs)) {
			hmap__del(&c->index, k, NULL);
			return NULL;
		}
		c->devs[c->n_devs++] = (struct device){ .device = it->device };
	}
	s = &c->devs[*v].sides[side];
	s->first = s->seen ? MT_MIN(s->first, it->seq) : it->seq;
	s->seen = true;
	return s;
}

static bool is_op(const struct compare *c, const struct item *it)
{
	if (c->level & LEVEL_OP && (it->type == ROW_ATEN_END || it->type == ROW_ATB_END))
		return true;
	return c->level & LEVEL_KERNEL && it->type == ROW_KERNEL;
}

int compare__item(struct compare *c, unsigned int side, const struct item *it)
{
	struct side *s;

	if (it->type == ROW_PTA || it->type == ROW_MINDSPORE) {
		if (c->framework == ROW_TYPE_MAX)
			c->framework = it->type;
		if (c->framework != it->type)
			return -EPROTO;
	}
	if (it->device < 0)
		return 0;
	s = side_of(c, side, it);
	if (!s)
		return -ENOMEM;
	if (is_op(c, it)) {
		if (!VEC_GROW(s->ops, s->n, s->cap))
			return -ENOMEM;
		s->ops[s->n++] = (struct op){ 0, it->name, it->event };
	} else if (it->type == ROW_PTA || it->type == ROW_MINDSPORE) {
		for (; s->waiting < s->n; s->waiting++)
			s->ops[s->waiting].size = it->size;
	}
	return 0;
}

/* As the vendor prints them: what it met last comes first; devices of the other side only, last. */
static int by_first_row(const void *a, const void *b)
{
	const struct device *x = a, *y = b;
	int side = x->sides[0].seen && y->sides[0].seen ? 0 : 1;

	if (x->sides[0].seen != y->sides[0].seen)
		return x->sides[0].seen ? -1 : 1;
	return x->sides[side].first > y->sides[side].first ? -1 : 1;
}

static uint32_t *names_of(const struct side *s)
{
	uint32_t *names = calloc(s->n + 1, sizeof(*names));
	size_t i;

	for (i = 0; names && i < s->n; i++)
		names[i] = s->ops[i].name;
	return names;
}

static int add_row(struct compare *c, const struct device *d, const struct op *base,
		   const struct op *other)
{
	const struct op *of = other ? other : base;
	int64_t diff;

	if (!of)
		return -EINVAL;
	if (!VEC_GROW(c->rows, c->n_rows, c->cap_rows))
		return -ENOMEM;
	/* Sizes of a damaged file may be anything. */
	if (__builtin_sub_overflow(other ? other->size : 0, base ? base->size : 0, &diff))
		diff = other && other->size > 0 ? INT64_MAX : INT64_MIN;
	c->rows[c->n_rows++] = (struct compare_row){ .name = of->name,
						     .event = of->event,
						     .in_base = base,
						     .in_other = other,
						     .device = d->device,
						     .base = base ? base->size : 0,
						     .other = other ? other->size : 0,
						     .diff = diff };
	return 0;
}

static int device_rows(struct compare *c, const struct device *d)
{
	const struct side *base = &d->sides[0], *other = &d->sides[1];
	uint32_t *a = names_of(base), *b = names_of(other);
	size_t i, x = 0, y = 0, n = 0;
	uint8_t *edits = NULL;
	int err = -ENOMEM;

	if (!a || !b)
		goto out;
	err = myers__diff(a, base->n, b, other->n, MAX_EDITS, &edits, &n);
	for (i = 0; i < n && !err; i++) {
		switch (edits[i]) {
		case EDIT_SAME:
			err = add_row(c, d, &base->ops[x], &other->ops[y]);
			x++;
			y++;
			break;
		case EDIT_ADD:
			err = add_row(c, d, NULL, &other->ops[y++]);
			break;
		default:
			err = add_row(c, d, &base->ops[x++], NULL);
		}
	}
out:
	free(edits);
	free(a);
	free(b);
	return err;
}

int compare__finish(struct compare *c)
{
	size_t i;
	int err = 0;

	if (c->framework == ROW_MINDSPORE && c->level & LEVEL_OP)
		return -EPROTO;
	if (c->n_devs)
		qsort(c->devs, c->n_devs, sizeof(*c->devs), by_first_row);
	for (i = 0; i < c->n_devs && !err; i++)
		err = device_rows(c, &c->devs[i]);
	return err;
}

const struct compare_row *compare__rows(const struct compare *c, size_t *n)
{
	*n = c->n_rows;
	return c->rows;
}
