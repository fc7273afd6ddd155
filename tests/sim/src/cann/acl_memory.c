// SPDX-License-Identifier: Apache-2.0
/* Simulated ACL implementation: memory. */
#include "acl.h"
#include "hal.h"
#include "rt.h"
#include "../truth/sim_truth.h"

#include <string.h>

#define API __attribute__((visibility("default")))
#define OUT_OF(rc, pp) ((rc) ? 0 : U64(*(pp)))

/* aclrtMemMallocPolicy and its or-able bits to the runtime's memory type. */
static uint32_t rt_type(aclrtMemMallocPolicy pol)
{
	static const uint32_t page[] = {
		RT_MEMORY_POLICY_HUGE_FIRST,	RT_MEMORY_POLICY_HUGE_ONLY,
		RT_MEMORY_POLICY_NORMAL_ONLY,	RT_MEMORY_POLICY_HUGE_FIRST_P2P,
		RT_MEMORY_POLICY_HUGE_ONLY_P2P, RT_MEMORY_POLICY_NORMAL_ONLY_P2P,
		RT_MEMORY_POLICY_1G_ONLY,	RT_MEMORY_POLICY_1G_ONLY_P2P,
	};
	uint32_t t = page[pol & 7];

	t |= pol & 0x100 ? RT_MEMORY_DDR : RT_MEMORY_HBM;
	if (pol & 0x100000)
		t |= RT_MEMORY_READONLY;
	return t;
}

static size_t up32(size_t n)
{
	return (n + 31) & ~(size_t)31;
}

API aclError aclrtMallocImpl(void **p, size_t n, aclrtMemMallocPolicy pol)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = ACL_ERROR_INVALID_PARAM;

	if (p && n)
		rc = rtMalloc(p, up32(n) + 32, rt_type(pol), MODULE_APP);
	SIM_TRUTH(t0, "aclrtMalloc", SIM_ARGS(U64(p), n, (uint64_t)pol), .ret = rc,
		  .out = OUT_OF(rc, p), .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtMallocAlign32Impl(void **p, size_t n, aclrtMemMallocPolicy pol)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = ACL_ERROR_INVALID_PARAM;

	if (p && n)
		rc = rtMalloc(p, up32(n), rt_type(pol), MODULE_APP);
	SIM_TRUTH(t0, "aclrtMallocAlign32", SIM_ARGS(U64(p), n, (uint64_t)pol), .ret = rc,
		  .out = OUT_OF(rc, p), .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtMallocCachedImpl(void **p, size_t n, aclrtMemMallocPolicy pol)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = ACL_ERROR_INVALID_PARAM;

	if (p && n)
		rc = rtMallocCached(p, up32(n), rt_type(pol), MODULE_APP);
	SIM_TRUTH(t0, "aclrtMallocCached", SIM_ARGS(U64(p), n, (uint64_t)pol), .ret = rc,
		  .out = OUT_OF(rc, p), .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtMallocWithCfgImpl(void **p, size_t n, aclrtMemMallocPolicy pol,
				    aclrtMallocConfig *cfg)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = ACL_ERROR_INVALID_PARAM;

	if (p && n)
		rc = rtsMalloc(p, up32(n), rt_type(pol), 0, cfg);
	SIM_TRUTH(t0, "aclrtMallocWithCfg", SIM_ARGS(U64(p), n, (uint64_t)pol, U64(cfg)), .ret = rc,
		  .out = OUT_OF(rc, p), .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtMallocForTaskSchedulerImpl(void **p, size_t n, aclrtMemMallocPolicy pol,
					     aclrtMallocConfig *cfg)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = ACL_ERROR_INVALID_PARAM;

	if (p && n)
		rc = rtsMalloc(p, up32(n), rt_type(pol), 0, cfg);
	SIM_TRUTH(t0, "aclrtMallocForTaskScheduler", SIM_ARGS(U64(p), n, (uint64_t)pol, U64(cfg)),
		  .ret = rc, .out = OUT_OF(rc, p), .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtMemAllocManagedImpl(void **p, uint64_t n, uint32_t flag)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p && n ? rtMemAllocManaged(p, n, flag, MODULE_APP) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtMemAllocManaged", SIM_ARGS(U64(p), n, flag), .ret = rc,
		  .out = OUT_OF(rc, p), .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtFreeImpl(void *p)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p ? rtFree(p) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtFree", SIM_ARGS(U64(p)), .ret = rc, .out = U64(p), .has = SIM_T_OUT);
	return rc;
}

API aclError aclrtFreeWithDevSyncImpl(void *p)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p ? rtFreeWithDevSync(p) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtFreeWithDevSync", SIM_ARGS(U64(p)), .ret = rc, .out = U64(p),
		  .has = SIM_T_OUT);
	return rc;
}

API aclError aclrtMallocHostImpl(void **p, size_t n)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p && n ? rtMallocHost(p, n, MODULE_APP) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtMallocHost", SIM_ARGS(U64(p), n), .ret = rc, .out = OUT_OF(rc, p),
		  .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtMallocHostWithCfgImpl(void **p, uint64_t n, aclrtMallocConfig *cfg)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p && n ? rtsMallocHost(p, n, cfg) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtMallocHostWithCfg", SIM_ARGS(U64(p), n, U64(cfg)), .ret = rc,
		  .out = OUT_OF(rc, p), .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtFreeHostImpl(void *p)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p ? rtFreeHost(p) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtFreeHost", SIM_ARGS(U64(p)), .ret = rc, .out = U64(p),
		  .has = SIM_T_OUT);
	return rc;
}

