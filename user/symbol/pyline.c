// SPDX-License-Identifier: Apache-2.0
/*
 * Line tables of code objects: lnotab (3.8, 3.9), PEP 626 (3.10), PEP 657 (from
 * 3.11). Sources: cpython Objects/lnotab_notes.txt, Objects/codeobject.c,
 * InternalDocs/code_objects.md.
 *
 * Tables come from another process: every step consumes bytes of them.
 */
#include "symbol/python.h"

#include <errno.h>

/* Files have no more lines than that; hostile sums must not overflow. */
#define MAX_LINE (1 << 30)

static int result(int64_t line, int *out)
{
	if (line < 0 || line > MAX_LINE)
		return -EINVAL;
	*out = (int)line;
	return 0;
}

/* Pairs (bytes of code, signed lines): the line changes behind the bytes. */
static int find_lnotab(const uint8_t *p, size_t n, int64_t line, int64_t at, int *out)
{
	int64_t addr = 0;
	size_t i;

	for (i = 0; i + 1 < n; i += 2) {
		addr += p[i];
		if (addr > at)
			break;
		line += (int8_t)p[i + 1];
	}
	return result(line, out);
}

/* Pairs (bytes of code, signed lines): the line is that of these bytes; -128: none. */
static int find_626(const uint8_t *p, size_t n, int64_t line, int64_t at, int *out)
{
	int64_t end = 0;
	size_t i;

	for (i = 0; i + 1 < n; i += 2) {
		int8_t delta = (int8_t)p[i + 1];

		end += p[i];
		if (delta != -128)
			line += delta;
		if (at < end)
			return delta == -128 ? -ENOENT : result(line, out);
	}
	return -EINVAL;
}

/* Numbers of 6 bits a byte, the lowest first; bit 6: more follow. */
static int varint(const uint8_t *p, size_t n, size_t *i, uint32_t *v)
{
	unsigned int shift;
	uint8_t b;

	*v = 0;
	for (shift = 0; shift < 36; shift += 6) {
		if (*i >= n)
			return -EINVAL;
		b = p[(*i)++];
		if (b & 0x80) /* the start of the next entry */
			return -EINVAL;
		if (shift < 32)
			*v |= (uint32_t)(b & 63) << shift;
		if (!(b & 64))
			return 0;
	}
	return -EINVAL;
}

/* Entries: 1, kind (4 bits), units of 2 bytes of code less one (3 bits); then what the kind has. */
static int find_657(const uint8_t *p, size_t n, int64_t line, int64_t at, int *out)
{
	int64_t end = 0;
	size_t i = 0;

	while (i < n) {
		unsigned int kind = p[i] >> 3 & 15, units = (p[i] & 7) + 1u;
		uint32_t v;

		if (!(p[i] & 0x80))
			return -EINVAL;
		i++;
		if (kind == 13 || kind == 14) {
			if (varint(p, n, &i, &v))
				return -EINVAL;
			line += v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
		} else if (kind >= 10 && kind <= 12) {
			line += kind - 10;
		}
		end += 2 * units;
		if (at < end)
			return kind == 15 ? -ENOENT : result(line, out);
		/* Columns. */
		while (i < n && !(p[i] & 0x80))
			i++;
	}
	return -EINVAL;
}

int py_line__find(enum py_lines kind, const uint8_t *table, size_t n, int first, int32_t at,
		  int *line)
{
	/* A frame that has not begun is at its function's first line. */
	if (at < 0)
		return result(first, line);
	switch (kind) {
	case PY_LNOTAB:
		return find_lnotab(table, n, first, at, line);
	case PY_LINES_626:
		return find_626(table, n, first, at, line);
	case PY_LINES_657:
		return find_657(table, n, first, at, line);
	}
	return -EINVAL;
}
