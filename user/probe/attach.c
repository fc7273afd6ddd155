// SPDX-License-Identifier: Apache-2.0
/*
 * Attaching programs to sites of a file: one uprobe_multi link a program where
 * the kernel has them, a perf event a site elsewhere; detaching by threads.
 */
#include "probe/probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "probe/kernel.h"

struct link {
	int fd; /* of the link, or of the perf event without one */
	int perf; /* perf event under a link, -1 */
	unsigned int pair; /* 0: a link of several functions */
	unsigned int group;
};

struct attach {
	struct progs *progs;
	const struct features *f;
	pid_t pid; /* 0: every process */
	bool perf; /* no multi links, see attach__in */
	struct link *links;
	size_t n, cap;
};

#define ENOTSUPP_ 524 /* of the kernel alone: no text in the C library */

const char *attach__why(int err)
{
	if (err == -ENOTSUPP_)
		return "this kernel puts no probe on the instruction there; newer ones may";
	return strerror(-err);
}

struct attach *attach__new(struct progs *p, const struct features *f)
{
	struct attach *a = calloc(1, sizeof(*a));

	if (a) {
		a->progs = p;
		a->f = f;
	}
	return a;
}

/*
 * A link with a PID saw only the first thread of the process before 6.10 (46ba0e49b642). Kernels
 * that are right refuse a negative number before they look at the path, as libbpf finds out.
 */
static bool only_threads(struct attach *a, const char *prog)
{
	int fd = progs__clone(a->progs, prog, MT_BPF_TRACE_UPROBE_MULTI, 0);
	__u64 off = 1;

	if (fd < 0)
		return true;
	return kernel__multi_link(fd, MT_BPF_TRACE_UPROBE_MULTI, "/", &off, NULL, 1, 0, -1) !=
	       -EINVAL;
}

void attach__in(struct attach *a, pid_t pid, const char *prog)
{
	static int wrong = -1; /* the kernel stays the same */

	a->pid = pid;
	if (!features__has(a->f, FEAT_MULTI))
		return;
	if (wrong < 0)
		wrong = only_threads(a, prog);
	a->perf = wrong;
}

static int keep(struct attach *a, int fd, int perf, unsigned int pair, unsigned int group)
{
	if (a->n == a->cap) {
		size_t cap = a->cap ? a->cap * 2 : 64;
		void *p = realloc(a->links, cap * sizeof(*a->links));

		if (!p) {
			close(fd);
			if (perf >= 0)
				close(perf);
			return -ENOMEM;
		}
		a->links = p;
		a->cap = cap;
	}
	a->links[a->n++] = (struct link){ fd, perf, pair, group };
	return 0;
}

static int one_perf(struct attach *a, const char *path, struct attach_req *r)
{
	int prog = progs__clone(a->progs, r->prog, 0, r->site), perf, fd, err;

	if (prog < 0)
		return prog;
	perf = kernel__perf_uprobe(path, r->off, r->kind == ATTACH_RETURN, a->pid);
	if (perf < 0)
		return perf;
	if (features__has(a->f, FEAT_COOKIE)) {
		fd = kernel__perf_link(prog, perf, r->site | (uint64_t)r->op << 32);
		if (fd < 0) {
			close(perf);
			return fd;
		}
		return keep(a, fd, perf, r->pair, r->group);
	}
	err = kernel__perf_set_bpf(prog, perf);
	if (err) {
		close(perf);
		return err;
	}
	return keep(a, perf, -1, r->pair, r->group);
}

#define NOT_TRIED 1

static bool same_link(const struct attach_req *a, const struct attach_req *b)
{
	return a->err == NOT_TRIED && a->kind == b->kind && strcmp(a->prog, b->prog) == 0;
}

/* In one link: a request alone, or all of its program and kind. */
static int one_multi(struct attach *a, const char *path, struct attach_req *reqs, size_t n,
		     size_t first, bool alone)
{
	const struct attach_req *r = &reqs[first];
	uint32_t type = r->kind == ATTACH_SESSION ? MT_BPF_TRACE_UPROBE_SESSION
						  : MT_BPF_TRACE_UPROBE_MULTI;
	int prog = progs__clone(a->progs, r->prog, type, r->site), fd, err = 0;
	__u64 *off = calloc(n, sizeof(*off)), *cookie = calloc(n, sizeof(*cookie));
	uint32_t m = 0;
	size_t i;

	if (!off || !cookie) {
		err = -ENOMEM;
		goto out;
	}
	if (prog < 0) {
		err = prog;
		goto out;
	}
	for (i = first; i < n; i++) {
		if (alone ? i != first : !same_link(&reqs[i], r))
			continue;
		off[m] = reqs[i].off;
		cookie[m++] = reqs[i].site | (uint64_t)reqs[i].op << 32;
	}
	fd = kernel__multi_link(prog, type, path, off, cookie, m,
				r->kind == ATTACH_RETURN ? MT_UPROBE_MULTI_RETURN : 0, a->pid);
	err = fd < 0 ? fd : keep(a, fd, -1, alone ? r->pair : 0, r->group);
out:
	free(off);
	free(cookie);
	return err;
}

