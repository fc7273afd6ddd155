// SPDX-License-Identifier: Apache-2.0
/* Rows as compact bytes, for blocks that wait for their end and the journal. */
#include "output/journal.h"

#include <errno.h>

static uint8_t *put_var(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)v | 0x80;
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

static uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static int64_t unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* length + 1, bytes, NUL; 0 for NULL. */
static uint8_t *put_text(uint8_t *p, const char *s, size_t n)
{
	if (!s)
		return put_var(p, 0);
	p = put_var(p, n + 1);
	memcpy(p, s, n);
	p[n] = 0;
	return p + n + 1;
}

static uint8_t *put_str(uint8_t *p, const char *s)
{
	return put_text(p, s, s ? strlen(s) : 0);
}

static uint8_t *put_snapshot(uint8_t *p, const struct snapshot *s)
{
	p = put_var(p, zigzag(s->reserved));
	p = put_var(p, zigzag(s->max_reserved));
	p = put_var(p, zigzag(s->allocated));
	p = put_var(p, zigzag(s->max_allocated));
	p = put_var(p, zigzag(s->total));
	return put_var(p, zigzag(s->free));
}

/* Attributes beyond those of a plain block. */
static uint8_t *put_rare(uint8_t *p, const struct row *r)
{
	uint32_t a = r->attrs;

	if (a & ATTR_OWNER)
		p = put_str(p, r->owner);
	if (a & ATTR_PAGE) {
		p = put_str(p, r->page_type);
		p = put_str(p, r->alloc_type);
	}
	if (a & ATTR_KERNEL)
		p = put_var(p, zigzag(r->stream_id));
	if (a & ATTR_OOM) {
		p = put_str(p, r->oom_func);
		p = put_var(p, r->oom_size);
		p = put_var(p, r->oom_flag);
	}
	if (a & ATTR_LISTED) {
		p = put_str(p, r->owner);
		p = put_var(p, r->ptr);
		p = put_var(p, zigzag(r->size));
		p = put_var(p, r->begin_time);
	}
	if (a & ATTR_LOST) {
		p = put_str(p, r->lost_reason);
		p = put_str(p, r->lost_probe);
		p = put_var(p, r->lost_count);
		p = put_var(p, r->lost_first);
		p = put_var(p, r->lost_last);
		p = put_var(p, r->lost_cpu);
		p = put_str(p, r->lost_library);
	}
	if (a & (ATTR_SNAPSHOT | ATTR_FREE_TOTAL))
		p = put_snapshot(p, &r->snapshot);
	if (a & ATTR_ACCESS) {
		p = put_var(p, (uint64_t)r->pool);
		p = put_str(p, r->dtype);
		p = put_str(p, r->format);
		p = put_str(p, r->shape);
	}
	if (a & ATTR_PATH)
		p = put_str(p, r->path);
	if (a & ATTR_WORKSPACE) {
		p = put_var(p, r->workspace);
		p = put_var(p, r->workspace_size);
	}
	if (a & ATTR_ACTIVE)
		p = put_var(p, r->active);
	if (a & ATTR_STREAM)
		p = put_var(p, r->stream);
	if (a & ATTR_PHYS)
		p = put_var(p, zigzag(r->phys_device));
	if (a & ATTR_NSPID)
		p = put_var(p, r->nspid);
	if (a & ATTR_NOTE)
		p = put_str(p, r->note);
	if (a & ATTR_STACKS) {
		p = put_var(p, r->stack_c);
		p = put_var(p, r->stack_py);
		p = put_var(p, r->start);
	}
	return p;
}

int row__encode(struct strbuf *sb, const struct row *r)
{
	uint32_t a = r->attrs;
	uint8_t *p, *start;

	/* Numbers take 10 bytes at most; attr__bound() has room for them and more. */
	start = p = (uint8_t *)strbuf__reserve(sb, 256 + r->name_len + attr__bound(r));
	if (!p)
		return -ENOMEM;
	*p++ = (uint8_t)r->event;
	*p++ = (uint8_t)r->type;
	p = put_var(p, a);
	p = put_var(p, r->id);
	p = put_var(p, r->time);
	p = put_var(p, r->pid);
	p = put_var(p, r->tid);
	p = put_var(p, zigzag(r->device));
	p = put_var(p, r->ptr);
	p = put_text(p, r->name, r->name_len);
	if (a & ATTR_BLOCK) {
		p = put_var(p, r->allocation_id);
		p = put_var(p, zigzag(r->size));
	}
	if (a & ATTR_POOL) {
		p = put_var(p, r->total);
		p = put_var(p, r->used);
	}
	if (a & ~(ATTR_BLOCK | ATTR_POOL))
		p = put_rare(p, r);
	sb->len += (size_t)(p - start);
	return 0;
}

/* A reader that goes to its end and stays there when something is wrong. */
struct in {
	const uint8_t *p, *end;
	bool bad;
};

