// SPDX-License-Identifier: Apache-2.0
/*
 * leaks_dump_*.db: the vendor's table, as MindStudio Insight wants it. One
 * transaction from flush to flush; WAL while running, none left at the end.
 */
#include "output/internal.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

/* Sorting more rows than this for an index would hold up the end of a run. */
#define INDEX_MAX_ROWS 1000000

#define INDEX(name, column) "CREATE INDEX IF NOT EXISTS %1$s_" name " ON %1$s(\"" column "\");"

struct db {
	sqlite3 *h;
	sqlite3_stmt *insert, *insert_pre, *delete;
	struct dbkeys *keys;
	struct strbuf sb;
	unsigned int form;
	bool in_tx;
	uint64_t tx_rows, lost, rows, collisions, shadows;
	int64_t last_rowid;
	int err;
};

int db__errno(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_CANTOPEN:
		return -EACCES;
	default:
		return -EIO;
	}
}

int db__exec(void *handle, const char *sql)
{
	int rc = sqlite3_exec(handle, sql, NULL, NULL, NULL);

	if (rc)
		pr_err("db: %s", sqlite3_errmsg(handle));
	return db__errno(rc);
}

int db__merge(void *handle)
{
	int err, rc = sqlite3_exec(handle,
				   "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE",
				   NULL, NULL, NULL);

	err = db__errno(rc);
	if (err && err != -EBUSY)
		pr_err("db: %s", sqlite3_errmsg(handle));
	return err;
}

static int prepare(struct db *db, const char *sql, sqlite3_stmt **st)
{
	int rc = sqlite3_prepare_v3(db->h, sql, -1, SQLITE_PREPARE_PERSISTENT, st, NULL);

	if (rc)
		pr_err("db: %s", sqlite3_errmsg(db->h));
	return db__errno(rc);
}

/* A statement in which %1$s stands for the table. */
static int exec_table(struct db *db, const char *format)
{
	char sql[1024];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(sql, sizeof(sql), format, form__table(db->form));
#pragma GCC diagnostic pop
	return db__exec(db->h, sql);
}

static int prepare_table(struct db *db, const char *format, sqlite3_stmt **st)
{
	char sql[256];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(sql, sizeof(sql), format, form__table(db->form));
#pragma GCC diagnostic pop
	return prepare(db, sql, st);
}

int db__open(const char *path, unsigned int form, struct db **out)
{
	struct db *db = calloc(1, sizeof(*db));
	int err = -ENOMEM, rc;

	if (!db)
		return -ENOMEM;
	db->form = form;
	db->keys = dbkeys__new();
	if (!db->keys)
		goto fail;
	/* The file was made by us; the folder's path is a real one without links. */
	rc = sqlite3_open_v2(path, &db->h,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
			     NULL);
	if (rc) {
		pr_err("cannot open %s: %s", path, db->h ? sqlite3_errmsg(db->h) : "no memory");
		err = db__errno(rc);
		goto fail;
	}
	sqlite3_busy_timeout(db->h, 5000);
	/* The sync at a checkpoint costs; one each 64 MiB of log is bearable. */
	err = exec_table(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
			     "PRAGMA wal_autocheckpoint=16384;"
			     "CREATE TABLE IF NOT EXISTS %1$s " DB_COLUMNS);
	if (!err)
		err = prepare_table(db, "INSERT INTO %1$s" DB_VALUES, &db->insert);
	if (!err)
		err = prepare_table(db, "DELETE FROM %1$s WHERE rowid=?1", &db->delete);
	if (err)
		goto fail;
	*out = db;
	return 0;
fail:
	sqlite3_finalize(db->insert);
	sqlite3_close(db->h);
	dbkeys__free(db->keys);
	free(db);
	return err;
}

static int fail_tx(struct db *db, int rc)
{
	db->err = db__errno(rc);
	if (!db->err)
		db->err = -EIO;
	pr_err("db: %s", sqlite3_errmsg(db->h));
	if (db->in_tx && !sqlite3_get_autocommit(db->h))
		sqlite3_exec(db->h, "ROLLBACK", NULL, NULL, NULL);
	db->in_tx = false;
	db->lost += db->tx_rows;
	db->tx_rows = 0;
	return db->err;
}

