// SPDX-License-Identifier: Apache-2.0
/* What the ranks of a simulated communicator share, also across processes: a piece of shared
 * memory. */
#include "hccl_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x6c636368 /* "hccl" */
#define CHUNK (256 << 10)
#define MAIL (64 << 10)
#define LIMIT 120 /* seconds to wait for another rank */

struct name {
	uint32_t magic;
	uint32_t unused;
	uint64_t id;
};

/* In the shared memory, followed by n chunks and n * n letters. */
struct common {
	uint32_t made, ready; /* somebody is making it, has made it */
	pthread_mutex_t lock;
	pthread_cond_t change;
	uint32_t waiting, round; /* the barrier */
};

struct letter {
	uint32_t full;
	char text[MAIL];
};

struct hccl_shared {
	struct common *c;
	size_t size;
	uint32_t n, rank;
};

int hccl_shared__name(void *info)
{
	struct name name = { .magic = MAGIC };

	if (getrandom(&name.id, sizeof(name.id), 0) != sizeof(name.id))
		return -errno;
	memcpy(info, &name, sizeof(name));
	return 0;
}

const void *hccl_shared__at(const struct hccl_shared *s, uint32_t rank)
{
	return (const char *)(s->c + 1) + (size_t)rank * CHUNK;
}

static struct letter *letter_of(struct hccl_shared *s, uint32_t from, uint32_t to)
{
	char *letters = (char *)(s->c + 1) + (size_t)s->n * CHUNK;

	return (struct letter *)letters + (size_t)from * s->n + to;
}

/* Waits with the lock held until *value is no longer what it was. */
static int await(struct common *c, const uint32_t *value, uint32_t was)
{
	struct timespec end;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += LIMIT;
	while (*value == was && !err)
		err = pthread_cond_timedwait(&c->change, &c->lock, &end);
	return *value == was ? -err : 0;
}

static int barrier(struct hccl_shared *s)
{
	struct common *c = s->c;
	uint32_t round;
	int err = 0;

	pthread_mutex_lock(&c->lock);
	round = c->round;
	if (++c->waiting == s->n) {
		c->waiting = 0;
		c->round++;
		pthread_cond_broadcast(&c->change);
	} else {
		err = await(c, &c->round, round);
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}

static void make(struct common *c)
{
	pthread_mutexattr_t m;
	pthread_condattr_t v;

	pthread_mutexattr_init(&m);
	pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&c->lock, &m);
	pthread_condattr_init(&v);
	pthread_condattr_setpshared(&v, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&c->change, &v);
	__atomic_store_n(&c->ready, 1, __ATOMIC_RELEASE);
}

int hccl_shared__join(const void *info, uint32_t n, uint32_t rank, struct hccl_shared **out)
{
	struct hccl_shared *s;
	struct name name;
	char path[64];
	int fd, ms = 0, err;

	*out = NULL;
	memcpy(&name, info, sizeof(name));
	if (name.magic != MAGIC || n < 2)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->n = n;
	s->rank = rank;
	s->size = sizeof(struct common) + (size_t)n * CHUNK + (size_t)n * n * sizeof(struct letter);
	snprintf(path, sizeof(path), "/memtap-sim-hccl-%016llx", (unsigned long long)name.id);
	/* Whoever comes first gives it its size; all give it the same one. */
	fd = shm_open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)s->size))
		goto fail;
	s->c = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s->c == MAP_FAILED)
		goto fail;
	close(fd);
	if (!__atomic_exchange_n(&s->c->made, 1, __ATOMIC_ACQ_REL))
		make(s->c);
	while (!__atomic_load_n(&s->c->ready, __ATOMIC_ACQUIRE) && ms++ < LIMIT * 1000)
		usleep(1000);
	err = ms < LIMIT * 1000 ? barrier(s) : -ETIMEDOUT;
	if (rank == 0)
		shm_unlink(path);
	if (err)
		hccl_shared__leave(s);
	else
		*out = s;
	return err;
fail:
	err = -errno;
	if (fd >= 0)
		close(fd);
	free(s);
	return err;
}

void hccl_shared__leave(struct hccl_shared *s)
{
	if (!s)
		return;
	munmap(s->c, s->size);
	free(s);
}

int hccl_shared__exchange(struct hccl_shared *s, const void *src, size_t bytes, hccl_take_t take,
			  void *ctx)
{
	size_t off, n;
	int err;

	for (off = 0; off < bytes; off += n) {
		n = bytes - off < CHUNK ? bytes - off : CHUNK;
		memcpy((void *)hccl_shared__at(s, s->rank), (const char *)src + off, n);
		err = barrier(s);
		if (err)
			return err;
		take(s, ctx, off, n);
		/* nobody gives the next chunk before all have taken this one */
		err = barrier(s);
		if (err)
			return err;
	}
	return 0;
}

int hccl_shared__send(struct hccl_shared *s, uint32_t peer, const void *src, size_t bytes)
{
	struct letter *l = letter_of(s, s->rank, peer);
	size_t off, n;
	int err = 0;

	for (off = 0; off < bytes && !err; off += n) {
		n = bytes - off < MAIL ? bytes - off : MAIL;
		pthread_mutex_lock(&s->c->lock);
		err = await(s->c, &l->full, 1);
		if (!err) {
			memcpy(l->text, (const char *)src + off, n);
			l->full = 1;
			pthread_cond_broadcast(&s->c->change);
		}
		pthread_mutex_unlock(&s->c->lock);
	}
	return err;
}

int hccl_shared__receive(struct hccl_shared *s, uint32_t peer, void *dst, size_t bytes)
{
	struct letter *l = letter_of(s, peer, s->rank);
	size_t off, n;
	int err = 0;

	for (off = 0; off < bytes && !err; off += n) {
		n = bytes - off < MAIL ? bytes - off : MAIL;
		pthread_mutex_lock(&s->c->lock);
		err = await(s->c, &l->full, 0);
		if (!err) {
			memcpy((char *)dst + off, l->text, n);
			l->full = 0;
			pthread_cond_broadcast(&s->c->change);
		}
		pthread_mutex_unlock(&s->c->lock);
	}
	return err;
}
