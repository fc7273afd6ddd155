// SPDX-License-Identifier: Apache-2.0
/* The column Attr: {k:v,…} of a csv, which is not JSON, and the JSON of a db. */
#include "input/internal.h"

#include <string.h>

#define K(name)                        \
	{                              \
		name, sizeof(name) - 1 \
	}
static const struct {
	const char *s;
	size_t n;
} keys[KEY_MAX] = {
	[KEY_ALLOCATION_ID] = K("allocation_id"),
	[KEY_ADDR] = K("addr"),
	[KEY_SIZE] = K("size"),
	[KEY_TOTAL] = K("total"),
	[KEY_USED] = K("used"),
	[KEY_TYPE] = K("type"),
	[KEY_DTYPE] = K("dtype"),
	[KEY_FORMAT] = K("format"),
	[KEY_SHAPE] = K("shape"),
	[KEY_OWNER] = K("owner"),
	[KEY_INEFFICIENT] = K("inefficient_type"),
	[KEY_PAGE_TYPE] = K("page_type"),
	[KEY_ALLOC_TYPE] = K("alloc_type"),
	[KEY_SHADOW] = K("shadow"),
	[KEY_PREATTACH] = K("preattach"),
	[KEY_PATH] = K("path"),
	[KEY_MID] = K("MID"),
};

/* The key of n bytes at s; `hint`: try this first, their order is fixed. */
static int key_of(const char *s, size_t n, int hint)
{
	int i, k;

	for (i = 0; i < KEY_MAX; i++) {
		k = hint + i < KEY_MAX ? hint + i : hint + i - KEY_MAX;
		if (keys[k].n == n && !memcmp(keys[k].s, s, n))
			return k;
	}
	return -1;
}

static bool letter(char c)
{
	return (c >= 'a' && c <= 'z') || c == '_' || (c >= 'A' && c <= 'Z');
}

/* Length of the "key:" at p, 0 if there is none. */
static size_t key_len(const char *p, const char *end)
{
	const char *s = p;

	while (p < end && letter(*p))
		p++;
	return p > s && p < end && *p == ':' ? (size_t)(p - s) : 0;
}

typedef void (*pair_fn)(void *ctx, struct slice key, struct slice value);

/* Those pairs of a row that somebody asks for. */
struct keyed {
	struct in_row *r;
	int hint;
};

static void keyed(void *ctx, struct slice key, struct slice value)
{
	struct keyed *x = ctx;
	int k = key_of(key.s, key.n, x->hint);

	/* The first counts: what comes later may be text of the program's. */
	if (k < 0 || x->r->keys & 1u << k)
		return;
	x->r->keys |= 1u << k;
	x->r->attr[k] = value;
	x->hint = k + 1 < KEY_MAX ? k + 1 : 0;
}

/* The end of the value at p: a comma with a key behind it, or the end. */
static const char *value_end(const char *p, const char *end, struct slice key)
{
	const char *q;
	size_t n;

	while ((q = memchr(p, ',', (size_t)(end - p)))) {
		n = key_len(q + 1, end);
		/* An owner has labels of the program's in it: any text. */
		if (n && (!CELL_IS(key, "owner") || key_of(q + 1, n, 0) >= 0))
			return q;
		p = q + 1;
	}
	return end;
}

/* The pairs of {k:v,…}, each to fn. */
static bool each_csv(struct slice cell, pair_fn fn, void *ctx)
{
	const char *p = cell.s, *end = p + cell.n, *q;
	struct slice k;

	if (*p == '{') {
		if (end[-1] != '}' || end - p < 2)
			return false;
		p++;
		end--;
	}
	while (p < end) {
		k = (struct slice){ p, key_len(p, end) };
		if (!k.n)
			return false;
		p += k.n + 1;
		q = value_end(p, end, k);
		fn(ctx, k, (struct slice){ p, (size_t)(q - p) });
		p = q < end ? q + 1 : end;
	}
	return true;
}

bool attr__read_csv(struct in_row *r)
{
	struct keyed k = { r, 0 };

	r->keys = 0;
	return !r->cell[COL_ATTR].n || each_csv(r->cell[COL_ATTR], keyed, &k);
}

/* ---- JSON ---- */

struct json {
	const char *p, *end;
	struct strbuf *scratch;
};

static void space(struct json *j)
{
	while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r'))
		j->p++;
}

static bool take(struct json *j, char c)
{
	space(j);
	if (j->p == j->end || *j->p != c)
		return false;
	j->p++;
	return true;
}

