/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What events mean: live blocks, pools, devices, ranges and steps; and the
 * rows that come out, which every writer understands.
 */
#ifndef MEMTAP_MODEL_H
#define MEMTAP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Column "Event". */
enum row_event {
	ROW_SYSTEM,
	ROW_MALLOC,
	ROW_FREE,
	ROW_ACCESS,
	ROW_MSTX,
	ROW_OP_LAUNCH,
	ROW_KERNEL_LAUNCH,
	ROW_OOM_DETAIL,
	ROW_SNAPSHOT, /* vendor, V-now */
	ROW_EVENT_MAX
};

/* Column "Event Type". */
enum row_type {
	ROW_ACL_INIT,
	ROW_ACL_FINI,
	ROW_START_TRACE,
	ROW_STOP_TRACE,
	ROW_LOST,
	ROW_HAL,
	ROW_HOST,
	ROW_HOST_PINNED,
	ROW_PTA,
	ROW_PTA_WORKSPACE,
	ROW_ATB,
	ROW_MINDSPORE,
	ROW_MARK,
	ROW_RANGE_START,
	ROW_RANGE_END,
	ROW_KERNEL, /* "KERNEL_LAUNCH" */
	ROW_OOM_TRIGGER,
	ROW_ATEN_START, /* operators of torch */
	ROW_ATEN_END,
	/* In files of the vendor's: */
	ROW_ATB_START,
	ROW_ATB_END,
	ROW_KERNEL_START,
	ROW_KERNEL_END,
	ROW_EXECUTE_START, /* "KERNEL_EXECUTE_START" */
	ROW_EXECUTE_END,
	ROW_READ,
	ROW_WRITE,
	ROW_UNKNOWN, /* an access of which neither is known */
	ROW_STEP,
	ROW_OOM_RECENT,
	ROW_OOM_TOP,
	ROW_SNAP, /* "SNAPSHOT" */
	ROW_TYPE_MAX
};

/* Of so many devices, from 0, there are pools and trace files. */
#define MAX_DEVICES 64

/* So many steps can be chosen (msleaks.md 1.1). */
#define MODEL_MAX_STEPS 5

/* Device column: a number >= 0, or one of these. */
#define DEV_NA (-1) /* "N/A" */
#define DEV_HOST (-2) /* "host": HAL memory of type HOST (V-seed) */
#define DEV_CPU (-3) /* "cpu": registered host memory */

/* Which attributes a row has. They are printed in this order (msleaks.md 3.4). */
#define ATTR_BLOCK 0x00001u /* allocation_id, addr, size */
#define ATTR_POOL 0x00002u /* total, used */
#define ATTR_PINNED 0x00004u /* pinned:true */
#define ATTR_OWNER 0x00008u /* owner:<text> */
#define ATTR_PAGE 0x00010u /* page_type:<text>,alloc_type:<text> */
#define ATTR_KERNEL 0x00020u /* streamId:<n or N/A>,taskId:<n or N/A> */
#define ATTR_OOM 0x00040u /* func:<text>,req_size:<n>,flag:<decimal> */
/* reason:<text>,probe:<text>,count:<n or N/A>,first:<ns>,last:<ns or
 * N/A>[,cpu:<n>][,library:<path>] */
#define ATTR_LOST 0x00080u
/* shadow:true, behind total and used: made up for what was not seen, as V-now does (shadow.c) */
#define ATTR_SHADOW 0x1000000u
#define ATTR_WASTE 0x800000u /* inefficient_type:<text>, between owner and page_type */
#define ATTR_ACCESS 0x20000u /* type:<pool>,dtype:<text>[,format:<text>],shape:<text> */
/* Additions of `record`, always behind the vendor's: */
#define ATTR_ACTIVE 0x00100u /* active:<n> */
#define ATTR_STREAM 0x00200u /* stream:0x<hex> */
#define ATTR_PREATTACH 0x00400u /* preattach:true */
#define ATTR_PHYS 0x00800u /* physical_device:<n> */
#define ATTR_NSPID 0x01000u /* nspid:<n> */
#define ATTR_NOTE 0x02000u /* note:<text>, free text without , { } " and newline */
#define ATTR_LATE 0x04000u /* late:true: written after its time window */
/* No attribute: the row has call stacks, see stack_c. */
#define ATTR_STACKS 0x08000u
/* pool:<owner>,ptr:0x<16 hex digits>,size:<n>,timestamp:<begin_time>: of a list of blocks */
#define ATTR_LISTED 0x100000u
#define ATTR_SNAPSHOT 0x200000u /* as in struct snapshot */
/* path:<text>[,workspace_ptr:0x<hex> or 0,workspace_size:<n>]: of ATB */
#define ATTR_PATH 0x2000000u
#define ATTR_WORKSPACE 0x4000000u
#define ATTR_FREE_TOTAL 0x400000u /* free:<n>,total:<n>: V-now's START_TRACE */

