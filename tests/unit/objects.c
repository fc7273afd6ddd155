// SPDX-License-Identifier: Apache-2.0
/* Objects of Python over a memory that is made here, whole or hostile: dicts, lists, instances, tensors, the
 * collector's lists. Over real interpreters: tests/live/test_objects.py. */
#include <criterion/criterion.h>

#include "objects_test.h"

static void begin_12(void)
{
	begin(12);
}

static void end(void)
{
	heap__free(&h);
	types__forget(&types);
}

TestSuite(objects, .init = begin_12, .fini = end, .timeout = 30);

static unsigned int met;
static uint64_t last;

static int count_pair(void *ctx, uint64_t key, uint64_t value)
{
	(void)ctx;
	(void)key;
	met++;
	last = value;
	return 0;
}

static int count_item(void *ctx, uint64_t item)
{
	(void)ctx;
	met++;
	last = item;
	return 0;
}

/* ---- values ---- */

static void dicts_of(unsigned int minor)
{
	static const char *const names[] = { "a", "params", NULL, "b" };
	const uint64_t v[] = { 0x111110, 0x222220, 0, 0x333330 };
	unsigned int kind;
	uint64_t d, got;

	begin(minor);
	for (kind = 0; kind < 2; kind++) {
		d = dict(kind, 4, names, v);
		met = 0;
		cr_expect_eq(value__each_pair(&h, d, count_pair, NULL), 0);
		cr_expect_eq(met, 3, "3.%u: %u", minor, met);
		cr_expect_eq(value__get(&h, d, "params", &got), 0);
		cr_expect_eq(got, 0x222220);
		cr_expect_eq(value__get(&h, d, "b", &got), 0);
		cr_expect_eq(value__get(&h, d, "param", &got), -ENOENT, "a beginning is another name");
		cr_expect_eq(value__get(&h, d, "paramss", &got), -ENOENT);
	}
}

Test(objects, dicts)
{
	unsigned int minor;

	for (minor = 8; minor <= 15; minor++)
		dicts_of(minor);
}

Test(objects, dicts_with_values_elsewhere)
{
	unsigned int minor;

	for (minor = 8; minor <= 14; minor++) {
		uint64_t k, values, got, d;

		begin(minor);
		k = keys(8, 2, 3);
		values = room(64);
		put(entry(k, 8, 2, 0), str("state"));
		put(entry(k, 8, 2, 1), str("groups"));
		put(entry(k, 8, 2, 2), str("not set"));
		d = dict_of(k, values);
		put(values + (minor >= 13 ? 8 : 0), 0x1110);
		put(values + (minor >= 13 ? 16 : 8), 0x2220);
		cr_expect_eq(value__get(&h, d, "groups", &got), 0);
		cr_expect_eq(got, 0x2220, "3.%u: %llx", minor, (unsigned long long)got);
		cr_expect_eq(value__get(&h, d, "not set", &got), -ENOENT);
	}
}

/* Where instances have their values: a pointer to a dict, or values of their own. */
Test(objects, instances)
{
	static const unsigned int cached[] = { [11] = 872, [12] = 880, [13] = 880,
					       [14] = 880, [15] = 888 };
	unsigned int minor;
	uint64_t got;

	for (minor = 8; minor <= 10; minor++) {
		uint64_t t, o;

		begin(minor);
		t = type("C", TYPE_HEAP);
		put(t + 288, 16);
		o = object(t, 64);
		put(o + 16, dict(0, 1, (const char *const[]){ "x" }, (uint64_t[]){ 0x7770 }));
		cr_expect_eq(value__attr(&h, o, "x", &got), 0);
		cr_expect_eq(got, 0x7770);
		put(o + 16, 0);
		cr_expect_eq(value__attr(&h, o, "x", &got), -ENOENT);
	}
	for (minor = 11; minor <= 15; minor++) {
		uint64_t t, o, k, values;

		begin(minor);
		t = type("C", TYPE_HEAP | TYPE_MANAGED_DICT |
				      (minor >= 13 ? TYPE_INLINE_VALUES : 0));
		o = object(t, 256);
		k = keys(8, 2, 2);
		put(entry(k, 8, 2, 0), str("a"));
		put(entry(k, 8, 2, 1), str("b"));
		put(t + cached[minor], k);
		values = room(64);
		if (minor == 11) {
			put(o - 32, values);
		} else if (minor == 12) {
			put(o - 24, values - 1);
		} else {
			put(o + 16, 0x01000208); /* valid, embedded, 2 set, room for 8 */
			values = o + 24;
		}
		put(values + 8, 0x5550);
		cr_expect_eq(value__attr(&h, o, "b", &got), 0, "3.%u", minor);
		cr_expect_eq(got, 0x5550);
		cr_expect_eq(value__attr(&h, o, "a", &got), -ENOENT);
		/* Keys that are no shared ones: something else is there. */
		put_byte(k + 10, 1);
		cr_expect_eq(value__attr(&h, o, "b", &got), -EINVAL);
		put_byte(k + 10, 2);
		/* From here on in a dict. */
		put(o - 24, dict(1, 1, (const char *const[]){ "b" }, (uint64_t[]){ 0x6660 }));
		if (minor == 11)
			put(o - 32, 0);
		cr_expect_eq(value__attr(&h, o, "b", &got), 0);
		cr_expect_eq(got, 0x6660, "3.%u", minor);
	}
}

