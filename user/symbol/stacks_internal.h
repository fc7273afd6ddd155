/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of user/symbol: the parts of struct stacks. */
#ifndef MEMTAP_SYMBOL_STACKS_INTERNAL_H
#define MEMTAP_SYMBOL_STACKS_INTERNAL_H

#include <pthread.h>

#include "base/base.h"
#include "base/deadline.h"
#include "symbol/past_maps.h"
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
	bool placed; /* completed from a copy: behind the frames are their addresses */
	uint8_t was; /* how it ended before that */
	uint16_t n;
	uint32_t uses; /* records that told of it */
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
/* It has so many frames and their addresses instead. NULL: no memory, and it is as it was. */
struct kept *stack_store__grow(struct stack_store *s, struct kept *k, uint32_t n);
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
	bool silent; /* its memory does not answer: no interpreter is looked for */
	struct sproc *parent; /* whose interpreter it has, until its own is known */
	bool read; /* its mappings have been read */
	bool over; /* the process runs another one */
	bool untold; /* it was seen before its exec was told: since is too late */
	bool gone; /* the process has ended */
	uint64_t gone_at;
	uint32_t children; /* programs that have this one as their parent */
	uint64_t no; /* no other one has it, ever */
};

/* Processes to be read, or to be forgotten: each once, not before a time (boot). */
struct asked {
	pid_t pid;
	uint64_t when;
};

struct pid_list {
	struct asked *v;
	size_t n, cap;
};

/*
 * How often a process may be read (stack_queue.c): one that maps and unmaps without end would
 * have the thread for itself.
 */
struct pace {
	uint64_t credit, seen; /* ns that may be spent on it, as of then */
	uint32_t step; /* of the delay, while it has spent all */
	uint32_t notices; /* of its mappings, that wait */
	uint64_t deaf; /* some of those up to that time (boot) had no room */
};

struct sfile {
	char *path;
	int fd; /* -1: known to `symbols`, or never to be */
	pid_t pid; /* that had it first */
	struct file_id id;
	bool known; /* symbols has it under id */
	bool has_low;
	uint64_t low; /* copy_space__low */
	bool asked_go, go; /* was it looked whether it is of Go; is it? */
};

/* A definition that waits for its process to be read. */
struct waiting {
	void *rec;
	size_t size;
	uint64_t until;
};

/* A new mapping, as its notice tells of it. */
struct notice {
	struct notice *next;
	uint64_t time, start, end, offset, ino;
	pid_t pid;
	char path[];
};

struct notice_list {
	struct notice *first, *last;
	size_t n;
};

/* Stacks to be completed (stack_copies.c). */
struct copies {
	struct pending_copy *first, *last;
	struct hmap by_hash;
	size_t bytes;
	struct copy_space *space; /* of the last one */
	int64_t moved[MT_END_MAX]; /* to the events that the programs have counted by end */
	uint64_t completed; /* events whose stack was completed */
	uint64_t longer; /* stacks with more frames, and no root all the same */
	uint64_t failed, dropped; /* copies without use; without room */
};

/* A cell that was made. */
struct text {
	char *data;
	size_t len;
	enum stack_merge merge;
	bool replaced; /* as stack_cell__c says */
	uint8_t end; /* how the stack ended by the programs, or its copy */
	uint8_t shown; /* and by the cell: what is known of the files as well */
};

struct stacks {
	struct stacks_opts opts;
	pthread_t thread;
	bool threaded;
	pthread_mutex_t lock; /* of all that follows, but for what is one thread's alone */
	pthread_cond_t wake, idle;
	bool stop, busy, looking; /* busy: with anything, looking: at a process */
	bool finished; /* the thread that reads processes has returned */
	pid_t reading; /* what it reads now, or has read last */
	struct pid_list queue, ended; /* to be read, to be forgotten */
	uint64_t deaf; /* notices up to that time (boot) were lost */
	uint64_t heard; /* all notices up to that time (boot) are in the lists */
	struct notice_list notices; /* to be read */
	struct notice_list orphans; /* of processes that are no targets, any more perhaps */
	struct past_maps past;
	struct hmap told; /* by process: how many mappings were told of */
	struct hmap paces; /* by process -> struct pace */
	uint64_t gap_asked; /* when all processes were asked for, as some notices were lost */
	bool gap; /* they are to be asked for again */
	uint64_t published; /* mappings shown to the programs so far; atomic */
	uint64_t held_back; /* processes that were to be read and had to wait for their turn */
	uint64_t notices_lost; /* mappings told of that had no room */
	struct stack_notices *watch; /* NULL: somebody else tells of new mappings */

