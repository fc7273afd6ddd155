// SPDX-License-Identifier: Apache-2.0
/* Records of ATB: runners, kernels and their tensors (ascend-abi.md 2.9). */
#include "capture/capture.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

struct named {
	int32_t value;
	const char *acl, *mki; /* NULL: has no such */
};

/* aclDataType of acl_base.h; Mki::TensorDType has its first numbers. */
static const struct named dtypes[] = {
	{ 0, "ACL_FLOAT", "TENSOR_DTYPE_FLOAT" },
	{ 1, "ACL_FLOAT16", "TENSOR_DTYPE_FLOAT16" },
	{ 2, "ACL_INT8", "TENSOR_DTYPE_INT8" },
	{ 3, "ACL_INT32", "TENSOR_DTYPE_INT32" },
	{ 4, "ACL_UINT8", "TENSOR_DTYPE_UINT8" },
	{ 6, "ACL_INT16", "TENSOR_DTYPE_INT16" },
	{ 7, "ACL_UINT16", "TENSOR_DTYPE_UINT16" },
	{ 8, "ACL_UINT32", "TENSOR_DTYPE_UINT32" },
	{ 9, "ACL_INT64", "TENSOR_DTYPE_INT64" },
	{ 10, "ACL_UINT64", "TENSOR_DTYPE_UINT64" },
	{ 11, "ACL_DOUBLE", "TENSOR_DTYPE_DOUBLE" },
	{ 12, "ACL_BOOL", "TENSOR_DTYPE_BOOL" },
	{ 13, "ACL_STRING", "TENSOR_DTYPE_STRING" },
	{ 16, "ACL_COMPLEX64", "TENSOR_DTYPE_COMPLEX64" },
	{ 17, "ACL_COMPLEX128", "TENSOR_DTYPE_COMPLEX128" },
	{ 27, "ACL_BF16", "TENSOR_DTYPE_BF16" },
	{ 29, "ACL_INT4", NULL },
	{ 30, "ACL_UINT1", NULL },
	{ 33, "ACL_COMPLEX32", NULL },
	{ 34, "ACL_HIFLOAT8", NULL },
	{ 35, "ACL_FLOAT8_E5M2", NULL },
	{ 36, "ACL_FLOAT8_E4M3FN", NULL },
	{ 37, "ACL_FLOAT8_E8M0", NULL },
	{ 38, "ACL_FLOAT6_E3M2", NULL },
	{ 39, "ACL_FLOAT6_E2M3", NULL },
	{ 40, "ACL_FLOAT4_E2M1", NULL },
	{ 41, "ACL_FLOAT4_E1M2", NULL },
};

static const struct named formats[] = {
	{ 0, "ACL_FORMAT_NCHW", "TENSOR_FORMAT_NCHW" },
	{ 1, "ACL_FORMAT_NHWC", "TENSOR_FORMAT_NHWC" },
	{ 2, "ACL_FORMAT_ND", "TENSOR_FORMAT_ND" },
	{ 3, "ACL_FORMAT_NC1HWC0", "TENSOR_FORMAT_NC1HWC0" },
	{ 4, "ACL_FORMAT_FRACTAL_Z", "TENSOR_FORMAT_FRACTAL_Z" },
	{ 12, "ACL_FORMAT_NC1HWC0_C04", "TENSOR_FORMAT_NC1HWC0_C04" },
	{ 16, "ACL_FORMAT_HWCN", "TENSOR_FORMAT_HWCN" },
	{ 27, "ACL_FORMAT_NDHWC", "TENSOR_FORMAT_NDHWC" },
	{ 29, "ACL_FORMAT_FRACTAL_NZ", "TENSOR_FORMAT_FRACTAL_NZ" },
	{ 30, "ACL_FORMAT_NCDHW", "TENSOR_FORMAT_NCDHW" },
	{ 32, "ACL_FORMAT_NDC1HWC0", "TENSOR_FORMAT_NDC1HWC0" },
	{ 33, "ACL_FRACTAL_Z_3D", "TENSOR_FORMAT_FRACTAL_Z_3D" },
	{ 35, "ACL_FORMAT_NC", NULL },
	{ 47, "ACL_FORMAT_NCL", NULL },
};

#define ATB_DIMS 8 /* atb::MAX_DIM */
#define MKI_DIMS 48 /* room of an Mki::SVector */

static const char *name_of(const struct named *v, size_t n, int32_t value, bool mki,
			   const char *none)
{
	const char *s;
	size_t i;

	for (i = 0; i < n; i++) {
		s = mki ? v[i].mki : v[i].acl;
		if (v[i].value == value && s)
			return s;
	}
	return none;
}

int atb__decode_tensor(const struct mt_atb_tensor *r, struct event *e)
{
	struct {
		int32_t dtype, format;
		int64_t dims[MT_ACCESS_DIMS];
		uint64_t n_dims, data, host, size;
	} t;

	_Static_assert(sizeof(t) == sizeof(r->raw), "atb::Tensor");
	memcpy(&t, r->raw, sizeof(t));
	if (t.n_dims > (r->kernel ? MKI_DIMS : ATB_DIMS))
		return -EBADMSG;
	e->kind = EV_ATB_TENSOR;
	e->key = r->sp;
	e->addr = t.data;
	e->size = (int64_t)t.size;
	e->access.write = r->write;
	e->access.kernel = r->kernel;
	e->access.cut = t.n_dims > MT_ACCESS_DIMS;
	e->access.n_dims = (uint8_t)MT_MIN(t.n_dims, MT_ACCESS_DIMS);
	memcpy(e->access.dims, t.dims, sizeof(e->access.dims));
	e->access.dtype = name_of(dtypes, MT_ARRAY_SIZE(dtypes), t.dtype, r->kernel,
				  r->kernel ? "TENSOR_DTYPE_UNDEFINED" : "ACL_DT_UNDEFINED");
	e->access.format = name_of(formats, MT_ARRAY_SIZE(formats), t.format, r->kernel,
				   r->kernel ? "TENSOR_FORMAT_UNDEFINED" : "ACL_FORMAT_UNDEFINED");
	return 0;
}

int atb__decode(const struct mt_atb *r, struct event *e)
{
	static const enum event_kind kinds[] = {
		[MT_ATB_START] = EV_ATB_START,
		[MT_ATB_END] = EV_ATB_END,
		[MT_ATB_KERNEL_START] = EV_ATB_KERNEL_START,
		[MT_ATB_KERNEL_END] = EV_ATB_KERNEL_END,
	};

	if (r->what >= MT_ARRAY_SIZE(kinds) || r->name_len >= sizeof(r->name) ||
	    r->dir_len >= sizeof(r->dir))
		return -EBADMSG;
	e->kind = kinds[r->what];
	e->begin = r->begin;
	e->ret = r->ret;
	e->atb = r;
	e->text = r->name;
	e->text_len = r->name_len;
	e->flags |= (r->h.flags & MT_F_TRUNC ? EVF_TRUNC : 0) |
		    (r->h.flags & MT_F_NOTEXT ? EVF_NOTEXT : 0);
	return 0;
}
