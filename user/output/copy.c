// SPDX-License-Identifier: Apache-2.0
/* A dump file from rows of other dump files. */
#include "output/copy.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include "output/internal.h"

/* Rows of a transaction. */
#define BATCH 100000

struct copy {
	struct outdir dir;
	char *path;
	enum out_format format;
	struct sink csv;
	sqlite3 *h;
	sqlite3_stmt *insert, *insert_pre;
	struct strbuf sb;
	struct hmap live; /* blocks whose MALLOC is in the file */
	struct sink owners; /* made with the first of them */
	char ts[16];
	uint64_t rows;
	int err;
};

static int db_failed(struct copy *c, int rc)
{
	pr_err("%s: %s", c->path, sqlite3_errmsg(c->h));
	rc = db__errno(rc);
	return c->err = rc ? rc : -EIO;
}

static int open_db(struct copy *c)
{
	int rc = sqlite3_open_v2(c->path, &c->h,
				 SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
				 NULL);

	if (rc)
		return db_failed(c, rc);
	/* A new file: when this is cut short it is not wanted. */
	c->err = db__exec(c->h, "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;"
				"CREATE TABLE leaks_dump " DB_COLUMNS "; BEGIN");
	if (c->err)
		return c->err;
	rc = sqlite3_prepare_v2(c->h, "INSERT INTO leaks_dump" DB_VALUES, -1, &c->insert, NULL);
	return rc ? db_failed(c, rc) : 0;
}

int copy__open(const char *dir, enum out_format format, struct copy **out)
{
	const char *ext = format == OUT_DB ? ".db" : ".csv";
	struct copy *c = calloc(1, sizeof(*c));
	char name[64], *p;
	int fd, err;

	if (!c)
		return -ENOMEM;
	c->format = format;
	c->csv.fd = c->owners.fd = -1;
	err = outdir__open(&c->dir, dir);
	if (err) {
		free(c);
		return err;
	}
	fd = outdir__create(&c->dir, "dump", "leaks_dump_", ext, NULL, c->ts);
	if (fd < 0) {
		err = fd;
		goto fail;
	}
	snprintf(name, sizeof(name), "leaks_dump_%s%s", c->ts, ext);
	if (asprintf(&c->path, "%s/dump/%s", c->dir.path, name) < 0) {
		c->path = NULL;
		close(fd);
		err = -ENOMEM;
		goto fail;
	}
	if (format == OUT_DB) {
		close(fd);
		err = open_db(c);
	} else {
		err = sink__init(&c->csv, fd, 0);
		p = err ? NULL : sink__room(&c->csv, 256);
		if (p)
			sink__commit(&c->csv, put_mem(p, csv_header, strlen(csv_header)));
		err = err ? err : c->csv.err;
	}
	if (err)
		goto fail;
	*out = c;
	return 0;
fail:
	copy__close(c);
	return err;
}

int copy__owner(struct copy *c, const struct in_owner *w)
{
	const struct out_owner o = { .pid = w->pid,
				     .device = w->device,
				     .type = w->type,
				     .ptr = w->ptr,
				     .allocation_id = w->alloc,
				     .size = w->size,
				     .time = w->time,
				     .owner = w->owner,
				     .confidence = w->confidence };
	int err = c->owners.fd < 0 ? owners_file__create(&c->owners, &c->dir, c->ts) : 0;

	if (!err)
		err = owners_file__row(&c->owners, &o);
	if (err && !c->err)
		pr_err("%s: the owners beside it cannot be written: %s", c->path, strerror(-err));
	return c->err = c->err ? c->err : err;
}

const char *copy__path(const struct copy *c)
{
	return c->path;
}

uint64_t copy__rows(const struct copy *c)
{
	return c->rows;
}

/* ---- texts ---- */

/* At most this many bytes come out of a text. */
static size_t bound(const struct in_row *r, const struct in_pair *pairs, size_t n)
{
	size_t i, sum = 256;

	for (i = 0; i < COL_MAX; i++)
		sum += TEXT_MAX(r->cell[i].n) + 4;
	for (i = 0; i < n; i++)
		sum += TEXT_MAX(pairs[i].key.n + pairs[i].value.n) + 8;
	return sum;
}

