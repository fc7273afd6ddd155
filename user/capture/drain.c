// SPDX-License-Identifier: Apache-2.0
/*
 * Empties the rings in a thread of its own and keeps records until they are
 * older than the window; hands them out in time order.
 *
 * Records wait in slices of 10 ms of event time. A slice is sorted when it is
 * due: it fits the cache, and its records are nearly in order already.
 */
#include "capture/capture.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

#define SLICE_NS 10000000ULL
#define N_SLICES 4096 /* 41 s: how far a stalled writer may fall behind in order */
#define CHUNK (256u << 10)
#define BATCH 8192 /* records under one hold of the lock */
#define POLL_MS 5

struct chunk {
	struct chunk *next;
	size_t len;
	char data[CHUNK];
};

struct slice {
	struct chunk *head, *tail;
	size_t records;
};

struct drain {
	struct ring_buffer *events, *life;
	pthread_t thread;
	uint64_t early_at; /* up to then what cannot wait has been handed out; the reader's */
	pthread_mutex_t lock;
	struct drain_opts opts;
	struct slice slices[N_SLICES];
	struct slice late; /* for slices already handed out */
	struct slice early; /* what is handed out at once */
	uint64_t next; /* number of the first slice not handed out */
	struct chunk *spare;
	size_t n_spare, chunks;
	struct drain_stats st;
	size_t in_batch;
	bool stop;
	/* sort scratch, used by the delivering thread only */
	const struct mt_hdr **sorted;
	size_t sorted_cap;
};

static struct chunk *chunk__get(struct drain *d)
{
	struct chunk *c = d->spare;

	if (c) {
		d->spare = c->next;
		d->n_spare--;
	} else {
		c = malloc(sizeof(*c));
		if (!c)
			return NULL;
	}
	d->chunks++;
	d->st.peak_bytes = MT_MAX(d->st.peak_bytes, d->chunks * sizeof(*c));
	c->next = NULL;
	c->len = 0;
	return c;
}

static int slice__add(struct drain *d, struct slice *s, const void *rec, size_t size)
{
	struct chunk *c = s->tail;

	if (!c || c->len + size > CHUNK) {
		c = chunk__get(d);
		if (!c)
			return -ENOMEM;
		if (s->tail)
			s->tail->next = c;
		else
			s->head = c;
		s->tail = c;
	}
	memcpy(c->data + c->len, rec, size);
	c->len += size;
	s->records++;
	return 0;
}

static void count_lost(struct drain_lost *l, uint64_t time)
{
	l->first = l->count++ ? MT_MIN(l->first, time) : time;
	l->last = MT_MAX(l->last, time);
}

static bool is_life(unsigned int type)
{
	return type >= MT_REC_FORK && type <= MT_REC_EXIT;
}

static bool is_stack(unsigned int type)
{
	return type >= MT_REC_STACK && type <= MT_REC_COPY_PIECE;
}

/* Perhaps: a range of mstx ends, or a step that the process asks for begins. */
static bool ends_step(const struct mt_hdr *h)
{
	const struct mt_call *c = (const struct mt_call *)h;

	if (h->type != MT_REC_CALL || h->size < sizeof(*c))
		return false;
	return h->fn == MT_FN_MSTX_END || (h->fn == MT_FN_ASK && (uint32_t)c->a[1] == MT_ASK_STEP);
}

/* With the lock held. */
static int take(struct drain *d, void *data, size_t size, bool life)
{
	const struct mt_hdr *h = data;
	uint64_t no;
	struct slice *s;

	bool stack = !life && size >= sizeof(*h) && is_stack(h->type);

	if (life)
		d->st.life++;
	else if (stack)
		d->st.stacks++;
	else
		d->st.received++;
	if (size < sizeof(*h) || h->size < sizeof(*h) || h->size > size || (h->size & 7) ||
	    is_life(h->type) != life) {
		if (life)
			d->st.life_bad++;
		else
			count_lost(&d->st.nonsense, clock__boot());
		return 0;
	}
	/* Events name stacks; processes are looked at while they are there. */
	if ((stack || (life && d->opts.early)) && slice__add(d, &d->early, data, h->size) && stack)
		d->st.stacks_lost++;
	if (stack)
		return ++d->in_batch % BATCH ? 0 : -EAGAIN;
	if (d->opts.range_ended && ends_step(h))
		d->opts.range_ended(d->opts.ctx, h->tgid);
	no = h->time / SLICE_NS;
	if (no < d->next) {
		s = &d->late;
		d->st.late++;
	} else {
		/* Clamp what claims to come from the future: it is sorted with the last. */
		s = &d->slices[MT_MIN(no, d->next + N_SLICES - 1) % N_SLICES];
	}
	if (slice__add(d, s, data, h->size)) {
		if (life)
			d->st.life_bad++;
		else
			count_lost(&d->st.no_memory, h->time);
	}
	/* Let the other thread in now and then: a full ring must not starve it. */
	return ++d->in_batch % BATCH ? 0 : -EAGAIN;
}

