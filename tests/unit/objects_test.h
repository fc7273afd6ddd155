/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of Python, tensors and the collector's lists in a memory that is made here: for tests and fuzzing. */
#ifndef OBJECTS_TEST_H
#define OBJECTS_TEST_H

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "objects/internal.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"

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
	assert(top <= BASE + SIZE);
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
		if (py_layout__table(minor, EM_X86_64, &l))
			abort();
	} else {
		if (py_layout__table(12, EM_X86_64, &l))
			abort();
		l.version = 3u << 24 | minor << 16;
	}
	heap__free(&h);
	types__forget(&types);
	if (heap__init(&h, &mem, &l))
		abort();
	meta = 0;
	meta = type("type", TYPE_TYPE);
	put(meta + 8, meta);
	t_dict = type("dict", TYPE_DICT);
	t_list = type("list", TYPE_LIST);
	t_str = type("str", TYPE_STR);
	t_int = type("int", 0);
}

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

static uint64_t instance(uint64_t of, uint64_t d)
{
	uint64_t o = object(of, 64);

	put(of + 288, 16);
	put(o + 16, d);
	return o;
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

#pragma GCC diagnostic pop

#endif
