// SPDX-License-Identifier: Apache-2.0
/* The driver API (libascend_hal.so) as the simulated libraries see it. */
#ifndef SIM_HAL_H
#define SIM_HAL_H

#include <stddef.h>
#include <stdint.h>

typedef int drvError_t;

enum {
	DRV_ERROR_NONE = 0,
	DRV_ERROR_INVALID_VALUE = 3,
	DRV_ERROR_INVALID_HANDLE = 4,
	DRV_ERROR_OUT_OF_MEMORY = 6,
	DRV_ERROR_INNER_ERR = 7,
	DRV_ERROR_PARA_ERROR = 8,
};

/* halMemAlloc flag: device 0-9, virtual type 10-13, HBM 14, huge 17, alignment 20-24, module 56-63.
 */
#define MEM_TYPE_SHIFT 10
#define MEM_SVM 0ULL
#define MEM_DEV 1ULL
#define MEM_HOST 2ULL
#define MEM_DVPP 3ULL
#define MEM_HBM (1ULL << 14)
#define MEM_PAGE_HUGE (1ULL << 17)
#define MEM_CONTIGUOUS (1ULL << 19)
#define MEM_ALIGN_SHIFT 20
#define MEM_P2P (1ULL << 25)
#define MEM_READONLY (1ULL << 29)
#define MEM_PAGE_GIANT (1ULL << 31)
#define MEM_MODULE_SHIFT 56

enum {
	MODULE_HCCL = 3,
	MODULE_RUNTIME = 7,
	MODULE_TSDRV = 23,
	MODULE_PROFILING = 31,
	MODULE_APP = 33,
	MODULE_GE = 45,
	MODULE_ASCENDCL = 48,
};

struct drv_mem_prop {
	uint32_t side; /* 0 host, 1 device, 2 host NUMA */
	uint32_t devid;
	uint32_t module_id;
	uint32_t pg_type; /* 0 normal, 1 huge, 2 giant */
	uint32_t mem_type; /* 0 HBM, 1 DDR, 2 P2P HBM, 3 P2P DDR, 4 TS DDR */
	uint64_t reserve;
};

struct MemInfo {
	uint64_t total, free, huge_total, huge_free, giant_total, giant_free;
};

typedef struct drv_mem_handle drv_mem_handle_t;

drvError_t halMemAlloc(void **pp, unsigned long long size, unsigned long long flag);
drvError_t halMemAllocInner(void **pp, unsigned long long size, unsigned long long flag);
drvError_t halMemFree(void *pp);
drvError_t halMemFreeInner(void *pp);
drvError_t halMemCreate(drv_mem_handle_t **handle, size_t size, const struct drv_mem_prop *prop,
			uint64_t flag);
drvError_t halMemRelease(drv_mem_handle_t *handle);
drvError_t halMemAddressReserve(void **ptr, size_t size, size_t alignment, void *addr,
				uint64_t flag);
drvError_t halMemAddressFree(void *ptr);
drvError_t halMemMap(void *ptr, size_t size, size_t offset, drv_mem_handle_t *handle,
		     uint64_t flag);
drvError_t halMemUnmap(void *ptr);
drvError_t halHostRegister(void *src, uint64_t size, uint32_t flag, uint32_t devid, void **dst);
drvError_t halHostUnregister(void *src, uint32_t devid);
drvError_t halHostUnregisterEx(void *src, uint32_t devid, uint32_t flag);
drvError_t halMemGetInfo(uint32_t devid, uint32_t type, struct MemInfo *info);
drvError_t halMemGetInfoEx(uint32_t devid, uint32_t type, struct MemInfo *info);
drvError_t halShmemCreateHandle(uint64_t vptr, size_t size, char *name, uint32_t len);
drvError_t halShmemOpenHandle(const char *name, uint64_t *vptr);
drvError_t halShmemCloseHandle(uint64_t vptr);
drvError_t halShmemDestroyHandle(const char *name);
drvError_t halMemPoolMalloc(void *pool, uint64_t va, uint64_t size, int32_t policy);
drvError_t halMemPoolFree(void *pool, uint64_t va);
drvError_t halMemExportToShareableHandle(drv_mem_handle_t *handle, int type, uint64_t flags,
					 uint64_t *shareable);
drvError_t halMemImportFromShareableHandle(uint64_t shareable, uint32_t devid,
					   drv_mem_handle_t **handle);
drvError_t halMemRetainAllocationHandle(drv_mem_handle_t **handle, void *ptr);
drvError_t halGetAPIVersion(int *version);
drvError_t halGetDeviceInfo(uint32_t devid, int32_t module, int32_t info, int64_t *value);
drvError_t drvGetDevNum(uint32_t *num);

#endif
