// SPDX-License-Identifier: Apache-2.0
/* Readings of objects that nobody takes: how many are kept, and what is said of the rest. */
#include <criterion/criterion.h>

#include "../../user/objects/readings.c" /* NOLINT(bugprone-suspicious-include) */

static void hand(struct readings *r, size_t n, uint64_t t1)
{
	struct reading *g = calloc(1, sizeof(*g));

	cr_assert(g);
	g->n = n;
	g->t1 = t1;
	hand_out(r, g);
}

/* The oldest go first, by their number and by what they hold; all that went are counted. */
Test(readings, nobody_takes_them)
{
	struct readings r = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct reading *g;
	uint64_t i;

	for (i = 1; i <= 100; i++)
		hand(&r, 1, i);
	cr_expect_eq(r.waiting, 64);
	cr_expect_eq(r.counts.failed, 36);
	g = readings__take(&r);
	cr_assert(g);
	cr_expect_eq(g->t1, 37);
	reading__free(g);
	cr_expect_eq(r.held, 63);
	/* Each of as many as one reading may have. */
	for (; i <= 110; i++)
		hand(&r, 4u << 20, i);
	cr_expect_eq(r.waiting, 2);
	cr_expect_eq(r.held, 8u << 20);
	cr_expect_eq(r.counts.failed, 36 + 63 + 8);
	for (i = 109; (g = readings__take(&r)); i++) {
		cr_expect_eq(g->t1, i);
		reading__free(g);
	}
	cr_expect_eq(r.waiting + r.held, 0);
	/* Alone it is kept, however large. */
	hand(&r, 9u << 20, 1);
	cr_expect_eq(r.waiting, 1);
	reading__free(readings__take(&r));
}
