// SPDX-License-Identifier: Apache-2.0
/* Allocators of the host are probed when a range opens, and left alone when it closes. */
#include "cli/host.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/scan.h"
#include "cli/watchdog.h"

#define MAX_FILES 16 /* allocators in one process */

/* A process of which something is attached, or is to be. */
struct host_proc {
	pid_t pid;
	uint32_t start;
	struct attach *attach; /* NULL: nothing */
	struct files {
		int no[MAX_FILES];
		size_t n;
	} known, attached; /* allocators that it has mapped, and those that are probed */
};

/* Closing a link takes a grace period of the kernel: elsewhere. */
struct closing {
	struct attach *attach;
	pthread_t thread;
	bool done;
};

struct host {
	struct ring_buffer *notes;
	struct watchdog *watchdog;
	int stops_fd, lost_fd;
	struct host_proc *procs;
	size_t n_procs;
	struct hmap looked; /* files that are none: (inode and device, path) */
	struct closing **closing;
	size_t n_closing;
	struct host_stats stats;
};

int host__mode(const char *word, struct host_opts *o)
{
	static const char *const words[] = { "none", "ranges", "all" };
	unsigned int i;

	for (i = 0; i < MT_ARRAY_SIZE(words); i++)
		if (!strcmp(word, words[i])) {
			o->mode = i;
			o->given = true;
			return 0;
		}
	return -EINVAL;
}

int host__check(struct record_opts *o)
{
	struct host_opts *h = &o->host;

	if (!h->given)
		h->mode = o->cpu ? MT_HOST_ALWAYS : MT_HOST_RANGES;
	/* The newer tool has no rows of malloc. */
	if ((o->vendor && o->newer) || !(o->events & EVENTS_ALLOC))
		h->mode = MT_HOST_NONE;
	if (h->exact && h->mode != MT_HOST_RANGES) {
		pr_err("--exact-ranges: no range is waited for %s; leave one of them out",
		       h->mode == MT_HOST_ALWAYS ? "when malloc and free are recorded all the time "
						   "(--device cpu, --host-memory all)"
						 : "when malloc and free are not recorded "
						   "(--host-memory none, --events)");
		return -EINVAL;
	}
	return 0;
}

/* ---- processes ---- */

static struct host_proc *find(struct host *h, pid_t pid)
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

static void detach(struct host *h, struct host_proc *p)
{
	struct closing *c = p->attach ? calloc(1, sizeof(*c)) : NULL;
	void *more = c ? realloc(h->closing, (h->n_closing + 1) * sizeof(*h->closing)) : NULL;

	if (more)
		h->closing = more;
	if (c)
		c->attach = p->attach;
	if (more && !pthread_create(&c->thread, NULL, close_it, c)) {
		h->closing[h->n_closing++] = c;
	} else {
		attach__free(p->attach);
		free(c);
	}
	p->attach = NULL;
	p->attached.n = 0;
}

static void join_closed(struct host *h, bool all)
{
	size_t i, kept = 0;

	for (i = 0; i < h->n_closing; i++) {
		struct closing *c = h->closing[i];

		if (!all && !__atomic_load_n(&c->done, __ATOMIC_ACQUIRE)) {
			h->closing[kept++] = c;
			continue;
		}
		pthread_join(c->thread, NULL);
		free(c);
	}
	h->n_closing = kept;
}

static struct host_proc *get(struct host *h, pid_t pid, uint32_t start)
{
	struct host_proc *p = find(h, pid);
	void *more;

	if (p && p->start == start)
		return p;
	if (p)
		detach(h, p);
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

static int attach_file(struct session *s, struct host_proc *p, int file)
{
	int err;

	if (files__has(&p->attached, file))
		return 0;
	if (p->attached.n == MAX_FILES)
		return -ENOSPC;
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
	uint64_t last_ino;
};

static struct hkey file_key(const struct mapping *m)
{
	return (struct hkey){ m->ino ^ (uint64_t)m->dev_major << 52 ^ (uint64_t)m->dev_minor << 44,
			      hash__bytes(m->path, strlen(m->path), 0) };
}

static void look_at(struct look *l, const struct mapping *m)
{
	struct host *h = l->s->host;
	int fd, file, err;

	if (hmap__get(&h->looked, file_key(m)))
		return;
	fd = mapping__open(l->p->pid, m);
	if (fd < 0)
		return;
	file = prober__host_file(l->s->prober, fd, m->path);
	close(fd);
	if (!file)
		hmap__put(&h->looked, file_key(m), NULL);
	if (file < 0)
		pr_debug("%s: not looked at: %s", m->path, elf__why(file));
	if (file <= 0)
		return;
	files__add(&l->p->known, file);
	if (!l->attach)
		return;
	err = attach_file(l->s, l->p, file);
	if (err && err != -ESRCH) {
		l->err = err;
		pr_warn("pid %d: the allocator in %s cannot be probed: %s; its calls have no HOST "
			"rows",
			(int)l->p->pid, m->path, attach__why(err));
	}
}

/* Those that most processes have, before all others: a range is open. */
static bool is_likely(const char *path)
{
	static const char *const names[] = { "libc.so*",    "libc-[0-9]*",  "libc.musl*",
					     "ld-musl*",    "libjemalloc*", "libtcmalloc*",
					     "libmimalloc*" };
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(names); i++)
		if (!fnmatch(names[i], path_base(path), 0))
			return true;
	return false;
}

