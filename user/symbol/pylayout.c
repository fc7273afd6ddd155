// SPDX-License-Identifier: Apache-2.0
/*
 * Where CPython has the members that a stack needs: described by itself
 * (_Py_DebugOffsets, from 3.13), else a table (3.8 to 3.12).
 */
#include "symbol/python.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

/*
 * _PyRuntimeState.interpreters.head is the same on both machines; what differs
 * (the key of the thread's state) is found otherwise, pythread.c.
 */
struct release {
	unsigned int minor;
	uint16_t interp_head, threads_head, thread_id, native_id, frame, cframe, cframe_frame;
	uint16_t frame_code, frame_prev, frame_instr, frame_owner;
	uint8_t shim, lasti, lasti_shift;
	uint16_t first, flags, argcount, file, name, qualname, table, start;
	uint16_t ascii, compact;
	enum py_lines lines;
};

#define NO PY_NO_OFFSET

/* spec ascend-abi.md 3.2: offsetof in the headers of 3.8.18 … 3.12.1. */
static const struct release releases[] = {
	{ 8, 32, 8,  176, 0,  24,  0,	0,  32,	 24, 104, NO, MT_PY_NONE,
	  1, 0,	 40, 36,  16, 104, 112, NO, 120, 0,  48,  72, PY_LNOTAB },
	{ 9, 32, 8,  176, 0,  24,  0,	0,  32,	 24, 104, NO, MT_PY_NONE,
	  1, 0,	 40, 36,  16, 104, 112, NO, 120, 0,  48,  72, PY_LNOTAB },
	{ 10, 32, 8,  176, 0,  24,  0,	 0,  32,  24, 96, NO, MT_PY_NONE,
	  1,  1,  40, 36,  16, 104, 112, NO, 120, 0,  48, 72, PY_LINES_626 },
	{ 11, 40, 16, 152, 160, 56,  1,	  8,   32,  48,	 56, NO, MT_PY_NONE,
	  0,  0,  72, 48,  56,	112, 120, 128, 136, 184, 48, 72, PY_LINES_657 },
	{ 12, 40, 72, 136, 144, 56,  1,	  0,   0,   8,	 56, 70, 3,
	  0,  0,  68, 48,  52,	112, 120, 128, 136, 192, 40, 56, PY_LINES_657 },
};

/*
 * co_version behind co_firstlineno: of five int more (Include/cpython/code.h, 3.12 to 3.15;
 * no description has it). Each code object has its own.
 */
#define CODE_VERSION 24

/* gilstate.tstate_current in _PyRuntime, behind a mutex of the C library. */
static uint16_t current_of(unsigned int minor, int machine)
{
	static const uint16_t x86[] = { 1368, 568, 568, 576 };
	uint16_t at = x86[minor - 8];

	return machine == EM_X86_64 ? at : at + 16;
}

int py_layout__table(unsigned int minor, int machine, struct py_layout *l)
{
	const struct release *r = NULL;
	size_t i;

	if (machine != EM_X86_64 && machine != EM_AARCH64)
		return -ENOTSUP;
	for (i = 0; i < MT_ARRAY_SIZE(releases); i++)
		if (releases[i].minor == minor)
			r = &releases[i];
	if (!r)
		return -ENOTSUP;
	*l = (struct py_layout){
		.version = 3u << 24 | minor << 16,
		.interp_head = r->interp_head,
		.interp_next = 0,
		.threads_head = r->threads_head,
		.thread_next = 8,
		.thread_id = r->thread_id,
		.native_id = r->native_id,
		.frame = r->frame,
		.cframe = r->cframe,
		.cframe_frame = r->cframe_frame,
		.frame_code = r->frame_code,
		.frame_prev = r->frame_prev,
		.frame_instr = r->frame_instr,
		.frame_owner = r->frame_owner,
		.frame_tlbc = NO,
		.frame_entry = minor == 11 ? r->frame_instr + 12 : NO, /* is_entry */
		.shim = r->shim,
		.lasti = r->lasti,
		.lasti_shift = r->lasti_shift,
		.code_first = r->first,
		.code_argcount = r->argcount,
		.code_flags = r->flags,
		.code_file = r->file,
		.code_name = r->name,
		.code_qualname = r->qualname,
		.code_table = r->table,
		.code_start = r->start,
		.code_version = minor >= 12 ? r->first + CODE_VERSION : NO,
		.current = minor < 12 ? current_of(minor, machine) : NO,
		.code_tlbc = 0,
		.ob_type = 8,
		.tp_name = 24,
		.str_state = 32,
		.str_length = 16,
		.str_hash = 24,
		.str_ascii = r->ascii,
		.str_compact = r->compact,
		.bytes_size = 16,
		.bytes_data = 32,
		.lines = r->lines,
	};
	return 0;
}

