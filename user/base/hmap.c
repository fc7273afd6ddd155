// SPDX-License-Identifier: Apache-2.0
/* Hash table keyed by two 64-bit words: open addressing, linear probing. */
#include "base.h"

#include <stdlib.h>
#include <string.h>

enum { SLOT_FREE, SLOT_LIVE, SLOT_DEAD };

struct hslot {
	struct hkey k;
	uint64_t v;
	uint64_t state;
};

static uint64_t mix(uint64_t x)
{
	/* Finaliser of splitmix64: cheap, and addresses differ in low bits only. */
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

uint64_t hash__bytes(const void *p, size_t n, uint64_t seed)
{
	const unsigned char *s = p;
	uint64_t h = seed ^ (n * 0x9e3779b97f4a7c15ULL), w;

	for (; n >= 8; n -= 8, s += 8) {
		memcpy(&w, s, 8);
		h = mix(h ^ w);
	}
	w = 0;
	memcpy(&w, s, n);
	return mix(h ^ w);
}

static size_t slot_of(const struct hmap *m, struct hkey k)
{
	return (size_t)(mix(k.a + 0x9e3779b97f4a7c15ULL * k.b)) & (m->cap - 1);
}

static struct hslot *find(const struct hmap *m, struct hkey k)
{
	size_t i;

	if (!m->cap)
		return NULL;
	for (i = slot_of(m, k);; i = (i + 1) & (m->cap - 1)) {
		struct hslot *s = &m->slots[i];

		if (s->state == SLOT_FREE)
			return NULL;
		if (s->state == SLOT_LIVE && s->k.a == k.a && s->k.b == k.b)
			return s;
	}
}

uint64_t *hmap__get(const struct hmap *m, struct hkey k)
{
	struct hslot *s = find(m, k);

	return s ? &s->v : NULL;
}

static int resize(struct hmap *m)
{
	struct hmap n = { .cap = 64 };
	size_t i, j;

	while (n.cap < m->n * 3)
		n.cap *= 2;
	n.slots = calloc(n.cap, sizeof(*n.slots));
	if (!n.slots)
		return -1;
	for (i = 0; i < m->cap; i++) {
		if (m->slots[i].state != SLOT_LIVE)
			continue;
		j = slot_of(&n, m->slots[i].k);
		while (n.slots[j].state != SLOT_FREE)
			j = (j + 1) & (n.cap - 1);
		n.slots[j] = m->slots[i];
	}
	n.n = n.used = m->n;
	free(m->slots);
	*m = n;
	return 0;
}

uint64_t *hmap__put(struct hmap *m, struct hkey k, bool *fresh)
{
	struct hslot *s = find(m, k);
	size_t i;

	if (fresh)
		*fresh = !s;
	if (s)
		return &s->v;
	if ((m->used + 1) * 3 > m->cap * 2 && resize(m))
		return NULL;
	for (i = slot_of(m, k); m->slots[i].state == SLOT_LIVE;)
		i = (i + 1) & (m->cap - 1);
	s = &m->slots[i];
	if (s->state == SLOT_FREE)
		m->used++;
	m->n++;
	*s = (struct hslot){ .k = k, .state = SLOT_LIVE };
	return &s->v;
}

bool hmap__del(struct hmap *m, struct hkey k, uint64_t *v)
{
	struct hslot *s = find(m, k);
	size_t next;

	if (!s)
		return false;
	if (v)
		*v = s->v;
	m->n--;
	/* A slot before a free one ends no chain: no tombstone needed. */
	next = ((size_t)(s - m->slots) + 1) & (m->cap - 1);
	if (m->slots[next].state == SLOT_FREE) {
		s->state = SLOT_FREE;
		m->used--;
	} else {
		s->state = SLOT_DEAD;
	}
	return true;
}

bool hmap__next(const struct hmap *m, size_t *pos, struct hkey *k, uint64_t *v)
{
	for (; *pos < m->cap; (*pos)++) {
		const struct hslot *s = &m->slots[*pos];

		if (s->state != SLOT_LIVE)
			continue;
		if (k)
			*k = s->k;
		if (v)
			*v = s->v;
		(*pos)++;
		return true;
	}
	return false;
}

void hmap__free(struct hmap *m)
{
	free(m->slots);
	memset(m, 0, sizeof(*m));
}