API aclError aclrtFreeHostWithDevSyncImpl(void *p)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p ? rtFreeHostWithDevSync(p) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtFreeHostWithDevSync", SIM_ARGS(U64(p)), .ret = rc, .out = U64(p),
		  .has = SIM_T_OUT);
	return rc;
}

API aclError aclrtHostRegisterImpl(void *p, uint64_t n, int type, void **dev)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p && n ? rtsHostRegister(p, n, (uint32_t)type, dev) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtHostRegister", SIM_ARGS(U64(p), n, (uint64_t)type, U64(dev)), .ret = rc,
		  .out = U64(p), .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtHostRegisterV2Impl(void *p, uint64_t n, uint32_t flag)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p && n ? rtHostRegisterV2(p, n, flag) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtHostRegisterV2", SIM_ARGS(U64(p), n, flag), .ret = rc, .out = U64(p),
		  .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtHostUnregisterImpl(void *p)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p ? rtsHostUnregister(p) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtHostUnregister", SIM_ARGS(U64(p)), .ret = rc, .out = U64(p),
		  .has = SIM_T_OUT);
	return rc;
}

/* aclrtMemAttr to {page type, memory type} of the driver. */
static void attr_to_prop(int32_t attr, rtDrvMemProp_t *q)
{
	switch (attr) {
	case 0:
	case 2:
	case 3:
		q->mem_type = 1;
		break;
	case 6:
	case 7:
		q->mem_type = 3;
		break;
	case 8:
	case 9:
	case 11:
	case 15:
	case 16:
	case 17:
		q->mem_type = 2;
		break;
	default:
		q->mem_type = 0;
	}
	switch (attr) {
	case 3:
	case 5:
	case 7:
	case 9:
	case 12:
	case 15:
		q->pg_type = 0;
		break;
	case 10:
	case 11:
	case 14:
	case 17:
		q->pg_type = 2;
		break;
	default:
		q->pg_type = 1;
	}
}

API aclError aclrtMallocPhysicalImpl(void **h, size_t n, const aclrtPhysicalMemProp *prop,
				     uint64_t flags)
{
	uint64_t t0 = sim_truth_begin();
	rtDrvMemProp_t q = { .module_id = MODULE_APP };
	aclError rc = ACL_ERROR_INVALID_PARAM;

	if (h && n && prop) {
		q.side = prop->location.type == 0 ? 0 : 1;
		q.devid = prop->location.id;
		attr_to_prop(prop->memAttr, &q);
		rc = rtMallocPhysical(h, n, &q, flags);
	}
	SIM_TRUTH(t0, "aclrtMallocPhysical", SIM_ARGS(U64(h), n, U64(prop), flags), .ret = rc,
		  .out = OUT_OF(rc, h), .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtFreePhysicalImpl(void *h)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = h ? rtFreePhysical(h) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtFreePhysical", SIM_ARGS(U64(h)), .ret = rc, .out = U64(h),
		  .has = SIM_T_OUT);
	return rc;
}

API aclError aclrtReserveMemAddressImpl(void **va, size_t n, size_t align, void *want,
					uint64_t flags)
{
	return va && n ? rtReserveMemAddress(va, n, align, want, flags) : ACL_ERROR_INVALID_PARAM;
}

API aclError aclrtReserveMemAddressNoUCMemoryImpl(void **va, size_t n, size_t align, void *want,
						  uint64_t flags)
{
	return aclrtReserveMemAddressImpl(va, n, align, want, flags);
}

API aclError aclrtReleaseMemAddressImpl(void *va)
{
	return va ? rtReleaseMemAddress(va) : ACL_ERROR_INVALID_PARAM;
}

API aclError aclrtMapMemImpl(void *va, size_t n, size_t off, void *h, uint64_t flags)
{
	return va && n ? rtMapMem(va, n, off, h, flags) : ACL_ERROR_INVALID_PARAM;
}

