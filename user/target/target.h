/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is traced: processes by PID, name, cgroup; their mappings and the files
 * behind them; the libraries they may still load; new executable mappings.
 *
 * Everything under /proc of a target is read, never written, and may vanish at
 * any moment: -ESRCH then.
 */
#ifndef MEMTAP_TARGET_H
#define MEMTAP_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- identity ---- */

/*
 * Start time of a process, field 22 of /proc/PID/stat: ticks of 10 ms since
 * boot (USER_HZ is 100 on every architecture we run on). 0 or -ESRCH.
 */
int proc__start(pid_t pid, uint32_t *start);
/* comm into buf (at most 16 bytes with NUL). 0 or -ESRCH. */
int proc__comm(pid_t pid, char buf[16]);
/* Parent process. 0 or -ESRCH. */
int proc__parent(pid_t pid, pid_t *parent);
/* Thread group leader of a thread number; 0 if there is no such thread. */
pid_t proc__leader(pid_t tid);
/* False for a process that has ended (a zombie) and for kernel threads. */
bool proc__has_program(pid_t pid);
/* Innermost number of NSpid; pid itself where the line is missing. */
uint32_t proc__nspid(pid_t pid);
/* Value of a variable of the process's initial environment, malloced; NULL if unset. */
char *proc__env(pid_t pid, const char *name);

/* ---- finding ---- */

/* fn for each process of the host until it returns non-zero; returns that. */
int proc__each(int (*fn)(void *ctx, pid_t pid), void *ctx);
/* Is this process named so: comm, base name of the executable or of argv[0], or
 * of the script an interpreter runs (argv[1])? */
bool proc__named(pid_t pid, const char *name);
/* fn for each process below a cgroup directory (relative names: below the mount). */
int cgroup__each(const char *path, int (*fn)(void *ctx, pid_t pid), void *ctx);
/* Id of a cgroup v2; 0 or -errno (-ENODEV: cgroup v1). */
int cgroup__id(const char *path, uint64_t *id);

/* ---- mappings ---- */

struct mapping {
	uint64_t start, end, offset;
	uint64_t ino;
	uint32_t dev_major, dev_minor;
	bool deleted;
	const char *path; /* as the target sees it; valid during the callback */
};

/* fn for each executable file mapping until it returns non-zero; returns that or -errno. */
int proc__each_mapping(pid_t pid, int (*fn)(void *ctx, const struct mapping *m), void *ctx);
/*
 * Open the file of a mapping: /proc/PID/map_files, which also reaches deleted
 * and hidden files, else /proc/PID/root/PATH. fd or -errno.
 */
int mapping__open(pid_t pid, const struct mapping *m);
/* Open a path as a process sees it. fd or -errno. */
int proc__open(pid_t pid, const char *path);

/* True for link-time stubs, which must never be probed (ascend-abi.md 1.2). */
bool path__is_stub(const char *path);

/* ---- libraries a process could still load ---- */

/*
 * fn(path as the process sees it) for each existing file of one of the names
 * in the places the process would look: `dirs` (the caller's: RUNPATH of its
 * mapped files), LD_LIBRARY_PATH, ld.so.cache, default directories,
 * ASCEND_HOME_PATH and the driver's folder, site-packages of its Python. A name
 * may be a pattern of fnmatch(3). Stops when fn returns non-zero; returns that.
 */
int proc__each_candidate(pid_t pid, const char *const *names, size_t n_names,
			 const char *const *dirs, size_t n_dirs,
			 int (*fn)(void *ctx, pid_t pid, const char *path), void *ctx);

/* ---- new executable mappings, as they happen ---- */

struct mapwatch;

struct map_event {
	uint64_t time; /* boot time, ns */
	pid_t pid;
	uint64_t start, len, offset, ino;
	char path[PATH_MAX];
};

/* Notices that did not reach us. */
struct map_gap {
	bool missing; /* some may have been lost before this read, and it was not told yet */
	uint64_t lost; /* how many, which the kernel tells with the next notice only */
	uint64_t since; /* boot time: none was lost before */
};

/*
 * Watch mmap of executable file pages on the whole host (perf MMAP2 records of
 * a dummy event: rare, no probe). `pages`: of the ring of each CPU, a power of
 * two, 0 = enough. 0 or -errno.
 */
int mapwatch__open(struct mapwatch **w, size_t pages);
/* Descriptors to poll for input: *fds is owned by w. */
size_t mapwatch__fds(const struct mapwatch *w, const int **fds);
/* Deliver what has arrived; *gap tells what has not. */
void mapwatch__read(struct mapwatch *w, void (*fn)(void *ctx, const struct map_event *e), void *ctx,
		    struct map_gap *gap);
void mapwatch__close(struct mapwatch *w);

#endif
