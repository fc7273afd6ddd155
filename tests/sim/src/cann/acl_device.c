// SPDX-License-Identifier: Apache-2.0
/* Simulated ACL implementation: start and end, devices, contexts, streams, events. */
#include "acl.h"
#include "acl_capture.h"
#include "rt.h"
#include "../truth/sim_truth.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MAXDEV 64

static _Atomic uint64_t init_count;
static char contexts[MAXDEV][64]; /* a context handle is the address of its device's slot */

API aclError aclInitImpl(const char *cfg)
{
	uint64_t t0 = sim_truth_begin(), zero = 0;
	aclError rc = atomic_compare_exchange_strong(&init_count, &zero, 1)
			      ? ACL_SUCCESS
			      : ACL_ERROR_REPEAT_INITIALIZE;

	SIM_TRUTH(t0, "aclInit", SIM_ARGS(U64(cfg)), .ret = rc);
	return rc;
}

API aclError aclFinalizeImpl(void)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = atomic_exchange(&init_count, 0) ? ACL_SUCCESS : ACL_ERROR_REPEAT_FINALIZE;

	SIM_TRUTH(t0, "aclFinalize", .ret = rc);
	return rc;
}

API aclError aclFinalizeReferenceImpl(uint64_t *count)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = ACL_ERROR_REPEAT_FINALIZE;
	uint64_t n = atomic_load(&init_count);

	if (n) {
		atomic_store(&init_count, n - 1);
		n--;
		rc = ACL_SUCCESS;
	}
	if (count)
		*count = n;
	SIM_TRUTH(t0, "aclFinalizeReference", SIM_ARGS(U64(count)), .ret = rc, .out = n,
		  .has = SIM_T_OUT);
	return rc;
}

/* device: logical; args[0] too; size: the physical id behind it */
API aclError aclrtSetDeviceImpl(int32_t dev)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtSetDevice(dev);
	int32_t phys = -1;

	if (t0)
		rtGetVisibleDeviceIdByLogicDeviceId(dev, &phys);
	SIM_TRUTH(t0, "aclrtSetDevice", SIM_ARGS((uint64_t)dev, (uint64_t)phys), .ret = rc,
		  .device = dev, .has = SIM_T_DEV);
	return rc;
}

API aclError aclrtResetDeviceImpl(int32_t dev)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtDeviceReset(dev);

	SIM_TRUTH(t0, "aclrtResetDevice", SIM_ARGS((uint64_t)dev), .ret = rc, .device = dev,
		  .has = SIM_T_DEV);
	return rc;
}

API aclError aclrtResetDeviceForceImpl(int32_t dev)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtDeviceResetForce(dev);

	SIM_TRUTH(t0, "aclrtResetDeviceForce", SIM_ARGS((uint64_t)dev), .ret = rc, .device = dev,
		  .has = SIM_T_DEV);
	return rc;
}

API aclError aclrtGetDeviceImpl(int32_t *dev)
{
	return rtGetDevice(dev);
}

API aclError aclrtGetDeviceCountImpl(uint32_t *n)
{
	int32_t c = 0;
	aclError rc = rtGetDeviceCount(&c);

	*n = (uint32_t)c;
	return rc;
}

API const char *aclrtGetSocNameImpl(void)
{
	static char name[64];

	rtGetSocVersion(name, sizeof(name));
	return name;
}

API aclError aclrtGetRunModeImpl(int *m)
{
	*m = 1; /* host */
	return ACL_SUCCESS;
}

API aclError aclrtCreateContextImpl(void **c, int32_t dev)
{
	aclError rc = aclrtSetDeviceImpl(dev);

	if (!rc)
		*c = contexts[dev];
	return rc;
}

API aclError aclrtDestroyContextImpl(void *c)
{
	return ACL_SUCCESS;
}

API aclError aclrtSetCurrentContextImpl(void *c)
{
	ptrdiff_t i = ((char *)c - contexts[0]) / (ptrdiff_t)sizeof(contexts[0]);

	if (!c || i < 0 || i >= MAXDEV)
		return ACL_ERROR_INVALID_PARAM;
	return rtSetDevice((int32_t)i);
}

API aclError aclrtGetCurrentContextImpl(void **c)
{
	int32_t dev;
	aclError rc = rtGetDevice(&dev);

	if (!rc)
		*c = contexts[dev];
	return rc;
}

API aclError aclrtSynchronizeDeviceImpl(void)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtDeviceSynchronize();

	SIM_TRUTH(t0, "aclrtSynchronizeDevice", .ret = rc);
	return rc;
}

API aclError aclrtSynchronizeDeviceWithTimeoutImpl(int32_t ms)
{
	return rtDeviceSynchronize();
}

/* ---- streams ---- */