/* lost_count and lost_last that nobody can tell. */
#define LOST_UNKNOWN UINT64_MAX

/* What a device and its pool had; -1: not known. */
struct snapshot {
	int64_t reserved, max_reserved, allocated, max_allocated, total, free;
};

struct row {
	uint64_t id; /* per process from 1 */
	enum row_event event;
	enum row_type type;
	const char *name; /* column Name, not NUL-terminated; NULL = N/A */
	uint32_t name_len;
	uint32_t attrs; /* ATTR_* */
	uint64_t time; /* ns since the epoch */
	uint32_t pid, tid;
	int32_t device;
	uint64_t ptr; /* MALLOC, FREE, ACCESS */
	uint64_t allocation_id;
	int64_t size; /* negative: unknown (preattach FREE of HAL) */
	uint64_t total, used, active;
	const char *owner, *page_type, *alloc_type;
	const char *waste; /* "early_allocation,late_deallocation": set when its block ends */
	const char *note;
	int64_t stream_id; /* -1 = unknown */
	uint64_t stream;
	int32_t phys_device;
	uint32_t nspid;
	const char *oom_func;
	uint64_t oom_size, oom_flag;
	const char *lost_reason, *lost_probe;
	uint64_t lost_count, lost_first, lost_last; /* ns since the epoch */
	uint32_t lost_cpu; /* processor + 1, 0 = not told */
	const char *lost_library; /* NULL = not of one library */

	/* ATTR_ACCESS: what holds the tensor, and how it looks; texts without quotes and line ends
	 */
	enum row_type pool;
	uint64_t block_ptr; /* where the block begins, 0 = no block is known */
	const char *dtype, *format, *shape;

	/* ATTR_STACKS: as in struct mt_refs; start: with pid, whose they are. */
	uint64_t stack_c, stack_py;
	uint32_t start;
	/* The cells, filled by whoever writes the row; NULL: empty. */
	const char *cell_py, *cell_c;
	size_t cell_py_len, cell_c_len;

	const char *path; /* ATTR_PATH */
	uint64_t workspace, workspace_size; /* ATTR_WORKSPACE */

	struct snapshot snapshot; /* ATTR_SNAPSHOT; ATTR_FREE_TOTAL: the last two */

	uint32_t block; /* MALLOC, ACCESS: of the model's, 0 = none */

	/* For the trace writer: */
	bool uncounted; /* FREE: of no sum */
	uint64_t held; /* HAL, HOST_PINNED: what the process has there by the blocks seen */
	uint64_t kernel_index; /* launches of the process up to here, this one included */
	uint64_t range_id; /* ROW_RANGE_START/END */
	uint64_t step_id; /* of a range named "step start", else 0 */
	uint64_t begin_time, begin_kernel; /* RANGE_END: of its start; FREE: of the MALLOC */
	uint32_t born_step; /* FREE: step number in which the block was allocated, 0 = none */
	uint32_t steps_lived; /* FREE: step starts between MALLOC and FREE */
};

/* Texts of the columns, e.g. "MALLOC", "PTA_WORKSPACE". */
const char *row_event__name(enum row_event e);
const char *row_type__name(enum row_type t);

/* ---- from events to rows ---- */

#define LEVEL_OP 0x1u
#define LEVEL_KERNEL 0x2u

#define EVENTS_ALLOC 0x1u /* MALLOC and FREE cannot be split (msleaks.md 1.2) */
#define EVENTS_LAUNCH 0x2u
#define EVENTS_ACCESS 0x4u

