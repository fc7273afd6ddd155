// SPDX-License-Identifier: Apache-2.0
/*
 * Stand-in for the vendor's libascend_mstx_hook.so: takes every slot of the marker
 * table, so that markers have ids, domains have handles and memory calls are made.
 */
#include "hooks.h"

#include "../cann/mstx.h"

#define ENUM_M(ret, mod, slot, name, params, args, none) N_##name,
#define ENUM_V(mod, slot, name, params, args) N_##name,
enum { MSTX_FUNCTIONS(ENUM_M, ENUM_V) N_ALL };

#define COUNT_M(ret, mod, slot, name, params, args, none) [N_##name] = { #name, 0 },
#define COUNT_V(mod, slot, name, params, args) [N_##name] = { #name, 0 },
static struct hook_count counts[] = { MSTX_FUNCTIONS(COUNT_M, COUNT_V) };

/* Ids of ranges and handles of domains and heaps: 1, 2, 3 … */
static atomic_ulong ids;

#define FN_M(ret, mod, slot, name, params, args, none) \
	static ret hook_##name params                  \
	{                                              \
		counts[N_##name].calls++;              \
		return (ret)(uintptr_t)++ids;          \
	}
#define FN_V(mod, slot, name, params, args) \
	static void hook_##name params      \
	{                                   \
		counts[N_##name].calls++;   \
	}
MSTX_FUNCTIONS(FN_M, FN_V)

#define ENTER_M(ret, mod, slot, name, params, args, none) ENTER_V(mod, slot, name, params, args)
#define ENTER_V(mod, slot, name, params, args)                     \
	if (!get(mod, &table, &size) && (slot) < 8 && table[slot]) \
		*table[slot] = (void *)hook_##name;

API int InitInjectionMstx(mstxGetModuleFuncTable_t get);

int InitInjectionMstx(mstxGetModuleFuncTable_t get)
{
	void ***table;
	uint32_t size;

	MSTX_FUNCTIONS(ENTER_M, ENTER_V)
	return 0;
}

static __attribute__((destructor)) void told(void)
{
	hook_counts_write(counts, N_ALL);
}
