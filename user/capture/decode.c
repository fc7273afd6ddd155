// SPDX-License-Identifier: Apache-2.0
/* Wire records to events: bounds, bit fields, byte layouts (spec ascend-abi.md 2). */
#include "capture/capture.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

/* halMemAlloc flag, ascend-abi.md 2.5 */
#define FLAG_DEVICE(f) ((int32_t)((f)&0x3ff))
#define FLAG_TYPE(f) (((f) >> 10) & 0xf)
#define FLAG_HUGE(f) (((f) >> 17) & 1)
#define FLAG_GIANT(f) (((f) >> 31) & 1)
#define FLAG_MODULE(f) ((uint32_t)((f) >> 56))
#define TYPE_HOST 2
#define SIDE_HOST 0

#define MS_MAX ((uint64_t)1 << 56) /* no pool is that large */

static void from_ms(const struct mt_call *c, struct event *e)
{
	e->kind = c->h.fn == MT_FN_MS_ALLOC  ? EV_MS_ALLOC
		  : c->h.fn == MT_FN_MS_FREE ? EV_MS_FREE
		  : c->h.fn == MT_FN_MS_KEEP ? EV_MS_KEEP
					     : EV_MS_PART;
	e->key = c->a[3] >> 8;
	if (c->a[2] && c->a[2] <= MS_MAX) {
		e->flags |= EVF_TOTALS;
		e->allocated = (int64_t)c->a[2] - 1;
	}
	if (c->a[4] && c->a[4] <= MS_MAX) {
		e->flags |= EVF_RESERVED;
		e->reserved = (int64_t)c->a[4] - 1;
	}
	e->flags |= (c->a[3] & MT_MS_VMM ? EVF_VMM : 0) | (c->a[3] & MT_MS_PART ? EVF_PART : 0) |
		    (c->a[3] & MT_MS_LOOSE ? EVF_LOOSE : 0);
}

static void from_call(const struct mt_call *c, struct event *e)
{
	e->begin = c->begin;
	e->ret = c->ret;
	e->addr = c->a[0];
	e->size = (int64_t)c->a[1];
	switch (c->h.fn) {
	case MT_FN_HAL_ALLOC:
		e->kind = EV_HAL_ALLOC;
		e->hal_flag = c->a[2];
		e->device = FLAG_DEVICE(c->a[2]);
		e->module = FLAG_MODULE(c->a[2]);
		e->page = FLAG_GIANT(c->a[2]) ? 2 : (uint32_t)FLAG_HUGE(c->a[2]);
		if (FLAG_TYPE(c->a[2]) == TYPE_HOST)
			e->flags |= EVF_HOST;
		break;
	case MT_FN_HAL_CREATE:
		e->kind = EV_HAL_ALLOC;
		e->flags |= EVF_CREATE;
		e->device = (int32_t)(c->a[2] >> 32);
		e->hal_flag = (uint32_t)(c->a[2] >> 32); /* as in an EV_OOM record */
		e->module = (uint32_t)c->a[3];
		e->page = (uint32_t)(c->a[3] >> 32);
		if ((uint32_t)c->a[2] == SIDE_HOST && e->device >= 0)
			e->flags |= EVF_HOST;
		break;
	case MT_FN_HAL_RELEASE:
		e->flags |= EVF_CREATE;
		e->kind = EV_HAL_FREE;
		break;
	case MT_FN_HAL_FREE:
		e->kind = EV_HAL_FREE;
		break;
	case MT_FN_HOST_REG:
		e->kind = EV_HOST_REG;
		e->hal_flag = c->a[2];
		break;
	case MT_FN_HOST_UNREG:
		e->kind = EV_HOST_UNREG;
		break;
	case MT_FN_ACL_INIT:
		e->kind = EV_ACL_INIT;
		break;
	case MT_FN_ACL_FINI:
		e->kind = EV_ACL_FINI;
		break;
	case MT_FN_SET_DEVICE:
		e->kind = EV_SET_DEVICE;
		e->device = (int32_t)c->a[0];
		break;
	case MT_FN_STREAM_ID:
		e->kind = EV_STREAM_ID;
		e->stream = c->a[0];
		e->stream_id = (int64_t)c->a[1];
		break;
	case MT_FN_OOM:
		e->kind = EV_OOM;
		e->size = (int64_t)c->a[0];
		e->hal_flag = c->a[1];
		e->refused = (uint32_t)c->a[2];
		e->fn = (uint16_t)c->a[3];
		e->device = (int32_t)c->a[4];
		break;
	case MT_FN_FUNC_NAME:
		e->kind = EV_FUNC_NAME;
		break;
	case MT_FN_LAUNCH:
		e->kind = EV_LAUNCH;
		e->stream = c->a[1];
		e->key = c->a[2];
		e->name_kind = (uint8_t)c->a[3];
		break;
	case MT_FN_MSTX_MARK:
	case MT_FN_MSTX_START:
		e->kind = c->h.fn == MT_FN_MSTX_MARK ? EV_MARK : EV_RANGE_START;
		e->stream = c->a[0];
		/* The result of mstxRangeStartA is an id, not a status. */
		e->key = (uint64_t)c->ret;
		e->ret = (int64_t)c->a[4];
		e->flags |= c->a[2] == MT_MSTX_PY ? EVF_PY : 0;
		break;
	case MT_FN_MSTX_END:
		e->kind = EV_RANGE_END;
		e->key = c->a[0];
		e->ret = (int64_t)c->a[4];
		e->flags |= c->a[2] == MT_MSTX_PY ? EVF_PY : 0;
		break;
	case MT_FN_ATEN_START:
	case MT_FN_ATEN_END:
		e->kind = c->h.fn == MT_FN_ATEN_START ? EV_OP_START : EV_OP_END;
		e->key = c->a[0];
		break;
	case MT_FN_ATB_POOL:
		e->kind = c->a[2] ? EV_ATB_FREE : EV_ATB_MALLOC;
		e->key = c->a[3];
		break;
	case MT_FN_ASK:
		e->kind = EV_ASK;
		e->key = (uint32_t)c->a[1];
		e->size = 0;
		break;
	case MT_FN_HOST_ALLOC:
	case MT_FN_HOST_FREE:
		e->kind = c->h.fn == MT_FN_HOST_FREE || c->a[3] == 1 ? EV_HOST_FREE : EV_HOST_ALLOC;
		e->key = c->a[2];
		break;
	case MT_FN_MS_ALLOC:
	case MT_FN_MS_FREE:
	case MT_FN_MS_KEEP:
	case MT_FN_MS_PART:
		from_ms(c, e);
		break;
	case MT_FN_PTA_ALLOC:
	case MT_FN_PTA_FREE:
		e->kind = c->h.fn == MT_FN_PTA_ALLOC ? EV_PTA_MALLOC : EV_PTA_FREE;
		e->device = (int32_t)c->a[2];
		e->allocated = (int64_t)c->a[3];
		e->reserved = (int64_t)c->a[4];
		/* The probe of free is at its entry, before it is subtracted. */
		if (c->h.fn == MT_FN_PTA_FREE)
			e->allocated = e->size >= 0 && e->allocated >= e->size
					       ? e->allocated - e->size
					       : -1;
		if (e->reserved > 0 && e->allocated >= 0 && e->allocated <= e->reserved)
			e->flags |= EVF_TOTALS;
		break;
	default:
		break;
	}
	if (e->kind == EV_HAL_ALLOC && e->ret) {
		e->flags |= c->a[0] == MT_REFUSED_ALONE ? EVF_ALONE : 0;
		e->addr = 0;
	} else if (e->kind == EV_HAL_ALLOC) {
		e->flags |= c->a[4] & MT_HAL_SEGMENT ? EVF_SEGMENT : 0;
		e->setting = c->a[4] >> MT_HAL_SETTING & 0xff;
	}
}