API aclError aclrtUnmapMemImpl(void *va)
{
	return va ? rtUnmapMem(va) : ACL_ERROR_INVALID_PARAM;
}

API aclError aclrtMemPoolCreateImpl(void **pool, const void *props)
{
	return pool ? rtMemPoolCreate(pool, props) : ACL_ERROR_INVALID_PARAM;
}

API aclError aclrtMemPoolDestroyImpl(void *pool)
{
	return pool ? rtMemPoolDestroy(pool) : ACL_ERROR_INVALID_PARAM;
}

API aclError aclrtMemPoolMallocAsyncImpl(void **p, size_t n, void *pool, void *stm)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p && n ? rtMemPoolMallocAsync(p, n, pool, stm) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtMemPoolMallocAsync", SIM_ARGS(U64(p), n, U64(pool), U64(stm)),
		  .ret = rc, .out = OUT_OF(rc, p), .size = n, .stream = U64(stm),
		  .has = SIM_T_OUT | SIM_T_SIZE | SIM_T_STREAM);
	return rc;
}

API aclError aclrtMemPoolFreeAsyncImpl(void *p, void *stm)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = p ? rtMemPoolFreeAsync(p, stm) : ACL_ERROR_INVALID_PARAM;

	SIM_TRUTH(t0, "aclrtMemPoolFreeAsync", SIM_ARGS(U64(p), U64(stm)), .ret = rc, .out = U64(p),
		  .stream = U64(stm), .has = SIM_T_OUT | SIM_T_STREAM);
	return rc;
}

API aclError aclrtGetMemInfoImpl(int attr, size_t *left, size_t *total)
{
	return rtMemGetInfoEx((uint32_t)attr, left, total);
}

API aclError aclrtMemcpyImpl(void *d, size_t max, const void *s, size_t n, int kind)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtMemcpy(d, max, s, n, (uint32_t)kind);

	SIM_TRUTH(t0, "aclrtMemcpy", SIM_ARGS(U64(d), max, U64(s), n, (uint64_t)kind), .ret = rc,
		  .out = U64(d), .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtMemcpyAsyncImpl(void *d, size_t max, const void *s, size_t n, int kind, void *stm)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtMemcpyAsync(d, max, s, n, (uint32_t)kind, stm);

	SIM_TRUTH(t0, "aclrtMemcpyAsync",
		  SIM_ARGS(U64(d), max, U64(s), n, (uint64_t)kind, U64(stm)), .ret = rc,
		  .out = U64(d), .size = n, .stream = U64(stm),
		  .has = SIM_T_OUT | SIM_T_SIZE | SIM_T_STREAM);
	return rc;
}

API aclError aclrtMemcpyAsyncWithConditionImpl(void *d, size_t max, const void *s, size_t n,
					       int kind, void *stm)
{
	return rtMemcpyAsync(d, max, s, n, (uint32_t)kind, stm);
}

API aclError aclrtMemcpy2dImpl(void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h,
			       int kind)
{
	size_t i;

	if (w > dp || w > sp)
		return ACL_ERROR_INVALID_PARAM;
	for (i = 0; i < h; i++)
		memcpy((char *)d + i * dp, (const char *)s + i * sp, w);
	return ACL_SUCCESS;
}

API aclError aclrtMemcpy2dAsyncImpl(void *d, size_t dp, const void *s, size_t sp, size_t w,
				    size_t h, int kind, void *stm)
{
	return aclrtMemcpy2dImpl(d, dp, s, sp, w, h, kind);
}

API aclError aclrtMemcpyBatchImpl(void **d, size_t *max, void **s, size_t *n, size_t count,
				  void *at, size_t *idx, size_t na, size_t *fail)
{
	size_t i;

	for (i = 0; i < count; i++)
		memcpy(d[i], s[i], n[i]);
	return ACL_SUCCESS;
}

API aclError aclrtMemsetImpl(void *p, size_t max, int32_t v, size_t n)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtMemset(p, max, (uint32_t)v, n);

	SIM_TRUTH(t0, "aclrtMemset", SIM_ARGS(U64(p), max, (uint64_t)v, n), .ret = rc,
		  .out = U64(p), .size = n, .has = SIM_T_OUT | SIM_T_SIZE);
	return rc;
}

API aclError aclrtMemsetAsyncImpl(void *p, size_t max, int32_t v, size_t n, void *stm)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtMemsetAsync(p, max, (uint32_t)v, n, stm);

	SIM_TRUTH(t0, "aclrtMemsetAsync", SIM_ARGS(U64(p), max, (uint64_t)v, n, U64(stm)),
		  .ret = rc, .out = U64(p), .size = n, .stream = U64(stm),
		  .has = SIM_T_OUT | SIM_T_SIZE | SIM_T_STREAM);
	return rc;
}
