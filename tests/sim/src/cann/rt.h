// SPDX-License-Identifier: Apache-2.0
/* The runtime API (libruntime.so) as the simulated libraries see it. */
#ifndef SIM_RT_H
#define SIM_RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t rtError_t;

enum {
	RT_OK = 0,
	RT_ERR_PARAM_INVALID = 107000,
	RT_ERR_INVALID_DEVICEID = 107001,
	RT_ERR_CONTEXT_NULL = 107002,
	RT_ERR_INVALID_HANDLE = 107017,
	RT_ERR_MEMORY_ALLOCATION = 207001,
	RT_ERR_DRV_INTERNAL = 507899,
};

/* rtMemType_t and the policy bits that travel with it. */
enum {
	RT_MEMORY_DEFAULT = 0,
	RT_MEMORY_HBM = 0x2,
	RT_MEMORY_DDR = 0x4,
	RT_MEMORY_POLICY_HUGE_FIRST = 0x400,
	RT_MEMORY_POLICY_HUGE_ONLY = 0x800,
	RT_MEMORY_POLICY_NORMAL_ONLY = 0x1000,
	RT_MEMORY_POLICY_HUGE_FIRST_P2P = 0x2000,
	RT_MEMORY_POLICY_HUGE_ONLY_P2P = 0x4000,
	RT_MEMORY_POLICY_NORMAL_ONLY_P2P = 0x8000,
	RT_MEMORY_POLICY_1G_ONLY = 0x10000,
	RT_MEMORY_POLICY_1G_ONLY_P2P = 0x20000,
	RT_MEMORY_READONLY = 0x100000,
};

typedef struct {
	uint32_t side, devid, module_id, pg_type, mem_type;
	uint64_t reserve;
} rtDrvMemProp_t;

typedef struct {
	void *args;
	void *hostInputInfoPtr;
	uint32_t argsSize;
	uint16_t hostInputInfoNum;
	uint8_t hasTiling;
	uint8_t isNoNeedH2DCopy;
	uint32_t tilingAddrOffset;
	uint32_t tilingDataOffset;
} rtArgsEx_t;

/* A device binary; in the simulation the data is text: "<tiling key> <kernel name>\n" each. */
typedef struct {
	uint32_t magic;
	uint32_t version;
	const void *data;
	uint64_t length;
} rtDevBinary_t;

typedef struct {
	const char *soName;
	const char *kernelName;
	const char *opName;
} rtKernelLaunchNames_t;

/* device and context */
rtError_t rtSetDevice(int32_t dev);
rtError_t rtGetDevice(int32_t *dev);
rtError_t rtGetDeviceCount(int32_t *count);
rtError_t rtDeviceReset(int32_t dev);
rtError_t rtDeviceResetForce(int32_t dev);
rtError_t rtDeviceSynchronize(void);
rtError_t rtGetVisibleDeviceIdByLogicDeviceId(int32_t logic, int32_t *phys);
rtError_t rtGetSocVersion(char *ver, uint32_t maxLen);