static uint64_t get_var(struct in *in)
{
	uint64_t v = 0;
	int shift;

	for (shift = 0; shift < 70 && in->p < in->end; shift += 7) {
		uint8_t c = *in->p++;

		if (shift == 63 && c > 1)
			break;
		v |= (uint64_t)(c & 0x7f) << shift;
		if (!(c & 0x80))
			return v;
	}
	in->bad = true;
	return 0;
}

static const char *get_text(struct in *in, uint32_t *len)
{
	uint64_t n = get_var(in);
	const char *s = (const char *)in->p;

	if (len)
		*len = 0;
	if (!n || in->bad)
		return NULL;
	/* n counts the text and its NUL. */
	if (n > (uint64_t)(in->end - in->p) || s[n - 1]) {
		in->bad = true;
		return NULL;
	}
	in->p += n;
	if (len)
		*len = (uint32_t)n - 1;
	return s;
}

static void get_snapshot(struct in *in, struct snapshot *s)
{
	s->reserved = unzigzag(get_var(in));
	s->max_reserved = unzigzag(get_var(in));
	s->allocated = unzigzag(get_var(in));
	s->max_allocated = unzigzag(get_var(in));
	s->total = unzigzag(get_var(in));
	s->free = unzigzag(get_var(in));
}

static void get_rare(struct in *in, struct row *r)
{
	uint32_t a = r->attrs;

	if (a & ATTR_OWNER)
		r->owner = get_text(in, NULL);
	if (a & ATTR_PAGE) {
		r->page_type = get_text(in, NULL);
		r->alloc_type = get_text(in, NULL);
	}
	if (a & ATTR_KERNEL)
		r->stream_id = unzigzag(get_var(in));
	if (a & ATTR_OOM) {
		r->oom_func = get_text(in, NULL);
		r->oom_size = get_var(in);
		r->oom_flag = get_var(in);
	}
	if (a & ATTR_LISTED) {
		r->owner = get_text(in, NULL);
		r->ptr = get_var(in);
		r->size = unzigzag(get_var(in));
		r->begin_time = get_var(in);
	}
	if (a & ATTR_LOST) {
		r->lost_reason = get_text(in, NULL);
		r->lost_probe = get_text(in, NULL);
		r->lost_count = get_var(in);
		r->lost_first = get_var(in);
		r->lost_last = get_var(in);
		r->lost_cpu = (uint32_t)get_var(in);
		r->lost_library = get_text(in, NULL);
	}
	if (a & (ATTR_SNAPSHOT | ATTR_FREE_TOTAL))
		get_snapshot(in, &r->snapshot);
	if (a & ATTR_ACCESS) {
		uint64_t pool = get_var(in);

		r->pool = pool < ROW_TYPE_MAX ? (enum row_type)pool : ROW_PTA;
		r->dtype = get_text(in, NULL);
		r->format = get_text(in, NULL);
		r->shape = get_text(in, NULL);
	}
	if (a & ATTR_PATH)
		r->path = get_text(in, NULL);
	if (a & ATTR_WORKSPACE) {
		r->workspace = get_var(in);
		r->workspace_size = get_var(in);
	}
	if (a & ATTR_ACTIVE)
		r->active = get_var(in);
	if (a & ATTR_STREAM)
		r->stream = get_var(in);
	if (a & ATTR_PHYS)
		r->phys_device = (int32_t)unzigzag(get_var(in));
	if (a & ATTR_NSPID)
		r->nspid = (uint32_t)get_var(in);
	if (a & ATTR_NOTE)
		r->note = get_text(in, NULL);
	if (a & ATTR_STACKS) {
		r->stack_c = get_var(in);
		r->stack_py = get_var(in);
		r->start = (uint32_t)get_var(in);
	}
}

ssize_t row__decode(const uint8_t *p, size_t n, struct row *r)
{
	struct in in = { .p = p, .end = p + n };

	memset(r, 0, sizeof(*r));
	if (n < 2)
		return -EBADMSG;
	r->event = *in.p++;
	r->type = *in.p++;
	if ((unsigned int)r->event >= ROW_EVENT_MAX || (unsigned int)r->type >= ROW_TYPE_MAX)
		return -EBADMSG;
	r->attrs = (uint32_t)get_var(&in);
	r->id = get_var(&in);
	r->time = get_var(&in);
	r->pid = (uint32_t)get_var(&in);
	r->tid = (uint32_t)get_var(&in);
	r->device = (int32_t)unzigzag(get_var(&in));
	r->ptr = get_var(&in);
	r->name = get_text(&in, &r->name_len);
	if (r->attrs & ATTR_BLOCK) {
		r->allocation_id = get_var(&in);
		r->size = unzigzag(get_var(&in));
	}
	if (r->attrs & ATTR_POOL) {
		r->total = get_var(&in);
		r->used = get_var(&in);
	}
	if (r->attrs & ~(ATTR_BLOCK | ATTR_POOL))
		get_rare(&in, r);
	return in.bad ? -EBADMSG : in.p - p;
}
