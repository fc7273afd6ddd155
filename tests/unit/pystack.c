// SPDX-License-Identifier: Apache-2.0
/* Walking and naming Python frames over a memory that is made here, whole or hostile. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbol/python.h"

/* A memory of one arena at an address of its own. */
#define BASE 0x10000000ULL
#define SIZE 65536

static uint8_t arena[SIZE];
static uint64_t hole; /* this page cannot be read */
static unsigned int reads;
static struct py_layout layout;
static struct mt_py_offsets o;
static struct mt_py_stack s;

static int read_arena(void *ctx, uint64_t addr, void *buf, size_t n)
{
	reads++;
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
}

static void put32(uint64_t addr, uint32_t v)
{
	memcpy(arena + (addr - BASE), &v, sizeof(v));
}

static void put_text(uint64_t addr, const char *text)
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

static uint64_t type_named(const char *name)
{
	static const char *const names[] = { "code", "str", "bytes", "object" };
	size_t i;

	for (i = 0; strcmp(names[i], name) != 0; i++)
		;
	put(TYPES + i * 64 + 24, TYPES + i * 64 + 32);
	put_text(TYPES + i * 64 + 32, name);
	return TYPES + i * 64;
}

static uint64_t str(uint64_t at, const char *text)
{
	put(at, 1);
	put(at + 8, type_named("str"));
	put(at + 16, strlen(text));
	put(at + 24, 0x1234567890 + strlen(text) * 1000 + (uint64_t)text[0]);
	put32(at + 32, 1 | 1 << 2 | 1 << 5 | 1 << 6); /* interned, one byte, compact, ASCII */
	put_text(at + layout.str_ascii, text);
	return at;
}

static uint64_t bytes(uint64_t at, const void *data, size_t n)
{
	put(at, 1);
	put(at + 8, type_named("bytes"));
	put(at + 16, n);
	memcpy(arena + (at + 32 - BASE), data, n);
	return at;
}

/* Code number i: a function of one line. */
static uint64_t code(unsigned int i, const char *name, int first)
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
static uint64_t frame(unsigned int i, uint64_t of, uint64_t prev, uint8_t owner)
{
	uint64_t at = FRAMES + i * 128;

	put(at + layout.frame_code, of);
	put(at + layout.frame_prev, prev);
	put(at + layout.frame_instr, of + layout.code_start + 4);
	arena[at + layout.frame_owner - BASE] = owner;
	return at;
}

