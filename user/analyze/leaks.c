// SPDX-License-Identifier: Apache-2.0
/*
 * Leaks between steps (msleaks.md 6.1): a block allocated in step n, from the
 * second on, that still lives at the end of step n + 1. Gaps: how evenly the
 * memory of a pool is used in each step. HAL leaks: what lives at the end.
 */
#include "analyze/internal.h"

#include <errno.h>

struct block {
	uint64_t ptr, alloc, time, kernel, step;
	int64_t size;
	uint32_t tid, device; /* index in devices */
	uint32_t stack_py, stack_c;
	uint32_t leak; /* index + 1 in leaks */
	uint32_t next; /* of the free ones */
	uint32_t serial; /* which use of this place */
	uint8_t type;
};

struct pending {
	uint32_t block, serial;
};

enum { POOL_PTA, POOL_ATB, POOL_MINDSPORE, POOL_MAX };

struct pool {
	struct gap gap;
	uint64_t least, most;
	bool seen, any; /* any: a gap is known */
};

struct device {
	struct pool pools[POOL_MAX];
	uint32_t pid;
	int32_t device;
	uint32_t before; /* index + 1 of the device of this process that was met before */
	uint64_t during; /* step; the last one also behind its end */
	uint64_t last_end; /* time */
	struct pending *pending; /* blocks of steps from the second on, not checked yet */
	size_t n_pending, cap_pending;
};

struct leaks {
	struct steps *steps;
	struct hmap live, devices, kernels;
	struct hmap during; /* of each process: the step by marks of no device */
	struct hmap last; /* of each process: index + 1 of the device that was met last */
	struct block *blocks;
	size_t n_blocks, cap_blocks;
	uint32_t free_block; /* index + 1 */
	struct device *devs;
	size_t n_devs, cap_devs;
	struct leak *list, *hal;
	size_t n, cap, n_hal, cap_hal;
	struct gap *gaps;
	size_t n_gaps;
};

const char *pool__title(enum row_type t)
{
	switch (t) {
	case ROW_PTA:
		return "Pytorch Caching memory pool";
	case ROW_ATB:
		return "ATB memory pool";
	case ROW_MINDSPORE:
		return "Mindspore memory pool";
	default:
		return NULL;
	}
}

struct leaks *leaks__new(const struct texts *texts)
{
	struct leaks *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->steps = steps__new(texts);
	if (!l->steps) {
		free(l);
		return NULL;
	}
	return l;
}

void leaks__free(struct leaks *l)
{
	size_t i;

	if (!l)
		return;
	for (i = 0; i < l->n_devs; i++)
		free(l->devs[i].pending);
	steps__free(l->steps);
	hmap__free(&l->live);
	hmap__free(&l->devices);
	hmap__free(&l->kernels);
	hmap__free(&l->during);
	hmap__free(&l->last);
	free(l->blocks);
	free(l->devs);
	free(l->list);
	free(l->hal);
	free(l->gaps);
	free(l);
}

static int device_of(struct leaks *l, uint32_t pid, int32_t device, uint32_t *index)
{
	bool fresh;
	uint64_t *v = hmap__put(&l->devices, key_device(pid, device), &fresh), *during, *last;

	if (!v)
		return -ENOMEM;
	if (fresh) {
		*v = l->n_devs;
		last = hmap__put(&l->last, (struct hkey){ pid, 0 }, NULL);
		if (!last || !VEC_GROW(l->devs, l->n_devs, l->cap_devs)) {
			hmap__del(&l->devices, key_device(pid, device), NULL);
			return -ENOMEM;
		}
		during = hmap__get(&l->during, (struct hkey){ pid, 0 });
		l->devs[l->n_devs++] = (struct device){ .pid = pid,
							.device = device,
							.before = (uint32_t)*last,
							.during = during ? *during : 0 };
		*last = l->n_devs;
	}
	*index = (uint32_t)*v;
	return 0;
}

static struct pool *pool_of(struct device *d, enum row_type type)
{
	int i = type == ROW_PTA ? POOL_PTA : type == ROW_ATB ? POOL_ATB : POOL_MINDSPORE;
	struct pool *p = &d->pools[i];

	if (!p->seen) {
		p->seen = true;
		p->least = UINT64_MAX;
		p->gap.pid = d->pid;
		p->gap.device = d->device;
		p->gap.type = type;
	}
	return p;
}

static struct hkey key_block(const struct item *it, uint32_t device)
{
	return (struct hkey){ it->ptr, (uint64_t)device << 8 | it->type };
}

static void put_back(struct leaks *l, uint32_t index)
{
	l->blocks[index].serial++;
	l->blocks[index].next = l->free_block;
	l->free_block = index + 1;
}

