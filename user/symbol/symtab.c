// SPDX-License-Identifier: Apache-2.0
/* The names of a file's code: its symbol tables made into one, sorted and small. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/debugfile.h"
#include "symbol/namestore.h"
#include "symbol/symread.h"

/* Bit 31 of a size: it lies in another entry that goes on behind it (see `outer`). */
#define HAS_OUTER 0x80000000u
/* Of nested symbols: how far out is looked. Compilers nest none, assembly two or three. */
#define MAX_NESTING 64

struct entry {
	uint32_t off, size; /* from the base; size with HAS_OUTER */
	uint32_t name; /* NAME_NONE: bounds of a function without a name, from its FDE */
};

struct outer {
	uint32_t inner, outer; /* indices of entries */
};

struct symtab {
	uint64_t base;
	struct entry *entries; /* sorted by off; of the same off the larger first */
	size_t n;
	struct outer *outers; /* sorted by inner */
	size_t n_outers;
	struct namestore names;
	unsigned int sources;
};

/* ---- building ---- */

/* An entry in the making; `sym` NULL: from an FDE. */
struct piece {
	uint32_t off, end;
	const struct raw_sym *sym;
};

struct build {
	struct raw_syms raw;
	struct elf_view main, debug, mini;
	uint8_t *mini_data;
	struct piece *v;
	size_t n;
};

static int raw_cmp(const void *a, const void *b)
{
	const struct raw_sym *x = a, *y = b;

	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	return x->rank - y->rank;
}

static size_t name_len(const struct raw_sym *s)
{
	return strnlen(s->name, MT_MIN(s->max, (size_t)NAME_MAX_LEN + 1));
}

/* The best of the symbols at one address: with a size, a type, global, weak, local; then the
 * shorter, then by text. */
static bool better(const struct raw_sym *a, const struct raw_sym *b)
{
	size_t n, k;

	if (a->rank != b->rank)
		return a->rank < b->rank;
	n = name_len(a);
	k = name_len(b);
	if (n != k)
		return n < k;
	return memcmp(a->name, b->name, n) < 0;
}

/* One symbol an address, moved to the front of the array. */
static void drop_aliases(struct raw_syms *r)
{
	size_t i, k, n = 0;

	for (i = 0; i < r->n; i = k) {
		struct raw_sym best = r->v[i];
		uint32_t size = best.size, limit = best.limit;

		for (k = i + 1; k < r->n && r->v[k].off == r->v[i].off; k++) {
			size = MT_MAX(size, r->v[k].size);
			limit = MT_MIN(limit, r->v[k].limit);
			if (better(&r->v[k], &best))
				best = r->v[k];
		}
		if (!best.size)
			best.size = size;
		best.limit = limit;
		r->v[n++] = best;
	}
	r->n = n;
}

/*
 * Symbols and FDEs in one sorted array. An FDE tells the size of a symbol that has
 * none, and bounds functions without any name; those that named ones cover are dropped.
 */
static int merge_fdes(struct build *b)
{
	struct raw_syms *r = &b->raw;
	const struct fde *f = NULL;
	size_t nf = 0, i, k = 0;
	uint32_t reach = 0; /* end of what the symbols up to here cover */

	elf_image__fdes(r->img, &f, &nf); /* there may be none */
	b->v = calloc(r->n + nf + 1, sizeof(*b->v));
	if (!b->v)
		return -ENOMEM;
	for (i = 0; i < nf; i++) {
		uint32_t start, end;
		struct raw_sym *s = NULL;

		if (f[i].start < r->base || f[i].end - r->base > SYM_SIZE_MAX)
			continue;
		start = (uint32_t)(f[i].start - r->base);
		end = (uint32_t)(f[i].end - r->base);
		for (; k < r->n && r->v[k].off <= start; k++) {
			s = &r->v[k];
			if (s->off == start && !s->size)
				s->size = end - start;
			reach = MT_MAX(reach, s->off + s->size);
			if (s->off < start) /* the one at `start` is put behind the FDE */
				b->v[b->n++] = (struct piece){ s->off, s->off + s->size, s };
		}
		if (reach < end)
			b->v[b->n++] = (struct piece){ start, end, NULL };
		if (s && s->off == start)
			b->v[b->n++] = (struct piece){ s->off, s->off + s->size, s };
	}
	for (; k < r->n; k++)
		b->v[b->n++] = (struct piece){ r->v[k].off, r->v[k].off + r->v[k].size, &r->v[k] };
	return 0;
}

/* The entries that are open where a sweep has come to, outermost first. */
struct open_entries {
	uint32_t v[MAX_NESTING];
	size_t depth;
	size_t cap; /* of symtab.outers */
};

