// SPDX-License-Identifier: Apache-2.0
/* The run of `record`: load, find, attach, loop, detach, drain, close. */
#include "cli/session.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "analyze/waste.h"
#include "cli/host.h"
#include "cli/later.h"
#include "cli/owners.h"
#include "symbol/stacks.h"

#define TICK_MS 20
#define FLUSH_MS 60
#define STATUS_MS 500
#define LOSSES_MS 1000

static void on_row(void *ctx, const struct row *r)
{
	struct session *s = ctx;
	int err;

	waste__row(s, r); /* a FREE row writes those of its block */
	err = out__row(s->out, r);
	owners__row(s, r);
	if (err && !s->write_err) {
		s->write_err = err;
		pr_err("writing to %s: %s; the capture stops, what is written stays (memtap "
		       "recover finishes the files)",
		       s->opts.dir, strerror(-err));
		s->stopping = true;
	}
}

static void on_describe(void *ctx, uint32_t tgid, uint32_t start, struct process_desc *d)
{
	struct session *s = ctx;
	uint32_t now;

	if (proc__start((pid_t)tgid, &now) || now != start)
		return;
	d->nspid = proc__nspid((pid_t)tgid);
	d->visible = proc__env((pid_t)tgid, "ASCEND_RT_VISIBLE_DEVICES");
	d->segments = session__only_segments(s, (pid_t)tgid);
	later__born(s, (pid_t)tgid);
	owners__process(s, (pid_t)tgid, start);
	host__process(s, (pid_t)tgid);
}

static void on_ended(void *ctx, uint32_t tgid)
{
	struct session *s = ctx;

	waste__ended(s, tgid);
	out__process_end(s->out, tgid);
}

static uint32_t pow2_at_least(uint64_t v)
{
	uint64_t p = 4096;

	while (p < v && p < 1ULL << 31)
		p <<= 1;
	return (uint32_t)MT_MAX(p, (uint64_t)sysconf(_SC_PAGESIZE));
}

int session__write_cfg(struct session *s)
{
	uint32_t zero = 0;

	return bpf_map_update_elem(s->cfg_fd, &zero, &s->cfg, BPF_ANY) ? -errno : 0;
}

static unsigned int classes(const struct record_opts *o)
{
	unsigned int c = CLASS_SYSTEM | CLASS_MSTX;

	if (!o->vendor)
		c |= CLASS_TORCH_MARK;
	if (o->events & EVENTS_ALLOC)
		c |= CLASS_HAL | CLASS_POOL;
	if ((o->events & EVENTS_LAUNCH) && (o->level & LEVEL_KERNEL))
		c |= CLASS_LAUNCH;
	if (o->level & LEVEL_KERNEL && o->events & (EVENTS_LAUNCH | EVENTS_ACCESS))
		c |= CLASS_ATB_KERNEL;
	/* A kernel's path begins with that of its operator. */
	if (c & CLASS_ATB_KERNEL || o->events & (EVENTS_LAUNCH | EVENTS_ACCESS))
		c |= CLASS_ATB;
	return c;
}

/* Perf uprobes take two descriptors each: some 400 for one copy of the stack. */
static void raise_nofile(struct session *s)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &s->nofile))
		return;
	r = s->nofile;
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
}

