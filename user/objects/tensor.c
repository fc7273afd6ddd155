// SPDX-License-Identifier: Apache-2.0
/*
 * Tensors of torch: the memory behind a Python object, its gradient. The structures
 * of 2.1 to 2.14 differ in a few places; which they are is seen from a tensor, whose
 * structure points back to the Python object.
 */
#include "objects/internal.h"

#include <errno.h>
#include <string.h>

#define PRIVATE_USE_1 20 /* c10::DeviceType: what torch_npu registers as */
#define MAX_TYPE 32 /* of devices */
#define MAX_BYTES (1ULL << 44)

static bool points_back(struct heap *h, uint64_t impl, unsigned int at, uint64_t obj)
{
	uint64_t w;

	/* Until 2.9 the lowest bit tells who owns whom. */
	return !heap__u64(h, impl + at, &w) && (w & ~(uint64_t)1) == obj;
}

/* What is in the Python object: at::Tensor, behind a flag until 2.9 (c10::MaybeOwned). */
static int learn(struct heap *h, struct tensor_layout *l, uint64_t obj)
{
	static const uint8_t places[] = { 48, 56, 64 };
	uint8_t cdata;
	uint64_t impl;
	size_t i;

	for (cdata = 16; cdata <= 24; cdata += 8) {
		if (heap__u64(h, obj + cdata, &impl) || !heap__is_pointer(impl))
			continue;
		for (i = 0; i < MT_ARRAY_SIZE(places); i++) {
			if (!points_back(h, impl, places[i], obj))
				continue;
			*l = (struct tensor_layout){ .known = true,
						     .cdata = cdata,
						     .pyobj = places[i] };
			/* Behind two counts of 64 bits, later of 32; from 2.10 on it stands alone.
			 */
			l->head = places[i] == 64 ? 24 : 16;
			return 0;
		}
	}
	return -EINVAL;
}

/* StorageImpl: a DataPtr (address, function and context, device), bytes. */
static int read_storage(struct heap *h, const struct tensor_layout *l, struct tensor *t)
{
	uint64_t w[5];
	int err;

	err = heap__u64(h, t->impl + l->head, &t->storage);
	if (err || !t->storage)
		return err;
	if (!heap__is_pointer(t->storage))
		return -EINVAL;
	err = heap__read(h, t->storage + l->head, w, sizeof(w));
	if (err)
		return err;
	if ((w[3] & 0xff) >= MAX_TYPE || w[4] > MAX_BYTES)
		return -EINVAL;
	t->is.addr = w[0];
	t->is.bytes = w[4];
	t->is.device = (w[3] & 0xff) == PRIVATE_USE_1 ? (int8_t)(w[3] >> 8) : -1;
	return 0;
}

int tensor__read(struct heap *h, struct tensor_layout *l, uint64_t obj, struct tensor *t)
{
	int err = l->known ? 0 : learn(h, l, obj);

	memset(t, 0, sizeof(*t));
	if (!err)
		err = heap__u64(h, obj + l->cdata, &t->impl);
	if (!err && (!heap__is_pointer(t->impl) || !points_back(h, t->impl, l->pyobj, obj)))
		err = -EINVAL;
	return err ? err : read_storage(h, l, t);
}

uint64_t tensor__object(struct heap *h, const struct tensor_layout *l, const struct tensor *t)
{
	uint64_t obj;

	if (heap__u64(h, t->impl + l->pyobj, &obj))
		return 0;
	obj &= ~(uint64_t)1;
	return heap__is_pointer(obj) ? obj : 0;
}

int tensor__grad(struct heap *h, const struct tensor_layout *l, const struct tensor *t,
		 struct tensor *grad)
{
	uint64_t meta, name, vtable;
	int err;

	memset(grad, 0, sizeof(*grad));
	err = heap__u64(h, t->impl + l->head + 8, &meta);
	if (err)
		return err;
	if (!meta)
		return -ENOENT;
	if (!heap__is_pointer(meta))
		return -EINVAL;
	/*
	 * AutogradMeta: a name, which is empty, then the gradient. A std::string is 32 bytes and
	 * points into itself, or, of the ABI that wheels had until 2.5, a pointer.
	 */
	err = heap__u64(h, meta + 8, &name);
	if (!err)
		err = heap__u64(h, meta + (name == meta + 24 ? 40 : 16), &grad->impl);
	if (!err && !heap__is_pointer(grad->impl))
		err = -EINVAL;
	if (!err)
		err = heap__u64(h, grad->impl, &vtable);
	if (!err && !heap__is_pointer(vtable))
		err = -EINVAL;
	if (!err)
		err = read_storage(h, l, grad);
	/* What is not defined is a structure of its own, without memory and object. */
	if (!err && !grad->storage && !tensor__object(h, l, grad))
		err = -ENOENT;
	return err;
}
