// SPDX-License-Identifier: Apache-2.0
/* Public ACL functions in one table: the thin libraries, the Impl prototypes and the traps come from it. */
#ifndef SIM_ACL_H
#define SIM_ACL_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t aclError;
typedef int aclrtMemMallocPolicy;

enum {
	ACL_SUCCESS = 0,
	ACL_ERROR_INVALID_PARAM = 100000,
	ACL_ERROR_UNINITIALIZE = 100001,
	ACL_ERROR_REPEAT_INITIALIZE = 100002,
	ACL_ERROR_REPEAT_FINALIZE = 100037,
	ACL_ERROR_BAD_ALLOC = 200000,
	ACL_ERROR_INTERNAL = 500000,
};

typedef struct {
	int32_t handleType;
	int32_t allocationType;
	int32_t memAttr;
	struct {
		uint32_t id;
		int32_t type; /* 0 host, 1 device */
	} location;
	uint64_t reserve;
} aclrtPhysicalMemProp;

typedef struct {
	int32_t attr; /* 1 module id, 2 device id, 3 VA flag */
	uint32_t value[2];
} aclrtMallocAttribute;

typedef struct {
	aclrtMallocAttribute *attrs;
	size_t numAttrs;
} aclrtMallocConfig;

typedef struct {
	void *data;
	uint64_t length;
} aclDataBuffer;

/* F(return type, name, (parameters), (arguments)) */
#define ACL_CORE(F)                                                                                \
	F(aclError, aclInit, (const char *cfg), (cfg))                                             \
	F(aclError, aclFinalize, (void), ())                                                       \
	F(aclError, aclFinalizeReference, (uint64_t * count), (count))                             \
	F(aclError, aclrtSetDevice, (int32_t dev), (dev))                                          \
	F(aclError, aclrtResetDevice, (int32_t dev), (dev))                                        \
	F(aclError, aclrtResetDeviceForce, (int32_t dev), (dev))                                   \
	F(aclError, aclrtGetDevice, (int32_t * dev), (dev))                                        \
	F(aclError, aclrtGetDeviceCount, (uint32_t * n), (n))                                      \
	F(const char *, aclrtGetSocName, (void), ())                                               \
	F(aclError, aclrtGetRunMode, (int *m), (m))                                                \
	F(aclError, aclrtCreateContext, (void **c, int32_t dev), (c, dev))                         \
	F(aclError, aclrtDestroyContext, (void *c), (c))                                           \
	F(aclError, aclrtSetCurrentContext, (void *c), (c))                                        \
	F(aclError, aclrtGetCurrentContext, (void **c), (c))                                       \
	F(aclError, aclrtSynchronizeDevice, (void), ())                                            \
	F(aclError, aclrtSynchronizeDeviceWithTimeout, (int32_t ms), (ms))

