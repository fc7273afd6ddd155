// SPDX-License-Identifier: Apache-2.0
/* Tensors of operators, from the words of their TensorImpl (ascend-abi.md 2.7.7). */
#include "capture/capture.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

/* c10/core/ScalarType.h; bytes of an element. */
static const struct {
	const char *name;
	uint8_t bytes;
} dtypes[] = {
	{ "torch.uint8", 1 },	     { "torch.int8", 1 },	     { "torch.int16", 2 },
	{ "torch.int32", 4 },	     { "torch.int64", 8 },	     { "torch.float16", 2 },
	{ "torch.float32", 4 },	     { "torch.float64", 8 },	     { "torch.complex32", 4 },
	{ "torch.complex64", 8 },    { "torch.complex128", 16 },     { "torch.bool", 1 },
	{ "torch.qint8", 1 },	     { "torch.quint8", 1 },	     { "torch.qint32", 4 },
	{ "torch.bfloat16", 2 },     { "torch.quint4x2", 1 },	     { "torch.quint2x4", 1 },
	{ "torch.bits1x8", 1 },	     { "torch.bits2x4", 1 },	     { "torch.bits4x2", 1 },
	{ "torch.bits8", 1 },	     { "torch.bits16", 2 },	     { "torch.float8_e5m2", 1 },
	{ "torch.float8_e4m3fn", 1 }, { "torch.float8_e5m2fnuz", 1 }, { "torch.float8_e4m3fnuz", 1 },
	{ "torch.uint16", 2 },	     { "torch.uint32", 4 },	     { "torch.uint64", 8 },
	{ "torch.uint1", 1 },	     { "torch.uint2", 1 },	     { "torch.uint3", 1 },
	{ "torch.uint4", 1 },	     { "torch.uint5", 1 },	     { "torch.uint6", 1 },
	{ "torch.uint7", 1 },	     { "torch.int1", 1 },	     { "torch.int2", 1 },
	{ "torch.int3", 1 },	     { "torch.int4", 1 },	     { "torch.int5", 1 },
	{ "torch.int6", 1 },	     { "torch.int7", 1 },	     { "torch.float8_e8m0fnu", 1 },
	{ "torch.float4_e2m1fn_x2", 1 },
};

#define NPU 20 /* c10::DeviceType::PrivateUse1 */
#define DIMS_MAX 64 /* at::kVmapMaxTensorDims, the most that torch works with */
#define ELEMENTS_MAX ((int64_t)1 << 52)

/* Do the sizes make the number of elements? What is no tensor will hardly say so. */
static bool adds_up(const struct mt_access *r)
{
	int64_t n = 1;
	unsigned int i;

	if (r->dims > DIMS_MAX || r->numel < 0 || r->numel > ELEMENTS_MAX || r->offset < 0 ||
	    r->offset > ELEMENTS_MAX)
		return false;
	for (i = 0; i < r->dims && i < MT_ACCESS_DIMS; i++) {
		if (r->sizes[i] < 0 || __builtin_mul_overflow(n, r->sizes[i], &n))
			return false;
	}
	return r->dims > MT_ACCESS_DIMS ? !n || r->numel % n == 0 : n == r->numel;
}

int access__decode(const struct mt_access *r, struct event *e)
{
	uint16_t dtype = (uint16_t)(r->raw[0] | r->raw[1] << 8);

	if (dtype >= MT_ARRAY_SIZE(dtypes) || !adds_up(r))
		return -EBADMSG;
	e->kind = EV_ACCESS;
	e->key = r->op;
	/* {type, index, is there one}; before torch 2.2 the last stood first */
	e->device = (int8_t)(r->raw[2] == NPU && r->raw[4] == 1 ? r->raw[3] : r->raw[4]);
	e->addr = r->data ? r->data + (uint64_t)r->offset * dtypes[dtype].bytes : 0;
	e->size = r->numel * dtypes[dtype].bytes;
	e->access.write = r->write;
	e->access.result = r->result;
	e->access.cut = r->dims > MT_ACCESS_DIMS;
	e->access.n_dims = (uint8_t)MT_MIN(r->dims, MT_ACCESS_DIMS);
	e->access.dtype = dtypes[dtype].name;
	memcpy(e->access.dims, r->sizes, sizeof(e->access.dims));
	return 0;
}