static int setup(struct session *s)
{
	struct progs_opts po = { .ring_bytes = pow2_at_least(s->opts.ring_bytes),
				 .cgroup = s->opts.cgroup != NULL,
				 .stacks = s->opts.stacks.c || s->opts.stacks.python,
				 .tensors = s->opts.events & EVENTS_ACCESS };
	struct prober_opts pr = { .classes = classes(&s->opts) };
	struct drain_opts dr = { .window_ns = WINDOW_NS,
				 .early = po.stacks,
				 .range_ended = s->opts.objects ? owners__range_ended : NULL,
				 .ctx = s };
	struct model_ops ops = { on_row, on_describe, on_ended, asked__label, asked__config };
	struct out_opts oo = { .dir = s->opts.dir,
			       .vendor = s->opts.vendor,
			       .newer = s->opts.newer,
			       .format = s->opts.format,
			       .order = s->opts.order,
			       .timeline = s->opts.timeline,
			       .start_real = clock__real(),
			       .cells = callstack__cells,
			       .cells_ctx = s };
	struct model_opts mo = { .vendor = s->opts.vendor,
				 .newer = s->opts.newer,
				 .owners = s->opts.owners,
				 .oom = s->opts.oom,
				 .oom_top = s->opts.oom_top,
				 .n_steps = s->opts.n_steps,
				 .level = s->opts.level,
				 .events = s->opts.events,
				 .npus = s->opts.npus,
				 .npu_slots = s->opts.npu_slots,
				 .cpu = s->opts.cpu,
				 .paused = s->opts.paused,
				 .stacks = po.stacks,
				 .boot_to_real = s->boot_to_real };
	const char *env = getenv("MEMTAP_INFLIGHT_MAX"), *bad;
	struct sysinfo si;
	int err;

	memcpy(mo.steps, s->opts.steps, sizeof(mo.steps));
	s->t_start = clock__boot();
	raise_nofile(s);
	if (env) /* tests: makes "too many open calls" happen */
		po.inflight_max = (uint32_t)strtoul(env, NULL, 10);
	features__probe(&s->features, false);
	err = out__open(&oo, &s->out);
	if (err)
		return err;
	/* Now and not earlier: it may lie in the folder that was made just now. */
	err = s->opts.summary_json ? summary_json__check(s->opts.summary_json) : 0;
	if (err)
		return err;
	err = ops__prepare(s, &pr);
	if (err)
		return err;
	s->ops = po.ops = pr.classes & CLASS_OPS;
	err = progs__load(&po, &s->features, &s->progs);
	if (err)
		return err;
	s->cfg_fd = progs__map(s->progs, "cfg");
	s->targets_fd = progs__map(s->progs, "targets");
	s->stats_fd = progs__map(s->progs, "stats");
	s->losses_fd = progs__map(s->progs, "losses");
	s->cfg.all = s->opts.all;
	s->cfg.self = (uint32_t)getpid();
	s->cfg.follow = s->opts.follow;
	s->cfg.pidns_inum = pidns__own();
	s->cfg.wake_bytes = po.ring_bytes / 4;
	err = host__open(s);
	if (!err)
		err = callstack__open(s);
	if (!err)
		err = owners__open(s);
	if (!err)
		err = waste__open(s);
	if (err)
		return err;
	pr.stacks = s->stacks != NULL;
	s->cfg.stopped = 1; /* until all probes are attached: the window has one beginning */
	err = session__write_cfg(s);
	if (err)
		return err;
	bad = knownbad__here(KNOWNBAD_URETPROBE_SECCOMP);
	if (bad) { /* the trampoline is in every process that maps the library, target or not */
		pr_warn("%s: `ret` sites are used instead", bad);
		pr.ret_sites = true;
	}
	bad = knownbad__here(KNOWNBAD_UTASK_RACE);
	if (bad)
		pr_warn("%s", bad);
	s->prober = prober__new(s->progs, &s->features, &pr);
	s->model = model__new(&mo, &ops, s);
	if (!s->prober || !s->model)
		return -ENOMEM;
	/* A quarter of memory, 4 GiB at most, may wait for a slow disk. */
	dr.max_bytes = 1u << 30;
	if (!sysinfo(&si))
		dr.max_bytes = MT_MIN((size_t)si.totalram * si.mem_unit / 4, (size_t)4 << 30);
	return drain__start(progs__map(s->progs, "events"), progs__map(s->progs, "life"), &dr,
			    &s->drain);
}

static int attach(struct session *s)
{
	const char *env = getenv("MEMTAP_MAPWATCH_PAGES");
	uint64_t t0 = clock__boot();
	int err;

	s->t_attaching = t0;
	/* Births first: a child of a target must not slip through while we look. */
	err = progs__lifecycle(s->progs);
	if (err) {
		pr_err("attaching to process lifecycle: %s", strerror(-err));
		return err;
	}
	/* tests: a small ring, which loses notices; operators take a second to probe */
	err = mapwatch__open(&s->watch, env ? strtoul(env, NULL, 10) : s->ops ? 128 : 0);
	if (err)
		pr_warn("new mappings cannot be watched: %s; libraries loaded later are only "
			"probed if "
			"their file is known now",
			strerror(-err));
	if (s->opts.cmd) {
		err = session__spawn(s);
		if (err)
			return err;
	}
	err = session__find_targets(s);
	if (err)
		return err;
	if (session__interrupted(s))
		return -EINTR;
	err = session__write_cfg(s);
	if (err)
		return err;
	callstack__targets(s);
	err = session__probe_targets(s);
	if (!err)
		err = ops__attached(s);
	if (!err)
		err = host__targets(s);
	if (err)
		return err;
	callstack__wait(s);
	s->cfg.stopped = 0;
	err = session__write_cfg(s);
	if (err)
		return err;
	s->t_attached = clock__boot();
	s->attach_ns = s->t_attached - t0;
	return 0;
}

