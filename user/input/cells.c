// SPDX-License-Identifier: Apache-2.0
/* The text of a row's cells to numbers and words. */
#include "input/internal.h"

#include <string.h>

const char *const in_columns[COL_MAX] = {
	"ID",	     "Event",	  "Event Type", "Name", "Timestamp(ns)",      "Process Id",
	"Thread Id", "Device Id", "Ptr",	"Attr", "Call Stack(Python)", "Call Stack(C)",
};

static bool hex(struct slice c, uint64_t *v)
{
	uint64_t x = 0;
	size_t i;

	if (c.n < 3 || c.n > 18)
		return false;
	for (i = 2; i < c.n; i++) {
		unsigned char ch = (unsigned char)c.s[i];
		unsigned int d;

		if (ch >= '0' && ch <= '9')
			d = ch - '0';
		else if ((ch | 32) >= 'a' && (ch | 32) <= 'f')
			d = (ch | 32) - 'a' + 10;
		else
			return false;
		x = x << 4 | d;
	}
	*v = x;
	return true;
}

bool cell__u64(struct slice c, uint64_t *v)
{
	uint64_t x = 0;
	size_t i;

	if (!c.n || c.n > 20)
		return false;
	if (c.n > 2 && c.s[0] == '0' && c.s[1] == 'x')
		return hex(c, v);
	for (i = 0; i < c.n; i++) {
		unsigned int d = (unsigned char)c.s[i] - (unsigned int)'0';

		if (d > 9)
			return false;
		if (i == 19 && __builtin_mul_overflow(x, 10, &x))
			return false;
		if (i < 19)
			x *= 10;
		if (__builtin_add_overflow(x, d, &x))
			return false;
	}
	*v = x;
	return true;
}

bool in_row__num(const struct in_row *r, enum in_key key, int64_t *v)
{
	struct slice c;
	uint64_t u;
	bool minus;

	if (!(r->keys & 1u << key))
		return false;
	c = r->attr[key];
	minus = c.n && c.s[0] == '-';
	if (minus) {
		c.s++;
		c.n--;
	}
	if (!cell__u64(c, &u) || u > INT64_MAX)
		return false;
	*v = minus ? -(int64_t)u : (int64_t)u;
	return true;
}

/* Words by their first letter and length, made on first use from the model's own. */
struct word {
	const char *s;
	uint8_t len, value;
};

static const struct word *find(struct slice c, struct word *list, int max, const char *(*name)(int))
{
	int i;

	if (!list[0].s) {
		for (i = 0; i < max; i++) {
			list[i].s = name(i);
			list[i].len = (uint8_t)strlen(list[i].s);
			list[i].value = (uint8_t)i;
		}
	}
	for (i = 0; i < max; i++) {
		if (list[i].len == c.n && list[i].s[0] == c.s[0] && !memcmp(list[i].s, c.s, c.n))
			return &list[i];
	}
	return NULL;
}

static const char *event_name(int i)
{
	return row_event__name((enum row_event)i);
}

static const char *type_name(int i)
{
	return row_type__name((enum row_type)i);
}

enum row_event cell__event(struct slice c)
{
	static struct word list[ROW_EVENT_MAX];
	const struct word *w = c.n ? find(c, list, ROW_EVENT_MAX, event_name) : NULL;

	return w ? (enum row_event)w->value : ROW_EVENT_MAX;
}

enum row_type cell__type(struct slice c)
{
	static struct word list[ROW_TYPE_MAX];
	const struct word *w = c.n ? find(c, list, ROW_TYPE_MAX, type_name) : NULL;

	return w ? (enum row_type)w->value : ROW_TYPE_MAX;
}

/* A number of a process or thread, or "N/A". */
static bool number32(struct slice c, uint32_t *v)
{
	uint64_t u;

	if (CELL_IS(c, "N/A") || !c.n) {
		*v = 0;
		return true;
	}
	if (!cell__u64(c, &u) || u > UINT32_MAX)
		return false;
	*v = (uint32_t)u;
	return true;
}

static bool device(struct slice c, int32_t *v)
{
	uint64_t u;

	*v = DEV_NA;
	if (CELL_IS(c, "host"))
		*v = DEV_HOST;
	else if (CELL_IS(c, "cpu"))
		*v = DEV_CPU;
	else if (!CELL_IS(c, "N/A") && c.n) {
		if (!cell__u64(c, &u) || u > INT32_MAX)
			return false;
		/* The vendor's number of a device that it does not know. */
		*v = u == 9999 ? DEV_NA : (int32_t)u;
	}
	return true;
}

bool cells__row(struct in_row *r)
{
	const struct slice *c = r->cell;
	struct slice name = c[COL_NAME];

	if (!cell__u64(c[COL_ID], &r->id) || !cell__u64(c[COL_TIME], &r->time) ||
	    !number32(c[COL_PID], &r->pid) || !number32(c[COL_TID], &r->tid) ||
	    !device(c[COL_DEVICE], &r->device))
		return false;
	r->has_ptr = cell__u64(c[COL_PTR], &r->ptr);
	if (!r->has_ptr) {
		if (c[COL_PTR].n && !CELL_IS(c[COL_PTR], "N/A"))
			return false;
		r->ptr = 0;
	}
	r->hex = r->has_ptr && c[COL_PTR].n > 2 && c[COL_PTR].s[1] == 'x';
	r->event = cell__event(c[COL_EVENT]);
	r->type = cell__type(c[COL_TYPE]);
	/* In a db the names of marks have their quotes still. */
	if (r->event == ROW_MSTX && name.n >= 2 && name.s[0] == '"' && name.s[name.n - 1] == '"') {
		name.s++;
		name.n -= 2;
	}
	r->name = CELL_IS(name, "N/A") || !name.s ? (struct slice){ 0 } : name;
	r->keys = 0;
	return true;
}
