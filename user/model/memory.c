// SPDX-License-Identifier: Apache-2.0
/* Allocations and frees of every layer: live blocks, pool sums, their rows. */
#include "model/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"

/* msleaks.md 8.3: owners by module id, the vendor's old names. */
static const char *const modules[] = {
	"CANN@SLOG",	    "CANN@IDEDD",
	"CANN@IDEDH",	    "CANN@HCCL",
	"CANN@FMK",	    "CANN@HIAIENGINE",
	"CANN@DVPP",	    "CANN@RUNTIME",
	"CANN@CCE",	    "CANN@HDC",
	"CANN@DRV",	    "CANN@MDCFUSION",
	"CANN@MDCLOCATION", "CANN@MDCPERCEPTION",
	"CANN@MDCFSM",	    "CANN@MDCCOMMON",
	"CANN@MDCMONITOR",  "CANN@MDCBSWP",
	"CANN@MDCDEFAULT",  "CANN@MDCSC",
	"CANN@MDCPNC",	    "CANN@MLL",
	"CANN@DEVMM",	    "CANN@KERNEL",
	"CANN@LIBMEDIA",    "CANN@CCECPU",
	"CANN@ASCENDDK",    "CANN@ROS",
	"CANN@HCCP",	    "CANN@ROCE",
	"CANN@TEFUSION",    "CANN@PROFILING",
	"CANN@DP",	    "CANN@APP",
	"CANN@TS",	    "CANN@TSDUMP",
	"CANN@AICPU",	    "CANN@LP",
	"CANN@TDT",	    "CANN@FE",
	"CANN@MD",	    "CANN@MB",
	"CANN@ME",	    "CANN@IMU",
	"CANN@IMP",	    "CANN@GE",
	"CANN@MDCFUSA",	    "CANN@CAMERA",
	"CANN@ASCENDCL",    "CANN@TEEOS",
	"CANN@ISP",	    "CANN@SIS",
	"CANN@HSM",	    "CANN@DSS",
	"CANN@PROCMGR",	    "CANN@BBOX",
	"CANN@AIVECTOR",    "CANN@TBE",
	"CANN@FV",	    "CANN@MDCMAP",
	"CANN@TUNE",	    "CANN@HSS",
	"CANN@FFTS",	    "CANN@OP",
	"CANN@UDF",	    "CANN@HICAID",
	"CANN@TSYNC",	    "CANN@AUDIO",
	"CANN@TPRT",	    "CANN@ASCENDCKERNEL",
	"CANN@ASYS",	    "CANN@ATRACE",
	"CANN@RTC",	    "CANN@SYSMONITOR",
	"CANN@AML",	    "CANN@INVLID_MOUDLE_ID",
};

static const char *owner_of(uint32_t module)
{
	return module < MT_ARRAY_SIZE(modules) ? modules[module] : "CANN@UNKNOWN";
}

const char *model__page(uint32_t page)
{
	static const char *const names[] = { "normal", "huge", "giant" };

	return page < MT_ARRAY_SIZE(names) ? names[page] : "unknown";
}

/* ---- live blocks ---- */

static struct hkey key_of(const struct process *p, enum layer l, uint64_t addr)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): pool__of(p->x) made it doubt p */
	return (struct hkey){ addr, (uint64_t)p->index << 8 | l };
}

static struct block *block__new(struct model *m, struct process *p, enum layer l,
				const struct event *e)
{
	struct block *b;
	struct pool *sum;
	bool fresh;
	uint64_t *v;
	uint32_t no;

	if (!m->free_block && m->next_block >= m->cap_blocks) {
		uint32_t cap = m->cap_blocks ? m->cap_blocks * 2 : 1024;
		void *q = realloc(m->blocks, cap * sizeof(*m->blocks));

		if (!q)
			return NULL;
		m->blocks = q;
		m->cap_blocks = cap;
	}
	v = hmap__put(&m->live, key_of(p, l, e->addr), &fresh);
	if (!v)
		return NULL;
	if (!fresh) {
		/* Its FREE was missed. The new block takes its place. */
		m->counts.residual++;
		no = (uint32_t)*v;
		shadow__replaced(m, p, l, &m->blocks[no], model__real(m, e->time));
		sum = pool__summed(p, l, m->blocks[no].device);
		if (sum)
			pool__change(sum, -m->blocks[no].size, e->time);
	} else {
		no = m->free_block;
		if (no)
			m->free_block = m->blocks[no].next_free;
		else
			no = m->next_block++;
		*v = no;
		p->n_live++;
	}
	b = &m->blocks[no];
	*b = (struct block){ .addr = e->addr,
			     .size = e->size,
			     .allocation_id = m->opts.vendor ? 0 : ++m->next_allocation,
			     .kernel_index = p->kernel_index,
			     .step = p->step,
			     .live = true,
			     .paused = p->paused,
			     .window = p->window };
	return b;
}

