// SPDX-License-Identifier: Apache-2.0
/*
 * Who owns the memory of each pool: what the dump says, else rules, else the
 * pool alone. The owner of a block is known when it has ended; what it held at
 * the peak is added up then, and all of it is forgotten when the pool goes
 * beyond that peak.
 */
#include "analyze/internal.h"

#include <errno.h>

/* Parts of 1 that a confidence is kept in. */
#define TOLD_SCALE 1e6
/* Stands for labels that a program makes up without end. */
#define MORE "…"

struct block {
	struct item malloc;
	uint64_t match[RULE_TEXTS];
	uint64_t ends, step, calls; /* at the MALLOC */
	uint64_t born; /* events of its pool */
	uint32_t pool; /* index */
	uint32_t next; /* of the free ones */
	bool accessed;
};

struct group {
	struct owned is;
	uint32_t pool;
	uint64_t peak_number; /* of which peak of the pool is.peak tells */
};

struct pool {
	struct owner_pool is;
	uint64_t events, sum; /* sum: of its blocks that live */
	uint64_t now; /* in use */
	uint64_t peak_at, peak_number; /* events; which peak it is */
};

struct device {
	uint64_t step, ends;
};

struct decompose {
	struct decompose_opts opts;
	struct rules *rules;
	const struct texts *texts;
	struct texts *labels;
	struct steps *steps;
	struct hmap devices, pools, live, groups, calls, ops;
	struct hmap told; /* block -> number of its label, confidence in parts */
	struct block *blocks;
	size_t n_blocks, cap_blocks;
	uint32_t free_block;
	struct pool *pool_list;
	size_t n_pools, cap_pools;
	struct group *group_list;
	size_t n_groups, cap_groups;
	struct owner_pool *out_pools;
	struct owned *out;
};

struct decompose *decompose__new(struct rules *rules, const struct texts *texts,
				 const struct decompose_opts *opts)
{
	struct decompose *d = calloc(1, sizeof(*d));
	int err = 0;

	if (!d)
		return NULL;
	d->opts = *opts;
	d->rules = rules;
	rules__forget(rules);
	d->texts = texts;
	d->labels = texts__new(16u << 20);
	d->steps = steps__new(texts);
	/* Now: later there may be no room for it. */
	if (d->labels)
		texts__put(d->labels, MORE, strlen(MORE), &err);
	if (!d->labels || !d->steps || err) {
		decompose__free(d);
		return NULL;
	}
	return d;
}

void decompose__free(struct decompose *d)
{
	if (!d)
		return;
	texts__free(d->labels);
	steps__free(d->steps);
	hmap__free(&d->devices);
	hmap__free(&d->pools);
	hmap__free(&d->live);
	hmap__free(&d->groups);
	hmap__free(&d->calls);
	hmap__free(&d->ops);
	hmap__free(&d->told);
	free(d->blocks);
	free(d->pool_list);
	free(d->group_list);
	free(d->out_pools);
	free(d->out);
	free(d);
}

static uint64_t value_of(const struct hmap *m, struct hkey k)
{
	const uint64_t *v = hmap__get(m, k);

	return v ? *v : 0;
}

/* Step in the upper, ends in the lower half. */
static struct device device_of(const struct decompose *d, uint32_t pid, int32_t device)
{
	const uint64_t *p = hmap__get(&d->devices, key_device(pid, device));
	/* Marks of an unknown device count for all that have none of their own. */
	uint64_t v = p ? *p : value_of(&d->devices, key_device(pid, DEV_NA));

	return (struct device){ v >> 32, v & UINT32_MAX };
}

static int pool_of(struct decompose *d, const struct item *it, struct pool **out)
{
	struct hkey k = { (uint64_t)it->pid << 32 | (uint32_t)it->device, it->type };
	bool fresh;
	uint64_t *v = hmap__put(&d->pools, k, &fresh);

	if (!v)
		return -ENOMEM;
	if (fresh) {
		*v = d->n_pools;
		if (!VEC_GROW(d->pool_list, d->n_pools, d->cap_pools)) {
			hmap__del(&d->pools, k, NULL);
			return -ENOMEM;
		}
		d->pool_list[d->n_pools] = (struct pool){ .peak_number = 1 };
		d->pool_list[d->n_pools++].is = (struct owner_pool){
			.pid = it->pid, .device = it->device, .type = (enum row_type)it->type
		};
	}
	*out = &d->pool_list[*v];
	return 0;
}

