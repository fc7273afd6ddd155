// SPDX-License-Identifier: Apache-2.0
/* The marker API of libms_tools_ext.so. */
#ifndef SIM_MSTX_H
#define SIM_MSTX_H

#include <stddef.h>
#include <stdint.h>

typedef struct mstxDomain *mstxDomainHandle_t;
typedef struct mstxMemHeap *mstxMemHeapHandle_t;
typedef struct mstxMemRegion *mstxMemRegionHandle_t;

typedef struct {
	uint32_t deviceId;
	const void *ptr;
	uint64_t size;
} mstxMemVirtualRangeDesc_t;

typedef struct {
	uint32_t usage, type;
	const void *typeSpecificDesc;
} mstxMemHeapDesc_t;

typedef struct {
	mstxMemHeapHandle_t heap;
	uint32_t regionType;
	size_t regionCount;
	const void *regionDescArray;
	mstxMemRegionHandle_t *handleArrayOut;
} mstxMemRegionsRegisterBatch_t;

typedef struct {
	uint32_t refType; /* 0 pointer, 1 handle */
	union {
		const void *pointer;
		mstxMemRegionHandle_t handle;
	};
} mstxMemRegionRef_t;

typedef struct {
	size_t refCount;
	const mstxMemRegionRef_t *refArray;
} mstxMemRegionsUnregisterBatch_t;

enum { MSTX_MODULE_CORE = 1, MSTX_MODULE_CORE_DOMAIN = 2, MSTX_MODULE_CORE_MEM = 3 };

/* M(return type, module, slot, name, (parameters), (arguments), value without a tool) */
#define MSTX_FUNCTIONS(M, V)                                                                       \
	V(1, 1, mstxMarkA, (const char *msg, void *stream), (msg, stream))                         \
	M(uint64_t, 1, 2, mstxRangeStartA, (const char *msg, void *stream), (msg, stream), 0)      \
	V(1, 3, mstxRangeEnd, (uint64_t id), (id))                                                 \
	M(mstxDomainHandle_t, 2, 1, mstxDomainCreateA, (const char *name), (name), NULL)           \
	V(2, 2, mstxDomainDestroy, (mstxDomainHandle_t d), (d))                                    \
	V(2, 3, mstxDomainMarkA, (mstxDomainHandle_t d, const char *msg, void *stream),            \
	  (d, msg, stream))                                                                        \
	M(uint64_t, 2, 4, mstxDomainRangeStartA,                                                   \
	  (mstxDomainHandle_t d, const char *msg, void *stream), (d, msg, stream), 0)              \
	V(2, 5, mstxDomainRangeEnd, (mstxDomainHandle_t d, uint64_t id), (d, id))                  \
	M(mstxMemHeapHandle_t, 3, 1, mstxMemHeapRegister,                                          \
	  (mstxDomainHandle_t d, const mstxMemHeapDesc_t *desc), (d, desc), NULL)                  \
	V(3, 2, mstxMemHeapUnregister, (mstxDomainHandle_t d, mstxMemHeapHandle_t heap), (d, heap)) \
	V(3, 3, mstxMemRegionsRegister,                                                            \
	  (mstxDomainHandle_t d, const mstxMemRegionsRegisterBatch_t *b), (d, b))                  \
	V(3, 4, mstxMemRegionsUnregister,                                                          \
	  (mstxDomainHandle_t d, const mstxMemRegionsUnregisterBatch_t *b), (d, b))

#define MSTX_PROTO_M(ret, mod, slot, name, params, args, none) ret name params;
#define MSTX_PROTO_V(mod, slot, name, params, args) void name params;

#ifdef __cplusplus
extern "C" {
#endif
MSTX_FUNCTIONS(MSTX_PROTO_M, MSTX_PROTO_V)
void mstxGetToolId(uint64_t *id);
#ifdef __cplusplus
}
#endif

/* What a tool sees: InitInjectionMstx(get) asks for a module's table of function-pointer slots. */
typedef void **mstxFuncTable_t[8];
typedef int (*mstxGetModuleFuncTable_t)(uint32_t module, void ****table, uint32_t *size);
typedef int (*mstxInitInjection_t)(mstxGetModuleFuncTable_t get);

#endif
