/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the vendor's msleaks: their values, defaults and messages. */
#ifndef MEMTAP_MSLEAKS_OPTIONS_H
#define MEMTAP_MSLEAKS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"
#include "cli/ops.h"
#include "output/output.h"

/* Of the vendor's tool; its spellings and the names of files differ. */
enum msleaks_generation { MSLEAKS_SEED, MSLEAKS_NOW };

/* --analysis */
#define MSLEAKS_LEAKS 0x1u
#define MSLEAKS_DECOMPOSE 0x2u
#define MSLEAKS_INEFFICIENT 0x4u
#define MSLEAKS_OOM 0x8u

#define MSLEAKS_MAX_STEPS MODEL_MAX_STEPS
#define MSLEAKS_MAX_DEPTH 1000
#define MSLEAKS_DEPTH 50 /* of a stack without one */

struct msleaks_opts {
	enum msleaks_generation generation;
	bool help, version, compare, extended, exact_ranges, strict, quiet, verbose;
	unsigned int level; /* LEVEL_* */
	unsigned int events; /* EVENTS_*, also what --analysis implies: msleaks__imply() */
	bool traceback; /* --events=traceback */
	uint64_t steps[MSLEAKS_MAX_STEPS];
	unsigned int n_steps;
	bool stack_c, stack_python;
	uint32_t c_depth, python_depth; /* above 0 where the stack is asked for */
	unsigned int analysis; /* MSLEAKS_* */
	unsigned int oom_top;
	bool watch, custom;
	char *inputs; /* copy of --input, cut apart; msleaks__free() */
	const char *input[2];
	const char *output; /* NULL: msleaks__output() */
	enum out_format format;
	bool npus, cpu;
	uint32_t npu_slots; /* bit N: device N */
	enum log_level log_level;
	bool log_given;
	struct ops_opts ops;
};

/* One row of the table; `values` is what it takes, for help and messages; NULL: it takes none. */
struct msleaks_option {
	const char *name;
	char letter; /* short form, 0 = none; see `letter_now` */
	bool letter_now; /* the letter is of the newer generation alone */
	bool ours; /* not the vendor's */
	bool newer; /* a spelling of V-now, taken by both */
	const char *old; /* the older spelling that it takes the place of: told apart in messages */
	const char *values, *def, *help;
	/* 0 or -EINVAL; *why: the vendor's message. */
	int (*read)(struct msleaks_opts *o, const char *value, const char **why);
};

/* The table; NULL behind its end. */
const struct msleaks_option *msleaks_option__at(size_t i);
/* By its name, NULL: there is none. */
const struct msleaks_option *msleaks_option__find(const char *name);

/* Of --ops, in ops.c. */
int msleaks__read_ops(struct msleaks_opts *o, const char *value, const char **why);
/* Defaults of V-seed. */
void msleaks__init(struct msleaks_opts *o);
void msleaks__free(struct msleaks_opts *o);
/*
 * One option. 0 or -EINVAL, with the vendor's message in *why (static text). Deprecated spellings
 * are told on stderr in the newer generation.
 */
int msleaks__set(struct msleaks_opts *o, const struct msleaks_option *row, const char *value,
		 const char **why);
/* What the options imply for each other: after the last one. */
void msleaks__imply(struct msleaks_opts *o);
/* "msleaks" or "msmemscope". */
const char *msleaks__tool(const struct msleaks_opts *o);
/* "[msleaks] ERROR: <message>" on stderr, as this generation writes it. */
void msleaks__error(const struct msleaks_opts *o, const char *message);
/* Folder of the files. */
const char *msleaks__output(const struct msleaks_opts *o);
/* The paths of --input exist and may be read. 0 or -EINVAL, said in the vendor's words. */
int msleaks__check_inputs(const struct msleaks_opts *o);

/*
 * The lists by themselves, for `memtap record`: 0 or -EINVAL. Words are separated by a comma, also
 * the full-width one (U+FF0C); none may be empty but behind the last comma.
 */
int msleaks_list__level(const char *list, unsigned int *level);
int msleaks_list__events(const char *list, unsigned int *events, bool *none, bool *traceback);
int msleaks_list__device(const char *list, bool *npus, uint32_t *slots, bool *cpu);
int msleaks_list__steps(const char *list, uint64_t steps[MSLEAKS_MAX_STEPS], unsigned int *n);
int msleaks_list__analysis(const char *list, unsigned int *analysis, unsigned int *oom_top);
/*
 * The next word of a list into buf. False at its end, or with *bad: an empty word, or one longer
 * than any that is known.
 */
bool msleaks_list__word(const char **list, char *buf, size_t size, bool *bad);

#endif
