// SPDX-License-Identifier: Apache-2.0
/*
 * Which process is read next: in the order in which they were asked for, each once, and one that
 * is asked for without end ever later, so that the others have their turn.
 */
#include <stdlib.h>

#include "symbol/stacks_internal.h"

/* A process may be read at once some 100 times: a start that loads hundreds of libraries. */
#define CREDIT_NS 2000000000ULL
#define COST_NS 20000000ULL
/* Who has spent it waits so long, twice as long each time, until it has been quiet for a while. */
#define DELAY_NS 20000000ULL
#define MAX_STEP 5 /* 640 ms */

struct pace *stacks__pace(struct stacks *s, pid_t pid)
{
	bool fresh;
	uint64_t *v = hmap__put(&s->paces, (struct hkey){ (uint64_t)pid, 0 }, &fresh);
	struct pace *p;

	if (!v)
		return NULL;
	if (!fresh)
		return (struct pace *)(uintptr_t)*v;
	p = calloc(1, sizeof(*p));
	if (!p) {
		hmap__del(&s->paces, (struct hkey){ (uint64_t)pid, 0 }, NULL);
		return NULL;
	}
	p->credit = CREDIT_NS;
	p->seen = clock__boot();
	*v = (uint64_t)(uintptr_t)p;
	return p;
}

void stacks__pace_forget(struct stacks *s, pid_t pid)
{
	uint64_t v;

	if (hmap__del(&s->paces, (struct hkey){ (uint64_t)pid, 0 }, &v))
		free((void *)(uintptr_t)v);
}

void stacks__pace_free(struct stacks *s)
{
	size_t pos = 0;
	struct hkey k;
	uint64_t v;

	while (hmap__next(&s->paces, &pos, &k, &v))
		free((void *)(uintptr_t)v);
	hmap__free(&s->paces);
}

static void spend(struct pace *p, uint64_t ns)
{
	p->credit -= MT_MIN(p->credit, ns);
}

/* Its turn, if it is asked for now. */
static uint64_t turn_of(struct stacks *s, pid_t pid)
{
	struct pace *p = stacks__pace(s, pid);
	uint64_t now = clock__boot(), delay;

	if (!p)
		return now;
	if (now > p->seen) {
		p->credit = MT_MIN(CREDIT_NS, p->credit + (now - p->seen));
		p->seen = now;
	}
	if (p->credit == CREDIT_NS)
		p->step = 0;
	if (!p->step && p->credit >= COST_NS) {
		spend(p, COST_NS);
		return now;
	}
	delay = DELAY_NS << p->step;
	if (p->step < MAX_STEP)
		p->step++;
	/* Waiting for its turn is not being quiet. */
	spend(p, delay);
	p->seen = now + delay;
	s->held_back++;
	return now + delay;
}

void stacks__charge(struct stacks *s, pid_t pid, uint64_t ns)
{
	struct pace *p = stacks__pace(s, pid);

	if (p)
		spend(p, ns);
}

static struct asked *find(const struct pid_list *list, pid_t pid)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		if (list->v[i].pid == pid)
			return &list->v[i];
	return NULL;
}

static void add(struct stacks *s, struct pid_list *list, pid_t pid, uint64_t when)
{
	if (list->n == list->cap) {
		size_t more = list->cap ? list->cap * 2 : 64;
		void *p = realloc(list->v, more * sizeof(*list->v));

		if (!p)
			return;
		list->v = p;
		list->cap = more;
	}
	list->v[list->n++] = (struct asked){ pid, when };
	pthread_cond_signal(&s->wake);
}

void stacks__ask_at(struct stacks *s, pid_t pid, uint64_t when)
{
	struct asked *a = find(&s->queue, pid);

	if (!a) {
		add(s, &s->queue, pid, when);
	} else if (when < a->when) {
		a->when = when;
		pthread_cond_signal(&s->wake);
	}
}

void stacks__ask(struct stacks *s, pid_t pid)
{
	struct asked *a = find(&s->queue, pid);
	uint64_t now = clock__boot();
	struct pace *p;

	if (a) {
		p = stacks__pace(s, pid);
		/* Its turn has come, or is known: not when it waits for something else. */
		if (a->when <= now || (p && p->seen > now && a->when <= p->seen))
			return;
	}
	stacks__ask_at(s, pid, turn_of(s, pid));
}

void stacks__ask_forget(struct stacks *s, pid_t pid)
{
	if (!find(&s->ended, pid))
		add(s, &s->ended, pid, 0);
}

bool stacks__take(struct pid_list *list, pid_t *pid, uint64_t *next)
{
	uint64_t now = clock__boot();
	size_t i, k;

	*next = UINT64_MAX;
	for (i = 0; i < list->n; i++) {
		if (list->v[i].when > now) {
			*next = MT_MIN(*next, list->v[i].when);
			continue;
		}
		*pid = list->v[i].pid;
		list->n--;
		for (k = i; k < list->n; k++)
			list->v[k] = list->v[k + 1];
		return true;
	}
	return false;
}

bool stacks__is_due(const struct stacks *s)
{
	uint64_t now = clock__boot();
	size_t i;

	for (i = 0; i < s->queue.n; i++)
		if (s->queue.v[i].when <= now)
			return true;
	return false;
}

bool stacks__is_pending(const struct stacks *s, pid_t pid)
{
	const struct asked *a = find(&s->queue, pid);

	return (s->busy && s->reading == pid) || (a && a->when <= clock__boot()) ||
	       stack_notices__waiting(s, pid);
}
