// SPDX-License-Identifier: Apache-2.0
/*
 * One record of a csv. First by RFC 4180. What that cannot read is read by
 * what the vendor's tools write: names of marks stand in quotes with nothing
 * doubled inside, Attr may lack its quotes or its braces. There the columns
 * around a text tell where it ends.
 */
#include "input/internal.h"

#include <string.h>

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

bool record__starts(const char *p, const char *end)
{
	const char *s = p;
	struct slice w;

	end = MT_MIN(end, p + 64);
	while (p < end && digit(*p))
		p++;
	if (p == s || p - s > 20 || p == end || *p != ',')
		return false;
	w.s = ++p;
	while (p < end && *p != ',')
		p++;
	w.n = (size_t)(p - w.s);
	return p < end && cell__event(w) != ROW_EVENT_MAX;
}

/* Behind the last cell: the end of the line, or of the file. *next: behind it. */
static enum record_state line_end(const char *p, const char *end, bool eof, const char **next)
{
	*next = p;
	if (p == end)
		return eof ? RECORD_OK : RECORD_MORE;
	if (*p == '\r') {
		if (++p == end)
			return eof ? RECORD_BAD : RECORD_MORE;
	}
	if (*p != '\n')
		return RECORD_BAD;
	*next = p + 1;
	return RECORD_OK;
}

/* A cell in quotes at p; *after: behind its closing quote. */
static enum record_state quoted(const char *p, const char *end, bool eof, struct slice *c,
				bool *doubled, const char **after)
{
	const char *s = ++p, *q;

	*doubled = false;
	while ((q = memchr(p, '"', (size_t)(end - p)))) {
		if (q + 1 < end && q[1] == '"') {
			*doubled = true;
			p = q + 2;
			continue;
		}
		if (q + 1 == end && !eof)
			return RECORD_MORE;
		*c = (struct slice){ s, (size_t)(q - s) };
		*after = q + 1;
		return RECORD_OK;
	}
	return eof ? RECORD_BAD : RECORD_MORE;
}

static enum record_state plain(const char *p, const char *end, bool eof, bool last, struct slice *c,
			       const char **after)
{
	const char *s = p;

	while (p < end && *p != ',' && *p != '\n')
		p++;
	if (p == end && !(eof && last))
		return eof ? RECORD_BAD : RECORD_MORE;
	*after = p;
	if (last && p > s && p[-1] == '\r')
		*after = --p;
	*c = (struct slice){ s, (size_t)(p - s) };
	return RECORD_OK;
}

static bool all_digits(struct slice c)
{
	size_t i;

	for (i = 0; i < c.n; i++) {
		if (!digit(c.s[i]))
			return false;
	}
	return c.n > 0;
}

static enum record_state strict(const char *p, const char *end, bool eof, unsigned int columns,
				struct record *rec)
{
	const char *start = p;
	enum record_state st;
	struct slice c;
	unsigned int i;
	bool doubled;

	rec->doubled = 0;
	for (i = 0; i < columns; i++) {
		doubled = false;
		if (p < end && *p == '"')
			st = quoted(p, end, eof, &c, &doubled, &p);
		else
			st = plain(p, end, eof, i + 1 == columns, &c, &p);
		rec->looked = (size_t)((st == RECORD_OK ? p : end) - start);
		if (st != RECORD_OK)
			return st;
		if (i < COL_MAX) {
			rec->cell[i] = c;
			rec->doubled |= (uint32_t)doubled << i;
		}
		/* Soon seen when the quotes are not those of the RFC. */
		if ((i == COL_ID || i == COL_TIME) && !all_digits(c))
			return RECORD_BAD;
		if (i + 1 == columns)
			break;
		if (p == end)
			return eof ? RECORD_BAD : RECORD_MORE;
		if (*p++ != ',')
			return RECORD_BAD;
	}
	return line_end(p, end, eof, &rec->next);
}

/* ---- the vendor's forms ---- */

