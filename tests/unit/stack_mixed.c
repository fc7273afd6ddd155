// SPDX-License-Identifier: Apache-2.0
/* C and Python frames in one cell, over stacks that are made here; the loop of real interpreters.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "probe/elf.h"
#include "symbol/python.h"
#include "symbol/stacks_internal.h"

#define BIAS 0x10000ULL
#define LOOP 0x1000ULL /* in the file, to 0x2000; a piece of it from 0x8000 to 0x8100 */

static struct stacks s;
static struct sproc p;
static struct python py;
static struct mt_uw_map map = { .start = BIAS, .end = BIAS + 0x10000, .bias = BIAS, .file = 1 };

static void setup(void)
{
	memset(&s, 0, sizeof(s));
	s.store.max_bytes = 1 << 20;
	py.loop = (struct py_loop){
		2, { { BIAS + LOOP, BIAS + 0x2000 }, { BIAS + 0x8000, BIAS + 0x8100 } }
	};
	p.py = &py;
	p.maps = &map;
	p.n_maps = 1;
}

static void fini(void)
{
	stack_store__free(&s.store);
	strbuf__free(&s.sb);
}

TestSuite(stack_mixed, .init = setup, .fini = fini);

/* "x" code, "L" the loop, "l" its split piece. */
static struct kept *c_stack(const char *what, unsigned int end)
{
	static uint64_t hash[2];
	uint32_t n = (uint32_t)strlen(what), i;
	struct kept *k;
	int err;

	hash[0]++;
	k = stack_store__add(&s.store, hash, false, n, &err);
	cr_assert(k);
	k->end = (uint8_t)end;
	for (i = 0; i < n; i++)
		k->frames[i] = 1ULL << MT_FRAME_FILE_SHIFT | (what[i] == 'L'   ? LOOP + 0x10 * i + 1
							      : what[i] == 'l' ? 0x8100
									       : 0x3000 + 0x10 * i);
	return k;
}

/* "a" to "z" functions, "|" a new activation. */
static struct kept *py_stack(const char *what, unsigned int why)
{
	static uint64_t hash[2];
	uint32_t n = 0, i;
	uint8_t begins = 0;
	const char *c;
	struct kept *k;
	int err;

	for (c = what; *c; c++)
		n += *c != '|';
	hash[0]++;
	k = stack_store__add(&s.store, hash, true, n, &err);
	cr_assert(k);
	k->end = (uint8_t)why;
	for (c = what, i = 0; *c; c++) {
		if (*c == '|') {
			begins++;
			continue;
		}
		kept__begins(k)[i] = begins;
		k->lines[i++] = stack_store__line(&s.store, c, 1);
		begins = 0;
	}
	k->begins = begins;
	return k;
}

/* The cell with frames of C as their letters, "." for ends of lines. */
static const char *shown(const struct kept *c, const struct kept *python, enum stack_merge want)
{
	static char out[512];
	char *to = out, *at, *save = NULL;
	bool replaced;
	size_t i = 0;

	strbuf__reset(&s.sb);
	cr_expect_eq(stack_mixed__cell(&s, &p, 0, c, python, &replaced, &s.sb), want);
	cr_expect(!replaced);
	strbuf__add(&s.sb, "", 1);
	for (at = strtok_r(s.sb.data, "\n", &save); at; at = strtok_r(NULL, "\n", &save)) {
		uint64_t addr;

		if (sscanf(at, "[0x%lx]", &addr) != 1) {
			to += sprintf(to, "%s.", at);
			continue;
		}
		addr &= MT_FRAME_ADDR;
		for (i = 0; i < c->n && (c->frames[i] & MT_FRAME_ADDR) != addr; i++)
			;
		*to++ = addr == 0x8100 ? 'l' : addr >= LOOP && addr < 0x2000 ? 'L' : 'x';
		*to++ = '.';
	}
	*to = '\0';
	return out;
}

#define CELL(c, end, python, why, want, text) \
	cr_expect_str_eq(shown(c_stack(c, end), python ? py_stack(python, why) : NULL, want), text)

Test(stack_mixed, each_frame_a_call)
{
	CELL("xLxLx", MT_END_ROOT, "a|b|", MT_PY_OK, STACK_MERGED, "x.a.x.b.x.");
	CELL("xLLx", MT_END_ROOT, "a|b|", MT_PY_OK, STACK_MERGED, "x.a.b.x.");
	/* What the compiler has split off is the same call. */
	CELL("xlxLx", MT_END_ROOT, "a|b|", MT_PY_OK, STACK_MERGED, "x.a.x.b.x.");
}

Test(stack_mixed, several_frames_a_call)
{
	CELL("xLxLx", MT_END_ROOT, "ab|cde|", MT_PY_OK, STACK_MERGED, "x.a.b.x.c.d.e.x.");
}

/* From 3.12 on: the innermost, one in the middle, several. */
Test(stack_mixed, calls_that_run_nothing)
{
	CELL("xLxLx", MT_END_ROOT, "|a|", MT_PY_OK, STACK_MERGED, "x.L.x.a.x.");
	CELL("LLL", MT_END_ROOT, "a||b|", MT_PY_OK, STACK_MERGED, "a.L.b.");
	CELL("LLLLx", MT_END_ROOT, "||a||", MT_PY_OK, STACK_MERGED, "L.L.a.L.x.");
}

