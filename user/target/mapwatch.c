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
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

#define RING_PAGES 16 /* data pages a CPU: some 400 records between two reads */

struct ring {
	struct perf_event_mmap_page *head; /* the data is behind this page */
	uint64_t last; /* boot time of its youngest record, at first of its making */
	bool was_full; /* at the last read: what was lost then is told already */
};

struct mapwatch {
	size_t n;
	int *fds;
	struct ring *rings;
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

int mapwatch__open(struct mapwatch **out, size_t pages)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct mapwatch *w = calloc(1, sizeof(*w));
	int err = 0;
	long c;

	*out = NULL;
	if (!w)
		return -ENOMEM;
	w->page = (size_t)sysconf(_SC_PAGESIZE);
	w->size = (pages ? pages : RING_PAGES) * w->page;
	w->fds = calloc((size_t)cpus, sizeof(*w->fds));
	w->rings = calloc((size_t)cpus, sizeof(*w->rings));
	if (!w->fds || !w->rings) {
		err = -ENOMEM;
		goto fail;
	}
	for (c = 0; c < cpus; c++) {
		int fd = open_cpu((int)c);
		void *ring;

		if (fd == -ENODEV) /* offline CPU */
			continue;
		if (fd < 0) {
			err = fd;
			goto fail;
		}
		ring = mmap(NULL, w->size + w->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (ring == MAP_FAILED) {
			err = -errno;
			close(fd);
			goto fail;
		}
		w->fds[w->n] = fd;
		w->rings[w->n++] = (struct ring){ .head = ring, .last = clock__boot() };
	}
	*out = w;
	return 0;
fail:
	mapwatch__close(w);
	return err;
}

size_t mapwatch__fds(const struct mapwatch *w, const int **fds)
{
	*fds = w->fds;
	return w->n;
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

void mapwatch__read(struct mapwatch *w, void (*fn)(void *ctx, const struct map_event *e), void *ctx,
		    struct map_gap *gap)
{
	size_t i;

	memset(gap, 0, sizeof(*gap));
	for (i = 0; i < w->n; i++)
		read_ring(w, &w->rings[i], fn, ctx, gap);
}

void mapwatch__close(struct mapwatch *w)
{
	size_t i;

	if (!w)
		return;
	for (i = 0; i < w->n; i++) {
		munmap(w->rings[i].head, w->size + w->page);
		close(w->fds[i]);
	}
	free(w->fds);
	free(w->rings);
	free(w);
}
