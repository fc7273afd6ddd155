// SPDX-License-Identifier: Apache-2.0
/* Simulated libms_tools_ext.so: the marker table with exported functions. */
#include "mstx_table.h"
#include "../truth/sim_truth.h"

#define API __attribute__((visibility("default")))

/* The truth wants the text: the first char* among the parameters, or none. */
static __attribute__((noinline, cold)) void note(uint64_t t0, const char *fn, const char *text,
						 uint64_t a0, uint64_t a1, uint64_t a2,
						 uint64_t ret, int isvoid)
{
	struct sim_truth_rec r = { .fn = fn,
				   .name = text,
				   .t0 = t0,
				   .t1 = sim_truth_now(),
				   .ret = (int64_t)ret,
				   .nargs = 3,
				   .args = { a0, a1, a2 },
				   .has = isvoid ? SIM_T_NORET : 0 };

	sim_truth_put(&r);
}

#define CALL(name, args)          \
	mstx_ready();             \
	if (mstx_table.name##Ptr) \
	mstx_table.name##Ptr args

API void mstxMarkA(const char *msg, void *stream)
{
	uint64_t t0 = sim_truth_begin();

	CALL(mstxMarkA, (msg, stream));
	if (t0)
		note(t0, "mstxMarkA", msg, U64(msg), U64(stream), 0, 0, 1);
}

API uint64_t mstxRangeStartA(const char *msg, void *stream)
{
	uint64_t t0 = sim_truth_begin(), id = 0;

	mstx_ready();
	if (mstx_table.mstxRangeStartAPtr)
		id = mstx_table.mstxRangeStartAPtr(msg, stream);
	if (t0)
		note(t0, "mstxRangeStartA", msg, U64(msg), U64(stream), 0, id, 0);
	return id;
}

API void mstxRangeEnd(uint64_t id)
{
	uint64_t t0 = sim_truth_begin();

	CALL(mstxRangeEnd, (id));
	if (t0)
		note(t0, "mstxRangeEnd", NULL, id, 0, 0, 0, 1);
}

API mstxDomainHandle_t mstxDomainCreateA(const char *name)
{
	uint64_t t0 = sim_truth_begin();
	mstxDomainHandle_t d = NULL;

	mstx_ready();
	if (mstx_table.mstxDomainCreateAPtr)
		d = mstx_table.mstxDomainCreateAPtr(name);
	if (t0)
		note(t0, "mstxDomainCreateA", name, U64(name), 0, 0, U64(d), 0);
	return d;
}

API void mstxDomainDestroy(mstxDomainHandle_t d)
{
	CALL(mstxDomainDestroy, (d));
}

API void mstxDomainMarkA(mstxDomainHandle_t d, const char *msg, void *stream)
{
	uint64_t t0 = sim_truth_begin();

	CALL(mstxDomainMarkA, (d, msg, stream));
	if (t0)
		note(t0, "mstxDomainMarkA", msg, U64(d), U64(msg), U64(stream), 0, 1);
}

API uint64_t mstxDomainRangeStartA(mstxDomainHandle_t d, const char *msg, void *stream)
{
	uint64_t t0 = sim_truth_begin(), id = 0;

	mstx_ready();
	if (mstx_table.mstxDomainRangeStartAPtr)
		id = mstx_table.mstxDomainRangeStartAPtr(d, msg, stream);
	if (t0)
		note(t0, "mstxDomainRangeStartA", msg, U64(d), U64(msg), U64(stream), id, 0);
	return id;
}

API void mstxDomainRangeEnd(mstxDomainHandle_t d, uint64_t id)
{
	uint64_t t0 = sim_truth_begin();

	CALL(mstxDomainRangeEnd, (d, id));
	if (t0)
		note(t0, "mstxDomainRangeEnd", NULL, U64(d), id, 0, 0, 1);
}

API mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t d, const mstxMemHeapDesc_t *desc)
{
	uint64_t t0 = sim_truth_begin();
	mstxMemHeapHandle_t h = NULL;

	mstx_ready();
	if (mstx_table.mstxMemHeapRegisterPtr)
		h = mstx_table.mstxMemHeapRegisterPtr(d, desc);
	if (t0)
		note(t0, "mstxMemHeapRegister", NULL, U64(d), U64(desc), 0, U64(h), 0);
	return h;
}

API void mstxMemHeapUnregister(mstxDomainHandle_t d, mstxMemHeapHandle_t heap)
{
	CALL(mstxMemHeapUnregister, (d, heap));
}

API void mstxMemRegionsRegister(mstxDomainHandle_t d, const mstxMemRegionsRegisterBatch_t *b)
{
	uint64_t t0 = sim_truth_begin();

	CALL(mstxMemRegionsRegister, (d, b));
	if (t0)
		note(t0, "mstxMemRegionsRegister", NULL, U64(d), U64(b), b ? b->regionCount : 0, 0,
		     1);
}

API void mstxMemRegionsUnregister(mstxDomainHandle_t d, const mstxMemRegionsUnregisterBatch_t *b)
{
	uint64_t t0 = sim_truth_begin();

	CALL(mstxMemRegionsUnregister, (d, b));
	if (t0)
		note(t0, "mstxMemRegionsUnregister", NULL, U64(d), U64(b), b ? b->refCount : 0, 0,
		     1);
}

API void mstxGetToolId(uint64_t *id)
{
	*id = 0;
}
