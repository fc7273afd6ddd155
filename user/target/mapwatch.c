// SPDX-License-Identifier: Apache-2.0
/*
 * New executable mappings, seen as perf MMAP2 records of a dummy software
 * event on each CPU: no probe, no tracefs, one record a mapped library.
 */
#include "target/target.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

#define RING_PAGES 16 /* data pages a CPU at least: some 400 records between two reads */
#define RING_PAGES_MAX 256
#define ALL_PAGES 2048 /* of all CPUs together, unless each has the least */
#define LOOK_NS 1000000000ULL /* how often CPUs are looked for that came or went */

/* tests put others in their place */
#ifndef MAPWATCH_POSSIBLE
#define MAPWATCH_POSSIBLE "/sys/devices/system/cpu/possible"
#define MAPWATCH_ONLINE "/sys/devices/system/cpu/online"
#endif

struct ring {
	int cpu;
	int fd; /* -1: the CPU is offline */
	bool online; /* at the last look */
	struct perf_event_mmap_page *head; /* the data is behind this page */
	/* Boot time of its youngest record, at first of its making; offline, of the last look. */
	uint64_t last;
	bool was_full; /* at the last read: what was lost then is told already */
};

struct mapwatch {
	size_t n; /* possible CPUs */
	struct ring *rings;
	int ep; /* readable when one of them is */
	uint64_t looked;
	size_t page, size; /* size: of the data of a ring */
	struct map_event e;
};

