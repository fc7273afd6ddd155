// SPDX-License-Identifier: Apache-2.0
/* What the files of the simulated driver library share. */
#ifndef SIM_HAL_PRIV_H
#define SIM_HAL_PRIV_H

#include "hal.h"
#include "../truth/sim_truth.h"

#include <pthread.h>

#define HAL_MAXDEV 64

/*
 * The real library hides nothing: every function that is not static is in .dynsym. So the
 * helpers are exported too, under names that look like the driver's own.
 */
enum devmm_kind { DEVMM_MEM, DEVMM_VA };

struct devmm_block {
	void *addr;
	uint64_t size; /* mapped */
	uint64_t charged; /* against the device's capacity */
	int dev;
	enum devmm_kind kind;
	struct devmm_block *next;
};

extern pthread_mutex_t devmm_lock;

struct devmm_block *devmm_insert(void *addr, uint64_t size, uint64_t charged, int dev,
				 enum devmm_kind kind);
struct devmm_block *devmm_take(void *addr, enum devmm_kind kind);
void *devmm_map(uint64_t size, int prot, void *want);
void devmm_unmap(void *addr, uint64_t size);
int devmm_charge(int dev, uint64_t size);
void devmm_uncharge(int dev, uint64_t size);
void devmm_info(uint32_t dev, uint64_t *total, uint64_t *left);

/* Failure injection: true when this call is to fail. */
int fault_huge(void);
int fault_free(void);
int fault_create(void);
int fault_nested(void);
void fault_slow(void);

#endif
