// SPDX-License-Identifier: Apache-2.0
/* Python method tables that code fills in at import: read from a live process. */
#include "probe/pymethod.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/base.h"
#include "probe/elf.h"
#include "target/target.h"

#define MAX_STRINGS 16 /* places that hold the text of one method name */
#define MAX_DATA (64u << 20)

struct where {
	const struct elf_image *img;
	pid_t pid;
	uint64_t dev, ino;
	uint64_t bias;
	bool found;
};

static int find_bias(void *ctx, const struct mapping *m)
{
	struct where *w = ctx;
	struct stat st;
	size_t i;
	int fd;

	if (m->ino != w->ino)
		return 0;
	fd = mapping__open(w->pid, m);
	if (fd < 0)
		return 0;
	i = fstat(fd, &st) || st.st_dev != w->dev || st.st_ino != w->ino;
	close(fd);
	if (i)
		return 0;
	for (i = 0; i < w->img->nsegs; i++) {
		const struct elf_seg *s = &w->img->segs[i];

		/* The mapping starts at the page of the segment's first byte. */
		if (m->offset > s->off || s->off - m->offset >= 65536 || !(s->flags & PF_X))
			continue;
		w->bias = m->start - m->offset - (s->vaddr - s->off);
		w->found = true;
		return 1;
	}
	return 0;
}

/* Addresses of the text `method`, as a whole string, in read-only file data. */
static size_t find_strings(const struct elf_image *img, const char *method, uint64_t *out)
{
	size_t len = strlen(method) + 1, n = 0, i;

	for (i = 0; i < img->nsegs && n < MAX_STRINGS; i++) {
		const struct elf_seg *s = &img->segs[i];
		const uint8_t *p = img->data + s->off, *end = p + s->filesz;

		if (s->flags & PF_W)
			continue;
		while (n < MAX_STRINGS && (p = memmem(p, (size_t)(end - p), method, len))) {
			if (p == img->data + s->off || p[-1] == '\0')
				out[n++] = s->vaddr + (uint64_t)(p - (img->data + s->off));
			p += len;
		}
	}
	return n;
}

/* The function behind a word that points at one of the strings. */
static int scan(struct elf_image *img, const struct where *w, const uint64_t *words, size_t n,
		const uint64_t *strings, size_t n_strings, uint64_t *vaddr)
{
	size_t i, k;

	for (i = 0; i + 1 < n; i++) {
		const struct fde *f;
		uint64_t fn;

		for (k = 0; k < n_strings; k++)
			if (words[i] == strings[k] + w->bias)
				break;
		if (k == n_strings)
			continue;
		fn = words[i + 1] - w->bias;
		f = elf_image__fde_at(img, fn);
		if (!f || f->start != fn || *vaddr == fn)
			continue;
		if (*vaddr)
			return -EEXIST;
		*vaddr = fn;
	}
	return 0;
}

int pymethod__find_live(struct elf_image *img, pid_t pid, uint64_t dev, uint64_t ino,
			const char *method, uint64_t *vaddr)
{
	struct where w = { .img = img, .pid = pid, .dev = dev, .ino = ino };
	uint64_t strings[MAX_STRINGS];
	size_t n, i;
	int err = 0;

	*vaddr = 0;
	proc__each_mapping(pid, find_bias, &w);
	if (!w.found)
		return -ENOENT;
	n = find_strings(img, method, strings);
	if (!n)
		return -ENOENT;
	for (i = 0; !err && i < img->nsegs; i++) {
		const struct elf_seg *s = &img->segs[i];
		size_t len = (size_t)MT_MIN(s->memsz, (uint64_t)MAX_DATA) & ~(size_t)7;
		struct iovec local, remote;
		uint64_t *buf;
		ssize_t got;

		if (!(s->flags & PF_W) || !len || (s->vaddr & 7))
			continue;
		buf = malloc(len);
		if (!buf)
			return -ENOMEM;
		local = (struct iovec){ buf, len };
		remote = (struct iovec){ (void *)(uintptr_t)(s->vaddr + w.bias), len };
		got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
		if (got > 0)
			err = scan(img, &w, buf, (size_t)got / 8, strings, n, vaddr);
		free(buf);
	}
	return err ? err : *vaddr ? 0 : -ENOENT;
}

static int find_python(void *ctx, const struct mapping *m)
{
	const char *base = strrchr(m->path, '/') + 1;
	int minor = 0;

	if (sscanf(base, "libpython3.%d", &minor) == 1 || sscanf(base, "python3.%d", &minor) == 1)
		*(int *)ctx = minor;
	return *(int *)ctx != 0;
}

int pymethod__python_minor(pid_t pid)
{
	int minor = 0;

	proc__each_mapping(pid, find_python, &minor);
	return minor;
}