/* memory */
rtError_t rtMalloc(void **p, uint64_t size, uint32_t type, uint16_t module);
rtError_t rtMallocCached(void **p, uint64_t size, uint32_t type, uint16_t module);
rtError_t rtsMalloc(void **p, uint64_t size, uint32_t policy, uint32_t advise, void *cfg);
rtError_t rtMemAlloc(void **p, uint64_t size, uint32_t policy, uint32_t advise, void *cfg);
rtError_t rtDvppMalloc(void **p, uint64_t size, uint16_t module);
rtError_t rtDvppMallocWithFlag(void **p, uint64_t size, uint32_t flag, uint16_t module);
rtError_t rtMemAllocManaged(void **p, uint64_t size, uint32_t flag, uint16_t module);
rtError_t rtMallocHost(void **p, uint64_t size, uint16_t module);
rtError_t rtsMallocHost(void **p, uint64_t size, void *cfg);
rtError_t rtFree(void *p);
rtError_t rtsFree(void *p);
rtError_t rtDvppFree(void *p);
rtError_t rtFreeWithDevSync(void *p);
rtError_t rtMemFreeManaged(void *p);
rtError_t rtFreeHost(void *p);
rtError_t rtsFreeHost(void *p);
rtError_t rtFreeHostWithDevSync(void *p);
rtError_t rtMallocPhysical(void **handle, size_t size, rtDrvMemProp_t *prop, uint64_t flags);
rtError_t rtFreePhysical(void *handle);
rtError_t rtsMemMallocPhysical(void **handle, size_t size, uint32_t policy, void *cfg);
rtError_t rtReserveMemAddress(void **va, size_t size, size_t align, void *want, uint64_t flags);
rtError_t rtReleaseMemAddress(void *va);
rtError_t rtMapMem(void *va, size_t size, size_t offset, void *handle, uint64_t flags);
rtError_t rtUnmapMem(void *va);
rtError_t rtsHostRegister(void *ptr, uint64_t size, uint32_t type, void **dev);
rtError_t rtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag);
rtError_t rtsHostUnregister(void *ptr);
rtError_t rtMemPoolCreate(void **pool, const void *props);
rtError_t rtMemPoolDestroy(void *pool);
rtError_t rtMemPoolMallocAsync(void **p, uint64_t size, void *pool, void *stm);
rtError_t rtMemPoolFreeAsync(void *p, void *stm);
rtError_t rtMemGetInfoEx(uint32_t type, size_t *left, size_t *total);
rtError_t rtMemcpy(void *dst, uint64_t max, const void *src, uint64_t n, uint32_t kind);
rtError_t rtMemcpyAsync(void *dst, uint64_t max, const void *src, uint64_t n, uint32_t kind,
			void *stm);
rtError_t rtMemset(void *p, uint64_t max, uint32_t value, uint64_t n);
rtError_t rtMemsetAsync(void *p, uint64_t max, uint32_t value, uint64_t n, void *stm);

/* streams */
rtError_t rtStreamCreate(void **stm, int32_t priority);
rtError_t rtStreamCreateWithFlags(void **stm, int32_t priority, uint32_t flags);
rtError_t rtStreamDestroy(void *stm);
rtError_t rtStreamDestroyForce(void *stm);
rtError_t rtStreamSynchronize(void *stm);
rtError_t rtStreamSynchronizeWithTimeout(void *stm, int32_t ms);
rtError_t rtGetStreamId(void *stm, int32_t *id);
rtError_t rtStreamGetCapture(void *stm, void **model);
rtError_t rtStreamSetCapture(void *stm, void *model);

/* registration */
rtError_t rtDevBinaryRegister(const rtDevBinary_t *bin, void **hdl);
rtError_t rtRegisterAllKernel(const rtDevBinary_t *bin, void **hdl);
rtError_t rtDevBinaryUnRegister(void *hdl);
rtError_t rtsBinaryLoadFromData(const void *data, uint64_t length, const void *cfg, void **hdl);
rtError_t rtsBinaryUnload(void *hdl);
rtError_t rtFunctionRegister(void *bin, const void *stub, const char *stubName,
			     const void *kernelInfoExt, uint32_t mode);
rtError_t rtRegisterFuncSymbol(void *bin, const void *symbol, const char *kernelName,
			       const void *reserve);
rtError_t rtsFuncGetByName(void *bin, const char *name, void **func);
rtError_t rtsFuncGetByEntry(void *bin, uint64_t entry, void **func);
rtError_t rtsFuncGetName(const void *func, uint32_t maxLen, char *name);

/* launches */
rtError_t rtConfigureCall(uint32_t blk, void *smDesc, void *stm);
rtError_t rtSetupArgument(const void *arg, uint32_t size, uint32_t offset);
rtError_t rtLaunch(const void *stub);
rtError_t rtKernelLaunch(const void *stub, uint32_t blk, void *args, uint32_t argsSize,
			 void *smDesc, void *stm);
rtError_t rtKernelLaunchWithFlag(const void *stub, uint32_t blk, rtArgsEx_t *argsInfo, void *smDesc,
				 void *stm, uint32_t flags);
rtError_t rtKernelLaunchWithFlagV2(const void *stub, uint32_t blk, rtArgsEx_t *argsInfo,
				   void *smDesc, void *stm, uint32_t flags, const void *cfg);
