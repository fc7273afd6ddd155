// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: an optimizer, a module and the collector's lists of a release, whole, and then
 * with words changed as the input says (where: 3 bytes, what: 1 + 8); read as from another
 * process. Nothing may be read for long, or kept without bound. See run.sh.
 */
#include "../unit/objects_test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t n_storages;

static int on_storage(void *ctx, const struct object_storage *s)
{
	(void)ctx;
	if (s->kind >= OBJECT_KINDS || s->device < 0)
		abort();
	n_storages++;
	return 0;
}

static int on_object(void *ctx, uint64_t obj, uint64_t of)
{
	struct module_reader *r = ctx;
	unsigned int kind = types__kind(&types, &h, of);
	int err = 0;

	if (kind & KIND_OPTIMIZER)
		err = module__optimizer(r, obj);
	else if (kind & KIND_MODULE)
		err = module__module(r, obj);
	else if (kind & KIND_NONE)
		err = -ENOENT;
	return err;
}

/* Where an object is put, it is in a list of the collector too. */
static uint64_t tracked(uint64_t o, uint64_t *last)
{
	uint64_t at = o - 16;

	put(*last, at);
	put(at + 8, *last);
	put(at, heads);
	put(heads + 8, at);
	*last = at;
	return o;
}

static void make(unsigned int minor, const struct generation *g)
{
	static const char *const optimizer[] = { "state", "param_groups" };
	static const char *const module[] = { "_parameters", "_buffers" };
	uint64_t p, state, groups, last, wrapped, t_wrapper;

	begin(minor);
	collector(20, NULL);
	chain(heads, 0, NULL);
	last = heads;
	t_tensor = type("torch._C.TensorBase", TYPE_HEAP);
	p = tensor(g, 0x2000, 2, 20, impl_of(g, tensor(g, 0x1000, 1, 20, 0)));
	t_wrapper = class_of("DTensor", "torch", t_tensor);
	wrapped = tensor(g, 0, 0, 20, 0);
	put(wrapped + 8, t_wrapper);
	put(t_wrapper + 288, 40);
	put(wrapped + 40, dict(1, 1, (const char *const[]){ "inner" }, &p));
	groups = list(1, (uint64_t[]){ dict(1, 1, (const char *const[]){ "params" },
					    (uint64_t[]){ list(2, (uint64_t[]){ p, wrapped }) }) });
	state = dict(0, 1, (const char *const[]){ "key" },
		     (uint64_t[]){ dict(1, 2, (const char *const[]){ "a", "b" },
					(uint64_t[]){ tensor(g, 0x4000, 4, 20, 0), list(1, &p) }) });
	tracked(instance(class_of("Optimizer", "torch.optim.optimizer", 0),
			 dict(1, 2, optimizer, (uint64_t[]){ state, groups })),
		&last);
	tracked(instance(class_of("Module", "torch.nn.modules.module", 0),
			 dict(1, 2, module, (uint64_t[]){ dict(1, 1, (const char *const[]){ "w" }, &p),
							  dict(1, 1, (const char *const[]){ "b" }, &p) })),
		&last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tensor_layout layout = { 0 };
	struct module_reader r = {
		.h = &h, .types = &types, .layout = &layout, .storage = on_storage
	};
	uint64_t n, t0, used;
	bool torn, whole;
	struct gc g;

	if (!size)
		return 0;
	make(8 + data[0] % 8, &generations[data[0] / 8 % 3]);
	used = top - BASE;
	n_storages = 0;
	whole = size < 13;
	for (data++, size--; size >= 12; data += 12, size -= 12) {
		uint64_t at = (data[0] | (uint64_t)data[1] << 8 | (uint64_t)data[2] << 16) % used, v;

		memcpy(&v, data + 4, 8);
		/* Most words of worth are addresses here, or small. */
		if (data[3] & 1)
			v = BASE + v % used;
		else if (data[3] & 2)
			v &= 0xffff;
		memcpy(arena + (data[3] & 4 ? at : at & ~7ULL), &v, 8);
	}
	heap__forget(&h);
	types__forget(&types);
	t0 = clock__boot();
	h.deadline = t0 + 500000000;
	if (!gc__find(&h, runtime, &g))
		(void)gc__each(&h, &g, GC_LISTS, 1 << 20, on_object, &r, &n, &torn);
	if (clock__boot() - t0 > 5000000000ULL)
		abort();
	/* Two weights with a gradient in each of both, two states, a weight that is a buffer too. */
	if (whole && n_storages < 8)
		abort();
	return 0;
}
