// SPDX-License-Identifier: Apache-2.0
/* Patterns without a framework: every kind of ACL and driver memory, given back within the step. */
#include "sim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* aclrtPhysicalMemProp and aclrtMallocConfig as the API has them. */
struct phys_prop {
	int32_t handle_type, alloc_type, attr;
	uint32_t id;
	int32_t type;
	uint64_t reserve;
};

struct cfg_attr {
	int32_t attr;
	uint32_t value[2];
};

struct cfg {
	struct cfg_attr *attrs;
	size_t n;
};

static void device_kinds(struct worker *w)
{
	struct cfg_attr at = { 1, { 3, 0 } }; /* module HCCL */
	struct cfg cfg = { &at, 1 };
	void *p[6] = { NULL };
	int i;

	lib.aclrtMalloc(&p[0], tensor_size(w), 0);
	lib.aclrtMallocAlign32(&p[1], tensor_size(w), (int)(rnd(w) % 3));
	lib.aclrtMallocCached(&p[2], tensor_size(w), 2);
	lib.aclrtMallocWithCfg(&p[3], tensor_size(w), 1, &cfg);
	lib.aclrtMemAllocManaged(&p[4], 1 + rnd(w) % 65536, 0);
	lib.aclrtMalloc(&p[5], tensor_size(w), 0x100); /* DDR */
	if (p[1])
		lib.aclrtMemset(p[1], 32, 0, 32);
	for (i = 0; i < 6; i++)
		if (p[i])
			lib.aclrtFree(p[i]);
	w->ops += 12;
}

static void host_kinds(struct worker *w)
{
	size_t n = 4096 * (1 + rnd(w) % 16);
	void *pinned = NULL, *mine = aligned_alloc(4096, n), *dev = NULL;

	lib.aclrtMallocHost(&pinned, n);
	if (pinned && mine) {
		lib.aclrtMemcpy(pinned, n, mine, n < 4096 ? n : 4096, 0);
		lib.aclrtFreeHost(pinned);
	}
	if (mine) {
		lib.aclrtHostRegister(mine, n, 0, &dev);
		lib.aclrtHostUnregister(mine);
		/* with the flag that makes it an event for the vendor's tool, then without */
		lib.aclrtHostRegisterV2(mine, n, w->steps & 1 ? 0x10000000 : 0);
		lib.aclrtHostUnregister(mine);
	}
	free(mine);
	w->ops += 6;
}

static void mapped(struct worker *w)
{
	const size_t granule = 2 << 20;
	struct phys_prop prop = { .attr = 4, .id = (uint32_t)w->device, .type = 1 };
	void *va = NULL, *h[3] = { NULL };
	int i;

	if (lib.aclrtReserveMemAddress(&va, 3 * granule, 0, NULL, 1))
		return;
	for (i = 0; i < 3; i++) {
		if (lib.aclrtMallocPhysical(&h[i], granule, &prop, 0))
			break;
		lib.aclrtMapMem((char *)va + (size_t)i * granule, granule, 0, h[i], 0);
	}
	while (i-- > 0) {
		lib.aclrtUnmapMem((char *)va + (size_t)i * granule);
		lib.aclrtFreePhysical(h[i]);
	}
	lib.aclrtReleaseMemAddress(va);
	w->ops += 6;
}

static void pooled(struct worker *w)
{
	void *pool = NULL, *a = NULL, *b = NULL;

	if (lib.aclrtMemPoolCreate(&pool, NULL))
		return;
	lib.aclrtMemPoolMallocAsync(&a, 100000, pool, w->stream);
	lib.aclrtMemPoolMallocAsync(&b, 1 + rnd(w) % 500000, pool, w->stream);
	if (a)
		lib.aclrtMemPoolFreeAsync(a, w->stream);
	if (b)
		lib.aclrtMemPoolFreeAsync(b, w->stream);
	lib.aclrtMemPoolDestroy(pool);
	w->ops += 4;
}

/* The driver itself: other virtual types and modules; a free of what was never allocated. */
static void driver_calls(struct worker *w)
{
	static int (*alloc)(void **, unsigned long long, unsigned long long);
	static int (*release)(void *);
	static const unsigned char modules[] = { 0, 3, 7, 33, 45, 48, 200 };
	unsigned long long flag;
	void *p = NULL;

	if (!alloc) {
		*(void **)&release = dlsym(lib.hal, "halMemFree");
		*(void **)&alloc = dlsym(lib.hal, "halMemAlloc");
	}
	flag = (unsigned long long)(w->device & 1023) | (rnd(w) % 8) << 10 | (rnd(w) & 1) << 14 |
	       (rnd(w) & 1) << 17 | (unsigned long long)modules[rnd(w) % sizeof(modules)] << 56;
	if (!alloc(&p, 1 + rnd(w) % (4 << 20), flag))
		release(p);
	if (w->steps % 10 == 0)
		release((void *)0x1000);
	w->ops += 2;
}

void acl_step(struct worker *w)
{
	uint64_t range;
	int i;

	marks_step_begin(w, &range);
	for (i = 0; i < opt.layers; i++)
		device_kinds(w);
	host_kinds(w);
	mapped(w);
	pooled(w);
	driver_calls(w);
	for (i = 0; i < 4; i++)
		launch_one(w);
	if (opt.oom && w->steps % 10 == 9) {
		void *big[512];
		int n = 0;

		while (n < 512 && !lib.aclrtMalloc(&big[n], 256UL << 20, n & 1 ? 2 : 0))
			n++;
		w->oom += n < 512;
		while (n-- > 0)
			lib.aclrtFree(big[n]);
	}
	if (opt.leak) {
		void *p = NULL;

		lib.aclrtMalloc(&p, 4096, 0);
	}
	lib.aclrtSynchronizeStream(w->stream);
	marks_step_end(w, range);
	w->steps++;
}
