// SPDX-License-Identifier: Apache-2.0
/* Objects of Python over a memory that is made here, whole or hostile: dicts, lists, instances, tensors, the
 * collector's lists. Over real interpreters: tests/live/test_objects.py. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "objects/internal.h"

#define BASE 0x10000000ULL
#define SIZE (1u << 20)

static uint8_t arena[SIZE];
static uint64_t top; /* what is not used yet */
static uint64_t hole; /* this page cannot be read */
static struct heap h;
static struct types types;

static int read_arena(void *ctx, uint64_t addr, void *buf, size_t n)
{
	(void)ctx;
	if (addr < BASE || addr - BASE > SIZE || SIZE - (addr - BASE) < n)
		return -EFAULT;
	if (hole && addr + n > hole && addr < hole + 4096)
		return -EFAULT;
	memcpy(buf, arena + (addr - BASE), n);
	return 0;
}

static const struct py_mem mem = { read_arena, NULL };

static void put(uint64_t addr, uint64_t v)
{
	memcpy(arena + (addr - BASE), &v, sizeof(v));
	heap__forget(&h);
}

static void put_byte(uint64_t addr, uint8_t v)
{
	arena[addr - BASE] = v;
	heap__forget(&h);
}

static uint64_t room(size_t n)
{
	uint64_t at = top;

	top += (n + 63) & ~63ULL;
	cr_assert(top <= BASE + SIZE);
	return at;
}

static uint64_t text(const char *s)
{
	uint64_t at = room(strlen(s) + 1);

	memcpy(arena + (at - BASE), s, strlen(s) + 1);
	return at;
}

static uint64_t meta; /* the type of types */

static uint64_t type(const char *name, uint32_t flags)
{
	uint64_t at = room(1024), mro = room(64);

	put(at, 1);
	put(at + 8, meta);
	put(at + 24, text(name));
	put(at + 32, 16);
	put(at + 168, flags);
	put(mro, 1);
	put(mro + 8, meta);
	put(mro + 16, 1);
	put(mro + 24, at);
	put(at + 344, mro);
	return at;
}

static uint64_t t_dict, t_list, t_str, t_int;

static void begin(unsigned int minor)
{
	struct py_layout l;

	memset(arena, 0, sizeof(arena));
	top = BASE;
	hole = 0;
	if (minor <= 12) {
		cr_assert_eq(py_layout__table(minor, EM_X86_64, &l), 0);
	} else {
		cr_assert_eq(py_layout__table(12, EM_X86_64, &l), 0);
		l.version = 3u << 24 | minor << 16;
	}
	heap__free(&h);
	types__forget(&types);
	cr_assert_eq(heap__init(&h, &mem, &l), 0);
	meta = 0;
	meta = type("type", TYPE_TYPE);
	put(meta + 8, meta);
	t_dict = type("dict", TYPE_DICT);
	t_list = type("list", TYPE_LIST);
	t_str = type("str", TYPE_STR);
	t_int = type("int", 0);
}

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

static uint64_t object(uint64_t of, size_t n)
{
	uint64_t at = room(n + 64) + 64;

	put(at, 1);
	put(at + 8, of);
	return at;
}

static uint64_t str(const char *s)
{
	uint64_t at = object(t_str, 256);

	put(at + 16, strlen(s));
	arena[at + 32 - BASE] = 1 | 1 << 2 | 1 << 5 | 1 << 6;
	memcpy(arena + (at + h.layout.str_ascii - BASE), s, strlen(s));
	return at;
}

/* Keys with room for `size`; kind as CPython has it, from 3.11 on. */
static uint64_t keys(unsigned int size, unsigned int kind, uint64_t n)
{
	uint64_t at = room(64 + size + size * 24);

	put(at, 1);
	if (h.minor <= 10) {
		put(at + 8, size);
		put(at + 32, n);
	} else {
		unsigned int log = 0;

		while (1u << log < size)
			log++;
		put_byte(at + 8, (uint8_t)log);
		put_byte(at + 9, (uint8_t)log);
		put_byte(at + 10, (uint8_t)kind);
		put(at + 24, n);
	}
	return at;
}

