// SPDX-License-Identifier: Apache-2.0
/* An allocator of the user for NPUPluggableAllocator, with its own account; compiled by the test. */
#include <stddef.h>
#include <stdint.h>

int aclrtMalloc(void **p, size_t size, int policy);
int aclrtFree(void *p);

struct {
	uint64_t mallocs, frees;
	uint64_t addresses[4096], sizes[4096];
} own;

void *own_malloc(ptrdiff_t size, int device, void *stream)
{
	void *p = NULL;

	if (size <= 0 || aclrtMalloc(&p, (size_t)size, 0))
		return NULL;
	own.addresses[own.mallocs % 4096] = (uintptr_t)p;
	own.sizes[own.mallocs++ % 4096] = (uint64_t)size;
	return p;
}

void own_free(void *p, ptrdiff_t size, int device, void *stream)
{
	own.frees++;
	aclrtFree(p);
}
