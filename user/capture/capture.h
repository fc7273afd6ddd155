/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the rings to events in time order: drain, sort window, decoding of wire
 * records, losses and the accounting.
 */
#ifndef MEMTAP_CAPTURE_H
#define MEMTAP_CAPTURE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "memtap/event.h"
#include "probe/probe.h"

/* ---- a decoded event ---- */

enum event_kind {
	EV_NONE,
	EV_HAL_ALLOC, /* addr, size, device (physical), flag or properties */
	EV_HAL_FREE, /* addr */
	EV_HOST_REG, /* addr, size, flag */
	EV_HOST_UNREG,
	EV_ACL_INIT,
	EV_ACL_FINI,
	EV_SET_DEVICE, /* device (logical) */
	EV_STREAM_ID, /* stream, stream_id */
	EV_OOM, /* size, flag, refused, fn */
	EV_FUNC_NAME, /* addr = handle or stub, text */
	EV_LAUNCH, /* addr = name source, stream, key, name_kind, text */
	EV_MARK, /* text, stream */
	EV_RANGE_START, /* text, range id of the library */
	EV_RANGE_END, /* range id */
	EV_PTA_MALLOC, /* addr, size, device (logical), totals, stream */
	EV_PTA_FREE,
	EV_PTA_BLOCK_FREE,
	EV_WS, /* a workspace record; alloc says which side, see totals */
	EV_MS_ALLOC, /* addr, size, text = type name of the pool, key = its address, totals */
	EV_MS_FREE, /* addr */
	EV_MS_KEEP, /* addr, size: what is kept of a block that is freed else */
	EV_MS_PART, /* the end of the call that does that */
	EV_ASK, /* key = enum mt_ask, addr = its value, text */
	EV_HOST_ALLOC, /* addr, size; key = enum mt_host_call */
	EV_HOST_FREE, /* addr; the same */
	EV_OP_START, /* key = number of the operator; text = its name, by who reads it */
	EV_OP_END,
	EV_ACCESS, /* the same; addr, size, device (logical), access */
	EV_ATB_START, /* a runner of ATB: atb */
	EV_ATB_END,
	EV_ATB_KERNEL_START, /* a kernel of one: atb */
	EV_ATB_KERNEL_END, /* the same; ret */
	EV_ATB_TENSOR, /* key = atb->sp of its execution; addr, size, access */
	EV_ATB_MALLOC, /* workspace of an operation: addr, size, key = 1: mstx is told of it */
	EV_ATB_FREE,
	EV_FORK, /* addr = parent tgid */
	EV_EXEC,
	EV_EXIT,
	EV_KIND_MAX
};

#define EVF_TRUNC 0x01u
#define EVF_NOTEXT 0x02u
#define EVF_CREATE 0x04u /* HAL: physical handle, not an address */
#define EVF_HOST 0x08u /* HAL: memory of the host */
#define EVF_ALLOC 0x10u /* EV_WS: MALLOC side */
#define EVF_TOTALS 0x20u /* allocated, reserved are there; MindSpore: allocated */
#define EVF_ACTIVE 0x40u /* active is there */
#define EVF_LATE 0x80u /* handed out behind its time window */
#define EVF_LAYOUT_B 0x100u /* EV_WS without reserved and active (2.7.1) */
#define EVF_PY 0x200u
#define EVF_RESERVED 0x1000u /* MindSpore: reserved is there */
#define EVF_VMM 0x2000u /* and is the mapped part of an address range */
#define EVF_PART 0x4000u /* EV_MS_FREE: of a piece, inside a call that keeps others */
#define EVF_LOOSE 0x8000u /* totals may be younger than the event */
#define EVF_SEGMENT 0x800u /* HAL: inside an acl call as torch_npu makes it for a segment */
#define EVF_MERGED 0x1000u /* PTA: a free names the block merged with its free neighbours */
#define EVF_ALONE 0x400u /* HAL: out of memory, and no enclosing call to report it */

/* Highest number a device can have: 10 bits in the flag of halMemAlloc. */
#define EVENT_DEVICE_MAX 1023

/* A tensor, of EV_ACCESS and EV_ATB_TENSOR. */
struct access {
	bool write, result;
	bool kernel; /* ATB: of a kernel */
	bool cut; /* it has more dimensions than dims */
	uint8_t n_dims;
	const char *dtype; /* "torch.float32", "ACL_FLOAT16"; static text */
	const char *format; /* ATB: "ACL_FORMAT_ND" */
	int64_t dims[MT_ACCESS_DIMS];
};

