/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to target/: the dynamic linker's cache of a process. */
#ifndef MEMTAP_LDCACHE_H
#define MEMTAP_LDCACHE_H

#include <stddef.h>

/*
 * fn for each entry of the cache below a root directory until it returns
 * non-zero; returns that. A missing or odd cache: 0.
 */
int ldcache__each(int root, int (*fn)(void *ctx, const char *name, const char *path), void *ctx);
/* The same for the bytes of a cache, which may be anything. */
int ldcache__parse(const char *buf, size_t len,
		   int (*fn)(void *ctx, const char *name, const char *path), void *ctx);

#endif
