// SPDX-License-Identifier: Apache-2.0
/* Simulated libnnopbase.so: the objects that operators take as arguments. */
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define API extern "C" __attribute__((visibility("default")))

namespace
{

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

#define HANDLE_KIND(name)                 \
	API int aclDestroy##name(void *p) \
	{                                 \
		free(p);                  \
		return 0;                 \
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
