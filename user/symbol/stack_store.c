// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks by their hash, each once, within a bound: two generations, of which the
 * older one goes when the younger one has half of the room; what is still in use
 * has become young before. Lines of Python have a quarter more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/stacks_internal.h"

static struct hkey key_of(uint64_t hash, bool python)
{
	return (struct hkey){ hash, python };
}

static size_t size_of(bool python, uint32_t n)
{
	/* With its place in the table of all. */
	return sizeof(struct kept) + sizeof(struct hkey) + 16 +
	       n * (python ? sizeof(uint32_t) + 1 : sizeof(uint64_t));
}

static size_t kept_size(const struct kept *k)
{
	return size_of(k->key.b, k->placed ? 2U * k->n : k->n);
}

static void forget(struct stack_store *s, struct kept *k)
{
	if (s->evict)
		s->evict(s->evict_ctx, k->key.a, k->key.b);
	s->n[k->key.b]--;
	if (!k->key.b) {
		s->frames -= k->n;
		s->guessed -= k->guessed > 0;
	}
	s->evicted++;
	free(k);
}

/* All that is old goes, all that is young is old. */
static void age(struct stack_store *s)
{
	struct hmap young = { 0 };
	size_t pos = 0;
	struct hkey key;
	uint64_t v;

	while (hmap__next(&s->by_hash, &pos, &key, &v)) {
		struct kept *k = (struct kept *)(uintptr_t)v;
		uint64_t *to = k->young ? hmap__put(&young, key, NULL) : NULL;

		if (!to) {
			forget(s, k);
			continue;
		}
		k->young = false;
		*to = v;
	}
	hmap__free(&s->by_hash);
	s->by_hash = young;
	s->old_bytes = s->bytes;
	s->bytes = 0;
}

/* Lines go only all together, with the stacks that have them: names that are made up have no end.
 */
static void forget_lines(struct stack_store *s)
{
	struct hmap rest = { 0 };
	size_t pos = 0;
	struct hkey key;
	uint64_t v, *to;
	uint32_t i;

	while (hmap__next(&s->by_hash, &pos, &key, &v)) {
		struct kept *k = (struct kept *)(uintptr_t)v;

		to = key.b ? NULL : hmap__put(&rest, key, NULL);
		if (to) {
			*to = v;
			continue;
		}
		*(k->young ? &s->bytes : &s->old_bytes) -= size_of(key.b, k->n);
		forget(s, k);
	}
	hmap__free(&s->by_hash);
	s->by_hash = rest;
	hmap__free(&s->by_line);
	for (i = 0; i < s->n_lines; i++)
		free(s->lines[i]);
	free(s->lines);
	s->lines = NULL;
	s->n_lines = s->cap_lines = 0;
	s->line_bytes = 0;
}

static void touch(struct stack_store *s, struct kept *k)
{
	size_t size = kept_size(k);

	if (k->young)
		return;
	k->young = true;
	s->old_bytes -= size;
	s->bytes += size;
}

struct kept *stack_store__find(struct stack_store *s, uint64_t hash, bool python)
{
	uint64_t *v = hmap__get(&s->by_hash, key_of(hash, python));
	struct kept *k = v ? (struct kept *)(uintptr_t)*v : NULL;

	if (k)
		touch(s, k);
	return k;
}

int stack_store__known(struct stack_store *s, const uint64_t hash[2], bool python)
{
	struct kept *k = stack_store__find(s, hash[0], python);

	if (!k)
		return 0;
	if (k->verify == hash[1])
		return -EEXIST;
	s->collisions++;
	if (k->clash)
		return -EEXIST;
	k->clash = true;
	return -EALREADY;
}

void stack_store__trim(struct stack_store *s)
{
	if (s->line_bytes > s->max_bytes / 4)
		forget_lines(s);
}

struct kept *stack_store__add(struct stack_store *s, const uint64_t hash[2], bool python,
			      uint32_t n, int *err)
{
	struct kept *k;
	uint64_t *v;

	*err = stack_store__known(s, hash, python);
	if (*err)
		return NULL;
	*err = -ENOMEM;
	if (s->bytes + size_of(python, n) > s->max_bytes / 2)
		age(s);
	k = calloc(1, size_of(python, n));
	v = k ? hmap__put(&s->by_hash, key_of(hash[0], python), NULL) : NULL;
	if (!v) {
		free(k);
		return NULL;
	}
	*v = (uint64_t)(uintptr_t)k;
	k->key = key_of(hash[0], python);
	k->verify = hash[1];
	k->n = (uint16_t)n;
	k->young = true;
	s->bytes += size_of(python, n);
	s->n[python]++;
	if (!python)
		s->frames += n;
	*err = 0;
	return k;
}

struct kept *stack_store__grow(struct stack_store *s, struct kept *k, uint32_t n)
{
	uint64_t *v = hmap__get(&s->by_hash, k->key);
	struct kept *more = v ? calloc(1, size_of(false, 2 * n)) : NULL;

	if (!more)
		return NULL;
	touch(s, k);
	s->bytes -= kept_size(k);
	s->frames += n;
	s->frames -= k->n;
	*more = *k;
	more->n = (uint16_t)n;
	more->placed = true;
	s->bytes += kept_size(more);
	*v = (uint64_t)(uintptr_t)more;
	free(k);
	return more;
}

uint32_t stack_store__line(struct stack_store *s, const char *text, size_t len)
{
	struct hkey k = { hash__bytes(text, len, 5), hash__bytes(text, len, 6) };
	uint64_t *v = hmap__get(&s->by_line, k);
	char *copy;

	if (v)
		return (uint32_t)*v;
	if (s->n_lines == s->cap_lines) {
		uint32_t cap = s->cap_lines ? s->cap_lines * 2 : 1024;
		void *more = realloc(s->lines, cap * sizeof(*s->lines));

		if (!more)
			return 0;
		s->lines = more;
		s->cap_lines = cap;
	}
	copy = strndup(text, len);
	v = copy ? hmap__put(&s->by_line, k, NULL) : NULL;
	if (!v) {
		free(copy);
		return 0;
	}
	s->lines[s->n_lines++] = copy;
	s->line_bytes += len + 1 + sizeof(copy) + sizeof(struct hkey) + 16;
	*v = s->n_lines;
	return s->n_lines;
}

void stack_store__free(struct stack_store *s)
{
	size_t pos = 0;
	struct hkey key;
	uint64_t v;
	uint32_t i;

	while (hmap__next(&s->by_hash, &pos, &key, &v))
		free((struct kept *)(uintptr_t)v);
	hmap__free(&s->by_hash);
	hmap__free(&s->by_line);
	for (i = 0; i < s->n_lines; i++)
		free(s->lines[i]);
	free(s->lines);
}
