/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of user/symbol: the rows of all files, and who maps them. */
#ifndef MEMTAP_SYMBOL_UNWIND_STORE_H
#define MEMTAP_SYMBOL_UNWIND_STORE_H

#include "base/base.h"
#include "base/deadline.h"
#include "symbol/spans.h"
#include "symbol/symbol.h"

#define MAX_CODE 8 /* executable segments; linkers make one, BOLT two */

struct mapping;

/* What a table takes: a range of pages, chunks of its own. */
struct room {
	uint32_t pages, chunks;
};

struct ufile {
	char *path;
	uint32_t no; /* from 1 on */
	uint64_t dev, ino; /* of the vdso: 0 */
	uint32_t base; /* this is but a number: the file is that one (unwind_twins.c); 0: it is not
			*/
	uint32_t twin; /* the number of one place more in the same process; 0: none yet */
	struct elf_code code[MAX_CODE]; /* where its code is mapped from */
	uint32_t n_code; /* 0: no ELF file */
	uint8_t id[BUILD_ID_MAX];
	size_t id_len;
	bool built, evicted;
	int err; /* why it has no rows */
	uint32_t page, n_pages, page_no; /* as in struct mt_uw_map */
	struct mt_uw_page *places;
	uint32_t procs; /* processes that map it, and mappings of theirs that are still held */
	uint64_t used;
	uint64_t retry; /* room is looked for again (boot) */
	bool no_room; /* counted so */
	struct room need; /* of its table; no pages: not known yet */
};

struct uproc {
	pid_t pid;
	struct span maps;
	uint32_t *files; /* numbers, each once */
	uint32_t n_files;
	struct mt_uw_map *copy; /* what was shown, and where */
	struct mt_uw_proc shown;
	bool lost; /* counted so: its mappings have no room */
};

enum held_kind { HELD_PAGES, HELD_MAPS, HELD_CHUNK };

/* Given back, not to be used before a time; mappings, not while a child has them. */
struct held {
	uint64_t until;
	struct span span;
	enum held_kind kind;
	bool in_use;
	uint32_t *files; /* of mappings: whose tables stay for so long */
	uint32_t n_files;
};

struct unwind_store {
	struct unwind_sink sink;
	struct unwind_stats stats;
	int cache; /* folder, or -1 */
	uint64_t clock; /* counts uses */
	uint32_t gen; /* of the last mt_uw_proc */
	uint64_t since; /* its value when the process was begun that is read */
	struct deadline opening; /* of files that processes map */

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
/*
 * Is there room for one that waits? Else some is made, if tables are there that nobody needs.
 * *again: then when to ask again, if that is earlier than what it says or it is 0.
 */
bool unwind_store__may_build(struct unwind_store *s, struct ufile *f, uint64_t *again);

/* ---- what is given back, and room that is made (unwind_room.c) ---- */

/* Give a range back: it can be taken again after a while. */
void unwind_store__give(struct unwind_store *s, enum held_kind kind, struct span span);
/* Mappings, with the files of theirs, which it takes over. */
void unwind_store__give_maps(struct unwind_store *s, struct uproc *p);
/* Those whose time has come are free. */
void unwind_store__settle(struct unwind_store *s);
/* When the next one of a kind may be free; 0: none is held. */
uint64_t unwind_store__next(const struct unwind_store *s, enum held_kind kind);
/* What a table takes, beside what is left of the chunk that is filled. */
struct room unwind_room__of(const struct unwind_store *s, const struct unwind_table *t);
/* Is there so much; held: or will there be, with what is held? */
bool unwind_room__fits(const struct unwind_store *s, struct room need, bool held);
/* Does it take more than one file may have? */
bool unwind_room__too_large(const struct unwind_store *s, struct room need);
/*
 * Tables that nobody needs go, the least lately needed first, until there will be so much. When
 * that is (boot); 0: there are not enough of them.
 */
uint64_t unwind_room__make(struct unwind_store *s, struct room need);
/* Take the table of a file away. */
void unwind_store__take_away(struct unwind_store *s, struct ufile *f);
/* A mapping of a file, as the programs have it; its start and end are there. */
void unwind_store__place(struct unwind_store *s, pid_t pid, int fd, const struct mapping *m,
			 struct mt_uw_map *to);
/* A number more. NULL: there is none, or no memory. */
struct ufile *unwind_store__add(struct unwind_store *s, const char *path);

/* ---- files that are mapped at several places of a process (unwind_twins.c) ---- */

/* The number of a file at one place, beside the mappings that have theirs. */
uint32_t unwind_twins__number(struct unwind_store *s, const struct mt_uw_map *v, uint32_t n,
			      uint32_t file, uint64_t bias);
/*
 * Number what was read, sorted by address: a place that was there before has its number again.
 * 0 or -ENOMEM.
 */
int unwind_twins__assign(struct unwind_store *s, const struct mt_uw_map *old, uint32_t n_old,
			 struct mt_uw_map *v, uint32_t n);
void unwind_store__free_procs(struct unwind_store *s);

#endif
