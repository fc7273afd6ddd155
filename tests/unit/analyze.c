// SPDX-License-Identifier: Apache-2.0
/* Analyses fed by hand, without files: what live callers rely on, and their limits. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "analyze/internal.h"

static size_t longest_common(const uint32_t *a, size_t n, const uint32_t *b, size_t m)
{
	size_t *row = calloc(m + 1, sizeof(*row)), i, k, diagonal, up, best;

	cr_assert(row);
	for (i = 0; i < n; i++) {
		for (k = 1, diagonal = 0; k <= m; k++, diagonal = up) {
			up = row[k];
			row[k] = a[i] == b[k - 1] ? diagonal + 1 : MT_MAX(row[k], row[k - 1]);
		}
	}
	best = row[m];
	free(row);
	return best;
}

/* The edits make b of a, and no fewer would do. */
static void diff(size_t n, size_t m, unsigned int words)
{
	uint32_t a[2000], b[2000];
	size_t i, x = 0, y = 0, same = 0, n_edits;
	uint8_t *edits;

	for (i = 0; i < n; i++)
		a[i] = (uint32_t)rand() % words;
	for (i = 0; i < m; i++)
		b[i] = (uint32_t)rand() % words;
	cr_assert_eq(myers__diff(a, n, b, m, n + m, &edits, &n_edits), 0);
	for (i = 0; i < n_edits; i++) {
		if (edits[i] == EDIT_SAME) {
			cr_assert_eq(a[x], b[y]);
			same++;
		}
		x += edits[i] != EDIT_ADD;
		y += edits[i] != EDIT_DELETE;
	}
	cr_expect_eq(x, n);
	cr_expect_eq(y, m);
	cr_expect_eq(same, longest_common(a, n, b, m));
	free(edits);
}

Test(myers, finds_the_fewest_edits)
{
	unsigned int i;

	srand(11);
	for (i = 0; i < 300; i++)
		diff((size_t)rand() % 40, (size_t)rand() % 40, 1 + (unsigned int)rand() % 6);
	/* Over several blocks of rounds that are computed again. */
	diff(2000, 1900, 2000);
	diff(1500, 2000, 40);
	diff(0, 1500, 3);
}

Test(myers, has_a_limit)
{
	uint32_t a[100] = { 0 }, b[100];
	uint8_t *edits;
	size_t i, n;

	for (i = 0; i < 100; i++)
		b[i] = 1 + (uint32_t)i;
	cr_expect_eq(myers__diff(a, 100, b, 100, 199, &edits, &n), -E2BIG);
	cr_expect_null(edits);
	cr_assert_eq(myers__diff(a, 100, b, 100, 200, &edits, &n), 0);
	cr_expect_eq(n, 200);
	free(edits);
}

static struct item item(uint64_t time, enum row_event e, enum row_type t)
{
	return (struct item){ .time = time,
			      .id = time,
			      .pid = 7,
			      .tid = 7,
			      .event = (uint8_t)e,
			      .type = (uint8_t)t,
			      .pool = (uint8_t)t };
}

static struct item block(uint64_t time, enum row_event e, uint64_t ptr)
{
	struct item it = item(time, e, ROW_PTA);

	it.ptr = ptr;
	it.size = 512;
	return it;
}

/* Results are there at any time after the end, once; what is fed has no file. */
Test(leaks, without_a_file)
{
	struct texts *texts = texts__new(4096);
	struct leaks *l = leaks__new(texts);
	struct item it;
	uint64_t time = 1, step, steps, open;
	int err = 0;
	size_t n;

	cr_assert(texts && l);
	for (step = 1; step <= 4; step++) {
		it = item(time++, ROW_MSTX, ROW_RANGE_START);
		it.name = texts__put(texts, "step start", 10, &err);
		cr_assert_eq(leaks__item(l, &it), 0);
		it = block(time++, ROW_MALLOC, step * 4096);
		cr_assert_eq(leaks__item(l, &it), 0);
		if (step == 3) { /* of the step before: it does not outlive this one */
			it = block(time++, ROW_FREE, 2 * 4096);
			cr_assert_eq(leaks__item(l, &it), 0);
		}
		it = item(time++, ROW_MSTX, ROW_RANGE_END);
		cr_assert_eq(leaks__item(l, &it), 0); /* no id: the innermost */
	}
	cr_assert_eq(leaks__finish(l), 0);
	cr_expect_eq(leaks__list(l, &n)->ptr, 3 * 4096);
	cr_expect_eq(n, 1);
	leaks__steps(l, &steps, &open);
	cr_expect_eq(steps, 4);
	cr_expect_eq(open, 0);
	leaks__free(l);
	texts__free(texts);
}

