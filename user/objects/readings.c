// SPDX-License-Identifier: Apache-2.0
/*
 * The thread that reads the objects of all processes, again and again: as often as a
 * twentieth of one processor allows. The memory of a process may not answer (it can be
 * served by a file system or by the process itself): then only this thread waits.
 */
#include "objects/internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "target/target.h"

#define MS 1000000ULL
#define SHARE 20 /* one part of so many of the time */
#define READ_PAUSE 20 /* ms */
#define SOON_SHARE 5
#define SOON_PAUSE (2 * MS)
#define FIND_PAUSE (1000 * MS)
#define OPEN_PAUSE (100 * MS)
#define OPEN_PAUSE_MAX (1000 * MS)
/* While nothing is found: a program that begins makes its model at some time. */
#define YOUNG_PAUSE (20 * MS)
#define EARLY_SHARE 5
#define EARLY_PAUSE (200 * MS)
#define EARLY_SEARCHES 50
#define FIND_LIMIT_MS 5000
#define READ_LIMIT_MS 2000
#define MAX_WAITING 64 /* readings that nobody takes */
#define MAX_HELD                                                                         \
	(8u << 20) /* storages in all of these, 200 MB: a program may make up any number \
		    */
#define LEAVE_S 2 /* so long the end waits for the thread */
#define STUCK_NS (10000 * MS)

struct proc {
	pid_t pid;
	uint32_t start;
	struct objects *o;
	uint64_t due, find_due, young_due, pause;
	uint64_t soonest; /* not before, also when asked for */
	bool soon;
	uint64_t generation; /* of the last request that it was read for */
	struct objects_counts counts; /* the thread's */
	struct objects_counts shown; /* the same, under the lock */
	unsigned int fruitless; /* searches */
	unsigned int active; /* processes that share the time */
	bool gone, never; /* never: its objects cannot be read */
};

struct readings {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
	bool stop;
	struct proc **procs;
	size_t n, cap;
	struct proc *busy; /* that the thread is at, without the lock */
	uint64_t busy_since;
	uint64_t generation;
	uint64_t read_pause;
	struct reading *first, **end;
	size_t waiting, held; /* held: their storages */
	struct readings_counts counts;
};

void reading__free(struct reading *g)
{
	if (!g)
		return;
	free(g->v);
	free(g);
}

/* When it may come again that took so long: of all processes together a share of the time. */
static uint64_t after(const struct proc *p, uint64_t took, unsigned int share, uint64_t least)
{
	return clock__boot() + MT_MAX(took * (share * MT_MAX(p->active, 1u) - 1), least);
}

/* A time so far from now. */
static void until(struct timespec *ts, uint64_t ns)
{
	clock_gettime(CLOCK_MONOTONIC, ts);
	ns += (uint64_t)ts->tv_nsec;
	ts->tv_sec += (time_t)(ns / 1000000000ULL);
	ts->tv_nsec = (long)(ns % 1000000000ULL);
}

/* ---- one process, without the lock ---- */

static int find(struct proc *p)
{
	int err = objects__find(p->o, false, FIND_LIMIT_MS);

	objects__counts(p->o, &p->counts);
	if (p->counts.optimizers)
		p->fruitless = EARLY_SEARCHES;
	if (p->fruitless++ < EARLY_SEARCHES)
		p->find_due = after(p, p->counts.walk_ns, EARLY_SHARE, EARLY_PAUSE);
	else
		p->find_due = after(p, p->counts.walk_ns, SHARE, FIND_PAUSE);
	return err == -ETIME ? 0 : err;
}

/* New ones are among the young at first, if one looks soon enough. */
static int find_young(struct proc *p)
{
	int err = objects__find(p->o, true, FIND_LIMIT_MS);

	objects__counts(p->o, &p->counts);
	p->young_due = after(p, p->counts.young_ns, SHARE, YOUNG_PAUSE);
	return err == -ETIME ? 0 : err;
}

static int open_objects(struct proc *p)
{
	char why[400];
	int err = objects__open(p->pid, &p->o, why, sizeof(why));

	if (err == -ENOTSUP) {
		pr_warn("pid %d: who owns its tensors is not read from its Python objects: %s",
			(int)p->pid, why);
		p->never = true;
	}
	if (!err)
		return 0;
	p->pause = MT_MIN(MT_MAX(p->pause * 2, OPEN_PAUSE), OPEN_PAUSE_MAX);
	p->due = clock__boot() + p->pause;
	return err;
}