#define ACL_MEMORY(F)                                                                              \
	F(aclError, aclrtMalloc, (void **p, size_t n, aclrtMemMallocPolicy pol), (p, n, pol))      \
	F(aclError, aclrtMallocAlign32, (void **p, size_t n, aclrtMemMallocPolicy pol),            \
	  (p, n, pol))                                                                             \
	F(aclError, aclrtMallocCached, (void **p, size_t n, aclrtMemMallocPolicy pol),             \
	  (p, n, pol))                                                                             \
	F(aclError, aclrtMallocWithCfg,                                                            \
	  (void **p, size_t n, aclrtMemMallocPolicy pol, aclrtMallocConfig *cfg),                  \
	  (p, n, pol, cfg))                                                                        \
	F(aclError, aclrtMallocForTaskScheduler,                                                   \
	  (void **p, size_t n, aclrtMemMallocPolicy pol, aclrtMallocConfig *cfg),                  \
	  (p, n, pol, cfg))                                                                        \
	F(aclError, aclrtMemAllocManaged, (void **p, uint64_t n, uint32_t flag), (p, n, flag))     \
	F(aclError, aclrtFree, (void *p), (p))                                                     \
	F(aclError, aclrtFreeWithDevSync, (void *p), (p))                                          \
	F(aclError, aclrtMallocHost, (void **p, size_t n), (p, n))                                 \
	F(aclError, aclrtMallocHostWithCfg, (void **p, uint64_t n, aclrtMallocConfig *cfg),        \
	  (p, n, cfg))                                                                             \
	F(aclError, aclrtFreeHost, (void *p), (p))                                                 \
	F(aclError, aclrtFreeHostWithDevSync, (void *p), (p))                                      \
	F(aclError, aclrtHostRegister, (void *p, uint64_t n, int type, void **dev),                \
	  (p, n, type, dev))                                                                       \
	F(aclError, aclrtHostRegisterV2, (void *p, uint64_t n, uint32_t flag), (p, n, flag))       \
	F(aclError, aclrtHostUnregister, (void *p), (p))                                           \
	F(aclError, aclrtMallocPhysical,                                                           \
	  (void **h, size_t n, const aclrtPhysicalMemProp *prop, uint64_t flags),                  \
	  (h, n, prop, flags))                                                                     \
	F(aclError, aclrtFreePhysical, (void *h), (h))                                             \
	F(aclError, aclrtReserveMemAddress,                                                        \
	  (void **va, size_t n, size_t align, void *want, uint64_t flags),                         \
	  (va, n, align, want, flags))                                                             \
	F(aclError, aclrtReserveMemAddressNoUCMemory,                                              \
	  (void **va, size_t n, size_t align, void *want, uint64_t flags),                         \
	  (va, n, align, want, flags))                                                             \
	F(aclError, aclrtReleaseMemAddress, (void *va), (va))                                      \
	F(aclError, aclrtMapMem, (void *va, size_t n, size_t off, void *h, uint64_t flags),        \
	  (va, n, off, h, flags))                                                                  \
	F(aclError, aclrtUnmapMem, (void *va), (va))                                               \
	F(aclError, aclrtMemPoolCreate, (void **pool, const void *props), (pool, props))           \
	F(aclError, aclrtMemPoolDestroy, (void *pool), (pool))                                     \
	F(aclError, aclrtMemPoolMallocAsync, (void **p, size_t n, void *pool, void *stm),          \
	  (p, n, pool, stm))                                                                       \
	F(aclError, aclrtMemPoolFreeAsync, (void *p, void *stm), (p, stm))                         \
	F(aclError, aclrtGetMemInfo, (int attr, size_t *left, size_t *total),                      \
	  (attr, left, total))                                                                     \
	F(aclError, aclrtMemcpy, (void *d, size_t max, const void *s, size_t n, int kind),         \
	  (d, max, s, n, kind))                                                                    \
	F(aclError, aclrtMemcpyAsync,                                                              \
	  (void *d, size_t max, const void *s, size_t n, int kind, void *stm),                     \
	  (d, max, s, n, kind, stm))                                                               \
	F(aclError, aclrtMemcpyAsyncWithCondition,                                                 \
	  (void *d, size_t max, const void *s, size_t n, int kind, void *stm),                     \
	  (d, max, s, n, kind, stm))                                                               \
	F(aclError, aclrtMemcpy2d,                                                                 \
	  (void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h, int kind),            \
	  (d, dp, s, sp, w, h, kind))                                                              \
	F(aclError, aclrtMemcpy2dAsync,                                                            \
	  (void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h, int kind, void *stm), \
	  (d, dp, s, sp, w, h, kind, stm))                                                         \
	F(aclError, aclrtMemcpyBatch,                                                              \
	  (void **d, size_t *max, void **s, size_t *n, size_t count, void *at, size_t *idx,        \
	   size_t na, size_t *fail),                                                               \
	  (d, max, s, n, count, at, idx, na, fail))                                                \
	F(aclError, aclrtMemset, (void *p, size_t max, int32_t v, size_t n), (p, max, v, n))       \
	F(aclError, aclrtMemsetAsync, (void *p, size_t max, int32_t v, size_t n, void *stm),       \
	  (p, max, v, n, stm))

