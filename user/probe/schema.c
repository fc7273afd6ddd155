// SPDX-License-Identifier: Apache-2.0
/* Schemas of operators, as their library registers them: "add.Tensor(Tensor self, …) -> Tensor". */
#include "probe/aten.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#define SCHEMA_MAX 4096 /* longest text; real ones have up to 1,200 */
#define SCHEMAS_MAX 100000

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static size_t word(const char *p)
{
	size_t n = 0;

	while (is_word(p[n]))
		n++;
	return n;
}

static uint64_t name_hash(const char *base, size_t n, const char *overload, size_t m)
{
	char text[256];

	if (n + m + 1 >= sizeof(text))
		return 0;
	memcpy(text, base, n);
	if (m) {
		text[n] = '_';
		memcpy(text + n + 1, overload, m);
		n += m + 1;
	}
	return hash__bytes(text, n, 0);
}

/* The parts of a text that ends with a NUL; false when it is no schema. */
static bool take_apart(const char *text, struct schema *s)
{
	const char *p = text, *end;
	unsigned int depth = 1;

	memset(s, 0, sizeof(*s));
	s->text = text;
	s->base_len = (unsigned int)word(p);
	if (s->base_len && p[s->base_len] == ':' && p[s->base_len + 1] == ':') {
		s->ns_len = s->base_len + 2;
		p += s->ns_len;
		s->base_len = (unsigned int)word(p);
	}
	if (!s->base_len)
		return false;
	p += s->base_len;
	if (*p == '.') {
		s->overload_len = (unsigned int)word(p + 1);
		if (!s->overload_len)
			return false;
		p += 1 + s->overload_len;
	}
	if (*p != '(')
		return false;
	s->params = (unsigned int)(p + 1 - text);
	for (end = p + 1; *end && depth; end++)
		depth += *end == '(' ? 1u : *end == ')' ? -1u : 0u;
	if (depth || strncmp(end, " -> ", 4) != 0 || !end[4])
		return false;
	s->returns = (unsigned int)(end + 4 - text);
	return s->base_len + s->overload_len < 250;
}

static int add(struct schemas *all, const struct schema *s)
{
	const char *base = s->text + s->ns_len;
	struct hkey k = { name_hash(base, s->base_len, base + s->base_len + 1, s->overload_len),
			  0 };
	uint64_t *v;

	if (all->n == SCHEMAS_MAX)
		return 0;
	if (all->n == all->cap) {
		size_t cap = all->cap ? all->cap * 2 : 4096;
		void *q = realloc(all->v, cap * sizeof(*all->v));

		if (!q)
			return -ENOMEM;
		all->v = q;
		all->cap = cap;
	}
	all->v[all->n] = *s;
	/* Links are indices for now: the array moves. In the order of the file. */
	all->v[all->n].next = NULL;
	v = hmap__put(&all->by_name, k, NULL);
	if (!v)
		return -ENOMEM;
	all->n++;
	return 0;
}

/* Chains those of one name, the ones without a namespace first: they are the registered ones. */
static void link_names(struct schemas *all)
{
	int bare;
	size_t i;

	for (bare = 0; bare <= 1; bare++) {
		for (i = all->n; i-- > 0;) {
			struct schema *s = &all->v[i];
			const char *base = s->text + s->ns_len;
			uint64_t *v;

			if ((s->ns_len == 0) != (bare == 1))
				continue;
			v = hmap__get(
				&all->by_name,
				(struct hkey){ name_hash(base, s->base_len, base + s->base_len + 1,
							 s->overload_len),
					       0 });
			if (!v)
				continue;
			s->next = *v ? &all->v[*v - 1] : NULL;
			*v = i + 1;
		}
	}
}

static int read_segment(const struct elf_image *img, const struct elf_seg *seg, struct schemas *out)
{
	static const char arrow[] = ") -> ";
	const char *base = (const char *)img->data + seg->off, *end = base + seg->filesz;
	const char *p = base, *hit, *start;
	struct schema s;
	int err;

	if (!elf_image__spend(img, seg->filesz / 16, WORK_16BYTES))
		return -E2BIG;
	while ((hit = memmem(p, (size_t)(end - p), arrow, sizeof(arrow) - 1))) {
		size_t left = (size_t)(end - hit), n;

		for (start = hit; start > p && start[-1] && hit - start < SCHEMA_MAX; start--)
			;
		n = strnlen(hit, MT_MIN(left, (size_t)SCHEMA_MAX));
		if (!elf_image__spend(img, (size_t)(hit - start) + n + 1, WORK_BYTE))
			return -E2BIG;
		p = hit + n;
		if (n == left || n == SCHEMA_MAX || !take_apart(start, &s))
			continue;
		err = add(out, &s);
		if (err)
			return err;
	}
	return 0;
}

int schemas__read(const struct elf_image *img, struct schemas *out)
{
	uint32_t kind;
	size_t i;
	int err = 0;

	memset(out, 0, sizeof(*out));
	/* Without -z separate-code, the default of aarch64's linkers, texts lie beside the code. */
	for (kind = 0; kind <= PF_X && !out->n && !err; kind += PF_X)
		for (i = 0; i < img->nsegs && !err; i++)
			if ((img->segs[i].flags & (PF_X | PF_W)) == kind)
				err = read_segment(img, &img->segs[i], out);
	if (err)
		schemas__free(out);
	else
		link_names(out);
	return err;
}

void schemas__free(struct schemas *s)
{
	free(s->v);
	hmap__free(&s->by_name);
	memset(s, 0, sizeof(*s));
}

const struct schema *schemas__find(const struct schemas *s, const char *name, size_t len)
{
	const uint64_t *v = hmap__get(&s->by_name, (struct hkey){ hash__bytes(name, len, 0), 0 });

	return v && *v ? &s->v[*v - 1] : NULL;
}

/* ---- parameters and results ---- */

/* To the comma or closing bracket that ends this item; brackets and quotes are passed over. */
static const char *item_end(const char *p)
{
	unsigned int depth = 0;
	char quote = 0;

	for (; *p; p++) {
		if (quote) {
			quote = *p == quote ? 0 : quote;
		} else if (*p == '\'' || *p == '"') {
			quote = *p;
		} else if (*p == '(' || *p == '[') {
			depth++;
		} else if (*p == ')' || *p == ']') {
			if (!depth)
				return p;
			depth--;
		} else if (*p == ',' && !depth) {
			return p;
		}
	}
	return p;
}

static void read_item(const char *p, const char *end, struct schema_item *out)
{
	const char *q = p;

	memset(out, 0, sizeof(*out));
	while (q < end && *q != ' ')
		q++;
	out->type = p;
	out->len = (unsigned int)(q - p);
	if (out->len < 6 || memcmp(p, "Tensor", 6) != 0 || (out->len > 6 && is_word(p[6])))
		return;
	out->tensor = true;
	out->list = memchr(p, '[', out->len) != NULL;
	out->alias = memchr(p, '(', out->len) != NULL;
	out->write = memchr(p, '!', out->len) != NULL;
}

static bool next_item(const char **at, struct schema_item *out)
{
	const char *p = *at + strspn(*at, ", "), *end = item_end(p);

	if (end == p)
		return false;
	read_item(p, end, out);
	*at = end;
	return true;
}

bool schema__param(const char **at, struct schema_item *out)
{
	do {
		if (!next_item(at, out))
			return false;
	} while (out->len == 1 && *out->type == '*'); /* what follows goes by names */
	return true;
}

bool schema__return(const char **at, struct schema_item *out)
{
	/* One alone, or several in brackets. */
	if (**at == '(')
		++*at;
	return next_item(at, out);
}