/* Callbacks of libbpf for each record. */
static int on_event(void *ctx, void *data, size_t size)
{
	return take(ctx, data, size, false);
}

static int on_life(void *ctx, void *data, size_t size)
{
	return take(ctx, data, size, true);
}

static bool over_limit(struct drain *d)
{
	return d->chunks * sizeof(struct chunk) > d->opts.max_bytes;
}

static void consume(struct drain *d)
{
	int n = -EAGAIN;

	do {
		pthread_mutex_lock(&d->lock);
		/* Few and small, and a death that is missed is missed for good: at the limit too.
		 */
		while (ring_buffer__consume(d->life) == -EAGAIN)
			continue;
		if (over_limit(d) && !d->stop) {
			d->st.stalls++;
			pthread_mutex_unlock(&d->lock);
			usleep(POLL_MS * 1000);
			continue;
		}
		n = ring_buffer__consume(d->events);
		pthread_mutex_unlock(&d->lock);
	} while (n == -EAGAIN);
}

static void *run(void *arg)
{
	struct drain *d = arg;
	struct epoll_event ev;
	int ep = ring_buffer__epoll_fd(d->events), ready;
	size_t before;

	/* It needs little, and a full ring is a loss: it must not wait for the traced threads. */
	thread__nice(-10);
	while (!__atomic_load_n(&d->stop, __ATOMIC_ACQUIRE)) {
		/* Producers wake us only when much waits: the timeout is the rule. */
		ready = epoll_wait(ep, &ev, 1, POLL_MS);
		before = d->in_batch;
		consume(d);
		/*
		 * The first record is still being written, perhaps by a thread that does
		 * not run now: there is something until it has ended.
		 */
		if (ready && d->in_batch == before)
			usleep(POLL_MS * 1000);
	}
	return NULL;
}

int drain__start(int events_fd, int life_fd, const struct drain_opts *opts, struct drain **out)
{
	struct drain *d = calloc(1, sizeof(*d));
	int err;

	*out = NULL;
	if (!d)
		return -ENOMEM;
	d->opts = *opts;
	pthread_mutex_init(&d->lock, NULL);
	d->next = clock__boot() / SLICE_NS - opts->window_ns / SLICE_NS - 1;
	d->life = ring_buffer__new(life_fd, on_life, d, NULL);
	d->events = d->life ? ring_buffer__new(events_fd, on_event, d, NULL) : NULL;
	if (!d->events) {
		err = -errno;
		goto fail;
	}
	err = -pthread_create(&d->thread, NULL, run, d);
	if (err)
		goto fail;
	*out = d;
	return 0;
fail:
	ring_buffer__free(d->events);
	ring_buffer__free(d->life);
	free(d);
	return err;
}

/*
 * Order by time; equal times keep the order of arrival. Insertion sort is
 * linear on what is nearly sorted; a slice that is not goes to a merge sort.
 */
static int by_time(const void *a, const void *b)
{
	const struct mt_hdr *x = *(const struct mt_hdr *const *)a;
	const struct mt_hdr *y = *(const struct mt_hdr *const *)b;

	return x->time < y->time ? -1 : x->time > y->time;
}

static void sort(const struct mt_hdr **v, size_t n)
{
	size_t moves = 0, i, j;

	for (i = 1; i < n; i++) {
		const struct mt_hdr *h = v[i];

		for (j = i; j && v[j - 1]->time > h->time; j--)
			v[j] = v[j - 1];
		v[j] = h;
		moves += i - j;
		if (moves > 16 * n) {
			/* glibc's qsort is a stable merge sort when memory allows. */
			qsort(v, n, sizeof(*v), by_time);
			return;
		}
	}
}