/* NULL: nothing to tell. *searched: also whether there is something new. */
static struct reading *look(struct proc *p, bool whole, uint64_t read_pause, bool *searched,
			    int *err)
{
	struct reading *g;
	uint32_t start;

	*searched = false;
	*err = proc__start(p->pid, &start) || start != p->start ? -ESRCH : 0;
	if (!*err && !p->o)
		*err = open_objects(p);
	*searched = !*err && (whole || clock__boot() >= p->find_due);
	if (*searched)
		*err = find(p);
	else if (!*err && clock__boot() >= p->young_due)
		*err = find_young(p);
	if (*err)
		return NULL;
	p->due = MT_MIN(p->find_due, p->young_due);
	if (!p->counts.optimizers && !p->counts.modules)
		return NULL;
	g = calloc(1, sizeof(*g));
	if (!g) {
		*err = -ENOMEM;
		return NULL;
	}
	g->pid = p->pid;
	g->start = p->start;
	g->t0 = clock__boot();
	*err = objects__read(p->o, READ_LIMIT_MS, &g->v, &g->n);
	g->t1 = clock__boot();
	objects__counts(p->o, &p->counts);
	p->due = MT_MAX(p->due, after(p, p->counts.read_ns, SHARE, read_pause));
	p->soonest = after(p, p->counts.read_ns, SOON_SHARE, SOON_PAUSE);
	if (!*err)
		return g;
	reading__free(g);
	return NULL;
}

/* ---- the thread ---- */

static void add_counts(struct readings_counts *c, const struct objects_counts *k)
{
	c->processes += k->optimizers || k->modules;
	c->optimizers += k->optimizers;
	c->modules += k->modules;
	c->cut |= k->cut;
}

static void drop(struct readings *r, size_t i)
{
	/* That of its program stays in the account. */
	add_counts(&r->counts, &r->procs[i]->shown);
	objects__close(r->procs[i]->o);
	free(r->procs[i]);
	r->procs[i] = r->procs[--r->n];
}

/* Is there a request that it was not read for? */
static bool asked(const struct readings *r, const struct proc *p)
{
	return p->generation < r->generation && !p->never && !p->gone;
}

/* The next one to be looked at; NULL: not before a pause. */
static struct proc *next(struct readings *r, uint64_t *pause)
{
	uint64_t now = clock__boot(), when = now + 1000 * MS;
	struct proc *best = NULL;
	size_t i;

	for (i = r->n; i-- > 0;)
		if (r->procs[i]->gone)
			drop(r, i);
	for (i = 0; i < r->n; i++) {
		struct proc *p = r->procs[i];
		uint64_t due = asked(r, p) ? 0 : p->due;

		if (p->never)
			continue;
		if (due <= now && (!best || due < best->due))
			best = p;
		when = MT_MIN(when, due);
	}
	*pause = when > now ? when - now : 0;
	return best;
}

static struct reading *take(struct readings *r)
{
	struct reading *g = r->first;

	if (g) {
		r->first = g->next;
		g->next = NULL;
		r->waiting--;
		r->held -= g->n;
	}
	return g;
}

static void hand_out(struct readings *r, struct reading *g)
{
	/* Nobody takes them: the oldest tells the least. */
	while (r->waiting && (r->waiting == MAX_WAITING || r->held + g->n > MAX_HELD)) {
		reading__free(take(r));
		r->counts.failed++;
	}
	if (!r->first)
		r->end = &r->first;
	*r->end = g;
	r->end = &g->next;
	r->waiting++;
	r->held += g->n;
}

/* At its end a program takes them apart: what it had at most is what it had. */
static void show(struct proc *p)
{
	size_t optimizers = MT_MAX(p->shown.optimizers, p->counts.optimizers);
	size_t modules = MT_MAX(p->shown.modules, p->counts.modules);

	p->shown = p->counts;
	p->shown.optimizers = optimizers;
	p->shown.modules = modules;
}

static void work(struct readings *r, struct proc *p)
{
	uint64_t generation = r->generation, t0 = clock__boot();
	bool whole = asked(r, p), searched;
	struct reading *g;
	size_t i;
	int err;

	p->active = 0;
	for (i = 0; i < r->n; i++)
		p->active += r->procs[i]->o != NULL;
	r->busy = p;
	r->busy_since = t0;
	pthread_mutex_unlock(&r->lock);
	g = look(p, whole, r->read_pause, &searched, &err);
	pthread_mutex_lock(&r->lock);
	r->busy = NULL;
	p->generation = generation;
	if (p->soon && g)
		p->due = MT_MIN(p->due, p->soonest);
	p->soon = false;
	show(p);
	r->counts.ns += clock__boot() - t0;
	r->counts.searches += searched;
	if (g) {
		r->counts.readings++;
		hand_out(r, g);
	}
	if (err && err != -EAGAIN) {
		if (err == -ESRCH)
			p->gone = true;
		else if (p->counts.optimizers || p->counts.modules)
			r->counts.failed++;
		p->due = MT_MAX(p->due, clock__boot() + READ_PAUSE * MS);
	}
	pthread_cond_broadcast(&r->done);
}