Test(stack_mixed, without_python)
{
	CELL("xx", MT_END_ROOT, NULL, 0, STACK_NO_PYTHON, "x.x.");
	CELL("xLx", MT_END_ROOT, NULL, 0, STACK_NO_FRAMES,
	     "x.L.x.(not merged: the evaluation loop, but no Python stack).");
	py.loop.n = 0;
	CELL("xLx", MT_END_ROOT, "a|", MT_PY_OK, STACK_NO_LOOP,
	     "x.L.x.(not merged: the evaluation loop is not found in the interpreter's file).");
}

Test(stack_mixed, numbers_that_differ)
{
	static const char why[] =
		"(not merged: C and Python differ in the calls of the evaluation loop, ";
	char want[256];

	snprintf(want, sizeof(want), "x.L.x.%s1 and 2).", why);
	CELL("xLx", MT_END_ROOT, "a|b|", MT_PY_OK, STACK_DIFFER, want);
	snprintf(want, sizeof(want), "L.L.%s2 and 1).", why);
	CELL("LL", MT_END_ROOT, "ab|", MT_PY_OK, STACK_DIFFER, want);
	/* More calls in C than Python has begun cannot be, however the C stack is cut. */
	snprintf(want, sizeof(want), "L.L.(cut: stack that cannot be read).%s2 and 1).", why);
	CELL("LL", MT_END_FAULT, "ab|", MT_PY_OK, STACK_DIFFER, want);
	snprintf(want, sizeof(want), "L.%s1 and 2).", why);
	CELL("L", MT_END_ROOT, "a|b", MT_PY_TOO_DEEP, STACK_DIFFER, want);
}

Test(stack_mixed, cut_stacks)
{
	CELL("xLx", MT_END_FAULT, "a|b|c|", MT_PY_OK, STACK_MERGED,
	     "x.a.x.(cut: stack that cannot be read).");
	CELL("LLL", MT_END_ROOT, "a|b|", MT_PY_TOO_DEEP, STACK_MERGED,
	     "a.b.(Python cut: too deep).L.");
	CELL("LLL", MT_END_ROOT, "a|b", MT_PY_TOO_DEEP, STACK_MERGED,
	     "a.b.(Python cut: too deep).L.");
	CELL("Lx", MT_END_FAULT, "a|b|", MT_PY_UNREADABLE, STACK_MERGED,
	     "a.x.(cut: stack that cannot be read).");
}

Test(stack_mixed, depth_counts_all_frames)
{
	s.opts.c_depth = 3;
	CELL("xLxLx", MT_END_ROOT, "ab|cde|", MT_PY_OK, STACK_MERGED, "x.a.b.");
	CELL("xLxLx", MT_END_FAULT, "ab|cde|", MT_PY_OK, STACK_MERGED, "x.a.b.");
	s.opts.c_depth = 1;
	CELL("Lx", MT_END_ROOT, "ab|", MT_PY_OK, STACK_MERGED, "a.");
}

/* ---- the evaluation loop in files ---- */

#define COLD "_PyEval_EvalFrameDefault.cold"

static void loop_of(const char *path, struct py_loop *l, struct py_loop_part *cold)
{
	struct elf_image *img;
	uint64_t vaddr, size;

	cr_assert_eq(elf_image__open(path, &img), 0, "%s", path);
	py_loop__find(img, BIAS, l);
	*cold = (struct py_loop_part){ 0 };
	if (!elf_image__symbol(img, COLD, &vaddr, &size))
		*cold = (struct py_loop_part){ vaddr + BIAS, vaddr + BIAS + size };
	elf_image__close(img);
}

/* One with both parts, which says so by its names: the piece is found without them too. */
Test(stack_mixed, loop_of_a_file)
{
	char dir[] = "/tmp/memtap-loop-XXXXXX", path[64], command[256];
	struct py_loop named, bare;
	struct py_loop_part cold, none;

	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/named.so", dir);
	loop_of(PYLOOP, &named, &cold);
	cr_assert_neq(cold.start, 0, "the compiler has split nothing off");
	cr_assert_eq(named.n, 2);
	cr_assert(py_loop__has(&named, cold.start) && py_loop__has(&named, cold.end - 1));
	cr_assert_not(py_loop__has(&named, cold.end + 64));
	snprintf(command, sizeof(command), "strip --strip-all -o %s %s", path, PYLOOP);
	cr_assert_eq(system(command), 0);
	loop_of(path, &bare, &none);
	cr_assert_eq(none.start, 0);
	cr_assert_eq(bare.n, 2, "%u parts", bare.n);
	cr_assert(py_loop__has(&bare, cold.start) && py_loop__has(&bare, cold.end - 1));
	unlink(path);
	rmdir(dir);
	/* No interpreter. */
	loop_of("/proc/self/exe", &bare, &none);
	cr_assert_eq(bare.n, 0);
}