/* ---- the label of a block that has ended ---- */

static uint32_t number_of(struct decompose *d, const char *label, int *err)
{
	uint32_t number = texts__put(d->labels, label, strlen(label), err);

	if (*err != -E2BIG)
		return number;
	*err = 0;
	return texts__put(d->labels, MORE, strlen(MORE), err);
}

static int label_of(struct decompose *d, const struct block *b, struct owner_block *o)
{
	const char *owner = texts__get(d->texts, b->malloc.owner, NULL);
	struct device dev = device_of(d, b->malloc.pid, b->malloc.device);
	struct rule_block rb = { .type = (enum row_type)b->malloc.type,
				 .other_thread = b->malloc.tid != b->malloc.pid,
				 .accessed = b->accessed,
				 .ends = dev.ends - b->ends,
				 .step = b->step,
				 .calls = value_of(&d->calls, (struct hkey){ b->malloc.pid, 0 }) -
					  b->calls,
				 .size = b->malloc.size,
				 .stack = { b->malloc.stack_py, b->malloc.stack_c } };
	size_t weak = *owner ? owner__weak(owner, rb.type, d->opts.refine) : 0;
	struct rule_found f = { owner__of_pool(rb.type), 1, 0 };
	char text[1024];
	const uint64_t *told;
	uint32_t number;
	int err = 0;

	told = hmap__get(&d->told, item__key(&b->malloc));
	if (told && weak != SIZE_MAX) {
		f.label = texts__get(d->labels, (uint32_t)(*told >> 32), NULL);
		f.confidence = (double)(uint32_t)*told / TOLD_SCALE;
		o->source = OWNER_OBJECT;
	} else if (weak == SIZE_MAX) {
		f.label = owner;
		weak = strlen(owner);
		o->source = OWNER_STATED;
	} else {
		memcpy(rb.match, b->match, sizeof(rb.match));
		o->source = rules__find(d->rules, &rb, &f) ? OWNER_RULE
			    : *owner			   ? OWNER_STATED
							   : OWNER_POOL;
		if (o->source == OWNER_STATED && weak)
			f.label = NULL; /* as it stands */
	}
	snprintf(text, sizeof(text), "%s%s", f.label ? f.label : "", owner + (f.label ? weak : 0));
	number = number_of(d, text, &err);
	o->label = texts__get(d->labels, number, NULL);
	o->confidence = f.confidence;
	o->rule = f.number;
	return err ? err : (int)MT_MIN(number, (uint32_t)INT32_MAX);
}

static int group_of(struct decompose *d, const struct block *b, const struct owner_block *o,
		    uint32_t label, struct group **out)
{
	struct hkey k = { (uint64_t)b->pool << 32 | label, (uint64_t)o->rule << 8 | o->source };
	bool fresh;
	uint64_t *v = hmap__put(&d->groups, k, &fresh);

	if (!v)
		return -ENOMEM;
	if (fresh) {
		*v = d->n_groups;
		if (!VEC_GROW(d->group_list, d->n_groups, d->cap_groups)) {
			hmap__del(&d->groups, k, NULL);
			return -ENOMEM;
		}
		d->group_list[d->n_groups++] = (struct group){
			.is = { .pid = b->malloc.pid,
				.device = b->malloc.device,
				.type = (enum row_type)b->malloc.type,
				.label = o->label,
				.confidence = o->confidence,
				.source = o->source,
				.rule = o->rule },
			.pool = b->pool,
		};
	}
	*out = &d->group_list[*v];
	return 0;
}

static void add(struct owner_sum *s, const struct block *b)
{
	s->blocks++;
	s->bytes += b->malloc.size > 0 ? (uint64_t)b->malloc.size : 0;
}