static bool needs_quotes(struct slice s)
{
	return memchr(s.s, ',', s.n) || memchr(s.s, '"', s.n) || memchr(s.s, '\n', s.n) ||
	       memchr(s.s, '\r', s.n);
}

static char *put_cell(char *p, struct slice s, bool quotes)
{
	bool formula = text__is_formula(s.s, s.n);

	if (!quotes && !needs_quotes(s)) {
		if (formula)
			*p++ = '\'';
		return text__put(p, s.s, s.n, TEXT_PLAIN);
	}
	*p++ = '"';
	if (formula)
		*p++ = '\'';
	p = text__put(p, s.s, s.n, TEXT_QUOTED);
	*p++ = '"';
	return p;
}

static char *put_csv_attr(char *p, const struct in_row *r, const struct in_pair *pairs, size_t n,
			  bool preattach)
{
	size_t i;

	if (!pairs)
		return r->cell[COL_ATTR].n ? put_cell(p, r->cell[COL_ATTR], true) : p;
	if (!n && !preattach)
		return p;
	p = PUT_LIT(p, "\"{");
	for (i = 0; i < n; i++) {
		p = text__put(p, pairs[i].key.s, pairs[i].key.n, TEXT_QUOTED);
		*p++ = ':';
		p = text__put(p, pairs[i].value.s, pairs[i].value.n, TEXT_QUOTED);
		*p++ = ',';
	}
	if (preattach)
		p = PUT_LIT(p, "preattach:true,");
	p[-1] = '}';
	*p++ = '"';
	return p;
}

static char *put_json_attr(char *p, const struct in_row *r, const struct in_pair *pairs, size_t n,
			   bool preattach)
{
	size_t i;

	if (!pairs)
		return text__put(p, r->cell[COL_ATTR].s, r->cell[COL_ATTR].n, TEXT_PLAIN);
	*p++ = '{';
	for (i = 0; i < n; i++) {
		*p++ = '"';
		p = text__put(p, pairs[i].key.s, pairs[i].key.n, TEXT_JSON);
		p = PUT_LIT(p, "\":\"");
		p = text__put(p, pairs[i].value.s, pairs[i].value.n, TEXT_JSON);
		p = PUT_LIT(p, "\",");
	}
	if (preattach)
		p = PUT_LIT(p, "\"preattach\":\"true\",");
	if (p[-1] == ',')
		p--;
	*p++ = '}';
	return p;
}

static int write_csv(struct copy *c, const struct in_row *r, const struct in_pair *pairs, size_t n,
		     bool preattach)
{
	char *p = sink__room(&c->csv, bound(r, pairs, n));
	unsigned int i;

	if (!p)
		goto out;
	for (i = 0; i < COL_MAX; i++) {
		if (i == COL_NAME && r->event == ROW_MSTX)
			/* As the writers do: a formula is no name of a mark. */
			p = put_cell(p,
				     text__is_formula(r->name.s, r->name.n)
					     ? (struct slice){ "", 0 }
					     : r->name,
				     true);
		else if (i == COL_ATTR)
			p = put_csv_attr(p, r, pairs, n, preattach);
		else if (i >= COL_PY)
			p = r->cell[i].n ? put_cell(p, r->cell[i], true) : p;
		else
			p = put_cell(p, r->cell[i], false);
		*p++ = i + 1 < COL_MAX ? ',' : '\n';
	}
	sink__commit(&c->csv, p);
out:
	if (c->csv.err && !c->err) {
		c->err = c->csv.err;
		pr_err("%s: cannot be written: %s", c->path, strerror(-c->err));
	}
	return c->err;
}

static int prepare_pre(struct copy *c)
{
	int rc;

	if (c->insert_pre)
		return 0;
	c->err = db__exec(c->h, "CREATE TABLE preattach_free " DB_COLUMNS);
	if (c->err)
		return c->err;
	rc = sqlite3_prepare_v2(c->h, "INSERT INTO preattach_free" DB_VALUES, -1, &c->insert_pre,
				NULL);
	return rc ? db_failed(c, rc) : 0;
}

