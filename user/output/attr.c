// SPDX-License-Identifier: Apache-2.0
/* The columns Attr, Device Id and Name, in the forms of the csv and of the db. */
#include "output/internal.h"

const char *form__stem(unsigned int form)
{
	return form & FORM_NEWER ? "memscope_dump_" : "leaks_dump_";
}

const char *form__table(unsigned int form)
{
	return form & FORM_NEWER ? "memscope_dump" : "leaks_dump";
}

uint32_t form__attrs(unsigned int form, const struct row *r)
{
	uint32_t attrs = form & FORM_VENDOR ? r->attrs & ATTR_VENDOR : r->attrs;

	/* V-seed has no such rows; the db's own have it in V-now only. */
	return form & FORM_NEWER ? attrs | ATTR_HEX | (r->attrs & ATTR_SHADOW) : attrs;
}

static size_t text_len(const char *s)
{
	return s ? strlen(s) : 0;
}

size_t attr__bound(const struct row *r)
{
	/* All keys and numbers together stay below this. */
	size_t n = 1280;

	if (r->attrs & (ATTR_OWNER | ATTR_PAGE | ATTR_LISTED))
		n += TEXT_MAX(text_len(r->owner) + text_len(r->page_type) +
			      text_len(r->alloc_type));
	if (r->attrs & ATTR_ACCESS)
		n += TEXT_MAX(text_len(r->dtype) + text_len(r->format) + text_len(r->shape));
	if (r->attrs & ATTR_PATH)
		n += TEXT_MAX(text_len(r->path));
	if (r->attrs & (ATTR_OOM | ATTR_LOST | ATTR_NOTE))
		n += TEXT_MAX(text_len(r->oom_func) + text_len(r->lost_reason) +
			      text_len(r->lost_probe) + text_len(r->lost_library) +
			      text_len(r->note));
	return n;
}

static inline char *put_text(char *p, const char *s, bool json)
{
	if (!s)
		return PUT_LIT(p, "N/A");
	return text__put(p, s, strlen(s), json ? TEXT_JSON : TEXT_ATTR);
}

