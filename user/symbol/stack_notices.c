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
#define MAX_ORPHANS 2048

struct stack_notices {
	struct stacks *stacks;
	struct mapwatch *watch;
	pthread_t thread;
	int stop;
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

struct notice *stack_notices__take(struct notice_list *l)
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

void stack_notices__claim(struct stacks *s, pid_t pid)
{
	struct notice_list rest = { 0 };
	struct notice *n;

	while ((n = stack_notices__take(&s->orphans)))
		append(n->pid == pid ? &s->notices : &rest, n);
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

static void on_map(void *ctx, const struct map_event *e)
{
	struct stacks *s = ctx;
	struct notice *n = NULL;
	bool ours = is_target(s, e->pid);

	if (e->pid == getpid() || e->path[0] != '/')
		return;
	if (s->opts.c && ours) {
		told(s, e->pid);
		take_away(s, e);
	}
	if (s->opts.c)
		n = malloc(sizeof(*n) + strlen(e->path) + 1);
	if (n) {
		*n = (struct notice){ .time = e->time,
				      .pid = e->pid,
				      .start = e->start,
				      .end = e->start + e->len,
				      .offset = e->offset,
				      .ino = e->ino };
		memcpy(n->path, e->path, strlen(e->path) + 1);
	}
	pthread_mutex_lock(&s->lock);
	if (n && !ours && !stacks__has_ended(s, e->pid)) {
		/* Of a target that has ended this may be all that is known: its end is told soon.
		 */
		append(&s->orphans, n);
		n = s->orphans.n > MAX_ORPHANS ? stack_notices__take(&s->orphans) : NULL;
	} else if (n && s->notices.n < MAX_WAITING) {
		append(&s->notices, n);
		n = NULL;
	} else if (n) {
		__atomic_store_n(&s->deaf, clock__boot(), __ATOMIC_RELEASE);
	}
	if (ours)
		stacks__ask(s, &s->queue, e->pid);
	pthread_mutex_unlock(&s->lock);
	free(n);
}

/* Some did not reach us: every process is looked at. */
static void on_gap(struct stacks *s)
{
	size_t i;

	pthread_mutex_lock(&s->lock);
	for (i = 0; i < s->n_procs; i++)
		if (!s->procs[i]->gone && !s->procs[i]->over)
			stacks__ask(s, &s->queue, s->procs[i]->pid);
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
		mapwatch__read(w->watch, on_map, w->stacks, &gap);
		/* What was mapped until now may be what is missing. */
		if (gap.missing)
			__atomic_store_n(&w->stacks->deaf, clock__boot(), __ATOMIC_RELEASE);
		__atomic_store_n(&w->stacks->heard, now, __ATOMIC_RELEASE);
		if (gap.missing)
			on_gap(w->stacks);
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
static int open_mapped(const struct notice *n, const struct mapping *m)
{
	int fd = mapping__open(n->pid, m), i;

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
	int fd = open_mapped(n, &m);

	p.map.start = n->start;
	p.map.end = n->end;
	s->reading = n->pid;
	if (fd >= 0) {
		unwind_store__place(s->unwind, fd, &m, &p.map);
		close(fd);
	}
	pthread_mutex_lock(&s->lock);
	past_maps__add(&s->past, n->pid, &p);
	pthread_mutex_unlock(&s->lock);
}