static int on_likely(void *ctx, const struct mapping *m)
{
	struct look *l = ctx;

	if (m->ino != l->last_ino && is_likely(m->path))
		look_at(l, m);
	l->last_ino = m->ino;
	return 0;
}

static int on_other(void *ctx, const struct mapping *m)
{
	struct look *l = ctx;

	if (m->ino != l->last_ino && !is_likely(m->path))
		look_at(l, m);
	l->last_ino = m->ino;
	return 0;
}

static int look_through(struct look *l)
{
	int err = proc__each_mapping(l->p->pid, on_likely, l);

	l->last_ino = 0;
	if (!err)
		err = proc__each_mapping(l->p->pid, on_other, l);
	return err;
}

/* ---- ranges ---- */

static void missed(struct session *s, pid_t pid, uint64_t from, uint64_t to)
{
	struct host_stats *st = &s->host->stats;
	uint64_t ns = to > from ? to - from : 0;

	st->missed++;
	st->missed_ns += ns;
	st->most_ns = MT_MAX(st->most_ns, ns);
	session__note_host(s, pid, from, to);
}

/* Does what could be attached see all that is asked for? */
static bool attach_process(struct session *s, struct host_proc *p)
{
	struct look l = { .s = s, .p = p, .attach = true };
	int err = look_through(&l);

	if (err && err != -ESRCH)
		pr_warn("pid %d: its mappings cannot be read: %s; malloc and free are not recorded",
			(int)p->pid, strerror(-err));
	else if (!err && !p->attached.n && !l.err)
		pr_warn("pid %d: nothing that it has mapped has a malloc that can be found; it is "
			"linked statically and stripped, or its allocator has other names: no HOST "
			"rows",
			(int)p->pid);
	return p->attached.n > 0;
}

/* What it is known to have, at once. */
static bool attach_known(struct session *s, struct host_proc *p)
{
	size_t i;

	for (i = 0; i < p->known.n; i++)
		(void)attach_file(s, p, p->known.no[i]);
	return p->attached.n > 0;
}

static void tell_stop(struct session *s, const struct mt_host_note *n)
{
	struct host_stats *st = &s->host->stats;

	st->refused++;
	pr_warn("pid %u: --exact-ranges: not stopped for the attach: %s; the beginning of this "
		"range is not recorded",
		n->tgid,
		n->stop == MT_STOP_TRACED ? "a debugger traces it"
		: n->stop == MT_STOP_OTHERS
			? "somebody else is stopping it"
			: "the signal could not be sent, or it has not gone on since the last one");
}

static void let_go(struct session *s, const struct mt_host_note *n, uint64_t attached)
{
	struct host_stats *st = &s->host->stats;
	int r = stop__release(s->host->stops_fd, n->tgid);
	uint64_t ns = clock__boot() - n->time;

	if (r == -EBUSY) {
		st->left++;
		pr_warn("pid %u: stopped by somebody else while --exact-ranges had stopped it: it "
			"stays stopped (kill -CONT %u lets it go on)",
			n->tgid, n->tgid);
	} else if (r < 0 && r != -ESRCH) {
		pr_warn("pid %u: was stopped by --exact-ranges and cannot be continued: %s; kill "
			"-CONT %u",
			n->tgid, strerror(-r), n->tgid);
	} else if (!r) { /* a second after the stop */
		st->late++;
		missed(s, (pid_t)n->tgid, n->time + 1000000000ULL, attached);
		pr_warn("pid %u: continued by the watchdog before its allocator was probed",
			n->tgid);
		return;
	}
	st->stopped++;
	st->stopped_ns += ns;
	st->stopped_most_ns = MT_MAX(st->stopped_most_ns, ns);
}