/* "torch.Size([2, 3])", "[2,3,]": with commas, so nothing else that a reader could trip over. */
static char *put_shape(char *p, const char *s)
{
	for (; s && *s; s++)
		*p++ = (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') ||
				       strchr("S.,()[] -", *s)
			       ? *s
			       : '?';
	return p;
}

static char *put_hex(char *p, uint64_t v)
{
	static const char digits[] = "0123456789abcdef";
	int shift = 60;

	p = PUT_LIT(p, "0x");
	while (shift && !(v >> shift))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		*p++ = digits[(v >> shift) & 15];
	return p;
}

char *ptr__put(char *p, uint64_t ptr, uint32_t attrs)
{
	static const char digits[] = "0123456789abcdef";
	int shift;

	if (!(attrs & ATTR_HEX))
		return put_u64(p, ptr);
	p = PUT_LIT(p, "0x");
	for (shift = 60; shift >= 0; shift -= 4)
		*p++ = digits[(ptr >> shift) & 15];
	return p;
}

static char *put_known(char *p, uint64_t v)
{
	return v == LOST_UNKNOWN ? PUT_LIT(p, "N/A") : put_u64(p, v);
}

#define KEY(name) (json ? PUT_LIT(p, "\"" name "\":\"") : PUT_LIT(p, name ":"))
#define END() (json ? PUT_LIT(p, "\",") : PUT_LIT(p, ","))
#define ITEM(name, put)        \
	do {                   \
		p = KEY(name); \
		p = (put);     \
		p = END();     \
	} while (0)

static char *put_bytes(char *p, int64_t v)
{
	return v < 0 ? PUT_LIT(p, "N/A") : put_u64(p, (uint64_t)v);
}

/* In percent, as printf has %f. */
static char *put_rate(char *p, int64_t part, int64_t whole)
{
	if (part < 0 || whole <= 0)
		return PUT_LIT(p, "N/A");
	return p + sprintf(p, "%f", (double)part / (double)whole * 100);
}

static char *put_snapshot(char *p, const struct snapshot *s, bool json)
{
	ITEM("reserved", put_bytes(p, s->reserved));
	ITEM("max_reserved", put_bytes(p, s->max_reserved));
	ITEM("allocated", put_bytes(p, s->allocated));
	ITEM("max_allocated", put_bytes(p, s->max_allocated));
	ITEM("total", put_bytes(p, s->total));
	ITEM("free", put_bytes(p, s->free));
	ITEM("device_rate", put_rate(p, s->free < 0 ? -1 : s->total - s->free, s->total));
	ITEM("reserved_rate", put_rate(p, s->allocated, s->reserved));
	return p;
}

/* What few rows have; kept out of the way of MALLOC and FREE. */
static char *put_rare(char *p, const struct row *r, uint32_t a, bool json)
{
	if (a & ATTR_PATH)
		ITEM("path", put_text(p, r->path, json));
	if (a & ATTR_WORKSPACE) {
		/* As a stream of C++ has them. */
		ITEM("workspace_ptr", r->workspace ? put_hex(p, r->workspace) : PUT_LIT(p, "0"));
		ITEM("workspace_size", put_u64(p, r->workspace_size));
	}
	if (a & ATTR_PINNED)
		ITEM("pinned", PUT_LIT(p, "true"));
	if (a & ATTR_SHADOW)
		ITEM("shadow", PUT_LIT(p, "true"));
	if (a & ATTR_ACCESS) {
		ITEM("type", put_text(p, row_type__name(r->pool), json));
		ITEM("dtype", put_text(p, r->dtype, json));
		if (r->format)
			ITEM("format", put_text(p, r->format, json));
		ITEM("shape", put_shape(p, r->shape));
	}
	if (a & ATTR_OWNER && r->owner && *r->owner)
		ITEM("owner", put_text(p, r->owner, json));
	/* With a comma in it: its own words, nothing of the program's. */
	if (a & ATTR_WASTE && r->waste)
		ITEM("inefficient_type", put_mem(p, r->waste, strlen(r->waste)));
	if (a & ATTR_PAGE) {
		ITEM("page_type", put_text(p, r->page_type, json));
		ITEM("alloc_type", put_text(p, r->alloc_type, json));
	}
	if (a & ATTR_KERNEL) {
		/* A task id cannot be had from outside; never 0 (design.md). */
		ITEM("streamId", r->stream_id < 0 ? PUT_LIT(p, "N/A") : put_s64(p, r->stream_id));
		ITEM("taskId", PUT_LIT(p, "N/A"));
	}
	if (a & ATTR_SNAPSHOT)
		p = put_snapshot(p, &r->snapshot, json);
	if (a & ATTR_FREE_TOTAL) {
		ITEM("free", put_bytes(p, r->snapshot.free));
		ITEM("total", put_bytes(p, r->snapshot.total));
	}
	if (a & ATTR_OOM) {
		ITEM("func", put_text(p, r->oom_func ? r->oom_func : "halMemAlloc", json));
		ITEM("req_size", put_u64(p, r->oom_size));
		ITEM("flag", put_u64(p, r->oom_flag));
	}
	if (a & ATTR_LISTED) {
		ITEM("pool", put_text(p, r->owner, json));
		ITEM("ptr", ptr__put(p, r->ptr, ATTR_HEX));
		ITEM("size", put_s64(p, r->size));
		ITEM("timestamp", put_u64(p, r->begin_time));
	}
	if (a & ATTR_LOST) {
		ITEM("reason", put_text(p, r->lost_reason, json));
		ITEM("probe", put_text(p, r->lost_probe, json));
		ITEM("count", put_known(p, r->lost_count));
		ITEM("first", put_u64(p, r->lost_first));
		ITEM("last", put_known(p, r->lost_last));
		if (r->lost_cpu)
			ITEM("cpu", put_u64(p, r->lost_cpu - 1));
		if (r->lost_library)
			ITEM("library", put_text(p, r->lost_library, json));
	}
	if (a & ATTR_ACTIVE)
		ITEM("active", put_u64(p, r->active));
	if (a & ATTR_STREAM)
		ITEM("stream", put_hex(p, r->stream));
	if (a & ATTR_PREATTACH)
		ITEM("preattach", PUT_LIT(p, "true"));
	if (a & ATTR_PHYS)
		ITEM("physical_device", put_s64(p, r->phys_device));
	if (a & ATTR_NSPID)
		ITEM("nspid", put_u64(p, r->nspid));
	if (a & ATTR_NOTE)
		ITEM("note", put_text(p, r->note, json));
	if (a & ATTR_LATE)
		ITEM("late", PUT_LIT(p, "true"));
	if (a & ATTR_RECOVERED)
		ITEM("recovered", PUT_LIT(p, "true"));
	return p;
}

static inline __attribute__((always_inline)) char *put_attrs(char *p, const struct row *r,
							     uint32_t a, const bool json)
{
	if (a & ATTR_BLOCK) {
		ITEM("allocation_id", put_u64(p, r->allocation_id));
		ITEM("addr", ptr__put(p, r->ptr, a));
		/* A reader must not take an unknown size for a number. */
		ITEM("size", r->size < 0 ? PUT_LIT(p, "N/A") : put_u64(p, (uint64_t)r->size));
	}
	if (a & ATTR_POOL) {
		ITEM("total", put_u64(p, r->total));
		ITEM("used", put_u64(p, r->used));
	}
	if (a & ~(ATTR_BLOCK | ATTR_POOL))
		p = put_rare(p, r, a, json);
	return p;
}

char *attr__csv(char *p, const struct row *r, uint32_t attrs)
{
	char *start = p;

	if (!attrs)
		return p;
	p = PUT_LIT(p, "\"{");
	p = put_attrs(p, r, attrs, false);
	if (p == start + 2)
		return start;
	p[-1] = '}'; /* over the last comma */
	*p++ = '"';
	return p;
}

char *attr__json(char *p, const struct row *r, uint32_t attrs)
{
	*p++ = '{';
	p = put_attrs(p, r, attrs, true);
	if (p[-1] == ',')
		p--;
	*p++ = '}';
	return p;
}

char *device__put(char *p, int32_t device)
{
	if (device >= 0)
		return put_u64(p, (uint64_t)device);
	switch (device) {
	case DEV_HOST:
		return PUT_LIT(p, "host");
	case DEV_CPU:
		return PUT_LIT(p, "cpu");
	default:
		return PUT_LIT(p, "N/A");
	}
}

const char *row__name(const struct row *r, size_t *len, char tmp[48])
{
	if (r->name) {
		*len = r->name_len;
		return r->name;
	}
	if (r->event == ROW_OOM_DETAIL) {
		*len = sizeof("OOM_Trigger") - 1;
		return "OOM_Trigger";
	}
	if (r->event != ROW_MSTX) {
		*len = 0;
		return NULL;
	}
	if (r->type == ROW_RANGE_END) {
		char *p = PUT_LIT(tmp, "Range end from id ");

		*len = (size_t)(put_u64(p, r->range_id) - tmp);
		return tmp;
	}
	*len = 0;
	return "";
}
