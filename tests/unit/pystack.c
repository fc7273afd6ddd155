// SPDX-License-Identifier: Apache-2.0
/* Walking Python frames over a memory that is made here, whole or hostile; layouts; thread slots.
 */
#include <unistd.h>

#include "pystack_test.h"

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
	/* One activation runs the two inner ones, another the outermost. */
	cr_assert_eq(s.frame[2].code, a | 1ULL << MT_PY_BEGINS_SHIFT);
	cr_assert_eq(s.begins, 0, "it has no shim around it, which only a test can have");
	s.frame[2].code &= MT_PY_CODE;
	cr_assert(memcmp(&s.frame[1], &s.frame[2], sizeof(s.frame[1])) == 0);
}

/* What a walker tells of activations: from the innermost on, those that begin before each frame. */
static void begins(const char *want)
{
	char got[64];
	size_t n = 0;
	uint32_t i;

	walk(100);
	for (i = 0; i < s.n; i++)
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%u ",
				      (unsigned int)(s.frame[i].code >> MT_PY_BEGINS_SHIFT));
	snprintf(got + n, sizeof(got) - n, "%u", s.begins);
	cr_expect_str_eq(got, want);
}

static void layout_of(unsigned int minor)
{
	cr_assert_eq(py_layout__table(minor, EM_X86_64, &layout), 0);
	cr_assert(py_layout__offsets(&layout, RUNTIME, &o));
	o.why = MT_PY_OK;
	o.find = MT_PY_FIND_SLOT;
	o.slot = 0x50;
	put(RUNTIME + layout.interp_head, INTERP);
	put(INTERP + layout.threads_head, THREAD);
	put(THREAD + layout.thread_id, SELF);
	put(THREAD + layout.frame, CFRAME);
}

/* A frame without an owner: of 3.11 its byte is is_entry, of those before it is anything. */
static uint64_t old_frame(unsigned int i, uint64_t of, uint64_t prev, uint8_t entry)
{
	uint64_t at = FRAMES + i * 128;

	put(at + layout.frame_code, of);
	put(at + layout.frame_prev, prev);
	if (layout.frame_entry != PY_NO_OFFSET)
		arena[at + layout.frame_entry - BASE] = entry;
	return at;
}

Test(pystack, activations_by_shims)
{
	uint64_t a = code(0, "f", 1), none = code(1, "shim", 1);

	/* Innermost first: two shims, f f, shim, f, shim, shim. */
	uint64_t at = frame(0, none, frame(1, none, 0, 3), 3);

	at = frame(3, none, frame(2, a, at, 0), 3);
	at = frame(5, a, frame(4, a, at, 1), 0);
	put(CFRAME, frame(7, none, frame(6, none, at, 3), 3));
	begins("2 0 1 2");
}

Test(pystack, activations_by_their_first_frame)
{
	uint64_t a, at;

	layout_of(11);
	a = code(0, "f", 1);
	at = old_frame(2, a, old_frame(1, a, old_frame(0, a, 0, 1), 0), 1);
	put(CFRAME + layout.cframe_frame, old_frame(3, a, at, 0));
	begins("0 0 1 0 1");
}

Test(pystack, each_frame_an_activation)
{
	uint64_t a;

	layout_of(8);
	a = code(0, "f", 1);
	put(THREAD + layout.frame, old_frame(1, a, old_frame(0, a, 0, 0), 0));
	begins("0 1 1");
	layout_of(10);
	a = code(0, "f", 1);
	put(THREAD + layout.frame, old_frame(1, a, old_frame(0, a, 0, 0), 0));
	begins("0 1 1");
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

/* As many as have room, and the shim around them: that is all there is. */
Test(pystack, just_not_too_deep)
{
	uint64_t a = code(0, "f", 1), at = 0;
	unsigned int i;

	for (i = 0; i < MT_PY_DEPTH + 2; i++) {
		put(BASE + 0xa000 + i * 128 + layout.frame_code, a);
		put(BASE + 0xa000 + i * 128 + layout.frame_prev, at);
		arena[0xa000 + i * 128 + layout.frame_owner] = i ? 0 : 3;
		at = BASE + 0xa000 + i * 128;
		if (i < MT_PY_DEPTH)
			continue;
		put(CFRAME, at);
		walk(MT_PY_DEPTH);
		cr_assert_eq(s.why, i == MT_PY_DEPTH ? MT_PY_OK : MT_PY_TOO_DEEP);
		cr_assert_eq(s.n, MT_PY_DEPTH);
		cr_assert_eq(s.begins, i == MT_PY_DEPTH);
	}
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

/* To 3.11 the slot of a thread has the state of its first interpreter, in whichever it is. */
static void in_sub_interpreter(unsigned int minor)
{
	const uint64_t sub = BASE + 0x500, state = BASE + 0x700, other = BASE + 0x900;
	const uint64_t cframe = BASE + 0xb00;
	uint64_t top = state + layout.frame, a = code(0, "outer", 1), b = code(1, "inner", 1);

	if (layout.cframe) {
		put(top, cframe);
		top = cframe + layout.cframe_frame;
	}
	put(state + layout.thread_id, SELF);
	put(other + layout.thread_id, SELF + 8);
	if (layout.native_id) {
		put(THREAD + layout.native_id, 77);
		put(state + layout.native_id, 77);
	}
	put(layout.cframe ? CFRAME + layout.cframe_frame : THREAD + layout.frame,
	    old_frame(0, a, 0, 1));
	put(RUNTIME + layout.interp_head, sub);
	put(sub + layout.interp_next, INTERP);
	put(sub + layout.threads_head, state);
	/* It holds the lock: whatever the lists say. */
	put(o.current, state);
	put(top, old_frame(1, b, 0, 1));
	walk(10);
	cr_expect_eq(s.thread, state, "3.%u", minor);
	cr_expect_eq(s.frame[0].code, b);
	put(o.current, THREAD);
	walk(10);
	cr_expect_eq(s.frame[0].code, a);
	/* Nobody, or another thread holds it: it is where it has frames. */
	for (put(o.current, 0);; put(o.current, other)) {
		uint64_t now;

		put(top, old_frame(1, b, 0, 1));
		walk(10);
		cr_expect_eq(s.frame[0].code, b, "3.%u", minor);
		put(top, 0);
		walk(10);
		cr_expect_eq(s.frame[0].code, a, "3.%u", minor);
		memcpy(&now, arena + (o.current - BASE), sizeof(now));
		if (now == other)
			break;
	}
	/* The only interpreter: no list has to be looked at. */
	put(RUNTIME + layout.interp_head, INTERP);
	put(INTERP + layout.threads_head, BASE - 8);
	walk(10);
	cr_expect_eq(s.frame[0].code, a);
	/* So many threads that it is not known. */
	put(RUNTIME + layout.interp_head, sub);
	put(state + layout.thread_next, other);
	put(other + layout.thread_next, other);
	walk(10);
	cr_expect_eq(s.why, MT_PY_MANY_THREADS);
	cr_expect_eq(s.n, 0);
}

Test(pystack, sub_interpreters)
{
	unsigned int minor;

	for (minor = 8; minor <= 11; minor++) {
		setup();
		layout_of(minor);
		in_sub_interpreter(minor);
	}
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