struct event {
	enum event_kind kind;
	uint32_t flags;
	uint64_t time, begin; /* boot time, ns */
	uint32_t tgid, tid, start;
	uint16_t site, fn, cpu;
	int64_t ret; /* 0 = success */
	uint64_t addr;
	int64_t size;
	int32_t device; /* 0 to EVENT_DEVICE_MAX; -1 = unknown */
	uint32_t setting; /* HAL: 1 + logical device that the call around it sets, 0 = none */
	uint32_t module, page; /* HAL: module id; 0 normal, 1 huge, 2 giant */
	uint64_t hal_flag;
	int64_t allocated, reserved, active;
	uint64_t stream;
	int64_t stream_id;
	uint64_t key;
	uint8_t name_kind;
	uint32_t refused;
	struct access access;
	struct mt_refs refs; /* its call stacks */
	const struct mt_atb *atb; /* the record, checked; valid during the callback */
	const char *text; /* not NUL-terminated; valid during the callback */
	uint32_t text_len;
};

/*
 * Decode a wire record of `size` bytes. `layout` is that of the file the site
 * belongs to (PTA records). 0, or -EBADMSG for a record that cannot be one.
 */
/* access.c: the tensor of a record into e. 0, or -EBADMSG for what cannot be one. */
int access__decode(const struct mt_access *r, struct event *e);
/* atb.c: the same of ATB; the operation or kernel of a record, and a tensor. */
int atb__decode(const struct mt_atb *r, struct event *e);
int atb__decode_tensor(const struct mt_atb_tensor *r, struct event *e);
int event__decode(const void *rec, size_t size, enum pta_layout layout, struct event *e);

/* Layout of PTA records, learnt from the records alone (2.7.1): a check, or the
 * only source where the body could not be read. Zero-initialise. */
struct pta_learner {
	enum pta_layout layout;
};
/* Feeds one record; returns what is known so far. Conflicts keep the first. */
enum pta_layout pta_learner__feed(struct pta_learner *l, const struct mt_pta *r);
/* Is a record plausible at all (design.md, PTA self-check)? NULL or what is wrong. */
const char *pta__implausible(const struct mt_pta *r, enum pta_layout layout);
/* The same for a call of DeviceCachingAllocator::malloc or ::free. */
const char *pta__implausible_call(const struct mt_call *c);

/* ---- whom to believe, of those that run one file ---- */

/* What the records of one process were. */
struct pta_voice {
	uint32_t tgid, start;
	uint32_t seen; /* looked at, and plausible */
	const char *wrong; /* its record that was not; static text */
	struct pta_learner learner;
};

/* Zero-initialise. */
struct pta_judge {
	struct hmap by_process; /* (tgid, start) -> index in voices */
	struct pta_voice *voices;
	size_t n, last;
	uint32_t right, wrong; /* processes */
	enum pta_layout layout; /* that the first one taught that was right */
};

enum pta_judgement {
	PTA_BELIEVED,
	PTA_DOUBTED, /* of a process that told nonsense before: to be dropped */
	PTA_NEWLY_DOUBTED, /* the first nonsense of a process, while as many others are right */
	PTA_NONSENSE, /* the same, and most tell nonsense: the probe is in the wrong place */
};

/* A record; `known`: its layout as the code says; *layout: to decode with, if it is believed. */
enum pta_judgement pta_judge__report(struct pta_judge *j, const struct mt_pta *r,
				     enum pta_layout known, enum pta_layout *layout);
/* The same for the functions of the allocator. */
enum pta_judgement pta_judge__call(struct pta_judge *j, const struct mt_call *r);
/* The process has a new program. */
void pta_judge__forget(struct pta_judge *j, uint32_t tgid, uint32_t start);
void pta_judge__free(struct pta_judge *j);

/* ---- drain ---- */

struct drain;

struct drain_opts {
	uint64_t window_ns; /* an event waits this long for older ones */
	size_t max_bytes; /* memory for waiting records; then the ring fills */
	bool early; /* births and deaths of processes are told at once too */
	/* When the end of a range (mstx) has come, by the thread of the drain. NULL: nobody asks.
	 */
	void (*range_ended)(void *ctx, uint32_t tgid);
	void *ctx;
};

