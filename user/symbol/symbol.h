/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: rows that unwind a file's code, symbol tables, Python code objects.
 *
 * Files and the memory of targets are hostile: sizes and offsets are checked,
 * what is malformed is an error or a name that is not known, never a crash.
 */
#ifndef MEMTAP_SYMBOL_H
#define MEMTAP_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"
#include "memtap/unwind.h"
#include "probe/probe.h"

/* ==== unwind rows of a file ==== */

/*
 * What .eh_frame and .debug_frame say of a file's code, as memtap/unwind.h has
 * it. Pages are numbered from that of `base` on; their rows lie one after the
 * other in `rows`, `first` here being counted from its beginning (32 bits).
 */
struct unwind_page {
	uint32_t first, n;
};

struct unwind_table {
	uint64_t base; /* virtual address, a multiple of MT_UW_PAGE */
	uint32_t n_pages, n_rows, n_rules;
	struct unwind_page *pages;
	struct mt_uw_row *rows;
	struct mt_uw_rule *rules; /* [0] is MT_CFA_NONE */
	/* What the rows leave out, in addresses (rules that are not understood) and pages
	 * (more rows than a chunk has room for). */
	uint32_t n_other, n_crowded;
};

/*
 * Build it. 0 or -errno: -ENOENT the file describes no code, -ENOMEM, -E2BIG more
 * than 65535 rules or 4 GiB of code. Free with unwind_table__free (NULL is fine).
 */
int unwind_table__build(const char *path, struct unwind_table **out);
int unwind_table__build_fd(int fd, struct unwind_table **out);
void unwind_table__free(struct unwind_table *t);
/* The rule that holds at an address, never NULL. */
const struct mt_uw_rule *unwind_table__at(const struct unwind_table *t, uint64_t vaddr);

/* ---- rows on disk, by build-id ---- */

/*
 * The folder, made if it is missing; -EPERM when others can write into it. A
 * descriptor, the caller's, or -errno.
 */
int unwind_cache__open(const char *path);
/*
 * 0 or -errno: -ENOENT not there, -EPERM not ours alone, -EINVAL of another
 * version or not what was written.
 */
int unwind_cache__load(int dir, const uint8_t *id, size_t id_len, struct unwind_table **out);
/* Written beside and renamed, mode 0600. 0 or -errno. */
int unwind_cache__save(int dir, const uint8_t *id, size_t id_len, const struct unwind_table *t);

/* ---- the rows of all files, as the BPF programs read them ---- */

/*
 * Where they go: maps of the kernel, or arrays of a test. Each function returns
 * 0 or -errno. A chunk that is given again has only gained rows; NULL = it is
 * taken away. A process: NULL = it is taken away.
 */
struct unwind_sink {
	void *ctx;
	int (*chunk)(void *ctx, uint32_t no, const struct mt_uw_chunk *c);
	int (*pages)(void *ctx, uint32_t first, const struct mt_uw_page *p, uint32_t n);
	int (*rules)(void *ctx, uint32_t first, const struct mt_uw_rule *r, uint32_t n);
	int (*maps)(void *ctx, uint32_t first, const struct mt_uw_map *m, uint32_t n);
	int (*proc)(void *ctx, pid_t pid, const struct mt_uw_proc *p);
};

/* Descriptors of the maps of bpf/lib/stack.bpf.h, which stay the caller's. */
struct unwind_maps {
	int chunks, pages, rules, maps, procs;
	int open_fd; /* inside: of the chunk that is still filled */
	uint32_t open_no;
};

struct unwind_sink unwind_maps__sink(struct unwind_maps *m);
void unwind_maps__close(struct unwind_maps *m);

struct unwind_store;

struct unwind_stats {
	uint32_t files, tables; /* files met, those with rows */
	uint32_t cached; /* of them, from the disk */
	uint64_t rows;
	uint32_t rules, chunks, pages, maps, procs;
	uint32_t evicted; /* tables taken away to make room */
	uint32_t no_room; /* files whose rows had no room */
	uint32_t rules_lost; /* distinct rules that had none: MT_CFA_OTHER instead */
	uint32_t procs_lost; /* processes whose mappings had none */
};

/*
 * At most so many chunks; 0 = as many as are possible. cache: a folder of
 * unwind_cache__open, the store's from now on, or -1. 0 or -errno.
 */
int unwind_store__new(const struct unwind_sink *sink, uint32_t max_chunks, int cache,
		      struct unwind_store **out);
void unwind_store__free(struct unwind_store *s); /* takes nothing away from the sink */
/*
 * Read the mappings of a process, now or again, and build the rows of files that
 * are new. 0 or -errno (-ESRCH: it has gone; -ENOSPC: no room for its mappings).
 */
int unwind_store__process(struct unwind_store *s, pid_t pid);
/* It has ended. What it alone has mapped may be taken away. */
void unwind_store__forget(struct unwind_store *s, pid_t pid);
/* Path of a file by its number, as the first process that mapped it saw it; NULL if none. */
const char *unwind_store__path(const struct unwind_store *s, uint32_t file);
void unwind_store__stats(const struct unwind_store *s, struct unwind_stats *out);

/* ==== names of functions ==== */

/* ==== Python ==== */

struct python;
struct mt_py_offsets;
struct mt_py_frame;
struct mt_py_stack;

/*
 * The interpreter of a process, checked against what its memory holds: an object
 * also where there is none or it is not understood, see python__why. 0 or -ENOMEM.
 * Of a forked child open another one; after exec too. Not thread safe.
 */
int python__open(pid_t pid, struct python **out);
void python__close(struct python *py); /* NULL is fine */
/* What BPF needs to walk its threads; its `why` is that of python__why. */
const struct mt_py_offsets *python__offsets(const struct python *py);
/* enum mt_py_why; 0: stacks can be walked. */
unsigned int python__why(const struct python *py);
/* What was found and how, or the reason, for people. */
const char *python__text(const struct python *py);
/* A reason as words, "thread has no Python state"; never NULL. */
const char *python__reason(unsigned int why);

/* Threads that the interpreters know. */
struct python_thread {
	uint64_t pointer; /* its thread pointer */
	uint32_t tid; /* in its PID namespace; 0 before 3.11 */
};

/* At most max. Their number or -errno. */
ssize_t python__threads(struct python *py, struct python_thread *t, size_t max);
/* What BPF does, from outside: right only of a thread that does not run Python code. */
void python__walk(struct python *py, const struct python_thread *t, uint32_t max,
		  struct mt_py_stack *out);

/* Texts are UTF-8, of the object and valid until the next call. */
struct python_name {
	const char *file, *name, *qualname; /* qualname: that of name before 3.11 */
	int line; /* of the instruction; of `def` where that has none, 0 if not known */
	bool cut; /* a text is longer than is kept */
};

/*
 * Function, file and line of a frame, read once per code object and remembered
 * by its address and what tells it apart from others there before or after.
 * enum mt_py_why: 0 named.
 */
unsigned int python__name(struct python *py, const struct mt_py_frame *f, struct python_name *out);
/*
 * A stack as the vendor's cell has it: `file(line): function`, a line each, at
 * most `depth` of them; NA for a frame without a name, and alone for no stack.
 */
void python__cell(struct python *py, const struct mt_py_stack *s, uint32_t depth,
		  struct strbuf *out);

/* What the code objects of a process took, and how often a name could not be had. */
struct python_counts {
	uint64_t hits, reads, replaced, evicted; /* replaced: another code at the same address */
	size_t codes, bytes;
	const uint64_t *why; /* frames without a name, by enum mt_py_why */
};

struct python_counts python__counts(const struct python *py);

#endif
