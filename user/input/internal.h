/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of user/input share and nobody else sees. */
#ifndef MEMTAP_INPUT_INTERNAL_H
#define MEMTAP_INPUT_INTERNAL_H

#include "base/base.h"
#include "input/input.h"

/* A record, or a text of a db, of more bytes than this is not read. */
#define IN_MAX_RECORD (16u << 20)

/* ---- cells to values (cells.c) ---- */

/* Decimal or 0x…; the whole slice. */
bool cell__u64(struct slice c, uint64_t *v);
static inline bool cell__is(struct slice c, const char *text, size_t n)
{
	return c.n == n && !__builtin_memcmp(c.s, text, n);
}
#define CELL_IS(c, lit) cell__is(c, lit, sizeof(lit) - 1)
/* Is this a word of the column Event? */
enum row_event cell__event(struct slice c);
enum row_type cell__type(struct slice c);
/* All of r but the attributes from r->cell. False: not the cells of a row. */
bool cells__row(struct in_row *r);

/* One row more. */
static inline void counts__row(struct in_counts *c, uint64_t time)
{
	c->first = !c->rows || time < c->first ? time : c->first;
	c->last = !c->rows || time > c->last ? time : c->last;
	c->rows++;
}

/* ---- the column Attr (attr.c) ---- */

/* {k:v,…}, with or without the braces. False: something else. */
bool attr__read_csv(struct in_row *r);
/*
 * {"k":"v",…} or empty. Text with escapes goes to scratch. False: something
 * else, or no memory.
 */
bool attr__read_json(struct in_row *r, struct strbuf *scratch);

/* ---- csv and db ---- */

struct csv_in;
struct db_in;

int csv_in__open(const char *path, struct csv_in **f);
int csv_in__next(struct csv_in *f, struct in_row *r);
const struct in_counts *csv_in__counts(const struct csv_in *f);
void csv_in__close(struct csv_in *f);

int db_in__open(const char *path, struct db_in **f);
int db_in__next(struct db_in *f, struct in_row *r);
const struct in_counts *db_in__counts(const struct db_in *f);
void db_in__close(struct db_in *f);

/* One record of a csv at p (record.c). */
enum record_state {
	RECORD_OK,
	RECORD_MORE, /* it does not end before `end` */
	RECORD_BAD,
};

struct record {
	struct slice cell[COL_MAX];
	uint32_t doubled; /* 1 << column: holds "" for " */
	bool loose; /* read by the vendor's forms */
	const char *next; /* behind it */
	size_t looked; /* so many bytes were looked at by the RFC's rules */
};

/* eof: nothing follows end. */
enum record_state record__read(const char *p, const char *end, bool eof, unsigned int columns,
			       struct record *rec);
/* Does a record start at p? Looks at 64 bytes at most. */
bool record__starts(const char *p, const char *end);

/* ---- sorting (sorter.c) ---- */

struct sorter;

struct sorter *sorter__new(size_t memory);
void sorter__free(struct sorter *s);
/* 0 or -errno, a message printed. */
int sorter__add(struct sorter *s, const struct item *it);
/* All have been added. */
int sorter__finish(struct sorter *s);
/* By time, then seq: 1, 0 at the end, -errno. */
int sorter__next(struct sorter *s, struct item *it);
/* Bytes that went to the disk. */
uint64_t sorter__spilled(const struct sorter *s);

#endif
