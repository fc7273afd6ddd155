// SPDX-License-Identifier: Apache-2.0
/* Line tables of code objects: those of real Pythons (data-python/make.py), and hostile ones. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/python.h"

struct table {
	int first;
	size_t n;
	uint8_t bytes[4096];
};

static void from_hex(const char *hex, struct table *t)
{
	unsigned int b;

	for (t->n = 0; sscanf(hex, "%2x", &b) == 1; hex += 2) {
		cr_assert_lt(t->n, sizeof(t->bytes));
		t->bytes[t->n++] = (uint8_t)b;
	}
}

static void check_file(const char *name, enum py_lines kind)
{
	char path[512], line[9000], word[16];
	struct table t = { 0 };
	int at, got, codes = 0, ats = 0, none = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/tests/unit/data-python/%s", getenv("SRCDIR"), name);
	f = fopen(path, "re");
	cr_assert(f, "%s", path);
	while (fgets(line, sizeof(line), f)) {
		char *hex = strrchr(line, ' ') + 1;

		if (sscanf(line, "code %d", &t.first) == 1) {
			from_hex(hex, &t);
			codes++;
		} else if (sscanf(line, "at %d %15s", &at, word) == 2) {
			int err = py_line__find(kind, t.bytes, t.n, t.first, at, &got);

			ats++;
			if (strcmp(word, "-") == 0) {
				cr_assert_eq(err, -ENOENT, "%s: code at %d, %d: %d", name, t.first,
					     at, err);
				none++;
				continue;
			}
			cr_assert_eq(err, 0, "%s: code at %d, %d: %d", name, t.first, at, err);
			cr_assert_eq(got, atoi(word), "%s: code at %d, %d: %d, not %s", name,
				     t.first, at, got, word);
		}
	}
	fclose(f);
	cr_assert_gt(codes, 8, "%s", name);
	cr_assert_gt(ats, 300, "%s", name);
	/* From 3.10 on there are instructions without a line. */
	cr_assert(kind == PY_LNOTAB || none > 0, "%s", name);
}

Test(pyline, lnotab)
{
	check_file("lines-3.8.txt", PY_LNOTAB);
}

Test(pyline, pep_626)
{
	check_file("lines-3.10.txt", PY_LINES_626);
}

Test(pyline, pep_657)
{
	check_file("lines-3.11.txt", PY_LINES_657);
	check_file("lines-3.12.txt", PY_LINES_657);
	check_file("lines-3.13.txt", PY_LINES_657);
	check_file("lines-3.14.txt", PY_LINES_657);
}

static int find(enum py_lines kind, const char *hex, int first, int at, int *line)
{
	static struct table t;
	uint8_t *exact;
	int r;

	from_hex(hex, &t);
	exact = malloc(t.n + 1); /* behind it nothing may be read */
	cr_assert(exact);
	memcpy(exact, t.bytes, t.n);
	r = py_line__find(kind, exact, t.n, first, at, line);
	free(exact);
	return r;
}

Test(pyline, not_begun_is_the_first_line)
{
	int line;

	cr_assert_eq(find(PY_LNOTAB, "0001", 7, -1, &line), 0);
	cr_assert_eq(line, 7);
	cr_assert_eq(find(PY_LINES_626, "0201", 7, -2, &line), 0);
	cr_assert_eq(line, 7);
	cr_assert_eq(find(PY_LINES_657, "", 7, -2, &line), 0);
	cr_assert_eq(line, 7);
}

Test(pyline, malformed)
{
	int line;

	/* half a pair, an entry that does not start with its mark, numbers that do not end */
	cr_assert_eq(find(PY_LNOTAB, "00", 1, 0, &line), 0);
	cr_assert_eq(line, 1);
	cr_assert_eq(find(PY_LINES_626, "02", 1, 0, &line), -EINVAL);
	cr_assert_eq(find(PY_LINES_657, "00", 1, 0, &line), -EINVAL);
	cr_assert_eq(find(PY_LINES_657, "f0", 1, 0, &line), -EINVAL);
	cr_assert_eq(find(PY_LINES_657, "f0c0", 1, 0, &line), -EINVAL);
	cr_assert_eq(find(PY_LINES_657, "f07f7f7f7f7f7f7f7f00", 1, 0, &line), -EINVAL);
	/* behind its end, empty, lines below none and beyond all files */
	cr_assert_eq(find(PY_LINES_657, "f800", 1, 100, &line), -EINVAL);
	cr_assert_eq(find(PY_LINES_626, "", 1, 0, &line), -EINVAL);
	cr_assert_eq(find(PY_LINES_657, "f003", 0, 0, &line), -EINVAL);
	cr_assert_eq(find(PY_LINES_626, "02ff", 0, 0, &line), -EINVAL);
	cr_assert_eq(find(PY_LNOTAB, "00ff", 0, 0, &line), -EINVAL);
	cr_assert_eq(find(PY_LNOTAB, "0001", -5, 0, &line), -EINVAL);
	cr_assert_eq(find(PY_LNOTAB, "0001", INT32_MAX, 0, &line), -EINVAL);
}

Test(pyline, any_bytes_come_to_an_end)
{
	uint8_t t[64];
	unsigned int seed = 1, i, k;
	int line;

	for (i = 0; i < 20000; i++) {
		size_t n = (size_t)rand_r(&seed) % sizeof(t);
		uint8_t *exact = malloc(n + 1);

		for (k = 0; k < n; k++)
			exact[k] = (uint8_t)rand_r(&seed);
		for (k = PY_LNOTAB; k <= PY_LINES_657; k++) {
			int r = py_line__find((enum py_lines)k, exact, n, 1, (int)i % 300, &line);

			cr_assert(r == 0 || r == -ENOENT || r == -EINVAL);
			cr_assert(r || line >= 0);
		}
		free(exact);
	}
}
