/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to model/: what is remembered of a process and its threads. */
#ifndef MEMTAP_MODEL_PROCESS_H
#define MEMTAP_MODEL_PROCESS_H

#include <memtap/event.h>

#include "base/base.h"
#include "model/model.h"

struct event;

#define MAX_PHYS 1023 /* as EVENT_DEVICE_MAX */

/* Address spaces of live blocks: layers are never mixed (ascend-abi.md 4.2). */
enum layer {
	LAYER_HAL,
	LAYER_HANDLE,
	LAYER_HOST_REG,
	LAYER_PTA,
	LAYER_WS,
	LAYER_MS,
	LAYER_ATB,
	LAYER_HOST,
	LAYER_MAX
};

/* What rows of its blocks are called. */
enum row_type layer__row_type(enum layer l);

struct block {
	uint64_t addr, time, kernel_index;
	int64_t size;
	uint64_t allocation_id;
	int32_t device, phys;
	uint32_t step;
	const char *owner;
	struct mt_refs refs; /* call stacks of its MALLOC */
	uint32_t next_free; /* in the free list */
	bool live;
	uint8_t object; /* 1 + what its tensor was found to be, 0: not found (owned.c) */
	bool paused; /* its MALLOC had no row */
	uint8_t page; /* of the driver's: normal, huge, giant */
	uint32_t window; /* of its process, in which it was made */
};

struct range {
	uint64_t id, lib_id, domain, begin, kernel_index, step_id;
	uint32_t tid;
	bool py;
	bool host; /* in which the host's memory is recorded */
	uint32_t below; /* opened before it under the same key, or next free one; 0: none */
};

/*
 * What a process may make us remember: real ones need far less, and one that never closes
 * anything must not take all memory. What is over it is counted.
 */
#define MAX_RANGES 65536u
#define MAX_MS_POOLS 256u
#define MAX_MS_PIECES 4096u
#define MAX_WS_USES 1024u
#define MAX_MERGED (1u << 18)
#define MERGED_LOOKED_AT 4096u /* addresses in the range of one free */

struct thread {
	int32_t set; /* last successful aclrtSetDevice, -1 */
	int32_t seen; /* last logical device of an event of this thread, -1 */
};

/* Sums of one pool of a process on one device. */
struct pool {
	int32_t slot; /* the device; MAX_DEVICES: the host */
	uint64_t used, peak, total, peak_total, peak_time;
	/* totals of the record before, for workspaces and merged frees (2.7.1) */
	bool prev;
	int64_t prev_allocated, prev_reserved;
	bool partial; /* MindSpore: a sum since the attach, the pool does not tell */
};

/* One of MindSpore's pools. */
struct ms_pool {
	uint64_t object; /* its address */
	int32_t device; /* DEV_NA: not known yet */
	uint64_t used, total;
	bool told; /* used is what the pool says, not a sum since the attach */
	bool reserves; /* and so is total */
	bool mapped; /* of which it asks for the mapped part of an address range */
};

/* Pools of one kind, by slot: made when first changed, so most processes have none. */
struct pools {
	struct pool *v;
	size_t n;
};

/* Addresses, sorted. */
struct addrs {
	uint64_t *v;
	size_t n, cap;
};

/* A block that went while nothing was collected; its MALLOC has a row (shadow.c). */
struct gone {
	uint64_t ptr, allocation_id;
	int64_t size;
	int32_t device;
	uint8_t type; /* enum row_type */
};

/* A workspace that an operator uses, and the thread that runs the operator. */
struct use {
	uint64_t addr, stream;
	uint32_t tid;
	int32_t device;
};

struct uses {
	struct use *v;
	size_t n, cap;
};

/* msleaks.md 8.1: so many labels of a thread count, the innermost beyond are dropped. */
#define MAX_LABELS 3
#define MAX_LABEL 128 /* bytes of one; V-seed 64 */
#define MAX_LABEL_THREADS 4096u

/* What a thread has told that its allocations are for. */
struct labels {
	uint32_t tid;
	unsigned int n;
	struct label {
		char text[MAX_LABEL + 1];
		unsigned int depth; /* entered so often */
	} v[MAX_LABELS];
};