static void *run(void *arg)
{
	struct readings *r = arg;

	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		struct timespec ts;
		uint64_t pause;
		struct proc *p = next(r, &pause);

		if (p) {
			work(r, p);
			continue;
		}
		until(&ts, pause);
		pthread_cond_timedwait(&r->wake, &r->lock, &ts);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

int readings__new(struct readings **out)
{
	const char *pause = getenv(
		"MEMTAP_READ_PAUSE_MS"); /* tests: shows what else makes it read */
	struct readings *r = calloc(1, sizeof(*r));
	pthread_condattr_t attr;
	int err;

	if (!r)
		return -ENOMEM;
	r->read_pause = (pause ? strtoull(pause, NULL, 10) : READ_PAUSE) * MS;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->wake, &attr);
	pthread_cond_init(&r->done, &attr);
	pthread_condattr_destroy(&attr);
	err = -pthread_create(&r->thread, NULL, run, r);
	if (err) {
		free(r);
		return err;
	}
	*out = r;
	return 0;
}

/* ---- from other threads ---- */

void readings__process(struct readings *r, pid_t pid, uint32_t start)
{
	struct proc *p = calloc(1, sizeof(*p));
	size_t i;

	pthread_mutex_lock(&r->lock);
	/* Another program by now: its objects are others. */
	for (i = 0; i < r->n; i++)
		if (r->procs[i]->pid == pid)
			r->procs[i]->gone = true;
	if (p && r->n == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 16;
		void *q = realloc(r->procs, cap * sizeof(*r->procs));

		if (q) {
			r->procs = q;
			r->cap = cap;
		}
	}
	if (!p || r->n == r->cap) { /* no memory */
		r->counts.failed++;
	} else {
		p->pid = pid;
		p->start = start;
		p->generation = r->generation;
		r->procs[r->n++] = p;
		p = NULL;
	}
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
	free(p);
}

void readings__soon(struct readings *r, pid_t pid)
{
	size_t i;

	pthread_mutex_lock(&r->lock);
	for (i = 0; i < r->n; i++) {
		struct proc *p = r->procs[i];

		/* Before the first reading nothing is known to be read. */
		if (p->pid != pid || !p->soonest)
			continue;
		if (p == r->busy)
			p->soon = true;
		else
			p->due = MT_MIN(p->due, p->soonest);
		pthread_cond_signal(&r->wake);
	}
	pthread_mutex_unlock(&r->lock);
}

struct reading *readings__take(struct readings *r)
{
	struct reading *g;

	pthread_mutex_lock(&r->lock);
	g = take(r);
	pthread_mutex_unlock(&r->lock);
	return g;
}

static bool all_read(const struct readings *r)
{
	size_t i;

	for (i = 0; i < r->n; i++)
		if (asked(r, r->procs[i]))
			return false;
	return true;
}

void readings__last(struct readings *r, unsigned int ms)
{
	struct timespec ts;

	until(&ts, ms * MS);
	pthread_mutex_lock(&r->lock);
	r->generation++;
	pthread_cond_signal(&r->wake);
	while (!all_read(r) && !pthread_cond_timedwait(&r->done, &r->lock, &ts))
		;
	pthread_mutex_unlock(&r->lock);
}

void readings__counts(struct readings *r, struct readings_counts *c)
{
	size_t i;

	pthread_mutex_lock(&r->lock);
	*c = r->counts;
	for (i = 0; i < r->n; i++)
		add_counts(c, &r->procs[i]->shown);
	c->stuck = r->busy && clock__boot() - r->busy_since > STUCK_NS;
	pthread_mutex_unlock(&r->lock);
}

void readings__free(struct readings *r)
{
	struct timespec ts;
	struct reading *g;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += LEAVE_S;
	if (pthread_timedjoin_np(r->thread, NULL, &ts)) {
		pr_warn("the memory of pid %d does not answer: reading its objects is given up",
			r->busy ? (int)r->busy->pid : 0);
		return;
	}
	while (r->n)
		drop(r, r->n - 1);
	while ((g = readings__take(r)))
		reading__free(g);
	pthread_cond_destroy(&r->wake);
	pthread_cond_destroy(&r->done);
	pthread_mutex_destroy(&r->lock);
	free(r->procs);
	free(r);
}
