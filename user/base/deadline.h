/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Things that may never return, as a read of memory that another process serves
 * (userfaultfd, FUSE): done by a thread of their own, which is given up when it is late.
 */
#ifndef MEMTAP_DEADLINE_H
#define MEMTAP_DEADLINE_H

/* Threads of the whole program that are waited for no more. */
#define DEADLINE_MAX_LATE 8

struct deadline_job {
	void (*run)(struct deadline_job *j);
	/* It was given up, and has returned at last: free it. */
	void (*drop)(struct deadline_job *j);
};

/* For one thread at a time. Zero-initialise; it starts its thread when it is first needed. */
struct deadline {
	struct deadline_worker *worker;
};

/*
 * Run a job, for so long at most. 0: it has run. -ETIMEDOUT: it is not ours any more, neither is
 * anything that it may look at. -EBUSY: not run, too many have been given up and have not
 * returned. -ENOMEM, -EAGAIN: not run, no thread could be started.
 */
int deadline__run(struct deadline *d, struct deadline_job *j, unsigned int ms);
/* Does not wait for what was given up. */
void deadline__close(struct deadline *d);
/* How many of the whole program have been given up and have not returned. */
unsigned int deadline__late(void);

#endif
