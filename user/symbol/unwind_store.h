/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of user/symbol: the rows of all files, and who maps them. */
#ifndef MEMTAP_SYMBOL_UNWIND_STORE_H
#define MEMTAP_SYMBOL_UNWIND_STORE_H

#include "base/base.h"
#include "symbol/spans.h"
#include "symbol/symbol.h"

#define MAX_CODE 8 /* executable segments; linkers make one, BOLT two */

struct mapping;

struct ufile {
	char *path;
	uint32_t no; /* from 1 on */
	struct elf_code code[MAX_CODE]; /* where its code is mapped from */
	uint32_t n_code; /* 0: no ELF file */
	uint8_t id[BUILD_ID_MAX];
	size_t id_len;
	bool built, evicted;
	int err; /* why it has no rows */
	uint32_t page, n_pages, page_no; /* as in struct mt_uw_map */
	struct mt_uw_page *places;
	uint32_t procs; /* processes that map it */
	uint64_t used;
};

struct uproc {
	pid_t pid;
	struct span maps;
	uint32_t *files; /* numbers, each once */
	uint32_t n_files;
};

enum held_kind { HELD_PAGES, HELD_MAPS, HELD_CHUNK };

/* Given back, not to be used before a time. */
struct held {
	uint64_t until;
	struct span span;
	enum held_kind kind;
};

struct unwind_store {
	struct unwind_sink sink;
	struct unwind_stats stats;
	int cache; /* folder, or -1 */
	uint64_t clock; /* counts uses */
	uint32_t gen; /* of the last mt_uw_proc */
	uint64_t since; /* its value when the process was begun that is read */

	struct ufile **files;
	uint32_t n_files, cap_files;
	struct hmap by_file; /* device, inode, size, time of change -> number */
	struct hmap by_rule;
	struct hmap by_pid; /* -> struct uproc * */

	struct {
		uint32_t rows; /* in use */
		bool held;
	} * chunks;
	uint32_t n_chunks;
	struct mt_uw_chunk *chunk; /* the one that is filled */
	uint32_t chunk_no, filled, shown;
	bool open;

	struct spans pages, maps;
	struct held *held;
	size_t n_held, cap_held;
};

/* The file behind a descriptor. NULL: no memory. */
struct ufile *unwind_store__file(struct unwind_store *s, int fd, const char *path);
/* Are its rows still to be built? */
bool ufile__waits(const struct ufile *f);
void unwind_store__build(struct unwind_store *s, struct ufile *f, int fd);
/* Give a range back: it can be taken again after a while. */
void unwind_store__give(struct unwind_store *s, enum held_kind kind, uint32_t first, uint32_t n);
/* Those whose time has come are free. */
void unwind_store__settle(struct unwind_store *s);
/* A mapping of a file, as the programs have it; its start and end are there. */
void unwind_store__place(struct unwind_store *s, int fd, const struct mapping *m,
			 struct mt_uw_map *to);
void unwind_store__free_procs(struct unwind_store *s);

#endif
