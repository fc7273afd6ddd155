// SPDX-License-Identifier: Apache-2.0
/* Simulated ACL implementation: what real frameworks ask for and need an answer to. */
#include "acl.h"
#include "rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

API const char *aclGetRecentErrMsgImpl(void)
{
	return "";
}

API aclError aclGetCannAttributeImpl(int a, int32_t *v)
{
	*v = 1;
	return ACL_SUCCESS;
}

API aclError aclGetCannAttributeListImpl(const int **l, size_t *n)
{
	static const int none[1];

	*l = none;
	*n = 1;
	return ACL_SUCCESS;
}

API aclError aclGetDeviceCapabilityImpl(uint32_t d, int t, int32_t *v)
{
	*v = 1;
	return ACL_SUCCESS;
}

/* aclCANNPackageVersion */
struct package_version {
	char version[128];
	char major[64], minor[64], release[64], patch[64], reserved[64];
};

API aclError aclsysGetCANNVersionImpl(int name, void *out)
{
	const char *e = getenv("SIM_CANN");
	struct package_version *v = out;

	memset(v, 0, sizeof(*v));
	snprintf(v->version, sizeof(v->version), "%s", e ? e : "8.2.RC1");
	strcpy(v->major, "8");
	strcpy(v->minor, "2");
	strcpy(v->release, "RC1");
	strcpy(v->patch, "0");
	return ACL_SUCCESS;
}

API aclError aclrtGetVersionImpl(int32_t *a, int32_t *b, int32_t *c)
{
	*a = 1;
	*b = 14;
	*c = 0;
	return ACL_SUCCESS;
}

struct tensor_desc {
	int dtype, nd, format;
	int64_t dims[16];
};

API void *aclCreateTensorDescImpl(int dt, int nd, const int64_t *d, int fmt)
{
	struct tensor_desc *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->dtype = dt;
	t->format = fmt;
	t->nd = nd > 16 ? 16 : nd;
	if (d && nd > 0)
		memcpy(t->dims, d, (size_t)t->nd * sizeof(*d));
	return t;
}

API void aclDestroyTensorDescImpl(const void *t)
{
	free((void *)(uintptr_t)t);
}

API size_t aclGetTensorDescNumDimsImpl(const void *t)
{
	return (size_t)((const struct tensor_desc *)t)->nd;
}

API aclError aclGetTensorDescDimV2Impl(const void *t, size_t i, int64_t *v)
{
	*v = ((const struct tensor_desc *)t)->dims[i & 15];
	return ACL_SUCCESS;
}

API int aclGetTensorDescFormatImpl(const void *t)
{
	return ((const struct tensor_desc *)t)->format;
}

API int aclGetTensorDescTypeImpl(const void *t)
{
	return ((const struct tensor_desc *)t)->dtype;
}

API void *aclCreateDataBufferImpl(void *p, size_t n)
{
	aclDataBuffer *b = malloc(sizeof(*b));

	if (b)
		*b = (aclDataBuffer){ p, n };
	return b;
}

API aclError aclDestroyDataBufferImpl(const void *b)
{
	free((void *)(uintptr_t)b);
	return ACL_SUCCESS;
}

API aclError aclrtGetStreamOverflowSwitchImpl(void *s, uint32_t *f)
{
	*f = 0;
	return ACL_SUCCESS;
}

API aclError aclrtDeviceCanAccessPeerImpl(int32_t *c, int32_t a, int32_t b)
{
	*c = 1;
	return ACL_SUCCESS;
}

API aclError aclrtDeviceGetBareTgidImpl(int32_t *p)
{
	*p = getpid();
	return ACL_SUCCESS;
}

API aclError aclrtDeviceGetStreamPriorityRangeImpl(int32_t *a, int32_t *b)
{
	*a = 7;
	*b = 0;
	return ACL_SUCCESS;
}

/* Cores of the device, as every "resource limit". */
#define CORES 24

API aclError aclrtGetDeviceResLimitImpl(int d, int t, uint32_t *v)
{
	*v = CORES;
	return ACL_SUCCESS;
}

API aclError aclrtGetStreamResLimitImpl(void *s, int t, uint32_t *v)
{
	*v = CORES;
	return ACL_SUCCESS;
}

API aclError aclrtGetResInCurrentThreadImpl(int t, uint32_t *v)
{
	*v = CORES;
	return ACL_SUCCESS;
}

API aclError aclrtGetDeviceUtilizationRateImpl(int d, int32_t *v)
{
	memset(v, 0, 4 * sizeof(*v));
	return ACL_SUCCESS;
}

API aclError aclrtGetDeviceInfoImpl(uint32_t d, int a, int64_t *v)
{
	*v = CORES;
	return ACL_SUCCESS;
}

API aclError aclprofGetSupportedFeaturesImpl(size_t *n, void **d)
{
	*n = 0;
	*d = NULL;
	return ACL_SUCCESS;
}

API aclError aclprofGetSupportedFeaturesV2Impl(size_t *n, void **d)
{
	return aclprofGetSupportedFeaturesImpl(n, d);
}

API aclError aclrtProcessReportImpl(int32_t ms)
{
	usleep(ms > 0 && ms < 10 ? (useconds_t)ms * 1000 : 1000);
	return ACL_SUCCESS;
}

API aclError aclrtPeekAtLastErrorImpl(int l)
{
	return ACL_SUCCESS;
}

API aclError aclrtGetLastErrorImpl(int l)
{
	return ACL_SUCCESS;
}

API aclError aclrtIpcMemGetExportKeyImpl(void *p, size_t n, char *k, size_t l, uint64_t f)
{
	snprintf(k, l, "sim%p", p);
	return ACL_SUCCESS;
}

/* torch_npu writes options and reads them back. */
static int64_t sys_opt[64], ctx_opt[64];

API aclError aclrtGetSysParamOptImpl(int o, int64_t *v)
{
	*v = sys_opt[o & 63];
	return ACL_SUCCESS;
}

API aclError aclrtSetSysParamOptImpl(int o, int64_t v)
{
	sys_opt[o & 63] = v;
	return ACL_SUCCESS;
}

API aclError aclrtCtxGetSysParamOptImpl(int o, int64_t *v)
{
	*v = ctx_opt[o & 63];
	return ACL_SUCCESS;
}

API aclError aclrtCtxSetSysParamOptImpl(int o, int64_t v)
{
	ctx_opt[o & 63] = v;
	return ACL_SUCCESS;
}
