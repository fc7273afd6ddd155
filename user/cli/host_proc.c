// SPDX-License-Identifier: Apache-2.0
/* One process: which of the files that it has mapped are allocators, and their probes in it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/host_internal.h"
#include "cli/scan.h"

struct host_proc *host_proc__find(struct host *h, pid_t pid)
{
	size_t i;

	for (i = 0; i < h->n_procs; i++)
		if (h->procs[i].pid == pid)
			return &h->procs[i];
	return NULL;
}

static void *close_it(void *arg)
{
	struct closing *c = arg;

	attach__free(c->attach);
	__atomic_store_n(&c->done, true, __ATOMIC_RELEASE);
	return NULL;
}

void host_proc__detach(struct host *h, struct host_proc *p)
{
	/* So many at once are waited for: else they would be as many as the target likes. */
	struct closing *c = p->attach && h->n_closing < MAX_CLOSING ? calloc(1, sizeof(*c)) : NULL;
	void *more = c ? realloc(h->closing, (h->n_closing + 1) * sizeof(*h->closing)) : NULL;

	if (more)
		h->closing = more;
	if (c)
		*c = (struct closing){ .pid = p->pid, .attach = p->attach };
	if (more && !pthread_create(&c->thread, NULL, close_it, c)) {
		h->closing[h->n_closing++] = c;
	} else {
		attach__free(p->attach);
		free(c);
	}
	p->attach = NULL;
	p->attached.n = 0;
}

void host__join(struct host *h, pid_t pid, bool all)
{
	size_t i, kept = 0;

	for (i = 0; i < h->n_closing; i++) {
		struct closing *c = h->closing[i];

		if (!all && c->pid != pid && !__atomic_load_n(&c->done, __ATOMIC_ACQUIRE)) {
			h->closing[kept++] = c;
			continue;
		}
		pthread_join(c->thread, NULL);
		free(c);
	}
	h->n_closing = kept;
}

struct host_proc *host_proc__get(struct host *h, pid_t pid, uint32_t start)
{
	struct host_proc *p = host_proc__find(h, pid);
	void *more;

	if (p && p->start == start)
		return p;
	if (p)
		host_proc__detach(h, p);
	if (!p) {
		more = realloc(h->procs, (h->n_procs + 1) * sizeof(*h->procs));
		if (!more)
			return NULL;
		h->procs = more;
		p = &h->procs[h->n_procs++];
		memset(p, 0, sizeof(*p));
	}
	*p = (struct host_proc){ .pid = pid, .start = start };
	return p;
}

static bool files__has(const struct files *f, int no)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		if (f->no[i] == no)
			return true;
	return false;
}

static void files__add(struct files *f, int no)
{
	if (f->n < MAX_FILES && !files__has(f, no))
		f->no[f->n++] = no;
}

int host_proc__attach_file(struct session *s, struct host_proc *p, int file)
{
	int err;

	if (files__has(&p->attached, file))
		return 0;
	if (p->attached.n == MAX_FILES)
		return -ENOSPC;
	/* A free would be seen by the old link, too. */
	if (!p->attach)
		host__join(s->host, p->pid, false);
	err = prober__host_attach(s->prober, file, p->pid, &p->attach);
	if (!err)
		files__add(&p->attached, file);
	return err;
}

/* ---- which files of a process are allocators ---- */

struct look {
	struct session *s;
	struct host_proc *p;
	bool attach; /* what is found */
	int err; /* of an attach */
	uint64_t last_ino, until;
	uint32_t last_major, last_minor;
	bool any; /* a file was looked at: the next one when there is time */
	char exe[PATH_MAX], *preload; /* its program; LD_PRELOAD, or NULL */
};

static struct hkey file_key(const struct mapping *m)
{
	return (struct hkey){ m->ino ^ (uint64_t)m->dev_major << 52 ^ (uint64_t)m->dev_minor << 44,
			      hash__bytes(m->path, strlen(m->path), 0) };
}

/* What could not be looked at: for this process the next time is no better. */
static struct hkey failed_key(const struct look *l, const struct mapping *m)
{
	struct hkey k = file_key(m);

	k.a ^= ((uint64_t)l->p->pid << 32 | l->p->start) * 0x9e3779b97f4a7c15ULL;
	return k;
}

static bool is_looked(const struct look *l, const struct mapping *m)
{
	const struct hmap *looked = &l->s->host->looked;

	/* More is no allocator of a real program. */
	return l->p->known.n == MAX_FILES || hmap__get(looked, file_key(m)) ||
	       hmap__get(looked, failed_key(l, m));
}

