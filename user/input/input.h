/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of dump files, memtap's and the vendor's of every generation, csv
 * and db: rows one by one as they stand in a file, and events of all files of
 * a capture in the order of time, in bounded memory.
 */
#ifndef MEMTAP_INPUT_H
#define MEMTAP_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/item.h"

struct slice {
	const char *s; /* not NUL-terminated; NULL: nothing is there */
	size_t n;
};

/* The twelve columns. */
enum in_column {
	COL_ID,
	COL_EVENT,
	COL_TYPE,
	COL_NAME,
	COL_TIME,
	COL_PID,
	COL_TID,
	COL_DEVICE,
	COL_PTR,
	COL_ATTR,
	COL_PY,
	COL_C,
	COL_MAX
};
extern const char *const in_columns[COL_MAX];

/* Attributes that somebody asks for; others stand in the cell only. */
enum in_key {
	KEY_ALLOCATION_ID,
	KEY_ADDR,
	KEY_SIZE,
	KEY_TOTAL,
	KEY_USED,
	KEY_TYPE,
	KEY_DTYPE,
	KEY_FORMAT,
	KEY_SHAPE,
	KEY_OWNER,
	KEY_INEFFICIENT,
	KEY_PAGE_TYPE,
	KEY_ALLOC_TYPE,
	KEY_SHADOW,
	KEY_PREATTACH,
	KEY_PATH,
	KEY_MID, /* of files of 2025-04: HAL module */
	KEY_MAX
};

/* One row; all slices live until the next call of in_file__next(). */
struct in_row {
	uint64_t id, time, ptr;
	enum row_event event; /* ROW_EVENT_MAX: a word that is not known */
	enum row_type type; /* ROW_TYPE_MAX: the same */
	uint32_t pid, tid; /* 0: "N/A" */
	int32_t device;
	bool has_ptr, hex; /* hex: Ptr is written in it */
	struct slice name; /* without the quotes of marks; NULL: "N/A" */
	struct slice cell[COL_MAX]; /* as text, csv quotes removed; Attr with its braces */
	uint32_t keys; /* 1 << KEY_*: there */
	struct slice attr[KEY_MAX];
};

/* A number among the attributes, decimal or 0x…; false: not there, or no number. */
bool in_row__num(const struct in_row *r, enum in_key key, int64_t *v);

struct in_pair {
	struct slice key, value;
};
struct strbuf;
/*
 * All attributes, in their order, at most max; those with escapes live in
 * scratch. False: they cannot be read, or are more.
 */
bool in_row__pairs(const struct in_row *r, struct in_pair *pairs, size_t max, size_t *n,
		   struct strbuf *scratch);

/* What a file was found to be. */
struct in_counts {
	uint64_t rows;
	uint64_t bad; /* pieces that are no rows, left out */
	uint64_t bad_attrs; /* rows whose Attr could not be read */
	uint64_t torn; /* 1: the last row is not whole (the writer was killed), left out */
	uint64_t headers; /* header lines after the first (V-now, after a fork) */
	uint64_t loose; /* rows that are no RFC 4180, read by the vendor's forms */
	uint64_t doubled; /* in_stream: rows that stand in the files twice, taken once */
	uint64_t first, last; /* the least and greatest time of a row; 0 without rows */
};

struct in_file;

/* A csv or db by its name. 0 or -errno, a message printed. */
int in_file__open(const char *path, struct in_file **f);
/* 1: a row, 0: the end, -errno: cannot read on, a message printed. */
int in_file__next(struct in_file *f, struct in_row *r);
void in_file__counts(const struct in_file *f, struct in_counts *c);
void in_file__close(struct in_file *f);

/* ---- the files of a capture (files.c) ---- */

#define IN_MAX_FILES 4096

struct in_set {
	char **paths;
	size_t n;
};

/*
 * A file, or the files below a folder: of memtap or of the vendor's tool, in
 * the layout of any generation. 0 or -errno, a message printed: -ENOENT when
 * there is none, -EEXIST when a folder holds those of several captures.
 */
int in_set__find(const char *path, struct in_set *set);
void in_set__free(struct in_set *set);

/* ---- owners that stand beside a dump of memtap (owners.c) ---- */

struct in_owner {
	uint32_t pid;
	int32_t device;
	enum row_type type;
	uint64_t alloc; /* allocation_id, 0: a block of before the attach */
	uint64_t ptr, time; /* time: when it was read */
	int64_t size;
	const char *owner; /* words joined by @ */
	double confidence;
};

/*
 * fn for each line of the owners_*.csv of this dump file; there may be none. *bad counts lines
 * that are no such; 0, -errno (a message printed), or what fn returned.
 */
int in_owners__each(const char *dump, int (*fn)(void *ctx, const struct in_owner *o), void *ctx,
		    uint64_t *bad);

/* ---- their events in the order of time (stream.c) ---- */

struct in_want {
	uint32_t events; /* 1 << ROW_*: those to hand out */
	bool stacks; /* fill item.stack_py and stack_c */
	bool details; /* of an ACCESS: item.owner is its dtype and shape */
	size_t memory; /* bytes for sorting; 0: the default */
};

struct in_stream;

/* Reads all files. 0 or -errno, a message printed. */
int in_stream__open(const struct in_set *set, const struct in_want *w, struct texts *texts,
		    struct in_stream **s);
/* The next event. 1, 0: the end, -errno: a message printed. */
int in_stream__next(struct in_stream *s, struct item *it);
void in_stream__counts(const struct in_stream *s, struct in_counts *c);
void in_stream__close(struct in_stream *s);

#endif
