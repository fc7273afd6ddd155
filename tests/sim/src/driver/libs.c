// SPDX-License-Identifier: Apache-2.0
/* Loads the simulated device libraries, as an application does with the real ones. */
#include "sim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct libs lib;

static void *open_lib(const char *name, int must)
{
	void *h = dlopen(name, RTLD_NOW | RTLD_GLOBAL);

	if (!h && must) {
		fprintf(stderr, "sim-train: %s\n", dlerror());
		exit(2);
	}
	return h;
}

static void *sym(void *h, const char *name)
{
	void *p = dlsym(h, name);

	if (!p) {
		fprintf(stderr, "sim-train: no %s\n", name);
		exit(2);
	}
	return p;
}

/* Assigns through void*: POSIX's way for function pointers. */
#define GET(h, field, name) (*(void **)&lib.field = sym((h), (name)))
#define SAME(h, name) GET(h, name, #name)

void libs_early(void)
{
	void *h = open_lib("libsim_truth.so", 1);

	GET(h, truth_put, "sim_truth_put");
	GET(h, truth_flush, "sim_truth_flush");
	lib.truth_enabled = sym(h, "sim_truth_enabled");
}

static void load_acl(void)
{
	void *h = open_lib("libascendcl.so", 1);

	SAME(h, aclInit);
	SAME(h, aclFinalize);
	SAME(h, aclrtSetDevice);
	SAME(h, aclrtResetDevice);
	SAME(h, aclrtGetDeviceCount);
	SAME(h, aclrtCreateStream);
	SAME(h, aclrtDestroyStream);
	SAME(h, aclrtStreamGetId);
	SAME(h, aclrtSynchronizeStream);
	SAME(h, aclrtMalloc);
	SAME(h, aclrtMallocAlign32);
	SAME(h, aclrtMallocCached);
	SAME(h, aclrtMallocWithCfg);
	SAME(h, aclrtMemAllocManaged);
	SAME(h, aclrtFree);
	SAME(h, aclrtMallocHost);
	SAME(h, aclrtFreeHost);
	SAME(h, aclrtHostRegister);
	SAME(h, aclrtHostRegisterV2);
	SAME(h, aclrtHostUnregister);
	SAME(h, aclrtMallocPhysical);
	SAME(h, aclrtFreePhysical);
	SAME(h, aclrtReserveMemAddress);
	SAME(h, aclrtReleaseMemAddress);
	SAME(h, aclrtMapMem);
	SAME(h, aclrtUnmapMem);
	SAME(h, aclrtMemPoolCreate);
	SAME(h, aclrtMemPoolDestroy);
	SAME(h, aclrtMemPoolMallocAsync);
	SAME(h, aclrtMemPoolFreeAsync);
	SAME(h, aclrtMemcpy);
	SAME(h, aclrtMemcpyAsync);
	SAME(h, aclrtMemset);
	SAME(h, aclrtMemsetAsync);
	lib.hal = open_lib("libascend_hal.so", 1);
	lib.rt = open_lib("libruntime.so", 1);
	h = open_lib("libms_tools_ext.so", 1);
	SAME(h, mstxMarkA);
	SAME(h, mstxRangeStartA);
	SAME(h, mstxRangeEnd);
	SAME(h, mstxDomainCreateA);
	SAME(h, mstxDomainMarkA);
	SAME(h, mstxDomainRangeStartA);
	SAME(h, mstxDomainRangeEnd);
}

static void load_torch(void)
{
	void *h = open_lib("libtorch_npu.so", 1);

	GET(h, npu_init, "sim_npu_init");
	GET(h, npu_malloc, "sim_npu_malloc");
	GET(h, npu_free, "sim_npu_free");
	GET(h, npu_record_stream, "sim_npu_record_stream");
	GET(h, npu_empty_cache, "sim_npu_empty_cache");
	GET(h, npu_stats, "sim_npu_stats");
	GET(h, npu_op, "sim_npu_op");
	GET(h, npu_sync, "sim_npu_sync");
	GET(h, npu_check, "sim_npu_check");
	GET(h, npu_profiling, "sim_npu_profiling");
	if (!strncmp(opt.layout, "opaque", 6))
		return;
	GET(h, MallocBlock, "_ZN7c10_npu19NPUCachingAllocator11MallocBlockEmPvi");
	GET(h, FreeBlock, "_ZN7c10_npu19NPUCachingAllocator9FreeBlockEPv");
	GET(h, GetBlockPtr, "_ZN7c10_npu19NPUCachingAllocator11GetBlockPtrEPKv");
}

void libs_load(void)
{
	void *h;

	load_acl();
	if (!opt.no_torch)
		load_torch();
	if (opt.mindspore) {
		h = open_lib("libmindspore_ascend_res_manager.so", 1);
		GET(h, ms_init, "sim_ms_init");
		GET(h, ms_alloc, "sim_ms_alloc");
		GET(h, ms_free, "sim_ms_free");
		GET(h, ms_alloc_list, "sim_ms_alloc_list");
		GET(h, ms_free_part, "sim_ms_free_part");
		GET(h, ms_record_event, "sim_ms_record_event");
		GET(h, ms_sync_events, "sim_ms_sync_events");
	}
	if (opt.hccl) {
		h = open_lib("libhccl.so", 1);
		SAME(h, HcclCommInitRootInfo);
		SAME(h, HcclAllReduce);
		SAME(h, HcclCommDestroy);
	}
	if (opt.atb)
		GET(open_lib("libatb.so", 1), atb_run, "sim_atb_run");
}