Test(objects, lists)
{
	uint64_t v[200], l;
	unsigned int i;

	for (i = 0; i < 200; i++)
		v[i] = i == 7 ? 0 : 0x1000 + i * 16;
	l = list(200, v);
	met = 0;
	cr_expect_eq(value__each_item(&h, l, count_item, NULL), 0);
	cr_expect_eq(met, 199);
	cr_expect_eq(last, v[199]);
	cr_expect_eq(value__each_item(&h, object(t_int, 64), count_item, NULL), -EINVAL);
}

/* Sizes that cannot be are refused before anything is read or made for them. */
Test(objects, hostile_sizes)
{
	static const uint64_t sizes[] = { 1ULL << 20,  1ULL << 31, 1ULL << 32,
					  1ULL << 62, UINT64_MAX, 9 };
	uint64_t l = list(1, (uint64_t[]){ 0x1110 }), d, k;
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(sizes); i++) {
		unsigned int minor;

		if (sizes[i] > 9) { /* the arena ends before that */
			put(l + 16, sizes[i]);
			cr_expect_lt(value__each_item(&h, l, count_item, NULL), 0);
		}
		for (minor = 10; minor <= 12; minor += 2) {
			begin(minor);
			k = keys(8, 1, sizes[i]); /* more entries than the table has room for */
			d = dict_of(k, 0);
			cr_expect_eq(value__each_pair(&h, d, count_pair, NULL), -EINVAL);
			k = keys(8, 1, 1);
			put(k + 8, sizes[i] == 9 ? 0x0909 << 8 : 0xffffff);
			cr_expect_neq(value__each_pair(&h, dict_of(k, 0), count_pair, NULL), 0);
		}
		begin(12);
		l = list(1, (uint64_t[]){ 0x1110 });
	}
	/* Pointers to nowhere, to the end of all, to what cannot be read. */
	for (i = 0; i < 4; i++) {
		static const uint64_t bad[] = { 0, 7, UINT64_MAX - 7, 0x7fffffffffff0000 };

		cr_expect_lt(value__each_pair(&h, bad[i], count_pair, NULL), 0);
		cr_expect_lt(value__each_item(&h, bad[i], count_item, NULL), 0);
		cr_expect_lt(value__each_pair(&h, dict_of(bad[i], 0), count_pair, NULL), 0);
		put(l + 24, bad[i]);
		cr_expect_lt(value__each_item(&h, l, count_item, NULL), 0);
	}
}

Test(objects, page_that_cannot_be_read)
{
	uint64_t v[1024], l, items;
	unsigned int i;

	for (i = 0; i < 1024; i++)
		v[i] = 0x1000;
	l = list(1024, v);
	memcpy(&items, arena + (l + 24 - BASE), 8);
	hole = (items + 4096) & ~4095ULL;
	heap__forget(&h);
	met = 0;
	cr_expect_eq(value__each_item(&h, l, count_item, NULL), -EFAULT);
	cr_expect_lt(met, 1024);
}

/* ---- types ---- */

Test(objects, kinds_of_types)
{
	uint64_t optimizer = class_of("Optimizer", "torch.optim.optimizer", 0);

	cr_expect_eq(types__kind(&types, &h, optimizer), KIND_KNOWN | KIND_OPTIMIZER);
	cr_expect_eq(types__kind(&types, &h, class_of("Adam", "mine", optimizer)),
		     KIND_KNOWN | KIND_OPTIMIZER);
	cr_expect_eq(types__kind(&types, &h, class_of("Module", "torch.nn.modules.module", 0)),
		     KIND_KNOWN | KIND_MODULE);
	cr_expect_eq(types__kind(&types, &h, type("torch._C.TensorBase", 0)),
		     KIND_KNOWN | KIND_TENSOR);
	cr_expect_eq(types__kind(&types, &h, class_of("Optimizer", "mine", 0)), KIND_KNOWN);
	cr_expect_eq(types__kind(&types, &h, class_of("Optimizer", NULL, 0)), KIND_KNOWN);
	cr_expect_eq(types__kind(&types, &h, object(t_int, 64)), KIND_NONE);
	cr_expect_eq(types__kind(&types, &h, 0x123450000), KIND_NONE);
	/* Bases without end, and which are none. */
	put(optimizer + 344, optimizer);
	types__forget(&types);
	cr_expect_eq(types__kind(&types, &h, optimizer), KIND_KNOWN);
}

