// SPDX-License-Identifier: Apache-2.0
/* Python objects in another process: types, str as UTF-8, bytes. */
#include "symbol/python.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEAD 128 /* of a str object, without its text */

bool py_object__alive(const struct py_layout *l, uint64_t first)
{
	/*
	 * A count of 32 bits at most, above it from 3.14 on flags. Allocators keep in
	 * memory that was freed the address of the next such: 0, or more than 32 bits.
	 */
	return l->free_threaded || ((uint32_t)first && !(first >> 32 & 0xffff));
}

int py_object__type(const struct py_mem *m, const struct py_layout *l, uint64_t obj, char *buf,
		    size_t n)
{
	uint64_t type, name, count;
	int err;

	err = py_mem__u64(m, obj, &count);
	if (!err && !py_object__alive(l, count))
		err = -ENOENT;
	if (!err)
		err = py_mem__u64(m, obj + l->ob_type, &type);
	if (!err)
		err = py_mem__u64(m, type + l->tp_name, &name);
	return err ? err : py_mem__text(m, name, buf, n);
}

/*
 * kind: bytes a character. The bits moved within 3.14, and free-threaded builds
 * have them elsewhere, but what stands before them is a number up to 3, and the
 * kind is never 0: so the place is seen (Include/cpython/unicodeobject.h).
 */
static int str_state(uint32_t state, unsigned int *kind, bool *compact, bool *ascii)
{
	unsigned int shift = state & 0xfc ? 2 : state & 0xff00 ? 8 : 16;

	state >>= shift;
	*kind = state & 7;
	*compact = state & 8;
	*ascii = state & 16;
	return *kind == 1 || *kind == 2 || *kind == 4 ? 0 : -EINVAL;
}

static void put_utf8(struct strbuf *out, uint32_t c)
{
	char b[4];
	size_t n;

	if (c < 0x20 || c == 0x7f)
		c = '?';
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	if (c < 0x80) {
		b[0] = (char)c;
		n = 1;
	} else if (c < 0x800) {
		b[0] = (char)(0xc0 | c >> 6);
		b[1] = (char)(0x80 | (c & 63));
		n = 2;
	} else if (c < 0x10000) {
		b[0] = (char)(0xe0 | c >> 12);
		b[1] = (char)(0x80 | (c >> 6 & 63));
		b[2] = (char)(0x80 | (c & 63));
		n = 3;
	} else {
		b[0] = (char)(0xf0 | c >> 18);
		b[1] = (char)(0x80 | (c >> 12 & 63));
		b[2] = (char)(0x80 | (c >> 6 & 63));
		b[3] = (char)(0x80 | (c & 63));
		n = 4;
	}
	strbuf__add(out, b, n);
}

static int put_text(const struct py_mem *m, uint64_t data, unsigned int kind, size_t length,
		    struct strbuf *out, size_t max)
{
	size_t chars = MT_MIN(length, max), i, from = out->len;
	uint8_t *raw = malloc(chars * kind + 1);
	int err;

	if (!raw)
		return -ENOMEM;
	err = py_mem__read(m, data, raw, chars * kind);
	for (i = 0; !err && i < chars; i++) {
		uint32_t c = 0;

		memcpy(&c, raw + i * kind, kind); /* little end first, as all we run on */
		if (out->len - from + 4 > max) {
			err = -ENAMETOOLONG;
			break;
		}
		put_utf8(out, c);
	}
	free(raw);
	if (!err && chars < length)
		err = -ENAMETOOLONG;
	return err ? err : out->failed ? -ENOMEM : 0;
}

int py_object__str(const struct py_mem *m, const struct py_layout *l, uint64_t obj,
		   struct strbuf *out, size_t max)
{
	uint8_t head[MAX_HEAD];
	unsigned int kind;
	bool compact, ascii;
	uint64_t length;
	uint32_t state;
	char type[8];
	int err;

	if (l->str_length + 8u > MAX_HEAD || l->str_state + 4u > MAX_HEAD)
		return -EINVAL;
	err = py_object__type(m, l, obj, type, sizeof(type));
	if (err)
		return err;
	if (strcmp(type, "str") != 0)
		return -EINVAL;
	err = py_mem__read(m, obj, head, MT_MAX(l->str_length + 8u, l->str_state + 4u));
	if (err)
		return err;
	memcpy(&length, head + l->str_length, 8);
	memcpy(&state, head + l->str_state, 4);
	/* Names in code are always of one piece, with the text behind the head. */
	if (str_state(state, &kind, &compact, &ascii) || !compact || length > INT32_MAX)
		return -EINVAL;
	return put_text(m, obj + (ascii ? l->str_ascii : l->str_compact), kind, length, out, max);
}

ssize_t py_object__bytes(const struct py_mem *m, const struct py_layout *l, uint64_t obj,
			 size_t max, uint8_t **out)
{
	uint64_t size;
	char type[8];
	int err;

	err = py_object__type(m, l, obj, type, sizeof(type));
	if (!err && strcmp(type, "bytes") != 0)
		err = -EINVAL;
	if (!err)
		err = py_mem__u64(m, obj + l->bytes_size, &size);
	if (err)
		return err;
	if (size > max)
		return -EFBIG;
	*out = malloc(size + 1);
	if (!*out)
		return -ENOMEM;
	err = py_mem__read(m, obj + l->bytes_data, *out, size);
	if (!err)
		return (ssize_t)size;
	free(*out);
	*out = NULL;
	return err;
}