const struct block *model__live(const struct model *m, const struct process *p, enum layer l,
				uint64_t addr)
{
	const uint64_t *no = hmap__get(&m->live, key_of(p, l, addr));

	return no ? &m->blocks[*no] : NULL;
}

/* Takes a block out of the table into *out. */
static bool block__take(struct model *m, struct process *p, enum layer l, uint64_t addr,
			struct block *out)
{
	uint64_t no;

	if (!hmap__del(&m->live, key_of(p, l, addr), &no))
		return false;
	p->n_live--;
	*out = m->blocks[no];
	m->blocks[no].live = false;
	m->blocks[no].next_free = m->free_block;
	m->free_block = (uint32_t)no;
	return true;
}

void model__drop_blocks(struct model *m, struct process *p)
{
	size_t pos = 0, n = 0, i;
	struct hkey *gone, k;
	struct block b;

	/* Most processes hold none: the table of all of them is not walked. */
	if (!p->n_live)
		return;
	gone = malloc(p->n_live * sizeof(*gone));
	if (!gone)
		return;
	while (n < p->n_live && hmap__next(&m->live, &pos, &k, NULL))
		if (k.b >> 8 == p->index)
			gone[n++] = k;
	for (i = 0; i < n; i++)
		block__take(m, p, (enum layer)(gone[i].b & 0xff), gone[i].a, &b);
	free(gone);
	p->pta_live.n = 0;
	ops__forget(p);
	p->ws_uses.n = 0;
}

/* ---- rows ---- */

static void common(struct model *m, struct row *r, const struct event *e, enum row_event ev,
		   enum row_type type)
{
	memset(r, 0, sizeof(*r));
	r->event = ev;
	r->type = type;
	r->time = model__real(m, e->time);
	r->tid = e->tid;
	r->ptr = e->addr;
	r->attrs = ATTR_BLOCK | (e->flags & EVF_LATE && !m->opts.vendor ? ATTR_LATE : 0);
	r->stream = e->stream;
}

bool model__free_row(struct model *m, struct process *p, const struct event *e, enum layer l,
		     enum row_type type, struct row *r)
{
	struct block b;
	bool known;

	common(m, r, e, ROW_FREE, type);
	known = block__take(m, p, l, e->addr, &b);
	/* PTA names the size, which does not change: another one is another block. */
	if (known && e->kind == EV_PTA_FREE && b.size != e->size) {
		m->counts.residual++;
		known = false;
	}
	if (!known) {
		m->counts.preattach++;
		r->allocation_id = m->opts.vendor ? 0 : ++m->next_allocation;
		r->size = e->kind == EV_HAL_FREE || e->kind == EV_HOST_UNREG ||
					  e->kind == EV_MS_FREE || e->kind == EV_HOST_FREE
				  ? -1
				  : e->size;
		/* The driver's free names no device. */
		r->device = e->kind == EV_HAL_FREE ? DEV_NA : process__device(p, e->tid, e->stream);
		r->attrs |= ATTR_PREATTACH;
		return false;
	}
	r->allocation_id = b.window == p->window ? b.allocation_id : 0;
	r->size = b.size;
	r->device = b.device;
	r->phys_device = b.phys;
	r->attrs |= b.paused && !m->opts.vendor ? ATTR_PREATTACH : 0;
	r->begin_time = model__real(m, b.time);
	r->begin_kernel = b.kernel_index;
	r->born_step = b.step;
	r->steps_lived = p->step - b.step;
	return true;
}

bool model__malloc_row(struct model *m, struct process *p, const struct event *e, enum layer l,
		       enum row_type type, int32_t device, struct row *r)
{
	struct block *b = block__new(m, p, l, e);

	common(m, r, e, ROW_MALLOC, type);
	if (!b)
		return false;
	b->time = e->time;
	b->device = device;
	b->phys = e->device;
	b->refs = e->refs;
	b->page = (uint8_t)MT_MIN(e->page, UINT8_MAX);
	r->allocation_id = b->allocation_id;
	r->block = (uint32_t)(b - m->blocks);
	r->size = e->size;
	r->device = device;
	r->phys_device = e->device;
	return true;
}

/* Into the sum of the process there, and the sum into the row. */
static void hold(struct process *p, enum layer l, struct row *r, int64_t by, uint64_t time)
{
	struct pool *q = pool__summed(p, l, r->device);

	if (!q)
		return;
	pool__change(q, by, time);
	r->held = q->used;
}

/*
 * The runtime allocates for a device within the call that makes it the thread's: what the thread
 * had before says nothing of it.
 */
