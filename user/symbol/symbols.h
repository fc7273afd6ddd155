/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of user/symbol: the files of symbols__*, and what each of them was asked. */
#ifndef MEMTAP_SYMBOL_SYMBOLS_H
#define MEMTAP_SYMBOL_SYMBOLS_H

#include "base/base.h"
#include "symbol/symbol.h"

#define NO_TEXT UINT32_MAX

/* What was found for an address. */
struct answer {
	uint64_t start, size;
	uint32_t name, pretty; /* in texts; NO_TEXT: none */
};

/* An executable segment. */
struct span {
	uint64_t off, vaddr, size;
};

struct file {
	struct file_id id;
	int fd, debug_fd; /* debug_fd -1: none */
	int err; /* why there is no table */
	struct span *spans;
	size_t n_spans;
	struct symtab *table; /* NULL: not made, or given up */
	struct hmap seen; /* address, or start of a function -> number of an answer */
	struct answer *answers;
	uint32_t n, cap;
	struct strbuf texts;
	size_t bytes; /* as counted in symbols.stats */
	struct file *newer, *older; /* in the order of use */
};

struct symbols {
	struct symbols_opts opts;
	struct symbols_stats stats;
	struct hmap by_id; /* -> struct file */
	struct hmap by_inode; /* -> struct file */
	struct file *newest, *oldest;
	struct strbuf scratch;
};

/* The file of an id, NULL: not known. */
struct file *symbols__file(struct symbols *s, const struct file_id *id);
/* It is the newest in the order of use now. */
void symbols__used(struct symbols *s, struct file *f);
/* Give up the table of a file, and what was asked of it. */
void symbols__unload(struct symbols *s, struct file *f);

#endif