static bool put_utf8(struct strbuf *sb, unsigned int u)
{
	char b[3];
	size_t n = 0;

	if (u < 0x80) {
		b[n++] = (char)u;
	} else if (u < 0x800) {
		b[n++] = (char)(0xc0 | u >> 6);
		b[n++] = (char)(0x80 | (u & 0x3f));
	} else {
		if (u >= 0xd800 && u < 0xe000)
			u = 0xfffd; /* halves of pairs: nobody writes them here */
		b[n++] = (char)(0xe0 | u >> 12);
		b[n++] = (char)(0x80 | (u >> 6 & 0x3f));
		b[n++] = (char)(0x80 | (u & 0x3f));
	}
	strbuf__add(sb, b, n);
	return true;
}

static bool escape(struct json *j)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *f;
	unsigned int u = 0, i;

	if (j->p == j->end)
		return false;
	if (*j->p != 'u') {
		f = *j->p ? strchr(from, *j->p) : NULL;
		if (!f)
			return false;
		strbuf__add(j->scratch, &to[f - from], 1);
		j->p++;
		return true;
	}
	if (j->end - j->p < 5)
		return false;
	for (i = 1; i < 5; i++) {
		char c = j->p[i];

		u <<= 4;
		if (c >= '0' && c <= '9')
			u |= (unsigned int)(c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			u |= (unsigned int)((c | 32) - 'a' + 10);
		else
			return false;
	}
	j->p += 5;
	return put_utf8(j->scratch, u);
}

/* A string; one with escapes goes to the scratch, which has room for all of them. */
static bool string(struct json *j, struct slice *out)
{
	const char *s;
	size_t at;

	if (!take(j, '"'))
		return false;
	s = j->p;
	while (j->p < j->end && *j->p != '"' && *j->p != '\\')
		j->p++;
	if (j->p == j->end)
		return false;
	*out = (struct slice){ s, (size_t)(j->p - s) };
	if (*j->p == '"') {
		j->p++;
		return true;
	}
	at = j->scratch->len;
	strbuf__add(j->scratch, s, out->n);
	while (j->p < j->end && *j->p != '"') {
		if (*j->p == '\\') {
			j->p++;
			if (!escape(j))
				return false;
		} else {
			strbuf__add(j->scratch, j->p++, 1);
		}
	}
	if (j->p == j->end || j->scratch->failed)
		return false;
	j->p++;
	*out = (struct slice){ j->scratch->data + at, j->scratch->len - at };
	return true;
}

/* A string, or a bare word such as a number. */
static bool value(struct json *j, struct slice *out)
{
	const char *s;

	space(j);
	if (j->p < j->end && *j->p == '"')
		return string(j, out);
	s = j->p;
	while (j->p < j->end && (letter(*j->p) || (*j->p >= '0' && *j->p <= '9') || *j->p == '-' ||
				 *j->p == '+' || *j->p == '.'))
		j->p++;
	*out = (struct slice){ s, (size_t)(j->p - s) };
	return out->n > 0;
}

/* The pairs of an object, each to fn. */
static bool each_json(struct slice cell, struct strbuf *scratch, pair_fn fn, void *ctx)
{
	struct json j = { cell.s, cell.s + cell.n, scratch };
	struct slice k, v;

	strbuf__reset(scratch);
	/* What escapes stand for is never longer than they are, so nothing moves. */
	if (!strbuf__reserve(scratch, cell.n + 1) || !take(&j, '{'))
		return false;
	if (!take(&j, '}')) {
		do {
			if (!string(&j, &k) || !take(&j, ':') || !value(&j, &v))
				return false;
			fn(ctx, k, v);
		} while (take(&j, ','));
		if (!take(&j, '}'))
			return false;
	}
	space(&j);
	return j.p == j.end;
}

bool attr__read_json(struct in_row *r, struct strbuf *scratch)
{
	struct keyed k = { r, 0 };

	r->keys = 0;
	return !r->cell[COL_ATTR].n || each_json(r->cell[COL_ATTR], scratch, keyed, &k);
}

/* ---- all of them ---- */

struct listed {
	struct in_pair *pairs;
	size_t n, max;
};

static void listed(void *ctx, struct slice key, struct slice value)
{
	struct listed *l = ctx;

	if (l->n < l->max)
		l->pairs[l->n] = (struct in_pair){ key, value };
	l->n++;
}

bool in_row__pairs(const struct in_row *r, struct in_pair *pairs, size_t max, size_t *n,
		   struct strbuf *scratch)
{
	struct slice cell = r->cell[COL_ATTR];
	struct listed l = { pairs, 0, max };
	size_t i = 1;
	bool ok;

	while (i < cell.n && (cell.s[i] == ' ' || cell.s[i] == '\n'))
		i++;
	if (i < cell.n && cell.s[0] == '{' && (cell.s[i] == '"' || cell.s[i] == '}'))
		ok = each_json(cell, scratch, listed, &l);
	else
		ok = !cell.n || each_csv(cell, listed, &l);
	*n = l.n;
	return ok && l.n <= max;
}
