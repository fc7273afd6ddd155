// SPDX-License-Identifier: Apache-2.0
/* The dynamic linker's cache, as a process sees it: name -> path. */
#include "target/ldcache.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "target/root.h"

/* glibc sysdeps/generic/dl-cache.h: CACHEMAGIC_VERSION_NEW and its structs. */
#define MAGIC_NEW "glibc-ld.so.cache1.1"
#define MAGIC_OLD "ld.so-1.7.0"
#define CACHE_MAX (64u << 20)

struct head {
	char magic[20];
	uint32_t nlibs;
	uint32_t len_strings;
	uint32_t unused[5];
};

struct entry {
	int32_t flags;
	uint32_t key, value;
	uint32_t osversion;
	uint64_t hwcap;
};

struct old_head {
	char magic[12];
	uint32_t nlibs;
};

int ldcache__parse(const char *base, size_t left,
		   int (*fn)(void *ctx, const char *name, const char *path), void *ctx)
{
	struct head h;
	struct old_head o;
	size_t i;
	int r = 0;

	if (left > sizeof(o) && memcmp(base, MAGIC_OLD, sizeof(MAGIC_OLD) - 1) == 0) {
		/* The old table (12-byte entries) first, then the new one, 8-aligned. */
		size_t skip;

		memcpy(&o, base, sizeof(o));
		skip = (sizeof(o) + (size_t)o.nlibs * 12 + 7) & ~(size_t)7;
		if (skip >= left)
			return 0;
		base += skip;
		left -= skip;
	}
	if (left < sizeof(h) || memcmp(base, MAGIC_NEW, sizeof(h.magic)) != 0)
		return 0;
	memcpy(&h, base, sizeof(h));
	if (h.nlibs > (left - sizeof(h)) / sizeof(struct entry))
		return 0;
	for (i = 0; !r && i < h.nlibs; i++) {
		struct entry e;

		memcpy(&e, base + sizeof(h) + i * sizeof(e), sizeof(e));
		/* Texts that do not end within the file are none. */
		if (e.key < left && e.value < left && memchr(base + e.key, '\0', left - e.key) &&
		    memchr(base + e.value, '\0', left - e.value))
			r = fn(ctx, base + e.key, base + e.value);
	}
	return r;
}

int ldcache__each(int root, int (*fn)(void *ctx, const char *name, const char *path), void *ctx)
{
	int fd = root__open_file(root, "/etc/ld.so.cache"), r;
	ssize_t len;
	char *buf;

	if (fd < 0)
		return 0;
	len = fd__read_all(fd, CACHE_MAX, &buf);
	close(fd);
	if (len < 0)
		return 0;
	r = ldcache__parse(buf, (size_t)len, fn, ctx);
	free(buf);
	return r;
}