static int open_cpu(int cpu)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(a),
		.config = PERF_COUNT_SW_DUMMY, /* 3.12 */
		.mmap = 1, /* executable mappings only; mmap_data would add the rest */
		.mmap2 = 1,
		.sample_id_all = 1,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.use_clockid = 1,
		.clockid = CLOCK_BOOTTIME, /* the clock of bpf_ktime_get_boot_ns() */
		.watermark = 1,
		.wakeup_watermark = 1, /* any record wakes the reader */
	};
	int fd = (int)syscall(SYS_perf_event_open, &a, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int ring_open(struct mapwatch *w, struct ring *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = open_cpu(r->cpu), err;
	void *ring;

	if (fd < 0)
		return fd;
	ring = mmap(NULL, w->size + w->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED) {
		err = -errno;
		close(fd);
		return err;
	}
	if (epoll_ctl(w->ep, EPOLL_CTL_ADD, fd, &ev)) {
		err = -errno;
		munmap(ring, w->size + w->page);
		close(fd);
		return err;
	}
	r->fd = fd;
	r->head = ring;
	r->online = true;
	r->was_full = false;
	return 0;
}

static void ring_close(struct mapwatch *w, struct ring *r)
{
	if (r->fd < 0)
		return;
	munmap(r->head, w->size + w->page);
	close(r->fd); /* and out of the set */
	r->fd = -1;
	r->head = NULL;
}

/* fn for each number of a list as "0-3,8". 0, -errno, or what fn returns. */
static int each_cpu(const char *path, int (*fn)(struct mapwatch *w, int cpu), struct mapwatch *w)
{
	char *text, *p, *end;
	int err = (int)file__read(path, 1u << 16, &text);

	if (err < 0)
		return err;
	err = 0;
	for (p = text; !err; p = end + 1) {
		long a = strtol(p, &end, 10), b = a;

		if (end == p)
			break;
		if (*end == '-')
			b = strtol(end + 1, &end, 10);
		for (; !err && a <= b; a++)
			err = fn(w, (int)a);
		if (*end != ',')
			break;
	}
	free(text);
	return err;
}

static int add_cpu(struct mapwatch *w, int cpu)
{
	void *p = realloc(w->rings, (w->n + 1) * sizeof(*w->rings));

	if (!p)
		return -ENOMEM;
	w->rings = p;
	w->rings[w->n++] = (struct ring){ .cpu = cpu, .fd = -1, .last = clock__boot() };
	return 0;
}

/* Numbers have holes on some machines. */
static int possible_cpus(struct mapwatch *w)
{
	int err = each_cpu(MAPWATCH_POSSIBLE, add_cpu, w), c, n;

	if (err == -ENOMEM || (!err && w->n))
		return err;
	n = (int)sysconf(_SC_NPROCESSORS_CONF);
	for (c = 0, err = 0; c < n && !err; c++)
		err = add_cpu(w, c);
	return err;
}

/* A power of two. An interpreter that starts maps hundreds of files, in the time slice of its
 * reader. */
static size_t pages_of(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t pages = RING_PAGES;

	while (pages < RING_PAGES_MAX && pages * 2 * (size_t)MT_MAX(cpus, 1L) <= ALL_PAGES)
		pages *= 2;
	return pages;
}

int mapwatch__open(struct mapwatch **out, size_t pages)
{
	struct mapwatch *w = calloc(1, sizeof(*w));
	size_t i, open = 0;
	int err;

	*out = NULL;
	if (!w)
		return -ENOMEM;
	w->page = (size_t)sysconf(_SC_PAGESIZE);
	w->size = (pages ? pages : pages_of()) * w->page;
	w->looked = clock__boot();
	w->ep = epoll_create1(EPOLL_CLOEXEC);
	err = w->ep < 0 ? -errno : possible_cpus(w);
	for (i = 0; !err && i < w->n; i++) {
		err = ring_open(w, &w->rings[i]);
		if (err == -ENODEV) /* offline: may come */
			err = 0;
		else
			open++;
	}
	if (!err && !open)
		err = -ENODEV;
	if (err) {
		mapwatch__close(w);
		return err;
	}
	*out = w;
	return 0;
}

int mapwatch__fd(const struct mapwatch *w)
{
	return w->ep;
}

/* Copy out of the ring, which wraps. */
static void ring_copy(const char *data, size_t size, uint64_t at, void *dst, size_t n)
{
	size_t off = (size_t)(at % size), first = MT_MIN(n, size - off);

	memcpy(dst, data + off, first);
	memcpy((char *)dst + first, data, n - first);
}

struct mmap2_record {
	struct perf_event_header h;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
	/* filename, then pid, tid, time of sample_id */
};

#define MISC_BUILD_ID (1 << 14) /* PERF_RECORD_MISC_MMAP_BUILD_ID; we never ask for it */

/* One record. Its length is that of the kernel: it fits rec. */
static void on_mmap2(struct mapwatch *w, struct ring *r, const char *rec, size_t size,
		     void (*fn)(void *ctx, const struct map_event *e), void *ctx)
{
	struct mmap2_record m;
	size_t name = size - sizeof(m) - 16;

	memcpy(&m, rec, sizeof(m));
	memset(&w->e, 0, offsetof(struct map_event, path));
	memcpy(w->e.path, rec + sizeof(m), MT_MIN(name, sizeof(w->e.path) - 1));
	w->e.path[MT_MIN(name, sizeof(w->e.path) - 1)] = '\0';
	memcpy(&w->e.time, rec + size - 8, 8);
	w->e.pid = (pid_t)m.pid;
	w->e.start = m.addr;
	w->e.len = m.len;
	w->e.offset = m.pgoff;
	w->e.ino = m.ino;
	r->last = w->e.time;
	fn(ctx, &w->e);
}

static void missing(struct map_gap *gap, const struct ring *r)
{
	gap->since = gap->missing ? MT_MIN(gap->since, r->last) : r->last;
	gap->missing = true;
}

static void read_ring(struct mapwatch *w, struct ring *r,
		      void (*fn)(void *ctx, const struct map_event *e), void *ctx,
		      struct map_gap *gap)
{
	char rec[sizeof(struct mmap2_record) + PATH_MAX + 64];
	const char *data = (const char *)r->head + w->page;
	uint64_t head = __atomic_load_n(&r->head->data_head, __ATOMIC_ACQUIRE),
		 tail = r->head->data_tail, begin = tail;
	bool told = r->was_full;

	for (; tail < head; told = false) {
		struct perf_event_header h;

		ring_copy(data, w->size, tail, &h, sizeof(h));
		if (h.size < sizeof(h))
			break;
		if (h.type == PERF_RECORD_LOST) {
			uint64_t v[2];

			ring_copy(data, w->size, tail + sizeof(h), v, sizeof(v));
			gap->lost += v[1];
			/* It comes with the first record that has room again. */
			if (!told)
				missing(gap, r);
		} else if (h.type == PERF_RECORD_MMAP2 &&
			   h.size > sizeof(struct mmap2_record) + 16 && h.size <= sizeof(rec) &&
			   !(h.misc & MISC_BUILD_ID)) {
			ring_copy(data, w->size, tail, rec, h.size);
			on_mmap2(w, r, rec, h.size, fn, ctx);
		}
		tail += h.size;
	}
	/*
	 * No room for another record: some may be lost, of which the kernel would tell
	 * with the next one on this CPU, perhaps in hours.
	 */
	head = __atomic_load_n(&r->head->data_head, __ATOMIC_ACQUIRE);
	r->was_full = w->size - (head - begin) < sizeof(rec);
	if (r->was_full)
		missing(gap, r);
	__atomic_store_n(&r->head->data_tail, tail, __ATOMIC_RELEASE);
}

static int is_online(struct mapwatch *w, int cpu)
{
	size_t i;

	for (i = 0; i < w->n; i++)
		if (w->rings[i].cpu == cpu)
			w->rings[i].online = true;
	return 0;
}

/*
 * A CPU that comes online is watched from now on; what was mapped on it since it was last seen to
 * be off may be missing. One that goes takes its event with it: it would tell nothing any more when
 * the CPU is back.
 */
static void look_for_cpus(struct mapwatch *w, struct map_gap *gap)
{
	uint64_t now = clock__boot();
	bool known;
	size_t i;

	for (i = 0; i < w->n; i++)
		w->rings[i].online = false;
	known = !each_cpu(MAPWATCH_ONLINE, is_online, w);
	for (i = 0; i < w->n; i++) {
		struct ring *r = &w->rings[i];
		int err;

		if (r->fd >= 0) {
			if (!known || r->online)
				continue;
			ring_close(w, r);
		} else {
			err = known && !r->online ? -ENODEV : ring_open(w, r);
			/* Online, and perhaps still not watched: what it maps is looked for. */
			if (err != -ENODEV)
				missing(gap, r);
		}
		r->last = now;
	}
	w->looked = now;
}

void mapwatch__read(struct mapwatch *w, void (*fn)(void *ctx, const struct map_event *e), void *ctx,
		    struct map_gap *gap)
{
	size_t i;

	memset(gap, 0, sizeof(*gap));
	for (i = 0; i < w->n; i++)
		if (w->rings[i].fd >= 0)
			read_ring(w, &w->rings[i], fn, ctx, gap);
	if (clock__boot() - w->looked >= LOOK_NS)
		look_for_cpus(w, gap);
}

void mapwatch__close(struct mapwatch *w)
{
	size_t i;

	if (!w)
		return;
	for (i = 0; i < w->n; i++)
		ring_close(w, &w->rings[i]);
	if (w->ep >= 0)
		close(w->ep);
	free(w->rings);
	free(w);
}