/* ---- tensors ---- */

Test(objects, tensors)
{
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(generations); i++) {
		const struct generation *g = &generations[i];
		struct tensor_layout l = { 0 };
		struct tensor t, grad;
		uint64_t of, o;

		begin(11);
		t_tensor = type("torch._C.TensorBase", 0);
		of = tensor(g, 0x124000400000, 512, 3 << 8 | 20, 0);
		o = tensor(g, 0x124000500000, 1024, 20, impl_of(g, of));
		cr_assert_eq(tensor__read(&h, &l, o, &t), 0, "%zu", i);
		cr_expect_eq(t.is.addr, 0x124000500000);
		cr_expect_eq(t.is.bytes, 1024);
		cr_expect_eq(t.is.device, 0);
		cr_expect_eq(tensor__grad(&h, &l, &t, &grad), 0);
		cr_expect_eq(grad.is.addr, 0x124000400000);
		cr_expect_eq(grad.is.device, 3);
		/* One of the host has no place on the NPU. */
		cr_expect_eq(tensor__read(&h, &l, tensor(g, 0x500000, 64, 0, 0), &t), 0);
		cr_expect_eq(t.is.device, -1);
		cr_expect_lt(tensor__grad(&h, &l, &t, &grad), 0);
		/* What does not lead back to its object is none. */
		put(impl_of(g, o) + g->pyobj, of);
		cr_expect_eq(tensor__read(&h, &l, o, &t), -EINVAL);
		put(impl_of(g, o) + g->pyobj, o);
		cr_expect_eq(tensor__read(&h, &l, o, &t), 0);
		/* A size or a device that no memory has. */
		put(t.storage + g->head + 32, 1ULL << 60);
		cr_expect_eq(tensor__read(&h, &l, o, &t), -EINVAL);
		put(t.storage + g->head + 32, 1024);
		put(t.storage + g->head + 24, 200);
		cr_expect_eq(tensor__read(&h, &l, o, &t), -EINVAL);
	}
}

/* ---- modules ---- */

static struct object_storage found[64];
static size_t n_found;

static int on_storage(void *ctx, const struct object_storage *s)
{
	(void)ctx;
	cr_assert(n_found < 64);
	found[n_found++] = *s;
	return 0;
}

static struct tensor_layout layout;

static struct module_reader reader(void)
{
	n_found = 0;
	layout = (struct tensor_layout){ 0 };
	return (struct module_reader){
		.h = &h, .types = &types, .layout = &layout, .storage = on_storage
	};
}

Test(objects, optimizer)
{
	static const char *const attributes[] = { "state", "param_groups" };
	const struct generation *g = &generations[1];
	uint64_t grad, p, q, groups, state, o, circle;
	struct module_reader r;

	begin(10);
	t_tensor = type("torch._C.TensorBase", 0);
	grad = tensor(g, 0x1000, 1, 20, 0);
	p = tensor(g, 0x2000, 2, 20, impl_of(g, grad));
	q = tensor(g, 0x3000, 3, 20, 0);
	circle = list(1, (uint64_t[]){ 0 });
	put(circle + 24, circle + 32);
	put(circle + 32, circle);
	groups = list(2, (uint64_t[]){ dict(1, 1, (const char *const[]){ "params" },
					    (uint64_t[]){ list(2, (uint64_t[]){ p, q }) }),
				       object(t_int, 64) });
	state = dict(0, 2, (const char *const[]){ "key", "circle" },
		     (uint64_t[]){ dict(1, 3, (const char *const[]){ "a", "b", "step" },
					(uint64_t[]){ tensor(g, 0x4000, 4, 20, 0), object(t_int, 64),
						      tensor(g, 0x5000, 5, 0, 0) }),
				   circle });
	o = instance(class_of("Optimizer", "torch.optim.optimizer", 0),
		     dict(1, 2, attributes, (uint64_t[]){ state, groups }));
	r = reader();
	cr_assert_eq(module__optimizer(&r, o), 0);
	cr_assert_eq(n_found, 4, "%zu", n_found);
	cr_expect(found[0].addr == 0x2000 && found[0].kind == OBJECT_WEIGHT);
	cr_expect(found[1].addr == 0x1000 && found[1].kind == OBJECT_GRADIENT);
	cr_expect(found[2].addr == 0x3000 && found[2].kind == OBJECT_WEIGHT);
	cr_expect(found[3].addr == 0x4000 && found[3].kind == OBJECT_STATE);
	/* Without what it should have: nothing, and no error. */
	r = reader();
	cr_expect_eq(module__optimizer(&r, instance(t_int, 0)), 0);
	cr_expect_eq(n_found, 0);
}