/* Whom they are for. A name and a cgroup also stand for processes that come later. */
static const char *targets_text(const struct session *s, char *buf, size_t n)
{
	if (s->opts.all)
		return "every process";
	snprintf(buf, n, "%zu process%s%s", s->n_targets, s->n_targets == 1 ? "" : "es",
		 s->opts.n_names || s->opts.cgroup ? " and those to come" : "");
	return buf;
}

static void report_attached(struct session *s)
{
	const struct probed_file *f;
	size_t i, j, files = 0, failed = 0;
	char who[64];

	for (i = 0; (f = prober__file(s->prober, i)); i++) {
		files += f->attached > 0;
		for (j = 0; j < f->n_reports; j++) {
			const struct probe_report *r = &f->reports[j];

			if (!probe_report__failed(r))
				continue;
			failed++;
			pr_warn("probe %s in %s: %s", r->symbol, f->path, r->why);
		}
	}
	pr_info("all probes attached: %zu in %zu files by %s in %.0f ms; %s%s",
		prober__attached(s->prober), files, prober__mechanism(s->prober),
		(double)s->attach_ns / 1e6, targets_text(s, who, sizeof(who)),
		failed ? " (some probes failed, see above)" : "");
}

static int poll_add(int ep, int fd, int what)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = (uint32_t)what };

	return epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

enum { ON_SIGNAL, ON_TICK, ON_MAP, ON_HOST };

static int open_loop(struct session *s, int *timer)
{
	struct itimerspec its = { { 0, TICK_MS * 1000000 }, { 0, TICK_MS * 1000000 } };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (ep < 0)
		return -errno;
	*timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (*timer < 0 || timerfd_settime(*timer, 0, &its, NULL) ||
	    poll_add(ep, s->signals, ON_SIGNAL) || poll_add(ep, *timer, ON_TICK)) {
		close(ep);
		return -errno;
	}
	if (s->watch)
		poll_add(ep, mapwatch__fd(s->watch), ON_MAP);
	if (host__fd(s) >= 0)
		poll_add(ep, host__fd(s), ON_HOST);
	return ep;
}

static bool every(uint64_t *last, uint64_t ms)
{
	uint64_t now = clock__boot();

	if (now - *last < ms * 1000000)
		return false;
	*last = now;
	return true;
}

static void tick(struct session *s)
{
	static uint64_t flushed, drawn, losses, alive;

	control__tick(s);
	session__deliver(s, false);
	asked__tick(s);
	later__tick(s);
	host__tick(s);
	if (every(&losses, LOSSES_MS))
		session__losses(s);
	if (every(&flushed, FLUSH_MS)) {
		int err = out__flush(s->out);

		if (err && !s->write_err) {
			s->write_err = err;
			pr_err("writing to %s: %s; the capture stops, what is written stays "
			       "(memtap recover finishes the files)",
			       s->opts.dir, strerror(-err));
			s->stopping = true;
		}
	}
	if (every(&drawn, STATUS_MS))
		status__draw(s);
	if (every(&alive, 100) && !session__alive(s)) {
		pr_info("all traced processes have ended");
		s->stopping = true;
	}
	if (s->opts.seconds > 0 &&
	    clock__boot() - s->t_attached >= (uint64_t)(s->opts.seconds * 1e9))
		s->stopping = true;
}

static void loop(struct session *s, int ep, int timer)
{
	/* Here and not earlier: a command that was started inherits nothing. */
	thread__nice(-5);
	while (!s->stopping) {
		struct epoll_event ev[16];
		int n = epoll_wait(ep, ev, MT_ARRAY_SIZE(ev), 100), i;

		for (i = 0; i < n; i++) {
			uint64_t ticks;

			if (ev[i].data.u32 == ON_HOST)
				host__read(s);
			else if (ev[i].data.u32 == ON_SIGNAL)
				session__interrupted(s);
			else if (ev[i].data.u32 == ON_TICK &&
				 read(timer, &ticks, sizeof(ticks)) < 0)
				continue;
		}
		/*
		 * Whatever woke us: a look at a ring costs nothing, and one that was full when
		 * it was added to the set wakes nobody any more.
		 */
		session__read_maps(s);
		tick(s);
	}
}

