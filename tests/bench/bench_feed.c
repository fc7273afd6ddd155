// SPDX-License-Identifier: Apache-2.0
/*
 * Feeds the ring of a running `memtap record` with synthetic records and tells
 * how many it took, and the CPU time of its threads for them.
 *
 *   bench-feed PID TARGET mix|pool|workspace EVENTS
 *       PID of memtap, TARGET: a process that it traces, in whose name the
 *       records are. Prints "name<TAB>number" lines.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "feed.h"
#include "feed.skel.h"
#include "memtap/event.h"

#define WINDOW_S 1.0 /* the loader keeps records for 0.8 s */
#define IDLE     0.1 /* share of a core below which it has written what it had */

static double now(void)
{
	return (double)clock__boot() / 1e9;
}

/* A map of another process by its name: fd, or -errno. */
static int map_of(pid_t pid, const char *name)
{
	char dir[64], path[400], *text, *p;
	struct dirent *de;
	int found = -ENOENT;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/fdinfo", pid);
	d = opendir(dir);
	while (d && found < 0 && (de = readdir(d))) {
		struct bpf_map_info info = { 0 };
		__u32 len = sizeof(info);
		int fd;

		snprintf(path, sizeof(path), "%s/%s", dir, de->d_name);
		if (file__read(path, 4096, &text) < 0)
			continue;
		p = strstr(text, "map_id:");
		fd = p ? bpf_map_get_fd_by_id((__u32)atoi(p + 7)) : -1;
		free(text);
		if (fd < 0)
			continue;
		if (!bpf_obj_get_info_by_fd(fd, &info, &len) && strcmp(info.name, name) == 0)
			found = fd;
		else
			close(fd);
	}
	if (d)
		closedir(d);
	return found;
}

/* CPU time of all threads of a process in seconds; of one that is not the first: *other. */
static double cpu_of(pid_t pid, double *other)
{
	char dir[64], path[400], *text;
	struct dirent *de;
	double sum = 0, t;
	DIR *d;

	*other = 0;
	snprintf(dir, sizeof(dir), "/proc/%d/task", pid);
	d = opendir(dir);
	while (d && (de = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s/schedstat", dir, de->d_name);
		if (de->d_name[0] == '.' || file__read(path, 256, &text) < 0)
			continue;
		t = strtod(text, NULL) / 1e9;
		free(text);
		sum += t;
		if (atoi(de->d_name) != pid)
			*other += t;
	}
	if (d)
		closedir(d);
	return sum;
}

static void find_sites(int fd, struct feed *f)
{
	struct mt_site s;
	__u32 i;

	for (i = MT_MAX_SITES; i-- > 1;) {
		if (bpf_map_lookup_elem(fd, &i, &s))
			continue;
		if (s.fn == MT_FN_PTA_REPORT)
			f->site_pta = i;
		else if (s.fn == MT_FN_LAUNCH)
			f->site_launch = i;
		else if (s.fn == MT_FN_HAL_ALLOC)
			f->site_alloc = i;
		else if (s.fn == MT_FN_HAL_FREE)
			f->site_free = i;
	}
}

static int run_prog(int prog, __u32 repeat)
{
	char packet[64] = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = packet, .data_size_in = sizeof(packet),
		    .repeat = (int)repeat);

	return bpf_prog_test_run_opts(prog, &o) ? -errno : (int)o.retval;
}

static uint64_t sent(struct feed_bpf *b)
{
	__u32 zero = 0;
	struct feed f = { 0 };

	bpf_map_lookup_elem(bpf_map__fd(b->maps.feed_state), &zero, &f);
	return f.sent;
}

/* Feeds as fast as the ring is emptied; never fills it. */
static int feed(struct feed_bpf *b, __u32 ring, uint64_t events)
{
	int run = bpf_program__fd(b->progs.feed_run), level = bpf_program__fd(b->progs.feed_level);
	int n;

	while (sent(b) < events) {
		n = run_prog(level, 1);
		if (n < 0)
			return n;
		if ((__u32)n > ring / 2) {
			usleep(200);
			continue;
		}
		n = run_prog(run, 64);
		if (n < 0)
			return n;
	}
	return 0;
}

/* Until what was fed is written. The CPU time then. */
static double settle(pid_t pid, double *drain)
{
	double last, cpu;

	usleep((useconds_t)(WINDOW_S * 1e6));
	for (last = cpu_of(pid, drain);; last = cpu) {
		usleep(250000);
		cpu = cpu_of(pid, drain);
		if (cpu - last < 0.25 * IDLE)
			return cpu;
	}
}

static int setup(struct feed_bpf *b, pid_t pid, __u32 target, __u32 mode, __u32 *ring)
{
	int events = map_of(pid, "events"), stats = map_of(pid, "stats"), sites = map_of(pid, "sites"),
	    targets = map_of(pid, "targets"), err;
	struct feed f = { .mode = mode, .tgid = target, .tid = target };
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info), zero = 0;
	struct mt_target t;

	if (events < 0 || stats < 0 || sites < 0 || targets < 0)
		return -ENOENT;
	if (bpf_map_lookup_elem(targets, &target, &t) || bpf_obj_get_info_by_fd(events, &info, &len))
		return -errno;
	f.start = t.start;
	*ring = info.max_entries;
	find_sites(sites, &f);
	err = bpf_map__reuse_fd(b->maps.events, events);
	if (!err)
		err = bpf_map__reuse_fd(b->maps.stats, stats);
	if (!err)
		err = feed_bpf__load(b);
	if (!err && bpf_map_update_elem(bpf_map__fd(b->maps.feed_state), &zero, &f, BPF_ANY))
		err = -errno;
	return err;
}

int main(int argc, char **argv)
{
	static const char *const modes[] = { "mix", "pool", "workspace" };
	double cpu = 0, cpu2 = 0, drain = 0, drain2 = 0, t0 = 0, t1 = 0;
	__u32 mode, ring = 0, zero = 0;
	struct feed_bpf *b;
	struct feed f = { 0 };
	pid_t pid;
	int err;

	for (mode = 0; argc == 5 && mode < 3 && strcmp(argv[3], modes[mode]) != 0; mode++)
		;
	if (argc != 5 || mode == 3) {
		fprintf(stderr, "usage: bench-feed PID TARGET mix|pool|workspace EVENTS\n");
		return 2;
	}
	pid = atoi(argv[1]);
	b = feed_bpf__open();
	err = b ? setup(b, pid, (__u32)atoi(argv[2]), mode, &ring) : -errno;
	if (!err) {
		cpu = cpu_of(pid, &drain);
		t0 = now();
		err = feed(b, ring, strtoull(argv[4], NULL, 10));
		t1 = now();
		cpu2 = settle(pid, &drain2);
	}
	if (!err && bpf_map_lookup_elem(bpf_map__fd(b->maps.feed_state), &zero, &f))
		err = -errno;
	if (err)
		fprintf(stderr, "bench-feed: %s\n", strerror(-err));
	else
		printf("events\t%llu\nfull\t%llu\nseconds\t%.3f\ncpu\t%.4f\ncpu_drain\t%.4f\n",
		       (unsigned long long)f.sent, (unsigned long long)f.full, t1 - t0, cpu2 - cpu,
		       drain2 - drain);
	feed_bpf__destroy(b);
	return err ? 1 : 0;
}
