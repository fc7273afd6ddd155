// SPDX-License-Identifier: Apache-2.0
/* Ranges of the entries of an array: first fit, neighbours are joined. */
#include "symbol/spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int spans__init(struct spans *s, uint32_t n)
{
	*s = (struct spans){ .cap = 16 };
	s->free = malloc(s->cap * sizeof(*s->free));
	if (!s->free)
		return -ENOMEM;
	s->free[s->n++] = (struct span){ 0, n };
	return 0;
}

void spans__fini(struct spans *s)
{
	free(s->free);
	*s = (struct spans){ 0 };
}

static void drop(struct spans *s, uint32_t i)
{
	memmove(s->free + i, s->free + i + 1, (--s->n - i) * sizeof(*s->free));
}

int spans__take(struct spans *s, uint32_t n, uint32_t *first)
{
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		if (s->free[i].n < n)
			continue;
		*first = s->free[i].first;
		s->free[i].first += n;
		s->free[i].n -= n;
		if (!s->free[i].n)
			drop(s, i);
		return 0;
	}
	return -ENOSPC;
}

int spans__give(struct spans *s, uint32_t first, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < s->n && s->free[i].first < first; i++)
		;
	if (i && s->free[i - 1].first + s->free[i - 1].n == first) {
		s->free[i - 1].n += n;
		if (i < s->n && s->free[i].first == first + n) {
			s->free[i - 1].n += s->free[i].n;
			drop(s, i);
		}
		return 0;
	}
	if (i < s->n && s->free[i].first == first + n) {
		s->free[i].first = first;
		s->free[i].n += n;
		return 0;
	}
	if (s->n == s->cap) {
		uint32_t cap = s->cap ? 2 * s->cap : 16;
		void *more = realloc(s->free, cap * sizeof(*s->free));

		if (!more)
			return -ENOMEM;
		s->free = more;
		s->cap = cap;
	}
	memmove(s->free + i + 1, s->free + i, (s->n++ - i) * sizeof(*s->free));
	s->free[i] = (struct span){ first, n };
	return 0;
}