/*
 * Until the drain has taken what was submitted; for a second at most in which it takes nothing.
 * An event that comes later would be without its stack, which came just before it.
 */
static void wait_for_ring(struct session *s)
{
	uint64_t last = 0;
	struct account a;
	int idle = 0;

	while (idle < 50) {
		session__account(s, &a);
		if (a.received >= a.submitted)
			break;
		idle = a.received == last ? idle + 1 : 0;
		last = a.received;
		usleep(20000);
	}
}

static void finish(struct session *s)
{
	uint64_t t0;

	owners__last(s);
	s->t_stop = clock__boot();
	s->cfg.stopped = 1;
	session__write_cfg(s);
	host__let_go(s);
	/*
	 * The recording has ended: write all of it before the probes go, which can
	 * take long on older kernels.
	 */
	wait_for_ring(s);
	session__deliver(s, true);
	if (!s->early)
		session__read_maps(s);
	host__read_last(s);
	session__losses(s);
	model__stop(s->model, s->t_stop);
	out__flush(s->out);
	if (!features__has(&s->features, FEAT_MULTI) && prober__attached(s->prober) > 20)
		pr_info("detaching %zu perf uprobes; some kernels take up to 0.2 s for each",
			prober__attached(s->prober));
	t0 = clock__boot();
	host__stop(s);
	prober__detach(s->prober);
	progs__lifecycle_stop(s->progs);
	s->detach_ns = clock__boot() - t0;
	/* What programs that were running at the stop still wrote. */
	drain__stop(s->drain);
	session__deliver(s, true);
	control__close(s);
	s->detached = true;
	session__losses(s);
	model__stop(s->model, s->t_stop);
	out__flush(s->out);
}

int session__run(struct session *s)
{
	int ep = -1, timer = -1, err, close_err;
	bool ran = false;

	err = session__catch_signals(s);
	s->boot_to_real = clock__boot_to_real();
	if (!err)
		err = setup(s);
	if (!err)
		err = attach(s);
	if (err == -EINTR && s->stopping) {
		/* As after a capture of no length. */
		pr_info("stopped by a signal before all probes were attached: nothing is recorded");
		s->early = true;
		s->t_attached = clock__boot();
		session__end_child(s);
		err = 0;
	}
	if (!err) {
		ep = open_loop(s, &timer);
		err = ep < 0 ? ep : 0;
	}
	if (!err && !s->early) {
		control__open(s);
		report_attached(s);
		err = session__meet_targets(s);
		if (!err && prober__attached(s->prober) == 0 && !s->watch) {
			pr_err("nothing to probe, and new mappings cannot be watched");
			err = -ENOENT;
		}
		/* The last step: what has begun is not ended for an error of ours. */
		if (!err)
			err = session__release(s);
	}
	if (!err) {
		ran = true;
		loop(s, ep, timer);
		status__clear();
		session__allow_abort();
		finish(s);
		session__collect(s);
		session__summary(s);
		if (s->opts.summary_json)
			err = session__summary_json(s, s->opts.summary_json);
		if (s->write_err)
			err = s->write_err;
	}
	if (err && !log__errors())
		pr_err("record: %s", strerror(-err));
	if (!ran)
		session__end_child(s);
	control__close(s);
	mapwatch__close(s->watch);
	host__free(s);
	stacks__free(s->stacks);
	owners__free(s);
	inefficient__free(s->waste);
	drain__free(s->drain);
	prober__free(s->prober);
	progs__free(s->progs);
	model__free(s->model);
	if (s->out) {
		session__keep_paths(s);
		close_err = out__close(s->out);
		if (!err)
			err = close_err;
	}
	if (ep >= 0)
		close(ep);
	if (s->signals >= 0)
		close(s->signals);
	if (timer >= 0)
		close(timer);
	return err;
}

void session__free(struct session *s)
{
	size_t i;

	for (i = 0; s->written && s->written[i]; i++)
		free(s->written[i]);
	free(s->written);
	free(s->opts.pids);
	free(s->opts.names);
	session__free_losses(s);
	hmap__free(&s->segments_said);
	hmap__free(&s->told);
	session__free_unseen(s);
	session__free_checks(s);
	session__free_gaps(s);
	later__free(s);
	orphans__free(s);
	free(s);
}
