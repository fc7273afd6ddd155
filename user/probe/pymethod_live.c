// SPDX-License-Identifier: Apache-2.0
/* Python method tables that code fills in at import: read from a live process. */
#include "probe/pymethod.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "target/target.h"

#define CHUNK 65536u /* words read at once: 512 KiB */
#define MAX_DATA (64u << 20) /* of all writable segments together */
/*
 * Words of a PyModuleDef from m_name on (CPython, moduleobject.h): the name, its
 * text, -1 for a module without state of its own, the methods.
 */
#define DEF_SIZE 2
#define DEF_METHODS 3
#define MAX_DEFS 64
/* Words of a PyMethodDef: name, function, flags, text. */
#define ENTRY_WORDS 4
#define MAX_ENTRIES 512 /* a table ends with a name of NULL; torch_npu._C has some 200 */

struct look {
	struct elf_image *img;
	pid_t pid;
	bool (*same)(void *ctx, int fd);
	void *ctx;
	uint64_t bias;
	bool mapped;
	struct pymethod *m;
	size_t n;
	uint64_t lo, hi; /* all their names lie there */
	uint64_t defs[MAX_DEFS]; /* tables outside of the file */
	size_t n_defs;
};

static int find_bias(void *ctx, const struct mapping *m)
{
	struct look *l = ctx;
	bool same;
	size_t i;
	int fd;

	/* Opening is slow, and few have a name that matters. */
	if (!catalogue__wants(strrchr(m->path, '/') + 1))
		return 0;
	fd = mapping__open(l->pid, m);
	if (fd < 0)
		return 0;
	same = l->same(l->ctx, fd);
	close(fd);
	if (!same)
		return 0;
	for (i = 0; i < l->img->nsegs; i++) {
		const struct elf_seg *s = &l->img->segs[i];

		/* The mapping starts at the page of the segment's first byte. */
		if (m->offset > s->off || s->off - m->offset >= 65536 || !(s->flags & PF_X))
			continue;
		l->bias = m->start - m->offset - (s->vaddr - s->off);
		l->mapped = true;
		return 1;
	}
	return 0;
}

/* Bytes read, which may be fewer: at most to the first page that is not there. */
static ssize_t read_words(pid_t pid, uint64_t from, void *buf, size_t len)
{
	return proc__memory(pid, from, buf, len);
}

static bool is_function(struct elf_image *img, uint64_t addr)
{
	const struct elf_seg *s = elf_image__seg(img, addr);
	const struct fde *f;

	/* First what costs nothing: the FDEs of a large file take long to read. */
	if (!s || !(s->flags & PF_X))
		return false;
	f = elf_image__fde_at(img, addr);
	return f && f->start == addr;
}

/* Two words that may be the name and the function of a method. */
static void see_entry(struct look *l, uint64_t name, uint64_t fn)
{
	size_t i;

	name -= l->bias;
	fn -= l->bias;
	if (name < l->lo || name > l->hi)
		return;
	for (i = 0; i < l->n; i++) {
		struct pymethod *m = &l->m[i];

		if (!addr_set__has(&m->at, name) || m->fn == fn || !is_function(l->img, fn))
			continue;
		m->twice = m->twice || m->fn;
		m->fn = fn;
	}
}

/* Words that may be a PyModuleDef whose methods lie elsewhere, on the heap say. */
static void see_def(struct look *l, const uint64_t *w)
{
	const struct elf_seg *s;
	size_t i;

	if (w[DEF_SIZE] != UINT64_MAX || !w[DEF_METHODS] || (w[DEF_METHODS] & 7))
		return;
	s = elf_image__seg(l->img, w[0] - l->bias);
	if (!s || (s->flags & PF_W))
		return;
	for (i = 0; i < l->n_defs; i++)
		if (l->defs[i] == w[DEF_METHODS])
			return;
	if (l->n_defs < MAX_DEFS)
		l->defs[l->n_defs++] = w[DEF_METHODS];
}

