// SPDX-License-Identifier: Apache-2.0
/* Who is traced: the initial set, its children, the command. */
#include "cli/scan.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAP_NS 2000000000ULL /* nobody waits longer for a summary */

bool target__is(struct session *s, pid_t pid, struct mt_target *t)
{
	uint32_t key = (uint32_t)pid;

	return !bpf_map_lookup_elem(s->targets_fd, &key, t);
}

/* Into the set that the programs filter by. 0 or -errno. */
int target__add(struct session *s, pid_t pid)
{
	struct mt_target t = { 0 };
	uint32_t key = (uint32_t)pid, again;
	int err = proc__start(pid, &t.start);

	if (err)
		return err;
	if (bpf_map_update_elem(s->targets_fd, &key, &t, BPF_ANY))
		return -errno;
	/* Gone in between, its exit was not seen as a target's: nobody else would take it out. */
	if (proc__start(pid, &again) || again != t.start) {
		bpf_map_delete_elem(s->targets_fd, &key);
		return -ESRCH;
	}
	s->n_targets++;
	/*
	 * No START_TRACE row yet: a start that fails leaves no files, and later ones
	 * come with the first event, in the order of time.
	 */
	return 0;
}

int session__meet_targets(struct session *s)
{
	uint32_t key, *prev = NULL;
	struct mt_target t;
	int err = 0;

	/* Events of the attach itself come after these rows. */
	while (!err && !bpf_map_get_next_key(s->targets_fd, prev, &key)) {
		prev = &key;
		if (target__is(s, (pid_t)key, &t))
			err = model__process(s->model, key, t.start, s->t_attaching);
	}
	return err;
}

static int is_wanted(void *ctx, const struct mapping *m)
{
	(void)ctx;
	return catalogue__wants(path_base(m->path)) && !path__is_stub(m->path);
}

/* A process that runs since then joins the recording: what was missed of it is noted. */
static bool join(struct session *s, pid_t pid, uint64_t since)
{
	if (target__add(s, pid))
		return false;
	/* What it has not mapped by now it cannot have called before. */
	if (s->t_attached && proc__each_mapping(pid, is_wanted, NULL) == 1)
		session__note_process(s, pid, since);
	return true;
}

struct family {
	struct session *s;
	uint64_t since;
	size_t added;
};

static int child_of_target(void *ctx, pid_t pid)
{
	struct family *f = ctx;
	struct mt_target t;
	pid_t parent;

	if (pid == getpid() || target__is(f->s, pid, &t) || proc__parent(pid, &parent) ||
	    !target__is(f->s, parent, &t))
		return 0;
	f->added += join(f->s, pid, f->since);
	return 0;
}

/* Children that run already, to any depth: a launcher's ranks. Later ones come by fork. */
static void add_children(struct session *s, uint64_t since)
{
	struct family f = { .s = s, .since = since };

	do {
		f.added = 0;
		proc__each(child_of_target, &f);
	} while (f.added);
}
bool session__join(struct session *s, pid_t pid, uint64_t since)
{
	if (!join(s, pid, since))
		return false;
	/* Children that it has had before are found by nobody else. */
	if (s->opts.follow)
		add_children(s, since);
	return true;
}

/* ---- the initial set ---- */

static int by_name(void *ctx, pid_t pid)
{
	struct session *s = ctx;
	struct mt_target t;
	size_t i;

	if (pid == getpid() || target__is(s, pid, &t))
		return 0;
	for (i = 0; i < s->opts.n_names; i++)
		if (proc__named(pid, s->opts.names[i])) {
			uint32_t start = 0;
			int err;

			if (s->t_attached) { /* ticks of 10 ms */
				(void)proc__start(pid, &start);
				session__join(s, pid, MT_MAX(s->rescan_since, start * 10000000ULL));
				break;
			}
			err = target__add(s, pid);
			if (err && err != -ESRCH)
				return err;
			break;
		}
	return 0;
}

static int by_cgroup(void *ctx, pid_t pid)
{
	int err = pid == getpid() ? 0 : target__add(ctx, pid);

	return err == -ESRCH ? 0 : err;
}

int session__find_names(struct session *s)
{
	return s->opts.n_names ? proc__each(by_name, s) : 0;
}

