/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host: the allocators of a process are probed while one of its ranges "report host
 * memory info start" is open, or always.
 */
#ifndef MEMTAP_HOST_H
#define MEMTAP_HOST_H

#include "cli/session.h"

struct host;
struct cJSON;

/* A word of --host-memory: 0 or -EINVAL. */
int host__mode(const char *word, struct host_opts *o);
/* What the options together mean; contradictions are said. 0 or -EINVAL. */
int host__check(struct record_opts *o);
/* When the programs are loaded, before cfg is written and threads are made. 0 or -errno, said. */
int host__open(struct session *s);
/* The initial targets: may they be stopped, which allocators have they? 0 or -errno, said. */
int host__targets(struct session *s);
/* Descriptor that is ready when a process has to be looked after at once; -1: none. */
int host__fd(const struct session *s);
/* What it is ready for. */
void host__read(struct session *s);
/* What it was ready for when the recording has ended: told, not attached to. */
void host__read_last(struct session *s);
void host__tick(struct session *s);
/* A process has been met, or has mapped something: what of it is an allocator? */
void host__process(struct session *s, pid_t pid);
/* time: of the mapping, boot. */
void host__mapped(struct session *s, pid_t pid, const char *path, uint64_t time);
/* The recording has ended: what is stopped goes on. */
void host__let_go(struct session *s);
/* And everything is detached. */
void host__stop(struct session *s);
void host__free(struct session *s);
/* Has something not been recorded that was asked for? */
bool host__incomplete(const struct session *s);

/* What the summary says. */
struct host_stats {
	uint64_t ranges; /* attached to */
	uint64_t missed_ns, most_ns; /* of their beginnings, in all and at most */
	uint64_t missed; /* beginnings that were not recorded wholly */
	uint64_t stopped; /* of them without a gap: the process was stopped */
	uint64_t stopped_ns, stopped_most_ns; /* for so long */
	uint64_t late; /* the watchdog was first */
	uint64_t refused; /* not stopped: in a debugger's hands, or stopped by another */
	uint64_t left; /* stopped by another meanwhile, and left so */
	uint64_t failed; /* not attached at all */
	uint64_t notes_lost;
};

void host__stats(const struct session *s, struct host_stats *st);
/* host_summary.c */
void host__print(struct session *s, FILE *f);
void host__json(struct session *s, struct cJSON *top);

#endif