/* A block ends; `time` 0: nobody saw how. */
static void ended(struct leaks *l, uint32_t index, uint64_t time)
{
	struct block *b = &l->blocks[index];
	struct leak *k;

	if (b->leak) {
		k = &l->list[b->leak - 1];
		k->freed = time;
		/* What is freed between the steps has lived long; after them the job ends. */
		k->withdrawn = true;
	}
	put_back(l, index);
}

static uint64_t kernels_of(const struct leaks *l, uint32_t pid)
{
	const uint64_t *v = hmap__get(&l->kernels, (struct hkey){ pid, 0 });

	return v ? *v : 0;
}

static int allocated(struct leaks *l, const struct item *it, uint32_t device)
{
	struct device *d = &l->devs[device];
	uint32_t index, serial;
	bool fresh;
	uint64_t *v = hmap__put(&l->live, key_block(it, device), &fresh);
	struct block *b;

	if (!v)
		return -ENOMEM;
	if (!fresh)
		ended(l, (uint32_t)*v, it->time); /* its FREE was not seen */
	if (l->free_block) {
		index = l->free_block - 1;
		l->free_block = l->blocks[index].next;
	} else {
		if (l->n_blocks == UINT32_MAX - 1 ||
		    !VEC_GROW(l->blocks, l->n_blocks, l->cap_blocks)) {
			hmap__del(&l->live, key_block(it, device), NULL);
			return -ENOMEM;
		}
		index = (uint32_t)l->n_blocks++;
		l->blocks[index].serial = 0;
	}
	*v = index;
	b = &l->blocks[index];
	serial = b->serial;
	*b = (struct block){ .ptr = it->ptr,
			     .alloc = it->alloc,
			     .time = it->time,
			     .kernel = kernels_of(l, it->pid),
			     .step = d->during,
			     .size = it->size,
			     .tid = it->tid,
			     .device = device,
			     .stack_py = it->stack_py,
			     .stack_c = it->stack_c,
			     .serial = serial,
			     .type = it->type };
	if (d->during < 2 || !pool__title((enum row_type)it->type))
		return 0;
	if (!VEC_GROW(d->pending, d->n_pending, d->cap_pending))
		return -ENOMEM;
	d->pending[d->n_pending++] = (struct pending){ index, serial };
	return 0;
}

static int memory(struct leaks *l, const struct item *it)
{
	struct pool *p;
	uint32_t device;
	uint64_t index;
	int err;

	if (!pool__title((enum row_type)it->type) && it->type != ROW_HAL)
		return 0;
	err = device_of(l, it->pid, it->device, &device);
	if (err)
		return err;
	if (it->event == ROW_MALLOC)
		err = allocated(l, it, device);
	else if (hmap__del(&l->live, key_block(it, device), &index))
		ended(l, (uint32_t)index, it->time);
	if (err || it->type == ROW_HAL)
		return err;
	p = pool_of(&l->devs[device], (enum row_type)it->type);
	if (l->devs[device].during >= 2 && it->flags & ITEM_USED) {
		p->least = MT_MIN(p->least, it->used);
		p->most = MT_MAX(p->most, it->used);
	}
	return 0;
}

static int report(struct leaks *l, uint32_t device, uint64_t step)
{
	struct device *d = &l->devs[device];
	size_t i, kept = 0;

	for (i = 0; i < d->n_pending; i++) {
		struct block *b = &l->blocks[d->pending[i].block];

		if (b->serial != d->pending[i].serial)
			continue; /* it has ended */
		if (b->step >= step) {
			d->pending[kept++] = d->pending[i];
			continue;
		}
		if (l->n == UINT32_MAX - 1 || !VEC_GROW(l->list, l->n, l->cap))
			return -ENOMEM;
		l->list[l->n++] = (struct leak){ .ptr = b->ptr,
						 .alloc = b->alloc,
						 .time = b->time,
						 .size = b->size,
						 .kernel = b->kernel,
						 .step = b->step,
						 .reported = step,
						 .pid = d->pid,
						 .tid = b->tid,
						 .device = d->device,
						 .order = device,
						 .stack_py = b->stack_py,
						 .stack_c = b->stack_c,
						 .type = (enum row_type)b->type };
		b->leak = (uint32_t)l->n;
	}
	d->n_pending = kept;
	return 0;
}

static void gaps_of_step(struct device *d, uint64_t step)
{
	struct pool *p;

	for (p = d->pools; p < d->pools + POOL_MAX; p++) {
		double share;

		if (p->most) {
			share = (double)p->least / (double)p->most;
			if (!p->any || share < p->gap.min.share) {
				p->gap.min.share = share;
				p->gap.min.memory = p->least;
				p->gap.min.step = step;
			}
			if (!p->any || share > p->gap.max.share) {
				p->gap.max.share = share;
				p->gap.max.memory = p->least;
				p->gap.max.step = step;
			}
			p->any = true;
		}
		p->least = UINT64_MAX;
		p->most = 0;
	}
}

