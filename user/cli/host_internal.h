/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by host.c, which knows when, and host_proc.c, which knows what of a process is probed. */
#ifndef MEMTAP_HOST_INTERNAL_H
#define MEMTAP_HOST_INTERNAL_H

#include <pthread.h>

#include "cli/host.h"
#include "cli/watchdog.h"

#define MAX_FILES 16 /* allocators in one process */
#define MAX_CLOSING 8 /* threads that detach, each by some of its own */
#define MAX_LOOKED (1u << 18) /* files that are remembered */
#define LOOK_NS 5000000ULL /* for looking at files, each tick */
#define FIRST_LOOK_NS 200000000ULL /* where nothing likely has a malloc */
#define NOTES_NS 50000000ULL /* for ranges that open, in one go */

/* A process of which something is attached, or is to be. */
struct host_proc {
	pid_t pid;
	uint32_t start;
	struct attach *attach; /* NULL: nothing */
	struct files {
		int no[MAX_FILES];
		size_t n;
	} known, attached; /* allocators that it has mapped, and those that are probed */
	uint64_t unseen; /* since when a range is open of which nothing is recorded, 0: none */
	bool refused; /* it was told that it is not stopped */
	uint64_t todo; /* not all that it has mapped is looked at, since then; 0: all is */
};

/* Closing a link takes a grace period of the kernel: elsewhere. */
struct closing {
	pid_t pid;
	struct attach *attach;
	pthread_t thread;
	bool done;
};

struct host {
	struct ring_buffer *notes;
	struct watchdog *watchdog;
	int stops_fd, gates_fd, lost_fd;
	struct host_proc *procs;
	size_t n_procs;
	struct hmap looked; /* files that are none: (inode and device, path) */
	struct closing **closing;
	size_t n_closing;
	struct host_stats stats;
	uint64_t until; /* boot time: notes are read so long, then others have their turn */
};

struct host_proc *host_proc__find(struct host *h, pid_t pid);
/* Made when it is new; NULL: no memory. */
struct host_proc *host_proc__get(struct host *h, pid_t pid, uint32_t start);
/* By another thread; host__join waits for it. */
void host_proc__detach(struct host *h, struct host_proc *p);
/* Threads that have detached, those of a process (0: none), or all. */
void host__join(struct host *h, pid_t pid, bool all);
/* Is anything of it probed now? The rest is looked at later. */
bool host_proc__attach(struct session *s, struct host_proc *p);
/* The same of what it is known to have, at once. */
bool host_proc__attach_known(struct session *s, struct host_proc *p);
/* A file of those that are known. 0, or -errno: -EINVAL there is none of this number. */
int host_proc__attach_file(struct session *s, struct host_proc *p, int file);
/* Which likely files are allocators; nothing is attached. */
void host_proc__look(struct session *s, struct host_proc *p);
/* Files that are unlikely to be one, a few of them, also attached to. 1: not all yet. */
int host_proc__look_on(struct session *s, struct host_proc *p, bool attach);

#endif
