// SPDX-License-Identifier: Apache-2.0
/* Names of Python frames over a memory that is made here: texts, code that goes and comes. */
#include "pystack_test.h"

TestSuite(pyname, .init = setup);

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

Test(pyname, texts)
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

Test(pyname, texts_that_are_none)
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

static void frame_of(uint64_t code_at, struct mt_py_frame *f)
{
	put(CFRAME, frame(0, code_at, 0, 0));
	walk(1);
	cr_assert_eq(s.n, 1);
	*f = s.frame[0];
}

Test(pyname, names_are_read_once)
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
	cr_assert_eq(reads, 0);
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

/* Activations that begin before the frame are no part of the code's address. */
Test(pyname, frame_of_an_activation)
{
	struct python *py = interpreter();
	struct python_name name;
	struct mt_py_frame f;

	frame_of(code(0, "func", 42), &f);
	cr_assert_eq(python__name(py, &f, &name), MT_PY_OK);
	f.code |= 3ULL << MT_PY_BEGINS_SHIFT;
	cr_assert_eq(python__name(py, &f, &name), MT_PY_OK);
	cr_assert_str_eq(name.name, "func");
	cr_assert_eq(python__counts(py).reads, 1);
	python__close(py);
}

/* What cleans up behind __init__ is a frame that Python does not show; a function may have that
 * name. */
Test(pyname, frame_of_the_interpreter)
{
	struct python *py = interpreter();
	uint64_t at = code(0, "__init__", 42);
	struct python_name name;
	struct strbuf sb = { 0 };
	struct mt_py_frame f;
	uint64_t word;

	frame_of(at, &f);
	cr_assert_eq(python__name(py, &f, &name), MT_PY_OK);
	cr_assert_not(name.own);
	at = code(1, "__init__", 1);
	memcpy(&word, arena + (at + layout.code_name - BASE), sizeof(word));
	put(at + layout.code_file, word);
	put(CFRAME, frame(1, at, frame(0, code(0, "__init__", 42), 0, 0), 0));
	walk(10);
	cr_assert_eq(s.n, 2);
	cr_assert_eq(python__name(py, &s.frame[0], &name), MT_PY_OK);
	cr_assert(name.own);
	python__cell(py, &s, 10, &sb);
	cr_assert_str_eq(sb.data, "file.py(42): __init__\n");
	strbuf__free(&sb);
	python__close(py);
}

/* The layout of a release whose code objects have no number. */
static void without_numbers(void)
{
	cr_assert_eq(py_layout__table(12, EM_X86_64, &layout), 0);
	layout.code_version = PY_NO_OFFSET;
	cr_assert(py_layout__offsets(&layout, RUNTIME, &o));
	o.why = MT_PY_OK;
	o.find = MT_PY_FIND_SLOT;
	o.slot = 0x50;
}

/* f is of code that has gone, g of what is there now: never the other's name. */
static void told_apart(struct python *py, const struct mt_py_frame *f, const struct mt_py_frame *g)
{
	struct python_name name;

	cr_assert_eq(f->code, g->code);
	cr_assert_neq(f->check, g->check);
	cr_assert_eq(python__name(py, f, &name), MT_PY_CODE_GONE);
	cr_assert_eq(python__name(py, g, &name), MT_PY_OK);
	cr_assert_str_eq(name.name, "behind");
	cr_assert_eq(python__name(py, f, &name), MT_PY_CODE_GONE);
	cr_assert_eq(python__counts(py).reads, 1);
	python__close(py);
}

Test(pyname, other_code_by_its_number)
{
	struct mt_py_frame f, g;
	uint64_t at = code(0, "before", 42);

	put32(at + layout.code_version, 7);
	frame_of(at, &f);
	/* All addresses, the line, and the hashes of texts are the same. */
	code(0, "behind", 42);
	put32(at + layout.code_version, 8);
	frame_of(at, &g);
	told_apart(interpreter(), &f, &g);
}

