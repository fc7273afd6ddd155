/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to model/: the state, shared by its files. */
#ifndef MEMTAP_MODEL_INTERNAL_H
#define MEMTAP_MODEL_INTERNAL_H

#include "model/model.h"
#include "model/process.h"

struct event;

struct model {
	struct model_opts opts;
	struct model_ops ops;
	void *ctx;
	struct process **procs;
	size_t n_procs;
	struct hmap by_tgid; /* (tgid, start) -> index in procs */
	struct hmap live; /* (address, process << 8 | layer) -> block number */
	struct block *blocks; /* 0 is none */
	uint32_t next_block, cap_blocks, free_block;
	uint64_t next_allocation;
	bool paused; /* what a process begins with */
	uint64_t starts; /* asked for by processes */
	char owner[512]; /* of the row that is written */
	uint64_t last_time; /* boot time of the youngest row of an event */
	struct model_counts counts;
	const struct mt_refs *refs; /* of the event that is looked at */
};

/* A row of an event (or an extra one): filter, number, count, hand out. */
bool model__emit(struct model *m, struct process *p, struct row *r, bool is_event);
/* The process, met now (START_TRACE row) if it was not before; NULL: no memory. */
struct process *model__meet(struct model *m, uint32_t tgid, uint32_t start, uint64_t time);
/* Is the process in a step whose rows are asked for? */
bool model__in_step(const struct model *m, const struct process *p);
/* A step begins: perhaps one that was chosen. */
void model__enter_step(struct model *m, struct process *p, uint64_t step);
/* Steps, devices, and what the vendor's tools have. */
bool model__is_wanted(const struct model *m, const struct process *p, const struct row *r,
		      bool is_event);
/*
 * START_TRACE where the vendor has it: at the first contact, behind its ACL_INIT. A process that
 * does nothing has no row.
 */
void vendor__announce(struct model *m, struct process *p, const struct row *first);
/* A row that will be written: its block's number, its owner. */
void vendor__dress(struct model *m, struct row *r);
/*
 * Memory of the driver as the vendor's tools have it. V-seed knows no handles, V-now calls memory
 * of the host pinned. False: no row.
 */
bool vendor__hal(struct model *m, const struct event *e, struct row *r);
/* Are rows of this device asked for? */
bool model__wants(const struct model_wants *w, int32_t device);
uint64_t model__real(const struct model *m, uint64_t boot);
/* collect.c: a process is met or has a new program, or is the child of one. */
void collect__begin(const struct model *m, struct process *p);
void collect__forked(const struct model *m, struct process *p, uint32_t parent);
/* A process asks for something itself. */
void collect__event(struct model *m, struct process *p, const struct event *e);
/* Is it a row that there is while paused? */
bool collect__passes(const struct model *m, const struct row *r);
/*
 * shadow.c, V-now: a FREE that has no row while nothing is collected; collecting begins, before its
 * own row; the process has ended.
 */
void shadow__gone(struct model *m, struct process *p, const struct row *r);
void shadow__start(struct model *m, struct process *p, uint64_t time);
void shadow__end(struct model *m, struct process *p, uint64_t time);
/* A block whose FREE was missed: another one has its address now. */
void shadow__replaced(struct model *m, struct process *p, enum layer l, const struct block *b,
		      uint64_t time);
/* "normal", "huge", "giant" */
const char *model__page(uint32_t page);
/* The labels of its thread go to the owner of a MALLOC row. */
void collect__own(struct model *m, const struct process *p, struct row *r);
/* MALLOC, FREE and their pools. */
void model__memory(struct model *m, struct process *p, const struct event *e);
/* The live block at an address, NULL: none is known. Valid until the next event. */
const struct block *model__live(const struct model *m, const struct process *p, enum layer l,
				uint64_t addr);
/*
 * torch_npu 6.0.rc2 reports a free when the block has been merged with its free neighbours, and
 * names what came of it, behind its lock. The only live block in that range is the one that was
 * freed: its address and size go into e. False: it is from before the attach; then the size is what
 * the total fell by since the record before (negative: unknown).
 */
