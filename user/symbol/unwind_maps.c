// SPDX-License-Identifier: Apache-2.0
/* The rows of an unwind_store in maps of the kernel. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbol/symbol.h"

#define MAX_OWNERS 65536 /* uw_procs has 16384 */

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

/*
 * An exec in between has taken the place away (procs__exec), or the end of the process: then what
 * was read is of another program, and nothing is put there.
 */
static int put_proc(void *ctx, pid_t pid, const struct mt_uw_proc *p)
{
	struct unwind_maps *m = ctx;
	uint32_t key = (uint32_t)pid;

	if (!p) {
		bpf_map_delete_elem(m->procs, &key);
		return 0;
	}
	if (!bpf_map_update_elem(m->procs, &key, p, BPF_EXIST))
		return 0;
	return m->full && errno == ENOENT ? -E2BIG : -errno;
}

/* The place is there from before its mappings are read; a child has its parent's. */
static void take_place(void *ctx, pid_t pid)
{
	struct unwind_maps *m = ctx;
	const struct mt_uw_proc none = { .owner = (uint32_t)pid };
	uint32_t key = (uint32_t)pid;

	m->full = bpf_map_update_elem(m->procs, &key, &none, BPF_NOEXIST) && errno == E2BIG;
}

/* What was mapped over has no generation any more. */
static bool has_proc(void *ctx, pid_t pid, const struct mt_uw_proc *p, const struct mt_uw_map *maps)
{
	struct unwind_maps *m = ctx;
	uint32_t key = (uint32_t)pid;
	struct mt_uw_proc now;

	return !bpf_map_lookup_elem(m->procs, &key, &now) && !memcmp(&now, p, sizeof(now));
}

static void each_owner(void *ctx, void (*fn)(void *to, const struct mt_uw_proc *p), void *to)
{
	struct unwind_maps *m = ctx;
	uint32_t key, next, *prev = NULL, n = 0;
	struct mt_uw_proc p;

	/* Keys that go make it begin anew: not for ever. */
	while (n++ < MAX_OWNERS && !bpf_map_get_next_key(m->procs, prev, &next)) {
		key = next;
		prev = &key;
		if (!bpf_map_lookup_elem(m->procs, &key, &p))
			fn(to, &p);
	}
}

struct unwind_sink unwind_maps__sink(struct unwind_maps *m)
{
	m->open_fd = -1;
	return (struct unwind_sink){ .ctx = m,
				     .chunk = put_chunk,
				     .pages = put_pages,
				     .rules = put_rules,
				     .maps = put_maps,
				     .proc = put_proc,
				     .look = take_place,
				     .has = has_proc,
				     .owners = each_owner };
}

void unwind_maps__close(struct unwind_maps *m)
{
	if (m->open_fd >= 0)
		close(m->open_fd);
	m->open_fd = -1;
}