/* A place is used again for another block: the old one's leak is not the new one's. */
Test(leaks, of_a_place_used_again)
{
	struct texts *texts = texts__new(4096);
	struct leaks *l = leaks__new(texts);
	uint64_t time = 1, step;
	struct item it;
	int err = 0;
	size_t n, i;

	for (step = 1; step <= 50; step++) {
		it = item(time++, ROW_MSTX, ROW_RANGE_START);
		it.name = texts__put(texts, "step start", 10, &err);
		cr_assert_eq(leaks__item(l, &it), 0);
		for (i = 1; i <= 20; i++) {
			if (step > 1 && i > 1) {
				it = block(time++, ROW_FREE, i * 4096);
				cr_assert_eq(leaks__item(l, &it), 0);
			}
			if (step == 1 || i > 1) {
				it = block(time++, ROW_MALLOC, i * 4096);
				cr_assert_eq(leaks__item(l, &it), 0);
			}
		}
		it = item(time++, ROW_MSTX, ROW_RANGE_END);
		cr_assert_eq(leaks__item(l, &it), 0);
	}
	cr_assert_eq(leaks__finish(l), 0);
	leaks__list(l, &n);
	cr_expect_eq(n, 0, "%zu", n);
	leaks__free(l);
	texts__free(texts);
}

/* Steps of two threads that overlap: each end is that of its own step. */
Test(steps, that_overlap)
{
	static const struct {
		bool begin;
		uint32_t tid;
		const char *id;
		uint64_t number;
	} marks[] = { { true, 7, NULL, 1 }, { true, 8, NULL, 2 }, { false, 7, "1", 1 },
		      { true, 7, NULL, 3 }, { false, 7, "3", 3 }, { false, 8, "2", 2 } };
	struct texts *texts = texts__new(4096);
	struct steps *s = steps__new(texts);
	struct step_change c[2];
	struct item it;
	char name[64];
	int err = 0;
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(marks); i++) {
		it = item(i + 1, ROW_MSTX, marks[i].begin ? ROW_RANGE_START : ROW_RANGE_END);
		it.tid = marks[i].tid;
		snprintf(name, sizeof(name), "%s%s",
			 marks[i].begin ? "step start" : "Range end from id ",
			 marks[i].begin ? "" : marks[i].id);
		it.name = texts__put(texts, name, strlen(name), &err);
		cr_assert_eq(steps__item(s, &it, c), 1, "mark %zu", i);
		cr_expect_eq(c[0].begin, marks[i].begin);
		cr_expect_eq(c[0].number, marks[i].number, "mark %zu", i);
	}
	steps__free(s);
	texts__free(texts);
}

/* More labels than are held are one; that none fits any more is no error. */
Test(decompose, labels_without_end)
{
	/* Of this length so many fit that the last one fills the table to its last byte. */
	enum { LENGTH = 656, LABELS = 26000 };
	struct texts *texts = texts__new(64u << 20);
	struct rules *rules = rules__new();
	struct decompose_opts opts = { 0 };
	struct decompose *d;
	const struct owner_pool *pools;
	const struct owned *owned;
	char label[LENGTH + 1];
	struct item read = block(1, ROW_MALLOC, 4096);
	size_t n, i, more = 0, groups = 0;
	int err = 0;

	cr_assert(texts && rules);
	d = decompose__new(rules, texts, &opts);
	cr_assert(d);
	for (i = 0; i < LABELS; i++) {
		struct item it = block(i + 1, ROW_MALLOC, (i + 1) * 4096);

		snprintf(label, sizeof(label), "x@%0*zu", LENGTH - 2, i);
		it.owner = texts__put(texts, label, LENGTH, &err);
		cr_assert_eq(err, 0);
		cr_assert_eq(decompose__item(d, &it), 0);
		it.event = ROW_FREE;
		cr_assert_eq(decompose__item(d, &it), 0, "label %zu", i);
	}
	/* So is one that was read from Python objects. */
	read.alloc = 1;
	cr_assert_eq(decompose__told(d, &read, label, 1), 0);
	cr_assert_eq(decompose__item(d, &read), 0);
	cr_assert_eq(decompose__finish(d), 0);
	pools = decompose__pools(d, &n);
	cr_assert_eq(n, 1);
	owned = decompose__owned(d);
	for (i = 0; i < pools[0].n; i++)
		if (!strcmp(owned[i].label, "…")) {
			more += (size_t)owned[i].all.blocks;
			groups++;
		}
	cr_expect_gt(more, 1);
	cr_expect_eq(groups, 2); /* stated, and read */
	cr_expect_eq(more + pools[0].n - groups, LABELS + 1);
	decompose__free(d);
	rules__free(rules);
	texts__free(texts);
}