bool merged__resolve(const struct model *m, const struct process *p, const struct pool *q,
		     struct event *e);
/* Keep the addresses for that: a block is there, is gone. */
void merged__add(struct process *p, uint64_t addr);
void merged__del(struct process *p, uint64_t addr);
/*
 * The free of a workspace names the block that was used last on its device, which with a queue for
 * each stream (PER_STREAM_QUEUE) may be another one's. Each thread runs one operator after the
 * other: what is freed is what this thread took. Its address and stream go into e.
 */
void uses__add(struct process *p, const struct event *e);
void uses__resolve(struct process *p, struct event *e);
/* OOM_TRIGGER row. */
void model__oom(struct model *m, struct process *p, const struct event *e);
/* OOM_RECENT_ALLOC and OOM_TOP_ALLOC rows behind it, if they are asked for: once in two seconds. */
void oom__lists(struct model *m, struct process *p, const struct event *e);
/* The FREE of a block that was seen; false: of one from before the attach, with what is known. */
bool model__free_row(struct model *m, struct process *p, const struct event *e, enum layer l,
		     enum row_type type, struct row *r);
/* The MALLOC of a block, kept from now on; false: no memory for it. */
bool model__malloc_row(struct model *m, struct process *p, const struct event *e, enum layer l,
		       enum row_type type, int32_t device, struct row *r);
void model__drop_blocks(struct model *m, struct process *p);

/* Start, end or tensor of an operator; false: it is none of them. */
bool ops__event(struct model *m, struct process *p, const struct event *e);
/* A block of the caching allocator comes or goes: to be found by accesses. */
void ops__block(struct model *m, struct process *p, const struct event *e);
/* The live block of torch_npu's pools that holds [addr, addr + size), NULL; *pool: which of them.
 */
const struct block *ops__holder(const struct model *m, const struct process *p, uint64_t addr,
				int64_t size, enum row_type *pool);
/* The allocation_id of the unknown block at an address; of which pool it is looked for. */
uint64_t ops__stray(struct model *m, struct process *p, uint64_t addr, enum row_type pool);
/* What a row of an access tells of its block; NULL: of one that nobody has seen, looked for in a
 * pool. */
void ops__of_block(struct model *m, struct process *p, struct row *r, const struct block *b,
		   enum row_type pool);
/* An event of ATB. */
void atb__event(struct model *m, struct process *p, const struct event *e);
/* All blocks of a process are gone. */
void ops__forget(struct process *p);
/* host.c: malloc and free of the host. */
void host__event(struct model *m, struct process *p, const struct event *e);
/* A range begins (1) or ends (-1) in which they are recorded. */
void host__range(struct process *p, int by);
/* Is a row of the driver's memory on the host in V-seed's files, whatever devices are? */
bool host__wants(const struct process *p, const struct row *r);
/* Is a block of the driver's in the sums? Not in V-seed's where the host is not recorded. */
bool host__counts(const struct model *m, const struct process *p, const struct row *r);
/* An event of MindSpore's pools. */
void ms__event(struct model *m, struct process *p, const struct event *e);
/* The driver gave physical memory, or took it back: a pool that maps it has more or less. */
void ms__physical(struct process *p, int32_t device, int64_t by);
/* No more events come: what waited for one has no row. */
void ms__finish(struct model *m, struct process *p);

/* Bytes more or less, as the blocks seen add up. */
void pool__change(struct pool *q, int64_t by, uint64_t time);
/* Sums that a record tells. */
void pool__set(struct pool *q, int64_t used, int64_t total, uint64_t time);
/* Of a device or DEV_HOST, made when new; NULL: no such device, or no memory. */
struct pool *pool__of(struct pools *s, int32_t device);
/* The pool whose sum is made from its blocks; NULL where records tell it. */
struct pool *pool__summed(struct process *p, enum layer l, int32_t device);

#endif