/* One thread of 3.12, its state in a slot 0x50 behind its own address. */
static void setup(void)
{
	memset(arena, 0, sizeof(arena));
	hole = 0;
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

static void walk(uint32_t max)
{
	memset(&s, 0xee, sizeof(s));
	py_walk__memory(&mem, &o, SELF, 77, max, &s);
}

TestSuite(pystack, .init = setup);

Test(pystack, frames_without_shims)
{
	uint64_t a = code(0, "outer", 10), b = code(1, "inner", 20);
	uint64_t shim = frame(1, code(2, "shim", 1), frame(0, a, 0, 0), 3);

	put(CFRAME, frame(3, b, frame(2, a, shim, 1), 0));
	walk(100);
	cr_assert_eq(s.why, MT_PY_OK);
	cr_assert_eq(s.n, 3);
	cr_assert_eq(s.thread, THREAD);
	cr_assert_eq(s.frame[0].code, b);
	cr_assert_eq(s.frame[0].at, 4);
	cr_assert_neq(s.frame[0].check, 0);
	cr_assert_eq(s.frame[1].code, a);
	cr_assert_eq(s.frame[2].code, a);
	cr_assert(memcmp(&s.frame[1], &s.frame[2], sizeof(s.frame[1])) == 0);
}

Test(pystack, tagged_references_and_none)
{
	uint64_t a = code(0, "f", 1), none = BASE + 0x900;

	o.tag = 3;
	o.none = none;
	put(CFRAME, frame(2, a | 1, frame(1, none, frame(0, a, 0, 0), 0), 0));
	walk(100);
	cr_assert_eq(s.n, 2);
	cr_assert_eq(s.frame[0].code, a);
}

/* From 3.14 on each thread of a free-threaded build has a copy of the code of its own. */
Test(pystack, copies_of_the_code)
{
	uint64_t a = code(0, "f", 1), copies = BASE + 0x900, copy = BASE + 0xa000, at;

	layout.frame_tlbc = 64;
	layout.code_tlbc = 400;
	cr_assert(py_layout__offsets(&layout, RUNTIME, &o));
	o.why = MT_PY_OK;
	o.find = MT_PY_FIND_SLOT;
	o.slot = 0x50;
	put(a + 400, copies);
	put(copies, 3);
	put(copies + 8, a + layout.code_start);
	put(copies + 8 + 16, copy);
	at = frame(1, a, frame(0, a, 0, 0), 0);
	put32(at + 64, 2);
	put(at + layout.frame_instr, copy + 30);
	put(CFRAME, at);
	walk(100);
	cr_assert_eq(s.n, 2);
	cr_assert_eq(s.frame[0].at, 30);
	cr_assert_eq(s.frame[1].at, 4);
}

Test(pystack, too_deep_and_cut)
{
	uint64_t a = code(0, "f", 1), first = FRAMES;

	put(CFRAME, frame(0, a, first, 0)); /* its own caller */
	walk(MT_PY_DEPTH);
	cr_assert_eq(s.why, MT_PY_TOO_DEEP);
	cr_assert_eq(s.n, MT_PY_DEPTH);
	cr_assert_eq(s.next, first);
	walk(5);
	cr_assert_eq(s.why, MT_PY_TOO_DEEP);
	cr_assert_eq(s.n, 5);
	walk(UINT32_MAX);
	cr_assert_eq(s.n, MT_PY_DEPTH);
	/* Shims without an end. */
	frame(0, a, first, 3);
	reads = 0;
	walk(MT_PY_DEPTH);
	cr_assert_eq(s.why, MT_PY_TOO_DEEP);
	cr_assert_eq(s.n, 0);
	cr_assert_lt(reads, 2 * MT_PY_STEPS);
}

Test(pystack, page_that_is_not_there)
{
	uint64_t a = code(0, "f", 1), lost = BASE + 0xf000;

	put(CFRAME, frame(1, a, frame(0, a, lost, 0), 0));
	hole = lost;
	walk(100);
	cr_assert_eq(s.why, MT_PY_UNREADABLE);
	cr_assert_eq(s.n, 2);
	cr_assert_eq(s.next, lost);
	/* Of a code object: the frame is kept, unchecked. */
	frame(0, lost, 0, 0);
	walk(100);
	cr_assert_eq(s.why, MT_PY_OK);
	cr_assert_eq(s.n, 2);
	cr_assert_eq(s.frame[1].check, 0);
	cr_assert_eq(s.frame[1].code, lost);
}

Test(pystack, whose_thread)
{
	put(CFRAME, frame(0, code(0, "f", 1), 0, 0));
	put(THREAD + layout.thread_id, SELF + 8);
	walk(100);
	cr_assert_eq(s.why, MT_PY_OTHER_THREAD);
	cr_assert_eq(s.n, 0);
	put(SELF + 0x50, 0);
	walk(100);
	cr_assert_eq(s.why, MT_PY_NO_THREAD);
	setup();
	walk(100);
	cr_assert_eq(s.why, MT_PY_NO_FRAMES);
	/* A block that the slot leads to: keys from 32 on. */
	put(CFRAME, frame(0, code(0, "f", 1), 0, 0));
	o.find = MT_PY_FIND_BLOCK;
	o.block = 24;
	put(SELF + 0x50, SELF + 0x80);
	put(SELF + 0x80 + 24, THREAD);
	walk(100);
	cr_assert_eq(s.why, MT_PY_OK);
	cr_assert_eq(s.n, 1);
	o.why = MT_PY_UNKNOWN_VERSION;
	walk(100);
	cr_assert_eq(s.why, MT_PY_UNKNOWN_VERSION);
	cr_assert_eq(s.n, 0);
}

Test(pystack, thread_in_the_lists)
{
	const uint64_t interp2 = BASE + 0x500, other = BASE + 0x580;

	put(CFRAME, frame(0, code(0, "f", 1), 0, 0));
	o.find = MT_PY_FIND_LIST;
	put(RUNTIME + layout.interp_head, interp2);
	put(interp2 + layout.interp_next, INTERP);
	put(interp2 + layout.threads_head, other);
	put(other + layout.native_id, 78);
	walk(100);
	cr_assert_eq(s.why, MT_PY_OK);
	cr_assert_eq(s.n, 1);
	/* Releases without that number go by the thread's own address. */
	o.native_id = 0;
	walk(100);
	cr_assert_eq(s.n, 1);
	put(THREAD + layout.thread_id, 1);
	walk(100);
	cr_assert_eq(s.why, MT_PY_NO_THREAD);
	put(other + layout.thread_next, other);
	walk(100);
	cr_assert_eq(s.why, MT_PY_MANY_THREADS);
}

/* ---- layout ---- */

Test(pystack, releases_of_the_table)
{
	unsigned int minor;

	for (minor = 0; minor < 20; minor++) {
		int err = py_layout__table(minor, EM_AARCH64, &layout);

		cr_assert_eq(err, minor >= 8 && minor <= 12 ? 0 : -ENOTSUP);
		cr_assert(err || py_layout__offsets(&layout, RUNTIME, &o));
	}
	cr_assert_eq(py_layout__table(11, EM_RISCV, &layout), -ENOTSUP);
}

Test(pystack, descriptions_that_are_none)
{
	uint64_t w[PY_DEBUG_OFFSETS_SIZE / 8] = { 0 };
	uint8_t *p = (uint8_t *)w;
	size_t i;

	cr_assert_eq(py_layout__described(p, sizeof(w), &layout), -ENOENT);
	memcpy(w, "xdebugpy", 8);
	cr_assert_eq(py_layout__described(p, 100, &layout), -ENOENT);
	w[1] = 0x031000f0;
	cr_assert_eq(py_layout__described(p, sizeof(w), &layout), -ENOTSUP);
	w[1] = 0x030d00f0;
	for (i = 2; i < MT_ARRAY_SIZE(w); i++)
		w[i] = UINT64_MAX;
	cr_assert_eq(py_layout__described(p, sizeof(w), &layout), -EINVAL);
	/* Members of one object that lie too far from each other. */
	for (i = 2; i < MT_ARRAY_SIZE(w); i++)
		w[i] = i * 100;
	cr_assert_eq(py_layout__described(p, sizeof(w), &layout), 0);
	cr_assert_not(py_layout__offsets(&layout, RUNTIME, &o));
}

/* ---- texts ---- */

static const char *text_of(uint64_t at, size_t max, int expect)
{
	static struct strbuf sb;

	strbuf__reset(&sb);
	cr_assert_eq(py_object__str(&mem, &layout, at, &sb, max), expect);
	strbuf__add(&sb, "", 1);
	return sb.data;
}

static void wide(uint64_t at, unsigned int kind, const uint32_t *chars, size_t n, uint32_t state)
{
	size_t i;

	str(at, "");
	put(at + 16, n);
	put32(at + 32, state);
	for (i = 0; i < n; i++)
		memcpy(arena + (at + layout.str_compact + i * kind - BASE), &chars[i], kind);
}

Test(pystack, texts)
{
	static const uint32_t latin[] = { 0xe9, 't', 0xe9 }, cyrillic[] = { 0x444, 'x' };
	static const uint32_t astral[] = { 0x10330, 0x1f600 }, odd[] = { 0xdc80, '\n', 0x7f };
	uint64_t at = TEXTS;

	cr_assert_str_eq(text_of(str(at, "name"), 100, 0), "name");
	cr_assert_str_eq(text_of(at, 6, -ENAMETOOLONG), "nam");
	wide(at, 1, latin, 3, 1 << 2 | 1 << 5);
	cr_assert_str_eq(text_of(at, 100, 0), "\u00e9t\u00e9");
	wide(at, 2, cyrillic, 2, 2 << 2 | 1 << 5);
	cr_assert_str_eq(text_of(at, 100, 0), "\u0444x");
	wide(at, 4, astral, 2, 2 | 4 << 2 | 1 << 5);
	cr_assert_str_eq(text_of(at, 100, 0), "\U00010330\U0001f600");
	/* The bits of 3.14.0, and of free-threaded builds. */
	wide(at, 4, astral, 2, 1 | 4 << 16 | 1 << 19);
	cr_assert_str_eq(text_of(at, 100, 0), "\U00010330\U0001f600");
	wide(at, 2, cyrillic, 2, 1 | 2 << 8 | 1 << 11);
	cr_assert_str_eq(text_of(at, 100, 0), "\u0444x");
	wide(at, 2, odd, 3, 2 << 2 | 1 << 5);
	cr_assert_str_eq(text_of(at, 100, 0), "\ufffd??");
}

Test(pystack, texts_that_are_none)
{
	uint64_t at = str(TEXTS, "name");

	put32(at + 32, 0);
	text_of(at, 100, -EINVAL); /* no kind */
	put32(at + 32, 1 << 2);
	text_of(at, 100, -EINVAL); /* not of one piece */
	str(at, "name");
	put(at + 16, UINT64_MAX);
	text_of(at, 100, -EINVAL);
	put(at + 16, 1 << 20);
	text_of(at, 1 << 20, -EFAULT);
	put(at + 8, type_named("object"));
	text_of(at, 100, -EINVAL);
	str(at, "name");
	put(at, 0x00007f0012345678); /* freed: the next of a list */
	text_of(at, 100, -ENOENT);
	text_of(12345, 100, -EFAULT);
}

/* ---- names ---- */

static struct python *interpreter(void)
{
	struct python *py = calloc(1, sizeof(*py));

	cr_assert(py);
	py_process__open(&py->proc, 0);
	py->mem = &mem;
	py->layout = layout;
	py->offsets = o;
	return py;
}

static void frame_of(uint64_t code_at, struct mt_py_frame *f)
{
	put(CFRAME, frame(0, code_at, 0, 0));
	walk(1);
	cr_assert_eq(s.n, 1);
	*f = s.frame[0];
}

Test(pystack, names_are_read_once)
{
	struct python *py = interpreter();
	struct python_name name;
	struct mt_py_frame f;
	struct strbuf sb = { 0 };

	frame_of(code(0, "func", 42), &f);
	cr_assert_eq(python__name(py, &f, &name), MT_PY_OK);
	cr_assert_str_eq(name.name, "func");
	cr_assert_str_eq(name.qualname, "Class.qualified");
	cr_assert_str_eq(name.file, "file.py");
	cr_assert_eq(name.line, 42); /* of `def`: the table has no line for it */
	reads = 0;
	cr_assert_eq(python__name(py, &f, &name), MT_PY_OK);
	cr_assert_lt(reads, 5);
	cr_assert_eq(python__counts(py).hits, 1);
	cr_assert_eq(python__counts(py).reads, 1);
	python__cell(py, &s, 10, &sb);
	cr_assert_str_eq(sb.data, "file.py(42): func\n");
	s.n = 0;
	strbuf__reset(&sb);
	python__cell(py, &s, 10, &sb);
	cr_assert_str_eq(sb.data, "NA");
	strbuf__free(&sb);
	/* It has gone, and what is in its place now: what is remembered is it still. */
	memset(arena + (f.code - BASE), 0, 256);
	cr_assert_eq(python__name(py, &f, &name), MT_PY_OK);
	cr_assert_str_eq(name.name, "func");
	hole = CODES;
	cr_assert_eq(python__name(py, &f, &name), MT_PY_OK);
	python__close(py);
}

Test(pystack, other_code_at_the_same_address)
{
	struct python *py = interpreter();
	struct mt_py_frame f, g;
	struct python_name name;

	frame_of(code(0, "before", 42), &f);
	cr_assert_eq(python__name(py, &f, &name), MT_PY_OK);
	cr_assert_str_eq(name.name, "before");
	/* All addresses and the line are the same: the text's own hash is not. */
	frame_of(code(0, "behind", 42), &g);
	put(TEXTS + 24, 99);
	cr_assert_eq(f.check, g.check);
	cr_assert_eq(python__name(py, &g, &name), MT_PY_OK);
	cr_assert_str_eq(name.name, "behind");
	cr_assert_eq(python__counts(py).replaced, 1);
	/* Another line tells them apart already in the kernel: the one seen before is remembered.
	 */
	frame_of(code(0, "later", 43), &f);
	cr_assert_neq(f.check, g.check);
	cr_assert_eq(python__name(py, &f, &name), MT_PY_OK);
	cr_assert_str_eq(name.name, "later");
	cr_assert_eq(python__name(py, &g, &name), MT_PY_OK);
	cr_assert_str_eq(name.name, "behind");
	python__close(py);
}

Test(pystack, frames_without_a_name)
{
	struct python *py = interpreter();
	const uint64_t *why = python__counts(py).why;
	struct python_name name;
	struct mt_py_frame f;
	uint64_t at = code(0, "func", 42);

	cr_assert_eq(why[MT_PY_CODE_GONE], 0);
	frame_of(at, &f);
	put32(at + layout.code_first, 43); /* another one by now */
	cr_assert_eq(python__name(py, &f, &name), MT_PY_CODE_GONE);
	frame_of(at, &f);
	put(at, 0x00007f0012345678); /* freed */
	cr_assert_eq(python__name(py, &f, &name), MT_PY_CODE_GONE);
	put(at, 1);
	put(at + 8, type_named("object"));
	cr_assert_eq(python__name(py, &f, &name), MT_PY_NOT_CODE);
	code(0, "func", 43);
	put(TEXTS, 0); /* its name was freed: it is just going */
	cr_assert_eq(python__name(py, &f, &name), MT_PY_CODE_GONE);
	put(TEXTS, 1);
	put(TEXTS + 8, type_named("object"));
	cr_assert_eq(python__name(py, &f, &name), MT_PY_BAD_CODE);
	why = python__counts(py).why;
	cr_assert_eq(why[MT_PY_CODE_GONE], 3);
	cr_assert_eq(why[MT_PY_NOT_CODE], 1);
	cr_assert_eq(why[MT_PY_BAD_CODE], 1);
	f.code = 8;
	cr_assert_eq(python__name(py, &f, &name), MT_PY_CODE_GONE);
	python__close(py);
}

Test(pystack, line_table_that_is_none)
{
	struct python *py = interpreter();
	struct strbuf sb = { 0 };
	struct python_name name;
	struct mt_py_frame f;

	code(0, "func", 42);
	put(TEXTS + 384 + 16, UINT64_MAX); /* its size */
	frame_of(CODES, &f);
	cr_assert_eq(python__name(py, &f, &name), MT_PY_OK);
	cr_assert_eq(name.line, 0);
	cr_assert_eq(python__counts(py).why[MT_PY_BAD_CODE], 1);
	python__cell(py, &s, 10, &sb);
	cr_assert_str_eq(sb.data, "file.py(NA): func\n");
	strbuf__free(&sb);
	python__close(py);
}

/* ---- where threads keep their state ---- */

/* The search over one thread, in this program's own kind of file. */
static void find_slot(int expect)
{
	struct python *py = interpreter();
	const struct py_thread_state t = { .addr = THREAD, .id = SELF };
	struct elf_image *img;

	cr_assert_eq(elf_image__open("/proc/self/exe", &img), 0);
	py->proc.pid = getpid();
	cr_assert_eq(py_slot__find(py, img, 0, &t, 1), expect);
	o.find = py->offsets.find;
	o.slot = py->offsets.slot - py->offsets.self;
	o.block = py->offsets.block;
	elf_image__close(img);
	python__close(py);
}

/* As glibc has it: 32 pairs, then pointers to such, the first to them. */
#define PAIRS (SELF + 0x40)

Test(pystack, key_of_glibc)
{
	put(SELF + 0x50, 0);
	put(PAIRS + 512, PAIRS);
	put(PAIRS + 16 * 5 + 8, THREAD);
	put(SELF + 0x18, THREAD); /* the same by chance, not among the pairs */
	find_slot(0);
	cr_assert_eq(o.find, MT_PY_FIND_SLOT);
	cr_assert_eq(o.slot, 0x40 + 16 * 5 + 8);
}

Test(pystack, later_key_of_glibc)
{
	const uint64_t block = BASE + 0x2000;

	put(SELF + 0x50, 0);
	put(PAIRS + 512, PAIRS);
	put(PAIRS + 512 + 8 * 3, block);
	put(block + 16 * 7 + 8, THREAD);
	find_slot(0);
	cr_assert_eq(o.find, MT_PY_FIND_BLOCK);
	cr_assert_eq(o.slot, 0x40 + 512 + 8 * 3);
	cr_assert_eq(o.block, 16 * 7 + 8);
}

Test(pystack, key_of_musl)
{
	const uint64_t block = BASE + 0x2000;

	put(SELF + 0x50, 0);
	put(SELF + 0x80, block);
	put(block + 8 * 4, THREAD);
	find_slot(0);
	cr_assert_eq(o.find, MT_PY_FIND_BLOCK);
	cr_assert_eq(o.slot, 0x80);
	cr_assert_eq(o.block, 8 * 4);
}

Test(pystack, no_key_to_be_found)
{
	put(SELF + 0x50, 0);
	find_slot(-ENOENT);
	cr_assert_eq(o.find, MT_PY_FIND_LIST);
	/* A pair that holds something else. */
	put(PAIRS + 512, PAIRS);
	put(PAIRS + 16 * 5 + 8, CFRAME);
	find_slot(-ENOENT);
}

/* ---- code that tells where a thread's state is ---- */

Test(pystack, self_of_aarch64)
{
	static const uint32_t glibc[] = { 0xd53bd040, 0xd11d0000, 0xd65f03c0 }; /* sub #0x740 */
	static const uint32_t bti[] = { 0xd503245f, 0xd53bd040, 0xd1400400, 0xd1032000,
					0xd65f03c0 };
	static const uint32_t other[] = { 0xd53bd040, 0xf9400000, 0xd65f03c0 };
	int32_t self = 0;

	cr_assert_eq(py_slot__self_a64((const uint8_t *)glibc, sizeof(glibc), &self), 0);
	cr_assert_eq(self, -0x740);
	cr_assert_eq(py_slot__self_a64((const uint8_t *)bti, sizeof(bti), &self), 0);
	cr_assert_eq(self, -0x1000 - 0xc8);
	cr_assert_eq(py_slot__self_a64((const uint8_t *)other, sizeof(other), &self), -EINVAL);
	cr_assert_eq(py_slot__self_a64((const uint8_t *)glibc, 8, &self), -EINVAL);
}

Test(pystack, variable_of_a_thread)
{
	static const uint8_t x86[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x64, 0x48, 0x8b,
				       0x04, 0x25, 0xd8, 0xff, 0xff, 0xff, 0xc3 };
	static const uint8_t call[] = { 0x66, 0x48, 0x8d, 0x3d, 0,    0, 0,
					0,    0x66, 0x66, 0x48, 0xe8, 0, 0 };
	static const uint32_t a64[] = { 0xd53bd040, 0x91400000, 0x91006000, 0xf9400400,
					0xd65f03c0 };
	int32_t off = 0;

	cr_assert_eq(py_slot__tls(EM_X86_64, x86, sizeof(x86), &off), 0);
	cr_assert_eq(off, -0x28);
	cr_assert_eq(py_slot__tls(EM_X86_64, call, sizeof(call), &off), -EINVAL);
	cr_assert_eq(py_slot__tls(EM_X86_64, x86, 8, &off), -EINVAL);
	cr_assert_eq(py_slot__tls(EM_AARCH64, (const uint8_t *)a64, sizeof(a64), &off), 0);
	cr_assert_eq(off, 0x18 + 8);
}
