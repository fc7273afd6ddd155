// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of leaks_dump_*.csv, in the vendor's form (V-seed): numbers are
 * formatted by hand, a row goes into the buffer in one pass.
 *
 * Names are RFC 4180. Those of marks are always quoted, as the vendor does;
 * others only when they must be. A name that a spreadsheet would take for a
 * formula is emptied in marks (vendor) and gets a ' in front elsewhere.
 */
#include "output/internal.h"

#include <errno.h>

const char csv_header[] = "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,"
			  "Ptr,Attr,Call Stack(Python),Call Stack(C)\n";

/* ",EVENT,TYPE," of every pair, made on first use. */
struct words {
	char text[46];
	uint8_t len;
};
static struct words words[ROW_EVENT_MAX][ROW_TYPE_MAX];

static const struct words *words_of(const struct row *r)
{
	struct words *w = &words[r->event][r->type];

	if (!w->len)
		w->len = (uint8_t)snprintf(w->text, sizeof(w->text), ",%s,%s,",
					   row_event__name(r->event), row_type__name(r->type));
	return w;
}

static bool needs_quotes(const char *s, size_t n)
{
	for (; n; s++, n--) {
		if (*s == ',' || *s == '"' || *s == '\n' || *s == '\r')
			return true;
	}
	return false;
}

static char *put_name(char *p, const struct row *r, uint64_t *guarded)
{
	char tmp[48];
	size_t n;
	const char *s = row__name(r, &n, tmp);
	bool formula, quotes;

	if (!s)
		return PUT_LIT(p, "N/A");
	formula = text__is_formula(s, n);
	*guarded += formula;
	if (r->event == ROW_MSTX) {
		*p++ = '"';
		if (!formula)
			p = text__put(p, s, n, TEXT_QUOTED);
		*p++ = '"';
		return p;
	}
	quotes = needs_quotes(s, n);
	if (quotes)
		*p++ = '"';
	if (formula)
		*p++ = '\'';
	p = text__put(p, s, n, quotes ? TEXT_QUOTED : TEXT_PLAIN);
	if (quotes)
		*p++ = '"';
	return p;
}

/* A call stack: always in quotes, a frame a line (msleaks.md 3.6). */
static char *put_cell(char *p, const char *s, size_t n, uint64_t *guarded)
{
	bool formula;

	if (!s)
		return p;
	formula = text__is_formula(s, n);
	*guarded += formula;
	*p++ = '"';
	if (formula)
		*p++ = '\'';
	p = text__put(p, s, n, TEXT_QUOTED);
	*p++ = '"';
	return p;
}

int csv__row(struct sink *s, const struct row *r, unsigned int form, uint64_t *guarded)
{
	uint32_t attrs = form__attrs(form, r);
	const struct words *w;
	char *p;

	if ((unsigned int)r->event >= ROW_EVENT_MAX || (unsigned int)r->type >= ROW_TYPE_MAX)
		return -EINVAL;
	w = words_of(r);
	p = sink__room(s, 256 + TEXT_MAX(r->name ? r->name_len : 48) + attr__bound(r) +
				  TEXT_MAX(r->cell_py_len + r->cell_c_len));
	if (!p)
		return s->err;
	p = put_u64(p, r->id);
	memcpy(p, w->text, sizeof(w->text));
	p += w->len;
	if (r->name || r->event == ROW_MSTX || r->event == ROW_OOM_DETAIL)
		p = put_name(p, r, guarded);
	else
		p = PUT_LIT(p, "N/A");
	*p++ = ',';
	p = put_u64(p, r->time);
	*p++ = ',';
	p = put_u64(p, r->pid);
	*p++ = ',';
	p = put_u64(p, r->tid);
	*p++ = ',';
	p = device__put(p, r->device);
	*p++ = ',';
	if (row__has_ptr(r))
		p = ptr__put(p, r->ptr, attrs);
	else
		p = PUT_LIT(p, "N/A");
	*p++ = ',';
	p = attr__csv(p, r, attrs);
	*p++ = ',';
	p = put_cell(p, r->cell_py, r->cell_py_len, guarded);
	*p++ = ',';
	p = put_cell(p, r->cell_c, r->cell_c_len, guarded);
	*p++ = '\n';
	sink__commit(s, p);
	return s->err;
}
