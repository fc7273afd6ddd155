// SPDX-License-Identifier: Apache-2.0
/* Simulated driver: allocation, free, host registration, memory information. */
#include "hal_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096ULL

static uint64_t page_up(uint64_t n)
{
	return (n + PAGE - 1) & ~(PAGE - 1);
}

drvError_t halMemAllocInner(void **pp, unsigned long long size, unsigned long long flag)
{
	int dev = (int)(flag & 1023);
	int host = ((flag >> MEM_TYPE_SHIFT) & 15) == MEM_HOST;
	uint64_t len = page_up(size);
	void *p;

	if (!pp || !size || len < size)
		return DRV_ERROR_INVALID_VALUE;
	if (dev >= HAL_MAXDEV)
		return DRV_ERROR_PARA_ERROR;
	fault_slow();
	if (!host && (flag & MEM_PAGE_HUGE) && fault_huge())
		return DRV_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&devmm_lock);
	if (!host && devmm_charge(dev, len)) {
		pthread_mutex_unlock(&devmm_lock);
		return DRV_ERROR_OUT_OF_MEMORY;
	}
	p = devmm_map(len, PROT_READ | PROT_WRITE, NULL);
	if (!p || !devmm_insert(p, len, host ? 0 : len, dev, DEVMM_MEM)) {
		if (p)
			devmm_unmap(p, len);
		if (!host)
			devmm_uncharge(dev, len);
		pthread_mutex_unlock(&devmm_lock);
		return DRV_ERROR_OUT_OF_MEMORY;
	}
	*pp = p;
	pthread_mutex_unlock(&devmm_lock);
	return DRV_ERROR_NONE;
}

/*
 * The driver's own queue and profiling code allocates through the public function. It keeps
 * these for good, except each second one, so that tables see both.
 */
static void driver_internal(unsigned long long flag)
{
	static __thread int inside;
	static unsigned int turn;
	unsigned int t;
	void *p = NULL;
	uint64_t module;

	if (inside)
		return;
	inside = 1;
	t = __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED);
	module = t & 1 ? MODULE_PROFILING : MODULE_TSDRV;
	if (halMemAlloc(&p, 4096,
			(flag & 1023) | MEM_DEV << MEM_TYPE_SHIFT | MEM_HBM |
				module << MEM_MODULE_SHIFT) == DRV_ERROR_NONE &&
	    (t & 1))
		halMemFree(p);
	inside = 0;
}

drvError_t halMemAlloc(void **pp, unsigned long long size, unsigned long long flag)
{
	uint64_t t0 = sim_truth_begin();
	drvError_t rc;

	if (fault_nested())
		driver_internal(flag);
	rc = halMemAllocInner(pp, size, flag);
	SIM_TRUTH(t0, "halMemAlloc", SIM_ARGS(U64(pp), size, flag), .ret = rc, .size = size,
		  .out = rc ? 0 : U64(*pp), .device = (int)(flag & 1023),
		  .has = SIM_T_OUT | SIM_T_SIZE | SIM_T_DEV);
	return rc;
}

drvError_t halMemFreeInner(void *pp)
{
	struct devmm_block *b;

	fault_slow();
	if (fault_free())
		return DRV_ERROR_INNER_ERR;
	pthread_mutex_lock(&devmm_lock);
	b = devmm_take(pp, DEVMM_MEM);
	if (b) {
		if (b->charged)
			devmm_uncharge(b->dev, b->charged);
		devmm_unmap(b->addr, b->size);
		free(b);
	}
	pthread_mutex_unlock(&devmm_lock);
	return b ? DRV_ERROR_NONE : DRV_ERROR_INVALID_VALUE;
}

drvError_t halMemFree(void *pp)
{
	uint64_t t0 = sim_truth_begin();
	drvError_t rc = halMemFreeInner(pp);

	SIM_TRUTH(t0, "halMemFree", SIM_ARGS(U64(pp)), .ret = rc, .out = U64(pp), .has = SIM_T_OUT);
	return rc;
}

drvError_t halMemGetInfo(uint32_t devid, uint32_t type, struct MemInfo *info)
{
	if (!info || devid >= HAL_MAXDEV)
		return DRV_ERROR_PARA_ERROR;
	memset(info, 0, sizeof(*info));
	pthread_mutex_lock(&devmm_lock);
	devmm_info(devid, &info->total, &info->free);
	pthread_mutex_unlock(&devmm_lock);
	info->huge_total = info->total;
	info->huge_free = info->free;
	return DRV_ERROR_NONE;
}

drvError_t halMemGetInfoEx(uint32_t devid, uint32_t type, struct MemInfo *info)
{
	return halMemGetInfo(devid, type, info);
}

drvError_t halHostRegister(void *src, uint64_t size, uint32_t flag, uint32_t devid, void **dst)
{
	uint64_t t0 = sim_truth_begin();
	drvError_t rc = src && size ? DRV_ERROR_NONE : DRV_ERROR_INVALID_VALUE;

	if (!rc && dst)
		*dst = src;
	SIM_TRUTH(t0, "halHostRegister", SIM_ARGS(U64(src), size, flag, devid, U64(dst)), .ret = rc,
		  .out = U64(src), .size = size, .device = (int)devid,
		  .has = SIM_T_OUT | SIM_T_SIZE | SIM_T_DEV);
	return rc;
}

drvError_t halHostUnregister(void *src, uint32_t devid)
{
	uint64_t t0 = sim_truth_begin();
	drvError_t rc = src ? DRV_ERROR_NONE : DRV_ERROR_INVALID_VALUE;

	SIM_TRUTH(t0, "halHostUnregister", SIM_ARGS(U64(src), devid), .ret = rc, .out = U64(src),
		  .device = (int)devid, .has = SIM_T_OUT | SIM_T_DEV);
	return rc;
}

drvError_t halHostUnregisterEx(void *src, uint32_t devid, uint32_t flag)
{
	return halHostUnregister(src, devid);
}