struct process {
	uint32_t tgid, start, index;
	uint64_t next_id, kernel_index, next_range;
	uint32_t step;
	uint64_t chosen; /* the step of model_opts.steps that it is in, 0 = none */
	bool ended;
	bool segments; /* no tensors are seen: rows of segments say so */
	bool started; /* START_TRACE written */
	bool paused; /* no rows but of marks and the system (V-now: none) */
	uint32_t window; /* V-seed: starts and stops so far, which give blocks new numbers */
	struct model_wants wants;
	uint64_t asked_steps; /* STEP rows */
	struct labels *labels; /* threads that have some */
	size_t n_labels;
	bool acl; /* aclInit was seen */
	struct hmap threads; /* tid -> packed struct thread */
	struct hmap streams; /* stream -> id + 1 */
	struct hmap stream_devices; /* stream -> logical device */
	struct hmap names; /* handle or stub -> char * */
	struct range *ranges; /* 0 is none */
	uint32_t next_range_no, cap_ranges, free_range, n_ranges;
	struct hmap ranges_by_id; /* (id of the library, domain) -> youngest range */
	struct hmap ranges_by_thread; /* (thread and kind, domain) -> the same, without an id */
	int16_t *phys; /* physical number of each logical device, -1 = not told */
	int32_t n_phys;
	int32_t n_visible; /* devices named by the environment, 0 = not told */
	struct pools hal, pta, ws, ms, atb, host;
	uint32_t host_open; /* ranges of that kind */
	struct pool pinned; /* registered memory of the host: for the trace only */
	struct ms_pool *ms_pools;
	size_t n_ms_pools;
	struct event *ms_pieces; /* frees that are of a block or of a rest of one: mindspore.c */
	size_t n_ms_pieces, cap_ms_pieces;
	size_t n_live; /* blocks in the table of the model */
	struct gone *gone;
	size_t n_gone, cap_gone;
	uint64_t oom_time; /* of the last lists of blocks, 0: none */
	struct uses ws_uses; /* where uses are reported (2.7.1), in the order of their begin */
	/* Of those the caching allocator's, where frees name merged blocks or accesses are wanted.
	 */
	struct addrs pta_live;
	struct hmap open_ops; /* (thread, operator) -> its Python stack */
	struct hmap strays; /* address of an access in no block -> its allocation_id */
	struct atb *runs; /* of ATB, NULL: none yet (atb.c) */
};

/* What runs of ATB, and its workspaces, are forgotten. */
void atb__forget(struct process *p);

struct process *process__new(uint32_t tgid, uint32_t start, const char *visible);
void process__free(struct process *p);
/* Begin anew with the devices that the environment makes visible. */
void process__devices(struct process *p, const char *visible);
/* At its end: threads, streams, names and ranges go; its pools and devices stay. */
void process__end(struct process *p);
/* Its memory is gone: sums are 0, peaks stay. */
void process__no_sums(struct process *p);
/* After an exec: what the old program had, sums included, not the peaks. */
void process__forget(struct process *p);
/* The pool of a slot, NULL if there is none; _get makes it, NULL for no such slot or no memory. */
struct pool *pools__find(const struct pools *s, int32_t slot);
struct pool *pools__get(struct pools *s, int32_t slot);
struct thread process__thread(const struct process *p, uint32_t tid);
void process__set_device(struct process *p, uint32_t tid, int32_t logical);
void process__saw_device(struct process *p, uint32_t tid, int32_t logical);
/* A record named both. */
void process__stream_device(struct process *p, uint64_t stream, int32_t logical);
/* Device of an event that does not name one; DEV_NA when nothing tells. */
int32_t process__device(const struct process *p, uint32_t tid, uint64_t stream);
/* A logical and a physical number are those of one device, unless the environment says otherwise.
 */
void process__told_device(struct process *p, int32_t logical, int32_t phys);
/* Logical id of a physical device, learning from the thread's aclrtSetDevice. */
int32_t process__logical(struct process *p, uint32_t tid, int32_t phys);
/* Remember a name; 0 or -ENOMEM. */
int process__name(struct process *p, uint64_t handle, const char *text, size_t len);
const char *process__find_name(const struct process *p, uint64_t handle);

/* False: too many are open, or no memory; its end will find none. */
bool process__open_range(struct process *p, const struct range *r);
/* The range that an end closes, removed into *out; false if there is none. */
bool process__close_range(struct process *p, uint32_t tid, uint64_t lib_id, uint64_t domain,
			  bool py, struct range *out);

#endif
