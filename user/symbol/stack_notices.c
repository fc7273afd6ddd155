// SPDX-License-Identifier: Apache-2.0
/*
 * New mappings of processes whose stacks are walked, by a thread that does nothing else: a
 * library may be called microseconds after it was mapped, and the thread that hands out events
 * can be busy for longer than that.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbol/stacks_internal.h"
#include "symbol/unwind_store.h"
#include "target/target.h"

/* They wait while tables are made: 4096 take 1 MB. */
#define MAX_WAITING 4096
#define MAX_OWN 512 /* of one process, beside which others have room */
#define MAX_ORPHANS 2048
#define GAP_NS 200000000ULL
/* A file of a target that does not answer is waited for so long. */
#define OPEN_MS 1000

struct stack_notices {
	struct stacks *stacks;
	struct mapwatch *watch;
	pthread_t thread;
	int stop;
	struct {
		pid_t pid;
		uint64_t start, len;
	} last; /* that something was taken away for */
	uint64_t last_published; /* as it was then */
	pid_t asked_pid; /* of this reading of the rings: is it a target? */
	bool asked_ours;
};

static bool is_target(const struct stacks *s, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	struct mt_target t;

	return !bpf_map_lookup_elem(s->opts.maps.targets, &key, &t);
}

static bool map_at(const struct unwind_maps *u, uint32_t i, struct mt_uw_map *m)
{
	return !bpf_map_lookup_elem(u->maps, &i, m);
}

/*
 * The programs must not take the new code for what was there before: until the process has been
 * read there is nothing at its place. Where they are told of new mappings (life_map) they have done
 * so themselves.
 */
static void take_away(const struct stacks *s, const struct map_event *e)
{
	const struct unwind_maps *u = &s->opts.maps.unwind;
	uint32_t key = (uint32_t)e->pid, lo = 0, hi;
	struct mt_uw_proc p;
	struct mt_uw_map m;

	if (bpf_map_lookup_elem(u->procs, &key, &p) || p.owner != key)
		return;
	hi = p.n;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2, at = p.first + mid;

		if (!map_at(u, at, &m))
			return;
		if (e->start + e->len <= m.start) {
			hi = mid;
		} else if (e->start >= m.end) {
			lo = mid + 1;
		} else {
			m.end = m.start;
			bpf_map_update_elem(u->maps, &at, &m, BPF_ANY);
			/* What threads remember is old too. It is read again; not to be written
			 * back: another reading may have come in between. */
			bpf_map_delete_elem(u->procs, &key);
			return;
		}
	}
}

static void append(struct notice_list *l, struct notice *n)
{
	n->next = NULL;
	*(l->last ? &l->last->next : &l->first) = n;
	l->last = n;
	l->n++;
}

static struct notice *take(struct notice_list *l)
{
	struct notice *n = l->first;

	if (!n)
		return NULL;
	l->first = n->next;
	if (!l->first)
		l->last = NULL;
	l->n--;
	return n;
}

struct notice *stack_notices__next(struct stacks *s)
{
	struct notice *n = take(&s->notices);
	uint64_t *v = n ? hmap__get(&s->paces, (struct hkey){ (uint64_t)n->pid, 0 }) : NULL;

	if (v && ((struct pace *)(uintptr_t)*v)->notices)
		((struct pace *)(uintptr_t)*v)->notices--;
	return n;
}

bool stack_notices__waiting(const struct stacks *s, pid_t pid)
{
	const uint64_t *v = hmap__get(&s->paces, (struct hkey){ (uint64_t)pid, 0 });

	return v && ((const struct pace *)(uintptr_t)*v)->notices;
}

void stack_notices__free(struct stacks *s)
{
	struct notice *n;

	while ((n = take(&s->notices)) || (n = take(&s->orphans)))
		free(n);
}

/* Else it is counted, and what the process has mapped is not known for that time. */
static bool has_room(struct stacks *s, pid_t pid)
{
	struct pace *p = stacks__pace(s, pid);

	if (p && p->notices < MAX_OWN && s->notices.n < MAX_WAITING)
		return true;
	s->notices_lost++;
	if (p)
		p->deaf = clock__boot();
	else
		s->deaf = clock__boot();
	return false;
}

static void add(struct stacks *s, struct notice *n)
{
	if (!n) {
		s->notices_lost++;
		s->deaf = clock__boot();
		return;
	}
	stacks__pace(s, n->pid)->notices++; /* it is there: has_room */
	append(&s->notices, n);
	pthread_cond_signal(&s->wake);
}

void stack_notices__claim(struct stacks *s, pid_t pid)
{
	struct notice_list rest = { 0 };
	struct notice *n;

	while ((n = take(&s->orphans))) {
		if (n->pid != pid)
			append(&rest, n);
		else if (has_room(s, pid))
			add(s, n);
		else
			free(n);
	}
	s->orphans = rest;
}

/* First of all: from then on nothing is published that was read before. */
static void told(struct stacks *s, pid_t pid)
{
	uint64_t *v;

	pthread_mutex_lock(&s->lock);
	v = hmap__put(&s->told, (struct hkey){ (uint64_t)pid, 0 }, NULL);
	if (v)
		++*v;
	pthread_mutex_unlock(&s->lock);
}

/* The same again, and nothing was published in between: there is nothing to take away. */
static bool is_repeated(struct stack_notices *w, const struct map_event *e)
{
	uint64_t published = __atomic_load_n(&w->stacks->published, __ATOMIC_ACQUIRE);
	bool same = w->last.pid == e->pid && w->last.start == e->start && w->last.len == e->len &&
		    w->last_published == published;

	w->last.pid = e->pid;
	w->last.start = e->start;
	w->last.len = e->len;
	w->last_published = published;
	return same;
}

