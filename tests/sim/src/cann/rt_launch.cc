// SPDX-License-Identifier: Apache-2.0
/* Simulated runtime: every exported launch function, with the documented order of arguments. */
#include "rt_objects.h"
#include "rt.h"
#include "../truth/sim_truth.h"

#include <cstring>

#define API __attribute__((visibility("default")))

using namespace cce::runtime;

extern "C" int rt_current_logic(void);

namespace
{

/* What a launch does here: one task on the stream, finished at once. */
uint64_t tasks;

__attribute__((noinline)) rtError_t Submit(void *stm)
{
	int32_t id;
	rtError_t rc = rtGetStreamId(stm, &id);

	if (!rc)
		__atomic_fetch_add(&tasks, 1, __ATOMIC_RELAXED);
	return rc;
}

uint64_t Word(const void *p)
{
	return reinterpret_cast<uintptr_t>(p);
}

uint64_t Word(uint64_t v)
{
	return v;
}

uint64_t Word(uint32_t v)
{
	return v;
}

template <typename... A>
__attribute__((noinline, cold)) void Note(uint64_t t0, const char *fn, const char *name, void *stm,
					  rtError_t rc, A... a)
{
	sim_truth_rec r = {};
	const uint64_t args[] = { Word(a)... };
	int32_t id = -1;

	r.fn = fn;
	r.name = name;
	r.t0 = t0;
	r.t1 = sim_truth_now();
	r.ret = rc;
	r.nargs = sizeof...(a) > SIM_T_MAXARGS ? SIM_T_MAXARGS : sizeof...(a);
	memcpy(r.args, args, r.nargs * sizeof(args[0]));
	r.stream = Word(stm);
	r.sid = rtGetStreamId(stm, &id) ? -1 : id;
	r.device = rt_current_logic();
	r.has = SIM_T_STREAM | SIM_T_SID | SIM_T_DEV;
	sim_truth_put(&r);
}

const char *NameOf(const Kernel *k)
{
	return k ? k->name.c_str() : nullptr;
}

rtError_t Run(const Kernel *k, rtError_t missing, void *stm)
{
	return k ? Submit(stm) : missing;
}

thread_local void *configured; /* stream of the last rtConfigureCall */

} // namespace

/* t0 is 0 with the truth off. */
#define LAUNCH(fn, kernel, missing, stm, ...)                      \
	uint64_t t0 = sim_truth_begin();                           \
	const Kernel *k_ = (kernel);                               \
	rtError_t rc_ = Run(k_, (missing), (stm));                 \
	if (__builtin_expect(t0 != 0, 0))                          \
		Note(t0, fn, NameOf(k_), (stm), rc_, __VA_ARGS__); \
	return rc_

#define LAUNCH_NAMED(fn, name, stm, ...)                       \
	uint64_t t0 = sim_truth_begin();                       \
	rtError_t rc_ = Submit(stm);                           \
	if (__builtin_expect(t0 != 0, 0))                      \
		Note(t0, fn, (name), (stm), rc_, __VA_ARGS__); \
	return rc_

#define BY_STUB(fn, ...) LAUNCH(fn, KernelOfStub(stub), RT_ERR_PARAM_INVALID, stm, __VA_ARGS__)
#define BY_FUNC(fn, ...) LAUNCH(fn, ToKernel(func), RT_ERR_INVALID_HANDLE, stm, __VA_ARGS__)
#define BY_KEY(fn, ...) LAUNCH(fn, Lookup(hdl, tilingKey), RT_ERR_INVALID_HANDLE, stm, __VA_ARGS__)

static Kernel *Lookup(const void *hdl, uint64_t key)
{
	const Program *p = ToProgram(hdl);

	return p ? p->Find(key) : nullptr;
}