/* A word of letters, digits and / up to a comma, as the short columns have. */
static bool word(const char **p, const char *end, struct slice *c)
{
	const char *s = *p, *q = s;

	while (q < end && q - s < 24 && (digit(*q) || *q == '/' || (*q | 32) >= 'a') && *q != ',')
		q++;
	if (q == end || *q != ',' || q == s)
		return false;
	*c = (struct slice){ s, (size_t)(q - s) };
	*p = q + 1;
	return true;
}

/* ",time,pid,tid,device," at p, what follows every name. */
static bool tail(const char *p, const char *end, struct slice cell[COL_MAX], const char **after)
{
	struct slice c[4];
	int i;

	if (p == end || *p++ != ',')
		return false;
	for (i = 0; i < 4; i++) {
		if (!word(&p, end, &c[i]) || (!i && !all_digits(c[0])))
			return false;
		if (i && !all_digits(c[i]) && !CELL_IS(c[i], "N/A") &&
		    (i < 3 || (!CELL_IS(c[i], "host") && !CELL_IS(c[i], "cpu"))))
			return false;
	}
	memcpy(&cell[COL_TIME], c, sizeof(c));
	*after = p;
	return true;
}

static const char *loose_name(const char *p, const char *end, struct slice cell[COL_MAX])
{
	bool quotes = p < end && *p == '"';
	char stop = quotes ? '"' : ',';
	const char *s = quotes ? ++p : p, *q, *after, *line;

	line = quotes ? NULL : memchr(p, '\n', (size_t)(end - p));
	while ((q = memchr(p, stop, (size_t)((line ? line : end) - p)))) {
		if (tail(quotes ? q + 1 : q, end, cell, &after)) {
			cell[COL_NAME] = (struct slice){ s, (size_t)(q - s) };
			return after;
		}
		p = q + 1;
	}
	return NULL;
}

/* The first `a` that `b` follows; NULL: none. */
static const char *pair(const char *p, const char *end, char a, char b)
{
	for (; (p = memchr(p, a, (size_t)(end - p))); p++) {
		if (p + 1 < end && p[1] == b)
			return p;
	}
	return NULL;
}

static const char *loose_attr(const char *p, const char *end, struct slice *c)
{
	bool quotes = p < end && *p == '"', braces;
	const char *s = quotes ? ++p : p, *q, *next;

	braces = p < end && *p == '{';
	if (braces && quotes) {
		/* Labels of the program's may have quotes in them. */
		do {
			q = pair(p, end, '}', '"');
			p = q ? q + 1 : NULL;
		} while (q && (q + 2 >= end || q[2] != ','));
		if (!q)
			return NULL;
		*c = (struct slice){ s, (size_t)(q + 1 - s) };
		return q + 3;
	}
	if (quotes) {
		q = pair(p, end, '"', ',');
		if (!q)
			return NULL;
		*c = (struct slice){ s, (size_t)(q - s) };
		return q + 2;
	}
	if (braces) {
		q = pair(p, end, '}', ',');
		if (!q)
			return NULL;
		*c = (struct slice){ s, (size_t)(q + 1 - s) };
		return q + 2;
	}
	/* Neither: k:v,k:v, up to a cell that is none. */
	for (;;) {
		q = memchr(p, ',', (size_t)(end - p));
		if (!q)
			return NULL;
		for (next = q + 1;
		     next < end && (*next == '_' || (*next | 32) >= 'a') && (*next | 32) <= 'z';
		     next++)
			;
		if (next == q + 1 || next == end || *next != ':')
			break;
		p = next;
	}
	*c = (struct slice){ s, (size_t)(q - s) };
	return q + 1;
}

