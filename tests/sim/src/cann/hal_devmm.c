// SPDX-License-Identifier: Apache-2.0
/* Simulated driver: device memory is host memory, in an address range of its own, with a capacity.
 */
#include "hal_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

pthread_mutex_t devmm_lock = PTHREAD_MUTEX_INITIALIZER;

#define BUCKETS 16384U
static struct devmm_block *table[BUCKETS];
static uint64_t used[HAL_MAXDEV];

/* The shared virtual memory of the real driver lies here too. */
#define VA_BASE 0x124000000000ULL
#define VA_STEP (2ULL << 20)
static uint64_t va_next = VA_BASE;

/* Ranges given back, so that an address comes again for a block of the same size, as it does there.
 */
#define RANGES 256
static struct {
	uint64_t addr, size;
} ranges[RANGES];
static unsigned int nranges;

static unsigned int bucket(const void *p)
{
	uint64_t x = (uint64_t)(uintptr_t)p >> 12;

	return (unsigned int)((x ^ (x >> 9)) & (BUCKETS - 1));
}

static uint64_t capacity(void)
{
	static uint64_t cap;

	if (!cap) {
		const char *e = getenv("SIM_HBM_BYTES");

		cap = e ? strtoull(e, NULL, 0) : 64ULL << 30;
		if (!cap)
			cap = 1;
	}
	return cap;
}

struct devmm_block *devmm_insert(void *addr, uint64_t size, uint64_t charged, int dev,
				 enum devmm_kind kind)
{
	struct devmm_block *b = malloc(sizeof(*b));
	unsigned int h = bucket(addr);

	if (!b)
		return NULL;
	*b = (struct devmm_block){ addr, size, charged, dev, kind, table[h] };
	table[h] = b;
	return b;
}

/* Takes the block out of the table; the caller frees it. */
struct devmm_block *devmm_take(void *addr, enum devmm_kind kind)
{
	struct devmm_block **pp = &table[bucket(addr)];

	for (; *pp; pp = &(*pp)->next) {
		struct devmm_block *b = *pp;

		if (b->addr == addr && b->kind == kind) {
			*pp = b->next;
			return b;
		}
	}
	return NULL;
}

void *devmm_map(uint64_t size, int prot, void *want)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	unsigned int i;
	void *p;
	int k;

	if (want) {
		p = mmap(want, size, prot, flags | MAP_FIXED_NOREPLACE, -1, 0);
		if (p == want)
			return p;
		if (p != MAP_FAILED)
			munmap(p, size);
	}
	for (i = nranges; i-- > 0;) {
		if (ranges[i].size != size)
			continue;
		p = mmap((void *)(uintptr_t)ranges[i].addr, size, prot, flags | MAP_FIXED_NOREPLACE,
			 -1, 0);
		ranges[i] = ranges[--nranges];
		if (p != MAP_FAILED)
			return p;
	}
	/* A few tries: something else may lie there, under a tool that loads at odd addresses. */
	for (k = 0; k < 16; k++) {
		void *at = (void *)(uintptr_t)va_next;

		va_next += (size + VA_STEP - 1) & ~(VA_STEP - 1);
		p = mmap(at, size, prot, flags | MAP_FIXED_NOREPLACE, -1, 0);
		if (p == at)
			return p;
		if (p != MAP_FAILED)
			munmap(p, size);
		else if (errno == ENOMEM)
			break;
	}
	p = mmap(NULL, size, prot, flags, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

void devmm_unmap(void *addr, uint64_t size)
{
	munmap(addr, size);
	if (nranges == RANGES)
		memmove(ranges, ranges + 1, --nranges * sizeof(ranges[0]));
	ranges[nranges].addr = (uint64_t)(uintptr_t)addr;
	ranges[nranges++].size = size;
}

int devmm_charge(int dev, uint64_t size)
{
	if (used[dev] + size > capacity() || used[dev] + size < size)
		return -1;
	used[dev] += size;
	return 0;
}

void devmm_uncharge(int dev, uint64_t size)
{
	used[dev] -= size < used[dev] ? size : used[dev];
}

void devmm_info(uint32_t dev, uint64_t *total, uint64_t *left)
{
	*total = capacity();
	*left = dev < HAL_MAXDEV ? capacity() - used[dev] : 0;
}