/* In one reading of the rings they are mostly of one process. */
static bool is_ours(struct stack_notices *w, pid_t pid)
{
	if (w->asked_pid != pid) {
		w->asked_pid = pid;
		w->asked_ours = is_target(w->stacks, pid);
	}
	return w->asked_ours;
}

static struct notice *notice_of(const struct map_event *e)
{
	struct notice *n = malloc(sizeof(*n) + strlen(e->path) + 1);

	if (!n)
		return NULL;
	*n = (struct notice){ .time = e->time,
			      .pid = e->pid,
			      .start = e->start,
			      .end = e->start + e->len,
			      .offset = e->offset,
			      .ino = e->ino };
	memcpy(n->path, e->path, strlen(e->path) + 1);
	return n;
}

static void on_map(void *ctx, const struct map_event *e)
{
	struct stack_notices *w = ctx;
	struct stacks *s = w->stacks;
	bool ours = is_ours(w, e->pid), repeated;

	if (e->pid == getpid() || e->path[0] != '/')
		return;
	if (s->opts.c && ours) {
		told(s, e->pid);
		repeated = is_repeated(w, e);
		if (!repeated)
			take_away(s, e);
	}
	pthread_mutex_lock(&s->lock);
	if (s->opts.c && !ours && !stacks__has_ended(s, e->pid)) {
		struct notice *n = notice_of(e);

		/* Of a target that has ended this may be all that is known: its end is told soon.
		 */
		if (n)
			append(&s->orphans, n);
		if (s->orphans.n > MAX_ORPHANS)
			free(take(&s->orphans));
	} else if (s->opts.c && has_room(s, e->pid)) {
		add(s, notice_of(e));
	}
	if (ours)
		stacks__ask(s, e->pid);
	pthread_mutex_unlock(&s->lock);
}

/* All up to a time. Some did not reach us: every process is looked at, for that not too often. */
static void heard(struct stacks *s, uint64_t now, bool missing)
{
	size_t i;

	pthread_mutex_lock(&s->lock);
	/* What was mapped until now may be what is missing. */
	if (missing) {
		s->deaf = clock__boot();
		s->gap = true;
	}
	s->heard = now;
	if (s->gap && now - s->gap_asked >= GAP_NS) {
		s->gap = false;
		s->gap_asked = now;
		/* It is not theirs: nothing is charged. */
		for (i = 0; i < s->n_procs; i++)
			if (!s->procs[i]->gone && !s->procs[i]->over)
				stacks__ask_at(s, s->procs[i]->pid, now);
	}
	pthread_mutex_unlock(&s->lock);
}

static void *run(void *arg)
{
	struct stack_notices *w = arg;
	struct pollfd fds[] = { { .fd = w->stop, .events = POLLIN },
				{ .fd = mapwatch__fd(w->watch), .events = POLLIN } };
	struct map_gap gap;
	uint64_t now;

	thread__nice(-10);
	/* A ring that was full when it came into the set wakes nobody any more. */
	while (poll(fds, MT_ARRAY_SIZE(fds), 20) >= 0 || errno == EINTR) {
		if (fds[0].revents)
			break;
		now = clock__boot();
		w->asked_pid = -1;
		mapwatch__read(w->watch, on_map, w, &gap);
		heard(w->stacks, now, gap.missing);
	}
	return NULL;
}

int stack_notices__start(struct stacks *s)
{
	struct stack_notices *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	w->stacks = s;
	w->stop = eventfd(0, EFD_CLOEXEC);
	err = w->stop < 0 ? -errno : mapwatch__open(&w->watch, 0);
	if (!err)
		err = -pthread_create(&w->thread, NULL, run, w);
	if (err) {
		mapwatch__close(w->watch);
		if (w->stop >= 0)
			close(w->stop);
		free(w);
		return err;
	}
	s->watch = w;
	return 0;
}

void stack_notices__stop(struct stacks *s)
{
	struct stack_notices *w = s->watch;
	uint64_t one = 1;

	if (!w)
		return;
	if (write(w->stop, &one, sizeof(one)) < 0)
		pr_debug("the thread that reads mappings cannot be stopped: %s", strerror(errno));
	pthread_join(w->thread, NULL);
	mapwatch__close(w->watch);
	close(w->stop);
	free(w);
	s->watch = NULL;
}

/* ---- by the thread that reads processes ---- */

static bool is_it(int fd, const struct notice *n)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && (st.st_ino == n->ino || fd__on_overlay(fd));
}

/* What was mapped: another file may be mapped there by now, or the process be gone. */
static int open_mapped(struct deadline *d, const struct notice *n, const struct mapping *m)
{
	int fd = mapping__open_within(d, n->pid, m, OPEN_MS), i;

	/* By its path it would hang again. */
	if (fd == -ETIMEDOUT || fd == -EBUSY)
		return fd;
	for (i = 0; i < 2 && !is_it(fd, n); i++) {
		if (fd >= 0)
			close(fd);
		fd = proc__open(i ? getpid() : n->pid, n->path);
	}
	if (fd >= 0 && !is_it(fd, n)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void stack_notices__read(struct stacks *s, struct notice *n)
{
	struct past_map p = { .from = n->time, .until = UINT64_MAX };
	struct mapping m = { .start = n->start,
			     .end = n->end,
			     .offset = n->offset,
			     .ino = n->ino,
			     .path = n->path };
	int fd = open_mapped(&s->opening, n, &m);

	p.map.start = n->start;
	p.map.end = n->end;
	if (fd >= 0) {
		unwind_store__place(s->unwind, n->pid, fd, &m, &p.map);
		close(fd);
	}
	pthread_mutex_lock(&s->lock);
	past_maps__add(&s->past, n->pid, &p);
	pthread_mutex_unlock(&s->lock);
}