/* ---- inefficient memory while it is recorded ---- */

static char told[512];

static void on_mark(void *ctx, const struct ineff_block *b)
{
	size_t n = strlen(told);
	unsigned int i;

	cr_expect_eq(ctx, told);
	n += (size_t)snprintf(told + n, sizeof(told) - n, "%u:%llx", b->pid, (unsigned long long)b->ptr);
	for (i = 0; i < b->n_kinds; i++)
		n += (size_t)snprintf(told + n, sizeof(told) - n, "%c%s", i ? ',' : '=',
				      ineff__name((enum ineff)b->kinds[i]));
	snprintf(told + n, sizeof(told) - n, " ");
}

/* One operator with one event of a block, told by its address as a recording does; 0: none. */
static void call(struct inefficient *x, uint32_t pid, enum row_event event, uint64_t ptr)
{
	struct item it = { .pid = pid, .event = ROW_OP_LAUNCH, .type = ROW_ATEN_START };
	struct item b = { .pid = pid, .event = (uint8_t)event, .ptr = ptr, .size = 512, .pool = ROW_PTA, .type = ROW_PTA };

	cr_assert_eq(inefficient__item(x, &it), 0);
	if (ptr)
		cr_assert_eq(inefficient__item(x, &b), 0);
	it.type = ROW_ATEN_END;
	cr_assert_eq(inefficient__item(x, &it), 0);
}

Test(inefficient, live)
{
	struct inefficient *x = inefficient__new(3, 0);
	struct item shadow = { .pid = 5, .event = ROW_FREE, .ptr = 0x3000, .pool = ROW_PTA, .flags = ITEM_SHADOW };
	size_t n;

	told[0] = '\0';
	inefficient__live(x, on_mark, told);
	call(x, 5, ROW_MALLOC, 0x1000);
	call(x, 5, ROW_MALLOC, 0x2000);
	call(x, 5, ROW_FREE, 0x2000);
	cr_expect_str_eq(told, "");
	/* At the access, and with what it was before at the free. */
	call(x, 5, ROW_ACCESS, 0x1000);
	cr_expect_str_eq(told, "5:1000=early_allocation ");
	call(x, 5, ROW_MALLOC, 0x3000);
	call(x, 5, ROW_FREE, 0x1000);
	cr_expect_str_eq(told, "5:1000=early_allocation 5:1000=early_allocation,late_deallocation ");
	/* Nothing is kept of it: the same address is another block. */
	told[0] = '\0';
	call(x, 5, ROW_MALLOC, 0x1000);
	call(x, 5, ROW_ACCESS, 0x1000);
	cr_expect_str_eq(told, "");
	/* Made up at the end: not called late. */
	call(x, 5, ROW_ACCESS, 0x3000);
	told[0] = '\0';
	call(x, 5, ROW_MALLOC, 0x4000);
	call(x, 5, ROW_ACCESS, 0);
	cr_assert_eq(inefficient__item(x, &shadow), 0);
	cr_expect_str_eq(told, "");
	/* Of a process that has ended nothing is known, of others all. */
	call(x, 6, ROW_MALLOC, 0x1000);
	call(x, 6, ROW_MALLOC, 0x2000);
	call(x, 6, ROW_FREE, 0x2000);
	inefficient__forget(x, 5);
	call(x, 5, ROW_ACCESS, 0x1000);
	cr_expect_str_eq(told, "");
	call(x, 6, ROW_ACCESS, 0x1000);
	cr_expect_str_eq(told, "6:1000=early_allocation ");
	cr_assert_eq(inefficient__finish(x), 0);
	inefficient__list(x, &n);
	cr_expect_eq(n, 0);
	inefficient__free(x);
}
