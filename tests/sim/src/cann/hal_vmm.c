// SPDX-License-Identifier: Apache-2.0
/* Simulated driver: physical handles, address reservation and mapping, sharing, memory pools. */
#include "hal_priv.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HANDLE_MAGIC 0x5048594dU

struct drv_mem_handle {
	uint32_t magic;
	_Atomic int refs;
	uint64_t size;
	int dev;
	int charged; /* host and imported handles use none of the device's capacity */
};

static drvError_t create(drv_mem_handle_t **handle, size_t size, const struct drv_mem_prop *prop)
{
	drv_mem_handle_t *h;
	int hbm;

	if (!handle || !size || !prop || prop->devid >= HAL_MAXDEV)
		return DRV_ERROR_INVALID_VALUE;
	fault_slow();
	if (fault_create())
		return DRV_ERROR_OUT_OF_MEMORY;
	h = calloc(1, sizeof(*h));
	if (!h)
		return DRV_ERROR_OUT_OF_MEMORY;
	hbm = prop->side == 1;
	pthread_mutex_lock(&devmm_lock);
	if (hbm && devmm_charge((int)prop->devid, size)) {
		pthread_mutex_unlock(&devmm_lock);
		free(h);
		return DRV_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&devmm_lock);
	h->magic = HANDLE_MAGIC;
	h->refs = 1;
	h->size = size;
	h->dev = (int)prop->devid;
	h->charged = hbm;
	*handle = h;
	return DRV_ERROR_NONE;
}

drvError_t halMemCreate(drv_mem_handle_t **handle, size_t size, const struct drv_mem_prop *prop,
			uint64_t flag)
{
	uint64_t t0 = sim_truth_begin();
	drvError_t rc = create(handle, size, prop);

	/* args: handle*, size, flag, then side, devid, module, page type, memory type of *prop */
	SIM_TRUTH(t0, "halMemCreate",
		  SIM_ARGS(U64(handle), size, flag, prop ? prop->side : 0, prop ? prop->devid : 0,
			   prop ? prop->module_id : 0, prop ? prop->pg_type : 0,
			   prop ? prop->mem_type : 0),
		  .ret = rc, .out = rc ? 0 : U64(*handle), .size = size,
		  .device = prop ? (int)prop->devid : 0, .has = SIM_T_OUT | SIM_T_SIZE | SIM_T_DEV);
	return rc;
}

drvError_t halMemRelease(drv_mem_handle_t *handle)
{
	uint64_t t0 = sim_truth_begin();
	drvError_t rc = DRV_ERROR_INVALID_HANDLE;

	if (handle && handle->magic == HANDLE_MAGIC) {
		rc = DRV_ERROR_NONE;
		if (atomic_fetch_sub(&handle->refs, 1) == 1) {
			pthread_mutex_lock(&devmm_lock);
			if (handle->charged)
				devmm_uncharge(handle->dev, handle->size);
			pthread_mutex_unlock(&devmm_lock);
			handle->magic = 0;
			free(handle);
		}
	}
	SIM_TRUTH(t0, "halMemRelease", SIM_ARGS(U64(handle)), .ret = rc, .out = U64(handle),
		  .has = SIM_T_OUT);
	return rc;
}

