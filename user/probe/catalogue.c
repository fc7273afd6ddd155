// SPDX-License-Identifier: Apache-2.0
/*
 * Which symbol of which library serves which event (spec ascend-abi.md 2, 4.1).
 * One layer an event type; argument orders from the tables there.
 */
#include "probe/probe.h"

#include <fnmatch.h>
#include <stddef.h>

#include "base/base.h"
#include "memtap/event.h"

/* A library, with or without a version behind its name. */
#define SO(name) name ".so?(.+([0-9.]))"

#define HAL SO("libascend_hal")
#define ACL SO("@(libacl_rt|libascendcl)")
#define RT SO("libruntime")
#define TX SO("libms_tools_ext")
#define NPU SO("libtorch_npu")
#define C10 SO("libc10")
#define TORCH SO("libtorch_cpu")
#define NPY "_C?(.*).so"
#define MSX "mstx?(.*).so"
#define MARKS SO("libmemtap_marks")
#define MS SO("@(libmindspore_memory_pool|libmindspore_backend|libmindspore_common)")
#define MSA SO("libmindspore_ascend_res_manager")
#define ATB SO("libatb")
#define MKI SO("libmki")

/* `this` of a method that returns an object: its place is the first argument on x86-64. */
#ifdef __x86_64__
#define SRET 1
#else
#define SRET 0
#endif

#define NOARG                      \
	{                          \
		-1, -1, -1, -1, -1 \
	}

/*
 * A launch: name source, stream, tiling key (argument numbers), kind of name. The
 * seventh argument is in a register on aarch64.
 */
#define LAUNCH(sym, src, stream, key, kind_)                                                 \
	{                                                                                    \
		.lib = RT, .symbol = { sym }, .prog = "rt_launch", .kind = PROBE_CALL,       \
		.nargs = MT_MAX(6, (stream) + 1), .klass = CLASS_LAUNCH, .fn = MT_FN_LAUNCH, \
		.name_kind = (kind_), .flags = MT_SITE_NOTIFY,                               \
		.arg = { src,                                                                \
			 stream,                                                             \
			 key,                                                                \
			 -1,                                                                 \
			 -1 }                                                                \
	}

/* An allocation call around the driver: needs no argument, only its result. */
#define ENCLOSING(lib_, sym)                                                             \
	{                                                                                \
		.lib = lib_, .symbol = { sym }, .prog = "acl_alloc", .kind = PROBE_CALL, \
		.klass = CLASS_HAL, .fn = MT_FN_OOM, .arg = NOARG                        \
	}

/* The same, for those by which torch_npu gets its segments; policy: its argument number. */
#define SEGMENT(lib_, sym, policy)                                                         \
	{                                                                                  \
		.lib = lib_, .symbol = { sym }, .prog = "acl_alloc", .kind = PROBE_CALL,   \
		.nargs = 3, .klass = CLASS_HAL, .fn = MT_FN_OOM, .flags = MT_SITE_SEGMENT, \
		.arg = { -1,                                                               \
			 -1,                                                               \
			 policy,                                                           \
			 -1,                                                               \
			 -1 }                                                              \
	}

/* A method of MindSpore's pools: the size is argument 1 where it is one; MemBuf has its own @32,
 * @40. */
#define POOL(sym, older, prog_, kind_, nargs_, fn_, flags_)                             \
	{                                                                               \
		.lib = MS, .symbol = { sym, older }, .prog = prog_, .kind = (kind_),    \
		.nargs = (nargs_), .klass = CLASS_POOL, .fn = (fn_), .flags = (flags_), \
		.arg = { 1, -1, -1, -1, -1 },                                           \
		.off = { 32,                                                            \
			 40 }                                                           \
	}

#define CALL(lib_, sym, fn_, a0, a1, a2, flags_)                                        \
	{                                                                               \
		.lib = lib_, .symbol = { sym }, .prog = "acl_call", .kind = PROBE_CALL, \
		.nargs = 3, .klass = CLASS_SYSTEM, .fn = (fn_), .flags = (flags_),      \
		.arg = { a0,                                                            \
			 a1,                                                            \
			 a2,                                                            \
			 -1,                                                            \
			 -1 }                                                           \
	}

