// SPDX-License-Identifier: Apache-2.0
/* Texts by number: each different text is held once. */
#include "model/item.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define CHUNK (1u << 20)

struct text {
	const char *s;
	uint32_t len, hash;
};

struct texts {
	struct text *list; /* [0] is "" */
	uint32_t *slots; /* numbers, 0 = free; a power of two of them */
	size_t n, cap, n_slots;
	char **chunks;
	size_t n_chunks, cap_chunks, room, bytes, max;
	char *next;
	uint32_t last; /* most texts come twice in a row */
};

struct texts *texts__new(size_t max_bytes)
{
	struct texts *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->max = max_bytes;
	t->cap = 256;
	t->n_slots = 1024;
	t->list = calloc(t->cap, sizeof(*t->list));
	t->slots = calloc(t->n_slots, sizeof(*t->slots));
	if (!t->list || !t->slots) {
		texts__free(t);
		return NULL;
	}
	t->list[0].s = "";
	t->n = 1;
	return t;
}

void texts__free(struct texts *t)
{
	size_t i;

	if (!t)
		return;
	for (i = 0; i < t->n_chunks; i++)
		free(t->chunks[i]);
	free(t->chunks);
	free(t->list);
	free(t->slots);
	free(t);
}

static char *keep(struct texts *t, const char *s, size_t n)
{
	char *p;

	if (n + 1 > t->room) {
		size_t size = MT_MAX(n + 1, (size_t)CHUNK);

		if (t->n_chunks == t->cap_chunks) {
			size_t cap = t->cap_chunks ? t->cap_chunks * 2 : 16;
			char **c = reallocarray(t->chunks, cap, sizeof(*c));

			if (!c)
				return NULL;
			t->chunks = c;
			t->cap_chunks = cap;
		}
		p = malloc(size);
		if (!p)
			return NULL;
		t->chunks[t->n_chunks++] = p;
		t->next = p;
		t->room = size;
	}
	p = t->next;
	memcpy(p, s, n);
	p[n] = '\0';
	t->next += n + 1;
	t->room -= n + 1;
	t->bytes += n + 1 + sizeof(struct text);
	return p;
}

static int grow(struct texts *t)
{
	uint32_t *slots;
	size_t i, k, n_slots = t->n_slots * 2;

	if (t->n == t->cap) {
		struct text *l = reallocarray(t->list, t->cap * 2, sizeof(*l));

		if (!l)
			return -ENOMEM;
		t->list = l;
		t->cap *= 2;
	}
	if (t->n * 2 < t->n_slots)
		return 0;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (i = 1; i < t->n; i++) {
		for (k = t->list[i].hash & (n_slots - 1); slots[k]; k = (k + 1) & (n_slots - 1))
			;
		slots[k] = (uint32_t)i;
	}
	free(t->slots);
	t->slots = slots;
	t->n_slots = n_slots;
	return 0;
}

static bool is(const struct text *x, const char *s, size_t n)
{
	return x->len == n && !memcmp(x->s, s, n);
}

uint32_t texts__put(struct texts *t, const char *s, size_t n, int *err)
{
	uint32_t h;
	size_t k;
	char *p;

	if (t->last && is(&t->list[t->last], s, n))
		return t->last;
	h = (uint32_t)hash__bytes(s, n, 0);
	for (k = h & (t->n_slots - 1); t->slots[k]; k = (k + 1) & (t->n_slots - 1)) {
		const struct text *x = &t->list[t->slots[k]];

		if (x->hash == h && is(x, s, n))
			return t->last = t->slots[k];
	}
	if (t->bytes + n > t->max || n > UINT32_MAX / 2 || t->n >= UINT32_MAX / 2) {
		*err = -E2BIG;
		return 0;
	}
	p = keep(t, s, n);
	*err = p ? grow(t) : -ENOMEM;
	if (*err)
		return 0;
	for (k = h & (t->n_slots - 1); t->slots[k]; k = (k + 1) & (t->n_slots - 1))
		;
	t->list[t->n] = (struct text){ p, (uint32_t)n, h };
	t->slots[k] = (uint32_t)t->n;
	return t->last = (uint32_t)t->n++;
}

const char *texts__get(const struct texts *t, uint32_t number, size_t *n)
{
	const struct text *x = &t->list[number < t->n ? number : 0];

	if (n)
		*n = x->len;
	return x->s;
}

uint32_t texts__count(const struct texts *t)
{
	return (uint32_t)t->n - 1;
}