rtError_t rtKernelLaunchWithHandle(void *hdl, uint64_t tilingKey, uint32_t blk,
				   rtArgsEx_t *argsInfo, void *smDesc, void *stm, const void *info);
rtError_t rtKernelLaunchWithHandleV2(void *hdl, uint64_t tilingKey, uint32_t blk,
				     rtArgsEx_t *argsInfo, void *smDesc, void *stm,
				     const void *cfg);
rtError_t rtVectorCoreKernelLaunchWithHandle(void *hdl, uint64_t tilingKey, uint32_t blk,
					     rtArgsEx_t *argsInfo, void *smDesc, void *stm,
					     const void *cfg);
rtError_t rtVectorCoreKernelLaunch(const void *stub, uint32_t blk, rtArgsEx_t *argsInfo,
				   void *smDesc, void *stm, uint32_t flags, const void *cfg);
rtError_t rtLaunchKernelByFuncHandle(void *func, uint32_t blk, void *argsHandle, void *stm);
rtError_t rtLaunchKernelByFuncHandleV2(void *func, uint32_t blk, void *argsHandle, void *stm,
				       const void *cfg);
rtError_t rtLaunchKernelByFuncHandleV3(void *func, uint32_t blk, const rtArgsEx_t *args, void *stm,
				       const void *cfg);
rtError_t rtsLaunchKernelWithConfig(void *func, uint32_t blk, void *stm, void *cfg,
				    void *argsHandle, void *reserve);
rtError_t rtsLaunchKernelWithDevArgs(void *func, uint32_t blk, void *stm, void *cfg,
				     const void *args, uint32_t size, void *reserve);
rtError_t rtsLaunchKernelWithHostArgs(void *func, uint32_t blk, void *stm, void *cfg,
				      void *hostArgs, uint32_t size, void *placeholders,
				      uint32_t n);
rtError_t rtLaunchKernelWithArgsArray(void *func, uint32_t blk, void *stm, void *cfg, void **args);
rtError_t rtsLaunchCpuKernel(void *func, uint32_t blk, void *stm, const void *cfg, void *args);
rtError_t rtLaunchKernelExByFuncHandle(void *func, void *launchCfg, void *argsHandle, void *stm);
rtError_t rtAicpuKernelLaunchExWithArgs(uint32_t type, const char *opName, uint32_t blk,
					const void *args, void *smDesc, void *stm, uint32_t flags);
rtError_t rtAicpuKernelLaunchWithFlag(const rtKernelLaunchNames_t *names, uint32_t blk,
				      const void *args, void *smDesc, void *stm, uint32_t flags);
rtError_t rtCpuKernelLaunch(const void *so, const void *kernel, uint32_t blk, const void *args,
			    uint32_t argsSize, void *smDesc, void *stm);
rtError_t rtCpuKernelLaunchWithFlag(const void *so, const void *kernel, uint32_t blk,
				    const void *args, void *smDesc, void *stm, uint32_t flags);
rtError_t rtKernelLaunchFwk(const char *opName, void *args, uint32_t size, uint32_t flags,
			    void *stm);
rtError_t rtKernelLaunchEx(void *args, uint32_t size, uint32_t flags, void *stm);
rtError_t rtFftsPlusTaskLaunch(void *info, void *stm);
rtError_t rtFftsPlusTaskLaunchWithFlag(void *info, void *stm, uint32_t flag);
rtError_t rtStarsTaskLaunch(const void *sqe, uint32_t len, void *stm);
rtError_t rtStarsTaskLaunchWithFlag(const void *sqe, uint32_t len, void *stm, uint32_t flag);
rtError_t rtLaunchDvppTask(const void *sqe, uint32_t len, void *stm, const void *cfg);
rtError_t rtFusionLaunch(const void *info, void *stm, void *args);
rtError_t rtCCULaunch(const void *info, void *stm);
rtError_t rtMultipleTaskInfoLaunch(const void *info, void *stm);
rtError_t rtCmoTaskLaunch(void *info, void *stm, uint32_t flag);

#ifdef __cplusplus
}
#endif
#endif
