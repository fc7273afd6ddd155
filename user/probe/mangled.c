// SPDX-License-Identifier: Apache-2.0
/* Parameter types of mangled C++ names: as much of the Itanium ABI (5.1) as operators need. */
#include "probe/aten.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define MAX_SUBST 96
#define MAX_DEPTH 32

struct parser {
	const char *p;
	char subst[MAX_SUBST][MANGLED_TEXT];
	unsigned int n_subst;
	unsigned int depth;
	int err;
};

static int fail(struct parser *q, int err)
{
	if (!q->err)
		q->err = err;
	return q->err;
}

static int append(struct parser *q, char out[MANGLED_TEXT], const char *s, size_t n)
{
	size_t have = strlen(out);

	if (have + n >= MANGLED_TEXT)
		return fail(q, -ENOTSUP);
	memcpy(out + have, s, n);
	out[have + n] = '\0';
	return 0;
}

static int add_subst(struct parser *q, const char *text)
{
	if (q->n_subst == MAX_SUBST)
		return fail(q, -ENOTSUP);
	snprintf(q->subst[q->n_subst++], MANGLED_TEXT, "%s", text);
	return 0;
}

/* <length><text>, with the ABI tags behind it, which are left out. */
static int source_name(struct parser *q, char out[MANGLED_TEXT])
{
	unsigned int n;

	do {
		for (n = 0; isdigit((unsigned char)*q->p) && n < MANGLED_TEXT; q->p++)
			n = n * 10 + (unsigned int)(*q->p - '0');
		if (!n || n >= MANGLED_TEXT || strnlen(q->p, n) < n)
			return fail(q, -EINVAL);
		if (out && append(q, out, q->p, n))
			return q->err;
		q->p += n;
		out = NULL;
	} while (*q->p == 'B' && isdigit((unsigned char)*++q->p));
	return q->err;
}

static int type(struct parser *q, char out[MANGLED_TEXT]);

/* I … E, appended. */
static int template_args(struct parser *q, char out[MANGLED_TEXT])
{
	const char *comma = "<";
	char arg[MANGLED_TEXT];

	q->p++;
	while (*q->p != 'E') {
		arg[0] = '\0';
		if (*q->p == 'L') {
			/* A number: L <type> <digits> E */
			const char *end = strchr(q->p, 'E');

			if (!end || !isalpha((unsigned char)q->p[1]))
				return fail(q, -ENOTSUP);
			if (append(q, arg, q->p + 2, (size_t)(end - q->p - 2)))
				return q->err;
			q->p = end + 1;
		} else if (type(q, arg)) {
			return q->err;
		}
		if (append(q, out, comma, 1) || append(q, out, arg, strlen(arg)))
			return q->err;
		comma = ",";
	}
	q->p++;
	return append(q, out, ">", 1);
}

/* S_, S0_ …, St, Ss; `whole`: it was one that stands for a type by itself. */
static int substitution(struct parser *q, char out[MANGLED_TEXT], bool *whole)
{
	static const struct {
		char c;
		const char *text;
	} std[] = { { 't', "std" },
		    { 'a', "std::allocator" },
		    { 'b', "std::basic_string" },
		    { 's', "std::string" } };
	unsigned int n = 0;
	size_t i;

	*whole = true;
	q->p++;
	for (i = 0; i < MT_ARRAY_SIZE(std); i++) {
		if (*q->p != std[i].c)
			continue;
		*whole = std[i].c != 't';
		q->p++;
		return append(q, out, std[i].text, strlen(std[i].text));
	}
	if (*q->p != '_') {
		for (; isdigit((unsigned char)*q->p) || isupper((unsigned char)*q->p); q->p++) {
			n = n * 36 + (unsigned int)(isdigit((unsigned char)*q->p) ? *q->p - '0'
										   : *q->p - 'A' + 10);
			if (n > MAX_SUBST)
				return fail(q, -EINVAL);
		}
		n++;
	}
	if (*q->p != '_' || n >= q->n_subst)
		return fail(q, -EINVAL);
	q->p++;
	return append(q, out, q->subst[n], strlen(q->subst[n]));
}

