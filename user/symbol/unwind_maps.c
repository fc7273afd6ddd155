// SPDX-License-Identifier: Apache-2.0
/* The rows of an unwind_store in maps of the kernel. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "symbol/symbol.h"

/* Entries are written one by one where the kernel knows no batches (5.6) for a map. */
static int write_many(int fd, uint32_t first, const void *values, size_t size, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		uint32_t key = first + i;

		if (bpf_map_update_elem(fd, &key, (const char *)values + i * size, BPF_ANY))
			return -errno;
	}
	return 0;
}

static int write_batch(int fd, uint32_t first, const void *values, size_t size, uint32_t n)
{
	LIBBPF_OPTS(bpf_map_batch_opts, o);
	uint32_t *keys, i, count = n;
	int err;

	if (n < 8)
		return write_many(fd, first, values, size, n);
	keys = malloc(n * sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		keys[i] = first + i;
	err = bpf_map_update_batch(fd, keys, values, &count, &o);
	free(keys);
	return err ? write_many(fd, first, values, size, n) : 0;
}

/* A chunk is a map of its own, so that memory is taken as rows come. */
static int put_chunk(void *ctx, uint32_t no, const struct mt_uw_chunk *c)
{
	struct unwind_maps *m = ctx;
	uint32_t zero = 0;
	int fd, err = 0;

	if (!c) {
		if (m->open_fd >= 0 && m->open_no == no) {
			close(m->open_fd);
			m->open_fd = -1;
		}
		return bpf_map_delete_elem(m->chunks, &no) ? -errno : 0;
	}
	if (m->open_fd >= 0 && m->open_no == no)
		return bpf_map_update_elem(m->open_fd, &zero, c, BPF_ANY) ? -errno : 0;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "uw_chunk", sizeof(zero), sizeof(*c), 1, NULL);
	if (fd < 0)
		return -errno;
	/* Filled before it can be seen. */
	if (bpf_map_update_elem(fd, &zero, c, BPF_ANY) ||
	    bpf_map_update_elem(m->chunks, &no, &fd, BPF_ANY))
		err = -errno;
	if (err) {
		close(fd);
		return err;
	}
	if (m->open_fd >= 0)
		close(m->open_fd); /* the outer map keeps it */
	m->open_fd = fd;
	m->open_no = no;
	return 0;
}

static int put_pages(void *ctx, uint32_t first, const struct mt_uw_page *p, uint32_t n)
{
	return write_batch(((struct unwind_maps *)ctx)->pages, first, p, sizeof(*p), n);
}

static int put_rules(void *ctx, uint32_t first, const struct mt_uw_rule *r, uint32_t n)
{
	return write_batch(((struct unwind_maps *)ctx)->rules, first, r, sizeof(*r), n);
}

static int put_maps(void *ctx, uint32_t first, const struct mt_uw_map *m, uint32_t n)
{
	return write_batch(((struct unwind_maps *)ctx)->maps, first, m, sizeof(*m), n);
}

static int put_proc(void *ctx, pid_t pid, const struct mt_uw_proc *p)
{
	struct unwind_maps *m = ctx;
	uint32_t key = (uint32_t)pid;

	if (!p) {
		bpf_map_delete_elem(m->procs, &key);
		return 0;
	}
	return bpf_map_update_elem(m->procs, &key, p, BPF_ANY) ? -errno : 0;
}

struct unwind_sink unwind_maps__sink(struct unwind_maps *m)
{
	m->open_fd = -1;
	return (struct unwind_sink){ m,	       put_chunk, put_pages, put_rules,
				     put_maps, put_proc,  NULL,	     NULL };
}

void unwind_maps__close(struct unwind_maps *m)
{
	if (m->open_fd >= 0)
		close(m->open_fd);
	m->open_fd = -1;
}