extern "C" {

API rtError_t rtConfigureCall(uint32_t blk, void *smDesc, void *stm)
{
	(void)blk;
	(void)smDesc;
	configured = stm;
	return RT_OK;
}

API rtError_t rtSetupArgument(const void *arg, uint32_t size, uint32_t offset)
{
	(void)size;
	(void)offset;
	return arg ? RT_OK : RT_ERR_PARAM_INVALID;
}

API rtError_t rtLaunch(const void *stub)
{
	void *stm = configured;

	BY_STUB("rtLaunch", stub);
}

API rtError_t rtKernelLaunch(const void *stub, uint32_t blk, void *args, uint32_t argsSize,
			     void *smDesc, void *stm)
{
	BY_STUB("rtKernelLaunch", stub, blk, args, argsSize, smDesc, stm);
}

API rtError_t rtKernelLaunchWithFlag(const void *stub, uint32_t blk, rtArgsEx_t *argsInfo,
				     void *smDesc, void *stm, uint32_t flags)
{
	BY_STUB("rtKernelLaunchWithFlag", stub, blk, argsInfo, smDesc, stm, flags);
}

API rtError_t rtKernelLaunchWithFlagV2(const void *stub, uint32_t blk, rtArgsEx_t *argsInfo,
				       void *smDesc, void *stm, uint32_t flags, const void *cfg)
{
	BY_STUB("rtKernelLaunchWithFlagV2", stub, blk, argsInfo, smDesc, stm, flags, cfg);
}

API rtError_t rtVectorCoreKernelLaunch(const void *stub, uint32_t blk, rtArgsEx_t *argsInfo,
				       void *smDesc, void *stm, uint32_t flags, const void *cfg)
{
	BY_STUB("rtVectorCoreKernelLaunch", stub, blk, argsInfo, smDesc, stm, flags, cfg);
}

API rtError_t rtKernelLaunchWithHandle(void *hdl, uint64_t tilingKey, uint32_t blk,
				       rtArgsEx_t *argsInfo, void *smDesc, void *stm,
				       const void *info)
{
	BY_KEY("rtKernelLaunchWithHandle", hdl, tilingKey, blk, argsInfo, smDesc, stm, info);
}

API rtError_t rtKernelLaunchWithHandleV2(void *hdl, uint64_t tilingKey, uint32_t blk,
					 rtArgsEx_t *argsInfo, void *smDesc, void *stm,
					 const void *cfg)
{
	BY_KEY("rtKernelLaunchWithHandleV2", hdl, tilingKey, blk, argsInfo, smDesc, stm, cfg);
}

API rtError_t rtVectorCoreKernelLaunchWithHandle(void *hdl, uint64_t tilingKey, uint32_t blk,
						 rtArgsEx_t *argsInfo, void *smDesc, void *stm,
						 const void *cfg)
{
	BY_KEY("rtVectorCoreKernelLaunchWithHandle", hdl, tilingKey, blk, argsInfo, smDesc, stm,
	       cfg);
}

API rtError_t rtLaunchKernelByFuncHandle(void *func, uint32_t blk, void *argsHandle, void *stm)
{
	BY_FUNC("rtLaunchKernelByFuncHandle", func, blk, argsHandle, stm);
}

API rtError_t rtLaunchKernelByFuncHandleV2(void *func, uint32_t blk, void *argsHandle, void *stm,
					   const void *cfg)
{
	BY_FUNC("rtLaunchKernelByFuncHandleV2", func, blk, argsHandle, stm, cfg);
}

API rtError_t rtLaunchKernelByFuncHandleV3(void *func, uint32_t blk, const rtArgsEx_t *args,
					   void *stm, const void *cfg)
{
	BY_FUNC("rtLaunchKernelByFuncHandleV3", func, blk, args, stm, cfg);
}

API rtError_t rtsLaunchKernelWithConfig(void *func, uint32_t blk, void *stm, void *cfg,
					void *argsHandle, void *reserve)
{
	BY_FUNC("rtsLaunchKernelWithConfig", func, blk, stm, cfg, argsHandle, reserve);
}

API rtError_t rtsLaunchKernelWithDevArgs(void *func, uint32_t blk, void *stm, void *cfg,
					 const void *args, uint32_t size, void *reserve)
{
	BY_FUNC("rtsLaunchKernelWithDevArgs", func, blk, stm, cfg, args, size, reserve);
}

API rtError_t rtsLaunchKernelWithHostArgs(void *func, uint32_t blk, void *stm, void *cfg,
					  void *hostArgs, uint32_t size, void *placeholders,
					  uint32_t n)
{
	BY_FUNC("rtsLaunchKernelWithHostArgs", func, blk, stm, cfg, hostArgs, size, placeholders,
		n);
}

API rtError_t rtLaunchKernelWithArgsArray(void *func, uint32_t blk, void *stm, void *cfg,
					  void **args)
{
	BY_FUNC("rtLaunchKernelWithArgsArray", func, blk, stm, cfg, args);
}

API rtError_t rtsLaunchCpuKernel(void *func, uint32_t blk, void *stm, const void *cfg, void *args)
{
	BY_FUNC("rtsLaunchCpuKernel", func, blk, stm, cfg, args);
}

API rtError_t rtLaunchKernelExByFuncHandle(void *func, void *launchCfg, void *argsHandle, void *stm)
{
	BY_FUNC("rtLaunchKernelExByFuncHandle", func, launchCfg, argsHandle, stm);
}

API rtError_t rtAicpuKernelLaunchExWithArgs(uint32_t type, const char *opName, uint32_t blk,
					    const void *args, void *smDesc, void *stm,
					    uint32_t flags)
{
	LAUNCH_NAMED("rtAicpuKernelLaunchExWithArgs", opName, stm, type, opName, blk, args, smDesc,
		     stm, flags);
}

API rtError_t rtAicpuKernelLaunchWithFlag(const rtKernelLaunchNames_t *names, uint32_t blk,
					  const void *args, void *smDesc, void *stm, uint32_t flags)
{
	LAUNCH_NAMED("rtAicpuKernelLaunchWithFlag", names ? names->opName : nullptr, stm, names,
		     blk, args, smDesc, stm, flags);
}

API rtError_t rtCpuKernelLaunch(const void *so, const void *kernel, uint32_t blk, const void *args,
				uint32_t argsSize, void *smDesc, void *stm)
{
	LAUNCH_NAMED("rtCpuKernelLaunch", static_cast<const char *>(kernel), stm, so, kernel, blk,
		     args, argsSize, smDesc, stm);
}

API rtError_t rtCpuKernelLaunchWithFlag(const void *so, const void *kernel, uint32_t blk,
					const void *args, void *smDesc, void *stm, uint32_t flags)
{
	LAUNCH_NAMED("rtCpuKernelLaunchWithFlag", static_cast<const char *>(kernel), stm, so,
		     kernel, blk, args, smDesc, stm, flags);
}

API rtError_t rtKernelLaunchFwk(const char *opName, void *args, uint32_t size, uint32_t flags,
				void *stm)
{
	LAUNCH_NAMED("rtKernelLaunchFwk", opName, stm, opName, args, size, flags, stm);
}

API rtError_t rtKernelLaunchEx(void *args, uint32_t size, uint32_t flags, void *stm)
{
	LAUNCH_NAMED("rtKernelLaunchEx", nullptr, stm, args, size, flags, stm);
}

API rtError_t rtFftsPlusTaskLaunch(void *info, void *stm)
{
	LAUNCH_NAMED("rtFftsPlusTaskLaunch", nullptr, stm, info, stm);
}

API rtError_t rtFftsPlusTaskLaunchWithFlag(void *info, void *stm, uint32_t flag)
{
	LAUNCH_NAMED("rtFftsPlusTaskLaunchWithFlag", nullptr, stm, info, stm, flag);
}

API rtError_t rtStarsTaskLaunch(const void *sqe, uint32_t len, void *stm)
{
	LAUNCH_NAMED("rtStarsTaskLaunch", nullptr, stm, sqe, len, stm);
}

API rtError_t rtStarsTaskLaunchWithFlag(const void *sqe, uint32_t len, void *stm, uint32_t flag)
{
	LAUNCH_NAMED("rtStarsTaskLaunchWithFlag", nullptr, stm, sqe, len, stm, flag);
}

API rtError_t rtLaunchDvppTask(const void *sqe, uint32_t len, void *stm, const void *cfg)
{
	LAUNCH_NAMED("rtLaunchDvppTask", nullptr, stm, sqe, len, stm, cfg);
}

API rtError_t rtFusionLaunch(const void *info, void *stm, void *args)
{
	LAUNCH_NAMED("rtFusionLaunch", nullptr, stm, info, stm, args);
}

API rtError_t rtCCULaunch(const void *info, void *stm)
{
	LAUNCH_NAMED("rtCCULaunch", nullptr, stm, info, stm);
}

API rtError_t rtMultipleTaskInfoLaunch(const void *info, void *stm)
{
	LAUNCH_NAMED("rtMultipleTaskInfoLaunch", nullptr, stm, info, stm);
}

API rtError_t rtCmoTaskLaunch(void *info, void *stm, uint32_t flag)
{
	LAUNCH_NAMED("rtCmoTaskLaunch", nullptr, stm, info, stm, flag);
}

} // extern "C"
