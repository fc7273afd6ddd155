// SPDX-License-Identifier: Apache-2.0
/* Simulated ACL implementation: kernel launches, each by exactly one function of the runtime. */
#include "acl.h"
#include "rt.h"
#include "../truth/sim_truth.h"

#define API __attribute__((visibility("default")))

static void note(uint64_t t0, const char *fn, aclError rc, void *func, void *stm)
{
	char name[512] = "";

	if (rtsFuncGetName(func, sizeof(name), name))
		name[0] = '\0';
	SIM_TRUTH(t0, fn, SIM_ARGS(U64(func)), .name = name, .ret = rc, .stream = U64(stm),
		  .has = SIM_T_STREAM);
}

API aclError aclrtBinaryLoadFromDataImpl(const void *data, size_t n, const void *opt, void **bin)
{
	return rtsBinaryLoadFromData(data, n, opt, bin);
}

API aclError aclrtBinaryUnLoadImpl(void *bin)
{
	return rtsBinaryUnload(bin);
}

API aclError aclrtBinaryGetFunctionImpl(void *bin, const char *name, void **func)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtsFuncGetByName(bin, name, func);

	SIM_TRUTH(t0, "aclrtBinaryGetFunction", SIM_ARGS(U64(bin), U64(name), U64(func)),
		  .name = name, .ret = rc, .out = rc ? 0 : U64(*func), .has = SIM_T_OUT);
	return rc;
}

API aclError aclrtGetFunctionNameImpl(void *func, uint32_t max, char *name)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtsFuncGetName(func, max, name);

	SIM_TRUTH(t0, "aclrtGetFunctionName", SIM_ARGS(U64(func), max, U64(name)),
		  .name = rc ? NULL : name, .ret = rc, .out = U64(func), .has = SIM_T_OUT);
	return rc;
}

API aclError aclrtLaunchKernelImpl(void *func, uint32_t blk, const void *args, size_t n, void *stm)
{
	uint64_t t0 = sim_truth_begin();
	rtArgsEx_t a = { .args = (void *)(uintptr_t)args, .argsSize = (uint32_t)n };
	aclError rc = rtLaunchKernelByFuncHandleV3(func, blk, &a, stm, NULL);

	if (t0)
		note(t0, "aclrtLaunchKernel", rc, func, stm);
	return rc;
}

API aclError aclrtLaunchKernelWithConfigImpl(void *func, uint32_t blk, void *stm, void *cfg,
					     void *args, void *reserve)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtsLaunchKernelWithConfig(func, blk, stm, cfg, args, reserve);

	if (t0)
		note(t0, "aclrtLaunchKernelWithConfig", rc, func, stm);
	return rc;
}

API aclError aclrtLaunchKernelV2Impl(void *func, uint32_t blk, const void *args, size_t n,
				     void *cfg, void *stm)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtsLaunchKernelWithDevArgs(func, blk, stm, cfg, args, (uint32_t)n, NULL);

	if (t0)
		note(t0, "aclrtLaunchKernelV2", rc, func, stm);
	return rc;
}

API aclError aclrtLaunchKernelWithHostArgsImpl(void *func, uint32_t blk, void *stm, void *cfg,
					       void *args, size_t n, void *ph, size_t nph)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtsLaunchKernelWithHostArgs(func, blk, stm, cfg, args, (uint32_t)n, ph,
						  (uint32_t)nph);

	if (t0)
		note(t0, "aclrtLaunchKernelWithHostArgs", rc, func, stm);
	return rc;
}

API aclError aclrtLaunchKernelWithArgsArrayImpl(void *func, uint32_t blk, void *stm, void *cfg,
						void **args)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtLaunchKernelWithArgsArray(func, blk, stm, cfg, args);

	if (t0)
		note(t0, "aclrtLaunchKernelWithArgsArray", rc, func, stm);
	return rc;
}
