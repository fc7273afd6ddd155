// SPDX-License-Identifier: Apache-2.0
/* Simulated libruntime_v100.so: the per-chip driver object, the only caller of the driver library.
 */
#include "rt_driver.h"
#include "hal.h"

static rtError_t convert(drvError_t rc)
{
	switch (rc) {
	case DRV_ERROR_NONE:
		return RT_OK;
	case DRV_ERROR_OUT_OF_MEMORY:
		return RT_ERR_MEMORY_ALLOCATION;
	case DRV_ERROR_INVALID_VALUE:
	case DRV_ERROR_PARA_ERROR:
		return RT_ERR_PARAM_INVALID;
	case DRV_ERROR_INVALID_HANDLE:
		return RT_ERR_INVALID_HANDLE;
	default:
		return RT_ERR_DRV_INTERNAL;
	}
}

/* Alignment is 512 bytes (2^9). */
#define ALIGN_512 (9ULL << MEM_ALIGN_SHIFT)

static rtError_t dev_alloc(void **p, uint64_t size, uint32_t type, int phys, uint16_t module)
{
	uint64_t flag = (uint64_t)phys | MEM_DEV << MEM_TYPE_SHIFT | ALIGN_512 |
			(uint64_t)(module & 0xff) << MEM_MODULE_SHIFT;
	drvError_t rc;

	if (!(type & RT_MEMORY_DDR))
		flag |= MEM_HBM;
	if (type & RT_MEMORY_READONLY)
		flag |= MEM_READONLY;
	if (type & (RT_MEMORY_POLICY_HUGE_FIRST_P2P | RT_MEMORY_POLICY_HUGE_ONLY_P2P |
		    RT_MEMORY_POLICY_NORMAL_ONLY_P2P | RT_MEMORY_POLICY_1G_ONLY_P2P))
		flag |= MEM_P2P;
	if (type & (RT_MEMORY_POLICY_1G_ONLY | RT_MEMORY_POLICY_1G_ONLY_P2P))
		return convert(halMemAlloc(p, size, flag | MEM_PAGE_GIANT));
	if (type & (RT_MEMORY_POLICY_NORMAL_ONLY | RT_MEMORY_POLICY_NORMAL_ONLY_P2P))
		return convert(halMemAlloc(p, size, flag));
	rc = halMemAlloc(p, size, flag | MEM_PAGE_HUGE);
	if (rc != DRV_ERROR_OUT_OF_MEMORY ||
	    (type & (RT_MEMORY_POLICY_HUGE_ONLY | RT_MEMORY_POLICY_HUGE_ONLY_P2P)))
		return convert(rc);
	/* No huge page left: the same again in normal ones. */
	return convert(halMemAlloc(p, size, flag));
}

static rtError_t dev_alloc_kind(void **p, uint64_t size, uint64_t virt, int phys, uint16_t module)
{
	return convert(halMemAlloc(p, size,
				   (uint64_t)phys | virt << MEM_TYPE_SHIFT | ALIGN_512 | MEM_HBM |
					   (uint64_t)(module & 0xff) << MEM_MODULE_SHIFT));
}

static rtError_t dev_free(void *p)
{
	return convert(halMemFree(p));
}

/* Pinned host memory has no device in its flag. */
static rtError_t host_alloc(void **p, uint64_t size, uint16_t module)
{
	return convert(halMemAlloc(p, size,
				   MEM_HOST << MEM_TYPE_SHIFT | ALIGN_512 |
					   (uint64_t)(module & 0xff) << MEM_MODULE_SHIFT));
}

static rtError_t phys_create(void **handle, size_t size, const rtDrvMemProp_t *prop, uint64_t flags)
{
	struct drv_mem_prop dp = { prop->side,	  prop->devid,	  prop->module_id,
				   prop->pg_type, prop->mem_type, prop->reserve };

	return convert(halMemCreate((drv_mem_handle_t **)handle, size, &dp, flags));
}

static rtError_t phys_release(void *handle)
{
	return convert(halMemRelease(handle));
}

static rtError_t va_reserve(void **va, size_t size, size_t align, void *want, uint64_t flags)
{
	return convert(halMemAddressReserve(va, size, align, want, flags));
}

static rtError_t va_free(void *va)
{
	return convert(halMemAddressFree(va));
}

static rtError_t map(void *va, size_t size, size_t offset, void *handle, uint64_t flags)
{
	return convert(halMemMap(va, size, offset, handle, flags));
}

static rtError_t unmap(void *va)
{
	return convert(halMemUnmap(va));
}

static rtError_t host_register(void *p, uint64_t size, uint32_t flag, int phys, void **dev)
{
	return convert(halHostRegister(p, size, flag, (uint32_t)phys, dev));
}

static rtError_t host_unregister(void *p, int phys)
{
	return convert(halHostUnregister(p, (uint32_t)phys));
}

static rtError_t pool_malloc(void *pool, uint64_t va, uint64_t size)
{
	return convert(halMemPoolMalloc(pool, va, size, 0));
}

static rtError_t pool_free(void *pool, uint64_t va)
{
	return convert(halMemPoolFree(pool, va));
}

static rtError_t mem_info(int phys, size_t *left, size_t *total)
{
	struct MemInfo mi;
	drvError_t rc = halMemGetInfo((uint32_t)phys, 0, &mi);

	if (rc)
		return convert(rc);
	*left = mi.free;
	*total = mi.total;
	return RT_OK;
}

static int device_count(void)
{
	uint32_t n = 0;

	return drvGetDevNum(&n) ? 0 : (int)n;
}

__attribute__((visibility("default"))) const struct rt_driver *rtGetChipDriver(void);

const struct rt_driver *rtGetChipDriver(void)
{
	static const struct rt_driver drv = {
		dev_alloc,   dev_alloc_kind, dev_free, host_alloc,   phys_create,   phys_release,
		va_reserve,  va_free,	     map,      unmap,	     host_register, host_unregister,
		pool_malloc, pool_free,	     mem_info, device_count,
	};

	return &drv;
}