static void bind(sqlite3_stmt *st, int column, const char *from, const char *to)
{
	sqlite3_bind_text(st, column + 1, from, (int)(to - from), SQLITE_STATIC);
}

/* pre: to the table of such rows; mark: with the attribute that tells it. */
static int write_db(struct copy *c, const struct in_row *r, const struct in_pair *pairs, size_t n,
		    bool pre, bool mark)
{
	sqlite3_stmt *st;
	char *p, *q;
	int i, rc;

	if (pre && prepare_pre(c))
		return c->err;
	st = pre ? c->insert_pre : c->insert;
	strbuf__reset(&c->sb);
	p = strbuf__reserve(&c->sb, bound(r, pairs, n));
	if (!p)
		return c->err = -ENOMEM;
	for (i = 0; i < COL_MAX; i++) {
		q = p;
		if (i == COL_ATTR) {
			p = put_json_attr(p, r, pairs, n, mark);
		} else if (i == COL_NAME && r->event == ROW_MSTX) {
			/* Marks keep their quotes in a db. */
			*p++ = '"';
			p = text__put(p, r->name.s, r->name.n, TEXT_PLAIN);
			*p++ = '"';
		} else {
			p = text__put(p, r->cell[i].s, r->cell[i].n, TEXT_PLAIN);
		}
		bind(st, i, q, p); /* the columns' affinity makes numbers of ids and times */
	}
	rc = sqlite3_step(st);
	sqlite3_reset(st);
	if (rc != SQLITE_DONE)
		return db_failed(c, rc);
	if ((c->rows + 1) % BATCH == 0)
		c->err = db__exec(c->h, "COMMIT; BEGIN");
	return c->err;
}

/* Is this a FREE of a block that is not in the file? -ENOMEM. */
static int is_preattach(struct copy *c, const struct in_row *r)
{
	struct hkey k = { r->ptr, (uint64_t)r->pid << 32 |
					  ((uint64_t)(uint32_t)r->device & 0xffffff) << 8 |
					  (unsigned int)r->type };

	if (r->event == ROW_MALLOC)
		return hmap__put(&c->live, k, NULL) ? 0 : -ENOMEM;
	if (r->event != ROW_FREE || r->type == ROW_TYPE_MAX)
		return 0;
	return !hmap__del(&c->live, k, NULL);
}

int copy__row(struct copy *c, const struct in_row *r, const struct in_pair *pairs, size_t n_pairs)
{
	int pre = is_preattach(c, r);
	bool mark = pre > 0 && !(r->keys & 1u << KEY_PREATTACH);

	if (c->err)
		return c->err;
	if (pre < 0) {
		pr_err("%s: out of memory", c->path);
		return c->err = pre;
	}
	if (c->format == OUT_CSV)
		write_csv(c, r, pairs, n_pairs, mark);
	else
		write_db(c, r, pairs, n_pairs, pre, mark);
	c->rows += !c->err;
	return c->err;
}

int copy__close(struct copy *c)
{
	int err = c->err, rc;

	if (c->csv.fd >= 0) {
		rc = sink__close(&c->csv);
		if (rc && !err)
			pr_err("%s: cannot be written: %s", c->path, strerror(-rc));
		err = err ? err : rc;
	}
	if (c->owners.fd >= 0) {
		rc = sink__close(&c->owners);
		if (rc && !err)
			pr_err("%s: the owners beside it cannot be written: %s", c->path,
			       strerror(-rc));
		err = err ? err : rc;
	}
	sqlite3_finalize(c->insert);
	sqlite3_finalize(c->insert_pre);
	if (c->h && !err)
		err = db__exec(c->h, "COMMIT; PRAGMA journal_mode=DELETE");
	rc = sqlite3_close(c->h);
	if (rc && !err)
		err = db__errno(rc);
	hmap__free(&c->live);
	strbuf__free(&c->sb);
	outdir__close(&c->dir);
	free(c->path);
	free(c);
	return err;
}
