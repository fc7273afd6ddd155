// SPDX-License-Identifier: Apache-2.0
/* Allocators of the host are probed when a range opens, and left alone when it closes. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/host_internal.h"
#include "cli/scan.h"

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
	if (o->vendor && o->newer) {
		if (h->exact) {
			pr_err("--exact-ranges: --generation=now has no rows of malloc and free; "
			       "leave one of them out");
			return -EINVAL;
		}
		h->mode = MT_HOST_NONE;
	}
	if (!(o->events & EVENTS_ALLOC)) {
		if (h->given && h->mode != MT_HOST_NONE && !h->exact) {
			pr_err("--host-memory: malloc and free are events that --events does not "
			       "name; add alloc,free to it");
			return -EINVAL;
		}
		h->mode = MT_HOST_NONE;
	}
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

static void tell_stop(struct session *s, struct host_proc *p, const struct mt_host_note *n)
{
	struct host_stats *st = &s->host->stats;

	if (n->stop == MT_STOP_BUSY)
		return;
	st->refused++;
	if (!p || p->refused)
		return;
	p->refused = true;
	pr_warn("pid %u: --exact-ranges: not stopped for the attach: %s; the beginning of this "
		"range is not recorded",
		n->tgid,
		n->stop == MT_STOP_TRACED   ? "a debugger traces it"
		: n->stop == MT_STOP_OTHERS ? "somebody else is stopping it"
		: n->stop == MT_STOP_USER
			? "it has become another user's, and could not be continued without "
			  "CAP_KILL"
			: "the signal could not be sent, or it has not gone on since the last one");
}

/* ok: its allocator is probed. */
static void let_go(struct session *s, const struct mt_host_note *n, uint64_t attached, bool ok)
{
	struct host_stats *st = &s->host->stats;
	int r = stop__release(s->host->stops_fd, n->tgid, n->time);
	struct proc_stopped now;
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
	} else if (!r) { /* a second after the stop, or it has ended */
		if (proc__stopped((pid_t)n->tgid, &now))
			return;
		st->late++;
		missed(s, (pid_t)n->tgid, n->time, attached);
		if (now.state == 'T')
			pr_warn("pid %u: stopped by somebody else while --exact-ranges had stopped "
				"it: it stays stopped (kill -CONT %u lets it go on)",
				n->tgid, n->tgid);
		else
			pr_warn("pid %u: continued by the watchdog before its allocator was probed",
				n->tgid);
		return;
	}
	if (!ok || (r < 0 && r != -EBUSY))
		return;
	st->stopped++;
	st->stopped_ns += ns;
	st->stopped_most_ns = MT_MAX(st->stopped_most_ns, ns);
}

/* Is this range open still? */
static bool is_open(const struct host *h, const struct mt_host_note *n)
{
	struct mt_host_gate g;

	return !bpf_map_lookup_elem(h->gates_fd, &n->tgid, &g) && g.since <= n->time;
}

static void close_unseen(struct session *s, struct host_proc *p, uint64_t end)
{
	if (p->unseen)
		missed(s, p->pid, p->unseen, end);
	p->unseen = 0;
}

static void on_opened(struct session *s, const struct mt_host_note *note)
{
	struct host *h = s->host;
	struct host_proc *p = host_proc__get(h, (pid_t)note->tgid, note->start);
	uint64_t heard = clock__boot(), now;
	bool ok;

	h->stats.ranges++;
	/* What is over is not attached to: its end, which comes next, tells how much is missing. */
	if (p && note->stop != MT_STOP_SENT && (s->t_stop || !is_open(h, note))) {
		h->stats.failed++;
		if (note->stop != MT_STOP_NO)
			tell_stop(s, p, note);
		close_unseen(s, p, note->time);
		p->unseen = note->time;
		return;
	}
	ok = p && (host_proc__attach_known(s, p) || host_proc__attach(s, p));
	now = clock__boot();
	h->stats.failed += !ok;
	pr_debug("pid %u: a range for the host's memory is open; heard of after %.3f ms, attached "
		 "in %.3f ms",
		 note->tgid, (double)(heard - note->time) / 1e6, (double)(now - heard) / 1e6);
	if (note->stop == MT_STOP_SENT) {
		let_go(s, note, now, ok);
	} else {
		if (note->stop != MT_STOP_NO)
			tell_stop(s, p, note);
		missed(s, (pid_t)note->tgid, note->time, now);
	}
	if (ok) /* what it has mapped since it was looked through */
		p->todo = now;
}

static void on_forked(struct session *s, const struct mt_host_note *n)
{
	struct host_proc *p;

	if (s->cfg.host != MT_HOST_ALWAYS)
		return;
	p = host_proc__get(s->host, (pid_t)n->tgid, n->start);
	if (p && !p->attached.n && host_proc__attach(s, p))
		missed(s, p->pid, n->time, clock__boot());
}

/* Links stay with a process through an exec; those of a child that had none are made now. */
static void on_execed(struct session *s, const struct mt_host_note *n)
{
	struct host_proc *p = host_proc__find(s->host, (pid_t)n->tgid);
	int file;

	if (s->cfg.host != MT_HOST_ALWAYS) {
		if (p) {
			host_proc__detach(s->host, p);
			p->known.n = 0;
		}
		return;
	}
	if (p && p->attached.n)
		return;
	p = host_proc__get(s->host, (pid_t)n->tgid, n->start);
	/* The new program has mapped nothing yet, perhaps: what others have. */
	for (file = 1; p; file++) {
		int err = host_proc__attach_file(s, p, file);

		if (err == -EINVAL || err == -ENOSPC)
			break;
	}
	if (p && p->attached.n)
		missed(s, p->pid, n->time, clock__boot());
}

