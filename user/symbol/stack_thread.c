// SPDX-License-Identifier: Apache-2.0
/* The thread that reads processes and what they have mapped: what it does next, how it is stopped.
 */
#include <stdlib.h>
#include <time.h>

#include "symbol/stacks_internal.h"

/* Notices that are read before a process is: they come without end from one that maps and unmaps.
 */
#define IN_A_ROW 64
/* Making the largest table takes seconds; a file that hangs, for ever. */
#define STOP_NS 5000000000ULL

/* False: somebody has woken us. True: the time (boot) has come, or may have. */
static bool wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t when)
{
	uint64_t now = clock__boot(), ns = when > now ? when - now : 0;
	struct timespec t;

	if (when == UINT64_MAX)
		return pthread_cond_wait(cond, lock);
	clock_gettime(CLOCK_MONOTONIC, &t);
	ns += (uint64_t)t.tv_nsec;
	t.tv_sec += (time_t)(ns / 1000000000);
	t.tv_nsec = (long)(ns % 1000000000);
	return pthread_cond_timedwait(cond, lock, &t);
}

/* An end, or what was mapped: before processes, for a file that is closed again will be in no
 * mapping that is read. With the lock, which it lets go of. False: there is none. */
static bool hear(struct stacks *s)
{
	struct notice *n = NULL;
	uint64_t next;
	pid_t pid;
	bool ended = stacks__take(&s->ended, &pid, &next);

	if (ended)
		stack_notices__claim(s, pid);
	else
		n = stack_notices__next(s);
	if (!ended && !n)
		return false;
	s->busy = true;
	s->reading = ended ? pid : n->pid;
	pthread_mutex_unlock(&s->lock);
	if (ended)
		stacks__forget_process(s, pid);
	else
		stack_notices__read(s, n);
	free(n);
	pthread_mutex_lock(&s->lock);
	return true;
}

/* A process whose turn it is; the same. *next: else when there is one. */
static bool look(struct stacks *s, uint64_t *next)
{
	pid_t pid;

	if (!stacks__take(&s->queue, &pid, next))
		return false;
	s->busy = s->looking = true;
	s->reading = pid;
	pthread_mutex_unlock(&s->lock);
	stacks__read(s, pid);
	pthread_mutex_lock(&s->lock);
	s->looking = false;
	pthread_cond_broadcast(&s->idle);
	return true;
}

static void *run(void *arg)
{
	struct stacks *s = arg;
	unsigned int in_a_row = 0;
	uint64_t next;

	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		if (in_a_row++ < IN_A_ROW && hear(s))
			continue;
		in_a_row = 0;
		if (look(s, &next) || s->ended.n || s->notices.n)
			continue;
		s->busy = false;
		wait_until(&s->wake, &s->lock, next);
	}
	s->busy = false;
	s->finished = true;
	pthread_cond_broadcast(&s->idle);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int stacks__start(struct stacks *s)
{
	int err = -pthread_create(&s->thread, NULL, run, s);

	s->threaded = !err;
	return err;
}

bool stacks__stop(struct stacks *s)
{
	uint64_t end = clock__boot() + STOP_NS;

	if (!s->threaded)
		return true;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->wake);
	while (!s->finished && !wait_until(&s->idle, &s->lock, end))
		;
	s->threaded = !s->finished;
	pthread_mutex_unlock(&s->lock);
	if (!s->threaded) {
		pthread_join(s->thread, NULL);
		return true;
	}
	pr_warn("pid %d: a file that it maps does not answer; it is not waited for any more",
		(int)s->reading);
	pthread_detach(s->thread);
	return false;
}

bool stacks__wait(struct stacks *s, unsigned int ms)
{
	uint64_t end = clock__boot() + ms * 1000000ULL;
	bool late = false;

	pthread_mutex_lock(&s->lock);
	/* Notices may come without end. */
	while ((s->looking || stacks__is_due(s)) && !late)
		late = wait_until(&s->idle, &s->lock, end);
	pthread_mutex_unlock(&s->lock);
	return !late;
}
