// SPDX-License-Identifier: Apache-2.0
/* Jobs with a deadline: a worker thread each, which is left behind when its job hangs. */
#include "base/deadline.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

struct deadline_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t go, done;
	struct deadline_job *job; /* NULL: it has none */
	bool left; /* nobody waits for it any more */
	bool stop;
};

static unsigned int late;

unsigned int deadline__late(void)
{
	return __atomic_load_n(&late, __ATOMIC_RELAXED);
}

static void worker__free(struct deadline_worker *w)
{
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->go);
	pthread_cond_destroy(&w->done);
	free(w);
}

static void *work(void *arg)
{
	struct deadline_worker *w = arg;
	struct deadline_job *j;

	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		j = w->job;
		if (!j) {
			pthread_cond_wait(&w->go, &w->lock);
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		j->run(j);
		pthread_mutex_lock(&w->lock);
		if (w->left) {
			pthread_mutex_unlock(&w->lock);
			j->drop(j);
			worker__free(w);
			__atomic_sub_fetch(&late, 1, __ATOMIC_RELAXED);
			return NULL;
		}
		w->job = NULL;
		pthread_cond_signal(&w->done);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static int worker__start(struct deadline_worker **out)
{
	struct deadline_worker *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	sigset_t all, old;
	int err;

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->go, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->done, &attr);
	pthread_condattr_destroy(&attr);
	/* Signals are for threads that return; but a fault must reach its handler (elf_guard). */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&w->thread, NULL, work, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		worker__free(w);
		return err;
	}
	*out = w;
	return 0;
}

int deadline__run(struct deadline *d, struct deadline_job *j, unsigned int ms)
{
	struct deadline_worker *w;
	struct timespec t;
	int err = 0;

	if (deadline__late() >= DEADLINE_MAX_LATE)
		return -EBUSY;
	if (!d->worker)
		err = worker__start(&d->worker);
	if (err)
		return err;
	w = d->worker;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000L;
	if (t.tv_nsec >= 1000000000L) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000L;
	}
	pthread_mutex_lock(&w->lock);
	w->job = j;
	pthread_cond_signal(&w->go);
	while (w->job && !err)
		err = pthread_cond_timedwait(&w->done, &w->lock, &t);
	if (w->job) {
		/* Before it can return: it takes one away. */
		__atomic_add_fetch(&late, 1, __ATOMIC_RELAXED);
		w->left = true;
		pthread_detach(w->thread);
		d->worker = NULL;
	}
	err = w->job ? -ETIMEDOUT : 0;
	pthread_mutex_unlock(&w->lock);
	return err;
}

void deadline__close(struct deadline *d)
{
	struct deadline_worker *w = d->worker;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->go);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	worker__free(w);
	d->worker = NULL;
}
