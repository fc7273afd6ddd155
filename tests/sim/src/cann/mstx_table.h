// SPDX-License-Identifier: Apache-2.0
/* The header-only heart of mstx: a hidden per-library table of pointers, filled by a tool or NULL.
 */
#ifndef SIM_MSTX_TABLE_H
#define SIM_MSTX_TABLE_H

#include "mstx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

/* One pointer a function; the first call of any goes through the initialiser. */
#define MSTX_SLOT_M(ret, mod, slot, name, params, args, none) ret(*name##Ptr) params;
#define MSTX_SLOT_V(mod, slot, name, params, args) void(*name##Ptr) params;
static struct {
	MSTX_FUNCTIONS(MSTX_SLOT_M, MSTX_SLOT_V)
} mstx_table;
#undef MSTX_SLOT_M
#undef MSTX_SLOT_V

static pthread_once_t mstx_once = PTHREAD_ONCE_INIT;
static void **mstx_slots[3][8];

#define MSTX_ENTER_M(ret, mod, slot, name, params, args, none) \
	mstx_slots[(mod)-1][slot] = (void **)&mstx_table.name##Ptr;
#define MSTX_ENTER_V(mod, slot, name, params, args) \
	mstx_slots[(mod)-1][slot] = (void **)&mstx_table.name##Ptr;

static int mstx_get_table(uint32_t module, void ****table, uint32_t *size)
{
	if (module < 1 || module > 3)
		return 1;
	*table = mstx_slots[module - 1];
	*size = module == MSTX_MODULE_CORE ? 4 : module == MSTX_MODULE_CORE_DOMAIN ? 6 : 5;
	return 0;
}

static void mstx_init(void)
{
	const char *path = getenv("MSTX_INJECTION_PATH");
	void *h = path && path[0] ? dlopen(path, RTLD_LAZY) : RTLD_DEFAULT;
	mstxInitInjection_t init;

	MSTX_FUNCTIONS(MSTX_ENTER_M, MSTX_ENTER_V)
	init = h || !path ? (mstxInitInjection_t)dlsym(h, "InitInjectionMstx") : NULL;
	if (init)
		init(mstx_get_table);
}

/* No tool: the pointers stay NULL and every call returns at once. */
static inline void mstx_ready(void)
{
	pthread_once(&mstx_once, mstx_init);
}

#endif
