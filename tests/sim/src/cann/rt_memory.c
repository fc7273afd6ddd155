// SPDX-License-Identifier: Apache-2.0
/* Simulated runtime: the memory functions, thin over the chip's driver object. */
#include "rt_driver.h"
#include "hal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

API rtError_t rtMalloc(void **p, uint64_t size, uint32_t type, uint16_t module)
{
	int phys = rt_current_phys();

	if (phys < 0)
		return RT_ERR_CONTEXT_NULL;
	return rt_driver()->dev_alloc(p, size, type, phys, module);
}

API rtError_t rtMallocCached(void **p, uint64_t size, uint32_t type, uint16_t module)
{
	return rtMalloc(p, size, type, module);
}

/* rtMallocConfig_t: attributes of {kind, value}; 1 module id, 2 device id. */
struct cfg_attr {
	int32_t attr;
	union {
		uint16_t module;
		uint32_t device;
		uint32_t word[2];
	} v;
};

struct cfg {
	struct cfg_attr *attrs;
	size_t n;
};

static void read_cfg(const struct cfg *c, uint16_t *module, int *logic)
{
	size_t i;

	for (i = 0; c && i < c->n; i++) {
		if (c->attrs[i].attr == 1)
			*module = c->attrs[i].v.module;
		else if (c->attrs[i].attr == 2)
			*logic = (int)c->attrs[i].v.device;
	}
}

API rtError_t rtsMalloc(void **p, uint64_t size, uint32_t policy, uint32_t advise, void *cfg)
{
	uint16_t module = MODULE_APP;
	int logic = rt_current_logic(), phys;

	read_cfg(cfg, &module, &logic);
	if (logic < 0)
		return RT_ERR_CONTEXT_NULL;
	phys = rt_phys_of(logic);
	if (phys < 0)
		return RT_ERR_INVALID_DEVICEID;
	return rt_driver()->dev_alloc(p, size, policy | advise, phys, module);
}

API rtError_t rtMemAlloc(void **p, uint64_t size, uint32_t policy, uint32_t advise, void *cfg)
{
	return rtsMalloc(p, size, policy, advise, cfg);
}

static rtError_t alloc_kind(void **p, uint64_t size, uint64_t kind, uint16_t module)
{
	int phys = rt_current_phys();

	if (phys < 0)
		return RT_ERR_CONTEXT_NULL;
	return rt_driver()->dev_alloc_kind(p, size, kind, phys, module);
}

API rtError_t rtDvppMalloc(void **p, uint64_t size, uint16_t module)
{
	return alloc_kind(p, size, MEM_DVPP, module);
}

API rtError_t rtDvppMallocWithFlag(void **p, uint64_t size, uint32_t flag, uint16_t module)
{
	return alloc_kind(p, size, MEM_DVPP, module);
}

API rtError_t rtMemAllocManaged(void **p, uint64_t size, uint32_t flag, uint16_t module)
{
	return alloc_kind(p, size, MEM_SVM, module);
}

API rtError_t rtMallocHost(void **p, uint64_t size, uint16_t module)
{
	if (rt_current_logic() < 0)
		return RT_ERR_CONTEXT_NULL;
	return rt_driver()->host_alloc(p, size, module);
}

API rtError_t rtsMallocHost(void **p, uint64_t size, void *cfg)
{
	uint16_t module = MODULE_APP;
	int logic = 0;

	read_cfg(cfg, &module, &logic);
	return rtMallocHost(p, size, module);
}

API rtError_t rtFree(void *p)
{
	return rt_driver()->dev_free(p);
}

API rtError_t rtsFree(void *p)
{
	return rtFree(p);
}

API rtError_t rtDvppFree(void *p)
{
	return rtFree(p);
}

API rtError_t rtFreeWithDevSync(void *p)
{
	return rtFree(p);
}

API rtError_t rtMemFreeManaged(void *p)
{
	return rtFree(p);
}

API rtError_t rtFreeHost(void *p)
{
	return rt_driver()->dev_free(p);
}

API rtError_t rtsFreeHost(void *p)
{
	return rtFreeHost(p);
}

API rtError_t rtFreeHostWithDevSync(void *p)
{
	return rtFreeHost(p);
}

/* ids in the property are logical up to here */
API rtError_t rtMallocPhysical(void **handle, size_t size, rtDrvMemProp_t *prop, uint64_t flags)
{
	rtDrvMemProp_t p = *prop;
	int phys = rt_phys_of((int)prop->devid);

	if (prop->side == 1 && phys < 0)
		return RT_ERR_INVALID_DEVICEID;
	if (phys >= 0)
		p.devid = (uint32_t)phys;
	return rt_driver()->phys_create(handle, size, &p, flags);
}

API rtError_t rtsMemMallocPhysical(void **handle, size_t size, uint32_t policy, void *cfg)
{
	uint16_t module = MODULE_APP;
	int logic = rt_current_logic();
	rtDrvMemProp_t p = { .side = 1, .pg_type = policy & RT_MEMORY_POLICY_NORMAL_ONLY ? 0 : 1 };

	read_cfg(cfg, &module, &logic);
	if (logic < 0)
		return RT_ERR_CONTEXT_NULL;
	p.devid = (uint32_t)logic;
	p.module_id = module;
	return rtMallocPhysical(handle, size, &p, 0);
}

API rtError_t rtFreePhysical(void *handle)
{
	return rt_driver()->phys_release(handle);
}

API rtError_t rtReserveMemAddress(void **va, size_t size, size_t align, void *want, uint64_t flags)
{
	return rt_driver()->va_reserve(va, size, align, want, flags);
}

API rtError_t rtReleaseMemAddress(void *va)
{
	return rt_driver()->va_free(va);
}