/* freed: time, 0: it lives at the end. */
static int ended(struct decompose *d, uint64_t index, uint64_t freed)
{
	struct block *b = &d->blocks[index];
	struct pool *p = &d->pool_list[b->pool];
	struct owner_block o = { .malloc = &b->malloc, .freed = freed };
	struct group *g;
	int label = label_of(d, b, &o), err;

	if (label < 0)
		return label;
	err = group_of(d, b, &o, (uint32_t)label, &g);
	if (err)
		return err;
	if (g->peak_number != p->peak_number) {
		g->peak_number = p->peak_number;
		g->is.peak = (struct owner_sum){ 0 };
	}
	if (b->born <= p->peak_at)
		add(&g->is.peak, b);
	if (!freed)
		add(&g->is.end, b);
	add(&g->is.all, b);
	p->sum -= b->malloc.size > 0 ? (uint64_t)b->malloc.size : 0;
	err = d->opts.block ? d->opts.block(d->opts.ctx, &o) : 0;
	b->next = d->free_block;
	d->free_block = (uint32_t)index + 1;
	return err;
}

/* ---- events ---- */

static int allocated(struct decompose *d, const struct item *it, uint32_t pool)
{
	struct device dev = device_of(d, it->pid, it->device);
	bool fresh;
	uint64_t *v, index;
	struct block *b;
	int err = 0;

	if (d->free_block) {
		index = d->free_block - 1;
		d->free_block = d->blocks[index].next;
	} else {
		if (d->n_blocks == UINT32_MAX - 1 ||
		    !VEC_GROW(d->blocks, d->n_blocks, d->cap_blocks))
			return -ENOMEM;
		index = d->n_blocks++;
	}
	v = hmap__put(&d->live, item__key(it), &fresh);
	if (!v)
		return -ENOMEM;
	err = fresh ? 0 : ended(d, *v, it->time);
	if (err)
		return err;
	*v = index;
	b = &d->blocks[index];
	*b = (struct block){ .malloc = *it,
			     .ends = dev.ends,
			     .step = dev.step,
			     .calls = value_of(&d->calls, (struct hkey){ it->pid, 0 }),
			     .pool = pool };
	b->match[RULE_PYTHON] = rules__match(d->rules, RULE_PYTHON, d->texts, it->stack_py, &err);
	b->match[RULE_C] |= err ? 0 : rules__match(d->rules, RULE_C, d->texts, it->stack_c, &err);
	if (!err)
		b->match[RULE_OP] = rules__match(
			d->rules, RULE_OP, d->texts,
			(uint32_t)value_of(&d->ops, (struct hkey){ it->pid, it->tid }), &err);
	d->pool_list[pool].sum += it->size > 0 ? (uint64_t)it->size : 0;
	b->born = d->pool_list[pool].events;
	return err;
}

static int memory(struct decompose *d, const struct item *it)
{
	struct pool *p;
	uint64_t index;
	int err;

	if (it->type < ROW_HAL || it->type > ROW_MINDSPORE)
		return 0;
	err = pool_of(d, it, &p);
	if (err)
		return err;
	p->events++;
	if (it->event == ROW_MALLOC)
		err = allocated(d, it, (uint32_t)(p - d->pool_list));
	else if (hmap__del(&d->live, item__key(it), &index))
		err = ended(d, index, it->time ? it->time : 1);
	/* `used` of HOST_PINNED is the process' resident memory. */
	p->now = it->flags & ITEM_USED && it->type != ROW_HOST_PINNED ? it->used : p->sum;
	if (p->now > p->is.peak) {
		p->is.peak = p->now;
		p->is.peak_time = it->time;
		p->peak_at = p->events;
		p->peak_number++;
	}
	return err;
}

static int accessed(struct decompose *d, const struct item *it)
{
	uint64_t *v = hmap__get(&d->live, item__key(it));
	struct block *b;
	int err = 0;

	if (!v)
		return 0;
	b = &d->blocks[*v];
	b->accessed = true;
	if (it->type == ROW_WRITE)
		b->match[RULE_WRITES] |= rules__match(d->rules, RULE_WRITES, d->texts, it->name,
						      &err);
	else
		b->match[RULE_READS] |= rules__match(d->rules, RULE_READS, d->texts, it->name,
						     &err);
	return err;
}

static int operator(struct decompose *d, const struct item *it)
{
	struct hkey k = { it->pid, it->tid };
	uint64_t *v;

	if (it->type == ROW_ATEN_END || it->type == ROW_ATB_END) {
		hmap__del(&d->ops, k, NULL);
		return 0;
	}
	v = hmap__put(&d->calls, (struct hkey){ it->pid, 0 }, NULL);
	if (!v)
		return -ENOMEM;
	++*v;
	v = hmap__put(&d->ops, k, NULL);
	if (!v)
		return -ENOMEM;
	*v = it->name;
	return 0;
}