/* 0 or -errno; buf has room for a chunk. */
static int scan_data(struct look *l, uint64_t *buf)
{
	size_t budget = MAX_DATA, i, k;

	for (i = 0; i < l->img->nsegs; i++) {
		const struct elf_seg *s = &l->img->segs[i];
		uint64_t at = (s->vaddr + 7) & ~7ULL, end = s->vaddr + s->memsz;

		if (!(s->flags & PF_W))
			continue;
		while (at + 16 <= end && budget) {
			size_t len = MT_MIN(MT_MIN((size_t)(end - at) & ~(size_t)7, budget),
					    CHUNK * sizeof(*buf));
			ssize_t got = read_words(l->pid, at + l->bias, buf, len);
			size_t n = got > 0 ? (size_t)got / 8 : 0;

			if (got == -ESRCH || got == -EPERM || got == -EACCES || got == -ETIMEDOUT ||
			    got == -EBUSY)
				return (int)got;
			for (k = 0; k + 1 < n; k++)
				see_entry(l, buf[k], buf[k + 1]);
			for (k = 0; k + DEF_METHODS < n; k++)
				see_def(l, &buf[k]);
			if (n < len / 8 || n <= DEF_METHODS)
				break;
			/* Once more what may lie across the edge. */
			at += (n - DEF_METHODS) * 8;
			budget -= MT_MIN(budget, (n - DEF_METHODS) * 8);
		}
	}
	return 0;
}

static void scan_table(struct look *l, uint64_t at, uint64_t *buf)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), i, got_words = 0;

	/* By pages: the last ones may not be there. */
	while (got_words < MAX_ENTRIES * ENTRY_WORDS) {
		uint64_t from = at + got_words * 8;
		ssize_t got = read_words(l->pid, from, buf + got_words, page - from % page);

		if (got < 8)
			break;
		got_words += (size_t)got / 8;
	}
	for (i = 0; i + 1 < got_words && buf[i]; i += ENTRY_WORDS)
		see_entry(l, buf[i], buf[i + 1]);
}

int pymethod__look(struct elf_image *img, pid_t pid, bool (*same)(void *ctx, int fd), void *ctx,
		   struct pymethod *m, size_t n)
{
	struct look l = { .img = img, .pid = pid, .same = same, .ctx = ctx, .m = m, .n = n };
	uint64_t *buf;
	size_t i, k;
	int err;

	l.lo = UINT64_MAX;
	for (i = 0; i < n; i++) {
		m[i].fn = 0;
		m[i].twice = false;
		for (k = 0; k < m[i].at.n; k++) {
			l.lo = MT_MIN(l.lo, m[i].at.v[k]);
			l.hi = MT_MAX(l.hi, m[i].at.v[k]);
		}
	}
	err = proc__each_mapping(pid, find_bias, &l);
	if (err < 0)
		return err;
	if (!l.mapped)
		return -ESRCH;
	buf = malloc(CHUNK * sizeof(*buf));
	if (!buf)
		return -ENOMEM;
	err = scan_data(&l, buf);
	for (i = 0; !err && i < l.n_defs; i++)
		scan_table(&l, l.defs[i], buf);
	free(buf);
	if (err)
		return err;
	for (i = 0; i < n; i++)
		err += m[i].fn && !m[i].twice;
	return err;
}

static int find_python(void *ctx, const struct mapping *m)
{
	const char *base = strrchr(m->path, '/') + 1;
	int minor = 0;

	if (sscanf(base, "libpython3.%d", &minor) == 1 || sscanf(base, "python3.%d", &minor) == 1)
		*(int *)ctx = minor;
	return *(int *)ctx != 0;
}

int pymethod__python_minor(const char *path, pid_t pid)
{
	const char *p = strstr(path, "/python3.");
	int minor = 0;

	if (pid)
		proc__each_mapping(pid, find_python, &minor);
	if (minor)
		return minor;
	if (p)
		return atoi(p + 9);
	p = strstr(path, ".cpython-3");
	return p ? atoi(p + 10) : 0;
}