#define ACL_STREAM(F)                                                                              \
	F(aclError, aclrtCreateStream, (void **s), (s))                                            \
	F(aclError, aclrtCreateStreamWithConfig, (void **s, uint32_t prio, uint32_t flag),         \
	  (s, prio, flag))                                                                         \
	F(aclError, aclrtDestroyStream, (void *s), (s))                                            \
	F(aclError, aclrtDestroyStreamForce, (void *s), (s))                                       \
	F(aclError, aclrtStreamGetId, (void *s, int32_t *id), (s, id))                             \
	F(aclError, aclrtStreamQuery, (void *s, int *status), (s, status))                         \
	F(aclError, aclrtSynchronizeStream, (void *s), (s))                                        \
	F(aclError, aclrtSynchronizeStreamWithTimeout, (void *s, int32_t ms), (s, ms))             \
	F(aclError, aclrtCreateEvent, (void **e), (e))                                             \
	F(aclError, aclrtCreateEventWithFlag, (void **e, uint32_t f), (e, f))                      \
	F(aclError, aclrtCreateEventExWithFlag, (void **e, uint32_t f), (e, f))                    \
	F(aclError, aclrtDestroyEvent, (void *e), (e))                                             \
	F(aclError, aclrtRecordEvent, (void *e, void *s), (e, s))                                  \
	F(aclError, aclrtResetEvent, (void *e, void *s), (e, s))                                   \
	F(aclError, aclrtQueryEventStatus, (void *e, int *st), (e, st))                            \
	F(aclError, aclrtQueryEventWaitStatus, (void *e, int *st), (e, st))                        \
	F(aclError, aclrtQueryEvent, (void *e, int *st), (e, st))                                  \
	F(aclError, aclrtSynchronizeEvent, (void *e), (e))                                         \
	F(aclError, aclrtStreamWaitEvent, (void *s, void *e), (s, e))                              \
	F(aclError, aclrtEventElapsedTime, (float *ms, void *a, void *b), (ms, a, b))              \
	F(aclError, aclrtEventGetTimestamp, (void *e, uint64_t *t), (e, t))

#define ACL_LAUNCH(F)                                                                              \
	F(aclError, aclrtBinaryLoadFromData,                                                       \
	  (const void *data, size_t n, const void *opt, void **bin), (data, n, opt, bin))          \
	F(aclError, aclrtBinaryUnLoad, (void *bin), (bin))                                         \
	F(aclError, aclrtBinaryGetFunction, (void *bin, const char *name, void **func),            \
	  (bin, name, func))                                                                       \
	F(aclError, aclrtGetFunctionName, (void *func, uint32_t max, char *name),                  \
	  (func, max, name))                                                                       \
	F(aclError, aclrtLaunchKernel,                                                             \
	  (void *func, uint32_t blk, const void *args, size_t n, void *stm),                       \
	  (func, blk, args, n, stm))                                                               \
	F(aclError, aclrtLaunchKernelWithConfig,                                                   \
	  (void *func, uint32_t blk, void *stm, void *cfg, void *args, void *reserve),             \
	  (func, blk, stm, cfg, args, reserve))                                                    \
	F(aclError, aclrtLaunchKernelV2,                                                           \
	  (void *func, uint32_t blk, const void *args, size_t n, void *cfg, void *stm),            \
	  (func, blk, args, n, cfg, stm))                                                          \
	F(aclError, aclrtLaunchKernelWithHostArgs,                                                 \
	  (void *func, uint32_t blk, void *stm, void *cfg, void *args, size_t n, void *ph,         \
	   size_t nph),                                                                            \
	  (func, blk, stm, cfg, args, n, ph, nph))                                                 \
	F(aclError, aclrtLaunchKernelWithArgsArray,                                                \
	  (void *func, uint32_t blk, void *stm, void *cfg, void **args),                           \
	  (func, blk, stm, cfg, args))

#define ACL_RT_FUNCTIONS(F) ACL_CORE(F) ACL_MEMORY(F) ACL_STREAM(F) ACL_LAUNCH(F)