/* Records that were taken from the events ring and are gone. */
struct drain_lost {
	uint64_t count, first, last; /* boot time */
};

/* Statistics, read at any time. */
struct drain_stats {
	uint64_t received; /* records of the events ring */
	uint64_t life; /* records of the lifecycle ring */
	uint64_t stacks; /* stacks of the events ring, which are no events */
	uint64_t stacks_lost; /* of them, for want of memory */
	uint64_t late; /* handed out behind their window */
	struct drain_lost nonsense; /* their header makes no sense */
	struct drain_lost no_memory;
	uint64_t life_bad; /* both, of the lifecycle ring */
	uint64_t stalls; /* times the memory limit stopped the drain */
	size_t peak_bytes;
};

/* Starts the thread that empties both rings. 0 or -errno. */
int drain__start(int events_fd, int life_fd, const struct drain_opts *opts, struct drain **d);
/*
 * Hand out, in time order, all records older than the window (or all of them
 * if `final`). fn gets the raw record. Called from one thread, each 20 ms or so.
 */
void drain__deliver(struct drain *d, bool final,
		    void (*fn)(void *ctx, const void *rec, size_t size, bool late), void *ctx);
/*
 * Hand out what does not wait for its time: stacks, before the events that name
 * them, and with opts.early births and deaths. Before drain__deliver, as often.
 */
void drain__early(struct drain *d, void (*fn)(void *ctx, const void *rec, size_t size, bool late),
		  void *ctx);
/* Boot time up to which all has been handed out; what comes from before is late. */
uint64_t drain__handed_out(struct drain *d);
/* After the detach: take what is left in the rings and end the thread. */
void drain__stop(struct drain *d);
void drain__stats(struct drain *d, struct drain_stats *s);
void drain__free(struct drain *d);

/* ---- losses and accounting ---- */

/* Reasons that only user space has, behind those of enum mt_loss. */
#define LOSS_NONSENSE MT_LOSS_MAX /* a record came and cannot be one */
#define LOSS_MEMORY (MT_LOSS_MAX + 1) /* no memory for a record */
#define LOSS_UNLISTED (MT_LOSS_MAX + 2) /* counted, and nobody knows why */

#define NO_SITE UINT_MAX
#define NO_CPU UINT_MAX

struct loss {
	unsigned int site; /* NO_SITE: not told */
	unsigned int reason; /* enum mt_loss or LOSS_ */
	int32_t device; /* of the driver or as the process sees them: loss__is_physical */
	unsigned int cpu; /* NO_CPU: not told */
	uint64_t count, first, last; /* first, last: boot time */
};

/* All losses so far, by CPU; malloced array of *n. 0 or -errno. */
int losses__read(int map_fd, struct loss **out, size_t *n);
/*
 * The same, and what each of the sites 1 to sites - 1 has lost beyond the list, from
 * `first` to `last`. Not while programs run: they count before they list.
 */
int losses__read_all(int losses_fd, int stats_fd, unsigned int sites, uint64_t first, uint64_t last,
		     struct loss **out, size_t *n);
/* How many of the `lost` records of a site are not in the list. */
uint64_t losses__unlisted(const struct loss *list, size_t n, unsigned int site, uint64_t lost);
/* Does a function (enum mt_fn) count devices as the driver does, and not as its process sees them?
 */
bool loss__is_physical(unsigned int fn);
const char *loss__reason(unsigned int reason);

/* What of the losses was told before, by (site, reason, device, processor). Zero-initialise. */
struct losses_told {
	struct hmap by_key; /* -> index in v + 1 */
	struct loss_told {
		uint64_t count, last;
	} * v;
	size_t n;
};

/*
 * What has been lost of this kind since it was told: its count, from the last that was told of to
 * the last now. False: nothing.
 */
bool losses_told__news(const struct losses_told *t, const struct loss *now, struct loss *news);
/* It has been told; without memory it will be told again. */
void losses_told__add(struct losses_told *t, const struct loss *now);
void losses_told__free(struct losses_told *t);

/* Sums over CPUs of one site. 0 or -errno. */
int site_stat__read(int map_fd, unsigned int site, struct mt_site_stat *sum);

#endif
