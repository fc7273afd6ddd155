// SPDX-License-Identifier: Apache-2.0
/* Rules that tell the owner of a block: their text, and whether they hold. */
#include "analyze/internal.h"

#include <errno.h>
#include <regex.h>

#define MAX_RULES 256
/* Expressions of a kind: a bit of a word each. */
#define MAX_REGEX 64
/* Of a longer text the start must do. */
#define MAX_TEXT (64u << 10)

struct one_rule {
	char *label;
	double confidence;
	uint32_t pools; /* 1 << type; 0 = all */
	uint64_t need[RULE_TEXTS], not [RULE_TEXTS];
	uint64_t min[4], max[4]; /* ends, step, calls, size */
	bool accessed;
	int thread; /* 0 any, 1 main, 2 other */
};

struct rules {
	struct one_rule list[MAX_RULES];
	unsigned int n;
	regex_t regex[RULE_TEXTS][MAX_REGEX];
	unsigned int n_regex[RULE_TEXTS];
	/* What is known of each text. */
	uint64_t *match[RULE_TEXTS];
	uint8_t *known;
	size_t cap;
};

static const char *const text_words[RULE_TEXTS] = { "python", "c", "op", "reads", "writes" };
static const char *const number_words[4] = { "ends", "step", "calls", "size" };

struct rules *rules__new(void)
{
	return calloc(1, sizeof(struct rules));
}

void rules__free(struct rules *r)
{
	unsigned int i, k;

	if (!r)
		return;
	for (i = 0; i < r->n; i++)
		free(r->list[i].label);
	for (k = 0; k < RULE_TEXTS; k++) {
		for (i = 0; i < r->n_regex[k]; i++)
			regfree(&r->regex[k][i]);
		free(r->match[k]);
	}
	free(r->known);
	free(r);
}

/* ---- parsing ---- */

struct line {
	const char *p, *end;
	const char *name;
	unsigned int number;
	char word[4096];
};

static int wrong(const struct line *l, const char *what)
{
	pr_err("%s, line %u: %s%s%s", l->name, l->number, what, *l->word ? ": " : "", l->word);
	return -EINVAL;
}

/* The next word of the line. 1, 0: the line is at its end, -EINVAL. */
static int next_word(struct line *l)
{
	bool quotes = false;
	size_t n = 0;

	*l->word = '\0';
	while (l->p < l->end && (*l->p == ' ' || *l->p == '\t' || *l->p == '\r'))
		l->p++;
	if (l->p == l->end || *l->p == '#')
		return 0;
	for (; l->p < l->end; l->p++) {
		if (*l->p == '"') {
			quotes = !quotes;
			continue;
		}
		if (!quotes && (*l->p == ' ' || *l->p == '\t' || *l->p == '\r'))
			break;
		if (n + 1 == sizeof(l->word)) {
			*l->word = '\0';
			return wrong(l, "a word of more than 4095 characters");
		}
		l->word[n++] = *l->p;
	}
	l->word[n] = '\0';
	if (quotes)
		return wrong(l, "a double quote is not closed");
	return 1;
}

static int pools(struct line *l, struct one_rule *u, char *list)
{
	char *w, *save;
	int t;

	for (w = strtok_r(list, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		for (t = ROW_HAL;
		     t <= ROW_MINDSPORE && strcmp(w, row_type__name((enum row_type)t)) != 0; t++)
			;
		if (t > ROW_MINDSPORE)
			return wrong(l, "no such pool");
		u->pools |= 1u << t;
	}
	return u->pools ? 0 : wrong(l, "a pool is wanted");
}

static int expression(struct rules *r, struct line *l, struct one_rule *u, int kind, bool not,
		      const char *text)
{
	unsigned int i = r->n_regex[kind];
	char msg[128];
	int rc;

	if (not &&kind > RULE_C)
		return wrong(l, "only python and c have !=");
	if (i == MAX_REGEX)
		return wrong(l, "more than 64 expressions of this kind");
	rc = regcomp(&r->regex[kind][i], text, REG_EXTENDED | REG_NOSUB | REG_NEWLINE);
	if (rc) {
		regerror(rc, &r->regex[kind][i], msg, sizeof(msg));
		pr_err("%s, line %u: the expression '%s' is wrong: %s", l->name, l->number, text,
		       msg);
		return -EINVAL;
	}
	r->n_regex[kind]++;
	*(not ? &u->not [kind] : &u->need[kind]) |= 1ULL << i;
	return 0;
}

static int number(struct line *l, struct one_rule *u, int which, bool max, const char *text)
{
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9')
		return wrong(l, "a number is wanted");
	*(max ? &u->max[which] : &u->min[which]) = v;
	return 0;
}

static int condition(struct rules *r, struct line *l, struct one_rule *u)
{
	size_t n = strcspn(l->word, "=<>!"), i;
	char *op = l->word + n;

	if (!strcmp(l->word, "accessed")) {
		u->accessed = true;
		return 0;
	}
	for (i = 0; i < 4; i++) {
		if (strlen(number_words[i]) == n && !strncmp(l->word, number_words[i], n) &&
		    (op[0] == '>' || op[0] == '<') && op[1] == '=')
			return number(l, u, (int)i, *op == '<', op + 2);
	}
	if (*op == '=' && n == 4 && !strncmp(l->word, "pool", n))
		return pools(l, u, op + 1);
	if (!strcmp(l->word, "thread=main") || !strcmp(l->word, "thread=other")) {
		u->thread = op[1] == 'm' ? 1 : 2;
		return 0;
	}
	for (i = 0; i < RULE_TEXTS; i++) {
		bool not = op[0] == '!' && op[1] == '=';

		if (strlen(text_words[i]) == n && !strncmp(l->word, text_words[i], n) &&
		    (not || *op == '='))
			return expression(r, l, u, (int)i, not, op + 1 + not );
	}
	return wrong(l, "no such condition");
}

static int label(struct line *l, struct one_rule *u)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789_@.-";

	if (strspn(l->word, letters) != strlen(l->word) || *l->word == '@' || *l->word == '-')
		return wrong(l, "a label has words of letters, digits, _ . and -, joined by @");
	u->label = strdup(l->word);
	return u->label ? 0 : -ENOMEM;
}