/* Why an event has no row (design.md, Accounting). */
enum rule {
	RULE_FAILED, /* the call did not succeed: a failure, never memory */
	RULE_BLOCK_FREE, /* PTA: block back in the pool; FREE was or will be the row */
	RULE_SEGMENT, /* workspace: its segment, not its use */
	RULE_STATE, /* devices, streams, names: learnt, not shown */
	RULE_OTHER_POOL, /* MindSpore's pools of the host */
	RULE_NOT_FREED, /* MindSpore: still in use by a stream, or not of the pool */
	RULE_PART, /* MindSpore: rests of blocks cut apart, the end of the call that does it */
	RULE_CROWDED, /* MindSpore: of more pools, or parts at once, than a process can have */
	RULE_FILTERED, /* --events, --level, --device */
	RULE_PAUSED, /* before a start, behind a stop: --collect-mode, memtap ctl */
	RULE_WITHDRAWN, /* the self-check of its probe failed */
	RULE_DOUBTED, /* the same for one process: what it tells makes no sense */
	RULE_LIFECYCLE, /* fork, exec, exit */
	RULE_MAX
};

const char *rule__name(enum rule r);

/* Of which events there are rows: as in struct model_opts, of which a process may ask for less. */
struct model_wants {
	unsigned int level, events;
	bool npus, cpu;
	uint32_t npu_slots;
};

struct model_opts {
	bool vendor; /* front end: nothing the vendor's tool has not */
	bool newer; /* vendor: rows of V-now, which V-seed has not */
	bool owners; /* vendor: who owns a block (decompose) */
	bool oom; /* vendor: rows of allocations that failed */
	unsigned int oom_top; /* blocks in each of the lists behind such a row; 0: no lists */
	/* Rows inside of these steps of a process only, from 1; none: all. */
	uint64_t steps[MODEL_MAX_STEPS];
	unsigned int n_steps;
	unsigned int level; /* LEVEL_* */
	unsigned int events; /* EVENTS_* */
	/* Rows of which devices; none of the three: of all. LOST rows are never left out. */
	bool npus; /* all NPUs */
	uint32_t npu_slots; /* bit N: of device N */
	bool cpu; /* of the host */
	bool stacks; /* rows of memory have call stacks */
	bool paused; /* rows of memory, launches … only from a start on */
	int64_t boot_to_real; /* added to boot time */
};

/* What is known of a process when it is first met, or runs a new program. */
struct process_desc {
	uint32_t nspid; /* 0: nothing is known, it is gone */
	char *visible; /* ASCEND_RT_VISIBLE_DEVICES, malloced, freed by the model; or NULL */
	bool segments; /* as by model__segments */
};

struct event;
struct model;

struct model_ops {
	/* One row, in order. Pointers in it live until the return. */
	void (*row)(void *ctx, const struct row *r);
	/* A process is met for the first time, or one has a new program. */
	void (*describe)(void *ctx, uint32_t tgid, uint32_t start, struct process_desc *d);
	/* A process has ended, or its program by exec: after its last row. */
	void (*ended)(void *ctx, uint32_t tgid);
	/* A live block has one owner more: behind its MALLOC row. May be NULL. */
	void (*label)(void *ctx, uint32_t tgid, enum row_type type, uint64_t addr,
		      const char *label);
	/* A process asks for less: what, in its words, into *wants. May be NULL. */
	void (*config)(void *ctx, uint32_t tgid, const char *text, size_t len,
		       struct model_wants *wants);
};

struct model *model__new(const struct model_opts *opts, const struct model_ops *ops, void *ctx);
void model__free(struct model *m);
/* Meet a process now (START_TRACE row), e.g. at the attach. time: boot, ns. */
int model__process(struct model *m, uint32_t tgid, uint32_t start, uint64_t time);
/* Was this process met? */
bool model__knows(const struct model *m, uint32_t tgid, uint32_t start);
/* Start time of the youngest process of this number that was met, also of one that has ended; 0. */
uint32_t model__start(const struct model *m, uint32_t tgid);
/* Nothing shows the tensors of this process: rows of its segments are to say so. */
void model__segments(struct model *m, uint32_t tgid, uint32_t start);
/* One event, in time order (EVF_LATE excepted). 0 or -ENOMEM. */
int model__event(struct model *m, const struct event *e);
/* An event that another place decided against. */
void model__no_row(struct model *m, enum rule r);
/*
 * A LOST row for losses of one kind. Of an unknown device: one row without
 * device, and one with count 0 for each device seen. first, last, now: boot time.
 */
