// SPDX-License-Identifier: Apache-2.0
/* What the dump of a killed run holds: processes, last times, where it ends. */
#include "output/recover.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

static struct hkey row_key(const struct row *r)
{
	return (struct hkey){ .a = r->id, .b = (uint64_t)r->pid << 8 | r->event };
}

static struct found_pid *pid_of(struct found *f, uint32_t pid)
{
	struct hkey k = { .a = pid };
	uint64_t *v = hmap__get(&f->by_pid, k);

	if (v)
		return &f->pids[*v];
	if (f->n_pids == f->cap_pids) {
		size_t cap = f->cap_pids ? f->cap_pids * 2 : 16;
		struct found_pid *p = realloc(f->pids, cap * sizeof(*p));

		if (!p)
			return NULL;
		f->pids = p;
		f->cap_pids = cap;
	}
	v = hmap__put(&f->by_pid, k, NULL);
	if (!v)
		return NULL;
	*v = f->n_pids;
	f->pids[f->n_pids] = (struct found_pid){ .pid = pid };
	return &f->pids[f->n_pids++];
}

void found__row(struct found *f, const struct row *r, bool in_tail)
{
	struct found_pid *p = pid_of(f, r->pid);

	if (!p || (in_tail && !hmap__put(&f->tail, row_key(r), NULL))) {
		f->nomem = true;
		return;
	}
	f->rows++;
	f->max_time = MT_MAX(f->max_time, r->time);
	p->max_id = MT_MAX(p->max_id, r->id);
	if (r->event != ROW_SYSTEM)
		return;
	if (r->type == ROW_START_TRACE) {
		p->started = true;
		p->stopped = false;
	} else if (r->type == ROW_STOP_TRACE) {
		p->stopped = true;
	} else if (r->type == ROW_LOST && r->attrs & ATTR_RECOVERED) {
		f->lost_noted = true;
	}
}

bool found__has(const struct found *f, const struct row *r)
{
	return hmap__get(&f->tail, row_key(r));
}

void found__free(struct found *f)
{
	free(f->pids);
	hmap__free(&f->by_pid);
	hmap__free(&f->tail);
	memset(f, 0, sizeof(*f));
}

static void parse_words(struct row *r, const char *event, const char *type, const char *attr)
{
	int i;

	r->event = ROW_EVENT_MAX;
	r->type = ROW_TYPE_MAX;
	for (i = 0; i < ROW_EVENT_MAX; i++) {
		if (!strcmp(event, row_event__name((enum row_event)i)))
			r->event = (enum row_event)i;
	}
	for (i = 0; i < ROW_TYPE_MAX && r->event == ROW_SYSTEM; i++) {
		if (!strcmp(type, row_type__name((enum row_type)i)))
			r->type = (enum row_type)i;
	}
	/* Whole: a library's path may hold the word. Only the csv's has no quotes. */
	if (strstr(attr, ",recovered:true}") || strstr(attr, "\"recovered\":\"true\""))
		r->attrs |= ATTR_RECOVERED;
}

/* A csv reader that keeps the start of each field; records may be torn. */
#define FIELDS 12
#define FIELD_MAX 256

struct scan {
	char field[FIELDS][FIELD_MAX];
	size_t len[FIELDS];
	unsigned int n;
	bool quoted;
	uint64_t start; /* of the record */
};

static void end_record(struct scan *s, struct found *f, uint64_t end, uint64_t position)
{
	struct row r = { 0 };
	unsigned int i;

	for (i = 0; i < FIELDS; i++)
		s->field[i][s->len[i]] = '\0';
	/* The header has no number. */
	if (s->n == FIELDS - 1 && s->field[0][0] >= '0' && s->field[0][0] <= '9') {
		r.id = strtoull(s->field[0], NULL, 10);
		r.time = strtoull(s->field[4], NULL, 10);
		r.pid = (uint32_t)strtoul(s->field[5], NULL, 10);
		parse_words(&r, s->field[1], s->field[2], s->field[9]);
		found__row(f, &r, s->start >= position);
	}
	f->end = end;
	memset(s->len, 0, sizeof(s->len));
	s->n = 0;
	s->start = end;
}

int found__scan_csv(struct found *f, int fd, uint64_t position)
{
	struct scan *s = calloc(1, sizeof(*s));
	uint64_t off = 0;
	char *buf = malloc(SINK_BUF);
	ssize_t n = -1, i;
	int err = 0;

	if (!s || !buf)
		err = -ENOMEM;
	while (!err && (n = pread(fd, buf, SINK_BUF, (off_t)off)) > 0) {
		for (i = 0; i < n; i++) {
			char c = buf[i];

			if (c == '"')
				s->quoted = !s->quoted;
			if (c == '\n' && !s->quoted)
				end_record(s, f, off + (uint64_t)i + 1, position);
			else if (c == ',' && !s->quoted)
				s->n++;
			else if (s->n < FIELDS && s->len[s->n] < FIELD_MAX - 1)
				s->field[s->n][s->len[s->n]++] = c;
		}
		off += (uint64_t)n;
	}
	if (!err && n < 0)
		err = -errno;
	if (!err && f->nomem)
		err = -ENOMEM;
	free(buf);
	free(s);
	return err;
}

int found__scan_db(struct found *f, void *handle, const char *table, uint64_t position)
{
	sqlite3_stmt *st;
	char sql[256];
	int rc;

	snprintf(sql, sizeof(sql),
		 "SELECT rowid, ID, Event, \"Event Type\", \"Timestamp(ns)\", \"Process Id\", Attr "
		 "FROM %s ORDER BY rowid",
		 table);
	rc = sqlite3_prepare_v2(handle, sql, -1, &st, NULL);
	if (rc) {
		pr_err("db: %s", sqlite3_errmsg(handle));
		return db__errno(rc);
	}
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *event = (const char *)sqlite3_column_text(st, 2);
		const char *type = (const char *)sqlite3_column_text(st, 3);
		const char *attr = (const char *)sqlite3_column_text(st, 6);
		struct row r = { 0 };

		r.id = (uint64_t)sqlite3_column_int64(st, 1);
		r.time = (uint64_t)sqlite3_column_int64(st, 4);
		r.pid = (uint32_t)sqlite3_column_int64(st, 5);
		parse_words(&r, event ? event : "", type ? type : "", attr ? attr : "");
		found__row(f, &r, (uint64_t)sqlite3_column_int64(st, 0) > position);
	}
	sqlite3_finalize(st);
	if (rc != SQLITE_DONE)
		return db__errno(rc);
	return f->nomem ? -ENOMEM : 0;
}