static int begin(struct db *db)
{
	int rc;

	if (db->in_tx)
		return 0;
	rc = sqlite3_exec(db->h, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	if (rc)
		return fail_tx(db, rc);
	db->in_tx = true;
	return 0;
}

static const char *put_name(char *p, const struct row *r, char **end)
{
	char tmp[48], *start = p;
	size_t n;
	const char *s = row__name(r, &n, tmp);

	if (!s) {
		p = PUT_LIT(p, "N/A");
	} else if (r->event == ROW_MSTX) {
		/* Marks keep their quotes here; nothing in between is doubled. */
		*p++ = '"';
		if (!text__is_formula(s, n))
			p = text__put(p, s, n, TEXT_PLAIN);
		*p++ = '"';
	} else {
		p = text__put(p, s, n, TEXT_PLAIN);
	}
	*end = p;
	return start;
}

static int step(struct db *db, sqlite3_stmt *st)
{
	int rc = sqlite3_step(st);

	if (rc != SQLITE_DONE)
		return fail_tx(db, rc);
	sqlite3_reset(st);
	return 0;
}

static int insert(struct db *db, sqlite3_stmt *st, const struct row *r, uint64_t time)
{
	uint32_t attrs = form__attrs(db->form, r);
	const char *event = row_event__name(r->event), *type = row_type__name(r->type), *start;
	char *p, *q;
	int err;

	strbuf__reset(&db->sb);
	p = strbuf__reserve(&db->sb, 128 + TEXT_MAX(r->name ? r->name_len : 48) + attr__bound(r) +
					     TEXT_MAX(r->cell_py_len + r->cell_c_len));
	if (!p) {
		db->err = -ENOMEM;
		return db->err;
	}
	sqlite3_bind_int64(st, 1, (sqlite3_int64)r->id);
	sqlite3_bind_text(st, 2, event, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 3, type, -1, SQLITE_STATIC);
	start = put_name(p, r, &q);
	sqlite3_bind_text(st, 4, start, (int)(q - start), SQLITE_STATIC);
	sqlite3_bind_int64(st, 5, (sqlite3_int64)time);
	sqlite3_bind_int64(st, 6, r->pid);
	sqlite3_bind_int64(st, 7, r->tid);
	p = device__put(q, r->device);
	sqlite3_bind_text(st, 8, q, (int)(p - q), SQLITE_STATIC);
	q = row__has_ptr(r) ? ptr__put(p, r->ptr, attrs) : PUT_LIT(p, "N/A");
	sqlite3_bind_text(st, 9, p, (int)(q - p), SQLITE_STATIC);
	p = attr__json(q, r, attrs);
	sqlite3_bind_text(st, 10, q, (int)(p - q), SQLITE_STATIC);
	p = text__put(q = p, r->cell_py, r->cell_py_len, TEXT_PLAIN);
	sqlite3_bind_text(st, 11, q, (int)(p - q), SQLITE_STATIC);
	p = text__put(q = p, r->cell_c, r->cell_c_len, TEXT_PLAIN);
	sqlite3_bind_text(st, 12, q, (int)(p - q), SQLITE_STATIC);
	err = step(db, st);
	if (!err)
		db->tx_rows++;
	return err;
}

static int insert_preattach(struct db *db, const struct row *r)
{
	int err;

	if (!db->insert_pre) {
		err = db__exec(db->h, "CREATE TABLE IF NOT EXISTS preattach_free " DB_COLUMNS);
		if (!err)
			err = prepare(db, "INSERT INTO preattach_free" DB_VALUES, &db->insert_pre);
		if (err)
			return db->err = err;
	}
	return insert(db, db->insert_pre, r, r->time);
}

static void warn_collision(struct db *db, const struct row *r)
{
	if (db->collisions++)
		return;
	pr_warn("process %u has a block at %llu of device %d where another process has one: "
		"MindStudio Insight cannot tell them apart, make one db per process",
		r->pid, (unsigned long long)r->ptr, r->device);
}

int db__row(struct db *db, const struct row *r)
{
	struct dbverdict v;
	int err;

	if (db->err)
		return db->err;
	if ((unsigned int)r->event >= ROW_EVENT_MAX || (unsigned int)r->type >= ROW_TYPE_MAX)
		return -EINVAL;
	err = begin(db);
	if (err)
		return err;
	if (r->event == ROW_FREE && r->attrs & ATTR_PREATTACH)
		return insert_preattach(db, r);
	err = dbkeys__see(db->keys, r, &v);
	if (err)
		return db->err = err;
	if (v.collision)
		warn_collision(db, r);
	if (v.replaces) {
		sqlite3_bind_int64(db->delete, 1, v.replaces);
		err = step(db, db->delete);
		db->shadows--;
	}
	/* The vendor's front end writes no such row, at the price of this rule. */
	if (!err && v.need_shadow && !(db->form & FORM_VENDOR)) {
		err = insert(db, db->insert, &v.shadow, v.shadow.time);
		if (!err) {
			db->tx_rows--; /* not one of the caller's rows */
			db->shadows++;
			dbkeys__shadow_written(db->keys, r, sqlite3_last_insert_rowid(db->h));
		}
	}
	if (!err)
		err = insert(db, db->insert, r, v.time);
	if (!err)
		db->last_rowid = sqlite3_last_insert_rowid(db->h);
	return err;
}

int db__flush(struct db *db)
{
	int rc;

	if (!db->in_tx || db->err)
		return db->err;
	rc = sqlite3_exec(db->h, "COMMIT", NULL, NULL, NULL);
	if (rc)
		return fail_tx(db, rc);
	db->in_tx = false;
	db->rows += db->tx_rows;
	db->tx_rows = 0;
	return 0;
}

uint64_t db__lost(const struct db *db)
{
	return db->lost;
}

int64_t db__last_rowid(const struct db *db)
{
	return db->last_rowid;
}

void *db__handle(struct db *db)
{
	return db->h;
}

int db__close(struct db *db)
{
	int err = db__flush(db), e;

	if (db->collisions)
		pr_warn("%llu rows of blocks that MindStudio Insight takes for those of another "
			"process",
			(unsigned long long)db->collisions);
	if (db->shadows)
		pr_warn("%llu blocks whose end was missed have a FREE row with shadow:true",
			(unsigned long long)db->shadows);
	sqlite3_finalize(db->insert);
	sqlite3_finalize(db->insert_pre);
	sqlite3_finalize(db->delete);
	if (!err && !(db->form & FORM_VENDOR) && db->rows <= INDEX_MAX_ROWS)
		err = exec_table(db, INDEX("time", "Timestamp(ns)") INDEX("event", "Event")
					     INDEX("device", "Device Id"));
	sqlite3_busy_timeout(db->h, 500);
	e = db__merge(db->h);
	if (e == -EBUSY) {
		pr_warn("somebody reads %s: its write-ahead log stays, memtap recover merges it",
			sqlite3_db_filename(db->h, NULL));
		e = 0;
	}
	if (!err)
		err = e;
	e = db__errno(sqlite3_close(db->h));
	if (!err)
		err = e;
	dbkeys__free(db->keys);
	strbuf__free(&db->sb);
	free(db);
	return err;
}
