/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of user/output share and nobody else sees. */
#ifndef MEMTAP_OUTPUT_INTERNAL_H
#define MEMTAP_OUTPUT_INTERNAL_H

#include <string.h>
#include "base/base.h"
#include "output/output.h"

/*
 * ---- sink: an append-only file with a buffer of whole records ----
 *
 * A record is committed whole, the buffer is written whole, and when the disk
 * is full the file is cut back to the last whole record that fitted. After
 * that the sink takes nothing more.
 */
struct sink {
	int fd; /* -1: closed */
	char *buf;
	size_t len, cap;
	uint32_t *ends; /* offset behind each record in buf */
	size_t n_ends, cap_ends;
	uint64_t size; /* bytes in the file */
	uint64_t lost; /* records that did not reach the file */
	int err; /* first -errno */
};

#define SINK_BUF (256u << 10)

/* Takes fd over; size is what the file holds already. 0 or -ENOMEM. */
int sink__init(struct sink *s, int fd, uint64_t size);
char *sink__room_slow(struct sink *s, size_t n);
int sink__grow_ends(struct sink *s);
int sink__flush(struct sink *s);
/* Flush and close. First error. */
int sink__close(struct sink *s);

/* Where to write a record of at most n bytes; NULL: failed, see s->err. */
static inline char *sink__room(struct sink *s, size_t n)
{
	if (s->cap - s->len >= n && !s->err)
		return s->buf + s->len;
	return sink__room_slow(s, n);
}

/* The record at sink__room() ends before `end`. */
static inline void sink__commit(struct sink *s, const char *end)
{
	s->len = (size_t)(end - s->buf);
	if (s->n_ends == s->cap_ends && sink__grow_ends(s))
		return;
	s->ends[s->n_ends++] = (uint32_t)s->len;
}

/* ---- text ---- */

enum text_mode {
	TEXT_QUOTED, /* inside the quotes of a csv field: " doubled */
	TEXT_JSON, /* inside a JSON string */
	TEXT_PLAIN, /* db text */
	TEXT_ATTR, /* value in the csv's Attr: no quotes, no line ends */
};

/* At most this many bytes come out of n bytes in. */
#define TEXT_MAX(n) (3 * (size_t)(n))

/*
 * Copy of s in a form that is safe in its place; what is not UTF-8, and
 * control characters other than tab and line ends, become U+FFFD.
 */
char *text__put(char *p, const char *s, size_t n, enum text_mode mode);

static inline char *put_u64(char *p, uint64_t v)
{
	return p + fmt__u64(p, v);
}

static inline char *put_s64(char *p, int64_t v)
{
	return p + fmt__s64(p, v);
}

static inline char *put_mem(char *p, const char *s, size_t n)
{
	memcpy(p, s, n);
	return p + n;
}

/* Of a literal: the length is a constant, so memcpy becomes a few moves. */
#define PUT_LIT(p, lit) put_mem(p, lit, sizeof(lit) - 1)

/* ---- columns common to csv and db (attr.c) ---- */

/* No attribute: pointers are 0x and 16 digits. */
#define ATTR_HEX 0x20000000u
/* Attribute of rows that recovery adds; never leaves this folder. */
#define ATTR_RECOVERED 0x40000000u
/* What the vendor's own rows may have. */
#define ATTR_VENDOR                                                                               \
	(ATTR_BLOCK | ATTR_POOL | ATTR_PINNED | ATTR_OWNER | ATTR_PAGE | ATTR_KERNEL | ATTR_OOM | \
	 ATTR_LISTED | ATTR_ACCESS | ATTR_SNAPSHOT | ATTR_FREE_TOTAL | ATTR_PATH |                \
	 ATTR_WORKSPACE | ATTR_WASTE)

/* What a dump is like, of these. */
#define FORM_VENDOR 1u /* as out_opts.vendor */
#define FORM_NEWER 2u /* as out_opts.newer */

/* How the name of a dump begins; the table of a db. */
const char *form__stem(unsigned int form);
const char *form__table(unsigned int form);
/* The attributes of a row that are written. */
uint32_t form__attrs(unsigned int form, const struct row *r);

/* Upper bound of the bytes that the next two write. */
size_t attr__bound(const struct row *r);
/* "{k:v,...}" with its quotes; nothing when there are no attributes. */
char *attr__csv(char *p, const struct row *r, uint32_t attrs);
/* {"k":"v",...} or {} */
char *attr__json(char *p, const struct row *r, uint32_t attrs);
/* Pointer column; returns the end. */
char *ptr__put(char *p, uint64_t ptr, uint32_t attrs);
/* Device column; returns the end. */
char *device__put(char *p, int32_t device);
/* Has the row a Ptr? */
static inline bool row__has_ptr(const struct row *r)
{
	return r->event == ROW_MALLOC || r->event == ROW_FREE || r->event == ROW_ACCESS;
}
/* Does the vendor's tool write rows like this one? */
static inline bool row__is_vendor(const struct row *r)
{
	return r->type != ROW_LOST && !(r->attrs & ATTR_PREATTACH);
}
/* The name, with the vendor's default for rows that leave it out. */
const char *row__name(const struct row *r, size_t *len, char tmp[48]);

/* ---- csv ---- */
extern const char csv_header[];
/* Appends a row; 0 or -errno. *guarded counts names changed for spreadsheets. */
int csv__row(struct sink *s, const struct row *r, unsigned int form, uint64_t *guarded);

