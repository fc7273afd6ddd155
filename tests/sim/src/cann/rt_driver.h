// SPDX-License-Identifier: Apache-2.0
/* Between libruntime.so and the per-chip part it loads (libruntime_v100.so). */
#ifndef SIM_RT_DRIVER_H
#define SIM_RT_DRIVER_H

#include "rt.h"

struct rt_driver {
	rtError_t (*dev_alloc)(void **p, uint64_t size, uint32_t type, int phys, uint16_t module);
	rtError_t (*dev_alloc_kind)(void **p, uint64_t size, uint64_t virt, int phys,
				    uint16_t module);
	rtError_t (*dev_free)(void *p);
	rtError_t (*host_alloc)(void **p, uint64_t size, uint16_t module);
	rtError_t (*phys_create)(void **handle, size_t size, const rtDrvMemProp_t *prop,
				 uint64_t flags);
	rtError_t (*phys_release)(void *handle);
	rtError_t (*va_reserve)(void **va, size_t size, size_t align, void *want, uint64_t flags);
	rtError_t (*va_free)(void *va);
	rtError_t (*map)(void *va, size_t size, size_t offset, void *handle, uint64_t flags);
	rtError_t (*unmap)(void *va);
	rtError_t (*host_register)(void *p, uint64_t size, uint32_t flag, int phys, void **dev);
	rtError_t (*host_unregister)(void *p, int phys);
	rtError_t (*pool_malloc)(void *pool, uint64_t va, uint64_t size);
	rtError_t (*pool_free)(void *pool, uint64_t va);
	rtError_t (*mem_info)(int phys, size_t *left, size_t *total);
	int (*device_count)(void);
};

/* The one symbol that the chip library exports. */
#define RT_DRIVER_ENTRY "rtGetChipDriver"
typedef const struct rt_driver *(*rt_driver_entry_t)(void);

const struct rt_driver *rt_driver(void);

/* Current device of the thread: physical id, or -1. */
int rt_current_phys(void);
int rt_current_logic(void);
int rt_phys_of(int logic);

#endif