static uint32_t end_of(const struct entry *e)
{
	return e->off + (e->size & ~HAS_OUTER);
}

/* How many are open whose end is beyond an offset: the last of them is the nearest. */
static size_t open_beyond(const struct symtab *t, const struct open_entries *o, uint32_t off)
{
	size_t d = o->depth;

	while (d && end_of(&t->entries[o->v[d - 1]]) <= off)
		d--;
	return d;
}

/*
 * Symbols without a size end where the next begins, but not behind their section,
 * nor behind what they are in. 0: a label within a function, which is no function.
 */
static uint32_t unsized_end(const struct symtab *t, const struct open_entries *o,
			    const struct piece *p, const struct piece *next)
{
	uint32_t end = p->sym->limit;

	if (next)
		end = MT_MIN(end, next->off);
	if (!o->depth)
		return end;
	return p->sym->untyped ? 0 : MT_MIN(end, end_of(&t->entries[o->v[o->depth - 1]]));
}

/* Entry number t->n knows its outer one. */
static int link_outer(struct symtab *t, struct open_entries *o, uint32_t outer)
{
	struct outer *v;

	if (t->n_outers == o->cap) {
		o->cap = o->cap ? o->cap * 2 : 64;
		v = realloc(t->outers, o->cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		t->outers = v;
	}
	t->entries[t->n].size |= HAS_OUTER;
	t->outers[t->n_outers++] = (struct outer){ (uint32_t)t->n, outer };
	return 0;
}

static uint32_t add_name(struct symtab *t, const struct raw_sym *s)
{
	size_t n = name_len(s);
	const char *at = n > 1 ? memchr(s->name + 1, '@', n - 1) : NULL;

	if (n == s->max) /* it does not end in its table */
		return NAME_NONE;
	/* .symtab has versions in the names: memcpy@@GLIBC_2.14 */
	return namestore__add(&t->names, s->name, at ? (size_t)(at - s->name) : n,
			      s->plt ? "@plt" : "");
}

/*
 * A sweep over the pieces, with a stack of those that are open. Of nested entries an
 * inner one knows the nearest that reaches beyond its end.
 */
static int add_entries(struct build *b, struct symtab *t)
{
	struct open_entries o = { .depth = 0 };
	size_t i, d;

	t->entries = malloc((b->n + 1) * sizeof(*t->entries));
	if (!t->entries)
		return -ENOMEM;
	for (i = 0; i < b->n; i++) {
		struct piece *p = &b->v[i];

		o.depth = open_beyond(t, &o, p->off);
		if (p->sym && p->end == p->off)
			p->end = unsized_end(t, &o, p, i + 1 < b->n ? p + 1 : NULL);
		if (p->end <= p->off)
			continue;
		t->entries[t->n] = (struct entry){ p->off, p->end - p->off, NAME_NONE };
		d = open_beyond(t, &o, p->end);
		if (d && link_outer(t, &o, o.v[d - 1]))
			return -ENOMEM;
		if (o.depth < MAX_NESTING)
			o.v[o.depth++] = (uint32_t)t->n;
		if (p->sym)
			t->entries[t->n].name = add_name(t, p->sym);
		t->n++;
	}
	return namestore__finish(&t->names);
}

/* Give back what the arrays have to spare. */
static void trim(struct symtab *t)
{
	void *p = realloc(t->entries, (t->n + 1) * sizeof(*t->entries));

	if (p)
		t->entries = p;
	if (!t->n_outers)
		return;
	p = realloc(t->outers, t->n_outers * sizeof(*t->outers));
	if (p)
		t->outers = p;
}

/* What a reader says: a table that is missing or malformed leaves the others. */
static int note(struct symtab *t, int n, unsigned int source)
{
	if (n > 0)
		t->sources |= source;
	return n == -ENOMEM ? n : 0;
}

static int read_tables(struct build *b, struct symtab *t)
{
	size_t n;
	int err;

	err = note(t, symread__symtab(&b->raw, &b->main), SYMTAB_FROM_SYMTAB);
	if (!err)
		err = note(t, symread__dynsym(&b->raw, &b->main), SYMTAB_FROM_DYNSYM);
	if (!err)
		err = note(t, symread__plt(&b->raw, &b->main), SYMTAB_FROM_PLT);
	if (!err && b->debug.data)
		err = note(t, symread__symtab(&b->raw, &b->debug), SYMTAB_FROM_DEBUG_FILE);
	if (err || (t->sources & (SYMTAB_FROM_SYMTAB | SYMTAB_FROM_DEBUG_FILE)))
		return err; /* .gnu_debugdata has nothing that those have not */
	err = symread__debugdata(&b->main, &b->mini_data, &n);
	if (err || elf_view__memory(b->mini_data, n, &b->mini))
		return err == -ENOMEM ? err : 0;
	return note(t, symread__symtab(&b->raw, &b->mini), SYMTAB_FROM_DEBUGDATA);
}

static int build(struct build *b, struct symtab *t)
{
	size_t i;
	int err;

	t->base = UINT64_MAX;
	for (i = 0; i < b->raw.img->nsegs; i++)
		if (b->raw.img->segs[i].flags & PF_X)
			t->base = MT_MIN(t->base, b->raw.img->segs[i].vaddr);
	b->raw.base = t->base;
	err = read_tables(b, t);
	if (err)
		return err;
	if (b->raw.n)
		qsort(b->raw.v, b->raw.n, sizeof(*b->raw.v), raw_cmp);
	drop_aliases(&b->raw);
	err = merge_fdes(b);
	if (!err)
		err = add_entries(b, t);
	if (!err)
		trim(t);
	return err;
}

int symtab__open(int fd, int debug_fd, struct symtab **out)
{
	struct build b = { 0 };
	struct symtab *t = calloc(1, sizeof(*t));
	int err = t ? 0 : -ENOMEM;

	*out = NULL;
	if (!err)
		err = elf_image__open_fd(fd, "", &b.raw.img);
	if (!err)
		err = elf_view__memory(b.raw.img->data, b.raw.img->size, &b.main);
	if (!err && debug_fd >= 0) {
		err = elf_view__map(debug_fd, &b.debug);
		if (!err)
			err = debugfile__check(&b.main, &b.debug);
	}
	if (!err)
		err = build(&b, t);
	elf_view__close(&b.main);
	elf_view__close(&b.debug);
	elf_view__close(&b.mini);
	elf_image__close(b.raw.img);
	free(b.mini_data);
	free(b.raw.v);
	free(b.v);
	if (err) {
		symtab__close(t);
		return err;
	}
	*out = t;
	return 0;
}

void symtab__close(struct symtab *t)
{
	if (!t)
		return;
	namestore__free(&t->names);
	free(t->entries);
	free(t->outers);
	free(t);
}

/* ---- looking up ---- */

static const struct entry *outer_of(const struct symtab *t, const struct entry *e)
{
	uint32_t i = (uint32_t)(e - t->entries);
	size_t lo = 0, hi = t->n_outers;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->outers[mid].inner < i)
			lo = mid + 1;
		else
			hi = mid;
	}
	return &t->entries[t->outers[lo].outer];
}