static int on_note(void *ctx, void *data, size_t size)
{
	const struct mt_host_note *n = data;
	struct session *s = ctx;
	struct mt_host_gate gate;
	struct host_proc *p;

	if (size < sizeof(*n))
		return 0;
	switch (n->what) {
	case MT_HOST_OPENED:
		on_opened(s, n);
		break;
	case MT_HOST_CLOSED:
		p = host_proc__find(s->host, (pid_t)n->tgid);
		if (p)
			close_unseen(s, p, n->time);
		/* Another thread may have opened the next one; of that one there is a notice, too.
		 */
		if (p && bpf_map_lookup_elem(s->host->gates_fd, &n->tgid, &gate))
			host_proc__detach(s->host, p);
		break;
	case MT_HOST_FORKED:
		on_forked(s, n);
		break;
	case MT_HOST_EXECED:
		on_execed(s, n);
		break;
	}
	/* A process may open and close a range without end: the others have their turn, too. */
	return !s->t_stop && clock__boot() >= s->host->until ? -EAGAIN : 0;
}

void host__read(struct session *s)
{
	if (!s->host)
		return;
	s->host->until = clock__boot() + NOTES_NS;
	(void)ring_buffer__consume(s->host->notes); /* what is left wakes again */
}

void host__read_last(struct session *s)
{
	size_t i;

	if (!s->host)
		return;
	(void)ring_buffer__consume(s->host->notes);
	for (i = 0; i < s->host->n_procs; i++)
		close_unseen(s, &s->host->procs[i], s->t_stop);
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
	/* Root may be without it, too. */
	s->cfg.stop_uid = proc__capable(CAP_KILL) ? MT_UID_ANY : geteuid();
	if (s->opts.host.mode == MT_HOST_NONE)
		return 0;
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	s->host = h;
	h->stops_fd = progs__map(s->progs, "host_stops");
	h->gates_fd = progs__map(s->progs, "host_gates");
	h->lost_fd = progs__map(s->progs, "host_lost");
	h->notes = ring_buffer__new(progs__map(s->progs, "host_notes"), on_note, s, NULL);
	if (!h->notes)
		return -errno;
	if (!s->opts.host.exact)
		return 0;
	/* Whoever cannot send a signal to any process may stop one that he cannot continue. */
	if ((s->opts.all || s->opts.n_names || s->opts.cgroup) && s->cfg.stop_uid != MT_UID_ANY) {
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
	struct host_proc *p;
	uint32_t start;

	if (!s->host || s->t_stop || proc__start(pid, &start))
		return;
	p = host_proc__get(s->host, pid, start);
	if (!p)
		return;
	if (s->cfg.host != MT_HOST_ALWAYS) {
		host_proc__look(s, p);
		return;
	}
	if (p->attached.n || !host_proc__attach(s, p) || !s->t_attached)
		return;
	/* Ticks of 10 ms. */
	missed(s, pid, MT_MAX(s->t_attached, start * 10000000ULL), clock__boot());
}

void host__mapped(struct session *s, pid_t pid, const char *path, uint64_t time)
{
	struct host_proc *p;
	size_t before;

	if (!s->host || s->t_stop)
		return;
	p = host_proc__find(s->host, pid);
	if (!p)
		return;
	if (s->cfg.host == MT_HOST_ALWAYS && hostmem__is_likely(path)) {
		before = p->attached.n;
		(void)host_proc__attach(s, p);
		if (p->attached.n > before)
			missed(s, pid, time, clock__boot());
	} else if (!p->todo) {
		p->todo = clock__boot();
	}
}

/* Files that are unlikely to have a malloc, a few at a time. */
static void look_on(struct session *s, struct host_proc *p)
{
	bool attach = s->cfg.host == MT_HOST_ALWAYS || p->attached.n;
	size_t before = p->attached.n;

	if (host_proc__look_on(s, p, attach) == 1)
		return;
	if (p->attached.n > before)
		missed(s, p->pid, p->todo, clock__boot());
	p->todo = 0;
}

void host__tick(struct session *s)
{
	struct host *h = s->host;
	uint64_t until = clock__boot() + LOOK_NS;
	struct mt_target t;
	size_t i;

	if (!h)
		return;
	host__join(h, 0, false);
	for (i = 0; i < h->n_procs; i++) {
		struct host_proc *p = &h->procs[i];

		if (target__is(s, p->pid, &t) && t.start == p->start) {
			if (p->todo && clock__boot() < until)
				look_on(s, p);
			continue;
		}
		host_proc__detach(h, p);
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

/* cfg.stopped is set: programs stop nobody any more. */
void host__let_go(struct session *s)
{
	if (s->host)
		stop__release_all(s->host->stops_fd, UINT64_MAX);
}

void host__stop(struct session *s)
{
	struct host *h = s->host;
	size_t i;

	if (!h)
		return;
	/* Behind an error they see on. */
	s->cfg.stopped = 1;
	session__write_cfg(s);
	host__let_go(s);
	for (i = 0; i < h->n_procs; i++)
		host_proc__detach(h, &h->procs[i]);
	h->n_procs = 0;
	host__join(h, 0, true);
}

void host__free(struct session *s)
{
	struct host *h = s->host;

	if (!h)
		return;
	host__stop(s);
	/* It lets go whom a program that was running at the stop has stopped. */
	host__let_go(s);
	watchdog__end(h->watchdog);
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
