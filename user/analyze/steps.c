// SPDX-License-Identifier: Apache-2.0
/*
 * Steps: ranges named "step start", counted per process and device; or SYSTEM
 * STEP rows of newer files.
 *
 * The row of a range's start has no id, that of its end has. Ids are given one
 * after the other, so the n-th start has the n-th; where starts are missing
 * in front, the first end tells by how many.
 */
#include "analyze/internal.h"

#include <errno.h>

/* Ranges open at once in a process; more are a program that never ends any. */
#define MAX_OPEN 4096

struct open_range {
	uint64_t seq; /* which start of the process */
	uint32_t tid;
	int32_t device;
	uint64_t step; /* its number, 0 = another range */
};

struct proc {
	struct open_range *open;
	size_t n_open, cap_open;
	uint64_t starts;
	int64_t offset; /* id minus seq */
	bool known; /* offset is */
	unsigned int misses;
};

struct steps {
	const struct texts *texts;
	struct hmap procs, devices; /* device: number of the last step */
	struct proc **list;
	size_t n, cap;
	uint64_t begun, open;
};

bool vec__grow(void **v, size_t n, size_t *cap, size_t size)
{
	size_t c = *cap ? *cap * 2 : 16;
	void *p;

	if (n < *cap)
		return true;
	p = reallocarray(*v, c, size);
	if (!p)
		return false;
	*v = p;
	*cap = c;
	return true;
}

struct steps *steps__new(const struct texts *texts)
{
	struct steps *s = calloc(1, sizeof(*s));

	if (s)
		s->texts = texts;
	return s;
}

void steps__free(struct steps *s)
{
	size_t i;

	if (!s)
		return;
	for (i = 0; i < s->n; i++) {
		free(s->list[i]->open);
		free(s->list[i]);
	}
	free(s->list);
	hmap__free(&s->procs);
	hmap__free(&s->devices);
	free(s);
}

static struct proc *proc_of(struct steps *s, uint32_t pid)
{
	bool fresh;
	uint64_t *v = hmap__put(&s->procs, (struct hkey){ pid, 0 }, &fresh);
	struct proc *p;

	if (!v)
		return NULL;
	if (!fresh)
		return s->list[*v];
	*v = s->n;
	p = calloc(1, sizeof(*p));
	if (!p || !VEC_GROW(s->list, s->n, s->cap)) {
		free(p);
		hmap__del(&s->procs, (struct hkey){ pid, 0 }, NULL);
		return NULL;
	}
	return s->list[s->n++] = p;
}

static int begin(struct steps *s, const struct item *it, int32_t device, struct step_change *c)
{
	uint64_t *v = hmap__put(&s->devices, key_device(it->pid, device), NULL);

	if (!v)
		return -ENOMEM;
	*c = (struct step_change){ true, it->pid, device, ++*v };
	s->begun++;
	s->open++;
	return 1;
}

static int end(struct steps *s, uint32_t pid, int32_t device, uint64_t number,
	       struct step_change *c)
{
	*c = (struct step_change){ false, pid, device, number };
	s->open -= s->open > 0;
	return 1;
}

static int range_start(struct steps *s, const struct item *it, struct step_change *c)
{
	struct proc *p = proc_of(s, it->pid);
	struct open_range *o;
	size_t n;
	bool step;
	int err;

	if (!p)
		return -ENOMEM;
	step = !strcmp(texts__get(s->texts, it->name, &n), "step start") && n == 10;
	p->starts++;
	if (p->n_open == MAX_OPEN) {
		/* The older half at once: one each time would move all of them each time. */
		p->n_open -= MAX_OPEN / 2;
		memmove(p->open, p->open + MAX_OPEN / 2, p->n_open * sizeof(*p->open));
	}
	if (!VEC_GROW(p->open, p->n_open, p->cap_open))
		return -ENOMEM;
	err = step ? begin(s, it, it->device, c) : 0;
	if (err < 0)
		return err;
	o = &p->open[p->n_open++];
	*o = (struct open_range){ p->starts, it->tid, it->device, step ? c->number : 0 };
	return err;
}

/* The open range that an end without a known id closes: the last of its thread, or the last. */
static struct open_range *innermost(struct proc *p, uint32_t tid)
{
	size_t i;

	for (i = p->n_open; i-- > 0;) {
		if (p->open[i].tid == tid)
			return &p->open[i];
	}
	return p->n_open ? &p->open[p->n_open - 1] : NULL;
}

static struct open_range *by_seq(struct proc *p, uint64_t seq)
{
	size_t lo = 0, hi = p->n_open;

	/* They stand in the order of their starts. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->open[mid].seq < seq)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < p->n_open && p->open[lo].seq == seq ? &p->open[lo] : NULL;
}

static struct open_range *closed_by(struct proc *p, uint32_t tid, uint64_t id)
{
	struct open_range *o;

	if (!id) /* without an injected tool the library gives no ids */
		return innermost(p, tid);
	o = by_seq(p, id - (uint64_t)p->offset);
	if (o) {
		p->known = true;
		p->misses = 0;
		return o;
	}
	/* An unknown id may be the program's error; twice in a row, starts were left out here. */
	if (p->known && (id - (uint64_t)p->offset <= p->starts || ++p->misses < 2))
		return NULL;
	o = innermost(p, tid);
	if (o) {
		p->offset = (int64_t)(id - o->seq);
		p->known = true;
		p->misses = 0;
	}
	return o;
}

static int range_end(struct steps *s, const struct item *it, struct step_change *c)
{
	static const char prefix[] = "Range end from id ";
	struct proc *p = proc_of(s, it->pid);
	const char *name = texts__get(s->texts, it->name, NULL);
	struct open_range *o, r;

	if (!p)
		return -ENOMEM;
	o = closed_by(p, it->tid,
		      strncmp(name, prefix, sizeof(prefix) - 1)
			      ? 0
			      : strtoull(name + sizeof(prefix) - 1, NULL, 10));
	if (!o)
		return 0;
	r = *o;
	memmove(o, o + 1, (size_t)(p->open + p->n_open - (o + 1)) * sizeof(*o));
	p->n_open--;
	return r.step ? end(s, it->pid, r.device, r.step, c) : 0;
}

/* One step ends and the next begins; the first has no row of its own. */
static int boundary(struct steps *s, const struct item *it, struct step_change change[2])
{
	const uint64_t *v = hmap__get(&s->devices, key_device(it->pid, it->device));
	uint64_t number = v ? *v : 1;

	if (!v && begin(s, it, it->device, &change[0]) < 0)
		return -ENOMEM;
	end(s, it->pid, it->device, number, &change[0]);
	return begin(s, it, it->device, &change[1]) < 0 ? -ENOMEM : 2;
}

int steps__item(struct steps *s, const struct item *it, struct step_change change[2])
{
	if (it->event == ROW_SYSTEM && it->type == ROW_STEP)
		return boundary(s, it, change);
	if (it->event != ROW_MSTX)
		return 0;
	if (it->type == ROW_RANGE_START)
		return range_start(s, it, change);
	return it->type == ROW_RANGE_END ? range_end(s, it, change) : 0;
}

void steps__counts(const struct steps *s, uint64_t *begun, uint64_t *open)
{
	*begun = s->begun;
	*open = s->open;
}