struct lost_row {
	const char *reason, *probe;
	const char *library; /* path, NULL = not of one library */
	uint32_t tgid, start; /* the process it happened to, 0 = not of one process */
	int32_t device; /* -1 = unknown */
	bool physical; /* device is the driver's number */
	uint32_t cpu; /* processor on which it was lost + 1, 0 = not of one */
	uint64_t count, first, last, now; /* count: LOST_UNKNOWN when nobody can tell */
};
/* False when there is no process yet to put the row to. A process it names is met. */
bool model__lost(struct model *m, const struct lost_row *l);
/* ---- what blocks are, by readings of Python objects (owned.c) ---- */

/* A tensor's memory, as read from t0 on. */
struct model_owned {
	uint32_t tgid, start;
	uint64_t addr;
	int32_t device;
	uint64_t t0; /* boot time */
};

struct model_owned_block {
	uint64_t addr, allocation_id;
	int64_t size;
	int32_t device;
};

/*
 * When all events before the end of the reading were given, and none after it: the block of the
 * caching allocator that begins there, or (around) in which it is, for which all are looked at.
 * 0; -ENOENT: none that was seen; -EAGAIN: one that was made meanwhile; -ESRCH.
 */
int model__owned(const struct model *m, const struct model_owned *o, bool around,
		 struct model_owned_block *out);
/* This block is of a kind, any small number. False: that was known. */
bool model__own(struct model *m, const struct model_owned *o, const struct model_owned_block *b,
		uint8_t kind);
/* STOP_TRACE rows of all processes that have none yet; may be called again. */
void model__stop(struct model *m, uint64_t time);

/*
 * collect.c: a request from outside (enum mt_ask) for a process that was met, 0: for all, and those
 * to come. Between events, in the order of time. How many processes it was for.
 */
size_t model__ask(struct model *m, unsigned int what, uint32_t tgid, const char *text,
		  uint64_t time);
/* Is nothing started in any process? Then launches and stacks are not wanted. */
bool model__all_paused(const struct model *m);
/* Requests for a start by processes that were seen. */
uint64_t model__starts(const struct model *m);

struct model_counts {
	uint64_t rows_events; /* rows that stand for one event each */
	uint64_t rows_extra; /* START_TRACE, STOP_TRACE, LOST */
	uint64_t rules[RULE_MAX];
	uint64_t failures[2]; /* of them: allocations, others */
	uint64_t oom;
	uint64_t preattach; /* frees of blocks from before the attach */
	uint64_t residual; /* MALLOC of an address still live: a missed FREE */
	uint64_t unpaired_ranges; /* range ends without a start */
	uint64_t labels_over; /* labels that are not kept: too many, or of no live block */
	uint64_t ranges_over; /* starts that are not remembered: too many are open */
	uint64_t gone_over; /* frees while nothing was collected that are not remembered (shadow.c)
			     */
	uint64_t live_blocks;
	uint64_t by_type[ROW_TYPE_MAX][2]; /* rows of MALLOC, FREE; marks etc. in [0] */
};
void model__counts(const struct model *m, struct model_counts *c);

/* Bytes now and at their peak, for the status line and the summary. */
struct pool_state {
	enum row_type type;
	uint32_t tgid;
	int32_t device;
	uint64_t used, peak, total, peak_total;
	uint64_t peak_time; /* boot time */
	bool partial; /* sums of what was seen since the attach only */
};
/* At most max of them, in the order of processes; how many there are, as snprintf(3) does. */
size_t model__pools(const struct model *m, struct pool_state *out, size_t max);
/* All of them, *n, the highest peak first; malloced. NULL: no memory. */
struct pool_state *model__pool_list(const struct model *m, size_t *n);

#endif