static const struct entry *find(const struct symtab *t, uint64_t vaddr)
{
	const struct entry *e;
	size_t lo = 0, hi = t->n;
	uint64_t off = vaddr - t->base;

	if (vaddr < t->base)
		return NULL;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->entries[mid].off <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return NULL;
	/* Each step outwards ends later, so they are few: at most MAX_NESTING. */
	for (e = &t->entries[lo - 1]; off - e->off >= (e->size & ~HAS_OUTER); e = outer_of(t, e))
		if (!(e->size & HAS_OUTER))
			return NULL;
	return e;
}

int symtab__find(const struct symtab *t, uint64_t vaddr, struct symbol *out, struct strbuf *name)
{
	const struct entry *e = find(t, vaddr);
	int err;

	*out = (struct symbol){ 0 };
	if (!e)
		return -ENOENT;
	out->start = t->base + e->off;
	out->size = e->size & ~HAS_OUTER;
	out->named = e->name != NAME_NONE;
	if (!out->named || !name)
		return 0;
	err = namestore__get(&t->names, e->name, name);
	return err == -ENOENT ? 0 : err;
}

size_t symtab__count(const struct symtab *t)
{
	return t->n;
}

size_t symtab__bytes(const struct symtab *t)
{
	return sizeof(*t) + (t->n + 1) * sizeof(*t->entries) + t->n_outers * sizeof(*t->outers) +
	       namestore__bytes(&t->names);
}

const char *symtab__sources(const struct symtab *t, char buf[SYMTAB_SOURCES_TEXT])
{
	static const char *const names[] = { ".symtab", ".dynsym", "debug file", ".gnu_debugdata",
					     "PLT" };
	size_t i, n = 0;

	buf[0] = '\0';
	for (i = 0; i < MT_ARRAY_SIZE(names); i++)
		if (t->sources & (1u << i))
			n += (size_t)snprintf(buf + n, SYMTAB_SOURCES_TEXT - n, "%s%s",
					      n ? ", " : "", names[i]);
	if (!n)
		snprintf(buf, SYMTAB_SOURCES_TEXT, "none");
	return buf;
}