/* Columns of a dump's table, and their values in an INSERT. */
#define DB_COLUMNS                                                                       \
	"(\"ID\" INTEGER, \"Event\" TEXT, \"Event Type\" TEXT, \"Name\" TEXT, "          \
	"\"Timestamp(ns)\" INTEGER, \"Process Id\" INTEGER, \"Thread Id\" INTEGER, "     \
	"\"Device Id\" TEXT, \"Ptr\" TEXT, \"Attr\" TEXT, \"Call Stack(Python)\" TEXT, " \
	"\"Call Stack(C)\" TEXT)"
#define DB_VALUES " VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)"

/* ---- db (db.c, and dbkeys.c for the rules of Insight) ---- */
struct db;
/* The file at path exists: empty, or a db to go on with. */
int db__open(const char *path, unsigned int form, struct db **db);
int db__row(struct db *db, const struct row *r);
/* Commit. On failure the transaction is undone. */
int db__flush(struct db *db);
/* Rows of undone transactions so far. */
uint64_t db__lost(const struct db *db);
int64_t db__last_rowid(const struct db *db);
/* Indexes, checkpoint, no WAL left. Frees db. */
int db__close(struct db *db);
void *db__handle(struct db *db); /* sqlite3 *, for recovery */
/* Statement that fails with a message. 0 or -errno. */
int db__exec(void *handle, const char *sql);
int db__errno(int rc);
/* Write-ahead log into the db, back to a single file. -EBUSY: a reader is in it. */
int db__merge(void *handle);

/*
 * What the db remembers of each (device, type, Ptr): times in it must rise and
 * MALLOC and FREE alternate.
 */
struct dbkeys;
struct dbverdict {
	uint64_t time; /* to be written instead of the row's */
	bool need_shadow; /* a FREE was missed: write `shadow` first */
	struct row shadow;
	int64_t replaces; /* rowid of a shadow that this FREE makes needless, or 0 */
	bool collision; /* with a block of another process */
};

struct dbkeys *dbkeys__new(void);
int dbkeys__see(struct dbkeys *k, const struct row *r, struct dbverdict *v);
/* The shadow of the last verdict has this rowid. */
void dbkeys__shadow_written(struct dbkeys *k, const struct row *r, int64_t rowid);
void dbkeys__free(struct dbkeys *k);

/* ---- dump: csv or db (dump.c) ---- */
struct outdir;
struct dump {
	enum out_format format;
	unsigned int form;
	struct sink csv;
	struct db *db;
	char *path;
	uint64_t taken; /* rows accepted */
	uint64_t guarded; /* names changed for spreadsheets */
	void (*cells)(void *ctx, struct row *r);
	void *cells_ctx;
};

/* New file; ts gets its timestamp. */
int dump__create(struct dump *d, struct outdir *dir, const struct out_opts *opts, char ts[16]);
/* Go on with a file of a killed run. */
int dump__reopen(struct dump *d, const char *path, int csv_fd, uint64_t csv_size,
		 unsigned int form);
int dump__row(struct dump *d, const struct row *r);
int dump__flush(struct dump *d);
int dump__close(struct dump *d);
uint64_t dump__lost(const struct dump *d);
uint64_t dump__bytes(const struct dump *d);
/* How far the file is on disk: bytes of a csv, last rowid of a db. */
uint64_t dump__position(const struct dump *d);

/* ---- owners of blocks, beside the dump (owners.c) ---- */
#define OWNERS_STEM "owners_"
/* The file of a dump's timestamp. 0 or -errno. */
int owners_file__create(struct sink *s, struct outdir *dir, const char *ts);
int owners_file__row(struct sink *s, const struct out_owner *w);

/* ---- trace ---- */
struct trace;
int trace__open(struct outdir *dir, const struct out_opts *opts, struct trace **t);
int trace__row(struct trace *t, const struct row *r);
int trace__flush(struct trace *t);
int trace__close(struct trace *t);
uint64_t trace__bytes(const struct trace *t);
/* Rows of devices from MAX_DEVICES on, which have no file. */
uint64_t trace__left_out(const struct trace *t);
/*
 * The end of a trace file: metadata of the pids (sorted here) and the closing
 * brackets.
 */
void trace__footer(struct strbuf *sb, uint32_t *pids, size_t n);

/* ---- folders and names (outdir.c) ---- */
struct outdir {
	char *path; /* real path of DIR */
	int dump_fd, trace_fd;
	char **paths; /* files made, NULL-terminated */
	size_t n_paths;
	bool made; /* DIR was not there before */
};

int outdir__open(struct outdir *d, const char *dir);
/* Without a file in it the folder is removed again, if it was not there before. */
void outdir__close(struct outdir *d);
/*
 * Create sub/<stem><YYYYmmddHHMMSS><ext>, at a later second when that is
 * taken. `taken` lists further names, with %s for the timestamp, that must be
 * free, NULL-terminated. Returns fd or -errno; ts gets the timestamp.
 */
int outdir__create(struct outdir *d, const char *sub, const char *stem, const char *ext,
		   const char *const *taken, char ts[16]);
/* Remember a path for out__path() and say so. 0 or -ENOMEM. */
int outdir__note(struct outdir *d, const char *sub, const char *name);

#endif