	struct unwind_store *unwind; /* the other thread's */
	struct unwind_sink maps_sink;
	struct mt_uw_map *fresh_maps; /* those just read */
	uint32_t n_fresh;
	uint64_t stamp; /* stacks__stamp when that was begun */
	bool read_old; /* what was read is of no use any more */
	struct deadline opening; /* reads interpreters; the other thread's */

	struct sproc **procs;
	size_t n_procs;
	struct hmap by_proc; /* (pid, start) -> the newest */
	uint64_t last_proc_no;
	struct sfile *files; /* by number - 1 */
	uint32_t n_files, cap_files;
	struct unwind_stats unwind_stats;
	uint32_t silent; /* programs whose memory does not answer */

	/* The thread that hands out events: */
	struct stack_store store;
	struct symbols *symbols;
	struct copies copies;
	struct waiting *waiting;
	size_t n_waiting, cap_waiting;
	struct hmap texts; /* (hashes, process) -> struct text */
	size_t text_bytes;
	struct strbuf sb, sb2;
	uint64_t unknown, unnamed;
	uint64_t unanswered; /* of unnamed: their memory did not answer, or was not asked again */
	struct deadline naming; /* reads code objects */
	uint64_t merged[STACK_MERGES];
	struct sources *sources; /* NULL: not asked for */
	uint64_t retried, swept;
};

/* What a process runs now, or ran last. With the lock held. */
struct sproc *stacks__newest(const struct stacks *s, uint32_t tgid, uint32_t start);
/* What it ran at a time (boot). With the lock held. */
struct sproc *stacks__proc(struct stacks *s, uint32_t tgid, uint32_t start, uint64_t time);
/* One process, and one that has ended (stack_procs.c): by the thread, without the lock. */
void stacks__read(struct stacks *s, pid_t pid);
void stacks__forget_process(struct stacks *s, pid_t pid);
/* The thread that reads processes (stack_thread.c). */
int stacks__start(struct stacks *s);
/* False: it hangs, and goes on with what is ours. */
bool stacks__stop(struct stacks *s);
/* Interpreters that were starting when they were looked at: again. */
void stacks__retry(struct stacks *s, uint64_t now);
/* All cells that were made (stack_text.c): they are made again. */
void stack_text__forget(struct stacks *s);
/* What symbols needs of a file, when one of its names is wanted for the first time. */
void stack_cell__meet(struct stacks *s, struct sfile *f);
/* Address of a frame of C in its process, within the call; 0: it is not known. */
uint64_t stack_cell__address(const struct sproc *p, uint64_t frame);
/* One frame of C, with those that were inlined in it. pc: where it was in the process; 0: where
 * that has the file. */
void stack_cell__frame(struct stacks *s, const struct sproc *p, uint64_t time, uint64_t frame,
		       uint64_t pc, struct strbuf *sb);
/*
 * Was another file there at that time? Then the program had not been told yet, and has walked on
 * by the rows of the one before.
 */
bool stack_cell__replaced(struct stacks *s, const struct sproc *p, uint64_t time, uint64_t frame);
/* One frame of Python: its number in the store. */
/* Why it ends, as a cell says it. With the lock held. */
uint8_t stack_cell__end(struct stacks *s, const struct kept *k);
void stack_cell__line(struct stacks *s, uint32_t line, struct strbuf *sb);
/* Has a process of this number ended, that was ours? With the lock held. */
bool stacks__has_ended(const struct stacks *s, pid_t pid);
/* Free what is known of processes that have ended a while ago; rows up to then are written. */
void stacks__forget(struct stacks *s, uint64_t written);
/* Another one after each change of what the process has mapped. Without the lock. */
uint64_t stacks__stamp(struct stacks *s, pid_t pid);
/* ---- the queue of the thread that reads processes (stack_queue.c); with the lock held ---- */

