/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The analyses: events in, in the order of time, results out. They neither
 * read files nor print, so that they run on files and live.
 */
#ifndef MEMTAP_ANALYZE_H
#define MEMTAP_ANALYZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/waste.h"
#include "model/item.h"

/* "Pytorch Caching memory pool" and the like, the vendor's words; NULL: none that it checks. */
const char *pool__title(enum row_type t);

/* ---- where steps begin and end (steps.c) ---- */

struct step_change {
	bool begin; /* else: the end */
	uint32_t pid;
	int32_t device;
	uint64_t number; /* from 1, per process and device */
};

struct steps;

/* `texts`: of the items' names. NULL: no memory. */
struct steps *steps__new(const struct texts *texts);
/* At most two changes by this item; their number, or -ENOMEM. Wants MSTX, SYSTEM. */
int steps__item(struct steps *s, const struct item *it, struct step_change change[2]);
/* Begun; begun and not ended. */
void steps__counts(const struct steps *s, uint64_t *begun, uint64_t *open);
void steps__free(struct steps *s);

/* ---- leaks between steps, gaps, HAL leaks (leaks.c; msleaks.md 6.1, 6.2) ---- */

struct leak {
	uint64_t ptr, alloc, time; /* time: of the MALLOC */
	int64_t size;
	uint64_t kernel; /* launches of the process before it */
	uint64_t step; /* in which it was allocated; HAL: 0 */
	uint64_t reported; /* at the end of which step */
	uint64_t freed; /* time of its FREE, 0 = none */
	uint32_t pid, tid;
	int32_t device;
	uint32_t order; /* of its device, as they were met */
	uint32_t stack_py, stack_c;
	enum row_type type;
	bool withdrawn; /* freed before the last step ended: long-lived, no leak */
};

struct gap {
	uint32_t pid;
	int32_t device;
	enum row_type type;
	/* The steps of the smallest and of the largest share of least to most memory in use. */
	struct {
		double share; /* 0…1 */
		uint64_t memory; /* the least, bytes */
		uint64_t step; /* 0 = no step from the second on */
	} min, max;
};

struct leaks;

/* `texts`: of the items' names. NULL: no memory. */
struct leaks *leaks__new(const struct texts *texts);
/* 0 or -ENOMEM. Wants MALLOC, FREE, MSTX, KERNEL_LAUNCH, SYSTEM. */
int leaks__item(struct leaks *l, const struct item *it);
/* No more items. */
int leaks__finish(struct leaks *l);
/* Sorted by process, device (the last that was met first, as the vendor has it), step. */
const struct leak *leaks__list(const struct leaks *l, size_t *n);
const struct gap *leaks__gaps(const struct leaks *l, size_t *n);
/* HAL blocks that live at the end, by process and time. */
const struct leak *leaks__hal(const struct leaks *l, size_t *n);
/* The steps seen in all processes, and starts without an end. */
void leaks__steps(const struct leaks *l, uint64_t *steps, uint64_t *unended);
void leaks__free(struct leaks *l);

/* ---- HAL leaks between three marks (range.c; msleaks.md 6.3) ---- */

struct range_result {
	uint32_t pid;
	int32_t device;
	uint64_t marks; /* of the wanted text */
	enum { RANGE_OK, RANGE_TOO_FEW, RANGE_OUT } state;
	size_t first, n; /* of leaks */
};

struct range_leak {
	uint64_t ptr, id;
	int64_t size;
	size_t older; /* while reading: the one before at this place, index + 1 */
	bool hex, gone;
};

struct range;

/* Marks of this text, without the first start_index. All are used up to range__free(). NULL: no
 * memory. */
struct range *range__new(const struct texts *texts, const char *mark, uint64_t start_index);
/* 0 or -ENOMEM. Wants MALLOC, FREE, MSTX. */
int range__item(struct range *r, const struct item *it);
/* No more items. 0 or -ENOMEM. */
int range__finish(struct range *r);
/* Of each device of each process, and what they count from. */
const struct range_result *range__results(const struct range *r, size_t *n);
const struct range_leak *range__leaks(const struct range *r);
void range__free(struct range *r);

/* ---- comparison of two steps (compare.c; msleaks.md 5) ---- */

struct compare_row {
	uint32_t name; /* text; 0 = "N/A" */
	uint8_t event; /* enum row_event */
	bool in_base, in_other;
	int32_t device;
	int64_t base, other; /* size of the next pool row */
	int64_t diff; /* other - base; at most what the type holds */
};

struct compare;

/* level: LEVEL_*. */
struct compare *compare__new(unsigned int level);
/* side 0: base, 1: the other. 0, -ENOMEM or
 * -EPROTO: rows of PTA and of MindSpore, which cannot be compared together.
 * Wants MALLOC, FREE, OP_LAUNCH, KERNEL_LAUNCH. */
int compare__item(struct compare *c, unsigned int side, const struct item *it);
/* 0, -ENOMEM, -E2BIG: too different, or -EPROTO: operators of MindSpore, which have no rows. */
int compare__finish(struct compare *c);
/* Device by device, the last that was met first. */
const struct compare_row *compare__rows(const struct compare *c, size_t *n);
void compare__free(struct compare *c);

/* ---- rules that tell owners (rules.c; the format: owners.rules) ---- */

struct rules;

struct rules *rules__new(void);
/* The rules that memtap comes with. */
extern const char rules__default[];
/*
 * Add the rules of a text behind those that are there. 0, -ENOMEM, or -EINVAL:
 * a message with `name` and the line was printed.
 */