static int parse_line(struct rules *r, struct line *l)
{
	struct one_rule *u = &r->list[r->n];
	int err = next_word(l), i;
	char *end;

	if (err <= 0)
		return err;
	if (r->n == MAX_RULES)
		return wrong(l, "more than 256 rules");
	memset(u, 0, sizeof(*u));
	for (i = 0; i < 4; i++)
		u->max[i] = UINT64_MAX;
	err = label(l, u);
	if (err)
		return err;
	r->n++; /* also half a rule is to be freed */
	err = next_word(l);
	if (err < 0)
		return err;
	u->confidence = strtod(l->word, &end);
	if (!*l->word || *end || !(u->confidence >= 0 && u->confidence <= 1))
		return wrong(l, "behind the label a confidence from 0 to 1 is wanted");
	while ((err = next_word(l)) > 0) {
		err = condition(r, l, u);
		if (err)
			return err;
	}
	return err;
}

int rules__parse(struct rules *r, const char *text, size_t n, const char *name)
{
	struct line l = { .name = name };
	const char *p = text, *end = text + n;
	int err;

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		l.p = p;
		l.end = nl ? nl : end;
		l.number++;
		if (memchr(l.p, '\0', (size_t)(l.end - l.p))) {
			*l.word = '\0';
			return wrong(&l, "holds a zero byte: no text");
		}
		err = parse_line(r, &l);
		if (err)
			return err;
		p = nl ? nl + 1 : end;
	}
	return 0;
}

/* ---- do they hold? ---- */

static int room(struct rules *r, uint32_t text)
{
	size_t cap = MT_MAX(r->cap * 2, (size_t)text + 1024);
	uint8_t *known;
	int i;

	if (text < r->cap)
		return 0;
	for (i = 0; i < RULE_TEXTS; i++) {
		uint64_t *m = reallocarray(r->match[i], cap, sizeof(*m));

		if (!m)
			return -ENOMEM;
		r->match[i] = m;
	}
	known = realloc(r->known, cap);
	if (!known)
		return -ENOMEM;
	memset(known + r->cap, 0, cap - r->cap);
	r->known = known;
	r->cap = cap;
	return 0;
}

uint64_t rules__match(struct rules *r, enum rule_text kind, const struct texts *t, uint32_t text,
		      int *err)
{
	char *cut = NULL;
	const char *s;
	unsigned int i;
	size_t n;

	if (!text || !r->n_regex[kind])
		return 0;
	*err = room(r, text);
	if (*err)
		return 0;
	if (r->known[text] & 1u << kind)
		return r->match[kind][text];
	s = texts__get(t, text, &n);
	if (n > MAX_TEXT) {
		s = cut = strndup(s, MAX_TEXT);
		if (!cut) {
			*err = -ENOMEM;
			return 0;
		}
	}
	r->match[kind][text] = 0;
	for (i = 0; i < r->n_regex[kind]; i++) {
		if (!regexec(&r->regex[kind][i], s, 0, NULL, 0))
			r->match[kind][text] |= 1ULL << i;
	}
	r->known[text] |= (uint8_t)(1u << kind);
	free(cut);
	return r->match[kind][text];
}

void rules__forget(struct rules *r)
{
	if (r->cap)
		memset(r->known, 0, r->cap);
}

static bool holds(const struct one_rule *u, const struct rule_block *b)
{
	uint64_t v[4] = { b->ends, b->step, b->calls, b->size > 0 ? (uint64_t)b->size : 0 };
	int i;

	if ((u->pools && !(u->pools & 1u << b->type)) || (u->accessed && !b->accessed) ||
	    (u->thread && (u->thread == 2) != b->other_thread))
		return false;
	for (i = 0; i < 4; i++) {
		if (v[i] < u->min[i] || v[i] > u->max[i])
			return false;
	}
	for (i = 0; i < RULE_TEXTS; i++) {
		if ((b->match[i] & u->need[i]) != u->need[i] || b->match[i] & u->not [i])
			return false;
	}
	return (!u->not [RULE_PYTHON] || b->stack[RULE_PYTHON]) &&
	       (!u->not [RULE_C] || b->stack[RULE_C]);
}

bool rules__find(const struct rules *r, const struct rule_block *b, struct rule_found *f)
{
	unsigned int i;

	for (i = 0; i < r->n; i++) {
		if (!holds(&r->list[i], b))
			continue;
		*f = (struct rule_found){ r->list[i].label, r->list[i].confidence, i + 1 };
		return true;
	}
	return false;
}
