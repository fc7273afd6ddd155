/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python objects of another process, from outside and while it runs: its
 * optimizers and modules of torch, and in which memory their tensors lie.
 *
 * Nothing of the process is changed and it is never stopped, so that any word
 * that is read may be old or torn: what is told was found twice, the same.
 */
#ifndef MEMTAP_OBJECTS_H
#define MEMTAP_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a tensor is, the first of several that it is. */
enum object_kind {
	OBJECT_WEIGHT, /* a parameter of an optimizer or a module */
	OBJECT_GRADIENT, /* its .grad */
	OBJECT_STATE, /* in optimizer.state */
	OBJECT_BUFFER, /* of a module: running means and the like */
	OBJECT_KINDS
};

/* "weight", "gradient", "optimizer_state", "buffer" */
const char *object_kind__name(enum object_kind k);

/* The memory of one tensor or of several that share it. */
struct object_storage {
	uint64_t addr, bytes;
	int32_t device; /* as the process sees it */
	uint8_t kind; /* enum object_kind */
};

/* ---- one process ---- */

struct objects;

struct objects_counts {
	uint64_t walked; /* objects of the garbage collector that were looked at, last time */
	uint64_t walk_ns, read_ns; /* what that took, and the last reading */
	size_t optimizers, modules; /* known now */
	size_t tensors; /* of the last reading, on any device */
	bool cut; /* a bound was met: what is told is not all */
	bool torn; /* the last walk met objects that moved: some may be missing */
};

/*
 * The interpreter of a process. 0, -ENOMEM, -EAGAIN: none is there yet, or
 * -ENOTSUP: its objects cannot be found; *why tells that to people.
 */
int objects__open(pid_t pid, struct objects **out, char *why, size_t n);
void objects__close(struct objects *o); /* NULL is fine */
/*
 * Look through all objects for optimizers and modules. 0 or -errno: -ETIME: not done in ms, what
 * was found counts. -ESRCH: it has gone.
 */
int objects__find(struct objects *o, unsigned int ms);
/*
 * Where the tensors of those are, by address; malloced. 0 or -errno as above. Each storage was
 * there at the first and at the last moment of the call.
 */
int objects__read(struct objects *o, unsigned int ms, struct object_storage **v, size_t *n);
void objects__counts(const struct objects *o, struct objects_counts *c);

/* ---- many processes, by a thread of its own (readings.c) ---- */

/* Where the tensors of a process were, from t0 to t1 (boot time). */
struct reading {
	pid_t pid;
	uint32_t start;
	uint64_t t0, t1;
	struct object_storage *v;
	size_t n;
	struct reading *next;
};

struct readings;

struct readings_counts {
	uint64_t readings, searches; /* done */
	uint64_t ns; /* time they took, all together */
	uint64_t failed; /* that came to nothing, of processes where some had not; or that nobody
			    took */
	size_t processes; /* with an optimizer or a module */
	size_t optimizers, modules; /* of all, at the last search of each */
	bool cut, stuck; /* stuck: its memory did not answer within the time */
};

/* Starts the thread. 0 or -errno. */
int readings__new(struct readings **out);
/* A process, now or when it has a new program. start: its start time. */
void readings__process(struct readings *r, pid_t pid, uint32_t start);
/*
 * Something has just happened there after which a reading tells most, as the end of a step: it is
 * brought forward, as far as a fifth of a processor allows.
 */
void readings__soon(struct readings *r, pid_t pid);
/* The oldest reading that was not taken yet; the caller frees it. NULL: none. */
struct reading *readings__take(struct readings *r);
void reading__free(struct reading *g);
/* Read all once more and wait for it, ms at most. */
void readings__last(struct readings *r, unsigned int ms);
void readings__counts(struct readings *r, struct readings_counts *c);
/* Ends the thread; one that does not answer is left behind with what it holds. NULL is fine. */
void readings__free(struct readings *r);

#endif