int decompose__told(struct decompose *d, const struct item *block, const char *owner,
		    double confidence)
{
	struct hkey k = item__key(block);
	uint32_t number;
	uint64_t *v;
	bool fresh;
	int err = 0;

	number = number_of(d, owner, &err);
	if (err)
		return err;
	v = hmap__put(&d->told, k, &fresh);
	if (!v)
		return -ENOMEM;
	*v = (uint64_t)number << 32 | (uint32_t)(confidence * TOLD_SCALE);
	/* Twice told, it is still one block. */
	return fresh && !block->alloc ? memory(d, block) : 0;
}

int decompose__item(struct decompose *d, const struct item *it)
{
	struct step_change c[2];
	uint64_t *v;
	int n, i;

	switch (it->event) {
	case ROW_MALLOC:
	case ROW_FREE:
		return memory(d, it);
	case ROW_ACCESS:
		return accessed(d, it);
	case ROW_OP_LAUNCH:
		return operator(d, it);
	default:
		n = steps__item(d->steps, it, c);
		for (i = 0; i < n; i++) {
			v = hmap__put(&d->devices, key_device(c[i].pid, c[i].device), NULL);
			if (!v)
				return -ENOMEM;
			*v = c[i].begin ? (c[i].number & UINT32_MAX) << 32 | (*v & UINT32_MAX)
					: *v + 1;
		}
		return n < 0 ? n : 0;
	}
}

/* ---- results ---- */

static int by_pool_and_peak(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->pool != y->pool)
		return x->pool < y->pool ? -1 : 1;
	if (x->is.peak.bytes != y->is.peak.bytes)
		return x->is.peak.bytes > y->is.peak.bytes ? -1 : 1;
	if (x->is.all.bytes != y->is.all.bytes)
		return x->is.all.bytes > y->is.all.bytes ? -1 : 1;
	return strcmp(x->is.label, y->is.label);
}

struct lives {
	uint64_t time;
	uint32_t seq, index;
};

static int by_time(const void *a, const void *b)
{
	const struct lives *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* The blocks that live at the end, in the order of their MALLOCs. */
static int end_all(struct decompose *d)
{
	struct lives *list = calloc(d->live.n + 1, sizeof(*list));
	size_t pos = 0, n = 0, i;
	uint64_t v;
	int err = list ? 0 : -ENOMEM;

	while (list && hmap__next(&d->live, &pos, NULL, &v)) {
		const struct item *m = &d->blocks[v].malloc;

		list[n++] = (struct lives){ m->time, m->seq, (uint32_t)v };
	}
	hmap__free(&d->live);
	if (n)
		qsort(list, n, sizeof(*list), by_time);
	for (i = 0; i < n && !err; i++)
		err = ended(d, list[i].index, 0);
	free(list);
	return err;
}

int decompose__finish(struct decompose *d)
{
	size_t i;
	int err = end_all(d);

	if (err)
		return err;
	d->out_pools = calloc(d->n_pools + 1, sizeof(*d->out_pools));
	d->out = calloc(d->n_groups + 1, sizeof(*d->out));
	if (!d->out_pools || !d->out)
		return -ENOMEM;
	for (i = 0; i < d->n_pools; i++) {
		d->out_pools[i] = d->pool_list[i].is;
		d->out_pools[i].end = d->pool_list[i].now;
	}
	/* What was counted for a peak that was passed. */
	for (i = 0; i < d->n_groups; i++) {
		if (d->group_list[i].peak_number != d->pool_list[d->group_list[i].pool].peak_number)
			d->group_list[i].is.peak = (struct owner_sum){ 0 };
	}
	if (d->n_groups)
		qsort(d->group_list, d->n_groups, sizeof(*d->group_list), by_pool_and_peak);
	for (i = 0; i < d->n_groups; i++) {
		struct owner_pool *p = &d->out_pools[d->group_list[i].pool];

		if (!p->n++)
			p->first = i;
		d->out[i] = d->group_list[i].is;
	}
	return 0;
}

const struct owner_pool *decompose__pools(const struct decompose *d, size_t *n)
{
	*n = d->n_pools;
	return d->out_pools;
}

const struct owned *decompose__owned(const struct decompose *d)
{
	return d->out;
}