int rules__parse(struct rules *r, const char *text, size_t n, const char *name);
void rules__free(struct rules *r);

/* ---- who owns what (decompose.c; msleaks.md 8) ---- */

enum owner_source {
	OWNER_STATED, /* the dump says so */
	OWNER_OBJECT, /* it was read from Python objects while it lived */
	OWNER_RULE,
	OWNER_POOL, /* nothing but its pool is known */
};

struct owner_block {
	const struct item *malloc; /* only flags and what is the block's */
	uint64_t freed; /* time, 0 = lives */
	const char *label;
	double confidence;
	enum owner_source source;
	unsigned int rule; /* which, from 1 */
};

struct owner_sum {
	uint64_t blocks, bytes;
};

/* The blocks of one owner in one pool. */
struct owned {
	uint32_t pid;
	int32_t device;
	enum row_type type;
	const char *label;
	double confidence;
	enum owner_source source;
	unsigned int rule;
	struct owner_sum peak, end, all; /* at the peak of the pool, at the end, ever */
};

struct owner_pool {
	uint32_t pid;
	int32_t device;
	enum row_type type;
	uint64_t peak, peak_time; /* as the pool says, else the sum of its blocks */
	uint64_t end; /* the same at the end */
	size_t first, n; /* of owned: the largest at the peak first */
};

struct decompose;

struct decompose_opts {
	bool refine; /* rules also for what is stated as PTA@ops */
	/* Each block when it ends, or at the end; may be NULL. Non-zero stops. */
	int (*block)(void *ctx, const struct owner_block *b);
	void *ctx;
};

/* rules and texts are used up to decompose__free(). */
struct decompose *decompose__new(struct rules *rules, const struct texts *texts,
				 const struct decompose_opts *opts);
/*
 * Before the first item: what a block was found to be; the last word counts. Without an
 * allocation id it is one of before the dump, which has no MALLOC. 0 or -ENOMEM.
 */
int decompose__told(struct decompose *d, const struct item *block, const char *owner,
		    double confidence);
/* 0 or -ENOMEM. Wants MALLOC, FREE, ACCESS, OP_LAUNCH, MSTX, SYSTEM, with stacks. */
int decompose__item(struct decompose *d, const struct item *it);
/* No more items: blocks that live are handed out. 0, -ENOMEM, or what `block` gave. */
int decompose__finish(struct decompose *d);
/* The pools as they were met, and the owners that they count from. */
const struct owner_pool *decompose__pools(const struct decompose *d, size_t *n);
const struct owned *decompose__owned(const struct decompose *d);
void decompose__free(struct decompose *d);

/* ---- what happened to chosen blocks (watch.c; msleaks.md 9 without contents) ---- */

#define WATCH_NAMES 8u /* of what ran between two events of a block: the last ones by name */
#define WATCH_EVENTS 10000u /* of a block; its FREE comes in any case */
#define WATCH_OUTPUTS 64u /* of one operator */

struct watch_ran {
	uint64_t n;
	uint32_t n_names, name[WATCH_NAMES]; /* the last n_names of them, oldest first */
};

struct watch_event {
	uint64_t time, ptr; /* ptr: of an access, also an inner address */
	int64_t size;
	uint32_t tid;
	uint8_t event, type;
	uint32_t name, detail; /* of an access: its operator; its dtype and shape */
	uint32_t op; /* the operator that its thread was in, 0: in none */
	uint32_t stack_py, stack_c;
	struct watch_ran ops, kernels; /* begun in the process since the event before */
};

struct watch_block {
	uint64_t ptr, alloc, born, freed; /* freed: time, 0 = not, or after the watch */
	int64_t size;
	uint32_t pid, tid, freed_by; /* tid: who allocated it */
	int32_t device;
	uint32_t owner; /* text */
	uint32_t op; /* with watch_opts.start: in which it was allocated */
	enum row_type type;
	struct watch_event *events;
	size_t n_events;
	uint64_t more; /* events over WATCH_EVENTS */
	uint64_t n_reads, n_writes;
};

/* Which blocks: all that is given must hold. */
struct watch_opts {
	bool has_address, has_size, has_device, has_output;
	uint64_t address; /* the block holds it */
	uint64_t alloc; /* allocation_id, 0 = any */
	int64_t least, most; /* size */
	const char *owner; /* part of it; NULL = any */
	uint32_t pid; /* 0 = any */
	int32_t device;
	/* The outputs (or one) of the first run of `start`, from its end to that of `end`. */
	const char *start, *end;
	uint32_t output;
	uint64_t max_blocks; /* further ones are counted */
	/* Each block when it ends, or at the end; non-zero stops. */
	int (*block)(void *ctx, const struct watch_block *b);
	void *ctx;
};

struct watch_counts {
	uint64_t blocks, chosen, accesses, ops;
	bool begun; /* `start` has run */
};

struct watch;

/* o and its texts, and `texts`, are used up to watch__free(). NULL: no memory. */
struct watch *watch__new(const struct watch_opts *o, const struct texts *texts);
/* 0, -ENOMEM, or what `block` gave. Wants MALLOC, FREE, ACCESS, OP_LAUNCH, KERNEL_LAUNCH. */
int watch__item(struct watch *w, const struct item *it);
/* No more items: blocks that live are handed out. */
int watch__finish(struct watch *w);
void watch__counts(const struct watch *w, struct watch_counts *c);
void watch__free(struct watch *w);

#endif
