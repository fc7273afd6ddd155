/* SPDX-License-Identifier: Apache-2.0 */
/* One run of `record`: options, state, and the parts it is made of. */
#ifndef MEMTAP_SESSION_H
#define MEMTAP_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/base.h"
#include "cli/control.h"
#include "capture/capture.h"
#include "cli/ops.h"
#include "model/model.h"
#include "output/output.h"
#include "probe/probe.h"
#include "target/target.h"

/*
 * An event waits so long for older ones of other threads: with the tick and a
 * write it is on disk within 1 s (design.md, Wire and events).
 */
#define WINDOW_NS 800000000ULL

struct stacks;
struct row;
struct host;

struct host_opts {
	unsigned int mode; /* enum mt_host_mode */
	bool given; /* and not by --device */
	bool exact; /* processes are stopped while they are attached to */
};

struct callstack_opts {
	bool c, python; /* what is walked; mixed: both */
	bool mixed;
	uint32_t c_depth, python_depth; /* 0: all */
	bool lines;
	unsigned int debuginfod; /* seconds; 0: it is not asked */
};

struct record_opts {
	pid_t *pids;
	size_t n_pids;
	const char **names;
	size_t n_names;
	bool all;
	const char *cgroup;
	char **cmd; /* NULL-terminated, or NULL */
	double seconds; /* 0 = until stopped */
	const char *dir;
	uint64_t ring_bytes;
	const char *summary_json;
	unsigned int level, events;
	uint32_t npu_slots; /* bit N: device N */
	bool npus, cpu; /* all of them; the host */
	struct host_opts host;
	enum out_format format;
	enum out_order order;
	enum out_timeline timeline;
	/* The front end: as in struct model_opts. */
	bool vendor, newer, owners, oom;
	bool paused; /* rows from a start on: --collect-mode */
	unsigned int oom_top; /* blocks in each list behind an allocation that failed, 0: none */
	uint64_t steps[MODEL_MAX_STEPS];
	unsigned int n_steps;
	unsigned int analysis; /* MSLEAKS_*, of what was written */
	bool objects, objects_given; /* owners of tensors are read from Python objects */
	bool strict, quiet, follow;
	struct ops_opts ops;
	struct callstack_opts stacks;
	uint32_t stack_bytes; /* copied of a stack whose walk is cut; 0: none is */
};

/* A time in which an unknown number of calls was not seen, see gaps.c. */
struct gap {
	enum {
		GAP_LIBRARY, /* path was probed late by pid */
		GAP_FUNCTIONS, /* only these functions of it, see later.c */
		GAP_PROCESS, /* pid became a target late */
		GAP_NOTICES, /* notices of mappings were lost */
		GAP_HOST, /* malloc and free of pid, when a range has opened */
	} kind;
	char *path;
	char *functions;
	pid_t pid; /* that had it mapped */
	uint32_t start; /* of that process, 0 = not known */
	uint64_t first, last; /* boot time */
	bool never; /* the library was not probed even at last; of the process nobody knows the name
		     */
	bool told; /* by a row */
};

/* A library that is mapped and cannot be probed: see unseen.c. */
struct unseen_lib {
	char *path;
	pid_t pid;
	uint32_t start; /* of the process, 0 = not known */
	uint64_t since; /* boot time */
	const char *why; /* static text */
	bool told; /* by a row */
};

struct session {
	struct record_opts opts;
	struct features features;
	struct progs *progs;
	struct prober *prober;
	struct mapwatch *watch;
	struct drain *drain;
	struct model *model;
	struct out *out;
	int cfg_fd, targets_fd, stats_fd, losses_fd;
	struct mt_cfg cfg;

	pid_t child; /* of `-- CMD`, 0 = none */
	int child_go; /* writing end: lets it exec */
	int child_status;
	bool child_done;

	int64_t boot_to_real; /* added to boot time: the wall clock of all files */
	uint64_t t_start, t_attaching, t_attached, t_stop; /* boot time */
	uint64_t attach_ns, detach_ns;
	size_t n_targets; /* initial ones */
	struct gap *gaps;
	size_t n_gaps;
	/* later.c */
	struct later *later;
	size_t n_later;
	struct hmap later_seen; /* files that it was about, by number */
	size_t functions_unseen; /* of them, never found */
	struct unseen_lib *unseen;
	size_t n_unseen;
	struct hmap unseen_said; /* (path, pid) */
	uint64_t mapwatch_lost;
	uint64_t rescan_since, rescan_began; /* notices are missing since; 0 = no rescan */

	/* PTA self-check, by file number */
	struct pta_check {
		struct pta_side {
			struct pta_judge judge;
			bool withdrawn;
		} report, functions;
	} * checks;
	size_t n_checks;

