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
	uint16_t n;
	union {
		uint64_t frames[0];
		uint32_t lines[0]; /* of stack_store.lines; 0 = without a name */
	};
};

/* ---- stacks by content, within a bound (stack_store.c) ---- */

struct stack_store {
	struct hmap by_hash;
	size_t bytes, old_bytes, max_bytes;
	/* Python lines, each once */
	struct hmap by_line;
	char **lines;
	uint32_t n_lines, cap_lines;
	uint64_t n[2], frames, guessed, collisions, evicted;
};

/* NULL if it is not there. */
struct kept *stack_store__find(struct stack_store *s, uint64_t hash, bool python);
/* A new one of so many frames; NULL: no memory, or *err = -EEXIST: it is there already. */
struct kept *stack_store__add(struct stack_store *s, const uint64_t hash[2], bool python,
			      uint32_t n, int *err);
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
	struct hmap texts; /* (hash, process) -> struct text */
	size_t text_bytes;
	struct strbuf sb, sb2;
	uint64_t unknown, unnamed;
	uint64_t retried;
};

/* What it ran at a time (boot). With the lock held. */
struct sproc *stacks__proc(struct stacks *s, uint32_t tgid, uint32_t start, uint64_t time);
/* The thread that reads processes (stack_procs.c). */
int stacks__start(struct stacks *s);
void stacks__stop(struct stacks *s);
/* Interpreters that were starting when they were looked at: again. */
void stacks__retry(struct stacks *s, uint64_t now);
/* The cell of a C stack (stack_cell.c). With the lock held. */
void stack_cell__c(struct stacks *s, const struct sproc *p, const struct kept *k,
		   struct strbuf *sb);
void stack_cell__python(struct stacks *s, const struct kept *k, struct strbuf *sb);

#endif
