// SPDX-License-Identifier: Apache-2.0
/*
 * Sorts any number of items by time in bounded memory: sorted runs go to an
 * unlinked file and are merged. The order of equal times stays.
 */
#include "input/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_MEMORY (320u << 20)
#define MIN_ITEMS 64u
#define MAX_RUNS 4096u
#define MERGE_ITEMS 512u /* a run's buffer while merging */

struct key {
	uint64_t time;
	uint32_t index;
};

struct run {
	uint64_t at, left; /* items in the file */
	struct item *buf;
	size_t n, pos;
};

struct sorter {
	struct item *items;
	size_t n, cap, max;
	struct key *keys, *spare;
	size_t pos; /* of the next, when all is in memory */
	int fd;
	uint64_t written; /* items in the file */
	struct run *runs;
	uint32_t *heap;
	size_t n_runs, n_heap;
	bool sorted; /* items came in order so far */
};

struct sorter *sorter__new(size_t memory)
{
	struct sorter *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->fd = -1;
	s->sorted = true;
	s->max = (memory ? memory : DEFAULT_MEMORY) /
		 (sizeof(struct item) + 2 * sizeof(struct key));
	s->max = MT_MAX(s->max, (size_t)MIN_ITEMS);
	return s;
}

void sorter__free(struct sorter *s)
{
	size_t i;

	if (!s)
		return;
	for (i = 0; i < s->n_runs; i++)
		free(s->runs[i].buf);
	if (s->fd >= 0)
		close(s->fd);
	free(s->runs);
	free(s->heap);
	free(s->items);
	free(s->keys);
	free(s->spare);
	free(s);
}

static bool before(const struct item *a, const struct item *b)
{
	return a->time != b->time ? a->time < b->time : a->seq < b->seq;
}

/* Radix sort of the keys by time; stable. *result: where they ended. */
static void radix(struct key *a, struct key *b, size_t n, struct key **result)
{
	uint64_t min = UINT64_MAX, max = 0;
	unsigned int shift;
	size_t i;

	for (i = 0; i < n; i++) {
		min = MT_MIN(min, a[i].time);
		max = MT_MAX(max, a[i].time);
	}
	for (shift = 0; shift < 64 && (max - min) >> shift; shift += 11) {
		size_t count[2049] = { 0 };
		struct key *t;

		for (i = 0; i < n; i++)
			count[1 + ((a[i].time - min) >> shift & 2047)]++;
		for (i = 1; i < 2049; i++)
			count[i] += count[i - 1];
		for (i = 0; i < n; i++)
			b[count[(a[i].time - min) >> shift & 2047]++] = a[i];
		t = a;
		a = b;
		b = t;
	}
	*result = a;
}

static int order(struct sorter *s, struct key **keys)
{
	size_t i;

	if (!s->keys) {
		s->keys = calloc(s->cap, sizeof(*s->keys));
		s->spare = calloc(s->cap, sizeof(*s->spare));
		if (!s->keys || !s->spare)
			return -ENOMEM;
	}
	for (i = 0; i < s->n; i++)
		s->keys[i] = (struct key){ s->items[i].time, (uint32_t)i };
	*keys = s->keys;
	if (!s->sorted)
		radix(s->keys, s->spare, s->n, keys);
	return 0;
}

static int open_file(void)
{
	const char *dir = getenv("TMPDIR");
	char path[4096];
	int fd;

	if (!dir || !*dir)
		dir = "/var/tmp";
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	if ((size_t)snprintf(path, sizeof(path), "%s/memtap-sort-XXXXXX", dir) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		fd = -errno;
		pr_err("%s: no file for sorting can be made: %s; set TMPDIR to a folder with room",
		       dir, strerror(-fd));
		return fd;
	}
	unlink(path);
	return fd;
}

