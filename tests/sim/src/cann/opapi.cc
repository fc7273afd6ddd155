// SPDX-License-Identifier: Apache-2.0
/* Simulated libopapi.so: the two phases of each operator in OPAPI_LIST, and the argument objects. */
#include "nnopbase.h"

#include <cstdarg>
#include <cstdlib>
#include <cstring>

#define API extern "C" __attribute__((visibility("default")))

namespace {

uint64_t WorkspaceBytes()
{
	static const uint64_t n = [] {
		const char *e = getenv("SIM_WS_BYTES");
		return e ? strtoull(e, nullptr, 0) : 0ULL;
	}();

	return n;
}

/*
 * Operators differ in their parameters, but all end with (uint64_t *workspaceSize,
 * aclOpExecutor **executor). Both point to zeroed variables on the caller's stack: the first such
 * adjacent pair is it.
 */
int Plan(aclOpExecutor *x, const uint64_t *w, int n)
{
	const uint64_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
	const uint64_t top = here + (4ULL << 20);

	for (int i = 0; i + 1 < n; i++) {
		uint64_t p = w[i], q = w[i + 1];

		if (p == q || p <= here || p >= top || q <= here || q >= top || (p & 7) || (q & 7))
			continue;
		auto *size = reinterpret_cast<uint64_t *>(p);
		auto **ex = reinterpret_cast<aclOpExecutor **>(q);

		if (*size || *ex)
			continue;
		*size = WorkspaceBytes();
		*ex = x;
		return InitL2Phase1Context(x->name, ex);
	}
	return 561103;
}

#define WORDS 46

} // namespace

/*
 * A function that is called with a fixed list of arguments can read them as variadic ones: on both
 * ABIs the integers come first from the registers, then from the stack.
 */
#define OP(name)                                                                                   \
	static aclOpExecutor exec_##name = { #name, nullptr, nullptr };                            \
	API int name##GetWorkspaceSize(uint64_t first, ...)                                        \
	{                                                                                          \
		uint64_t w[WORDS] = { first };                                                     \
		va_list ap;                                                                        \
		va_start(ap, first);                                                               \
		for (int i = 1; i < WORDS; i++)                                                    \
			w[i] = va_arg(ap, uint64_t);                                               \
		va_end(ap);                                                                        \
		return Plan(&exec_##name, w, WORDS);                                               \
	}                                                                                          \
	API int name(void *ws, uint64_t size, aclOpExecutor *executor, void *stream)               \
	{                                                                                          \
		aclOpExecutor *x = executor ? executor : &exec_##name;                             \
		int rc = InitL2Phase2Context(#name, x);                                            \
		if (rc)                                                                            \
			return rc;                                                                 \
		rc = CommonOpExecutorRun(ws, size, x, stream);                                     \
		return rc ? 561000 + (rc & 0xff) : 0;                                              \
	}

#include OPAPI_LIST

/* ---- tensors, scalars, arrays: handles with what is asked back ---- */

namespace {

struct Tensor {
	uint64_t nd;
	int64_t dims[16];
	int dtype;
	void *data;
};

void *Handle()
{
	return calloc(1, 64);
}

} // namespace

API void *aclCreateTensor(const int64_t *view, uint64_t n, int dtype, const int64_t *, int64_t, int,
			  const int64_t *, uint64_t, void *data)
{
	auto *t = static_cast<Tensor *>(calloc(1, sizeof(Tensor)));

	t->nd = n > 16 ? 16 : n;
	if (view)
		memcpy(t->dims, view, t->nd * sizeof(*view));
	t->dtype = dtype;
	t->data = data;
	return t;
}

API int aclGetViewShape(const Tensor *t, int64_t **dims, uint64_t *n)
{
	/* The caller deletes the array. */
	auto *d = static_cast<int64_t *>(malloc(sizeof(int64_t) * (t->nd ? t->nd : 1)));

	memcpy(d, t->dims, t->nd * sizeof(*d));
	*dims = d;
	*n = t->nd;
	return 0;
}

API void *aclCreateTensorList(void *const *v, uint64_t n)
{
	auto **l = static_cast<void **>(calloc(n + 1, sizeof(void *)));

	l[0] = reinterpret_cast<void *>(n);
	memcpy(l + 1, v, n * sizeof(*v));
	return l;
}

API int aclDestroyTensorList(void *list)
{
	auto **l = static_cast<void **>(list);

	for (uint64_t i = 0; i < reinterpret_cast<uint64_t>(l[0]); i++)
		free(l[1 + i]);
	free(l);
	return 0;
}

#define HANDLE_KIND(name)                                         \
	API int aclDestroy##name(void *p)                         \
	{                                                         \
		free(p);                                          \
		return 0;                                         \
	}
#define CREATE(name, ...)                      \
	API void *aclCreate##name(__VA_ARGS__) \
	{                                      \
		return Handle();               \
	}

HANDLE_KIND(Tensor)
HANDLE_KIND(Scalar)
HANDLE_KIND(IntArray)
HANDLE_KIND(FloatArray)
HANDLE_KIND(BoolArray)
HANDLE_KIND(ScalarList)
CREATE(Scalar, void *, int)
CREATE(IntArray, const int64_t *, uint64_t)
CREATE(FloatArray, const float *, uint64_t)
CREATE(BoolArray, const bool *, uint64_t)
CREATE(ScalarList, void *const *, uint64_t)

API int aclDestroyAclOpExecutor(void *)
{
	return 0;
}

API int InitHugeMemThreadLocal(void *, bool)
{
	return 0;
}

API void UnInitHugeMemThreadLocal(void *, bool)
{
}

API void ReleaseHugeMem(void *, bool)
{
}