int session__find_targets(struct session *s)
{
	size_t i;
	int err;

	for (i = 0; i < s->opts.n_pids; i++) {
		pid_t leader = proc__leader(s->opts.pids[i]);

		if (leader && leader != s->opts.pids[i]) {
			pr_err("pid %d: a thread of process %d; give -p %d", (int)s->opts.pids[i],
			       (int)leader, (int)leader);
			return -EINVAL;
		}
		err = target__add(s, s->opts.pids[i]);
		if (err == -ESRCH) {
			pr_err("pid %d: no such process", (int)s->opts.pids[i]);
			return err;
		}
		if (err) {
			pr_err("pid %d: %s", (int)s->opts.pids[i], strerror(-err));
			return err;
		}
	}
	if (s->opts.n_names) {
		size_t before = s->n_targets;

		err = session__find_names(s);
		if (err)
			return err;
		if (s->n_targets == before)
			pr_info("no process is named '%s' yet: waiting for one", s->opts.names[0]);
	}
	if (s->opts.cgroup) {
		err = cgroup__each(s->opts.cgroup, by_cgroup, s);
		if (err) {
			pr_err("cgroup %s: %s", s->opts.cgroup,
			       err == -EMEDIUMTYPE
				       ? "not a cgroup; give its folder below /sys/fs/cgroup, or "
					 "its path as in /proc/PID/cgroup"
				       : strerror(-err));
			return err;
		}
		uint64_t id = 0;

		err = cgroup__id(s->opts.cgroup, &id);
		s->cfg.cgroup_id = id;
		if (err)
			pr_warn("cgroup %s: only its present processes and their children are "
				"traced: %s",
				s->opts.cgroup,
				err == -ENODEV ? "it is a cgroup of version 1" : strerror(-err));
	}
	if (s->opts.follow && !s->opts.all)
		add_children(s, 0);
	return 0;
}

/* Makes the child of `-- CMD`, which waits for its probes before it executes. */
int session__spawn(struct session *s)
{
	int p[2], err;
	pid_t pid;

	/* The end of the child closes when it executes; before that it may say why not. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p))
		return -errno;
	pid = fork();
	if (pid < 0) {
		err = -errno;
		close(p[0]);
		close(p[1]);
		return err;
	}
	if (!pid) {
		char c, dir[PATH_MAX];
		sigset_t none;

		close(p[1]);
		if (read(p[0], &c, 1) != 1)
			_exit(127);
		setrlimit(RLIMIT_NOFILE, &s->nofile);
		/* As if started from the shell: main() ignores these two. */
		signal(SIGPIPE, SIG_DFL);
		signal(SIGXFSZ, SIG_DFL);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		/* Where the module msleaks puts what it writes itself. */
		if (realpath(s->opts.dir, dir))
			setenv("MEMTAP_OUTPUT", dir, 1);
		execvp(s->opts.cmd[0], s->opts.cmd);
		err = errno;
		if (write(p[0], &err, sizeof(err)) < 0)
			_exit(126);
		_exit(127);
	}
	close(p[0]);
	s->child = pid;
	s->child_go = p[1];
	return target__add(s, pid);
}

/* Lets it execute. 0, or -errno when there is no such program. */
int session__release(struct session *s)
{
	int err = 0;

	if (s->child_go <= 0)
		return 0;
	if (write(s->child_go, "g", 1) != 1)
		err = errno;
	else if (read(s->child_go, &err, sizeof(err)) < 0)
		err = errno;
	close(s->child_go);
	s->child_go = -1;
	if (err)
		pr_err("%s: %s", s->opts.cmd[0], strerror(err));
	return -err;
}

void session__end_child(struct session *s)
{
	if (s->child <= 0 || s->child_done)
		return;
	kill(s->child, SIGKILL);
	waitpid(s->child, NULL, 0);
	s->child = 0;
}

static void look_at_child(struct session *s)
{
	int status;

	if (s->child > 0 && !s->child_done && waitpid(s->child, &status, WNOHANG) == s->child) {
		s->child_done = true;
		s->child_status = status;
	}
}

void session__reap(struct session *s)
{
	uint64_t end = clock__boot() + REAP_NS;
	struct mt_target t;

	look_at_child(s);
	/*
	 * The programs take it out of the set when its last thread begins to end. Before it has a
	 * status it gives back its memory and files, and a debugger may look at it.
	 */
	while (s->child > 0 && !s->child_done && !s->early && !target__is(s, s->child, &t) &&
	       clock__boot() < end) {
		usleep(5000);
		look_at_child(s);
	}
}

bool session__alive(struct session *s)
{
	uint32_t key;

	look_at_child(s);
	if (s->opts.all || s->opts.cgroup || s->opts.n_names)
		return true;
	/* The programs take a process out of the set when its last thread is gone. */
	return !bpf_map_get_next_key(s->targets_fd, NULL, &key);
}