/* What is in memory becomes a run. */
static int spill(struct sorter *s)
{
	struct item out[1024];
	struct key *keys;
	struct run *r;
	size_t i, n = 0;
	int err;

	if (s->n_runs == MAX_RUNS) {
		pr_err("too many events to sort: cut a window out first (memtap cut)");
		return -E2BIG;
	}
	if (s->fd < 0) {
		s->fd = open_file();
		if (s->fd < 0)
			return s->fd;
	}
	err = order(s, &keys);
	if (err)
		return err;
	r = reallocarray(s->runs, s->n_runs + 1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	s->runs = r;
	s->runs[s->n_runs++] = (struct run){ .at = s->written, .left = s->n };
	for (i = 0; i < s->n; i++) {
		out[n++] = s->items[keys[i].index];
		if (n < MT_ARRAY_SIZE(out) && i + 1 < s->n)
			continue;
		err = fd__write_all(s->fd, out, n * sizeof(*out));
		if (err) {
			pr_err("the file for sorting: %s; set TMPDIR to a folder with room",
			       strerror(-err));
			return err;
		}
		n = 0;
	}
	s->written += s->n;
	s->n = 0;
	s->sorted = true;
	return 0;
}

int sorter__add(struct sorter *s, const struct item *it)
{
	int err;

	if (s->n == s->cap) {
		if (s->cap == s->max) {
			err = spill(s);
			if (err)
				return err;
		} else {
			size_t cap = MT_MIN(s->max, s->cap ? s->cap * 2 : 1024);
			struct item *p = reallocarray(s->items, cap, sizeof(*p));

			if (!p)
				return -ENOMEM;
			s->items = p;
			s->cap = cap;
		}
	}
	if (s->n && it->time < s->items[s->n - 1].time)
		s->sorted = false;
	s->items[s->n++] = *it;
	return 0;
}

/* The next item of a run into its buffer. 1, 0: the run is at its end, -errno. */
static int refill(struct sorter *s, struct run *r)
{
	size_t want = (size_t)MT_MIN(r->left, (uint64_t)MERGE_ITEMS), got = 0;
	char *p = (char *)r->buf;

	while (got < want * sizeof(*r->buf)) {
		ssize_t n = pread(s->fd, p + got, want * sizeof(*r->buf) - got,
				  (off_t)(r->at * sizeof(*r->buf) + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			pr_err("the file for sorting cannot be read: %s",
			       n ? strerror(errno) : "it is too short");
			return n ? -errno : -EIO;
		}
		got += (size_t)n;
	}
	r->at += want;
	r->left -= want;
	r->n = want;
	r->pos = 0;
	return want > 0;
}

static bool heap_before(const struct sorter *s, uint32_t a, uint32_t b)
{
	const struct run *x = &s->runs[a], *y = &s->runs[b];

	return before(&x->buf[x->pos], &y->buf[y->pos]);
}

static void sink_down(struct sorter *s, size_t i)
{
	for (;;) {
		size_t k = 2 * i + 1;
		uint32_t t;

		if (k >= s->n_heap)
			return;
		if (k + 1 < s->n_heap && heap_before(s, s->heap[k + 1], s->heap[k]))
			k++;
		if (!heap_before(s, s->heap[k], s->heap[i]))
			return;
		t = s->heap[i];
		s->heap[i] = s->heap[k];
		s->heap[k] = t;
		i = k;
	}
}

static int start_merge(struct sorter *s)
{
	size_t i;
	int err;

	s->heap = calloc(s->n_runs, sizeof(*s->heap));
	if (!s->heap)
		return -ENOMEM;
	for (i = 0; i < s->n_runs; i++) {
		s->runs[i].buf = malloc(MERGE_ITEMS * sizeof(struct item));
		if (!s->runs[i].buf)
			return -ENOMEM;
		err = refill(s, &s->runs[i]);
		if (err < 0)
			return err;
		if (err)
			s->heap[s->n_heap++] = (uint32_t)i;
	}
	for (i = s->n_heap; i-- > 0;)
		sink_down(s, i);
	return 0;
}

int sorter__finish(struct sorter *s)
{
	struct key *keys;
	int err;

	if (s->n_runs) {
		err = s->n ? spill(s) : 0;
		free(s->items);
		free(s->keys);
		free(s->spare);
		s->items = NULL;
		s->keys = s->spare = NULL;
		s->cap = 0;
		return err ? err : start_merge(s);
	}
	if (s->sorted || !s->n)
		return 0;
	err = order(s, &keys);
	if (!err && keys != s->keys) {
		s->spare = s->keys;
		s->keys = keys;
	}
	return err;
}

int sorter__next(struct sorter *s, struct item *it)
{
	struct run *r;
	int err;

	if (!s->n_runs) {
		if (s->pos == s->n)
			return 0;
		*it = s->items[s->keys ? s->keys[s->pos].index : s->pos];
		s->pos++;
		return 1;
	}
	if (!s->n_heap)
		return 0;
	r = &s->runs[s->heap[0]];
	*it = r->buf[r->pos++];
	if (r->pos == r->n) {
		err = r->left ? refill(s, r) : 0;
		if (err < 0)
			return err;
		if (!err)
			s->heap[0] = s->heap[--s->n_heap];
	}
	sink_down(s, 0);
	return 1;
}

uint64_t sorter__spilled(const struct sorter *s)
{
	return s->written * sizeof(struct item);
}
