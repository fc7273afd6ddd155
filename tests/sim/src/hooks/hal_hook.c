// SPDX-License-Identifier: Apache-2.0
/*
 * Stand-in for the vendor's libleaks_ascend_hal_hook.so: replaces the driver's
 * exported allocation functions by preloading, and calls the real ones.
 */
#include "hooks.h"

enum { ALLOC, FREE, CREATE, RELEASE };
static struct hook_count counts[] = {
	[ALLOC] = { "halMemAlloc", 0 },
	[FREE] = { "halMemFree", 0 },
	[CREATE] = { "halMemCreate", 0 },
	[RELEASE] = { "halMemRelease", 0 },
};

#define REAL(type, name)                                       \
	static type fn;                                        \
	type call = __atomic_load_n(&fn, __ATOMIC_RELAXED);    \
	if (!call) {                                           \
		call = (type)hook_real(name);                  \
		__atomic_store_n(&fn, call, __ATOMIC_RELAXED); \
	}

typedef int (*alloc_fn)(void **, unsigned long long, unsigned long long);
typedef int (*free_fn)(void *);
typedef int (*create_fn)(void **, size_t, const void *, uint64_t);

API int halMemAlloc(void **pp, unsigned long long size, unsigned long long flag);
API int halMemFree(void *pp);
API int halMemCreate(void **handle, size_t size, const void *prop, uint64_t flag);
API int halMemRelease(void *handle);

int halMemAlloc(void **pp, unsigned long long size, unsigned long long flag)
{
	REAL(alloc_fn, "halMemAlloc")
	counts[ALLOC].calls++;
	return call(pp, size, flag);
}

int halMemFree(void *pp)
{
	REAL(free_fn, "halMemFree")
	counts[FREE].calls++;
	return call(pp);
}

int halMemCreate(void **handle, size_t size, const void *prop, uint64_t flag)
{
	REAL(create_fn, "halMemCreate")
	counts[CREATE].calls++;
	return call(handle, size, prop, flag);
}

int halMemRelease(void *handle)
{
	REAL(free_fn, "halMemRelease")
	counts[RELEASE].calls++;
	return call(handle);
}

static __attribute__((destructor)) void told(void)
{
	hook_counts_write(counts, sizeof(counts) / sizeof(counts[0]));
}