static uint64_t entry(uint64_t k, unsigned int size, unsigned int kind, unsigned int i)
{
	return k + (h.minor <= 10 ? 40 : 32) + size + i * (h.minor > 10 && kind ? 16 : 24) +
	       (h.minor > 10 && kind ? 0 : 8);
}

static uint64_t dict_of(uint64_t k, uint64_t values)
{
	uint64_t at = object(t_dict, 64);

	put(at + 32, k);
	put(at + 40, values);
	return at;
}

/* A dict of str to any object. */
static uint64_t dict(unsigned int kind, unsigned int n, const char *const *names, const uint64_t *v)
{
	uint64_t k = keys(8, kind, n);
	unsigned int i;

	for (i = 0; i < n; i++) {
		put(entry(k, 8, kind, i), names[i] ? str(names[i]) : 0);
		put(entry(k, 8, kind, i) + 8, v[i]);
	}
	return dict_of(k, 0);
}

static uint64_t list(unsigned int n, const uint64_t *v)
{
	uint64_t at = object(t_list, 64), items = room(n * 8 + 8);
	unsigned int i;

	put(at + 16, n);
	put(at + 24, items);
	for (i = 0; i < n; i++)
		put(items + i * 8, v[i]);
	return at;
}

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

static uint64_t class_of(const char *name, const char *module, uint64_t base)
{
	uint64_t t = type(name, TYPE_HEAP), mro = room(64);

	put(mro, 1);
	put(mro + 8, meta);
	put(mro + 16, base ? 2 : 1);
	put(mro + 24, t);
	put(mro + 32, base);
	put(t + 344, mro);
	if (module)
		put(t + 264, dict(1, 1, (const char *const[]){ "__module__" },
				  (uint64_t[]){ str(module) }));
	return t;
}

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

struct generation {
	unsigned int cdata, head, pyobj, grad;
};

static const struct generation generations[] = { { 24, 24, 64, 16 }, { 24, 16, 56, 40 },
						 { 16, 16, 48, 40 } };
static uint64_t t_tensor;

static uint64_t tensor(const struct generation *g, uint64_t addr, uint64_t bytes, uint64_t device,
		       uint64_t grad_impl)
{
	uint64_t o = object(t_tensor, 64), impl = room(256), storage = room(128), m = room(128);

	put(o + g->cdata, impl);
	put(impl, BASE);
	put(impl + g->head, storage);
	put(impl + g->head + 8, m);
	put(impl + g->pyobj, o | (g->head == 24)); /* who owns whom, of the older ones */
	put(storage + g->head, addr);
	put(storage + g->head + 24, 0x55aa0000 | device);
	put(storage + g->head + 32, bytes);
	put(m + 8, g->grad == 40 ? m + 24 : BASE);
	put(m + g->grad, grad_impl);
	return o;
}

static uint64_t impl_of(const struct generation *g, uint64_t obj)
{
	uint64_t v;

	memcpy(&v, arena + (obj + g->cdata - BASE), 8);
	return v;
}

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

static uint64_t instance(uint64_t of, uint64_t d)
{
	uint64_t o = object(of, 64);

	put(of + 288, 16);
	put(o + 16, d);
	return o;
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

static uint64_t runtime, interp, heads;

/* n objects in a list behind a head. */
static void chain(uint64_t head, unsigned int n, uint64_t *objects)
{
	uint64_t at = head, next;
	unsigned int i;

	for (i = 0; i < n; i++) {
		next = object(t_int, 64) - 16;
		put(at, next);
		put(next + 8, at | (i & 1)); /* a flag */
		at = next;
		if (objects)
			objects[i] = next + 16;
	}
	put(at, head);
	put(head + 8, at);
}

static void collector(unsigned int n, uint64_t *objects)
{
	unsigned int i;

	runtime = room(256);
	interp = room(4096);
	put(runtime + h.layout.interp_head, interp);
	heads = interp + 1024;
	for (i = 0; i < 3; i++)
		chain(heads + i * 24, i == 2 ? n : i, i == 2 ? objects : NULL);
	put(heads + 72, heads);
	chain(heads + 80, 0, NULL);
}

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
	return gc__each(&h, &g, 100000, on_object, NULL, &n, torn);
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
	cr_expect_eq(gc__each(&h, &g, 500, on_object, NULL, &n, &torn), -E2BIG);
	cr_expect_eq(n, 500);
}
