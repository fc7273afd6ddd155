// SPDX-License-Identifier: Apache-2.0
/*
 * Simulated libhccl.so: communicators with buffers of module HCCL; each collective is one launch,
 * and moves the bytes between the ranks of a communicator whose root information HcclGetRootInfo
 * made.
 */
#include "acl.h"
#include "hccl_shared.h"
#include "rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef int32_t HcclResult;
struct comm {
	uint32_t n, rank;
	void *in, *out;
	struct hccl_shared *shared; /* NULL: alone, or all ranks in one process */
};

enum { HCCL_OK, HCCL_E_PARA, HCCL_E_PTR, HCCL_E_TIMEOUT = 9, HCCL_E_RUNTIME = 15 };

/* HCCL_BUFFSIZE in MiB, 200 by default. */
static size_t buffer_bytes(void)
{
	const char *e = getenv("HCCL_BUFFSIZE");
	long mib = e ? strtol(e, NULL, 0) : 200;

	return (size_t)(mib > 0 ? mib : 200) << 20;
}

static HcclResult make(uint32_t n, uint32_t rank, const void *info, void **out)
{
	aclrtMallocAttribute at = { .attr = 1, .value = { 3 } };
	aclrtMallocConfig cfg = { &at, 1 };
	struct comm *c = calloc(1, sizeof(*c));

	if (!c)
		return HCCL_E_PTR;
	c->n = n;
	c->rank = rank;
	if (aclrtMallocWithCfg(&c->in, buffer_bytes(), 0, &cfg) ||
	    aclrtMallocWithCfg(&c->out, buffer_bytes(), 0, &cfg)) {
		if (c->in)
			aclrtFree(c->in);
		free(c);
		return HCCL_E_RUNTIME;
	}
	if (info && hccl_shared__join(info, n, rank, &c->shared)) {
		aclrtFree(c->in);
		aclrtFree(c->out);
		free(c);
		return HCCL_E_TIMEOUT;
	}
	*out = c;
	return HCCL_OK;
}

#define PROTO(ret, name, params) \
	API ret name params;     \
	API ret name params

PROTO(HcclResult, HcclGetRootInfo, (void *info))
{
	memset(info, 0, 4108);
	return hccl_shared__name(info) ? HCCL_E_RUNTIME : HCCL_OK;
}

PROTO(HcclResult, HcclCommInitRootInfo, (uint32_t n, const void *info, uint32_t rank, void **c))
{
	return make(n, rank, info, c);
}

PROTO(HcclResult, HcclCommInitRootInfoConfig,
      (uint32_t n, const void *info, uint32_t rank, const void *cfg, void **c))
{
	return make(n, rank, info, c);
}

PROTO(HcclResult, HcclCommInitClusterInfo, (const char *path, uint32_t rank, void **c))
{
	return make(1, rank, NULL, c);
}

PROTO(HcclResult, HcclCommInitAll, (uint32_t n, int32_t *devs, void **c))
{
	HcclResult rc = 0;
	uint32_t i;

	for (i = 0; i < n && !rc; i++) {
		aclrtSetDevice(devs[i]);
		rc = make(n, i, NULL, &c[i]);
	}
	return rc;
}

PROTO(HcclResult, HcclCommDestroy, (void *comm))
{
	struct comm *c = comm;

	if (!c)
		return HCCL_E_PARA;
	hccl_shared__leave(c->shared);
	aclrtFree(c->in);
	aclrtFree(c->out);
	free(c);
	return 0;
}

static HcclResult run(const char *op, void *stm)
{
	return rtAicpuKernelLaunchExWithArgs(0, op, 1, NULL, NULL, stm, 0) ? HCCL_E_RUNTIME
									   : HCCL_OK;
}

/* HcclDataType: int8, int16, int32, fp16, fp32, int64, uint64, uint8, uint16, uint32, fp64, bf16,
 * int128 */
static size_t bytes_of(uint64_t n, int type)
{
	static const uint8_t width[] = { 1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16 };

	return type < 0 || type >= (int)sizeof(width) ? 0 : (size_t)n * width[type];
}

/* Where the ranks' chunks go. */
struct taking {
	struct comm *c;
	char *to;
	size_t share; /* bytes of one rank in `to` */
	uint32_t root;
	int type, op;
};

static void take_gather(struct hccl_shared *s, void *ctx, size_t off, size_t n)
{
	struct taking *t = ctx;
	uint32_t i;

	for (i = 0; i < t->c->n; i++)
		memcpy(t->to + i * t->share + off, hccl_shared__at(s, i), n);
}

static void take_root(struct hccl_shared *s, void *ctx, size_t off, size_t n)
{
	struct taking *t = ctx;

	if (t->c->rank != t->root)
		memcpy(t->to + off, hccl_shared__at(s, t->root), n);
}

