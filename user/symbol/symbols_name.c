// SPDX-License-Identifier: Apache-2.0
/* Names of addresses in many files: tables made when wanted, answers kept, both bounded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/symbols.h"

/* Kinds of keys in `seen`. */
enum { KEY_ADDR, KEY_FUNCTION };

/* ---- memory ---- */

static void count_bytes(struct symbols *s, struct file *f)
{
	size_t n = (f->table ? symtab__bytes(f->table) : 0) + f->texts.cap +
		   f->cap * sizeof(*f->answers) + f->seen.cap * (sizeof(struct hkey) + 16);

	s->stats.bytes += n - f->bytes;
	f->bytes = n;
	s->stats.peak_bytes = MT_MAX(s->stats.peak_bytes, s->stats.bytes);
}

static void forget_answers(struct file *f)
{
	hmap__free(&f->seen);
	free(f->answers);
	f->answers = NULL;
	f->n = f->cap = 0;
	strbuf__free(&f->texts);
}

void symbols__unload(struct symbols *s, struct file *f)
{
	if (f->table)
		s->stats.tables--;
	symtab__close(f->table);
	f->table = NULL;
	forget_answers(f);
	count_bytes(s, f);
}

/* Give up tables, the least used first; never that of the file in use. */
static void shrink(struct symbols *s, const struct file *keep)
{
	struct file *f;

	for (f = s->oldest; f && s->stats.bytes > s->opts.max_bytes; f = f->newer) {
		if (f == keep || !f->bytes)
			continue;
		s->stats.evictions += f->table != NULL;
		symbols__unload(s, f);
	}
}

/* A table that fills the bound alone stays, with a sixteenth of the bound for answers. */
static void shrink_answers(struct symbols *s, struct file *f)
{
	if (s->stats.bytes <= s->opts.max_bytes ||
	    f->bytes - (f->table ? symtab__bytes(f->table) : 0) <= s->opts.max_bytes / 16)
		return;
	forget_answers(f);
	count_bytes(s, f);
}

/* ---- tables and answers ---- */

static int load(struct symbols *s, struct file *f)
{
	uint64_t start = clock__boot();
	struct file_id now;
	int err;

	if (f->table || f->err)
		return f->err;
	/* Written over in place: it is another file by now. */
	err = file_id__of_fd(f->fd, &now);
	if (!err && file_id__cmp(&now, &f->id))
		err = -ESTALE;
	if (!err)
		err = symtab__open(f->fd, f->debug_fd, &f->table);
	s->stats.load_ns += clock__boot() - start;
	if (err == -ENOMEM) /* another time, perhaps */
		return err;
	f->err = err;
	if (err) {
		s->stats.failed++;
		return err;
	}
	s->stats.loads++;
	s->stats.tables++;
	count_bytes(s, f);
	return 0;
}

/* Add the text with its NUL; its place, NO_TEXT: no memory. */
static uint32_t add_text(struct file *f, const char *text, size_t n)
{
	size_t at = f->texts.len;

	if (at + n + 1 >= NO_TEXT)
		return NO_TEXT;
	strbuf__add(&f->texts, text, n + 1);
	return f->texts.failed ? NO_TEXT : (uint32_t)at;
}

static int add_answer(struct symbols *s, struct file *f, uint64_t vaddr, uint64_t *no)
{
	struct answer a = { .name = NO_TEXT, .pretty = NO_TEXT };
	struct strbuf *sb = &s->scratch;
	struct symbol sym;
	size_t n;
	int err;

	if (f->n == f->cap) {
		uint32_t cap = f->cap ? f->cap * 2 : 16;
		struct answer *p = realloc(f->answers, cap * sizeof(*p));

		if (!p)
			return -ENOMEM;
		f->answers = p;
		f->cap = cap;
	}
	strbuf__reset(sb);
	err = symtab__find(f->table, vaddr, &sym, sb);
	if (err && err != -ENOENT)
		return err;
	if (!err) {
		a.start = sym.start;
		a.size = sym.size;
	}
	n = sb->len;
	if (!err && sym.named && n) {
		a.name = a.pretty = add_text(f, sb->data, n);
		strbuf__add(sb, "", 1);
		if (a.name != NO_TEXT && !demangle(sb->data, sb))
			a.pretty = add_text(f, sb->data + n + 1, sb->len - n - 1);
		if (a.pretty == NO_TEXT || sb->failed)
			return -ENOMEM;
	}
	*no = f->n;
	f->answers[f->n++] = a;
	return 0;
}

/* An address that was not asked for yet: its function may have been, at another one. */
static int look_up(struct symbols *s, struct file *f, uint64_t vaddr, uint64_t *no)
{
	struct hkey k = { 0, KEY_FUNCTION }; /* one answer for all that is not known */
	struct symbol sym;
	int err = load(s, f);
	uint64_t *v;

	if (err)
		return err;
	/* Functions may be nested, so one is known by its start and size. */
	if (!symtab__find(f->table, vaddr, &sym, NULL))
		k = (struct hkey){ sym.start, KEY_FUNCTION | sym.size << 8 };
	v = hmap__get(&f->seen, k);
	if (v) {
		*no = *v;
	} else {
		err = add_answer(s, f, vaddr, no);
		v = err ? NULL : hmap__put(&f->seen, k, NULL);
		if (!v)
			return err ? err : -ENOMEM;
		*v = *no;
	}
	v = hmap__put(&f->seen, (struct hkey){ vaddr, KEY_ADDR }, NULL);
	if (!v)
		return -ENOMEM;
	*v = *no;
	return 0;
}

int symbols__name(struct symbols *s, const struct file_id *id, uint64_t vaddr,
		  struct symbol_name *out)
{
	struct file *f = symbols__file(s, id);
	const struct answer *a;
	uint64_t *v, no = 0;
	int err;

	*out = (struct symbol_name){ 0 };
	if (!f)
		return -ENOENT;
	symbols__used(s, f);
	v = hmap__get(&f->seen, (struct hkey){ vaddr, KEY_ADDR });
	if (v) {
		s->stats.hits++;
		no = *v;
	} else {
		s->stats.misses++;
		shrink_answers(s, f);
		err = look_up(s, f, vaddr, &no);
		count_bytes(s, f);
		shrink(s, f);
		if (err) {
			s->stats.unknown++;
			return err;
		}
	}
	a = &f->answers[no];
	out->start = a->start;
	out->size = a->size;
	if (a->name == NO_TEXT) {
		s->stats.unknown++;
	} else {
		out->name = f->texts.data + a->name;
		out->pretty = f->texts.data + a->pretty;
	}
	return 0;
}
