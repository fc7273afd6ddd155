// SPDX-License-Identifier: Apache-2.0
/* Cells of rows: made once for each stack of a process, kept within a bound. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* What a cell is of. */
struct wanted {
	const struct sproc *p;
	uint64_t time;
	uint64_t c, py; /* hashes; 0: without it */
	bool python;
};

/* One of c, py or (mixed) both; a stack that is not known leaves the cell NA. */
static struct text *make_text(struct stacks *s, const struct wanted *w, const struct kept *c,
			      const struct kept *py)
{
	struct text *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	strbuf__reset(&s->sb);
	if ((c && c->clash) || (py && py->clash)) {
		strbuf__puts(&s->sb, "(not shown: two stacks have its hash)\n");
		t->merge = STACK_CLASH;
	} else if (w->python) {
		stack_cell__python(s, py, &s->sb);
	} else if (s->opts.mixed) {
		t->merge = stack_mixed__cell(s, w->p, w->time, c, py, &t->replaced, &s->sb);
	} else {
		t->replaced = stack_cell__c(s, w->p, w->time, c, &s->sb);
	}
	if (!w->python) {
		t->end = c->end;
		t->shown = t->replaced ? MT_END_NOMAP : stack_cell__end(s, c);
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
static struct hkey text_key(struct stacks *s, const struct wanted *w)
{
	/* A library that is closed and opened again is at another place. */
	const uint64_t epoch = w->p && w->c ? past_maps__epoch(&s->past, w->p->pid, w->time) : 0;
	const uint64_t v[] = { w->c, w->py, w->p ? w->p->no : 0, epoch };

	return (struct hkey){ hash__bytes(v, sizeof(v), 7), hash__bytes(v, sizeof(v), 8) };
}

/* The text of a C stack, a Python stack, or both in a process; NULL: it is not known. */
static const struct text *text_of(struct stacks *s, struct wanted *w)
{
	const struct kept *c = NULL, *py = NULL;
	struct hkey key;
	uint64_t *v;

	if (w->python ? !w->py : !w->c)
		return NULL;
	key = text_key(s, w);
	v = hmap__get(&s->texts, key);
	if (v)
		return (const struct text *)(uintptr_t)*v;
	if (w->c) {
		stack_copies__wanted(s, w->c);
		c = stack_store__find(&s->store, w->c, false);
	}
	if (w->py)
		py = stack_store__find(&s->store, w->py, true);
	if (w->python ? !py : !c) {
		s->unknown++;
		return NULL;
	}
	/* It may arrive yet: this cell is made without it, and not remembered as that of both. */
	if (!w->python && w->py && !py) {
		w->py = 0;
		return text_of(s, w);
	}
	v = hmap__put(&s->texts, key, NULL);
	if (!v)
		return NULL;
	*v = (uint64_t)(uintptr_t)make_text(s, w, c, py);
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
	struct wanted w = { .time = time, .py = refs->py, .python = true };
	const struct text *t;

	memset(out, 0, sizeof(*out));
	if (s->text_bytes > TEXTS_MAX)
		stack_text__forget(s);
	/* At the end of a recording the last events are younger than what is read for them. */
	while (stack_copies__young(s, refs->c))
		usleep(10000);
	pthread_mutex_lock(&s->lock);
	w.p = stacks__proc(s, tgid, start, time);
	if (s->opts.python)
		show(text_of(s, &w), &out->python, &out->python_len);
	w.python = false;
	w.c = refs->c;
	w.py = s->opts.mixed ? refs->py : 0;
	if (s->opts.c) {
		t = text_of(s, &w);
		if (t && s->opts.mixed)
			s->merged[t->merge]++;
		if (t && t->shown != t->end) {
			s->copies.moved[t->end]--;
			s->copies.moved[t->shown]++;
		}
		show(t, &out->c, &out->c_len);
	}
	pthread_mutex_unlock(&s->lock);
}