/* data_type, component (0 caching, 1 workspace) of a PTA record. */
static void pta_types(const struct mt_pta *r, enum pta_layout layout, int *type, int *component)
{
	*component = 0;
	switch (layout) {
	case PTA_LAYOUT_C:
		*component = r->raw[2];
		*type = r->raw[3];
		break;
	case PTA_LAYOUT_A:
	case PTA_LAYOUT_B:
		*type = r->raw[2];
		/*
		 * 2.7.1: workspace records of layout B have no reserved and active bytes. A
		 * block of the caching allocator lies in a segment that is still reserved.
		 */
		*component = layout == PTA_LAYOUT_B && !r->reserved && !r->active;
		break;
	default:
		*type = r->size < 0;
	}
}

static void from_pta(const struct mt_pta *r, enum pta_layout layout, struct event *e)
{
	int type, component;

	e->begin = r->h.time;
	e->addr = r->ptr;
	/* The lowest number has no opposite: it stays negative, and is refused. */
	e->size = r->size < 0 && r->size != INT64_MIN ? -r->size : r->size;
	e->device = (int8_t)r->raw[1];
	e->allocated = r->allocated;
	e->reserved = r->reserved;
	e->active = r->active;
	e->stream = r->stream;
	e->flags |= EVF_TOTALS;
	if (r->h.fn == MT_FN_C10_REPORT) {
		e->kind = r->size < 0 ? EV_PTA_FREE : EV_PTA_MALLOC;
		return;
	}
	e->flags |= EVF_ACTIVE;
	pta_types(r, layout, &type, &component);
	if (component) {
		e->kind = EV_WS;
		e->flags |= (type == 0 ? EVF_ALLOC : 0) |
			    (layout == PTA_LAYOUT_B ? EVF_LAYOUT_B : 0);
		return;
	}
	e->kind = type == 0 ? EV_PTA_MALLOC : type == 1 ? EV_PTA_FREE : EV_PTA_BLOCK_FREE;
}

