// SPDX-License-Identifier: Apache-2.0
/*
 * A dump db, also one that MindStudio Insight has changed: the twelve columns
 * are found by name, further columns and tables do not matter. Read only.
 */
#include "input/internal.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct db_in {
	sqlite3 *h;
	sqlite3_stmt *st;
	char *path;
	unsigned int next_table; /* in tables[] */
	struct strbuf scratch;
	struct in_counts counts;
};

/* The vendor's name of the table, its newer one, and where memtap puts FREEs of blocks from
 * before the attach. */
static const char *const tables[] = { "leaks_dump", "memscope_dump", "preattach_free" };

static int failed(struct db_in *f, int rc)
{
	pr_err("%s: cannot be read as a db: %s", f->path,
	       f->h ? sqlite3_errmsg(f->h) : sqlite3_errstr(rc));
	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_CANTOPEN:
		return -EACCES;
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT:
		return -EBADMSG;
	default:
		return -EIO;
	}
}

/* Is there a real table of this name? A view may run anything. 1, 0, -errno. */
static int has_table(struct db_in *f, const char *name)
{
	sqlite3_stmt *st;
	int rc;

	rc = sqlite3_prepare_v2(f->h,
				"SELECT 1 FROM sqlite_master WHERE type='table' AND name=?1 "
				"AND sql NOT LIKE 'CREATE VIRTUAL%'",
				-1, &st, NULL);
	if (rc)
		return failed(f, rc);
	sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
	rc = sqlite3_step(st);
	sqlite3_finalize(st);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return failed(f, rc);
	return rc == SQLITE_ROW;
}

static int select_from(struct db_in *f, const char *table)
{
	struct strbuf sb = { 0 };
	unsigned int i;
	int rc;

	strbuf__puts(&sb, "SELECT ");
	for (i = 0; i < COL_MAX; i++)
		strbuf__printf(&sb, "%st.\"%s\"", i ? "," : "", in_columns[i]);
	strbuf__printf(&sb, " FROM main.\"%s\" AS t", table);
	if (sb.failed) {
		strbuf__free(&sb);
		return -ENOMEM;
	}
	rc = sqlite3_prepare_v2(f->h, sb.data, -1, &f->st, NULL);
	strbuf__free(&sb);
	if (rc == SQLITE_ERROR) {
		pr_err("%s: its table %s is not that of a dump (%s)", f->path, table,
		       sqlite3_errmsg(f->h));
		return -EBADMSG;
	}
	return rc ? failed(f, rc) : 0;
}

/* The next table that is there. 1, 0: none is left, -errno. */
static int next_table(struct db_in *f)
{
	int has, err;

	sqlite3_finalize(f->st);
	f->st = NULL;
	while (f->next_table < MT_ARRAY_SIZE(tables)) {
		const char *name = tables[f->next_table++];

		has = has_table(f, name);
		if (has < 0)
			return has;
		if (has) {
			err = select_from(f, name);
			return err ? err : 1;
		}
	}
	return 0;
}

int db_in__open(const char *path, struct db_in **out)
{
	struct db_in *f = calloc(1, sizeof(*f));
	int rc, err = -ENOMEM;

	if (!f)
		return -ENOMEM;
	f->path = strdup(path);
	if (!f->path)
		goto fail;
	if (access(path, R_OK)) {
		err = -errno;
		pr_err("%s: cannot be opened: %s", path, strerror(errno));
		goto fail;
	}
	rc = sqlite3_open_v2(path, &f->h, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
	if (!rc) {
		sqlite3_busy_timeout(f->h, 5000);
		/* It may come from anywhere. */
		sqlite3_limit(f->h, SQLITE_LIMIT_LENGTH, (int)IN_MAX_RECORD);
		sqlite3_db_config(f->h, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
		sqlite3_db_config(f->h, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
		rc = sqlite3_exec(f->h, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0", NULL, NULL,
				  NULL);
	}
	if (rc) {
		err = failed(f, rc);
		goto fail;
	}
	err = next_table(f);
	if (!err || (err > 0 && f->next_table == MT_ARRAY_SIZE(tables))) {
		pr_err("%s: has no table leaks_dump or memscope_dump: it is no dump of memtap's or "
		       "the vendor's",
		       path);
		err = -EBADMSG;
	}
	if (err < 0)
		goto fail;
	*out = f;
	return 0;
fail:
	db_in__close(f);
	return err;
}

static bool fill(struct db_in *f, struct in_row *r)
{
	int i;

	for (i = 0; i < COL_MAX; i++) {
		r->cell[i].s = (const char *)sqlite3_column_text(f->st, i);
		r->cell[i].n = (size_t)sqlite3_column_bytes(f->st, i);
		if (!r->cell[i].s)
			r->cell[i] = (struct slice){ "", 0 };
	}
	if (!cells__row(r))
		return false;
	if (!attr__read_json(r, &f->scratch) &&
	    (r->cell[COL_ATTR].s[0] != '{' || !attr__read_csv(r)))
		f->counts.bad_attrs++;
	return true;
}

int db_in__next(struct db_in *f, struct in_row *r)
{
	int rc;

	for (;;) {
		rc = f->st ? sqlite3_step(f->st) : SQLITE_DONE;
		if (rc == SQLITE_ROW) {
			if (fill(f, r)) {
				counts__row(&f->counts, r->time);
				return 1;
			}
			if (f->counts.bad++ < 3)
				pr_warn("%s: a row that is none of a dump is left out", f->path);
			continue;
		}
		if (rc != SQLITE_DONE)
			return failed(f, rc);
		rc = next_table(f);
		if (rc <= 0)
			return rc;
	}
}

const struct in_counts *db_in__counts(const struct db_in *f)
{
	return &f->counts;
}

void db_in__close(struct db_in *f)
{
	if (!f)
		return;
	sqlite3_finalize(f->st);
	sqlite3_close(f->h);
	strbuf__free(&f->scratch);
	free(f->path);
	free(f);
}
