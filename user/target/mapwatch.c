// SPDX-License-Identifier: Apache-2.0
/*
 * New executable mappings, seen as perf MMAP2 records of a dummy software
 * event on each CPU: no probe, no tracefs, one record a mapped library.
 */
#include "target/target.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

#define RING_PAGES 16 /* data pages a CPU: some 400 records between two reads */

struct mapwatch {
	size_t n;
	int *fds;
	void **rings;
	size_t page;
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

int mapwatch__open(struct mapwatch **out)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct mapwatch *w = calloc(1, sizeof(*w));
	int err = 0;
	long c;

	*out = NULL;
	if (!w)
		return -ENOMEM;
	w->page = (size_t)sysconf(_SC_PAGESIZE);
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
		ring = mmap(NULL, (RING_PAGES + 1) * w->page, PROT_READ | PROT_WRITE, MAP_SHARED,
			    fd, 0);
		if (ring == MAP_FAILED) {
			err = -errno;
			close(fd);
			goto fail;
		}
		w->fds[w->n] = fd;
		w->rings[w->n++] = ring;
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

uint64_t mapwatch__read(struct mapwatch *w, void (*fn)(void *ctx, const struct map_event *e),
			void *ctx)
{
	uint64_t lost = 0;
	char rec[sizeof(struct mmap2_record) + PATH_MAX + 64];
	size_t i, size = RING_PAGES * w->page;

	for (i = 0; i < w->n; i++) {
		struct perf_event_mmap_page *pg = w->rings[i];
		const char *data = (const char *)w->rings[i] + w->page;
		uint64_t head = __atomic_load_n(&pg->data_head, __ATOMIC_ACQUIRE),
			 tail = pg->data_tail;

		while (tail < head) {
			struct perf_event_header h;
			struct mmap2_record m;
			size_t name;

			ring_copy(data, size, tail, &h, sizeof(h));
			if (h.size < sizeof(h))
				break;
			if (h.type == PERF_RECORD_LOST) {
				uint64_t v[2];

				ring_copy(data, size, tail + sizeof(h), v, sizeof(v));
				lost += v[1];
			} else if (h.type == PERF_RECORD_MMAP2 && h.size > sizeof(m) + 16 &&
				   h.size <= sizeof(rec) && !(h.misc & MISC_BUILD_ID)) {
				ring_copy(data, size, tail, rec, h.size);
				memcpy(&m, rec, sizeof(m));
				name = h.size - sizeof(m) - 16;
				memset(&w->e, 0, offsetof(struct map_event, path));
				memcpy(w->e.path, rec + sizeof(m),
				       MT_MIN(name, sizeof(w->e.path) - 1));
				w->e.path[MT_MIN(name, sizeof(w->e.path) - 1)] = '\0';
				memcpy(&w->e.time, rec + h.size - 8, 8);
				w->e.pid = (pid_t)m.pid;
				w->e.start = m.addr;
				w->e.len = m.len;
				w->e.offset = m.pgoff;
				w->e.ino = m.ino;
				fn(ctx, &w->e);
			}
			tail += h.size;
		}
		__atomic_store_n(&pg->data_tail, tail, __ATOMIC_RELEASE);
	}
	return lost;
}

void mapwatch__close(struct mapwatch *w)
{
	size_t i;

	if (!w)
		return;
	for (i = 0; i < w->n; i++) {
		munmap(w->rings[i], (RING_PAGES + 1) * w->page);
		close(w->fds[i]);
	}
	free(w->fds);
	free(w->rings);
	free(w);
}
