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
/* Has memtap itself this capability (a number of linux/capability.h), effectively? */
bool proc__capable(unsigned int cap);
/* Value of a variable of the process's initial environment, malloced; NULL if unset. */
char *proc__env(pid_t pid, const char *name);

/* ---- stopped processes ---- */

struct proc_stopped {
	char state; /* of its first thread: 'T' stopped, 't' by a debugger */
	pid_t tracer; /* that debugs it, 0 = none */
	bool again; /* a stop signal waits: while it is stopped, a second one */
};

/* 0 or -ESRCH. */
int proc__stopped(pid_t pid, struct proc_stopped *out);
/*
 * A descriptor for proc__continue, if it is still that process. -EBUSY: somebody else has stopped
 * it since, by a signal that waits behind ours; it stays so. -ESRCH, -errno.
 */
int proc__to_continue(pid_t pid, uint32_t start);
/* SIGCONT, and the end of the descriptor. 0 or -errno. */
int proc__continue(int fd);

/* ---- where memtap itself runs ---- */

/* Inode of its PID namespace, whose numbers it reads and prints; 0 = the initial one. */
uint32_t pidns__own(void);
/* In another user namespace capabilities do not reach BPF and perf events. */
bool userns__is_initial(void);

/* ---- finding ---- */

/* fn for each process of the host until it returns non-zero; returns that. */
int proc__each(int (*fn)(void *ctx, pid_t pid), void *ctx);
/* Is this process named so: comm, base name of the executable or of argv[0], or
 * of the script an interpreter runs (behind its options; the module of -m)? */
bool proc__named(pid_t pid, const char *name);
/*
 * fn for each process of a cgroup and those below it: its folder, or a path as
 * /proc/PID/cgroup has it. -ENOENT; -EMEDIUMTYPE when it is no cgroup.
 */
int cgroup__each(const char *path, int (*fn)(void *ctx, pid_t pid), void *ctx);
/* Is a process in there? 1 or 0, or as cgroup__each. */
int cgroup__has(const char *path, pid_t pid);
/* Id of a cgroup v2; 0 or -errno (-ENODEV: cgroup v1). */
int cgroup__id(const char *path, uint64_t *id);

/* ---- mappings ---- */

struct mapping {
	uint64_t start, end, offset;
	uint64_t ino;
	uint32_t dev_major, dev_minor;
	bool deleted;
	bool outside; /* it has changed its root since: path is as we see it */
	const char *path; /* as the target sees it; valid during the callback */
};

/* fn for each executable file mapping until it returns non-zero; returns that or -errno. */
int proc__each_mapping(pid_t pid, int (*fn)(void *ctx, const struct mapping *m), void *ctx);
/* The same for everything executable: path is "" for anonymous memory, "[vdso]" and the like. */
int proc__each_code(pid_t pid, int (*fn)(void *ctx, const struct mapping *m), void *ctx);
/*
 * Open the file of a mapping: /proc/PID/map_files, which also reaches deleted
 * and hidden files, else its path (-ESTALE: another file is there now). fd or -errno.
 */
int mapping__open(pid_t pid, const struct mapping *m);
struct deadline;
/*
 * The same, for what a process maps of a file system that may never answer (FUSE, NFS): by
 * another thread, for so long at most. -ETIMEDOUT, -EBUSY: as deadline__run.
 */
int mapping__open_within(struct deadline *d, pid_t pid, const struct mapping *m, unsigned int ms);
/*
 * Memory of a process, as process_vm_readv: the number of bytes, which may be fewer, or -errno.
 * Pages may be served by another process, or by nobody: -ETIMEDOUT after MEMORY_MS, and -EBUSY
 * for the process until that read has returned.
 */
#define MEMORY_MS 1000
ssize_t proc__memory(pid_t pid, uint64_t addr, void *buf, size_t n);
/*
 * Open a regular file by its path as a process sees it: below its root, in its
 * mount namespace, absolute links included. Nothing else is opened: a FIFO or a
 * device is -EINVAL, a directory -EISDIR. fd or -errno.
 */
int proc__open(pid_t pid, const char *path);

/* True for link-time stubs, which must never be probed (ascend-abi.md 1.2). */
bool path__is_stub(const char *path);

/* ---- libraries a process could still load ---- */

/* A search in the places where one process would look, as it sees them. */
struct finder;

/* A file that was found: its path as the process sees it, open for reading. */
typedef int (*finder_fn)(void *ctx, pid_t pid, const char *path, int fd);

/*
 * Search for files of these base names; a name may be a pattern of fnmatch(3).
 * They must stay until finder__close. 0 or -errno (-ESRCH: it has gone).
 */
int finder__open(pid_t pid, const char *const *names, size_t n_names, struct finder **out);
/*
 * Also look where a file leads that the process has mapped, or that was found:
 * its RUNPATH or RPATH (NULL: none), and the site-packages folder it lies in.
 */
void finder__file(struct finder *f, const char *path, const char *runpath);
/*
 * fn for what a file of this RUNPATH needs by a name (DT_NEEDED) and that is found there: each
 * file once, none of the names that are searched for. It may lead further; what fn returns is
 * ignored.
 */
void finder__needed(struct finder *f, const char *path, const char *runpath, const char *name,
		    finder_fn fn, void *ctx);
/* Is this, as the process sees it, the file of its program? */
bool finder__is_program(const struct finder *f, const char *path);
/*
 * fn for each existing regular file of the names in these places, LD_LIBRARY_PATH,
 * ld.so.cache, default directories, ASCEND_HOME_PATH and the driver's folder, and
 * site-packages of its Python. Stops when fn returns non-zero; returns that.
 */
int finder__run(struct finder *f, finder_fn fn, void *ctx);
/* What could not be looked through: the first path and why, for people; NULL if nothing. */
const char *finder__trouble(const struct finder *f);
void finder__close(struct finder *f); /* NULL is fine */

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
	bool missing; /* some may have been lost before this read, and it was not told yet: a ring
		       * was full, or a CPU has come that was not watched */
	uint64_t lost; /* how many, which the kernel tells with the next notice only */
	uint64_t since; /* boot time: none was lost before */
};

/*
 * Watch mmap of executable file pages on the whole host (perf MMAP2 records of
 * a dummy event: rare, no probe). `pages`: of the ring of each CPU, a power of
 * two, 0 = enough. 0 or -errno.
 */
int mapwatch__open(struct mapwatch **w, size_t pages);
/* Descriptor to poll for input; w's own. */
int mapwatch__fd(const struct mapwatch *w);
/* Deliver what has arrived; *gap tells what has not. CPUs that come or go are looked for. */
void mapwatch__read(struct mapwatch *w, void (*fn)(void *ctx, const struct map_event *e), void *ctx,
		    struct map_gap *gap);
void mapwatch__close(struct mapwatch *w);

#endif
