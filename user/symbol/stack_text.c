// SPDX-License-Identifier: Apache-2.0
/* Cells of rows: made once for each stack of a process, kept within a bound. */
#include <stdlib.h>
#include <string.h>

#include "symbol/stacks_internal.h"

#define TEXTS_MAX (64u << 20)

void stack_text__forget(struct stacks *s)
{
	size_t pos = 0;
	struct hkey k;
	uint64_t v;

	while (hmap__next(&s->texts, &pos, &k, &v)) {
		struct text *t = (struct text *)(uintptr_t)v;

		free(t->data);
		free(t);
	}
	hmap__free(&s->texts);
	s->text_bytes = 0;
}

/* One of c, py or (mixed) both; a stack that is not known leaves the cell NA. */
static struct text *make_text(struct stacks *s, const struct sproc *p, const struct kept *c,
			      const struct kept *py, bool python)
{
	struct text *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	strbuf__reset(&s->sb);
	if ((c && c->clash) || (py && py->clash)) {
		strbuf__puts(&s->sb, "(not shown: two stacks have its hash)\n");
		t->merge = STACK_CLASH;
	} else if (python) {
		stack_cell__python(s, py, &s->sb);
	} else if (s->opts.mixed) {
		t->merge = stack_mixed__cell(s, p, c, py, &s->sb);
	} else {
		stack_cell__c(s, p, c, &s->sb);
	}
	t->data = malloc(s->sb.len + 1);
	if (!t->data || s->sb.failed) {
		s->sb.failed = false;
		free(t->data);
		free(t);
		return NULL;
	}
	memcpy(t->data, s->sb.data, s->sb.len);
	t->len = s->sb.len;
	s->text_bytes += t->len + sizeof(*t) + 32;
	return t;
}

/* Cells of C alone, of Python alone and of both have keys that do not meet. */
static struct hkey text_key(const struct sproc *p, uint64_t c, uint64_t py)
{
	const uint64_t v[] = { c, py };

	return (struct hkey){ hash__bytes(v, sizeof(v), 7),
			      hash__bytes(v, sizeof(v), 8) ^ (uint64_t)(uintptr_t)p };
}

/* The text of a C stack, a Python stack, or both in a process; NULL: it is not known. */
static const struct text *text_of(struct stacks *s, const struct sproc *p, uint64_t c, uint64_t py,
				  bool python)
{
	struct hkey key = text_key(p, c, py);
	const struct kept *k[2] = { NULL, NULL };
	uint64_t *v;

	if (python ? !py : !c)
		return NULL;
	v = hmap__get(&s->texts, key);
	if (v)
		return (const struct text *)(uintptr_t)*v;
	if (c)
		k[0] = stack_store__find(&s->store, c, false);
	if (py)
		k[1] = stack_store__find(&s->store, py, true);
	if (!k[python]) {
		s->unknown++;
		return NULL;
	}
	/* It may arrive yet: this cell is made without it, and not remembered as that of both. */
	if (!python && py && !k[1])
		return text_of(s, p, c, 0, false);
	v = hmap__put(&s->texts, key, NULL);
	if (!v)
		return NULL;
	*v = (uint64_t)(uintptr_t)make_text(s, p, k[0], k[1], python);
	if (!*v)
		hmap__del(&s->texts, key, NULL);
	v = hmap__get(&s->texts, key);
	return v ? (const struct text *)(uintptr_t)*v : NULL;
}

static void show(const struct text *t, const char **p, size_t *n)
{
	*p = t ? t->data : "NA";
	*n = t ? t->len : 2;
}

void stacks__cells(struct stacks *s, uint32_t tgid, uint32_t start, uint64_t time,
		   const struct mt_refs *refs, struct stack_cells *out)
{
	const struct text *t;
	const struct sproc *p;

	memset(out, 0, sizeof(*out));
	if (s->text_bytes > TEXTS_MAX)
		stack_text__forget(s);
	pthread_mutex_lock(&s->lock);
	p = stacks__proc(s, tgid, start, time);
	if (s->opts.python)
		show(text_of(s, p, 0, refs->py, true), &out->python, &out->python_len);
	if (s->opts.c) {
		t = text_of(s, p, refs->c, s->opts.mixed ? refs->py : 0, false);
		if (t && s->opts.mixed)
			s->merged[t->merge]++;
		show(t, &out->c, &out->c_len);
	}
	pthread_mutex_unlock(&s->lock);
}