API rtError_t rtMapMem(void *va, size_t size, size_t offset, void *handle, uint64_t flags)
{
	return rt_driver()->map(va, size, offset, handle, flags);
}

API rtError_t rtUnmapMem(void *va)
{
	return rt_driver()->unmap(va);
}

API rtError_t rtsHostRegister(void *ptr, uint64_t size, uint32_t type, void **dev)
{
	int phys = rt_current_phys();

	if (phys < 0)
		return RT_ERR_CONTEXT_NULL;
	return rt_driver()->host_register(ptr, size, type & 7, phys, dev);
}

API rtError_t rtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag)
{
	void *dev = NULL;
	int phys = rt_current_phys();

	if (phys < 0)
		return RT_ERR_CONTEXT_NULL;
	/* 0x10000000: pinned for the copy engine, type 5 of the driver's function */
	return rt_driver()->host_register(ptr, size, flag & 0x10000000 ? 5 : 0, phys, &dev);
}

API rtError_t rtsHostUnregister(void *ptr)
{
	int phys = rt_current_phys();

	if (phys < 0)
		return RT_ERR_CONTEXT_NULL;
	return rt_driver()->host_unregister(ptr, phys);
}

API rtError_t rtMemGetInfoEx(uint32_t type, size_t *left, size_t *total)
{
	int phys = rt_current_phys();

	if (phys < 0)
		return RT_ERR_CONTEXT_NULL;
	return rt_driver()->mem_info(phys, left, total);
}

API rtError_t rtMemcpy(void *dst, uint64_t max, const void *src, uint64_t n, uint32_t kind)
{
	if (n > max)
		return RT_ERR_PARAM_INVALID;
	memcpy(dst, src, n);
	return RT_OK;
}

API rtError_t rtMemcpyAsync(void *dst, uint64_t max, const void *src, uint64_t n, uint32_t kind,
			    void *stm)
{
	return rtMemcpy(dst, max, src, n, kind);
}

API rtError_t rtMemset(void *p, uint64_t max, uint32_t value, uint64_t n)
{
	if (n > max)
		return RT_ERR_PARAM_INVALID;
	memset(p, (int)value, n);
	return RT_OK;
}

API rtError_t rtMemsetAsync(void *p, uint64_t max, uint32_t value, uint64_t n, void *stm)
{
	return rtMemset(p, max, value, n);
}

/* ---- stream-ordered pools: a reserved range, first fit by exact size, else from its end ---- */

#define POOL_BYTES (16ULL << 30)
struct piece {
	uint64_t va, size;
	int live;
	struct piece *next;
};

struct pool {
	void *base;
	uint64_t used;
	struct piece *pieces;
	struct pool *next;
};

static struct pool *pools;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;

API rtError_t rtMemPoolCreate(void **pool, const void *props)
{
	struct pool *p = calloc(1, sizeof(*p));
	rtError_t rc;

	if (!p)
		return RT_ERR_MEMORY_ALLOCATION;
	rc = rt_driver()->va_reserve(&p->base, POOL_BYTES, 0, NULL, 0);
	if (rc) {
		free(p);
		return rc;
	}
	pthread_mutex_lock(&pool_lock);
	p->next = pools;
	pools = p;
	pthread_mutex_unlock(&pool_lock);
	*pool = p;
	return RT_OK;
}

API rtError_t rtMemPoolDestroy(void *pool)
{
	struct pool **pp;

	pthread_mutex_lock(&pool_lock);
	for (pp = &pools; *pp && *pp != pool; pp = &(*pp)->next)
		;
	if (*pp) {
		struct pool *p = *pp;

		*pp = p->next;
		rt_driver()->va_free(p->base);
		while (p->pieces) {
			struct piece *x = p->pieces;

			p->pieces = x->next;
			free(x);
		}
		free(p);
	}
	pthread_mutex_unlock(&pool_lock);
	return RT_OK;
}

API rtError_t rtMemPoolMallocAsync(void **out, uint64_t size, void *pool, void *stm)
{
	struct pool *p = pool;
	struct piece *x;
	rtError_t rc;

	if (!p || !size)
		return RT_ERR_PARAM_INVALID;
	size = (size + 4095) & ~4095ULL;
	pthread_mutex_lock(&pool_lock);
	for (x = p->pieces; x && (x->live || x->size != size); x = x->next)
		;
	if (!x) {
		x = p->used + size <= POOL_BYTES ? calloc(1, sizeof(*x)) : NULL;
		if (!x) {
			pthread_mutex_unlock(&pool_lock);
			return RT_ERR_MEMORY_ALLOCATION;
		}
		x->va = (uint64_t)(uintptr_t)p->base + p->used;
		x->size = size;
		x->next = p->pieces;
		p->pieces = x;
		p->used += size;
	}
	rc = rt_driver()->pool_malloc(pool, x->va, size);
	if (!rc) {
		x->live = 1;
		*out = (void *)(uintptr_t)x->va;
	}
	pthread_mutex_unlock(&pool_lock);
	return rc;
}

API rtError_t rtMemPoolFreeAsync(void *ptr, void *stm)
{
	struct pool *p;
	struct piece *x = NULL;
	rtError_t rc = RT_ERR_PARAM_INVALID;

	pthread_mutex_lock(&pool_lock);
	for (p = pools; p; p = p->next) {
		for (x = p->pieces; x && (!x->live || x->va != (uint64_t)(uintptr_t)ptr);
		     x = x->next)
			;
		if (x)
			break;
	}
	if (x) {
		rc = rt_driver()->pool_free(p, x->va);
		if (!rc)
			x->live = 0;
	}
	pthread_mutex_unlock(&pool_lock);
	return rc;
}
