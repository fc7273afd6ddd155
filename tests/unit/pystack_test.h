/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of CPython 3.12 in a memory that a test makes: for pystack.c and pyname.c. */
#ifndef PYSTACK_TEST_H
#define PYSTACK_TEST_H

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/python.h"

/* A memory of one arena at an address of its own. */
#define BASE 0x10000000ULL
#define SIZE 65536

static uint8_t arena[SIZE];
static uint64_t hole; /* this page cannot be read */
static unsigned int reads;
static void (*before_read)(void); /* what the program does meanwhile */
static struct py_layout layout;
static struct mt_py_offsets o;
static struct mt_py_stack s;

static inline int read_arena(void *ctx, uint64_t addr, void *buf, size_t n)
{
	reads++;
	if (before_read)
		before_read();
	if (addr < BASE || addr - BASE > SIZE || SIZE - (addr - BASE) < n)
		return -EFAULT;
	if (hole && addr + n > hole && addr < hole + 4096)
		return -EFAULT;
	memcpy(buf, arena + (addr - BASE), n);
	return 0;
}

static const struct py_mem mem = { read_arena, NULL };

static inline void put(uint64_t addr, uint64_t v)
{
	memcpy(arena + (addr - BASE), &v, sizeof(v));
}

static inline void put32(uint64_t addr, uint32_t v)
{
	memcpy(arena + (addr - BASE), &v, sizeof(v));
}

static inline void put_text(uint64_t addr, const char *text)
{
	memcpy(arena + (addr - BASE), text, strlen(text) + 1);
}

/* Where things are. */
#define RUNTIME BASE
#define INTERP (BASE + 0x100)
#define THREAD (BASE + 0x200)
#define CFRAME (BASE + 0x300)
#define SELF (BASE + 0x400)
#define TYPES (BASE + 0x600)
#define FRAMES (BASE + 0x1000)
#define CODES (BASE + 0x4000)
#define TEXTS (BASE + 0x8000)

static inline uint64_t type_named(const char *name)
{
	static const char *const names[] = { "code", "str", "bytes", "object" };
	size_t i;

	for (i = 0; strcmp(names[i], name) != 0; i++)
		;
	put(TYPES + i * 64 + 24, TYPES + i * 64 + 32);
	put_text(TYPES + i * 64 + 32, name);
	return TYPES + i * 64;
}

static inline uint64_t str(uint64_t at, const char *text)
{
	put(at, 1);
	put(at + 8, type_named("str"));
	put(at + 16, strlen(text));
	put(at + 24, 0x1234567890 + strlen(text) * 1000 + (uint64_t)text[0]);
	put32(at + 32, 1 | 1 << 2 | 1 << 5 | 1 << 6); /* interned, one byte, compact, ASCII */
	put_text(at + layout.str_ascii, text);
	return at;
}

static inline uint64_t bytes(uint64_t at, const void *data, size_t n)
{
	put(at, 1);
	put(at + 8, type_named("bytes"));
	put(at + 16, n);
	memcpy(arena + (at + 32 - BASE), data, n);
	return at;
}

/* Code number i: a function of one line. */
static inline uint64_t code(unsigned int i, const char *name, int first)
{
	static const uint8_t one_line[] = { 0xff, 0x00, 0x00, 0xff, 0x00, 0x00 };
	uint64_t at = CODES + i * 512, text = TEXTS + i * 512;

	put(at, 2);
	put(at + 8, type_named("code"));
	put(at + layout.code_name, str(text, name));
	put(at + layout.code_file, str(text + 128, "file.py"));
	if (layout.code_qualname != PY_NO_OFFSET)
		put(at + layout.code_qualname, str(text + 256, "Class.qualified"));
	put(at + layout.code_table, bytes(text + 384, one_line, sizeof(one_line)));
	put32(at + layout.code_first, (uint32_t)first);
	return at;
}

/* Frame number i of 3.12. */
static inline uint64_t frame(unsigned int i, uint64_t of, uint64_t prev, uint8_t owner)
{
	uint64_t at = FRAMES + i * 128;

	put(at + layout.frame_code, of);
	put(at + layout.frame_prev, prev);
	put(at + layout.frame_instr, of + layout.code_start + 4);
	arena[at + layout.frame_owner - BASE] = owner;
	return at;
}

/* One thread of 3.12, its state in a slot 0x50 behind its own address. */
static inline void setup(void)
{
	memset(arena, 0, sizeof(arena));
	hole = 0;
	before_read = NULL;
	cr_assert_eq(py_layout__table(12, EM_X86_64, &layout), 0);
	cr_assert(py_layout__offsets(&layout, RUNTIME, &o));
	o.why = MT_PY_OK;
	o.find = MT_PY_FIND_SLOT;
	o.slot = 0x50;
	put(RUNTIME + layout.interp_head, INTERP);
	put(INTERP + layout.threads_head, THREAD);
	put(THREAD + layout.thread_id, SELF);
	put(THREAD + layout.native_id, 77);
	put(THREAD + layout.frame, CFRAME);
	put(SELF + 0x50, THREAD);
}

static inline void walk(uint32_t max)
{
	memset(&s, 0xee, sizeof(s));
	py_walk__memory(&mem, &o, SELF, 77, max, &s);
}

static inline struct python *interpreter(void)
{
	struct python *py = calloc(1, sizeof(*py));

	cr_assert(py);
	py_process__open(&py->proc, 0);
	py->mem = &mem;
	py->layout = layout;
	py->offsets = o;
	return py;
}

#endif