static enum record_state loose_py(const char *p, const char *end, struct slice *c,
				  const char **next)
{
	const char *s = p, *q;

	if (p == end)
		return RECORD_MORE;
	if (*p != '"') {
		q = memchr(p, ',', (size_t)(end - p));
		if (!q || memchr(p, '\n', (size_t)(q - p)))
			return q ? RECORD_BAD : RECORD_MORE;
		*c = (struct slice){ s, (size_t)(q - s) };
		*next = q + 1;
		return RECORD_OK;
	}
	s = ++p;
	for (; (q = pair(p, end, '"', ',')); p = q + 1) {
		if (q + 2 == end || q[2] == '"' || q[2] == '\n' || q[2] == '\r') {
			*c = (struct slice){ s, (size_t)(q - s) };
			*next = q + 2;
			return RECORD_OK;
		}
	}
	return RECORD_MORE;
}

static enum record_state loose_c(const char *p, const char *end, bool eof, struct slice *c,
				 const char **next)
{
	const char *s, *q;

	if (p == end || *p != '"') {
		for (q = p; q < end && *q != '\n' && *q != '\r' && *q != ','; q++)
			;
		*c = (struct slice){ p, (size_t)(q - p) };
		return line_end(q, end, eof, next);
	}
	s = ++p;
	for (; (q = memchr(p, '"', (size_t)(end - p))); p = q + 1) {
		enum record_state st = line_end(q + 1, end, eof, next);

		if (st == RECORD_MORE)
			return st;
		if (st != RECORD_OK)
			continue;
		if (*next < end && (eof || end - *next > 64))
			continue; /* lines of the stack */
		*c = (struct slice){ s, (size_t)(q - s) };
		return RECORD_OK;
	}
	return eof ? RECORD_BAD : RECORD_MORE;
}

/* Where the next record starts; NULL: not before end. No text of the vendor's goes beyond that. */
static const char *next_start(const char *p, const char *end, bool eof)
{
	while ((p = memchr(p, '\n', (size_t)(end - p)))) {
		p++;
		if (p == end || (!eof && end - p < 64))
			return NULL;
		if (record__starts(p, end))
			return p;
	}
	return NULL;
}

static enum record_state loose(const char *p, const char *end, bool eof, struct record *rec)
{
	const char *next = next_start(p, end, eof);
	enum record_state st, none = eof || next ? RECORD_BAD : RECORD_MORE;
	int i;

	rec->doubled = 0;
	rec->loose = true;
	if (next) {
		end = next;
		eof = true;
	}
	for (i = COL_ID; i <= COL_TYPE; i++) {
		st = plain(p, end, eof, false, &rec->cell[i], &p);
		if (st != RECORD_OK)
			return st;
		if (p == end || *p++ != ',')
			return RECORD_BAD;
	}
	if (!all_digits(rec->cell[COL_ID]) || cell__event(rec->cell[COL_EVENT]) == ROW_EVENT_MAX)
		return RECORD_BAD;
	p = loose_name(p, end, rec->cell);
	if (!p)
		return none;
	st = plain(p, end, eof, false, &rec->cell[COL_PTR], &p);
	if (st != RECORD_OK || p == end || *p++ != ',')
		return st == RECORD_OK ? RECORD_BAD : st;
	p = loose_attr(p, end, &rec->cell[COL_ATTR]);
	if (!p)
		return none;
	st = loose_py(p, end, &rec->cell[COL_PY], &p);
	if (st != RECORD_OK)
		return st == RECORD_MORE ? none : st;
	return loose_c(p, end, eof, &rec->cell[COL_C], &rec->next);
}

enum record_state record__read(const char *p, const char *end, bool eof, unsigned int columns,
			       struct record *rec)
{
	struct record other;
	enum record_state st, st2;

	rec->looked = 0;
	rec->loose = false;
	st = strict(p, end, eof, columns, rec);
	if (st == RECORD_OK)
		return st;
	/* Columns of somebody else's behind ours: only by the RFC. */
	if (columns > COL_MAX)
		return st;
	other.looked = rec->looked;
	st2 = loose(p, end, eof, &other);
	if (st2 == RECORD_OK)
		*rec = other;
	else if (st == RECORD_MORE || st2 == RECORD_MORE)
		st2 = RECORD_MORE;
	return st2;
}