	bool ops; /* operators of torch are probed */
	struct hmap told; /* places that cannot be looked through, see scan.c */

	bool pool_unseen; /* for some time or wholly: a withdrawn probe, only segments */
	struct hmap segments_said; /* file numbers, see segments.c */

	/* lost.c */
	struct losses_told losses_told; /* already written as rows */
	struct loss *own_losses; /* that no program counts */
	size_t n_own_losses;
	uint64_t lost_total; /* all of them */
	uint64_t undecodable; /* records that were received and are no events */
	uint64_t life_bad; /* the same of the lifecycle ring */
	bool detached; /* no program runs any more */
	size_t probes_failed;
	uint64_t t_swept, swept; /* open calls of threads that are gone */
	uint64_t life_seen, life_lost; /* births and deaths of processes */
	bool inexact; /* the account does not add up */
	bool host_incomplete; /* ranges of the host's memory of which nothing is recorded */
	uint64_t crowded; /* events of more pools than a process can have */

	/* callstack.c */
	struct stacks *stacks; /* NULL: none are taken */
	const char *no_stacks; /* they were asked for: why not */
	uint64_t stacks_bad; /* records that were none */

	struct host *host; /* host.c; NULL: malloc and free are not recorded */
	struct inefficient *waste; /* waste.c; NULL: rows get no marks */
	struct owners *owners; /* owners.c; NULL: they are not read */
	struct control *control; /* control.c; NULL: nobody can ask */
	uint64_t labels_lost; /* of blocks whose rows were written, or that take no more */

	int write_err;
	int signals; /* descriptor that SIGINT and its like are read from */
	bool stopping;
	bool early; /* stopped before all was attached */
	struct rlimit nofile; /* as we were started: for the command */
	char **written; /* paths of the files, NULL behind the last; NULL: none */
};

/* session.c: the run. */
/* What the programs go by has changed. 0 or -errno. */
int session__write_cfg(struct session *s);
int session__run(struct session *s);
/* All that is left of it, and s itself. */
void session__free(struct session *s);

/* analyses.c */
/* Before the files are closed: which they are. */
void session__keep_paths(struct session *s);
/* Those of --analysis, when the files are closed; printed on standard output. EXIT_*.
 */
int session__analyse(struct session *s);

/* signals.c */
/* Before any thread is made: one that does not block them would be ended by them. 0 or -errno. */
int session__catch_signals(struct session *s);
/* Has a signal asked to stop? Looked at between files and processes, which may be many. */
bool session__interrupted(struct session *s);
/* From here on a signal ends us at once. */
void session__allow_abort(void);

/* targets.c: who, and the files to probe. */
int session__find_targets(struct session *s);
/* START_TRACE rows, when all is attached. */
int session__meet_targets(struct session *s);
/* 0 or -errno; -EINTR when a signal asked to stop. */
int session__probe_targets(struct session *s);
/* Processes named by -n that are no targets yet. 0 or -errno. */
int session__find_names(struct session *s);
/* The same of one process: into the set, and what was missed of it is noted. True: it is new. */
bool session__join(struct session *s, pid_t pid, uint64_t since);
/* Notices of new mappings: their files are probed, and what is missing is noted. */
void session__read_maps(struct session *s);
/* Any target left? */
bool session__alive(struct session *s);
int session__spawn(struct session *s);
int session__release(struct session *s);
/* The command was not let go: its process ends. */
void session__end_child(struct session *s);

/* gaps.c: what was not seen, nobody knows how much. */
/* This file was mapped by a process before it was probed; NULL: it could not be opened. */
void session__note_late(struct session *s, const struct probed_file *f, const char *path, pid_t pid,
			uint64_t mapped);
/* Python functions of a file (names, a space between) that a process may have called since
 * `first` were probed only at `last`. */
void session__note_functions(struct session *s, const struct probed_file *f, const char *functions,
			     pid_t pid, uint64_t first, uint64_t last);
/* A process had a library mapped before it was found to be a target, or has ended before its name
 * could be looked at; it runs since `first`. */
void session__note_process(struct session *s, pid_t pid, uint64_t first);
/* Malloc and free of a process were not recorded in that time: told by host.c. */
void session__note_host(struct session *s, pid_t pid, uint64_t first, uint64_t last);
/* Notices of mappings were lost since then, until now. */
void session__note_unwatched(struct session *s, uint64_t since);
/* LOST rows of the gaps that end before now. */
void session__gap_rows(struct session *s, uint64_t now);
void session__free_gaps(struct session *s);

