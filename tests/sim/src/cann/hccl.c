// SPDX-License-Identifier: Apache-2.0
/* Simulated libhccl.so: communicators with buffers of module HCCL; collectives are one launch each.
 */
#include "acl.h"
#include "rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef int32_t HcclResult;
struct comm {
	uint32_t n, rank;
	void *in, *out;
};

/* HCCL_BUFFSIZE in MiB, 200 by default. */
static size_t buffer_bytes(void)
{
	const char *e = getenv("HCCL_BUFFSIZE");
	long mib = e ? strtol(e, NULL, 0) : 200;

	return (size_t)(mib > 0 ? mib : 200) << 20;
}

static HcclResult make(uint32_t n, uint32_t rank, void **out)
{
	aclrtMallocAttribute at = { .attr = 1, .value = { 3 } };
	aclrtMallocConfig cfg = { &at, 1 };
	struct comm *c = calloc(1, sizeof(*c));

	if (!c)
		return 2;
	c->n = n;
	c->rank = rank;
	if (aclrtMallocWithCfg(&c->in, buffer_bytes(), 0, &cfg) ||
	    aclrtMallocWithCfg(&c->out, buffer_bytes(), 0, &cfg)) {
		if (c->in)
			aclrtFree(c->in);
		free(c);
		return 15; /* runtime error */
	}
	*out = c;
	return 0;
}

#define PROTO(ret, name, params) \
	API ret name params;     \
	API ret name params

PROTO(HcclResult, HcclGetRootInfo, (void *info))
{
	memset(info, 0, 4108);
	return 0;
}

PROTO(HcclResult, HcclCommInitRootInfo, (uint32_t n, const void *info, uint32_t rank, void **c))
{
	return make(n, rank, c);
}

PROTO(HcclResult, HcclCommInitRootInfoConfig,
      (uint32_t n, const void *info, uint32_t rank, const void *cfg, void **c))
{
	return make(n, rank, c);
}

PROTO(HcclResult, HcclCommInitClusterInfo, (const char *path, uint32_t rank, void **c))
{
	return make(1, rank, c);
}

PROTO(HcclResult, HcclCommInitAll, (uint32_t n, int32_t *devs, void **c))
{
	HcclResult rc = 0;
	uint32_t i;

	for (i = 0; i < n && !rc; i++) {
		aclrtSetDevice(devs[i]);
		rc = make(n, i, &c[i]);
	}
	return rc;
}

PROTO(HcclResult, HcclCommDestroy, (void *comm))
{
	struct comm *c = comm;

	if (!c)
		return 1;
	aclrtFree(c->in);
	aclrtFree(c->out);
	free(c);
	return 0;
}

static HcclResult run(const char *op, void *stm)
{
	return rtAicpuKernelLaunchExWithArgs(0, op, 1, NULL, NULL, stm, 0) ? 15 : 0;
}

PROTO(HcclResult, HcclAllReduce,
      (void *s, void *r, uint64_t n, int dt, int op, void *comm, void *stm))
{
	return run("hcom_allReduce_", stm);
}

PROTO(HcclResult, HcclBroadcast,
      (void *b, uint64_t n, int dt, uint32_t root, void *comm, void *stm))
{
	return run("hcom_broadcast_", stm);
}

PROTO(HcclResult, HcclAllGather, (void *s, void *r, uint64_t n, int dt, void *comm, void *stm))
{
	return run("hcom_allGather_", stm);
}

PROTO(HcclResult, HcclReduceScatter,
      (void *s, void *r, uint64_t n, int dt, int op, void *comm, void *stm))
{
	return run("hcom_reduceScatter_", stm);
}

PROTO(HcclResult, HcclSend, (void *b, uint64_t n, int dt, uint32_t peer, void *comm, void *stm))
{
	return run("hcom_send_", stm);
}

PROTO(HcclResult, HcclRecv, (void *b, uint64_t n, int dt, uint32_t peer, void *comm, void *stm))
{
	return run("hcom_receive_", stm);
}

PROTO(HcclResult, HcclGetCommName, (void *comm, char *name))
{
	snprintf(name, 128, "sim_comm_%p", comm);
	return 0;
}
