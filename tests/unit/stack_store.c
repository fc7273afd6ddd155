// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks that are kept: two with one hash, those given up, how much memory they take;
 * cells of all that.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "symbol/stacks_internal.h"

#define FRAMES 50

static struct stacks *open_stacks(size_t max_bytes)
{
	struct stacks_opts o = { .max_bytes = max_bytes, .cache = -1 };
	struct stacks *s;

	memset(&o.maps, 0xff, sizeof(o.maps)); /* no maps: nobody is told */
	cr_assert_eq(stacks__new(&o, &s), 0);
	s->opts.c = true; /* from now on: unwind rows have no place without maps */
	return s;
}

/* A stack with frames of their own, and a hash that is ours to choose. */
static void define(struct stacks *s, uint64_t hash, uint64_t verify, uint32_t n)
{
	static struct {
		struct mt_stack r;
		uint64_t frames[MT_UW_MAX_FRAMES];
	} x;
	uint32_t i;

	memset(&x.r, 0, sizeof(x.r));
	x.r.h.type = MT_REC_STACK;
	x.r.h.size = (uint16_t)(sizeof(x.r) + n * sizeof(x.frames[0]));
	x.r.h.tgid = 1;
	x.r.hash[0] = hash;
	x.r.hash[1] = verify;
	x.r.n = (uint16_t)n;
	x.r.end = MT_END_ROOT;
	x.r.with = 1;
	for (i = 0; i < n; i++)
		x.frames[i] = MT_FRAME_RAW | (verify << 16) | (hash << 8) | i;
	cr_assert_eq(stacks__define(s, &x, x.r.h.size), 0);
}

static void cell(struct stacks *s, uint64_t hash, char *buf, size_t n)
{
	const struct mt_refs refs = { .c = hash };
	struct stack_cells c;

	stacks__cells(s, 1, 1, 0, &refs, &c);
	snprintf(buf, n, "%.*s", (int)c.c_len, c.c);
}

Test(stack_store, two_stacks_with_one_hash)
{
	struct stacks *s = open_stacks(0);
	struct stacks_stats st;
	char text[4096], again[4096];

	define(s, 5, 1, 2);
	define(s, 6, 1, 2);
	cell(s, 5, text, sizeof(text));
	cr_assert_str_eq(text, "[0x10500]\n[0x10501]\n");
	define(s, 5, 1, 2); /* the same once more */
	stacks__stats(s, &st);
	cr_assert_eq(st.collisions, 0);
	cell(s, 5, again, sizeof(again));
	cr_assert_str_eq(again, text);
	/* From here on an event that names it may mean either: what was shown before is right. */
	define(s, 5, 2, 2);
	cell(s, 5, text, sizeof(text));
	cr_assert_str_eq(text, "(not shown: two stacks have its hash)\n");
	define(s, 5, 1, 2);
	cell(s, 5, text, sizeof(text));
	cr_assert_str_eq(text, "(not shown: two stacks have its hash)\n");
	cell(s, 6, text, sizeof(text));
	cr_assert_str_eq(text, "[0x10600]\n[0x10601]\n");
	stacks__stats(s, &st);
	cr_assert_eq(st.collisions, 1);
	cr_assert_eq(st.kept, 2);
	stacks__free(s);
}

/* ---- given up ---- */

struct told {
	uint64_t n, last;
	unsigned int python;
};

static void on_evict(void *ctx, uint64_t hash, bool python)
{
	struct told *t = ctx;

	t->n++;
	t->last = hash;
	t->python += python;
}

static void add(struct stack_store *s, uint64_t hash, bool python, uint32_t n)
{
	const uint64_t h[2] = { hash, ~hash };
	int err;

	cr_assert(stack_store__add(s, h, python, n, &err), "%d", err);
}

Test(stack_store, those_not_used_go_and_it_is_told)
{
	struct told told = { 0 };
	struct stack_store s = { .max_bytes = 200000, .evict = on_evict, .evict_ctx = &told };
	uint64_t i;

	for (i = 1; i <= 5000; i++) {
		add(&s, i, false, 8);
		cr_assert(stack_store__find(&s, 1, false), "in use, and gone after %zu", (size_t)i);
		cr_assert_leq(s.bytes + s.old_bytes, s.max_bytes);
	}
	cr_assert_gt(s.evicted, 2000);
	cr_assert_eq(s.evicted, told.n);
	cr_assert_eq(s.n[0] + s.evicted, 5000);
	cr_assert_eq(s.frames, s.n[0] * 8);
	cr_assert_null(stack_store__find(&s, told.last, false));
	/* The kernel has been told, and sends it again. */
	add(&s, told.last, false, 8);
	cr_assert(stack_store__find(&s, told.last, false));
	stack_store__free(&s);
}

Test(stack_store, lines_are_bounded)
{
	struct told told = { 0 };
	struct stack_store s = { .max_bytes = 400000, .evict = on_evict, .evict_ctx = &told };
	uint64_t i;
	char text[64];
	size_t most = 0;

	add(&s, 1, false, 8);
	for (i = 2; i <= 20000; i++) {
		stack_store__trim(&s);
		snprintf(text, sizeof(text), "made_up_%zu.py(1): f", (size_t)i);
		cr_assert_neq(stack_store__line(&s, text, strlen(text)), 0);
		cr_assert_eq(stack_store__line(&s, text, strlen(text)), s.n_lines);
		add(&s, i, true, 1);
		most = MT_MAX(most, s.line_bytes);
		cr_assert(stack_store__find(&s, 1, false));
	}
	cr_assert_leq(most, s.max_bytes / 4 + 200);
	cr_assert_gt(most, s.max_bytes / 5);
	cr_assert_gt(told.python, 10000);
	cr_assert_eq(told.python, s.evicted);
	cr_assert_eq(s.n[1] + s.evicted, 19999);
	stack_store__free(&s);
}

/* ---- memory (R64) ---- */

static size_t resident(void)
{
	unsigned long size, rss;
	FILE *f = fopen("/proc/self/statm", "re");

	cr_assert(f && fscanf(f, "%lu %lu", &size, &rss) == 2);
	fclose(f);
	return rss * (size_t)sysconf(_SC_PAGESIZE);
}

Test(stack_store, memory_is_bounded, .timeout = 100)
{
	const size_t bound = 4 << 20, n = 120000;
	size_t before, after, i, most = 0;
	struct stacks *s = open_stacks(bound);
	struct stacks_stats st;
	char text[4096];

	before = resident();
	for (i = 1; i <= n; i++) {
		define(s, i, 1, FRAMES);
		cell(s, i, text, sizeof(text));
		cr_assert_neq(strcmp(text, "NA"), 0);
		if (i % 1000)
			continue;
		stacks__stats(s, &st);
		most = MT_MAX(most, st.bytes);
	}
	after = resident();
	/* 58 MB of stacks and 120 MB of cells went through; cells have 64 MiB. */
	cr_assert_leq(most, bound + (64u << 20));
	cr_assert_gt(st.evicted, n / 2);
	cr_assert_eq(st.kept + st.evicted, n);
	cr_assert_lt(st.kept * FRAMES * 8, bound);
#ifndef __SANITIZE_ADDRESS__ /* it keeps what was freed */
	cr_assert_lt(after - before, most + 3 * bound, "%zu KiB for %zu KiB of content",
		     (after - before) >> 10, most >> 10);
#else
	(void)before;
	(void)after;
#endif
	stacks__free(s);
}