static void hand_out(struct drain *d, struct slice *s, bool late,
		     void (*fn)(void *ctx, const void *rec, size_t size, bool late), void *ctx)
{
	struct chunk *c;
	size_t n = 0, i;

	if (s->records > d->sorted_cap) {
		void *p = realloc(d->sorted, s->records * sizeof(*d->sorted));

		if (!p) {
			/* Unsorted is better than lost. */
			for (c = s->head; c; c = c->next)
				for (i = 0; i < c->len; i += ((struct mt_hdr *)(c->data + i))->size)
					fn(ctx, c->data + i, ((struct mt_hdr *)(c->data + i))->size,
					   true);
			return;
		}
		d->sorted = p;
		d->sorted_cap = s->records;
	}
	for (c = s->head; c; c = c->next)
		for (i = 0; i < c->len; i += d->sorted[n - 1]->size)
			d->sorted[n++] = (const struct mt_hdr *)(c->data + i);
	sort(d->sorted, n);
	for (i = 0; i < n; i++)
		fn(ctx, d->sorted[i], d->sorted[i]->size, late);
}

static void give_back(struct drain *d, struct slice *s)
{
	pthread_mutex_lock(&d->lock);
	while (s->head) {
		struct chunk *c = s->head;

		s->head = c->next;
		d->chunks--;
		if (d->n_spare < 64) {
			c->next = d->spare;
			d->spare = c;
			d->n_spare++;
		} else {
			free(c);
		}
	}
	pthread_mutex_unlock(&d->lock);
	memset(s, 0, sizeof(*s));
}

void drain__early(struct drain *d, void (*fn)(void *ctx, const void *rec, size_t size, bool late),
		  void *ctx)
{
	struct slice s;

	d->early_at = clock__boot();
	pthread_mutex_lock(&d->lock);
	s = d->early;
	memset(&d->early, 0, sizeof(d->early));
	pthread_mutex_unlock(&d->lock);
	if (!s.records)
		return;
	/* By time: what a process did comes before its end, which the other ring tells. */
	hand_out(d, &s, false, fn, ctx);
	give_back(d, &s);
}

void drain__deliver(struct drain *d, bool final,
		    void (*fn)(void *ctx, const void *rec, size_t size, bool late), void *ctx)
{
	/* What came before its time may have taken long: behind it others wait that name events. */
	uint64_t now = d->early_at ? d->early_at : clock__boot();
	uint64_t due = (now - MT_MIN(now, d->opts.window_ns)) / SLICE_NS, end;
	struct slice s;

	pthread_mutex_lock(&d->lock);
	end = final ? d->next + N_SLICES : MT_MIN(due, d->next + N_SLICES);
	s = d->late;
	memset(&d->late, 0, sizeof(d->late));
	pthread_mutex_unlock(&d->lock);
	if (s.records) {
		hand_out(d, &s, true, fn, ctx);
		give_back(d, &s);
	}
	for (;;) {
		pthread_mutex_lock(&d->lock);
		if (d->next >= end) {
			pthread_mutex_unlock(&d->lock);
			break;
		}
		s = d->slices[d->next % N_SLICES];
		memset(&d->slices[d->next % N_SLICES], 0, sizeof(s));
		d->next++;
		pthread_mutex_unlock(&d->lock);
		if (!s.records)
			continue;
		hand_out(d, &s, false, fn, ctx);
		give_back(d, &s);
	}
}

uint64_t drain__handed_out(struct drain *d)
{
	uint64_t next;

	pthread_mutex_lock(&d->lock);
	next = d->next;
	pthread_mutex_unlock(&d->lock);
	return next * SLICE_NS;
}

void drain__stop(struct drain *d)
{
	if (__atomic_exchange_n(&d->stop, true, __ATOMIC_ACQ_REL))
		return;
	pthread_join(d->thread, NULL);
	consume(d);
}

void drain__stats(struct drain *d, struct drain_stats *s)
{
	pthread_mutex_lock(&d->lock);
	*s = d->st;
	pthread_mutex_unlock(&d->lock);
}

void drain__free(struct drain *d)
{
	size_t i;

	if (!d)
		return;
	drain__stop(d);
	for (i = 0; i < N_SLICES; i++)
		give_back(d, &d->slices[i]);
	give_back(d, &d->late);
	give_back(d, &d->early);
	while (d->spare) {
		struct chunk *c = d->spare;

		d->spare = c->next;
		free(c);
	}
	ring_buffer__free(d->events);
	ring_buffer__free(d->life);
	free(d->sorted);
	pthread_mutex_destroy(&d->lock);
	free(d);
}