static int32_t hal_device(const struct model *m, struct process *p, const struct event *e)
{
	int32_t logical;

	if (e->setting)
		process__told_device(p, (int32_t)e->setting - 1, e->device);
	logical = process__logical(p, e->setting ? 0 : e->tid, e->device);
	/* The vendor's rows of the driver have the driver's numbers. */
	return m->opts.vendor && e->device >= 0 ? e->device : logical;
}

static void on_hal_alloc(struct model *m, struct process *p, const struct event *e)
{
	int32_t dev = e->flags & EVF_HOST ? DEV_HOST : hal_device(m, p, e);
	enum layer l = e->flags & EVF_CREATE ? LAYER_HANDLE : LAYER_HAL;
	struct row r;

	if (!model__malloc_row(m, p, e, l, ROW_HAL, dev, &r))
		return;
	process__saw_device(p, e->tid, dev);
	if (host__counts(m, p, &r))
		hold(p, l, &r, e->size, e->time);
	if (l == LAYER_HANDLE)
		ms__physical(p, dev, e->size);
	r.owner = owner_of(e->module);
	m->blocks[r.block].owner = r.owner;
	r.page_type = model__page(e->page);
	r.alloc_type = e->flags & EVF_CREATE ? "create" : "alloc";
	if (m->opts.vendor) {
		r.attrs |= (m->opts.owners ? ATTR_OWNER : 0) | (m->opts.newer ? ATTR_PAGE : 0);
	} else {
		r.attrs |= ATTR_OWNER | ATTR_PAGE |
			   (dev != DEV_HOST && e->device >= 0 ? ATTR_PHYS : 0);
		if (p->segments && (e->flags & EVF_SEGMENT)) {
			r.attrs |= ATTR_NOTE;
			r.note = "segment";
		}
	}
	if (vendor__hal(m, e, &r))
		model__emit(m, p, &r, true);
}

static void on_hal_free(struct model *m, struct process *p, const struct event *e)
{
	enum layer l = e->flags & EVF_CREATE ? LAYER_HANDLE : LAYER_HAL;
	struct row r;

	if (model__free_row(m, p, e, l, ROW_HAL, &r)) {
		r.uncounted = !host__counts(m, p, &r);
		if (!r.uncounted)
			hold(p, l, &r, -r.size, e->time);
		if (l == LAYER_HANDLE)
			ms__physical(p, r.device, -r.size);
		if (!m->opts.vendor && r.device != DEV_HOST && r.phys_device >= 0)
			r.attrs |= ATTR_PHYS;
	}
	if (vendor__hal(m, e, &r))
		model__emit(m, p, &r, true);
}

static void on_host_reg(struct model *m, struct process *p, const struct event *e)
{
	struct row r;

	if (e->kind == EV_HOST_UNREG) {
		if (model__free_row(m, p, e, LAYER_HOST_REG, ROW_HOST_PINNED, &r))
			hold(p, LAYER_HOST_REG, &r, -r.size, e->time);
		r.device = DEV_CPU;
	} else {
		if (!model__malloc_row(m, p, e, LAYER_HOST_REG, ROW_HOST_PINNED, DEV_CPU, &r))
			return;
		hold(p, LAYER_HOST_REG, &r, e->size, e->time);
	}
	r.attrs |= ATTR_PINNED;
	model__emit(m, p, &r, true);
}

static void pta_attrs(struct model *m, const struct event *e, struct row *r)
{
	if (e->flags & EVF_TOTALS) {
		r->attrs |= ATTR_POOL;
		r->total = (uint64_t)e->reserved;
		r->used = (uint64_t)e->allocated;
	}
	if ((e->flags & EVF_ACTIVE) && !m->opts.vendor) {
		r->attrs |= ATTR_ACTIVE;
		r->active = (uint64_t)e->active;
	}
	if (e->stream && !m->opts.vendor)
		r->attrs |= ATTR_STREAM;
}

/* What a FREE row says of a block that was reported merged. */
static void free_merged(struct model *m, struct process *p, const struct pool *q,
			const struct event *merged, struct row *r)
{
	struct event e = *merged;
	bool known = merged__resolve(m, p, q, &e);

	model__free_row(m, p, &e, LAYER_PTA, ROW_PTA, r);
	if (known) {
		merged__del(p, e.addr);
	} else if (!m->opts.vendor) {
		r->attrs |= ATTR_NOTE;
		r->note = "address after merging";
	}
}