/* Which word of _Py_DebugOffsets, pycore_runtime.h (3.13), pycore_debug_offsets.h. */
struct described {
	uint8_t threads_head, thread_next, frame, thread_id, native_id;
	uint8_t frame_prev, frame_code, frame_instr, frame_owner, frame_tlbc;
	uint8_t file, name, qualname, table, first, argcount, start, tlbc;
	uint8_t ob_type, tp_name, bytes_size, bytes_data, str_state, str_length, str_ascii;
};

static const struct described described_13 = {
	9,  21, 23, 24, 25, 29, 30, 31, 33, 0,	35, 36, 37,
	38, 39, 40, 43, 0,  45, 47, 65, 66, 68, 69, 70,
};

static const struct described described_14 = {
	9,  24, 26, 27, 28, 32, 33, 34, 36, 38, 40, 41, 42,
	43, 44, 45, 48, 49, 51, 53, 75, 76, 78, 79, 80,
};

static const struct described described_15 = {
	9,  24, 26, 30, 31, 40, 41, 42, 44, 46, 48, 49, 50,
	51, 52, 53, 56, 57, 59, 61, 87, 88, 90, 91, 92,
};

#define WORD_VERSION 1
#define WORD_FREE_THREADED 2
#define WORD_INTERP_HEAD 5
#define WORD_INTERP_NEXT 8

/* Offsets above this are of _PyRuntime and PyInterpreterState only. */
#define MAX_OFFSET 60000

static bool take(const uint8_t *p, unsigned int word, uint16_t *out)
{
	uint64_t v;

	memcpy(&v, p + 8 * (size_t)word, sizeof(v));
	*out = (uint16_t)v;
	return v <= MAX_OFFSET;
}

int py_layout__described(const uint8_t *p, size_t n, struct py_layout *l)
{
	const struct described *d;
	uint64_t version, free_threaded;
	bool ok;

	if (n < PY_DEBUG_OFFSETS_SIZE || memcmp(p, "xdebugpy", 8) != 0)
		return -ENOENT;
	memcpy(&version, p + 8 * WORD_VERSION, 8);
	memcpy(&free_threaded, p + 8 * WORD_FREE_THREADED, 8);
	*l = (struct py_layout){ .version = (uint32_t)version,
				 .described = true,
				 .free_threaded = free_threaded != 0 };
	switch (version >> 16) {
	case 0x030d:
		d = &described_13;
		l->shim = 3;
		break;
	case 0x030e:
		d = &described_14;
		l->shim = 3;
		break;
	case 0x030f:
		d = &described_15;
		l->shim = 3;
		break;
	default:
		return -ENOTSUP;
	}
	/* References carry a mark in the lowest bits from 3.14 on. */
	l->tag = version >> 16 >= 0x030e ? 3 : 0;
	l->frame_tlbc = l->frame_entry = NO;
	ok = take(p, WORD_INTERP_HEAD, &l->interp_head) &&
	     take(p, WORD_INTERP_NEXT, &l->interp_next) &&
	     take(p, d->threads_head, &l->threads_head) &&
	     take(p, d->thread_next, &l->thread_next) && take(p, d->frame, &l->frame) &&
	     take(p, d->thread_id, &l->thread_id) && take(p, d->native_id, &l->native_id) &&
	     take(p, d->frame_prev, &l->frame_prev) && take(p, d->frame_code, &l->frame_code) &&
	     take(p, d->frame_instr, &l->frame_instr) && take(p, d->frame_owner, &l->frame_owner) &&
	     take(p, d->file, &l->code_file) && take(p, d->name, &l->code_name) &&
	     take(p, d->qualname, &l->code_qualname) && take(p, d->table, &l->code_table) &&
	     take(p, d->first, &l->code_first) && take(p, d->argcount, &l->code_argcount) &&
	     take(p, d->start, &l->code_start) && take(p, d->ob_type, &l->ob_type) &&
	     take(p, d->tp_name, &l->tp_name) && take(p, d->bytes_size, &l->bytes_size) &&
	     take(p, d->bytes_data, &l->bytes_data) && take(p, d->str_state, &l->str_state) &&
	     take(p, d->str_length, &l->str_length) && take(p, d->str_ascii, &l->str_ascii);
	if (ok && l->free_threaded && d->frame_tlbc)
		ok = take(p, d->frame_tlbc, &l->frame_tlbc) && take(p, d->tlbc, &l->code_tlbc);
	l->code_flags = NO;
	l->code_version = l->code_first + CODE_VERSION;
	l->current = NO;
	l->str_hash = l->str_length + 8;
	/* PyCompactUnicodeObject: the length of its UTF-8 and a pointer to it. */
	l->str_compact = l->str_ascii + 16;
	l->lines = PY_LINES_657;
	return ok ? 0 : -EINVAL;
}

