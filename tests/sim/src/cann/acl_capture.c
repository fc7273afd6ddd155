// SPDX-License-Identifier: Apache-2.0
/*
 * Simulated ACL implementation: graph capture. Launches are called in a capture as ever and are not
 * called in a replay; which streams belong to the capture decides from which pool torch_npu
 * allocates.
 */
#include "acl.h"
#include "acl_capture.h"
#include "rt.h"
#include "../truth/sim_truth.h"

#include <pthread.h>
#include <stdlib.h>

#define API __attribute__((visibility("default")))

enum { CAPTURE_NONE, CAPTURE_ACTIVE };

/* What a stream points to while it is captured, and the model that comes of it. */
struct model {
	uint64_t id;
	struct model *next; /* of those that are being captured */
	void *origin;
	void **streams; /* that joined */
	unsigned int n;
	uint64_t replays;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct model *active;
static uint64_t last_id;

uint64_t capture__of(void *stm)
{
	void *m = NULL;
	uint64_t id;

	pthread_mutex_lock(&lock);
	rtStreamGetCapture(stm, &m);
	id = m ? ((struct model *)m)->id : 0;
	pthread_mutex_unlock(&lock);
	return id;
}

void capture__join(void *stm, uint64_t id)
{
	void *in = NULL, **grown;
	struct model *m;

	pthread_mutex_lock(&lock);
	for (m = active; m && m->id != id; m = m->next)
		;
	rtStreamGetCapture(stm, &in);
	if (m && !in) {
		grown = realloc(m->streams, (m->n + 1) * sizeof(*grown));
		if (grown) {
			m->streams = grown;
			if (!rtStreamSetCapture(stm, m))
				m->streams[m->n++] = stm;
		}
	}
	pthread_mutex_unlock(&lock);
}

API aclError aclmdlRICaptureBeginImpl(void *s, int mode)
{
	struct model *m = calloc(1, sizeof(*m));
	aclError rc = ACL_ERROR_INVALID_PARAM;
	void *in = NULL;

	if (!m)
		return ACL_ERROR_BAD_ALLOC;
	pthread_mutex_lock(&lock);
	rtStreamGetCapture(s, &in);
	if (!in && !rtStreamSetCapture(s, m)) {
		m->id = ++last_id;
		m->origin = s;
		m->next = active;
		active = m;
		rc = ACL_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	if (rc)
		free(m);
	return rc;
}

API aclError aclmdlRICaptureGetInfoImpl(void *s, int *st, void **m)
{
	void *c = NULL;

	pthread_mutex_lock(&lock);
	rtStreamGetCapture(s, &c);
	pthread_mutex_unlock(&lock);
	if (st)
		*st = c ? CAPTURE_ACTIVE : CAPTURE_NONE;
	if (m)
		*m = c;
	return ACL_SUCCESS;
}

/* Only the stream that began ends it, for all that joined. */
API aclError aclmdlRICaptureEndImpl(void *s, void **out)
{
	struct model **at, *m;
	void *c = NULL;
	unsigned int i;

	*out = NULL;
	pthread_mutex_lock(&lock);
	rtStreamGetCapture(s, &c);
	for (at = &active; *at && *at != c; at = &(*at)->next)
		;
	m = *at;
	if (m && m->origin == s) {
		*at = m->next;
		rtStreamSetCapture(s, NULL);
		for (i = 0; i < m->n; i++)
			rtStreamSetCapture(m->streams[i], NULL);
		*out = m;
	}
	pthread_mutex_unlock(&lock);
	return *out ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

API aclError aclmdlRIExecuteAsyncImpl(void *m, void *s)
{
	struct model *x = m;

	if (!x)
		return ACL_ERROR_INVALID_PARAM;
	__atomic_fetch_add(&x->replays, 1, __ATOMIC_RELAXED);
	return ACL_SUCCESS;
}

API aclError aclmdlRIDestroyImpl(void *m)
{
	struct model *x = m;

	if (!x)
		return ACL_ERROR_INVALID_PARAM;
	free(x->streams);
	free(x);
	return ACL_SUCCESS;
}