/* No block is that large, and sums would overflow: the target's memory held nonsense. */
static bool size_is_wrong(const struct event *e)
{
	switch (e->kind) {
	case EV_HAL_ALLOC:
	case EV_HOST_REG:
	case EV_PTA_MALLOC:
	case EV_PTA_FREE:
	case EV_PTA_BLOCK_FREE:
	case EV_WS:
	case EV_MS_ALLOC:
	case EV_MS_KEEP:
	case EV_HOST_ALLOC:
	case EV_ACCESS:
	case EV_ATB_TENSOR:
	case EV_ATB_MALLOC:
	case EV_ATB_FREE:
		return !e->ret && (e->size < 0 || e->size >= (int64_t)1 << 56);
	default:
		return false;
	}
}

int event__decode(const void *rec, size_t size, enum pta_layout layout, struct event *e)
{
	const struct mt_hdr *h = rec;
	size_t fixed;

	if (size < sizeof(*h) || h->size > size)
		return -EBADMSG;
	size = h->size; /* what lies behind the record is not its own */
	if (h->flags & MT_F_REFS) {
		if (size < sizeof(*h) + sizeof(e->refs))
			return -EBADMSG;
		size -= sizeof(e->refs);
	}
	memset(e, 0, sizeof(*e));
	if (h->flags & MT_F_REFS)
		memcpy(&e->refs, (const char *)rec + size, sizeof(e->refs));
	e->time = e->begin = h->time;
	e->tgid = h->tgid;
	e->tid = h->tid;
	e->start = h->start;
	e->site = h->site;
	e->fn = h->fn;
	e->cpu = h->cpu;
	e->device = -1;
	switch (h->type) {
	case MT_REC_CALL:
		if (size < sizeof(struct mt_call))
			return -EBADMSG;
		from_call(rec, e);
		fixed = sizeof(struct mt_call);
		if (h->strlen > size - fixed)
			return -EBADMSG;
		e->text = (const char *)rec + fixed;
		e->text_len = h->strlen;
		if (h->flags & MT_F_TRUNC)
			e->flags |= EVF_TRUNC;
		if (h->flags & MT_F_NOTEXT)
			e->flags |= EVF_NOTEXT;
		break;
	case MT_REC_PTA:
		if (size < sizeof(struct mt_pta))
			return -EBADMSG;
		from_pta(rec, layout, e);
		break;
	case MT_REC_ACCESS:
		if (size < sizeof(struct mt_access) || access__decode(rec, e))
			return -EBADMSG;
		break;
	case MT_REC_ATB:
		if (size < sizeof(struct mt_atb) || atb__decode(rec, e))
			return -EBADMSG;
		break;
	case MT_REC_ATB_TENSOR:
		if (size < sizeof(struct mt_atb_tensor) || atb__decode_tensor(rec, e))
			return -EBADMSG;
		break;
	case MT_REC_FORK:
	case MT_REC_EXEC:
	case MT_REC_EXIT:
		if (size < sizeof(struct mt_task))
			return -EBADMSG;
		e->kind = h->type == MT_REC_FORK   ? EV_FORK
			  : h->type == MT_REC_EXEC ? EV_EXEC
						   : EV_EXIT;
		e->addr = ((const struct mt_task *)rec)->ptgid;
		e->text = ((const struct mt_task *)rec)->comm;
		e->text_len = (uint32_t)strnlen(e->text, 16);
		break;
	default:
		return -EBADMSG;
	}
	/* Other negative numbers have a meaning in rows (DEV_HOST); no device has a larger one. */
	if (e->device < 0 || e->device > EVENT_DEVICE_MAX)
		e->device = -1;
	return e->kind == EV_NONE || size_is_wrong(e) ? -EBADMSG : 0;
}

enum pta_layout pta_learner__feed(struct pta_learner *l, const struct mt_pta *r)
{
	/* The sign of alloc_size tells a free from a malloc in every layout. */
	bool is_free = r->size < 0;

	if (l->layout)
		return l->layout;
	if ((is_free && r->raw[2] == 0) || (!is_free && r->raw[2] == 1))
		l->layout = PTA_LAYOUT_C;
	else if (is_free && (r->raw[2] == 2 || (r->raw[2] == 1 && r->raw[3] == 0)))
		l->layout = PTA_LAYOUT_B;
	return l->layout;
}

const char *pta__implausible_call(const struct mt_call *c)
{
	if (!c->a[0])
		return "address of a block is 0";
	if (!c->a[1] || c->a[1] % 512)
		return "size of a block is no multiple of 512";
	if ((int32_t)c->a[2] < 0 || (int32_t)c->a[2] > EVENT_DEVICE_MAX)
		return "no such device";
	return NULL;
}

#define PRIVATE_USE1 20 /* c10::DeviceType of torch_npu, torch 2.x */

const char *pta__implausible(const struct mt_pta *r, enum pta_layout layout)
{
	int type, component;

	pta_types(r, layout, &type, &component);
	if (r->raw[0] != PRIVATE_USE1)
		return "device type is not 20";
	if (r->size % 512)
		return "size is no multiple of 512";
	if (!r->ptr)
		return "address is 0";
	if (type < 0 || type > 2)
		return "data type above 2";
	if (component > 1)
		return "component above 1";
	if (!component && (r->allocated < 0 || r->allocated > r->reserved))
		return "allocated bytes outside 0 to reserved";
	return NULL;
}