/*
 * N … E. Each prefix can be substituted, the whole too; of a function's own name the
 * last component is no type, and stays out.
 */
static int nested(struct parser *q, char out[MANGLED_TEXT], bool function)
{
	bool first = true, whole;

	q->p++;
	if (*q->p == 'K') /* a method's const */
		q->p++;
	while (*q->p != 'E') {
		if (*q->p == 'S' && first) {
			if (substitution(q, out, &whole))
				return q->err;
			first = false;
			continue;
		}
		if (*q->p == 'I' && !first) {
			if (template_args(q, out))
				return q->err;
		} else if (isdigit((unsigned char)*q->p)) {
			if ((!first && append(q, out, "::", 2)) || source_name(q, out))
				return q->err;
		} else {
			return fail(q, *q->p ? -ENOTSUP : -EINVAL);
		}
		first = false;
		if ((!function || *q->p != 'E') && add_subst(q, out))
			return q->err;
	}
	q->p++;
	return first ? fail(q, -EINVAL) : 0;
}

static const char *builtin(char c)
{
	static const char *const names[] = {
		['v' - 'a'] = "void",	['w' - 'a'] = "wchar_t", ['b' - 'a'] = "bool",
		['c' - 'a'] = "char",	['a' - 'a'] = "char",	 ['h' - 'a'] = "char",
		['s' - 'a'] = "short",	['t' - 'a'] = "short",	 ['i' - 'a'] = "int",
		['j' - 'a'] = "int",	['l' - 'a'] = "long",	 ['m' - 'a'] = "long",
		['x' - 'a'] = "long",	['y' - 'a'] = "long",	 ['f' - 'a'] = "float",
		['d' - 'a'] = "double",
	};

	return c >= 'a' && (size_t)(c - 'a') < MT_ARRAY_SIZE(names) ? names[c - 'a'] : NULL;
}

static int plain_type(struct parser *q, char out[MANGLED_TEXT])
{
	bool whole = true;

	if (*q->p == 'N')
		return nested(q, out, false);
	if (*q->p == 'S') {
		if (substitution(q, out, &whole))
			return q->err;
		if (!whole) {
			if (append(q, out, "::", 2) || source_name(q, out) || add_subst(q, out))
				return q->err;
		}
	} else if (isdigit((unsigned char)*q->p)) {
		if (source_name(q, out) || add_subst(q, out))
			return q->err;
	} else {
		const char *name = builtin(*q->p);

		if (!name)
			return fail(q, *q->p ? -ENOTSUP : -EINVAL);
		q->p++;
		return append(q, out, name, strlen(name));
	}
	if (*q->p == 'I' && (template_args(q, out) || add_subst(q, out)))
		return q->err;
	return 0;
}

static int type(struct parser *q, char out[MANGLED_TEXT])
{
	static const struct {
		char c;
		const char *text;
	} marks[] = { { 'K', " const" }, { 'R', "&" }, { 'P', "*" }, { 'O', "&&" } };
	size_t i;
	int err;

	if (++q->depth > MAX_DEPTH)
		return fail(q, -ENOTSUP);
	for (i = 0; i < MT_ARRAY_SIZE(marks) && *q->p != marks[i].c; i++)
		;
	if (i == MT_ARRAY_SIZE(marks)) {
		err = plain_type(q, out);
	} else {
		q->p++;
		err = type(q, out);
		if (!err)
			err = append(q, out, marks[i].text, strlen(marks[i].text));
		if (!err)
			err = add_subst(q, out);
	}
	q->depth--;
	return err;
}

int mangled__params(const char *name, struct mangled *out)
{
	struct parser q = { .p = name + 2 };
	char own[MANGLED_TEXT] = "";

	out->n = 0;
	if (strncmp(name, "_ZN", 3) != 0)
		return -EINVAL;
	if (nested(&q, own, true))
		return q.err;
	if (!strcmp(q.p, "v"))
		return 0;
	while (*q.p) {
		if (out->n == MANGLED_PARAMS)
			return -ENOTSUP;
		out->param[out->n][0] = '\0';
		if (type(&q, out->param[out->n]))
			return q.err;
		out->n++;
	}
	return 0;
}