Test(pyname, other_code_by_hashes)
{
	struct mt_py_frame f, g;

	without_numbers();
	frame_of(code(0, "before", 42), &f);
	code(0, "behind", 42);
	put(TEXTS + 24, 99);
	frame_of(CODES, &g);
	told_apart(interpreter(), &f, &g);
}

Test(pyname, other_code_by_hashes_of_files)
{
	struct mt_py_frame f, g;

	without_numbers();
	frame_of(code(0, "behind", 42), &f);
	put(TEXTS + 128 + 24, 99);
	frame_of(CODES, &g);
	told_apart(interpreter(), &f, &g);
}

Test(pyname, other_code_by_texts)
{
	struct mt_py_frame f, g;

	without_numbers();
	code(0, "before", 42);
	put(TEXTS + 24, UINT64_MAX);
	frame_of(CODES, &f);
	code(0, "behind", 42);
	put(TEXTS + 24, UINT64_MAX);
	frame_of(CODES, &g);
	told_apart(interpreter(), &f, &g);
}

/* A text that was hashed since is what it was. */
Test(pyname, texts_that_are_hashed_later)
{
	static const uint64_t texts[] = { TEXTS, TEXTS + 128 };
	struct python_name name;
	struct mt_py_frame f;
	unsigned int which, i;

	without_numbers();
	for (which = 0; which < 4; which++) {
		struct python *py = interpreter();

		code(0, "a name of more than sixty-four bytes which is not known by its beginning",
		     42);
		for (i = 0; i < 2; i++)
			if (which >> i & 1)
				put(texts[i] + 24, UINT64_MAX);
		frame_of(CODES, &f);
		for (i = 0; i < 2; i++)
			put(texts[i] + 24, 1234 + i + (which >> i & 1 ? 0 : 100));
		cr_assert_eq(python__name(py, &f, &name),
			     which == 3 ? MT_PY_OK : MT_PY_CODE_GONE, "%u", which);
		python__close(py);
	}
}

static unsigned int reads_left;

static void another_code(void)
{
	if (reads_left-- == 0) {
		code(0, "behind", 42);
		put32(CODES + layout.code_version, 8);
	}
}

/* Whenever the code goes while it is read: its name, or none. */
Test(pyname, code_that_goes_while_it_is_read)
{
	unsigned int named = 0, gone = 0, i;
	struct python_name name;
	struct mt_py_frame f;

	for (i = 0; i < 60; i++) {
		struct python *py = interpreter();
		unsigned int why;

		code(0, "before", 42);
		put32(CODES + layout.code_version, 7);
		frame_of(CODES, &f);
		reads_left = i;
		before_read = another_code;
		why = python__name(py, &f, &name);
		before_read = NULL;
		named += why == MT_PY_OK;
		gone += why == MT_PY_CODE_GONE;
		if (why == MT_PY_OK)
			cr_expect_str_eq(name.name, "before", "%s after %u reads", name.name, i);
		python__close(py);
	}
	cr_expect_eq(named + gone, 60);
	cr_expect_gt(named, 5);
	cr_expect_gt(gone, 10);
}

Test(pyname, code_that_could_not_be_read_at_the_call)
{
	struct python *py = interpreter();
	struct python_name name;
	struct mt_py_frame f;

	code(0, "func", 42);
	hole = CODES & ~4095ULL;
	frame_of(CODES, &f);
	hole = 0;
	cr_assert_eq(f.check, 0);
	cr_assert_eq(python__name(py, &f, &name), MT_PY_UNCHECKED);
	cr_assert_eq(python__counts(py).why[MT_PY_UNCHECKED], 1);
	/* Its texts are what tells it from others. */
	without_numbers();
	hole = TEXTS & ~4095ULL;
	frame_of(CODES, &f);
	cr_assert_eq(f.check, 0);
	python__close(py);
}

Test(pyname, frames_without_a_name)
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

Test(pyname, line_table_that_is_none)
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