#define PY(lib_, klass_, method, prog_, fn_)                                            \
	{                                                                               \
		.lib = lib_, .symbol = { method }, .prog = prog_, .kind = PROBE_PYTHON, \
		.nargs = 3, .klass = (klass_), .fn = (fn_), .arg = NOARG                \
	}

static const struct probe_def defs[] = {
	/* 2.5: the public symbol, present in every release, else the Inner one; never both */
	{ .lib = HAL,
	  .symbol = { "halMemAlloc", "halMemAllocInner" },
	  .prog = "hal_alloc",
	  .kind = PROBE_CALL,
	  .nargs = 3,
	  .klass = CLASS_HAL,
	  .fn = MT_FN_HAL_ALLOC,
	  .arg = NOARG },
	{ .lib = HAL,
	  .symbol = { "halMemFree", "halMemFreeInner" },
	  .prog = "hal_free",
	  .kind = PROBE_CALL,
	  .nargs = 1,
	  .klass = CLASS_HAL,
	  .fn = MT_FN_HAL_FREE,
	  .arg = NOARG },
	{ .lib = HAL,
	  .symbol = { "halMemCreate", "halMemCreateInner" },
	  .prog = "hal_create",
	  .kind = PROBE_CALL,
	  .nargs = 4,
	  .klass = CLASS_HAL,
	  .fn = MT_FN_HAL_CREATE,
	  .arg = NOARG },
	{ .lib = HAL,
	  .symbol = { "halMemRelease", "halMemReleaseInner" },
	  .prog = "hal_free",
	  .kind = PROBE_CALL,
	  .nargs = 1,
	  .klass = CLASS_HAL,
	  .fn = MT_FN_HAL_RELEASE,
	  .arg = NOARG },

	/* 2.2 */
	CALL(ACL, "aclInit", MT_FN_ACL_INIT, -1, -1, -1, 0),
	CALL(ACL, "aclFinalize", MT_FN_ACL_FINI, -1, -1, -1, 0),
	CALL(ACL, "aclrtSetDevice", MT_FN_SET_DEVICE, 0, -1, -1, 0),
	CALL(RT, "rtSetDevice", MT_FN_SET_DEVICE, 0, -1, -1, 0),
	CALL(ACL, "aclrtHostRegister", MT_FN_HOST_REG, 0, 1, -1, 0),
	CALL(ACL, "aclrtHostRegisterV2", MT_FN_HOST_REG, 0, 1, 2, 0),
	CALL(ACL, "aclrtHostUnregister", MT_FN_HOST_UNREG, 0, -1, -1, MT_SITE_NOTIFY),
	{ .lib = ACL,
	  .symbol = { "aclrtStreamGetId" },
	  .prog = "acl_stream",
	  .kind = PROBE_CALL,
	  .nargs = 2,
	  .klass = CLASS_SYSTEM,
	  .fn = MT_FN_STREAM_ID,
	  .arg = { 0, 1, -1, -1, -1 } },

	/* 1.3: one acl call may make several refused halMemAlloc calls before one succeeds */
	SEGMENT(ACL, "aclrtMalloc", 2),
	SEGMENT(ACL, "aclrtMallocAlign32", 2),
	ENCLOSING(ACL, "aclrtMallocCached"),
	ENCLOSING(ACL, "aclrtMallocWithCfg"),
	ENCLOSING(ACL, "aclrtMallocForTaskScheduler"),
	ENCLOSING(ACL, "aclrtMemAllocManaged"),
	ENCLOSING(ACL, "aclrtMallocHost"),
	ENCLOSING(ACL, "aclrtMallocHostWithCfg"),
	SEGMENT(ACL, "aclrtMallocPhysical", -1),
	ENCLOSING(RT, "rtMalloc"),
	ENCLOSING(RT, "rtMallocCached"),
	ENCLOSING(RT, "rtsMalloc"),
	ENCLOSING(RT, "rtMemAlloc"),
	ENCLOSING(RT, "rtDvppMalloc"),
	ENCLOSING(RT, "rtDvppMallocWithFlag"),
	ENCLOSING(RT, "rtMemAllocManaged"),
	ENCLOSING(RT, "rtMallocHost"),
	ENCLOSING(RT, "rtsMallocHost"),
	ENCLOSING(RT, "rtMallocPhysical"),
	ENCLOSING(RT, "rtsMemMallocPhysical"),

	/* 2.7: hidden in stripped libraries, found by derivation (2.7.3) */
	{ .lib = NPU,
	  .symbol = { "torch_npu::profiler::reportMemoryDataToNpuProfiler" },
	  .prog = "pta_report",
	  .kind = PROBE_ENTRY,
	  .nargs = 1,
	  .klass = CLASS_POOL,
	  .fn = MT_FN_PTA_REPORT,
	  .arg = NOARG },
	{ .lib = NPU,
	  .symbol = { "DeviceCachingAllocator::malloc" },
	  .prog = "pta_alloc",
	  .kind = PROBE_RETS,
	  .nargs = 3,
	  .klass = CLASS_POOL,
	  .fn = MT_FN_PTA_ALLOC,
	  .arg = NOARG },
	{ .lib = NPU,
	  .symbol = { "DeviceCachingAllocator::free" },
	  .prog = "pta_free_e",
	  .kind = PROBE_ENTRY,
	  .nargs = 2,
	  .klass = CLASS_POOL,
	  .fn = MT_FN_PTA_FREE,
	  .arg = NOARG },
	/* 2.7.4: generation 5.0; device type 20 (PrivateUse1), CUDA and CPU use it too */
	{ .lib = C10,
	  .symbol = { "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
		      "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE" },
	  .prog = "c10_report",
	  .kind = PROBE_ENTRY,
	  .nargs = 5,
	  .klass = CLASS_POOL,
	  .fn = MT_FN_C10_REPORT,
	  .arg = NOARG,
	  .off = { 20 } },

	/* 2.10: MemBuf size@32, addr@40 */
	POOL("_ZN9mindspore6device22AbstractDynamicMemPool11AllocMemBufEmbj", NULL, "ms_alloc",
	     PROBE_RETS, 2, MT_FN_MS_ALLOC, 0),
	POOL("_ZN9mindspore6device22AbstractDynamicMemPool15DoFreeTensorMemERKPv", NULL, "ms_free",
	     PROBE_RETS, 2, MT_FN_MS_FREE, 0),
	POOL("_ZN9mindspore6device22AbstractDynamicMemPool24AllocContinuousTensorMemERKSt6vectorImS"
	     "aIm"
	     "EEj",
	     NULL, "ms_list", PROBE_RETS, SRET + 2, MT_FN_MS_ALLOC, 0),
	POOL("_ZN9mindspore6device22AbstractDynamicMemPool20DoFreePartTensorMemsERKSt6vectorIPvSaIS"
	     "3_"
	     "EES7_RKS2_ImSaImEE",
	     NULL, "ms_part", PROBE_RETS, SRET + 1, MT_FN_MS_PART, 0),
	POOL("_ZN9mindspore6device21DynamicMemPoolBestFit14AllocTensorMemEmbbj",
	     "_ZN9mindspore6device21DynamicMemPoolBestFit14AllocTensorMemEmb", "ms_alloc",
	     PROBE_RETS, 2, MT_FN_MS_ALLOC, MT_SITE_RC_ADDR | MT_SITE_BESTFIT),
	/* The inner one frees the blocks of a list too. */
	POOL("_ZN9mindspore6device21DynamicMemPoolBestFit18FreeTensorMemInnerERKPv",
	     "_ZN9mindspore6device21DynamicMemPoolBestFit13FreeTensorMemERKPv", "ms_free",
	     PROBE_RETS, 2, MT_FN_MS_FREE, MT_SITE_BESTFIT),
	POOL("_ZN9mindspore6device21DynamicMemPoolBestFit24AllocContinuousTensorMemERKSt6vectorImSa"
	     "ImE"
	     "Ej",
	     NULL, "ms_list", PROBE_RETS, SRET + 2, MT_FN_MS_ALLOC, MT_SITE_BESTFIT),
	POOL("_ZN9mindspore6device21DynamicMemPoolBestFit19KeepTensorMemByAddrERKPvm", NULL,
	     "ms_keep", PROBE_RETS, 3, MT_FN_MS_ALLOC, MT_SITE_BESTFIT),
	{ .lib = MSA,
	  .symbol = { "_ZNK9mindspore6device6ascend31AbstractAscendMemoryPoolSupport17GetVmmUsedMem"
		      "S"
		      "izeEv" },
	  .prog = "ms_vmm",
	  .kind = PROBE_EXITS,
	  .klass = CLASS_POOL,
	  .fn = MT_FN_MS_VMM,
	  .arg = NOARG },

	/* 2.6.1; message, stream, domain */
	{ .lib = TX,
	  .symbol = { "mstxMarkA" },
	  .prog = "mstx_mark",
	  .kind = PROBE_ENTRY,
	  .nargs = 2,
	  .klass = CLASS_MSTX,
	  .fn = MT_FN_MSTX_MARK,
	  .arg = { 0, 1, -1, -1, -1 } },
	{ .lib = TX,
	  .symbol = { "mstxRangeStartA" },
	  .prog = "mstx_start",
	  .kind = PROBE_CALL,
	  .nargs = 2,
	  .klass = CLASS_MSTX,
	  .fn = MT_FN_MSTX_START,
	  .arg = { 0, 1, -1, -1, -1 } },
	{ .lib = TX,
	  .symbol = { "mstxRangeEnd" },
	  .prog = "mstx_end",
	  .kind = PROBE_ENTRY,
	  .nargs = 1,
	  .klass = CLASS_MSTX,
	  .fn = MT_FN_MSTX_END,
	  .arg = { 0, -1, -1, -1, -1 } },
	{ .lib = TX,
	  .symbol = { "mstxDomainMarkA" },
	  .prog = "mstx_mark",
	  .kind = PROBE_ENTRY,
	  .nargs = 3,
	  .klass = CLASS_MSTX,
	  .fn = MT_FN_MSTX_MARK,
	  .arg = { 1, 2, 0, -1, -1 } },
	{ .lib = TX,
	  .symbol = { "mstxDomainRangeStartA" },
	  .prog = "mstx_start",
	  .kind = PROBE_CALL,
	  .nargs = 3,
	  .klass = CLASS_MSTX,
	  .fn = MT_FN_MSTX_START,
	  .arg = { 1, 2, 0, -1, -1 } },
	{ .lib = TX,
	  .symbol = { "mstxDomainRangeEnd" },
	  .prog = "mstx_end",
	  .kind = PROBE_ENTRY,
	  .nargs = 2,
	  .klass = CLASS_MSTX,
	  .fn = MT_FN_MSTX_END,
	  .arg = { 1, -1, 0, -1, -1 } },
	/* Our own, that a program may call: what, value, text */
	{ .lib = MARKS,
	  .symbol = { "memtap_mark" },
	  .prog = "mstx_mark",
	  .kind = PROBE_ENTRY,
	  .nargs = 3,
	  .klass = CLASS_MSTX,
	  .fn = MT_FN_ASK,
	  .arg = { 2, 1, 0, -1, -1 } },
	/* 2.6.2, msleaks.md 12.3: Python functions, found by their method names */
	PY(NPU, CLASS_TORCH_MARK, "_mark_on_host", "py_mark", MT_FN_MSTX_MARK),
	PY(NPU, CLASS_TORCH_MARK, "_mark", "py_mark", MT_FN_MSTX_MARK),
	PY(NPU, CLASS_TORCH_MARK, "_range_start_on_host", "py_mark", MT_FN_MSTX_START),
	PY(NPU, CLASS_TORCH_MARK, "_range_start", "py_mark", MT_FN_MSTX_START),
	PY(NPU, CLASS_TORCH_MARK, "_range_push_on_host", "py_mark", MT_FN_MSTX_START),
	PY(NPU, CLASS_TORCH_MARK, "_range_push", "py_mark", MT_FN_MSTX_START),
	PY(NPU, CLASS_TORCH_MARK, "_range_pop", "py_end", MT_FN_MSTX_END),
	PY(NPU, CLASS_TORCH_MARK, "_range_end", "py_end", MT_FN_MSTX_END),
	/* in torch_npu._C itself, where that is not a shim of libtorch_npu */
	PY(NPY, CLASS_TORCH_MARK, "_mark_on_host", "py_mark", MT_FN_MSTX_MARK),
	PY(NPY, CLASS_TORCH_MARK, "_mark", "py_mark", MT_FN_MSTX_MARK),
	PY(NPY, CLASS_TORCH_MARK, "_range_start_on_host", "py_mark", MT_FN_MSTX_START),
	PY(NPY, CLASS_TORCH_MARK, "_range_start", "py_mark", MT_FN_MSTX_START),
	PY(NPY, CLASS_TORCH_MARK, "_range_push_on_host", "py_mark", MT_FN_MSTX_START),
	PY(NPY, CLASS_TORCH_MARK, "_range_push", "py_mark", MT_FN_MSTX_START),
	PY(NPY, CLASS_TORCH_MARK, "_range_pop", "py_end", MT_FN_MSTX_END),
	PY(NPY, CLASS_TORCH_MARK, "_range_end", "py_end", MT_FN_MSTX_END),
	PY(MSX, CLASS_MSTX, "mark", "py_mark", MT_FN_MSTX_MARK),
	PY(MSX, CLASS_MSTX, "range_start", "py_mark", MT_FN_MSTX_START),
	PY(MSX, CLASS_MSTX, "range_end", "py_end", MT_FN_MSTX_END),

	/* 2.4: names at registration */
	{ .lib = RT,
	  .symbol = { "rtFunctionRegister" },
	  .prog = "acl_name",
	  .kind = PROBE_CALL,
	  .nargs = 3,
	  .klass = CLASS_LAUNCH,
	  .fn = MT_FN_FUNC_NAME,
	  .arg = { 1, 2, -1, -1, -1 } },
	{ .lib = RT,
	  .symbol = { "rtRegisterFuncSymbol" },
	  .prog = "acl_name",
	  .kind = PROBE_CALL,
	  .nargs = 3,
	  .klass = CLASS_LAUNCH,
	  .fn = MT_FN_FUNC_NAME,
	  .arg = { 1, 2, -1, -1, -1 } },
	{ .lib = RT,
	  .symbol = { "rtsFuncGetByName" },
	  .prog = "acl_name",
	  .kind = PROBE_CALL,
	  .nargs = 3,
	  .klass = CLASS_LAUNCH,
	  .fn = MT_FN_FUNC_NAME,
	  .flags = MT_SITE_RC_ADDR,
	  .arg = { 2, 1, -1, -1, -1 } },
	{ .lib = ACL,
	  .symbol = { "aclrtBinaryGetFunction" },
	  .prog = "acl_name",
	  .kind = PROBE_CALL,
	  .nargs = 3,
	  .klass = CLASS_LAUNCH,
	  .fn = MT_FN_FUNC_NAME,
	  .flags = MT_SITE_RC_ADDR,
	  .arg = { 2, 1, -1, -1, -1 } },
	/* 2.4: the launch family; the outermost on a thread counts */
	LAUNCH("rtKernelLaunch", 0, 5, -1, MT_NAME_STUB),
	LAUNCH("rtKernelLaunchWithFlag", 0, 4, -1, MT_NAME_STUB),
	LAUNCH("rtKernelLaunchWithFlagV2", 0, 4, -1, MT_NAME_STUB),
	LAUNCH("rtKernelLaunchWithHandle", 0, 5, 1, MT_NAME_PROGRAM),
	LAUNCH("rtKernelLaunchWithHandleV2", 0, 5, 1, MT_NAME_PROGRAM),
	LAUNCH("rtVectorCoreKernelLaunchWithHandle", 0, 5, 1, MT_NAME_PROGRAM),
	LAUNCH("rtVectorCoreKernelLaunch", 0, 4, -1, MT_NAME_STUB),
	LAUNCH("rtLaunchKernelByFuncHandle", 0, 3, -1, MT_NAME_HANDLE),
	LAUNCH("rtLaunchKernelByFuncHandleV2", 0, 3, -1, MT_NAME_HANDLE),
	LAUNCH("rtLaunchKernelByFuncHandleV3", 0, 3, -1, MT_NAME_HANDLE),
	LAUNCH("rtsLaunchKernelWithConfig", 0, 2, -1, MT_NAME_HANDLE),
	LAUNCH("rtsLaunchKernelWithDevArgs", 0, 2, -1, MT_NAME_HANDLE),
	LAUNCH("rtsLaunchKernelWithHostArgs", 0, 2, -1, MT_NAME_HANDLE),
	LAUNCH("rtLaunchKernelWithArgsArray", 0, 2, -1, MT_NAME_HANDLE),
	LAUNCH("rtsLaunchCpuKernel", 0, 2, -1, MT_NAME_HANDLE),
	LAUNCH("rtLaunchKernelExByFuncHandle", 0, 3, -1, MT_NAME_HANDLE),
	LAUNCH("rtAicpuKernelLaunchExWithArgs", 1, 5, -1, MT_NAME_STRING),
	/* A0 = struct of names {so, kernel, op}; the kernel is RunCpuKernel for nearly all */
	{ .lib = RT,
	  .symbol = { "rtAicpuKernelLaunchWithFlag" },
	  .prog = "rt_launch",
	  .kind = PROBE_CALL,
	  .nargs = 6,
	  .klass = CLASS_LAUNCH,
	  .fn = MT_FN_LAUNCH,
	  .name_kind = MT_NAME_STRING,
	  .flags = MT_SITE_NOTIFY | MT_SITE_RC_ADDR,
	  .arg = { 0, 4, -1, -1, -1 },
	  .off = { 16 } },
	LAUNCH("rtCpuKernelLaunchWithFlag", 1, 5, -1, MT_NAME_STRING),
	/* older runtimes; the stream of rtLaunch is that of rtConfigureCall before it */
	LAUNCH("rtCpuKernelLaunch", 1, 6, -1, MT_NAME_STRING),
	LAUNCH("rtLaunch", 0, -1, -1, MT_NAME_STUB),
	LAUNCH("rtKernelLaunchFwk", 0, 4, -1, MT_NAME_STRING),
	LAUNCH("rtKernelLaunchEx", -1, 3, -1, MT_NAME_NONE),
	LAUNCH("rtFftsPlusTaskLaunch", -1, 1, -1, MT_NAME_NONE),
	LAUNCH("rtFftsPlusTaskLaunchWithFlag", -1, 1, -1, MT_NAME_NONE),
	LAUNCH("rtStarsTaskLaunch", -1, 2, -1, MT_NAME_NONE),
	LAUNCH("rtStarsTaskLaunchWithFlag", -1, 2, -1, MT_NAME_NONE),
	LAUNCH("rtLaunchDvppTask", -1, 2, -1, MT_NAME_NONE),
	LAUNCH("rtFusionLaunch", -1, 1, -1, MT_NAME_NONE),
	LAUNCH("rtCCULaunch", -1, 1, -1, MT_NAME_NONE),
	LAUNCH("rtMultipleTaskInfoLaunch", -1, 1, -1, MT_NAME_NONE),
	LAUNCH("rtCmoTaskLaunch", -1, 1, -1, MT_NAME_NONE),

	/* 2.9; this, tensors, workspace, its size */
	{ .lib = ATB,
	  .symbol = { "_ZN3atb13OperationBase7ExecuteERKNS_11VariantPackEPhmPNS_7ContextE" },
	  .prog = "atb_op",
	  .kind = PROBE_RETS,
	  .nargs = 4,
	  .klass = CLASS_POOL,
	  .fn = MT_FN_ATB_POOL,
	  .arg = NOARG },
	/* what the vendor's tool hooks: this, tensors and workspace */
	{ .lib = ATB,
	  .symbol = { "_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE" },
	  .prog = "atb_run",
	  .kind = PROBE_RETS,
	  .nargs = 2,
	  .klass = CLASS_ATB,
	  .fn = MT_FN_ATB_RUN,
	  .arg = NOARG },
	/* this, node, its number; 8.0 has the context by reference */
	{ .lib = ATB,
	  .symbol = { "_ZNK3atb9OpsRunner9RunKernelERNS_15KernelGraphNodeEmPNS_11ContextBaseE",
		      "_ZNK3atb9OpsRunner9RunKernelERNS_15KernelGraphNodeEmRNS_11ContextBaseE" },
	  .prog = "atb_kern",
	  .kind = PROBE_RETS,
	  .nargs = 3,
	  .klass = CLASS_ATB_KERNEL,
	  .fn = MT_FN_ATB_KERNEL,
	  .arg = NOARG },
	/* inside of it; they return an object: this, parameters of the launch */
	{ .lib = MKI,
	  .symbol = { "_ZN3Mki10KernelBase3RunERKNS_11LaunchParamERNS_7RunInfoE" },
	  .prog = "atb_mki",
	  .kind = PROBE_ENTRY,
	  .nargs = SRET + 2,
	  .klass = CLASS_ATB_KERNEL,
	  .fn = MT_FN_ATB_LAUNCH,
	  .arg = { SRET, SRET + 1, -1, -1, -1 } },
	{ .lib = MKI,
	  .symbol = { "_ZN3Mki10KernelBase11RunWithArgsEPvS1_b" },
	  .prog = "atb_mki",
	  .kind = PROBE_ENTRY,
	  .nargs = SRET + 1,
	  .klass = CLASS_ATB_KERNEL,
	  .fn = MT_FN_ATB_LAUNCH,
	  .arg = { SRET, -1, -1, -1, -1 } },

	/* 2.7.7: some 3,100 functions */
	{ .lib = TORCH,
	  .symbol = { "at::_ops::*::call" },
	  .prog = "aten",
	  .kind = PROBE_OPS,
	  .klass = CLASS_OPS,
	  .fn = MT_FN_ATEN_START,
	  .arg = NOARG },
};

