/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Arguments of C functions of Python modules: f(self, args, kwds). Offsets of
 * CPython 3.8 to 3.14, 64 bits: spec ascend-abi.md 3.2; dicts: cpython
 * Objects/dict-common.h (to 3.10), Include/internal/pycore_dict.h (from 3.11).
 */
#ifndef MEMTAP_PYTHON_BPF_H
#define MEMTAP_PYTHON_BPF_H

#include "inflight.bpf.h"

#define PY_SIZE 16 /* ob_size of a tuple or int; lv_tag of an int from 3.12 */
#define PY_TUPLE_ITEM 24
#define PY_INT_DIGITS 24 /* of 30 bits, little end first */
#define PY_STR_STATE 32
#define PY_DICT_KEYS 32

/* Address of the UTF-8 text of a str; 0 when it has none yet. */
static __always_inline __u64 py_str(__u64 str, __u32 minor)
{
	__u64 data = minor >= 12 ? 40 : 48, utf8;
	__u32 state = 0, kind_at;

	if (!str || user_read(&state, sizeof(state), str + PY_STR_STATE))
		return 0;
	/*
	 * The bits moved in 3.14.0 and back within 3.14; free-threaded builds have a third
	 * place. What stands before them is a number up to 3 and the kind (3 bits, then
	 * compact, ascii) is never 0: so the place is seen.
	 */
	kind_at = state & 0xfc ? 2 : state & 0xff00 ? 8 : 16;
	if (state >> (kind_at + 4) & 1)
		return str + data;
	/* Not ASCII: PyUnicode_AsUTF8 has left its result behind the length. */
	return user_u64(str + data + 8, &utf8) ? 0 : utf8;
}

/* Value of a small int that is not negative; 0 for all else. */
static __always_inline __u64 py_int(__u64 obj, __u32 minor)
{
	__u32 d[2] = {};
	__u64 tag, n;

	if (!obj || user_u64(obj + PY_SIZE, &tag) || user_read(d, sizeof(d), obj + PY_INT_DIGITS))
		return 0;
	if (minor >= 12 && (tag & 3)) /* 1 zero, 2 negative */
		return 0;
	n = minor >= 12 ? tag >> 3 : tag;
	if (!n || n > 2)
		return 0;
	return n == 2 ? d[0] | (__u64)d[1] << 30 : d[0];
}

/* Value of the key "message" among the first entries of a dict; 0 if it is not there. */
static __always_inline __u64 py_dict_message(__u64 dict, __u32 minor)
{
	__u64 keys, n = 0, at, step = 24, key, value, word;
	__u8 head[16];
	int i;

	if (!dict || user_u64(dict + PY_DICT_KEYS, &keys))
		return 0;
	if (minor >= 11) {
		/* u8 log2 of the bytes of the index @9, kind @10 (1: keys are str), entries @24 */
		if (user_read(head, sizeof(head), keys) || user_u64(keys + 24, &n))
			return 0;
		at = keys + 32 + (1ULL << (head[9] & 15));
		if (head[10])
			step = 16;
	} else {
		__u64 size;

		if (user_u64(keys + 8, &size) || user_u64(keys + 32, &n) || size > 255)
			return 0;
		at = keys + 40 + size;
	}
	for (i = 0; i < 4; i++) {
		if ((__u64)i >= n)
			break;
		if (!user_u64(at + step - 16, &key) && !user_u64(at + step - 8, &value) && value &&
		    !user_u64(py_str(key, minor), &word) &&
		    word == 0x006567617373656dULL /* message */)
			return value;
		at += step;
	}
	return 0;
}

/* The first argument, by place or as message=. */
static __always_inline __u64 py_arg0(struct pt_regs *ctx, struct probe *p, __u32 minor)
{
	__u64 args = ctx_arg(ctx, 1, p->sp), n, item;

	if (args && !user_u64(args + PY_SIZE, &n) && n && n < 16 &&
	    !user_u64(args + PY_TUPLE_ITEM, &item))
		return item;
	return py_dict_message(ctx_arg(ctx, 2, p->sp), minor);
}

#endif
