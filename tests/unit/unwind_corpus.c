// SPDX-License-Identifier: Apache-2.0
/* Stored stacks of both architectures, walked on this one. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stack_case.h"

static const char *folder(void)
{
	static char path[PATH_MAX];
	const char *src = getenv("SRCDIR");

	snprintf(path, sizeof(path), "%s/tests/unit/data-stacks", src ? src : ".");
	return path;
}

static bool is_arm64(const struct stack_case *c)
{
	return strcmp(c->arch, "aarch64") == 0;
}

static void walk(const struct stack_case *c, struct case_walk *w)
{
	if (is_arm64(c))
		stack_case__walk_arm64(c, w);
	else
		stack_case__walk_x86(c, w);
}

/* Frames that are right, from the first on. */
static uint32_t right(const struct stack_case *c, const struct case_walk *w)
{
	uint32_t i;

	for (i = 0; i < w->n && i < c->n_frames; i++)
		if (c->frames[i] != CASE_ANY && c->frames[i] != w->frames[i])
			break;
	return i;
}

static uint32_t n_in_runs;

static void check(const char *name, const struct stack_case *c)
{
	static struct case_walk w;
	uint32_t i;

	walk(c, &w);
	i = right(c, &w);
	cr_expect(i == w.n && i == c->n_frames,
		  "%s: %u frames, %u are right; frame %u is %#jx, not %#jx", name, w.n, c->n_frames,
		  i, (uintmax_t)w.frames[i], (uintmax_t)c->frames[i]);
	cr_expect_eq(w.end, c->end, "%s: end %d, not %d", name, w.end, c->end);
	cr_expect_eq(w.guessed, c->guessed, "%s: %d guessed, not %d", name, w.guessed, c->guessed);
	cr_expect(w.same, "%s: another stack when its frames are remembered", name);
	n_in_runs += w.in_runs;
}

/*
 * A stack that is damaged anywhere: another end or other frames, never one without an
 * end or more frames than there is room for (the sanitizers look at the rest).
 */
static void damage(const struct stack_case *c)
{
	static struct case_walk w;
	size_t i, k;

	for (i = 0; i < c->n_memory; i++)
		for (k = 0; k + 8 <= c->memory[i].n; k += 8) {
			uint8_t kept[8];

			memcpy(kept, c->memory[i].bytes + k, 8);
			memset(c->memory[i].bytes + k, k & 8 ? 0xff : 0, 8);
			walk(c, &w);
			cr_assert(w.end != MT_END_NOT && w.n <= MT_UW_MAX_FRAMES + 1);
			cr_assert(w.same, "%#jx", (uintmax_t)(c->memory[i].addr + k));
			memcpy(c->memory[i].bytes + k, kept, 8);
		}
}

static struct stack_case *read_case(const char *name)
{
	struct stack_case *c;
	char path[PATH_MAX + 256];
	int line;

	snprintf(path, sizeof(path), "%s/%s", folder(), name);
	c = stack_case__read(path, &line);
	cr_assert(c, "%s: line %d is none of a stored stack", name, line);
	return c;
}

static void each(void (*fn)(const char *name, struct stack_case *c), size_t least)
{
	size_t n = 0;
	struct dirent *e;
	DIR *dir = opendir(folder());

	cr_assert(dir, "%s", folder());
	while ((e = readdir(dir))) {
		const char *dot = strrchr(e->d_name, '.');
		struct stack_case *c;

		if (!dot || strcmp(dot, ".stack") != 0)
			continue;
		c = read_case(e->d_name);
		fn(e->d_name, c);
		stack_case__free(c);
		n++;
	}
	closedir(dir);
	cr_expect_geq(n, least, "%zu stored stacks", n);
}

static size_t seen[2];

static void on_case(const char *name, struct stack_case *c)
{
	seen[is_arm64(c)]++;
	check(name, c);
	damage(c);
}

Test(unwind_corpus, all)
{
	each(on_case, 20);
	cr_expect(seen[0] >= 8 && seen[1] >= 8, "%zu of x86-64, %zu of aarch64", seen[0], seen[1]);
	cr_expect_gt(n_in_runs, 50, "%u frames in runs", n_in_runs);
}

/*
 * Each return address signed as pointer authentication does it, from bit 48 on: the same
 * frames. A signal frame holds addresses that are not signed.
 */
static size_t n_signed;

static void sign(const char *name, struct stack_case *c)
{
	size_t i, k;
	uint32_t f;

	if (!is_arm64(c) || strstr(name, "signal") || strstr(name, "fault"))
		return;
	c->lr |= 0x2aULL << 48;
	for (i = 0; i < c->n_memory; i++)
		for (k = 0; k + 8 <= c->memory[i].n; k += 8) {
			uint64_t v;

			memcpy(&v, c->memory[i].bytes + k, 8);
			for (f = 1; f < c->n_frames && c->frames[f] != v; f++)
				;
			if (f == c->n_frames)
				continue;
			v |= 0x35ULL << 48;
			memcpy(c->memory[i].bytes + k, &v, 8);
			n_signed++;
		}
	check(name, c);
}

Test(unwind_corpus, signed_return_addresses)
{
	each(sign, 20);
	cr_expect_gt(n_signed, 30, "%zu", n_signed);
}

/* Without the rows of a file that keeps records the same functions are found, as guesses. */
static size_t by_records;

static void without_rows(const char *name, struct stack_case *c)
{
	static struct case_walk w;
	uint32_t i;

	if (!is_arm64(c) || !strstr(name, "recursion"))
		return;
	for (i = 0; i < c->n_maps; i++)
		if (c->frames[0] < c->maps[i].start || c->frames[0] >= c->maps[i].end)
			c->maps[i].pages = 0;
	walk(c, &w);
	cr_expect(w.n > 3 && right(c, &w) == w.n, "%s: %u frames", name, w.n);
	cr_expect_gt(w.guessed, 0);
	by_records++;
}

Test(unwind_corpus, frame_records_of_aarch64)
{
	each(without_rows, 20);
	cr_expect_gt(by_records, 0);
}