static void on_opened(struct session *s, const struct mt_host_note *note)
{
	struct host *h = s->host;
	struct host_proc *p = get(h, (pid_t)note->tgid, note->start);
	uint64_t heard = clock__boot(), now;
	bool ok = p && (attach_known(s, p) || attach_process(s, p));
	size_t n = ok ? p->attached.n : 0;

	now = clock__boot();
	h->stats.ranges++;
	h->stats.failed += !ok;
	pr_debug("pid %u: a range for the host's memory is open; heard of after %.3f ms, attached "
		 "in %.3f ms",
		 note->tgid, (double)(heard - note->time) / 1e6, (double)(now - heard) / 1e6);
	if (note->stop == MT_STOP_SENT) {
		let_go(s, note, now);
	} else {
		if (note->stop != MT_STOP_NO)
			tell_stop(s, note);
		missed(s, (pid_t)note->tgid, note->time, now);
	}
	/* One that it has mapped since it was looked through. */
	if (ok && attach_process(s, p) && p->attached.n > n)
		missed(s, p->pid, now, clock__boot());
}

static void on_forked(struct session *s, const struct mt_host_note *n)
{
	struct host_proc *p;

	if (s->cfg.host != MT_HOST_ALWAYS)
		return;
	p = get(s->host, (pid_t)n->tgid, n->start);
	if (p && !p->attached.n && attach_process(s, p))
		missed(s, p->pid, n->time, clock__boot());
}

/* Links stay with a process through an exec; those of a child that had none are made now. */
static void on_execed(struct session *s, const struct mt_host_note *n)
{
	struct host_proc *p = find(s->host, (pid_t)n->tgid);
	int file;

	if (s->cfg.host != MT_HOST_ALWAYS) {
		if (p) {
			detach(s->host, p);
			p->known.n = 0;
		}
		return;
	}
	if (p && p->attached.n)
		return;
	p = get(s->host, (pid_t)n->tgid, n->start);
	/* The new program has mapped nothing yet, perhaps: what others have. */
	for (file = 1; p && file <= MAX_FILES; file++)
		if (attach_file(s, p, file) == -EINVAL)
			break;
	if (p && p->attached.n)
		missed(s, p->pid, n->time, clock__boot());
}

static int on_note(void *ctx, void *data, size_t size)
{
	const struct mt_host_note *n = data;
	struct session *s = ctx;
	struct host_proc *p;

	if (size < sizeof(*n))
		return 0;
	switch (n->what) {
	case MT_HOST_OPENED:
		on_opened(s, n);
		break;
	case MT_HOST_CLOSED:
		p = find(s->host, (pid_t)n->tgid);
		if (p)
			detach(s->host, p);
		break;
	case MT_HOST_FORKED:
		on_forked(s, n);
		break;
	case MT_HOST_EXECED:
		on_execed(s, n);
		break;
	}
	return 0;
}

void host__read(struct session *s)
{
	if (s->host)
		ring_buffer__consume(s->host->notes);
}

int host__fd(const struct session *s)
{
	return s->host ? ring_buffer__epoll_fd(s->host->notes) : -1;
}

/* ---- the session ---- */

int host__open(struct session *s)
{
	struct host *h;
	int err;

	s->cfg.host = s->opts.host.mode;
	s->cfg.exact = s->opts.host.exact;
	if (s->opts.host.mode == MT_HOST_NONE)
		return 0;
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	s->host = h;
	h->stops_fd = progs__map(s->progs, "host_stops");
	h->lost_fd = progs__map(s->progs, "host_lost");
	h->notes = ring_buffer__new(progs__map(s->progs, "host_notes"), on_note, s, NULL);
	if (!h->notes)
		return -errno;
	if (!s->opts.host.exact)
		return 0;
	/* Whoever cannot send a signal to any process may stop one that he cannot continue. */
	if ((s->opts.all || s->opts.n_names || s->opts.cgroup) && kill(1, 0) && errno == EPERM) {
		pr_err("--exact-ranges: processes of other users could be stopped and not "
		       "continued; "
		       "needs CAP_KILL (man memtap, CAPABILITIES), or name your own with -p");
		return -EPERM;
	}
	err = watchdog__start(h->stops_fd, s->cfg_fd, &h->watchdog);
	if (err)
		pr_err("--exact-ranges: its watchdog cannot be started: %s", strerror(-err));
	return err;
}

