// SPDX-License-Identifier: Apache-2.0
/*
 * Targets that are stopped for --exact-ranges go on, whatever becomes of memtap. Whoever takes the
 * entry of a process out of the map of stops continues it, so that nobody does so twice.
 */
#include "cli/watchdog.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "memtap/event.h"
#include "target/target.h"

#define LIMIT_NS 1000000000ULL /* a target is stopped so long at most */
#define LOOK_MS 50
#define GRACE_NS 2000000000ULL /* links of a dead memtap may stop somebody yet */

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

struct watchdog {
	pid_t pid;
	int fd; /* closed when memtap ends */
};

int stop__release(int stops_fd, uint32_t tgid, uint64_t upto)
{
	struct mt_host_stop st;
	int fd, err;

	if (bpf_map_lookup_elem(stops_fd, &tgid, &st) || st.time > upto)
		return 0;
	/* All that takes time comes before: who is killed behind the next line lets nobody go. */
	fd = proc__to_continue((pid_t)tgid, st.start);
	/* No descriptor or memory just now: the entry stays for whoever has one, the watchdog. */
	if (fd < 0 && fd != -ESRCH && fd != -ENOENT && fd != -EBUSY)
		return fd;
	if (bpf_map_delete_elem(stops_fd, &tgid)) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	err = fd < 0 ? fd : proc__continue(fd);
	return err ? err : 1;
}

void stop__release_all(int stops_fd, uint64_t upto)
{
	uint32_t key, last, *prev = NULL;
	struct mt_host_stop st;

	while (!bpf_map_get_next_key(stops_fd, prev, &key)) {
		if (!bpf_map_lookup_elem(stops_fd, &key, &st) && st.time <= upto) {
			(void)stop__release(stops_fd, key, upto);
			/* Behind what is gone it begins from the start: nothing is left out. */
			if (bpf_map_lookup_elem(stops_fd, &key, &st)) {
				prev = NULL;
				continue;
			}
		}
		last = key;
		prev = &last;
	}
}

/* Programs see nothing any more: they ask this first. */
static void silence(int cfg_fd)
{
	uint32_t zero = 0;
	struct mt_cfg cfg;

	if (bpf_map_lookup_elem(cfg_fd, &zero, &cfg))
		return;
	cfg.stopped = 1;
	bpf_map_update_elem(cfg_fd, &zero, &cfg, BPF_ANY);
}

static void watch(int stops_fd, int cfg_fd, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t dead = 0;
	ssize_t n;
	char c;

	while (!dead || clock__boot() - dead < GRACE_NS) {
		if (dead)
			usleep(LOOK_MS * 1000);
		else if (poll(&p, 1, LOOK_MS) > 0) {
			n = read(fd, &c, 1);
			if (n > 0) { /* the end of a recording */
				stop__release_all(stops_fd, UINT64_MAX);
				return;
			}
			dead = clock__boot();
			silence(cfg_fd);
		}
		stop__release_all(stops_fd, dead ? UINT64_MAX : clock__boot() - LIMIT_NS);
	}
}

/* Only these stay open: what a link or a terminal is held by must end with memtap. */
static void close_others(int *fd, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		fd[i] = fcntl(fd[i], F_DUPFD, 1000);
		if (fd[i] < 0)
			_exit(1);
	}
	for (i = 0; i < n; i++)
		if (dup2(fd[i], (int)(3 + i)) < 0)
			_exit(1);
		else
			fd[i] = (int)(3 + i);
	if (syscall(SYS_close_range, 3 + (unsigned int)n, ~0U, 0)) {
		struct rlimit r;
		rlim_t j;

		getrlimit(RLIMIT_NOFILE, &r);
		for (j = 3 + n; j < MT_MIN(r.rlim_cur, (rlim_t)65536); j++)
			close((int)j);
	}
}

static void run(int stops_fd, int cfg_fd, int fd)
{
	int keep[3] = { stops_fd, cfg_fd, fd }, null, adj;
	sigset_t all;

	/* A signal for the whole group, or a terminal that hangs up, is not for it. */
	setsid();
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "memtap-watchdog");
	adj = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (adj >= 0) {
		ssize_t n = write(adj, "-1000", 5);

		(void)n; /* as well as it may */
	}
	null = open("/dev/null", O_RDWR);
	if (null >= 0) {
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
	}
	close_others(keep, MT_ARRAY_SIZE(keep));
	watch(keep[0], keep[1], keep[2]);
	_exit(0);
}

int watchdog__start(int stops_fd, int cfg_fd, struct watchdog **out)
{
	struct watchdog *w = calloc(1, sizeof(*w));
	int p[2], err;

	if (!w)
		return -ENOMEM;
	if (pipe2(p, O_CLOEXEC)) {
		err = -errno;
		free(w);
		return err;
	}
	w->pid = fork();
	if (w->pid < 0) {
		err = -errno;
		close(p[0]);
		close(p[1]);
		free(w);
		return err;
	}
	if (!w->pid) {
		close(p[1]);
		run(stops_fd, cfg_fd, p[0]);
	}
	close(p[0]);
	w->fd = p[1];
	*out = w;
	return 0;
}

bool watchdog__alive(struct watchdog *w)
{
	if (w->pid > 0 && waitpid(w->pid, NULL, WNOHANG) == w->pid)
		w->pid = 0;
	return w->pid > 0;
}

void watchdog__end(struct watchdog *w)
{
	if (!w)
		return;
	if (watchdog__alive(w) && write(w->fd, "q", 1) == 1)
		waitpid(w->pid, NULL, 0);
	close(w->fd);
	free(w);
}
