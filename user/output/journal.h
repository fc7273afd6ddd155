/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a run: DIR/dump/.leaks_dump_<ts>.journal, or as the dump is named. It exists as
 * long as the run does, is locked by the writer, and in block order holds the rows of blocks that
 * are still open, so that a killed run loses none.
 *
 *   file    = header record*
 *   header  = magic[8] u32 version u32 flags u64 start_real u64 reserved
 *   record  = u32 length u32 checksum u8 kind u8[7] zero payload[length]
 *   ROWS    : u64 block, then encoded rows of that block, appended to those
 *             of earlier records
 *   END     : u64 block: its rows are in the dump
 *   COMMIT  : u64 position of the dump when all records before it were made
 *
 * The dump is written before the journal. So after a kill the dump may hold,
 * behind the last COMMIT's position, rows of blocks that the journal has open;
 * recovery looks there before it writes them.
 */
#ifndef MEMTAP_OUTPUT_JOURNAL_H
#define MEMTAP_OUTPUT_JOURNAL_H

#include "output/internal.h"

#define JOURNAL_MAGIC "MTJRNL1\n"
#define JOURNAL_VERSION 1u
#define JOURNAL_VENDOR 1u
#define JOURNAL_DB 2u
#define JOURNAL_BLOCK 4u
#define JOURNAL_KERNEL 8u
#define JOURNAL_NEWER 16u

struct journal_head {
	char magic[8];
	uint32_t version;
	uint32_t flags;
	uint64_t start_real;
	uint64_t reserved;
};

enum journal_kind { JOURNAL_ROWS = 1, JOURNAL_END = 2, JOURNAL_COMMIT = 3 };

struct journal_rec {
	uint32_t len;
	uint32_t sum;
	uint8_t kind;
	uint8_t zero[7];
};

/* Longest payload that a reader accepts; a writer splits before. */
#define JOURNAL_MAX_PAYLOAD (4u << 20)

static inline uint32_t journal__sum(const void *p, size_t n, uint8_t kind)
{
	return (uint32_t)hash__bytes(p, n, kind);
}

struct journal {
	struct sink s;
	int dirfd;
	char name[64];
	struct journal_head head;
	uint64_t live; /* bytes of records of open blocks */
};

int journal__create(struct journal *j, struct outdir *dir, const char *ts,
		    const struct out_opts *opts);
int journal__rows(struct journal *j, uint64_t block, const void *rows, size_t n);
int journal__end(struct journal *j, uint64_t block);
int journal__commit(struct journal *j, uint64_t position);
/* Is it worth rewriting? */
bool journal__is_stale(const struct journal *j);
/* Start over in a fresh file; journal__rewritten() puts it in the old one's place. */
int journal__rewrite(struct journal *j, struct journal *fresh);
int journal__rewritten(struct journal *j, struct journal *fresh, int err);
/* Close; remove the file unless keep. */
int journal__close(struct journal *j, bool keep);

/* ---- rows as bytes (codec.c) ---- */

/* Append; 0 or -ENOMEM. What only the trace needs is left out. */
int row__encode(struct strbuf *sb, const struct row *r);
/*
 * One row from p; texts point into p. Returns the bytes used, or -EBADMSG: p
 * may hold anything.
 */
ssize_t row__decode(const uint8_t *p, size_t n, struct row *r);

/* ---- what a block became (became.c) ---- */

struct became {
	const char *owner; /* a tensor that it was found to be, or NULL */
	char *labels; /* owners that it got since its MALLOC row: "@a@b", or NULL */
	const char *waste; /* as in struct row, or NULL */
	bool touched; /* by an operator */
};

/* One more owner. 0, -ENOSPC it has too many, -ENOMEM. */
int became__label(struct became *b, const char *label);
/* Its MALLOC row gets what it became; *owner: to be freed behind that. 0 or -ENOMEM. */
int became__dress(const struct became *b, bool newer, struct row *r, char **owner);
void became__free(struct became *b);

/* ---- the vendor's order (order.c) ---- */

struct order;
/* newer: as in out_opts. */
struct order *order__new(struct dump *d, bool newer);
int order__row(struct order *o, const struct row *r);
/* What an open block is: said in the row of its MALLOC. */
void order__owner(struct order *o, const struct out_owner *w);
/*
 * One more owner of a block whose rows wait for its end. Not in the journal: of a killed run it is
 * lost. 0, -ENOENT no rows of such a block wait, -ENOSPC it has too many.
 */
int order__label(struct order *o, uint32_t pid, enum row_type type, uint64_t ptr,
		 const char *label);
/* How an open block holds memory for nothing: as out__waste(). */
void order__waste(struct order *o, uint32_t pid, enum row_type type, uint64_t ptr,
		  const char *waste);
/* Write the open blocks of a process, or of all (pid 0). */
int order__finish(struct order *o, uint32_t pid);
/* Behind a flush of the dump, which went well or not: note what is open. */
int order__flush(struct order *o, struct journal *j, bool dump_ok);
uint64_t order__open_rows(const struct order *o);
void order__free(struct order *o);

#endif