/* Members of one object: the smallest offset, and the others from there. */
struct span {
	uint32_t lo, hi;
};

static void span_add(struct span *s, uint16_t off, uint32_t size)
{
	if (off == NO)
		return;
	s->lo = MT_MIN(s->lo, off);
	s->hi = MT_MAX(s->hi, off + size);
}

static uint8_t from(const struct span *s, uint16_t off)
{
	return off == NO ? MT_PY_NONE : (uint8_t)(off - s->lo);
}

bool py_layout__offsets(const struct py_layout *l, uint64_t runtime, struct mt_py_offsets *o)
{
	struct span frame = { UINT32_MAX, 0 }, code = { UINT32_MAX, 0 };

	span_add(&frame, l->frame_code, 8);
	span_add(&frame, l->frame_prev, 8);
	span_add(&frame, l->frame_instr, l->lasti ? 4 : 8);
	span_add(&frame, l->frame_owner, 1);
	span_add(&frame, l->frame_tlbc, 4);
	span_add(&frame, l->frame_entry, 1);
	span_add(&code, l->code_first, 4);
	span_add(&code, l->code_name, 8);
	span_add(&code, l->code_table, 8);
	span_add(&code, l->code_file, 8);
	span_add(&code, l->code_version, 4);
	/* Then members are as aligned in the copy as they are there. */
	frame.lo &= ~7u;
	code.lo &= ~7u;
	if (frame.hi - frame.lo > 255 || code.hi - code.lo > 255 || frame.lo > 255 ||
	    code.lo > 255 || l->str_compact > 255)
		return false;
	*o = (struct mt_py_offsets){
		.why = MT_PY_UNVERIFIED,
		.find = MT_PY_FIND_LIST,
		.shim = l->shim,
		.tag = l->tag,
		.interp_head = runtime + l->interp_head,
		.current = l->current == NO ? 0 : runtime + l->current,
		.interp_next = l->interp_next,
		.threads_head = l->threads_head,
		.thread_next = l->thread_next,
		.thread_id = l->thread_id,
		.native_id = l->native_id,
		.frame = l->frame,
		.cframe = l->cframe,
		.cframe_frame = l->cframe_frame,
		.frame_base = (uint8_t)frame.lo,
		.frame_size = (uint8_t)(frame.hi - frame.lo),
		.frame_code = from(&frame, l->frame_code),
		.frame_prev = from(&frame, l->frame_prev),
		.frame_instr = from(&frame, l->frame_instr),
		.frame_owner = from(&frame, l->frame_owner),
		.frame_tlbc = from(&frame, l->frame_tlbc),
		.frame_entry = l->frame_entry == NO ? 0 : from(&frame, l->frame_entry),
		.entry_mask = l->frame_entry != NO,
		/* Before 3.11 C calls itself for each frame. */
		.base = l->described && l->version >= 0x030f0000,
		.each = l->shim == MT_PY_NONE && l->frame_entry == NO,
		.code_base = (uint8_t)code.lo,
		.code_size = (uint8_t)(code.hi - code.lo),
		.code_first = from(&code, l->code_first),
		.code_name = from(&code, l->code_name),
		.code_table = from(&code, l->code_table),
		.code_file = from(&code, l->code_file),
		.code_version = from(&code, l->code_version),
		.str_length = (uint8_t)l->str_length,
		.str_ascii = (uint8_t)l->str_ascii,
		.str_compact = (uint8_t)l->str_compact,
		.lasti = l->lasti,
		.lasti_shift = l->lasti_shift,
		.code_start = l->code_start,
		.code_tlbc = l->code_tlbc,
		.version = l->version,
	};
	return true;
}