/* unseen.c: are the probes in what the targets (0) or one process have mapped (since then)? */
void session__check_unseen(struct session *s, pid_t pid, uint64_t since);
/* The same of one file, open at fd, that a process has mapped there. */
void session__check_probed(struct session *s, pid_t pid, uint64_t since, const struct mapping *m,
			   int fd);
/* Their LOST rows, when the recording has ended. */
void session__unseen_rows(struct session *s, uint64_t now);
void session__free_unseen(struct session *s);

/* segments.c: processes of which only the driver's segments are seen. */
bool session__only_segments(struct session *s, pid_t pid);
/* This one's library is such a file. */
void session__segments_of(struct session *s, pid_t pid, const struct probed_file *f);
/* A file has become such: all that map it. */
void session__segments_left(struct session *s, const struct probed_file *f);

/* sweep.c: now and then, open calls that will never return. */
void session__sweep(struct session *s);

/* pump.c: records to rows. */
void session__deliver(struct session *s, bool final);
void session__free_checks(struct session *s);

/* lost.c: losses whose number is known. */
/* A record that is no event, or for which there was no memory. */
void session__undecodable(struct session *s, const struct mt_hdr *h, bool no_memory);
/* All so far; malloced array of *n. 0 or -errno. */
int session__all_losses(struct session *s, struct loss **list, size_t *n);
/* LOST rows of what is new, also of gaps and of what is unseen. */
void session__losses(struct session *s);
void session__free_losses(struct session *s);

/* summary.c */
struct account {
	uint64_t seen, submitted, lost, received, bad;
	uint64_t entry, orphan, stale, nested, unfinished;
	uint64_t rows, no_row;
	bool exact; /* the identity of design.md holds */
};
/* What stands in the summary and decides about --strict: the parts are gone later. */
void session__collect(struct session *s);
/* Is anything missing? */
bool session__incomplete(const struct session *s);
/* Time of the processor, and the most memory, of memtap itself. */
double session__cpu_seconds(long *rss_kib);
void session__account(struct session *s, struct account *a);
void session__summary(struct session *s);
/* summary_json.c */
/* Before the capture: can it be written at the end? Nothing of it is changed. 0 or -errno, said. */
int summary_json__check(const char *path);
int session__summary_json(struct session *s, const char *path);

/* ops.c: operators of torch. */
/* Options that contradict --ops are said. 0 or -EINVAL. */
int ops__check(const struct record_opts *o);
/* Before anything is probed: are they wanted, and can they be had? 0 or -errno, said. */
int ops__prepare(struct session *s, struct prober_opts *pr);
/* When the targets' files are probed: those that were named are too many. 0 or -errno, said. */
int ops__attached(struct session *s);

/* callstack.c */
/* --call-stack=LIST. 0 or -EINVAL. */
int callstack__option(struct callstack_opts *o, const char *list);
/* What the options together lack is said. 0 or -EINVAL. */
int callstack__check(const struct callstack_opts *o);
/* When the programs are loaded, before cfg is written; what cannot be had is said. 0 or -errno. */
int callstack__open(struct session *s);
/* The initial targets are looked at, beside the search for what to probe. */
void callstack__targets(struct session *s);
/* Until that is done. */
void callstack__wait(struct session *s);
/* What does not wait for its time: before events are delivered. */
void callstack__early(struct session *s);
/* A process has mapped code. */
void callstack__mapped(struct session *s, pid_t pid);
/* callstack_summary.c */
void callstack__print(struct session *s, FILE *f);
struct cJSON;
void callstack__json(struct session *s, struct cJSON *top);
/* Fills the cells of a row; ctx: the session. */
void callstack__cells(void *ctx, struct row *r);

/* asked.c: what programs ask for. */
/* A word of --collect-mode: 0 or -EINVAL. */
int asked__mode(const char *word, bool *paused);
/* As in struct model_ops; ctx: the session. */
void asked__label(void *ctx, uint32_t tgid, enum row_type type, uint64_t addr, const char *label);
void asked__config(void *ctx, uint32_t tgid, const char *text, size_t len,
		   struct model_wants *wants);
/* While nothing is collected probes may do less; at once no longer. */
void asked__tick(struct session *s);
void asked__resume(struct session *s);

/* waste.c: blocks that hold memory for nothing, in their rows. */
/* If it is asked for. 0 or -ENOMEM. */
int waste__open(struct session *s);
/* A row, before it is written. */
void waste__row(struct session *s, const struct row *r);
/* A process has ended, after its last row, and before those of its open blocks are written. */
void waste__ended(struct session *s, uint32_t pid);

/* status.c */
void status__draw(struct session *s);
void status__clear(void);

#endif
