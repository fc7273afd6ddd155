// SPDX-License-Identifier: Apache-2.0
/*
 * Unwind rows on disk, by build-id: a second attach has them at once.
 *
 * A file of it is read only if it is ours and nobody else could have written it,
 * and is held against its own hash and bounds: rows that are wrong would show
 * wrong stacks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "symbol/symbol.h"

#define MAGIC 0x3257556d /* "mUW2": the 2 is the version of format and of what rules mean */
#define MAX_CACHED (1UL << 30)

struct cache_head {
	uint32_t magic;
	uint32_t id_len;
	uint8_t id[BUILD_ID_MAX];
	uint64_t base;
	uint32_t n_pages, n_rows, n_rules;
	uint32_t n_other, n_crowded;
	uint32_t row_size, rule_size, page_size; /* as compiled */
	uint64_t hash; /* of pages, rows and rules */
};

static size_t body_size(const struct cache_head *h)
{
	return (size_t)h->n_pages * sizeof(struct unwind_page) +
	       (size_t)h->n_rows * sizeof(struct mt_uw_row) +
	       (size_t)h->n_rules * sizeof(struct mt_uw_rule);
}

static uint64_t hash_parts(const struct unwind_table *t)
{
	uint64_t h = hash__bytes(t->pages, t->n_pages * sizeof(*t->pages), 5);

	h = hash__bytes(t->rows, t->n_rows * sizeof(*t->rows), h);
	return hash__bytes(t->rules, t->n_rules * sizeof(*t->rules), h);
}

static void head_of(const struct unwind_table *t, const uint8_t *id, size_t id_len,
		    struct cache_head *h)
{
	*h = (struct cache_head){
		.magic = MAGIC,
		.id_len = (uint32_t)id_len,
		.base = t->base,
		.n_pages = t->n_pages,
		.n_rows = t->n_rows,
		.n_rules = t->n_rules,
		.n_other = t->n_other,
		.n_crowded = t->n_crowded,
		.row_size = sizeof(*t->rows),
		.rule_size = sizeof(*t->rules),
		.page_size = sizeof(*t->pages),
		.hash = hash_parts(t),
	};
	memcpy(h->id, id, id_len);
}

static void name_of(const uint8_t *id, size_t id_len, char name[2 * BUILD_ID_MAX + 16])
{
	size_t i;

	for (i = 0; i < id_len; i++)
		sprintf(name + 2 * i, "%02x", id[i]);
	memcpy(name + 2 * id_len, ".rows", sizeof(".rows"));
}

static int read_all(int fd, void *p, size_t n)
{
	char *s = p;

	while (n) {
		ssize_t r = read(fd, s, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r ? -errno : -EINVAL;
		s += r;
		n -= (size_t)r;
	}
	return 0;
}

/* Every index within its bounds, as the programs of the kernel take them without a look. */
static bool holds(const struct unwind_table *t)
{
	uint32_t i;

	if (!t->n_rules || t->rules[0].cfa != MT_CFA_NONE || t->base % MT_UW_PAGE)
		return false;
	for (i = 0; i < t->n_pages; i++)
		if (t->pages[i].n > MT_UW_CHUNK || t->pages[i].first > t->n_rows ||
		    t->pages[i].n > t->n_rows - t->pages[i].first)
			return false;
	for (i = 0; i < t->n_rows; i++)
		if (t->rows[i].rule >= t->n_rules)
			return false;
	return true;
}

static int load(int fd, const uint8_t *id, size_t id_len, struct unwind_table **out)
{
	struct unwind_table *t;
	struct cache_head h;
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
		return -EPERM;
	err = read_all(fd, &h, sizeof(h));
	if (err)
		return err;
	if (h.magic != MAGIC || h.id_len != id_len || memcmp(h.id, id, id_len) != 0 ||
	    h.row_size != sizeof(struct mt_uw_row) || h.rule_size != sizeof(struct mt_uw_rule) ||
	    h.page_size != sizeof(struct unwind_page) || !h.n_rules || body_size(&h) > MAX_CACHED ||
	    (uint64_t)st.st_size != sizeof(h) + body_size(&h))
		return -EINVAL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->base = h.base;
	t->n_pages = h.n_pages;
	t->n_rows = h.n_rows;
	t->n_rules = h.n_rules;
	t->n_other = h.n_other;
	t->n_crowded = h.n_crowded;
	t->pages = calloc((size_t)h.n_pages + 1, sizeof(*t->pages));
	t->rows = calloc((size_t)h.n_rows + 1, sizeof(*t->rows));
	t->rules = calloc(h.n_rules, sizeof(*t->rules));
	err = t->pages && t->rows && t->rules ? 0 : -ENOMEM;
	if (!err)
		err = read_all(fd, t->pages, h.n_pages * sizeof(*t->pages));
	if (!err)
		err = read_all(fd, t->rows, h.n_rows * sizeof(*t->rows));
	if (!err)
		err = read_all(fd, t->rules, h.n_rules * sizeof(*t->rules));
	if (!err && (hash_parts(t) != h.hash || !holds(t)))
		err = -EINVAL;
	if (err)
		unwind_table__free(t);
	else
		*out = t;
	return err;
}

int unwind_cache__load(int dir, const uint8_t *id, size_t id_len, struct unwind_table **out)
{
	char name[2 * BUILD_ID_MAX + 16];
	int fd, err;

	*out = NULL;
	if (!id_len || id_len > BUILD_ID_MAX)
		return -ENOENT;
	name_of(id, id_len, name);
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = load(fd, id, id_len, out);
	close(fd);
	return err;
}

int unwind_cache__save(int dir, const uint8_t *id, size_t id_len, const struct unwind_table *t)
{
	char name[2 * BUILD_ID_MAX + 16], draft[2 * BUILD_ID_MAX + 40];
	struct cache_head h;
	int fd, err;

	if (!id_len || id_len > BUILD_ID_MAX)
		return -ENOENT;
	name_of(id, id_len, name);
	/* Whole or not at all, also when two memtaps write it. */
	snprintf(draft, sizeof(draft), ".%s.%d", name, (int)getpid());
	fd = openat(dir, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	head_of(t, id, id_len, &h);
	err = fd__write_all(fd, &h, sizeof(h));
	if (!err)
		err = fd__write_all(fd, t->pages, t->n_pages * sizeof(*t->pages));
	if (!err)
		err = fd__write_all(fd, t->rows, t->n_rows * sizeof(*t->rows));
	if (!err)
		err = fd__write_all(fd, t->rules, t->n_rules * sizeof(*t->rules));
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(dir, draft, dir, name))
		err = -errno;
	if (err)
		unlinkat(dir, draft, 0);
	return err;
}

int unwind_cache__open(const char *path)
{
	struct stat st;
	int err = path__mkdirs(path), fd;

	if (err)
		return err;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Where others can write they could put rows of their own. */
	if (fstat(fd, &st) || st.st_uid != geteuid() || st.st_mode & 022) {
		close(fd);
		return -EPERM;
	}
	return fd;
}