/* The last one only after catalogue__use: by itself it makes no process one of an NPU. */
static const char *const libs[] = { HAL, ACL, RT,  TX,	  NPU, NPY, C10,
				    MSX, MS,  MSA, MARKS, ATB, MKI, TORCH };
static size_t n_libs = MT_ARRAY_SIZE(libs) - 1;

void catalogue__use(unsigned int classes)
{
	n_libs = MT_ARRAY_SIZE(libs) - !(classes & CLASS_OPS);
}

const struct probe_def *catalogue__defs(size_t *n)
{
	*n = MT_ARRAY_SIZE(defs);
	return defs;
}

const char *const *catalogue__libs(size_t *n)
{
	*n = n_libs;
	return libs;
}

const char *catalogue__libs_text(void)
{
	return "libascend_hal.so, libacl_rt.so, libascendcl.so, libruntime.so, libms_tools_ext.so, "
	       "libtorch_npu.so, libc10.so, the Python modules mstx and torch_npu._C, "
	       "libmindspore_memory_pool.so, libmindspore_backend.so, libmindspore_common.so, "
	       "libmindspore_ascend_res_manager.so, libmemtap_marks.so, libatb.so, libmki.so";
}

bool catalogue__wants(const char *base)
{
	size_t i;

	for (i = 0; i < n_libs; i++)
		if (fnmatch(libs[i], base, FNM_EXTMATCH) == 0)
			return true;
	return false;
}
