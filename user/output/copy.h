/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes rows of dumps as they were read, text by text, so that what this
 * version does not know stays.
 */
#ifndef MEMTAP_COPY_H
#define MEMTAP_COPY_H

#include "input/input.h"
#include "output/output.h"

/* One dump file: DIR/dump/leaks_dump_<time>.csv or .db. */
struct copy;

/* 0 or -errno, a message printed. */
int copy__open(const char *dir, enum out_format format, struct copy **c);
/*
 * pairs: the attributes; NULL: they cannot be read, the cell stays as it is.
 * A FREE whose block is not among the rows of this file gets preattach:true,
 * in a db in the table preattach_free. 0 or -errno, a message printed.
 */
int copy__row(struct copy *c, const struct in_row *r, const struct in_pair *pairs, size_t n_pairs);
/* A line of the owners beside the dump. 0 or -errno, a message printed. */
int copy__owner(struct copy *c, const struct in_owner *w);
const char *copy__path(const struct copy *c);
uint64_t copy__rows(const struct copy *c);
/* Frees c. 0 or the first error, a message printed. */
int copy__close(struct copy *c);

#endif