/* A process that is stopped already, or traced, is not ours to continue. */
static int may_stop(pid_t pid)
{
	struct proc_stopped st;

	if (kill(pid, 0) && errno == EPERM) {
		pr_err("--exact-ranges: pid %d is another user's: it could be stopped and not "
		       "continued; needs CAP_KILL (man memtap, CAPABILITIES)",
		       (int)pid);
		return -EPERM;
	}
	if (proc__stopped(pid, &st))
		return 0;
	if (st.tracer) {
		pr_err("--exact-ranges: pid %d is traced by pid %d (a debugger, strace): stopping "
		       "and continuing it would disturb both; detach that, or leave the option "
		       "out",
		       (int)pid, (int)st.tracer);
		return -EBUSY;
	}
	if (st.state == 'T' || st.state == 't' || st.again) {
		pr_err("--exact-ranges: pid %d is stopped: whoever stopped it wants it so; "
		       "continue "
		       "it (kill -CONT %d), or leave the option out",
		       (int)pid, (int)pid);
		return -EBUSY;
	}
	return 0;
}

int host__targets(struct session *s)
{
	uint32_t key, *prev = NULL;
	int err = 0;

	while (s->host && !err && !bpf_map_get_next_key(s->targets_fd, prev, &key)) {
		prev = &key;
		if (s->cfg.exact)
			err = may_stop((pid_t)key);
		if (!err)
			host__process(s, (pid_t)key);
	}
	return err;
}

void host__process(struct session *s, pid_t pid)
{
	struct look l = { .s = s };
	uint32_t start;
	uint64_t since = s->t_attached;

	if (!s->host || s->t_stop)
		return;
	if (proc__start(pid, &start))
		return;
	l.p = get(s->host, pid, start);
	if (!l.p)
		return;
	if (s->cfg.host != MT_HOST_ALWAYS) {
		look_through(&l);
		return;
	}
	if (l.p->attached.n || !attach_process(s, l.p) || !since)
		return;
	/* Ticks of 10 ms. */
	missed(s, pid, MT_MAX(since, start * 10000000ULL), clock__boot());
}

/* Those from which ranges come, and where there is no range to wait for any that may be one. */
void host__mapped(struct session *s, pid_t pid, const char *path)
{
	static const char *const marks[] = { "libms_tools_ext.so*", "mstx*.so", "libtorch_npu.so",
					     "_C.*so" };
	struct look l = { .s = s, .attach = s->cfg.host == MT_HOST_ALWAYS };
	bool wanted = false;
	size_t i;

	if (!s->host || s->t_stop)
		return;
	l.p = find(s->host, pid);
	wanted = l.p && l.attach;
	for (i = 0; !wanted && i < MT_ARRAY_SIZE(marks); i++)
		wanted = !fnmatch(marks[i], path_base(path), 0);
	if (!l.p && wanted)
		host__process(s, pid);
	else if (wanted)
		look_through(&l);
}

void host__tick(struct session *s)
{
	struct host *h = s->host;
	struct mt_target t;
	size_t i;

	if (!h)
		return;
	join_closed(h, false);
	for (i = 0; i < h->n_procs; i++) {
		struct host_proc *p = &h->procs[i];

		if (target__is(s, p->pid, &t) && t.start == p->start)
			continue;
		detach(h, p);
		*p = h->procs[--h->n_procs];
		i--;
	}
	if (h->watchdog && s->cfg.exact && !watchdog__alive(h->watchdog)) {
		pr_warn("--exact-ranges: the watchdog has ended: processes are not stopped any "
			"more, the beginnings of ranges are not recorded");
		s->cfg.exact = 0;
		session__write_cfg(s);
	}
}

static void release_all(struct session *s)
{
	uint32_t key;

	while (!bpf_map_get_next_key(s->host->stops_fd, NULL, &key))
		(void)stop__release(s->host->stops_fd, key);
}

/* cfg.stopped is set: programs stop nobody any more. */
void host__stop(struct session *s)
{
	struct host *h = s->host;
	size_t i;

	if (!h)
		return;
	release_all(s);
	for (i = 0; i < h->n_procs; i++)
		detach(h, &h->procs[i]);
	h->n_procs = 0;
	join_closed(h, true);
	watchdog__end(h->watchdog);
	h->watchdog = NULL;
}

void host__free(struct session *s)
{
	struct host *h = s->host;

	if (!h)
		return;
	host__stop(s);
	ring_buffer__free(h->notes);
	hmap__free(&h->looked);
	free(h->procs);
	free(h->closing);
	free(h);
	s->host = NULL;
}

void host__stats(const struct session *s, struct host_stats *st)
{
	uint32_t zero = 0;

	memset(st, 0, sizeof(*st));
	if (!s->host)
		return;
	*st = s->host->stats;
	(void)bpf_map_lookup_elem(s->host->lost_fd, &zero, &st->notes_lost);
}

bool host__incomplete(const struct session *s)
{
	struct host_stats st;

	host__stats(s, &st);
	return st.failed || st.notes_lost;
}