/* Descriptors and properties: need a body for real frameworks, nobody traces them. */
#define ACL_MISC(F)                                                                                \
	F(const char *, aclGetRecentErrMsg, (void), ())                                            \
	F(aclError, aclGetCannAttribute, (int a, int32_t *v), (a, v))                              \
	F(aclError, aclGetCannAttributeList, (const int **l, size_t *n), (l, n))                   \
	F(aclError, aclGetDeviceCapability, (uint32_t d, int t, int32_t *v), (d, t, v))            \
	F(aclError, aclsysGetCANNVersion, (int name, void *v), (name, v))                          \
	F(aclError, aclrtGetVersion, (int32_t * a, int32_t *b, int32_t *c), (a, b, c))             \
	F(void *, aclCreateTensorDesc, (int dt, int nd, const int64_t *d, int fmt),                \
	  (dt, nd, d, fmt))                                                                        \
	F(void, aclDestroyTensorDesc, (const void *t), (t))                                        \
	F(size_t, aclGetTensorDescNumDims, (const void *t), (t))                                   \
	F(aclError, aclGetTensorDescDimV2, (const void *t, size_t i, int64_t *v), (t, i, v))       \
	F(int, aclGetTensorDescFormat, (const void *t), (t))                                       \
	F(int, aclGetTensorDescType, (const void *t), (t))                                         \
	F(void *, aclCreateDataBuffer, (void *p, size_t n), (p, n))                                \
	F(aclError, aclDestroyDataBuffer, (const void *b), (b))                                    \
	F(aclError, aclrtGetStreamOverflowSwitch, (void *s, uint32_t *f), (s, f))                  \
	F(aclError, aclrtDeviceCanAccessPeer, (int32_t * c, int32_t a, int32_t b), (c, a, b))      \
	F(aclError, aclrtDeviceGetBareTgid, (int32_t * p), (p))                                    \
	F(aclError, aclrtDeviceGetStreamPriorityRange, (int32_t * a, int32_t *b), (a, b))          \
	F(aclError, aclrtGetDeviceResLimit, (int d, int t, uint32_t *v), (d, t, v))                \
	F(aclError, aclrtGetStreamResLimit, (void *s, int t, uint32_t *v), (s, t, v))              \
	F(aclError, aclrtGetResInCurrentThread, (int t, uint32_t *v), (t, v))                      \
	F(aclError, aclrtGetDeviceUtilizationRate, (int d, int32_t *v), (d, v))                    \
	F(aclError, aclrtGetDeviceInfo, (uint32_t d, int a, int64_t *v), (d, a, v))                \
	F(aclError, aclprofGetSupportedFeatures, (size_t * n, void **d), (n, d))                   \
	F(aclError, aclprofGetSupportedFeaturesV2, (size_t * n, void **d), (n, d))                 \
	F(aclError, aclrtProcessReport, (int32_t ms), (ms))                                        \
	F(aclError, aclrtPeekAtLastError, (int l), (l))                                            \
	F(aclError, aclrtGetLastError, (int l), (l))                                               \
	F(aclError, aclrtIpcMemGetExportKey, (void *p, size_t n, char *k, size_t l, uint64_t f),   \
	  (p, n, k, l, f))                                                                         \
	F(aclError, aclrtGetSysParamOpt, (int o, int64_t *v), (o, v))                              \
	F(aclError, aclrtSetSysParamOpt, (int o, int64_t v), (o, v))                               \
	F(aclError, aclrtCtxGetSysParamOpt, (int o, int64_t *v), (o, v))                           \
	F(aclError, aclrtCtxSetSysParamOpt, (int o, int64_t v), (o, v))                            \
	F(aclError, aclmdlRICaptureBegin, (void *s, int mode), (s, mode))                          \
	F(aclError, aclmdlRICaptureGetInfo, (void *s, int *st, void **m), (s, st, m))              \
	F(aclError, aclmdlRICaptureEnd, (void *s, void **m), (s, m))                               \
	F(aclError, aclmdlRIExecuteAsync, (void *m, void *s), (m, s))                              \
	F(aclError, aclmdlRIDestroy, (void *m), (m))

#define ACL_FUNCTIONS(F) ACL_RT_FUNCTIONS(F) ACL_MISC(F)

#define ACL_DECLARE(ret, name, params, args) \
	ret name params;                     \
	ret name##Impl params;

#ifdef __cplusplus
extern "C" {
#endif
ACL_FUNCTIONS(ACL_DECLARE)
#ifdef __cplusplus
}
#endif
#endif
