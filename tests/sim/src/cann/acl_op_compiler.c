// SPDX-License-Identifier: Apache-2.0
/* Simulated libacl_op_compiler.so: options, attributes, and single operators by name. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "acl.h"
#include "rt.h"

#define API __attribute__((visibility("default")))
#define PROTO(ret, name, params) \
	API ret name params;     \
	API ret name params

PROTO(size_t, aclGetCompileoptSize, (int o))
{
	return 16;
}

/* "disable" (no just-in-time compilation) makes torch_npu take the aclnn path. */
PROTO(aclError, aclGetCompileopt, (int o, char *v, size_t n))
{
	if (n > sizeof("disable"))
		strcpy(v, "disable");
	return ACL_SUCCESS;
}

PROTO(aclError, aclSetCompileopt, (int o, const char *v))
{
	return ACL_SUCCESS;
}

PROTO(void *, aclopCreateAttr, (void))
{
	return calloc(1, 16);
}

PROTO(void, aclopDestroyAttr, (const void *a))
{
	free((void *)(uintptr_t)a);
}

PROTO(void *, aclCreateGraphDumpOpt, (void))
{
	return calloc(1, 16);
}

PROTO(aclError, aclDestroyGraphDumpOpt, (void *p))
{
	free(p);
	return ACL_SUCCESS;
}

PROTO(aclError, aclopCompileAndExecute,
      (const char *type, int ni, void *const *id, void *const *in, int no, void *const *od,
       void *const *out, const void *attr, int engine, int flag, const char *path, void *stm))
{
	return rtAicpuKernelLaunchExWithArgs(0, type, 1, NULL, NULL, stm, 0);
}

PROTO(aclError, aclopCompileAndExecuteV2,
      (const char *type, int ni, void **id, void **in, int no, void **od, void **out, void *attr,
       int engine, int flag, const char *path, void *stm))
{
	return rtAicpuKernelLaunchExWithArgs(0, type, 1, NULL, NULL, stm, 0);
}

PROTO(aclError, aclopExecuteV2,
      (const char *type, int ni, void **id, void **in, int no, void **od, void **out, void *attr,
       void *stm))
{
	return rtAicpuKernelLaunchExWithArgs(0, type, 1, NULL, NULL, stm, 0);
}