/* It is to be read: as soon as its turn comes. */
void stacks__ask(struct stacks *s, pid_t pid);
/* Not before a time (boot), whatever it has spent. */
void stacks__ask_at(struct stacks *s, pid_t pid, uint64_t when);
/* It is to be forgotten. */
void stacks__ask_forget(struct stacks *s, pid_t pid);
/* The first whose time has come; else when that is in *next (UINT64_MAX: there is none). */
bool stacks__take(struct pid_list *list, pid_t *pid, uint64_t *next);
/* Is there a process that could be read now? */
bool stacks__is_due(const struct stacks *s);
/* Is anything of this process? */
bool stacks__is_pending(const struct stacks *s, pid_t pid);
/* So much time was spent on it. */
void stacks__charge(struct stacks *s, pid_t pid, uint64_t ns);
/* NULL: no memory. */
struct pace *stacks__pace(struct stacks *s, pid_t pid);
void stacks__pace_forget(struct stacks *s, pid_t pid);
void stacks__pace_free(struct stacks *s);
/* The thread that hears of new mappings (stack_notices.c). 0 or -errno. */
int stack_notices__start(struct stacks *s);
void stack_notices__stop(struct stacks *s);
/* The first of those to be read; NULL: there is none. With the lock held. */
struct notice *stack_notices__next(struct stacks *s);
/* Are there any of the process? With the lock held. */
bool stack_notices__waiting(const struct stacks *s, pid_t pid);
void stack_notices__free(struct stacks *s);
/* The process has ended, and was ours: what is known of it is read. With the lock held. */
void stack_notices__claim(struct stacks *s, pid_t pid);
/* What was mapped, into s->past: by the thread that reads processes, without the lock. */
void stack_notices__read(struct stacks *s, struct notice *n);

/*
 * A record of type MT_REC_PYSTACK: its frames get their names (stack_names.c). *later: the
 * process has not been read yet, and then -EAGAIN; for now that may be. Without the lock: the
 * target's memory is read. 0 or -errno.
 */
int stack_names__define(struct stacks *s, const struct mt_pywalk *r, size_t size, bool *later);
/* The interpreter of a process, by the thread that reads processes. 0; -ETIMEDOUT: its memory, or
 * its file, does not answer; -errno. */
int stack_names__open(struct stacks *s, pid_t pid, struct python **out);
/* The store did not take a stack; what to tell of that. */
int stacks__not_added(struct stacks *s, int err);

/* A record of type MT_REC_COPY or MT_REC_COPY_PIECE. 0 or -errno. */
int stack_copies__define(struct stacks *s, const void *rec, size_t size);
/* A cell wants this stack now. With the lock held. */
void stack_copies__wanted(struct stacks *s, uint64_t hash);
/* Is its copy so young that what was mapped then may not have been read yet? Without the lock. */
bool stack_copies__young(struct stacks *s, uint64_t hash);
/* So many more events have a stack that may have been completed. */
void stack_copies__used(struct stacks *s, const struct kept *k, uint32_t uses);
/* Complete those that have waited long enough, or all. */
void stack_copies__settle(struct stacks *s, bool all);
void stack_copies__free(struct stacks *s);

/* The descriptor of a file by its number, which stays ours; -1. With the lock held. */
int stack_cell__file(struct stacks *s, uint32_t no);
/*
 * The cell of a C stack of an event of that time (stack_cell.c). With the lock held. True: it is
 * not what it was taken for, and ends at code that was replaced.
 */
bool stack_cell__c(struct stacks *s, const struct sproc *p, uint64_t time, const struct kept *k,
		   struct strbuf *sb);
void stack_cell__python(struct stacks *s, const struct kept *k, struct strbuf *sb);
/* Both in one (stack_mixed.c), py NULL: there is none; *replaced as stack_cell__c says. Lock held.
 */
enum stack_merge stack_mixed__cell(struct stacks *s, const struct sproc *p, uint64_t time,
				   const struct kept *c, const struct kept *py, bool *replaced,
				   struct strbuf *sb);

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
