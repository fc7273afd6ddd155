// SPDX-License-Identifier: Apache-2.0
/* Simulated runtime: devices, visible-device mapping, streams, loading of the chip part. */
#include "rt_driver.h"
#include "hal.h"
#include "../truth/sim_truth.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define MAXDEV 64

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct rt_driver *drv;
static int visible[MAXDEV], nvisible;
static __thread int current = -1; /* logical id + 0, -1: no context on this thread */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	int refs;
	void *work, *host;
} primary[MAXDEV]; /* by logical id */

/* As the real parser: ids up to the first that is not valid; an empty list leaves none. */
static void parse_visible(int count)
{
	const char *e = getenv("ASCEND_RT_VISIBLE_DEVICES");
	int i;

	if (!e) {
		for (i = 0; i < count && i < MAXDEV; i++)
			visible[nvisible++] = i;
		return;
	}
	while (*e && nvisible < MAXDEV) {
		char *end;
		long v = strtol(e, &end, 10);

		if (end == e || v < 0 || v >= count)
			break;
		visible[nvisible++] = (int)v;
		while (*end == ' ')
			end++;
		if (*end != ',')
			break;
		e = end + 1;
	}
}

static void load(void)
{
	void *h = dlopen("libruntime_v100.so", RTLD_NOW | RTLD_LOCAL);
	rt_driver_entry_t f = h ? (rt_driver_entry_t)dlsym(h, RT_DRIVER_ENTRY) : NULL;

	if (!f) {
		fprintf(stderr, "libruntime: %s\n", dlerror());
		abort();
	}
	drv = f();
	parse_visible(drv->device_count());
}

const struct rt_driver *rt_driver(void)
{
	pthread_once(&once, load);
	return drv;
}

int rt_current_logic(void)
{
	return current;
}

int rt_phys_of(int logic)
{
	rt_driver();
	return logic >= 0 && logic < nvisible ? visible[logic] : -1;
}

int rt_current_phys(void)
{
	return current < 0 ? -1 : rt_phys_of(current);
}

/* A primary context costs some device and host memory of the runtime's own (module 7). */
API rtError_t rtSetDevice(int32_t dev)
{
	const struct rt_driver *d = rt_driver();
	rtError_t rc = RT_OK;

	if (dev < 0 || dev >= nvisible)
		return RT_ERR_INVALID_DEVICEID;
	pthread_mutex_lock(&lock);
	if (!primary[dev].refs) {
		int phys = visible[dev];

		rc = d->dev_alloc(&primary[dev].work, 2ULL << 20, RT_MEMORY_HBM, phys,
				  MODULE_RUNTIME);
		if (!rc)
			rc = d->host_alloc(&primary[dev].host, 64ULL << 10, MODULE_RUNTIME);
	}
	if (!rc && current != dev)
		primary[dev].refs++;
	pthread_mutex_unlock(&lock);
	if (!rc)
		current = dev;
	return rc;
}

API rtError_t rtGetDevice(int32_t *dev)
{
	if (current < 0)
		return RT_ERR_CONTEXT_NULL;
	*dev = current;
	return RT_OK;
}

API rtError_t rtGetDeviceCount(int32_t *count)
{
	rt_driver();
	*count = nvisible;
	return RT_OK;
}

static rtError_t reset(int32_t dev, int force)
{
	rt_driver();
	if (dev < 0 || dev >= nvisible)
		return RT_ERR_INVALID_DEVICEID;
	pthread_mutex_lock(&lock);
	if (primary[dev].refs) {
		primary[dev].refs = force ? 0 : primary[dev].refs - 1;
		if (!primary[dev].refs) {
			drv->dev_free(primary[dev].work);
			drv->dev_free(primary[dev].host);
			primary[dev].work = primary[dev].host = NULL;
		}
	}
	pthread_mutex_unlock(&lock);
	if (current == dev)
		current = -1;
	return RT_OK;
}

API rtError_t rtDeviceReset(int32_t dev)
{
	return reset(dev, 0);
}

API rtError_t rtDeviceResetForce(int32_t dev)
{
	return reset(dev, 1);
}

API rtError_t rtDeviceSynchronize(void)
{
	return current < 0 ? RT_ERR_CONTEXT_NULL : RT_OK;
}

API rtError_t rtGetVisibleDeviceIdByLogicDeviceId(int32_t logic, int32_t *phys)
{
	int p = rt_phys_of(logic);

	if (p < 0)
		return RT_ERR_INVALID_DEVICEID;
	*phys = p;
	return RT_OK;
}

API rtError_t rtGetSocVersion(char *ver, uint32_t maxLen)
{
	const char *e = getenv("SIM_SOC");

	snprintf(ver, maxLen, "%s", e ? e : "Ascend910B2");
	return RT_OK;
}

/* ---- streams: opaque to everyone else ---- */

#define STREAM_MAGIC 0x5354524dU
struct stream {
	void *vptr_like; /* the real object starts with its vptr */
	uint32_t magic;
	int32_t id;
	int32_t device;
	void *capture;
};

static int next_stream = 1; /* 0 is the default stream */

API rtError_t rtStreamCreateWithFlags(void **stm, int32_t priority, uint32_t flags)
{
	struct stream *s;

	if (current < 0)
		return RT_ERR_CONTEXT_NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return RT_ERR_MEMORY_ALLOCATION;
	s->magic = STREAM_MAGIC;
	s->id = __atomic_fetch_add(&next_stream, 1, __ATOMIC_RELAXED);
	s->device = current;
	*stm = s;
	return RT_OK;
}

API rtError_t rtStreamCreate(void **stm, int32_t priority)
{
	return rtStreamCreateWithFlags(stm, priority, 0);
}

API rtError_t rtStreamDestroy(void *stm)
{
	struct stream *s = stm;

	if (!s || s->magic != STREAM_MAGIC)
		return RT_ERR_INVALID_HANDLE;
	s->magic = 0;
	free(s);
	return RT_OK;
}

API rtError_t rtStreamDestroyForce(void *stm)
{
	return rtStreamDestroy(stm);
}

API rtError_t rtStreamSynchronize(void *stm)
{
	return RT_OK;
}

API rtError_t rtStreamSynchronizeWithTimeout(void *stm, int32_t ms)
{
	return RT_OK;
}

API rtError_t rtGetStreamId(void *stm, int32_t *id)
{
	struct stream *s = stm;

	if (s && s->magic != STREAM_MAGIC)
		return RT_ERR_INVALID_HANDLE;
	*id = s ? s->id : 0;
	return RT_OK;
}

API rtError_t rtStreamGetCapture(void *stm, void **model)
{
	struct stream *s = stm;

	*model = s && s->magic == STREAM_MAGIC ? s->capture : NULL;
	return RT_OK;
}

API rtError_t rtStreamSetCapture(void *stm, void *model)
{
	struct stream *s = stm;

	if (!s || s->magic != STREAM_MAGIC)
		return RT_ERR_INVALID_HANDLE;
	s->capture = model;
	return RT_OK;
}