#define COMBINE(T)                                                           \
	do {                                                                 \
		T *a = into;                                                 \
		const T *b = from;                                           \
		for (i = 0; i < n / sizeof(T); i++)                          \
			a[i] = (T)(op == 0   ? a[i] + b[i]                   \
				   : op == 1 ? a[i] * b[i]                   \
				   : op == 2 ? (a[i] > b[i] ? a[i] : b[i])   \
					     : (a[i] < b[i] ? a[i] : b[i])); \
	} while (0)

/* HcclReduceOp: sum, prod, max, min. Types that C has no arithmetic for keep the first rank's
 * numbers. */
static void combine(void *into, const void *from, size_t n, int type, int op)
{
	size_t i;

	switch (type) {
	case 0:
		COMBINE(int8_t);
		break;
	case 1:
		COMBINE(int16_t);
		break;
	case 2:
		COMBINE(int32_t);
		break;
	case 4:
		COMBINE(float);
		break;
	case 5:
		COMBINE(int64_t);
		break;
	case 6:
		COMBINE(uint64_t);
		break;
	case 7:
		COMBINE(uint8_t);
		break;
	case 8:
		COMBINE(uint16_t);
		break;
	case 9:
		COMBINE(uint32_t);
		break;
	case 10:
		COMBINE(double);
		break;
	}
}

/* Only what lies in the own share counts: all of it, or a rank's part of it. */
static void take_reduced(struct hccl_shared *s, void *ctx, size_t off, size_t n)
{
	struct taking *t = ctx;
	size_t from = t->root * t->share, begin = off > from ? off : from;
	size_t end = off + n < from + t->share ? off + n : from + t->share;
	uint32_t i;

	if (begin >= end)
		return;
	for (i = 0; i < t->c->n; i++) {
		const char *chunk = (const char *)hccl_shared__at(s, i) + (begin - off);

		if (i)
			combine(t->to + (begin - from), chunk, end - begin, t->type, t->op);
		else
			memcpy(t->to + (begin - from), chunk, end - begin);
	}
}

/* The launch, then the bytes: streams of this CANN are done when they return. */
static HcclResult collect(const char *op, const void *src, size_t bytes, hccl_take_t take,
			  struct taking *t, void *stm)
{
	HcclResult rc = run(op, stm);

	if (rc || !t->c || !t->c->shared)
		return rc;
	return hccl_shared__exchange(t->c->shared, src, bytes, take, t) ? HCCL_E_TIMEOUT : HCCL_OK;
}

PROTO(HcclResult, HcclAllReduce,
      (void *s, void *r, uint64_t n, int dt, int op, void *comm, void *stm))
{
	struct taking t = { comm, r, bytes_of(n, dt), 0, dt, op };

	return collect("hcom_allReduce_", s, t.share, take_reduced, &t, stm);
}

PROTO(HcclResult, HcclBroadcast,
      (void *b, uint64_t n, int dt, uint32_t root, void *comm, void *stm))
{
	struct taking t = { comm, b, 0, root, dt, 0 };

	return collect("hcom_broadcast_", b, bytes_of(n, dt), take_root, &t, stm);
}

PROTO(HcclResult, HcclAllGather, (void *s, void *r, uint64_t n, int dt, void *comm, void *stm))
{
	struct taking t = { comm, r, bytes_of(n, dt), 0, dt, 0 };

	return collect("hcom_allGather_", s, t.share, take_gather, &t, stm);
}

PROTO(HcclResult, HcclReduceScatter,
      (void *s, void *r, uint64_t n, int dt, int op, void *comm, void *stm))
{
	struct comm *c = comm;
	struct taking t = { c, r, bytes_of(n, dt), c ? c->rank : 0, dt, op };

	return collect("hcom_reduceScatter_", s, c ? t.share * c->n : 0, take_reduced, &t, stm);
}

PROTO(HcclResult, HcclSend, (void *b, uint64_t n, int dt, uint32_t peer, void *comm, void *stm))
{
	struct comm *c = comm;
	HcclResult rc = run("hcom_send_", stm);

	if (rc || !c || !c->shared)
		return rc;
	return hccl_shared__send(c->shared, peer, b, bytes_of(n, dt)) ? HCCL_E_TIMEOUT : HCCL_OK;
}

PROTO(HcclResult, HcclRecv, (void *b, uint64_t n, int dt, uint32_t peer, void *comm, void *stm))
{
	struct comm *c = comm;
	HcclResult rc = run("hcom_receive_", stm);

	if (rc || !c || !c->shared)
		return rc;
	return hccl_shared__receive(c->shared, peer, b, bytes_of(n, dt)) ? HCCL_E_TIMEOUT : HCCL_OK;
}

PROTO(HcclResult, HcclGetCommName, (void *comm, char *name))
{
	snprintf(name, 128, "sim_comm_%p", comm);
	return 0;
}