/*
 * A closed uprobe waits for a grace period, and many wait at once as well as
 * one: 20 links one after the other 0.9 s, by threads 0.06 s (tracers.md 3.2).
 */
#define CLOSERS 32

struct closer {
	struct link *links;
	size_t n;
	size_t *next;
};

static void *close_some(void *arg)
{
	struct closer *c = arg;
	size_t i;

	while ((i = __atomic_fetch_add(c->next, 1, __ATOMIC_RELAXED)) < c->n) {
		close(c->links[i].fd);
		if (c->links[i].perf >= 0)
			close(c->links[i].perf);
	}
	return NULL;
}

static void close_all(struct link *links, size_t n)
{
	size_t next = 0, started = 0, i;
	struct closer c = { links, n, &next };
	pthread_t t[CLOSERS];

	for (i = 0; i < MT_MIN(n, (size_t)CLOSERS); i++)
		if (!pthread_create(&t[started], NULL, close_some, &c))
			started++;
	if (!started)
		close_some(&c);
	for (i = 0; i < started; i++)
		pthread_join(t[i], NULL);
}

/* Takes the error of a return over to what else belongs to its function. */
static void give_up(struct attach_req *reqs, size_t n, size_t failed)
{
	size_t i;

	if (!reqs[failed].is_return)
		return;
	for (i = 0; i < n; i++)
		if (reqs[i].pair == reqs[failed].pair && reqs[i].err == NOT_TRIED)
			reqs[i].err = reqs[failed].err;
}

static void attach_multi(struct attach *a, const char *path, struct attach_req *reqs, size_t n,
			 size_t first)
{
	enum attach_kind kind = reqs[first].kind;
	const char *prog = reqs[first].prog;
	int err = one_multi(a, path, reqs, n, first, false);
	size_t j;

	/*
	 * One bad offset refuses the whole link: then they are tried one by one. A
	 * session is a link of its own kind, which a perf event cannot be.
	 */
	for (j = n; j-- > first;)
		if (same_link(&reqs[j], &reqs[first]))
			reqs[j].err = err;
	if (!err)
		return;
	for (j = first; j < n; j++) {
		if (reqs[j].err != err || reqs[j].kind != kind || strcmp(reqs[j].prog, prog) != 0)
			continue;
		reqs[j].err = kind == ATTACH_SESSION ? one_multi(a, path, reqs, n, j, true)
						     : one_perf(a, path, &reqs[j]);
		if (reqs[j].err)
			give_up(reqs, n, j);
	}
}

/* What was attached of functions of which a part failed; not what shares a link with others. */
static void drop_halves(struct attach *a, struct attach_req *reqs, size_t n, size_t first_link)
{
	size_t i, j, kept = first_link;

	for (i = first_link; i < a->n; i++) {
		for (j = 0; j < n; j++)
			if (a->links[i].pair && reqs[j].pair == a->links[i].pair && reqs[j].err)
				break;
		if (j == n)
			a->links[kept++] = a->links[i];
		else
			close_all(&a->links[i], 1);
	}
	a->n = kept;
}

size_t attach__file(struct attach *a, int file, struct attach_req *reqs, size_t n)
{
	bool multi = features__has(a->f, FEAT_MULTI) && !a->perf;
	size_t i, failed = 0, first_link = a->n;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	for (i = 0; i < n; i++)
		reqs[i].err = NOT_TRIED;
	for (i = 0; i < n; i++) {
		if (reqs[i].err != NOT_TRIED)
			continue;
		if (multi) {
			attach_multi(a, path, reqs, n, i);
			continue;
		}
		reqs[i].err = one_perf(a, path, &reqs[i]);
		if (reqs[i].err)
			give_up(reqs, n, i);
	}
	for (i = 0; i < n; i++)
		failed += reqs[i].err != 0;
	if (failed)
		drop_halves(a, reqs, n, first_link);
	return failed;
}

void attach__remove(struct attach *a, unsigned int group)
{
	struct link *gone = calloc(a->n + 1, sizeof(*gone));
	size_t i, kept = 0, m = 0;

	for (i = 0; i < a->n; i++) {
		if (a->links[i].group != group)
			a->links[kept++] = a->links[i];
		else if (gone)
			gone[m++] = a->links[i];
		else
			close_all(&a->links[i], 1);
	}
	a->n = kept;
	if (gone)
		close_all(gone, m);
	free(gone);
}

void attach__detach(struct attach *a)
{
	close_all(a->links, a->n);
	a->n = 0;
}

void attach__free(struct attach *a)
{
	if (!a)
		return;
	attach__detach(a);
	free(a->links);
	free(a);
}

size_t attach__links(const struct attach *a)
{
	return a->n;
}