drvError_t halMemAddressReserve(void **ptr, size_t size, size_t alignment, void *addr,
				uint64_t flag)
{
	uint64_t t0 = sim_truth_begin();
	drvError_t rc = DRV_ERROR_NONE;
	void *p = NULL;

	if (!ptr || !size) {
		rc = DRV_ERROR_INVALID_VALUE;
	} else {
		pthread_mutex_lock(&devmm_lock);
		p = devmm_map(size, PROT_NONE, addr);
		if (!p || !devmm_insert(p, size, 0, 0, DEVMM_VA))
			rc = DRV_ERROR_OUT_OF_MEMORY;
		else
			*ptr = p;
		pthread_mutex_unlock(&devmm_lock);
	}
	SIM_TRUTH(t0, "halMemAddressReserve", SIM_ARGS(U64(ptr), size, alignment, U64(addr), flag),
		  .ret = rc, .out = rc ? 0 : U64(p), .size = size, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

drvError_t halMemAddressFree(void *ptr)
{
	uint64_t t0 = sim_truth_begin();
	struct devmm_block *b;

	pthread_mutex_lock(&devmm_lock);
	b = devmm_take(ptr, DEVMM_VA);
	if (b) {
		devmm_unmap(b->addr, b->size);
		free(b);
	}
	pthread_mutex_unlock(&devmm_lock);
	SIM_TRUTH(t0, "halMemAddressFree", SIM_ARGS(U64(ptr)),
		  .ret = b ? DRV_ERROR_NONE : DRV_ERROR_INVALID_VALUE, .out = U64(ptr),
		  .has = SIM_T_OUT);
	return b ? DRV_ERROR_NONE : DRV_ERROR_INVALID_VALUE;
}

drvError_t halMemMap(void *ptr, size_t size, size_t offset, drv_mem_handle_t *handle, uint64_t flag)
{
	uint64_t t0 = sim_truth_begin();
	drvError_t rc = DRV_ERROR_NONE;

	if (!handle || handle->magic != HANDLE_MAGIC)
		rc = DRV_ERROR_INVALID_HANDLE;
	else if (mprotect(ptr, size, PROT_READ | PROT_WRITE))
		rc = DRV_ERROR_INVALID_VALUE;
	SIM_TRUTH(t0, "halMemMap", SIM_ARGS(U64(ptr), size, offset, U64(handle), flag), .ret = rc,
		  .out = U64(ptr), .size = size, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

/* The pages stay readable: the simulation does not remember how long the mapping was. */
drvError_t halMemUnmap(void *ptr)
{
	uint64_t t0 = sim_truth_begin();

	SIM_TRUTH(t0, "halMemUnmap", SIM_ARGS(U64(ptr)), .ret = 0, .out = U64(ptr),
		  .has = SIM_T_OUT);
	return ptr ? DRV_ERROR_NONE : DRV_ERROR_INVALID_VALUE;
}

/* Sharing within one process only: enough to see that an import is no allocation. */
drvError_t halMemExportToShareableHandle(drv_mem_handle_t *handle, int type, uint64_t flags,
					 uint64_t *shareable)
{
	if (!handle || handle->magic != HANDLE_MAGIC || !shareable)
		return DRV_ERROR_INVALID_HANDLE;
	*shareable = (uint64_t)(uintptr_t)handle;
	return DRV_ERROR_NONE;
}

drvError_t halMemImportFromShareableHandle(uint64_t shareable, uint32_t devid,
					   drv_mem_handle_t **handle)
{
	drv_mem_handle_t *h = (drv_mem_handle_t *)(uintptr_t)shareable;

	if (!h || h->magic != HANDLE_MAGIC || !handle)
		return DRV_ERROR_INVALID_HANDLE;
	atomic_fetch_add(&h->refs, 1);
	*handle = h;
	return DRV_ERROR_NONE;
}

drvError_t halMemRetainAllocationHandle(drv_mem_handle_t **handle, void *ptr)
{
	return DRV_ERROR_INVALID_VALUE;
}

drvError_t halShmemCreateHandle(uint64_t vptr, size_t size, char *name, uint32_t len)
{
	if (!vptr || !name || !len)
		return DRV_ERROR_INVALID_VALUE;
	snprintf(name, len, "%d_%llx", (int)getpid(), (unsigned long long)vptr);
	return DRV_ERROR_NONE;
}

drvError_t halShmemOpenHandle(const char *name, uint64_t *vptr)
{
	unsigned long long v;
	int pid;

	if (!name || !vptr || sscanf(name, "%d_%llx", &pid, &v) != 2 || pid != (int)getpid())
		return DRV_ERROR_INVALID_VALUE;
	*vptr = v;
	return DRV_ERROR_NONE;
}

drvError_t halShmemCloseHandle(uint64_t vptr)
{
	return DRV_ERROR_NONE;
}

drvError_t halShmemDestroyHandle(const char *name)
{
	return DRV_ERROR_NONE;
}

/* A stream-ordered pool takes its pages from a reserved range: nothing to do but to say yes. */
drvError_t halMemPoolMalloc(void *pool, uint64_t va, uint64_t size, int32_t policy)
{
	uint64_t t0 = sim_truth_begin();
	drvError_t rc = DRV_ERROR_NONE;

	if (mprotect((void *)(uintptr_t)va, size, PROT_READ | PROT_WRITE))
		rc = DRV_ERROR_OUT_OF_MEMORY;
	SIM_TRUTH(t0, "halMemPoolMalloc", SIM_ARGS(U64(pool), va, size, (uint64_t)policy),
		  .ret = rc, .out = va, .size = size, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

drvError_t halMemPoolFree(void *pool, uint64_t va)
{
	uint64_t t0 = sim_truth_begin();

	SIM_TRUTH(t0, "halMemPoolFree", SIM_ARGS(U64(pool), va), .ret = 0, .out = va,
		  .has = SIM_T_OUT);
	return DRV_ERROR_NONE;
}

drvError_t halGetAPIVersion(int *version)
{
	*version = 0x072214;
	return DRV_ERROR_NONE;
}

drvError_t halGetDeviceInfo(uint32_t devid, int32_t module, int32_t info, int64_t *value)
{
	*value = 0;
	return DRV_ERROR_NONE;
}

drvError_t drvGetDevNum(uint32_t *num)
{
	const char *e = getenv("SIM_NDEV");
	long n = e ? strtol(e, NULL, 0) : 8;

	*num = n > 0 && n <= HAL_MAXDEV ? (uint32_t)n : 1;
	return DRV_ERROR_NONE;
}