static int step_of_device(struct leaks *l, uint32_t device, const struct step_change *c,
			  uint64_t time)
{
	struct device *d = &l->devs[device];
	int err;

	if (c->begin) {
		d->during = c->number;
		return 0;
	}
	d->last_end = time;
	if (c->number < 2)
		return 0;
	err = report(l, device, c->number);
	gaps_of_step(d, c->number);
	return err;
}

static int step_changed(struct leaks *l, const struct step_change *c, uint64_t time)
{
	uint32_t device, i;
	uint64_t *v;
	int err;

	if (c->device != DEV_NA) {
		err = device_of(l, c->pid, c->device, &device);
		return err ? err : step_of_device(l, device, c, time);
	}
	/* Nobody knows the device of the thread that marked it: it counts for all. */
	v = hmap__put(&l->during, (struct hkey){ c->pid, 0 }, NULL);
	if (!v)
		return -ENOMEM;
	*v = c->number;
	v = hmap__get(&l->last, (struct hkey){ c->pid, 0 });
	for (i = v ? (uint32_t)*v : 0, err = 0; i && !err; i = l->devs[i - 1].before)
		err = step_of_device(l, i - 1, c, time);
	return err;
}

int leaks__item(struct leaks *l, const struct item *it)
{
	struct step_change change[2];
	uint64_t *v;
	int i, n, err = 0;

	switch (it->event) {
	case ROW_MALLOC:
	case ROW_FREE:
		return memory(l, it);
	case ROW_KERNEL_LAUNCH:
		if (it->type != ROW_KERNEL)
			return 0;
		v = hmap__put(&l->kernels, (struct hkey){ it->pid, 0 }, NULL);
		if (v)
			++*v;
		return v ? 0 : -ENOMEM;
	default:
		n = steps__item(l->steps, it, change);
		for (i = 0; i < n && !err; i++)
			err = step_changed(l, &change[i], it->time);
		return n < 0 ? n : err;
	}
}

/* The vendor prints the device first that it met last; all of a device together. */
static int compare_leaks(const void *a, const void *b)
{
	const struct leak *x = a, *y = b;

	if (x->order != y->order)
		return x->order > y->order ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->ptr < y->ptr ? -1 : x->ptr > y->ptr;
}

static int collect_hal(struct leaks *l)
{
	struct hkey k;
	size_t pos = 0;
	uint64_t v;

	while (hmap__next(&l->live, &pos, &k, &v)) {
		const struct block *b = &l->blocks[v];

		if (b->type != ROW_HAL)
			continue;
		if (!VEC_GROW(l->hal, l->n_hal, l->cap_hal))
			return -ENOMEM;
		l->hal[l->n_hal++] = (struct leak){ .ptr = b->ptr,
						    .alloc = b->alloc,
						    .time = b->time,
						    .size = b->size,
						    .kernel = b->kernel,
						    .step = b->step,
						    .pid = l->devs[b->device].pid,
						    .tid = b->tid,
						    .device = l->devs[b->device].device,
						    .stack_py = b->stack_py,
						    .stack_c = b->stack_c,
						    .type = ROW_HAL };
	}
	return 0;
}

static int compare_hal(const void *a, const void *b)
{
	const struct leak *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return compare_leaks(a, b);
}

int leaks__finish(struct leaks *l)
{
	size_t i, k;

	/* Blocks that were freed behind the last step: the program was ending. */
	for (i = 0; i < l->n; i++) {
		if (l->list[i].withdrawn && l->list[i].freed > l->devs[l->list[i].order].last_end)
			l->list[i].withdrawn = false;
	}
	l->gaps = calloc(l->n_devs * POOL_MAX + 1, sizeof(*l->gaps));
	if (!l->gaps)
		return -ENOMEM;
	for (i = l->n_devs; i-- > 0;) {
		for (k = 0; k < POOL_MAX; k++) {
			if (l->devs[i].pools[k].seen)
				l->gaps[l->n_gaps++] = l->devs[i].pools[k].gap;
		}
	}
	if (collect_hal(l))
		return -ENOMEM;
	if (l->n)
		qsort(l->list, l->n, sizeof(*l->list), compare_leaks);
	if (l->n_hal)
		qsort(l->hal, l->n_hal, sizeof(*l->hal), compare_hal);
	return 0;
}

const struct leak *leaks__list(const struct leaks *l, size_t *n)
{
	*n = l->n;
	return l->list;
}

const struct gap *leaks__gaps(const struct leaks *l, size_t *n)
{
	*n = l->n_gaps;
	return l->gaps;
}

const struct leak *leaks__hal(const struct leaks *l, size_t *n)
{
	*n = l->n_hal;
	return l->hal;
}

void leaks__steps(const struct leaks *l, uint64_t *steps, uint64_t *unended)
{
	steps__counts(l->steps, steps, unended);
}
