/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writers of the vendor's files from rows: dump csv, dump db, trace json; the
 * vendor's row order with its journal; recovery after a killed run.
 */
#ifndef MEMTAP_OUTPUT_H
#define MEMTAP_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include "model/model.h"

enum out_format { OUT_CSV, OUT_DB };
enum out_order { OUT_ORDER_TIME, OUT_ORDER_BLOCK };
enum out_timeline { OUT_TIMELINE_REAL, OUT_TIMELINE_KERNEL };

struct out_opts {
	const char *dir; /* created when missing, mode 0750 */
	enum out_format format;
	enum out_order order;
	enum out_timeline timeline;
	bool vendor; /* front end: no attribute or row the vendor has not */
	bool newer; /* names and pointers of the vendor's newer tool; with vendor, no trace */
	uint64_t start_real; /* start of the capture: zero of the real time axis */
	/* Fill the cells of a row that has call stacks; the texts live until the next call.
	 * NULL: none. */
	void (*cells)(void *ctx, struct row *r);
	void *cells_ctx;
};

/*
 * All output of a run. Files are made lazily on their first row, below
 * DIR/dump and DIR/trace, named after local time; 0600.
 */
struct out;

/* 0 or -errno (the directory cannot be made or written: message printed). */
int out__open(const struct out_opts *opts, struct out **o);
/*
 * One row, in time order. Everything the row points to is copied. 0 or the
 * -errno of the first failed write; after a failure further rows are counted
 * as unwritten and nothing already written is touched.
 */
int out__row(struct out *o, const struct row *r);
/*
 * A block that was found to be a tensor, while it lives. In block order its rows have the owner;
 * outside of the front end it also stands in DIR/dump/owners_<ts>.csv. 0 or the first -errno.
 */
struct out_owner {
	uint32_t pid;
	int32_t device;
	enum row_type type;
	uint64_t ptr, allocation_id; /* 0: of before the attach */
	int64_t size;
	uint64_t time; /* of the reading; ns since the epoch */
	const char *owner; /* like PTA@model@weight; of out__owner static text */
	double confidence;
};
int out__owner(struct out *o, const struct out_owner *w);
/* Hand everything buffered to the kernel (write, commit). Called each 50 ms or so. */
int out__flush(struct out *o);
/*
 * A block has one owner more. 0; -ENOTSUP: rows are not in the order of blocks, so that its
 * MALLOC row is written already; as order__label().
 */
int out__label(struct out *o, uint32_t pid, enum row_type type, uint64_t ptr, const char *label);
/*
 * How a block holds memory for nothing, in the words of its MALLOC row; static text. In the order
 * of blocks only, and while its rows wait.
 */
void out__waste(struct out *o, uint32_t pid, enum row_type type, uint64_t ptr, const char *waste);
/* Rows that wait for the end of their block, in the order of blocks. */
uint64_t out__waiting(const struct out *o);
/* End of a process: block order writes its open blocks (msleaks.md 3.2). */
int out__process_end(struct out *o, uint32_t pid);
/* Flush, close brackets, checkpoint; 0 or first error. Frees o. */
int out__close(struct out *o);

/* Paths of the files made so far; i from 0, NULL at the end. */
const char *out__path(const struct out *o, unsigned int i);
/* Rows written, rows that could not be written, bytes. */
void out__counts(const struct out *o, uint64_t *rows, uint64_t *unwritten, uint64_t *bytes);
/* Rows that belong into the trace of a device that has none: from MAX_DEVICES on. */
uint64_t out__left_out(const struct out *o);
int out__error(const struct out *o); /* 0 or first -errno */

/*
 * Finish the files of a killed run in DIR (design.md, Decisions): closes trace
 * JSON, cuts a torn last csv line, checkpoints a db, writes the journal's open
 * blocks. Prints what it did. 0 or -errno.
 */
int out__recover(const char *dir);

/* Would a spreadsheet take this text for a formula? Of marks it is left out (csv.c). */
bool text__is_formula(const char *s, size_t n);

#endif