static void on_pta(struct model *m, struct process *p, const struct event *e)
{
	struct pool *q = e->flags & EVF_TOTALS ? pool__of(&p->pta, e->device) : NULL;
	struct row r;

	process__saw_device(p, e->tid, e->device);
	process__stream_device(p, e->stream, e->device);
	if (q)
		pool__set(q, e->allocated, e->reserved, e->time);
	if (e->kind == EV_PTA_BLOCK_FREE) {
		m->counts.rules[RULE_BLOCK_FREE]++;
		return;
	}
	if (e->kind == EV_PTA_FREE && e->flags & EVF_MERGED)
		free_merged(m, p, q, e, &r);
	else if (e->kind == EV_PTA_FREE)
		model__free_row(m, p, e, LAYER_PTA, ROW_PTA, &r);
	else if (!model__malloc_row(m, p, e, LAYER_PTA, ROW_PTA, e->device, &r))
		return;
	if (e->flags & EVF_MERGED) {
		if (e->kind == EV_PTA_MALLOC)
			merged__add(p, e->addr);
		if (q) {
			q->prev = true;
			q->prev_allocated = e->allocated;
		}
	}
	ops__block(m, p, e);
	r.device = e->device;
	pta_attrs(m, e, &r);
	model__emit(m, p, &r, true);
}

/*
 * Workspace, ascend-abi.md 2.7.1. Layout B reports growth and release only: the
 * row. Layout C reports the segment and each use with one address: told apart
 * by which total changed against the record before on this device.
 */
static bool ws_is_segment(const struct pool *q, const struct event *e)
{
	if (e->flags & EVF_LAYOUT_B)
		return false;
	if (q && q->prev) {
		if (e->reserved != q->prev_reserved)
			return true;
		if (e->allocated != q->prev_allocated)
			return false;
	}
	/* First record after the attach: a segment comes with nothing allocated. */
	if (e->flags & EVF_ALLOC)
		return e->allocated == 0;
	return e->reserved == 0;
}

static void on_workspace(struct model *m, struct process *p, const struct event *e)
{
	struct pool *q = pool__of(&p->ws, e->device);
	bool segment = ws_is_segment(q, e);
	struct row r;

	process__saw_device(p, e->tid, e->device);
	process__stream_device(p, e->stream, e->device);
	if (q) {
		q->prev = true;
		q->prev_allocated = e->allocated;
		q->prev_reserved = e->reserved;
		pool__set(q, e->allocated, e->flags & EVF_LAYOUT_B ? e->allocated : e->reserved,
			  e->time);
	}
	if (segment) {
		m->counts.rules[RULE_SEGMENT]++;
		return;
	}
	if (!(e->flags & EVF_ALLOC)) {
		struct event f = *e;

		if (!(e->flags & EVF_LAYOUT_B))
			uses__resolve(p, &f);
		model__free_row(m, p, &f, LAYER_WS, ROW_PTA_WORKSPACE, &r);
	} else {
		if (!(e->flags & EVF_LAYOUT_B))
			uses__add(p, e);
		if (!model__malloc_row(m, p, e, LAYER_WS, ROW_PTA_WORKSPACE, e->device, &r))
			return;
	}
	r.device = e->device;
	pta_attrs(m, e, &r);
	r.attrs &= ~ATTR_ACTIVE;
	if (e->flags & EVF_LAYOUT_B)
		r.total = r.used;
	model__emit(m, p, &r, true);
}

void model__memory(struct model *m, struct process *p, const struct event *e)
{
	if (e->ret && (e->flags & EVF_ALONE)) {
		m->counts.failures[0]++;
		model__oom(m, p, e);
		return;
	}
	if (e->ret && e->kind == EV_MS_FREE) {
		m->counts.rules[RULE_NOT_FREED]++;
		return;
	}
	if (e->ret) {
		m->counts.rules[RULE_FAILED]++;
		m->counts.failures[e->kind != EV_HAL_ALLOC && e->kind != EV_MS_ALLOC &&
				   e->kind != EV_HOST_ALLOC]++;
		return;
	}
	if (!(p->wants.events & EVENTS_ALLOC)) {
		m->counts.rules[RULE_FILTERED]++;
		return;
	}
	switch (e->kind) {
	case EV_HAL_ALLOC:
		on_hal_alloc(m, p, e);
		break;
	case EV_HAL_FREE:
		on_hal_free(m, p, e);
		break;
	case EV_HOST_REG:
	case EV_HOST_UNREG:
		on_host_reg(m, p, e);
		break;
	case EV_PTA_MALLOC:
	case EV_PTA_FREE:
	case EV_PTA_BLOCK_FREE:
		on_pta(m, p, e);
		break;
	case EV_WS:
		on_workspace(m, p, e);
		break;
	case EV_HOST_ALLOC:
	case EV_HOST_FREE:
		host__event(m, p, e);
		break;
	case EV_MS_ALLOC:
	case EV_MS_FREE:
	case EV_MS_KEEP:
	case EV_MS_PART:
		ms__event(m, p, e);
		break;
	default:
		m->counts.rules[RULE_STATE]++;
	}
}