static void stream_truth(uint64_t t0, const char *fn, aclError rc, void *s)
{
	int32_t id = -1;

	if (rc || rtGetStreamId(s, &id))
		id = -1;
	SIM_TRUTH(t0, fn, SIM_ARGS(U64(s)), .ret = rc, .out = U64(s), .stream = U64(s), .sid = id,
		  .has = SIM_T_OUT | SIM_T_STREAM | SIM_T_SID);
}

API aclError aclrtCreateStreamImpl(void **s)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = s ? rtStreamCreate(s, 0) : ACL_ERROR_INVALID_PARAM;

	if (t0)
		stream_truth(t0, "aclrtCreateStream", rc, rc ? NULL : *s);
	return rc;
}

API aclError aclrtCreateStreamWithConfigImpl(void **s, uint32_t prio, uint32_t flag)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = s ? rtStreamCreateWithFlags(s, (int32_t)prio, flag) : ACL_ERROR_INVALID_PARAM;

	if (t0)
		stream_truth(t0, "aclrtCreateStreamWithConfig", rc, rc ? NULL : *s);
	return rc;
}

API aclError aclrtDestroyStreamImpl(void *s)
{
	return rtStreamDestroy(s);
}

API aclError aclrtDestroyStreamForceImpl(void *s)
{
	return rtStreamDestroyForce(s);
}

API aclError aclrtStreamGetIdImpl(void *s, int32_t *id)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtGetStreamId(s, id);

	if (t0)
		stream_truth(t0, "aclrtStreamGetId", rc, s);
	return rc;
}

API aclError aclrtStreamQueryImpl(void *s, int *status)
{
	*status = 0;
	return ACL_SUCCESS;
}

API aclError aclrtSynchronizeStreamImpl(void *s)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtStreamSynchronize(s);

	if (t0)
		stream_truth(t0, "aclrtSynchronizeStream", rc, s);
	return rc;
}

API aclError aclrtSynchronizeStreamWithTimeoutImpl(void *s, int32_t ms)
{
	uint64_t t0 = sim_truth_begin();
	aclError rc = rtStreamSynchronizeWithTimeout(s, ms);

	if (t0)
		stream_truth(t0, "aclrtSynchronizeStreamWithTimeout", rc, s);
	return rc;
}

/* ---- events: complete SIM_EVENT_DELAY_US after they were recorded ---- */

struct event {
	uint64_t at;
	uint64_t capture; /* that the stream was in when the event was recorded */
	int recorded;
};

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static uint64_t delay(void)
{
	static _Atomic int64_t d = -1;

	if (d < 0) {
		const char *e = getenv("SIM_EVENT_DELAY_US");
		long us = e ? strtol(e, NULL, 0) : 0;

		d = us > 0 ? us * 1000 : 0;
	}
	return (uint64_t)d;
}

static int done(const struct event *e)
{
	uint64_t d = delay();

	return !e->recorded || !d || now() - e->at >= d;
}

API aclError aclrtCreateEventImpl(void **e)
{
	*e = calloc(1, sizeof(struct event));
	return *e ? ACL_SUCCESS : ACL_ERROR_BAD_ALLOC;
}

API aclError aclrtCreateEventWithFlagImpl(void **e, uint32_t f)
{
	return aclrtCreateEventImpl(e);
}

API aclError aclrtCreateEventExWithFlagImpl(void **e, uint32_t f)
{
	return aclrtCreateEventImpl(e);
}

API aclError aclrtDestroyEventImpl(void *e)
{
	free(e);
	return ACL_SUCCESS;
}

API aclError aclrtRecordEventImpl(void *e, void *s)
{
	struct event *x = e;

	x->at = now();
	x->recorded = 1;
	x->capture = capture__of(s);
	return ACL_SUCCESS;
}

API aclError aclrtResetEventImpl(void *e, void *s)
{
	return ACL_SUCCESS;
}

/* 1 complete, 0 not ready */
API aclError aclrtQueryEventStatusImpl(void *e, int *st)
{
	struct event *x = e;

	*st = x->recorded && done(x);
	return ACL_SUCCESS;
}

API aclError aclrtQueryEventWaitStatusImpl(void *e, int *st)
{
	*st = 0;
	return ACL_SUCCESS;
}

API aclError aclrtQueryEventImpl(void *e, int *st)
{
	*st = 0;
	return ACL_SUCCESS;
}

API aclError aclrtSynchronizeEventImpl(void *e)
{
	while (!done(e))
		usleep(50);
	return ACL_SUCCESS;
}

API aclError aclrtStreamWaitEventImpl(void *s, void *e)
{
	struct event *x = e;

	if (x->capture)
		capture__join(s, x->capture);
	return ACL_SUCCESS;
}

API aclError aclrtEventElapsedTimeImpl(float *ms, void *a, void *b)
{
	const struct event *x = a, *y = b;

	*ms = (float)((double)(int64_t)(y->at - x->at) / 1e6);
	return ACL_SUCCESS;
}

API aclError aclrtEventGetTimestampImpl(void *e, uint64_t *t)
{
	*t = ((struct event *)e)->at / 1000;
	return ACL_SUCCESS;
}