static bool is_passing(int err)
{
	return err == -ESRCH || err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

static void look_at(struct look *l, const struct mapping *m)
{
	struct host *h = l->s->host;
	int fd, file, err;

	if (is_looked(l, m))
		return;
	if (h->looked.n >= MAX_LOOKED)
		hmap__free(&h->looked);
	fd = mapping__open(l->p->pid, m);
	file = fd < 0 ? fd : prober__host_file(l->s->prober, fd, m->path);
	/* What is known already costs no time. */
	if (file <= 0 || !files__has(&l->p->known, file))
		l->any = true;
	if (!file)
		hmap__put(&h->looked, file_key(m), NULL);
	else if (file < 0 && !is_passing(file))
		hmap__put(&h->looked, failed_key(l, m), NULL);
	if (fd < 0)
		return;
	if (file < 0)
		pr_debug("%s: not looked at: %s", m->path, elf__why(file));
	if (file <= 0)
		goto out;
	files__add(&l->p->known, file);
	if (!l->attach)
		goto out;
	err = host_proc__attach_file(l->s, l->p, file);
	if (err && err != -ESRCH) {
		l->err = err;
		pr_warn("pid %d: the allocator in %s cannot be probed: %s; its calls have no HOST "
			"rows",
			(int)l->p->pid, m->path, attach__why(err));
	}
	if (!err)
		session__check_probed(l->s, l->p->pid, clock__boot(), m, fd);
out:
	close(fd);
}

/* All but these, some hundred files that have to be read, are looked at when there is time. */
static bool is_likely(const struct look *l, const char *path)
{
	return hostmem__is_likely(path) || !strcmp(path, l->exe) ||
	       (l->preload && strstr(l->preload, path_base(path)));
}

/* Segments of a file stand next to each other. */
static bool is_last(struct look *l, const struct mapping *m)
{
	bool same = m->ino == l->last_ino && m->dev_major == l->last_major &&
		    m->dev_minor == l->last_minor;

	l->last_ino = m->ino;
	l->last_major = m->dev_major;
	l->last_minor = m->dev_minor;
	return same;
}

static int on_likely(void *ctx, const struct mapping *m)
{
	struct look *l = ctx;

	if (!is_last(l, m) && is_likely(l, m->path))
		look_at(l, m);
	return 0;
}

static int on_any(void *ctx, const struct mapping *m)
{
	struct look *l = ctx;

	if (!is_last(l, m) && !is_looked(l, m)) {
		/* Each time one at least: to come to it in thousands of mappings takes long. */
		if (l->any && clock__boot() >= l->until)
			return 1;
		look_at(l, m);
	}
	return 0;
}

static int look_likely(struct session *s, struct host_proc *p, bool attach, int *attach_err)
{
	struct look l = { .s = s, .p = p, .attach = attach };
	char link[64];
	ssize_t n;
	int err;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)p->pid);
	n = readlink(link, l.exe, sizeof(l.exe) - 1);
	l.exe[MT_MAX(n, (ssize_t)0)] = '\0';
	l.preload = proc__env(p->pid, "LD_PRELOAD");
	err = proc__each_mapping(p->pid, on_likely, &l);
	free(l.preload);
	*attach_err = l.err;
	return err;
}

/* 1: not all, it has taken too long. */
static int look_all(struct session *s, struct host_proc *p, bool attach, uint64_t ns)
{
	struct look l = { .s = s, .p = p, .attach = attach, .until = clock__boot() + ns };

	return proc__each_mapping(p->pid, on_any, &l);
}

/* Is anything of it probed now? The rest is looked at later. */
bool host_proc__attach(struct session *s, struct host_proc *p)
{
	int attach_err, err = look_likely(s, p, true, &attach_err);
	uint32_t now;

	p->todo = clock__boot();
	if (!err && !p->attached.n && !attach_err) {
		err = look_all(s, p, true, FIRST_LOOK_NS);
		if (!err)
			p->todo = 0;
	}
	if (proc__start(p->pid, &now) || now != p->start)
		return false; /* it has ended */
	if (err && err != -ESRCH)
		pr_warn("pid %d: its mappings cannot be read: %s; malloc and free are not recorded",
			(int)p->pid, strerror(-err));
	else if (!err && !p->attached.n && !attach_err)
		pr_warn("pid %d: nothing that it has mapped has a malloc that can be found; it is "
			"linked statically and stripped, or its allocator has other names: no HOST "
			"rows",
			(int)p->pid);
	return p->attached.n > 0;
}

/* What it is known to have, at once. */
bool host_proc__attach_known(struct session *s, struct host_proc *p)
{
	size_t i;

	for (i = 0; i < p->known.n; i++)
		(void)host_proc__attach_file(s, p, p->known.no[i]);
	return p->attached.n > 0;
}

void host_proc__look(struct session *s, struct host_proc *p)
{
	int err;

	(void)look_likely(s, p, false, &err);
	p->todo = clock__boot();
}

int host_proc__look_on(struct session *s, struct host_proc *p, bool attach)
{
	return look_all(s, p, attach, LOOK_NS);
}
