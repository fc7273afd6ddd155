// SPDX-License-Identifier: Apache-2.0
/*
 * Source lines of addresses in many files: DWARF is opened when it is wanted, the files used
 * last stay open, answers are kept; both bounded.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/stacks_internal.h"

#define MAX_BYTES (32u << 20)
#define MAX_OPEN 8
#define MAX_FRAMES 256 /* of one address, as lines.c has it */

/* What is known of an address; texts behind the frames. */
struct source_answer {
	size_t bytes;
	uint32_t n; /* 0: nothing is known */
	struct line_frame frame[];
};

struct source_file {
	struct file_id id;
	struct lines *lines;
	uint64_t used;
};

struct sources {
	size_t max_bytes;
	struct hmap answers; /* (file, address) -> struct source_answer */
	struct hmap without; /* files that have no DWARF */
	struct source_file open[MAX_OPEN];
	uint64_t clock;
	struct sources_stats stats;
};

/* What lines__find gives, which lasts until the file is closed. */
struct found {
	struct line_frame v[MAX_FRAMES];
	uint32_t n;
};

struct sources *sources__new(size_t max_bytes)
{
	struct sources *s = calloc(1, sizeof(*s));

	if (s)
		s->max_bytes = max_bytes ? max_bytes : MAX_BYTES;
	return s;
}

static void forget_answers(struct sources *s)
{
	size_t pos = 0;
	struct hkey k;
	uint64_t v;

	while (hmap__next(&s->answers, &pos, &k, &v))
		free((void *)(uintptr_t)v);
	hmap__free(&s->answers);
	s->stats.bytes = 0;
}

void sources__free(struct sources *s)
{
	size_t i;

	if (!s)
		return;
	forget_answers(s);
	hmap__free(&s->without);
	for (i = 0; i < MAX_OPEN; i++)
		lines__close(s->open[i].lines);
	free(s);
}

static struct hkey file_key(const struct file_id *id)
{
	return (struct hkey){ hash__bytes(id->bytes, id->len, id->kind),
			      hash__bytes(id->bytes, id->len, id->kind + 16u) };
}

/* The lines of a file, opened now or before; NULL: it has none. */
static struct lines *open_file(struct sources *s, struct symbols *names, const struct file_id *id)
{
	struct source_file *f = &s->open[0];
	int fd, debug_fd = -1, err;
	size_t i;

	for (i = 0; i < MAX_OPEN; i++) {
		struct source_file *x = &s->open[i];

		if (x->lines && !file_id__cmp(&x->id, id)) {
			x->used = ++s->clock;
			return x->lines;
		}
		if (x->used < f->used)
			f = x;
	}
	if (hmap__get(&s->without, file_key(id)))
		return NULL;
	lines__close(f->lines);
	*f = (struct source_file){ .id = *id };
	err = symbols__files(names, id, &fd, &debug_fd);
	if (!err)
		err = lines__open(fd, debug_fd, NULL, &f->lines);
	/* A debug file may be there for its names alone. */
	if (err && err != -ENOMEM && debug_fd >= 0)
		err = lines__open(fd, -1, NULL, &f->lines);
	if (err) {
		f->lines = NULL;
		if (err != -ENOMEM) /* another time, perhaps */
			(void)hmap__put(&s->without, file_key(id), NULL);
		return NULL;
	}
	s->stats.opened++;
	f->used = ++s->clock;
	return f->lines;
}

static int collect(void *ctx, const struct line_frame *f)
{
	struct found *x = ctx;

	if (x->n == MAX_FRAMES)
		return 1;
	x->v[x->n++] = *f;
	return 0;
}

static const char *copy_text(char **at, const char *text)
{
	size_t n = text ? strlen(text) + 1 : 0;
	char *to = *at;

	if (!text)
		return NULL;
	memcpy(to, text, n);
	*at += n;
	return to;
}

static struct source_answer *keep(const struct found *x)
{
	size_t n = sizeof(struct source_answer) + x->n * sizeof(x->v[0]);
	struct source_answer *a;
	uint32_t i;
	char *at;

	for (i = 0; i < x->n; i++)
		n += (x->v[i].function ? strlen(x->v[i].function) + 1 : 0) +
		     (x->v[i].file ? strlen(x->v[i].file) + 1 : 0);
	a = malloc(n);
	if (!a)
		return NULL;
	a->bytes = n + sizeof(struct hkey) + 16;
	a->n = x->n;
	at = (char *)&a->frame[x->n];
	for (i = 0; i < x->n; i++) {
		a->frame[i] = x->v[i];
		a->frame[i].function = copy_text(&at, x->v[i].function);
		a->frame[i].file = copy_text(&at, x->v[i].file);
	}
	return a;
}

static const struct source_answer *answer(struct sources *s, struct symbols *names,
					  const struct file_id *id, uint64_t vaddr)
{
	struct hkey key = { file_id__hash(id), vaddr };
	uint64_t *v = hmap__get(&s->answers, key);
	struct source_answer *a;
	struct found *x;
	struct lines *l;

	if (v)
		return (const struct source_answer *)(uintptr_t)*v;
	l = open_file(s, names, id);
	if (!l)
		return NULL;
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	if (lines__find(l, vaddr, collect, x) < 0)
		x->n = 0;
	a = keep(x);
	free(x);
	if (s->stats.bytes > s->max_bytes)
		forget_answers(s);
	v = a ? hmap__put(&s->answers, key, NULL) : NULL;
	if (!v) {
		free(a);
		return NULL;
	}
	*v = (uint64_t)(uintptr_t)a;
	s->stats.bytes += a->bytes;
	return a;
}

int sources__find(struct sources *s, struct symbols *names, const struct file_id *id,
		  uint64_t vaddr, line_fn fn, void *ctx)
{
	const struct source_answer *a = answer(s, names, id, vaddr);
	uint32_t i;
	int err = 0;

	if (!a || !a->n) {
		s->stats.unknown++;
		return -ENOENT;
	}
	s->stats.found++;
	for (i = 0; i < a->n && !err; i++)
		err = fn(ctx, &a->frame[i]);
	return err;
}

void sources__stats(const struct sources *s, struct sources_stats *out)
{
	*out = s->stats;
}
