// SPDX-License-Identifier: Apache-2.0
/* One kernel launch after the other, through every function that launches. */
#include "sim.h"
#include "../cann/acl.h"
#include "../cann/rt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char stub_a, stub_b;
static void *bin, *func, *loaded;
static void *acl;

#define KERNELS "0x11 MatMulV2_sim_1\n0x22 AddV2, \"odd\" name_2\n0x33 LayerNormGrad_3\n"

/* The prototypes of rt.h and acl.h give the types; the addresses come from the loaded libraries. */
#define RT(name) ((__typeof__(&(name)))dlsym(lib.rt, #name))
#define ACL(name) ((__typeof__(&(name)))dlsym(acl, #name))

void launch_setup(void)
{
	rtDevBinary_t b = { .magic = 1, .data = KERNELS, .length = sizeof(KERNELS) - 1 };
	void *h = NULL, *l = NULL, *f = NULL;

	acl = dlopen("libascendcl.so", RTLD_NOW);
	if (RT(rtRegisterAllKernel)(&b, &h) ||
	    RT(rtFunctionRegister)(h, &stub_a, "stub_a_kernel", "stub_a_kernel", 0) ||
	    RT(rtFunctionRegister)(h, &stub_b, "stub_b_kernel", "stub_b_kernel", 0) ||
	    ACL(aclrtBinaryLoadFromData)(KERNELS, sizeof(KERNELS) - 1, NULL, &l) ||
	    ACL(aclrtBinaryGetFunction)(l, "LayerNormGrad_3", &f))
		fprintf(stderr, "sim-train: kernels cannot be registered\n");
	loaded = l;
	func = f;
	bin = h;
}

void launch_one(struct worker *w)
{
	void *stm = w->stream;
	char args[64] = { 0 };
	rtArgsEx_t ex = { .args = args, .argsSize = sizeof(args) };
	rtKernelLaunchNames_t names = { "libcpu_kernels.so", "RunCpuKernel", "TopK_sim" };
	char name[128];
	int rc = 0;

	switch (rnd(w) % 37) {
	case 0:
		rc = RT(rtKernelLaunch)(&stub_a, 8, args, 64, NULL, stm);
		break;
	case 1:
		rc = RT(rtKernelLaunchWithFlag)(&stub_b, 8, &ex, NULL, stm, 0);
		break;
	case 2:
		rc = RT(rtKernelLaunchWithFlagV2)(&stub_a, 8, &ex, NULL, stm, 0, NULL);
		break;
	case 3:
		rc = RT(rtKernelLaunchWithHandle)(bin, 0x11, 8, &ex, NULL, stm, NULL);
		break;
	case 4:
		rc = RT(rtKernelLaunchWithHandleV2)(bin, 0x22, 8, &ex, NULL, stm, NULL);
		break;
	case 5:
		rc = RT(rtVectorCoreKernelLaunchWithHandle)(bin, 0x33, 8, &ex, NULL, stm, NULL);
		break;
	case 6:
		rc = RT(rtVectorCoreKernelLaunch)(&stub_b, 8, &ex, NULL, stm, 0, NULL);
		break;
	case 7:
		rc = RT(rtLaunchKernelByFuncHandle)(func, 8, args, stm);
		break;
	case 8:
		rc = RT(rtLaunchKernelByFuncHandleV2)(func, 8, args, stm, NULL);
		break;
	case 9:
		rc = RT(rtLaunchKernelByFuncHandleV3)(func, 8, &ex, stm, NULL);
		break;
	case 10:
		rc = RT(rtsLaunchKernelWithConfig)(func, 8, stm, NULL, args, NULL);
		break;
	case 11:
		rc = RT(rtsLaunchKernelWithDevArgs)(func, 8, stm, NULL, args, 64, NULL);
		break;
	case 12:
		rc = RT(rtsLaunchKernelWithHostArgs)(func, 8, stm, NULL, args, 64, NULL, 0);
		break;
	case 13:
		rc = RT(rtLaunchKernelWithArgsArray)(func, 8, stm, NULL, NULL);
		break;
	case 14:
		rc = RT(rtsLaunchCpuKernel)(func, 8, stm, NULL, args);
		break;
	case 15:
		rc = RT(rtLaunchKernelExByFuncHandle)(func, args, args, stm);
		break;
	case 16:
		rc = RT(rtAicpuKernelLaunchExWithArgs)(2, "Unique_sim", 1, args, NULL, stm, 0);
		break;
	case 17:
		rc = RT(rtAicpuKernelLaunchWithFlag)(&names, 1, args, NULL, stm, 0);
		break;
	case 18:
		rc = RT(rtCpuKernelLaunch)("libcpu.so", "CpuKernel", 1, args, 64, NULL, stm);
		break;
	case 19:
		rc = RT(rtCpuKernelLaunchWithFlag)("libcpu.so", "CpuKernelF", 1, args, NULL, stm,
						   0);
		break;
	case 20:
		rc = RT(rtKernelLaunchFwk)("FwkOp_sim", args, 64, 0, stm);
		break;
	case 21:
		rc = RT(rtKernelLaunchEx)(args, 64, 0, stm);
		break;
	case 22:
		rc = RT(rtFftsPlusTaskLaunch)(args, stm);
		break;
	case 23:
		rc = RT(rtFftsPlusTaskLaunchWithFlag)(args, stm, 0);
		break;
	case 24:
		rc = RT(rtStarsTaskLaunch)(args, 64, stm);
		break;
	case 25:
		rc = RT(rtStarsTaskLaunchWithFlag)(args, 64, stm, 0);
		break;
	case 26:
		rc = RT(rtLaunchDvppTask)(args, 64, stm, NULL);
		break;
	case 27:
		rc = RT(rtFusionLaunch)(args, stm, NULL);
		break;
	case 28:
		rc = RT(rtCCULaunch)(args, stm);
		break;
	case 29:
		rc = RT(rtMultipleTaskInfoLaunch)(args, stm);
		break;
	case 30:
		rc = RT(rtCmoTaskLaunch)(args, stm, 0);
		break;
	case 31:
		RT(rtConfigureCall)(8, NULL, stm);
		RT(rtSetupArgument)(args, 64, 0);
		rc = RT(rtLaunch)(&stub_a);
		break;
	case 32:
		rc = ACL(aclrtLaunchKernel)(func, 8, args, 64, stm);
		break;
	case 33:
		rc = ACL(aclrtLaunchKernelWithConfig)(func, 8, stm, NULL, args, NULL);
		break;
	case 34:
		rc = ACL(aclrtLaunchKernelV2)(func, 8, args, 64, NULL, stm);
		break;
	case 35:
		rc = ACL(aclrtLaunchKernelWithHostArgs)(func, 8, stm, NULL, args, 64, NULL, 0);
		break;
	default:
		rc = ACL(aclrtLaunchKernelWithArgsArray)(func, 8, stm, NULL, NULL);
		ACL(aclrtGetFunctionName)(func, sizeof(name), name);
	}
	if (rc)
		w->failed++;
}
