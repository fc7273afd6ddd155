// SPDX-License-Identifier: Apache-2.0
/*
 * The shortest edit of two sequences: Myers' greedy O(ND) algorithm. To go
 * back over the rounds, every 256th is kept and those between are computed
 * once more: memory grows with D^1, not with D^2.
 */
#include "analyze/internal.h"

#include <errno.h>

#define BLOCK 256u

struct myers {
	const uint32_t *a, *b;
	size_t n, m;
	uint32_t **kept; /* rounds 0, BLOCK, 2 * BLOCK … */
	size_t n_kept, cap_kept;
	uint32_t *rows[BLOCK]; /* of the block that is looked at */
	size_t block; /* which one; SIZE_MAX: none */
};

/* Of round d there are the furthest x on the diagonals -d, -d + 2 … d. */
static uint32_t snake(const struct myers *s, uint32_t x, int64_t k)
{
	int64_t y = (int64_t)x - k;

	while (x < s->n && y < (int64_t)s->m && s->a[x] == s->b[y]) {
		x++;
		y++;
	}
	return x;
}

static bool goes_down(const uint32_t *prev, size_t d, size_t i)
{
	return !i || (i != d && prev[i - 1] < prev[i]);
}

/* Round d from the one before. True: an end is reached at index *at. */
static bool advance(const struct myers *s, const uint32_t *prev, size_t d, uint32_t *next,
		    size_t *at)
{
	size_t i;

	for (i = 0; i <= d; i++) {
		int64_t k = 2 * (int64_t)i - (int64_t)d;
		uint32_t x = !d ? 0 : goes_down(prev, d, i) ? prev[i] : prev[i - 1] + 1;

		/* A diagonal beyond the corner has nothing more to find. */
		next[i] = snake(s, x, k);
		if (next[i] >= s->n && (int64_t)next[i] - k >= (int64_t)s->m) {
			*at = i;
			return true;
		}
	}
	return false;
}

static int keep(struct myers *s, const uint32_t *row, size_t d)
{
	uint32_t *copy;

	if (d % BLOCK)
		return 0;
	copy = malloc((d + 1) * sizeof(*copy));
	if (!copy || !VEC_GROW(s->kept, s->n_kept, s->cap_kept)) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, row, (d + 1) * sizeof(*copy));
	s->kept[s->n_kept++] = copy;
	return 0;
}

static int forward(struct myers *s, size_t max_d, size_t *found)
{
	size_t cap = MT_MIN(max_d, s->n + s->m) + 2, d, at;
	uint32_t *rows[2] = { malloc(cap * sizeof(uint32_t)), malloc(cap * sizeof(uint32_t)) };
	int err = rows[0] && rows[1] ? 0 : -ENOMEM;

	for (d = 0; !err; d++) {
		if (d > max_d) {
			err = -E2BIG;
			break;
		}
		if (advance(s, rows[(d + 1) & 1], d, rows[d & 1], &at)) {
			*found = d;
			break;
		}
		err = keep(s, rows[d & 1], d);
	}
	free(rows[0]);
	free(rows[1]);
	return err;
}

static void drop_block(struct myers *s)
{
	unsigned int i;

	for (i = 1; i < BLOCK; i++) {
		free(s->rows[i]);
		s->rows[i] = NULL;
	}
	s->block = SIZE_MAX;
}

/* Round d, computed again with those beside it; `last`: none behind it is wanted. */
static const uint32_t *round_of(struct myers *s, size_t d, size_t last)
{
	size_t block = d / BLOCK, first = block * BLOCK, i, at;

	if (s->block != block) {
		drop_block(s);
		s->rows[0] = s->kept[block];
		for (i = 1; i < BLOCK && first + i <= last; i++) {
			s->rows[i] = malloc((first + i + 1) * sizeof(uint32_t));
			if (!s->rows[i])
				return NULL;
			advance(s, s->rows[i - 1], first + i, s->rows[i], &at);
		}
		s->block = block;
	}
	return s->rows[d - first];
}

static int backward(struct myers *s, size_t d, uint8_t *edits, size_t *n_edits)
{
	size_t x = s->n, y = s->m, px, py, n = 0, i;
	const uint32_t *prev;

	for (; d; d--) {
		prev = round_of(s, d - 1, d - 1);
		if (!prev)
			return -ENOMEM;
		i = (x + d - y) / 2;
		if (goes_down(prev, d, i)) {
			px = prev[i];
			py = px + (d - 1) - 2 * i;
		} else {
			px = prev[i - 1];
			py = px + (d - 1) - 2 * (i - 1);
		}
		for (; x > px && y > py; x--, y--)
			edits[n++] = EDIT_SAME;
		edits[n++] = x == px ? EDIT_ADD : EDIT_DELETE;
		x = px;
		y = py;
	}
	for (; x && y; x--, y--)
		edits[n++] = EDIT_SAME;
	*n_edits = n;
	for (i = 0; i < n / 2; i++) {
		uint8_t t = edits[i];

		edits[i] = edits[n - 1 - i];
		edits[n - 1 - i] = t;
	}
	return 0;
}

int myers__diff(const uint32_t *a, size_t n, const uint32_t *b, size_t m, size_t max_d,
		uint8_t **edits, size_t *n_edits)
{
	struct myers s = { .a = a, .b = b, .n = n, .m = m, .block = SIZE_MAX };
	size_t d = 0, i;
	int err;

	*edits = NULL;
	*n_edits = 0;
	if (n > UINT32_MAX / 4 || m > UINT32_MAX / 4)
		return -E2BIG;
	err = forward(&s, max_d, &d);
	if (!err) {
		*edits = malloc(n + m + 1);
		err = *edits ? backward(&s, d, *edits, n_edits) : -ENOMEM;
	}
	if (err) {
		free(*edits);
		*edits = NULL;
	}
	drop_block(&s);
	for (i = 0; i < s.n_kept; i++)
		free(s.kept[i]);
	free(s.kept);
	return err;
}