/* What leads back to itself in many ways would take for ever: the time ends it. */
Test(objects, graph_without_end)
{
	static const char *const attributes[] = { "state", "param_groups" };
	uint64_t big, items, state, o, t0;
	struct module_reader r;
	unsigned int i;

	begin(10);
	big = object(t_list, 64);
	items = room(8 * 4096);
	for (i = 0; i < 4096; i++)
		memcpy(arena + (items + i * 8 - BASE), &big, 8);
	put(big + 16, 4096);
	put(big + 24, items);
	state = dict(0, 1, (const char *const[]){ "key" }, (uint64_t[]){ big });
	o = instance(class_of("Optimizer", "torch.optim.optimizer", 0),
		     dict(1, 2, attributes, (uint64_t[]){ state, state }));
	r = reader();
	t0 = clock__boot();
	h.deadline = t0 + 200000000;
	cr_expect_eq(module__optimizer(&r, o), -ETIME);
	cr_expect_lt(clock__boot() - t0, 5000000000ULL);
}

/* ---- the collector's lists ---- */

static uint64_t seen[8192];
static uint64_t n_seen;

static int on_object(void *ctx, uint64_t obj, uint64_t of)
{
	(void)ctx;
	(void)of;
	seen[n_seen++ % 8192] = obj;
	return types__kind(&types, &h, of) & KIND_NONE ? -ENOENT : 0;
}

static int walk(bool *torn)
{
	uint64_t n;
	struct gc g;

	n_seen = 0;
	cr_assert_eq(gc__find(&h, runtime, &g), 0);
	cr_assert_eq(g.n, 4);
	cr_assert_eq(g.heads[0], heads);
	return gc__each(&h, &g, GC_LISTS, 100000, on_object, NULL, &n, torn);
}

Test(objects, all_objects)
{
	uint64_t objects[1000];
	bool torn;

	collector(1000, objects);
	cr_expect_eq(walk(&torn), 0);
	cr_expect_not(torn);
	cr_expect_eq(n_seen, 1001);
	cr_expect_eq(seen[1], objects[0]);
	cr_expect_eq(seen[1000], objects[999]);
	/* No lists at all. */
	put(heads + 72, 0);
	cr_expect_eq(gc__find(&h, runtime, &(struct gc){ 0 }), -ENOENT);
}

Test(objects, lists_that_lead_astray)
{
	uint64_t objects[1000], n;
	struct gc g;
	bool torn;

	collector(1000, objects);
	/* In a circle, without coming back to its head. */
	put(objects[900] - 16, objects[300] - 16);
	cr_expect_eq(walk(&torn), 0);
	cr_expect(torn);
	cr_expect_lt(n_seen, 10000);
	/* Into another list. */
	put(objects[900] - 16, heads + 24);
	cr_expect_eq(walk(&torn), 0);
	cr_expect(torn);
	cr_expect_eq(n_seen, 902);
	/* To nowhere. */
	put(objects[900] - 16, 0x7fff00000000);
	cr_expect_eq(walk(&torn), 0);
	cr_expect(torn);
	cr_expect_eq(n_seen, 902);
	/* Past one that was freed: its type is none, and nothing leads back. */
	put(objects[900] - 16, objects[901] - 16);
	put(objects[500] - 8, 0);
	put(objects[500] + 8, objects[0]);
	cr_expect_eq(walk(&torn), 0);
	cr_expect(torn);
	cr_expect_eq(n_seen, 502);
	/* A collection counts where the way back stands: all are met, and it is said. */
	put(objects[500] + 8, t_int);
	cr_expect_eq(walk(&torn), 0);
	cr_expect(torn);
	cr_expect_eq(n_seen, 1001);
	/* More than asked for. */
	cr_assert_eq(gc__find(&h, runtime, &g), 0);
	cr_expect_eq(gc__each(&h, &g, GC_LISTS, 500, on_object, NULL, &n, &torn), -E2BIG);
	cr_expect_eq(n, 500);
}
