// SPDX-License-Identifier: Apache-2.0
/*
 * HAL memory allocated between marks A and B that still lives at C
 * (msleaks.md 6.3). By row ids, as the vendor does it, so marks and HAL rows
 * are kept up to the end.
 */
#include "analyze/internal.h"

#include <errno.h>

enum kind { MARK, ALLOC, RELEASE };

struct event {
	uint64_t id, ptr;
	int64_t size;
	uint32_t group;
	uint8_t kind;
	bool hex;
};

struct range {
	const struct texts *texts;
	const char *mark;
	uint64_t start_index;
	struct hmap groups;
	struct event *events;
	size_t n_events, cap_events;
	struct range_result *results;
	size_t n_results, cap_results;
	struct range_leak *leaks;
	size_t n_leaks, cap_leaks;
};

struct range *range__new(const struct texts *texts, const char *mark, uint64_t start_index)
{
	struct range *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->texts = texts;
	r->mark = mark;
	r->start_index = start_index;
	return r;
}

void range__free(struct range *r)
{
	if (!r)
		return;
	hmap__free(&r->groups);
	free(r->events);
	free(r->results);
	free(r->leaks);
	free(r);
}

static int group_of(struct range *r, const struct item *it, uint32_t *group)
{
	struct hkey k = key_device(it->pid, it->device);
	bool fresh;
	uint64_t *v = hmap__put(&r->groups, k, &fresh);

	if (!v)
		return -ENOMEM;
	if (fresh) {
		*v = r->n_results;
		if (!VEC_GROW(r->results, r->n_results, r->cap_results)) {
			hmap__del(&r->groups, k, NULL);
			return -ENOMEM;
		}
		r->results[r->n_results++] = (struct range_result){ .pid = it->pid,
								    .device = it->device };
	}
	*group = (uint32_t)*v;
	return 0;
}

int range__item(struct range *r, const struct item *it)
{
	uint32_t group;
	enum kind kind;
	int err;

	if (it->device == DEV_NA)
		return 0;
	err = group_of(r, it, &group);
	if (err)
		return err;
	if (it->event == ROW_MSTX && it->type == ROW_MARK)
		kind = MARK;
	else if (it->type == ROW_HAL && it->event == ROW_MALLOC)
		kind = ALLOC;
	else if (it->type == ROW_HAL && it->event == ROW_FREE)
		kind = RELEASE;
	else
		return 0;
	if (kind == MARK && strcmp(texts__get(r->texts, it->name, NULL), r->mark) != 0)
		return 0;
	if (!VEC_GROW(r->events, r->n_events, r->cap_events))
		return -ENOMEM;
	r->events[r->n_events++] = (struct event){ it->id, it->ptr,	  it->size,
						   group,  (uint8_t)kind, it->flags & ITEM_HEX };
	return 0;
}

static int by_group_and_id(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* The events of one group, sorted. */
static int judge(struct range *r, struct range_result *res, const struct event *e, size_t n)
{
	uint64_t mark[3] = { 0 }, seen = 0, at;
	struct hmap live = { 0 };
	uint64_t *v;
	size_t i;
	int err = 0;

	for (i = 0; i < n; i++) {
		if (e[i].kind != MARK)
			continue;
		if (res->marks >= r->start_index && seen < 3)
			mark[seen++] = e[i].id;
		res->marks++;
	}
	if (res->marks < 3) {
		res->state = RANGE_TOO_FEW;
		return 0;
	}
	if (seen < 3) {
		res->state = RANGE_OUT;
		return 0;
	}
	res->first = r->n_leaks;
	for (i = 0; i < n && e[i].id <= mark[2]; i++) {
		if (e[i].kind == ALLOC && e[i].id >= mark[0] && e[i].id <= mark[1]) {
			v = hmap__put(&live, (struct hkey){ e[i].ptr, 0 }, NULL);
			if (!v || !VEC_GROW(r->leaks, r->n_leaks, r->cap_leaks)) {
				err = -ENOMEM;
				break;
			}
			/* One that lives at the same place has lost its FREE: both are kept. */
			r->leaks[r->n_leaks++] = (struct range_leak){ e[i].ptr,	 e[i].id,
								      e[i].size, (size_t)*v,
								      e[i].hex,	 false };
			*v = r->n_leaks;
		} else if (e[i].kind == RELEASE && e[i].id >= mark[0] &&
			   hmap__del(&live, (struct hkey){ e[i].ptr, 0 }, &at)) {
			for (; at; at = r->leaks[at - 1].older)
				r->leaks[at - 1].gone = true;
		}
	}
	hmap__free(&live);
	for (i = seen = res->first; i < r->n_leaks; i++) {
		if (!r->leaks[i].gone)
			r->leaks[seen++] = r->leaks[i];
	}
	r->n_leaks = seen;
	res->n = r->n_leaks - res->first;
	return err;
}

int range__finish(struct range *r)
{
	size_t i, k, g = 0;
	int err = 0;

	if (r->n_events)
		qsort(r->events, r->n_events, sizeof(*r->events), by_group_and_id);
	for (i = 0; g < r->n_results && !err; g++, i = k) {
		for (k = i; k < r->n_events && r->events[k].group == g; k++)
			;
		err = judge(r, &r->results[g], k > i ? r->events + i : NULL, k - i);
	}
	return err;
}

const struct range_result *range__results(const struct range *r, size_t *n)
{
	*n = r->n_results;
	return r->results;
}

const struct range_leak *range__leaks(const struct range *r)
{
	return r->leaks;
}
