/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of user/symbol: the parts of struct stacks. */
#ifndef MEMTAP_SYMBOL_STACKS_INTERNAL_H
#define MEMTAP_SYMBOL_STACKS_INTERNAL_H

#include <pthread.h>

#include "base/base.h"
#include "symbol/stacks.h"

/* A stack that was sent: frames of C, or numbers of Python lines. */
struct kept {
	struct hkey key; /* first half of its hash, 0 C or 1 Python */
	uint64_t verify; /* the second half */
	bool young;
	uint8_t end; /* enum mt_uw_end, or enum mt_py_why */
	uint8_t guessed;
	bool clash; /* another one has its hash: an event that names it may mean either */
	uint8_t begins; /* Python: activations that begin behind the last frame */
	uint16_t n;
	union {
		uint64_t frames[0];
		uint32_t lines[0]; /* of stack_store.lines; 0 = without a name */
	};
};

/* Python: how many activations begin before each frame (memtap/python.h). */
static inline uint8_t *kept__begins(const struct kept *k)
{
	return (uint8_t *)(uintptr_t)(k->lines + k->n);
}

/* ---- stacks by content, within a bound (stack_store.c) ---- */

struct stack_store {
	struct hmap by_hash;
	size_t bytes, old_bytes, max_bytes;
	/* Python lines, each once */
	struct hmap by_line;
	char **lines;
	uint32_t n_lines, cap_lines;
	size_t line_bytes;
	uint64_t n[2], frames, guessed, collisions, evicted;
	/* Called for each stack that is given up, before it goes; or NULL. */
	void (*evict)(void *ctx, uint64_t hash, bool python);
	void *evict_ctx;
};

/* NULL if it is not there. */
struct kept *stack_store__find(struct stack_store *s, uint64_t hash, bool python);
/*
 * 0: it is not there; -EEXIST: it is, or it is not shown anyway; -EALREADY: another one has its
 * hash, and neither is shown from now on.
 */
int stack_store__known(struct stack_store *s, const uint64_t hash[2], bool python);
/* A new one of so many frames; NULL and *err: no memory, or as stack_store__known. */
struct kept *stack_store__add(struct stack_store *s, const uint64_t hash[2], bool python,
			      uint32_t n, int *err);
/* Before lines are asked for: if there are too many, they go, with all stacks of Python. */
void stack_store__trim(struct stack_store *s);
/* Number of a line of Python; 0: no memory. */
uint32_t stack_store__line(struct stack_store *s, const char *text, size_t len);
void stack_store__free(struct stack_store *s);

/* ---- processes ---- */

/* A program that a process runs or ran. */
struct sproc {
	pid_t pid;
	uint32_t start;
	uint64_t since; /* boot time from which it runs it; 0: from its start */
	uint64_t id; /* tells it from the others of the process; 0: not known */
	struct sproc *older; /* what the process ran before */
	struct mt_uw_map *maps; /* as the programs have them; sorted by address */
	uint32_t n_maps;
	struct python *py;
	unsigned int why; /* enum mt_py_why of py */
	uint64_t next_try; /* when its interpreter is looked at again */
	uint32_t tries;
	struct sproc *parent; /* whose interpreter it has, until its own is known */
	bool read; /* its mappings have been read */
	bool over; /* the process runs another one */
	bool untold; /* it was seen before its exec was told: since is too late */
	bool gone; /* the process has ended */
};

struct pid_list {
	pid_t *pids;
	size_t n, cap;
};

struct sfile {
	char *path;
	int fd; /* -1: known to `symbols`, or never to be */
	pid_t pid; /* that had it first */
	struct file_id id;
	bool known; /* symbols has it under id */
};

/* A definition that waits for its process to be read. */
struct waiting {
	void *rec;
	size_t size;
	uint64_t until;
};

/* A cell that was made. */
struct text {
	char *data;
	size_t len;
	enum stack_merge merge;
};

struct stacks {
	struct stacks_opts opts;
	pthread_t thread;
	bool threaded;
	pthread_mutex_t lock; /* of all that follows, but for what is one thread's alone */
	pthread_cond_t wake, idle;
	bool stop, busy;
	struct pid_list queue, ended; /* to be read, to be forgotten */

	struct unwind_store *unwind; /* the other thread's */
	struct unwind_sink maps_sink;
	struct mt_uw_map *fresh_maps; /* those just read */
	uint32_t n_fresh;
	pid_t reading;

	struct sproc **procs;
	size_t n_procs;
	struct hmap by_proc; /* (pid, start) -> index + 1 */
	struct sfile *files; /* by number - 1 */
	uint32_t n_files, cap_files;
	struct unwind_stats unwind_stats;

	/* The thread that hands out events: */
	struct stack_store store;
	struct symbols *symbols;
	struct waiting *waiting;
	size_t n_waiting, cap_waiting;
	struct hmap texts; /* (hashes, process) -> struct text */
	size_t text_bytes;
	struct strbuf sb, sb2;
	uint64_t unknown, unnamed;
	uint64_t merged[STACK_MERGES];
	struct sources *sources; /* NULL: not asked for */
	uint64_t retried;
};

/* What it ran at a time (boot). With the lock held. */
struct sproc *stacks__proc(struct stacks *s, uint32_t tgid, uint32_t start, uint64_t time);
/* The thread that reads processes (stack_procs.c). */
int stacks__start(struct stacks *s);
void stacks__stop(struct stacks *s);
/* Interpreters that were starting when they were looked at: again. */
void stacks__retry(struct stacks *s, uint64_t now);
/* All cells that were made (stack_text.c): they are made again. */
void stack_text__forget(struct stacks *s);
/* What symbols needs of a file, when one of its names is wanted for the first time. */
void stack_cell__meet(struct stacks *s, struct sfile *f);
/* Address of a frame of C in its process, within the call; 0: it is not known. */
uint64_t stack_cell__address(const struct sproc *p, uint64_t frame);
/* One frame of C, with those that were inlined in it. */
void stack_cell__frame(struct stacks *s, const struct sproc *p, uint64_t frame, struct strbuf *sb);
/* One frame of Python: its number in the store. */
void stack_cell__line(struct stacks *s, uint32_t line, struct strbuf *sb);
/* The cell of a C stack (stack_cell.c). With the lock held. */
void stack_cell__c(struct stacks *s, const struct sproc *p, const struct kept *k,
		   struct strbuf *sb);
void stack_cell__python(struct stacks *s, const struct kept *k, struct strbuf *sb);
/* Both in one (stack_mixed.c), py NULL: there is none. With the lock held. */
enum stack_merge stack_mixed__cell(struct stacks *s, const struct sproc *p, const struct kept *c,
				   const struct kept *py, struct strbuf *sb);

/* ---- source lines of many files, within a bound (sources.c) ---- */

struct sources_stats {
	uint64_t found, unknown; /* addresses asked for */
	uint64_t opened; /* files whose lines were read */
	size_t bytes; /* of the answers that are kept */
};

struct sources *sources__new(size_t max_bytes); /* 0: 32 MiB */
void sources__free(struct sources *s); /* NULL is fine */
/*
 * fn for each frame at an address, as lines__find; texts last until the next call. 0; what fn
 * returned; -ENOENT: nothing is known.
 */
int sources__find(struct sources *s, struct symbols *names, const struct file_id *id,
		  uint64_t vaddr, line_fn fn, void *ctx);
void sources__stats(const struct sources *s, struct sources_stats *out);

#endif
