// SPDX-License-Identifier: Apache-2.0
/*
 * One trace event as bytes: the vendor's pretty-print with 4 spaces and its
 * key order. A name goes in as it is: those made here need no escaping.
 */
#include "output/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Everything of an event but its texts. */
#define EVENT_MAX 512

static char *put_str(char *p, const char *s)
{
	return put_mem(p, s, strlen(s));
}

static char *put_stamp(char *p, struct stamp t)
{
	uint64_t v = (uint64_t)t.v, frac;

	if (!t.real)
		return put_s64(p, t.v);
	if (t.v < 0) {
		*p++ = '-';
		v = 0 - v;
	}
	/* Microseconds with the nanoseconds behind the point. */
	p = put_u64(p, v / 1000);
	frac = v % 1000;
	*p++ = '.';
	*p++ = (char)('0' + frac / 100);
	*p++ = (char)('0' + frac / 10 % 10);
	*p++ = (char)('0' + frac % 10);
	return p;
}

static char *put_head(char *p, char ph, const char *name, uint32_t pid, uint32_t tid)
{
	p = PUT_LIT(p, "{\n    \"ph\": \"");
	*p++ = ph;
	p = PUT_LIT(p, "\",\n    \"name\": \"");
	p = put_str(p, name);
	p = PUT_LIT(p, "\",\n    \"pid\": ");
	p = put_u64(p, pid);
	p = PUT_LIT(p, ",\n    \"tid\": ");
	return put_u64(p, tid);
}

static char *put_ts(char *p, struct stamp ts)
{
	p = PUT_LIT(p, ",\n    \"ts\": ");
	return put_stamp(p, ts);
}

void trace_event__begin_file(struct sink *s)
{
	char *p = sink__room(s, 2);

	if (p)
		sink__commit(s, PUT_LIT(p, "[\n"));
}

void trace_event__anchor(struct sink *s, uint64_t realtime_ns)
{
	char *p = sink__room(s, EVENT_MAX);

	if (!p)
		return;
	p = put_head(p, 'M', "trace_start", 0, 0);
	p = PUT_LIT(p, ",\n    \"args\": {\n        \"realtime_ns\": \"");
	p = put_u64(p, realtime_ns);
	p = PUT_LIT(p, "\"\n    }\n},\n");
	sink__commit(s, p);
}

void trace_event__process(struct sink *s, uint32_t pid)
{
	char *comm = NULL, path[64], *p;
	ssize_t n;

	/* The process may have gone, and a pid may have a new owner by now. */
	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	n = file__read(path, 256, &comm);
	if (n > 0 && comm[n - 1] == '\n')
		n--;
	p = sink__room(s, EVENT_MAX + TEXT_MAX(256));
	if (p) {
		p = put_head(p, 'M', "process_name", pid, 0);
		p = PUT_LIT(p, ",\n    \"args\": {\n        \"name\": \"");
		if (n > 0)
			p = text__put(p, comm, (size_t)n, TEXT_JSON);
		else
			p = PUT_LIT(p, "process");
		p = PUT_LIT(p, "\"\n    }\n},\n");
		sink__commit(s, p);
	}
	free(comm);
}

void trace_event__counter(struct sink *s, const char *name, uint32_t pid, uint32_t tid,
			  struct stamp ts, uint64_t size)
{
	char *p = sink__room(s, EVENT_MAX);

	if (!p)
		return;
	p = put_head(p, 'C', name, pid, tid);
	p = put_ts(p, ts);
	p = PUT_LIT(p, ",\n    \"args\": {\n        \"size\": ");
	p = put_u64(p, size);
	p = PUT_LIT(p, "\n    }\n},\n");
	sink__commit(s, p);
}

void trace_event__instant(struct sink *s, const char *name, uint32_t pid, uint32_t tid,
			  struct stamp ts, const char *key, const char *text, size_t len)
{
	char *p = sink__room(s, EVENT_MAX + (text ? TEXT_MAX(len) : 0));

	if (!p)
		return;
	p = put_head(p, 'i', name, pid, tid);
	p = put_ts(p, ts);
	p = PUT_LIT(p, ",\n    \"s\": \"p\"");
	if (text) {
		p = PUT_LIT(p, ",\n    \"args\": {\n        \"");
		p = put_str(p, key);
		p = PUT_LIT(p, "\": \"");
		p = text__put(p, text, len, TEXT_JSON);
		p = PUT_LIT(p, "\"\n    }");
	}
	p = PUT_LIT(p, "\n},\n");
	sink__commit(s, p);
}

static char *put_slice(char *p, const char *name, uint32_t pid, uint32_t tid, struct stamp ts,
		       struct stamp dur)
{
	p = put_head(p, 'X', name, pid, tid);
	p = put_ts(p, ts);
	p = PUT_LIT(p, ",\n    \"dur\": ");
	return put_stamp(p, dur);
}

void trace_event__slice(struct sink *s, const char *name, uint32_t pid, uint32_t tid,
			struct stamp ts, struct stamp dur)
{
	char *p = sink__room(s, EVENT_MAX);

	if (!p)
		return;
	p = put_slice(p, name, pid, tid, ts, dur);
	p = PUT_LIT(p, "\n},\n");
	sink__commit(s, p);
}

void trace_event__leak(struct sink *s, uint32_t tid, uint64_t addr, int64_t size, struct stamp ts,
		       struct stamp dur)
{
	char *p = sink__room(s, EVENT_MAX), name[64];

	if (!p)
		return;
	snprintf(name, sizeof(name), "mem %llu leak", (unsigned long long)addr);
	p = put_slice(p, name, 1, tid, ts, dur);
	p = PUT_LIT(p, ",\n    \"args\": {\n        \"addr\": ");
	p = put_u64(p, addr);
	p = PUT_LIT(p, ",\"size\": "); /* the vendor's file has no line end here */
	p = put_s64(p, size);
	p = PUT_LIT(p, "\n    }\n},\n");
	sink__commit(s, p);
}

static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void meta(struct strbuf *sb, const char *name, uint32_t pid, const char *key,
		 const char *text, size_t number)
{
	strbuf__printf(sb,
		       "{\n    \"ph\": \"M\",\n    \"name\": \"%s\",\n    \"pid\": %u,\n"
		       "    \"tid\": 0,\n    \"args\": {\n        \"%s\": ",
		       name, pid, key);
	if (text)
		strbuf__printf(sb, "\"%s\"", text);
	else
		strbuf__printf(sb, "%zu", number);
	strbuf__puts(sb, "\n    }\n},\n");
}

void trace__footer(struct strbuf *sb, uint32_t *pids, size_t n)
{
	size_t i, index = 0;

	if (n)
		qsort(pids, n, sizeof(*pids), cmp_u32);
	for (i = 0; i < n; i++)
		meta(sb, "process_sort_index", pids[i], "sort_index", NULL, index++);
	meta(sb, "process_name", 0, "name", "mstx", 0);
	meta(sb, "process_sort_index", 0, "sort_index", NULL, index++);
	meta(sb, "process_name", 1, "name", "leak", 0);
	meta(sb, "process_sort_index", 1, "sort_index", NULL, index);
	strbuf__puts(sb, "{\n}\n]");
}

/* No room for the footer: "\n]" over ",\n" takes none. */
static int end_in_place(struct sink *s)
{
	int err = 0;

	if (s->size < 2) {
		/* Not even "[\n" fitted. */
		if (ftruncate(s->fd, 0))
			err = -errno;
	} else if (s->size == 2) {
		if (pwrite(s->fd, "[]", 2, 0) != 2)
			err = -EIO;
	} else if (pwrite(s->fd, "\n]", 2, (off_t)s->size - 2) != 2) {
		err = -EIO;
	}
	return err;
}

int trace_event__end_file(struct sink *s, uint32_t *pids, size_t n)
{
	struct strbuf sb = { 0 };
	int err = sink__flush(s);
	uint64_t size = s->size;
	char *p;

	trace__footer(&sb, pids, pids ? n : 0);
	if (!err && !sb.failed) {
		p = sink__room(s, sb.len);
		if (p)
			sink__commit(s, put_mem(p, sb.data, sb.len));
		err = sink__flush(s);
	}
	/* The footer is one record: all of it is there or nothing. */
	if (s->size == size) {
		int e = end_in_place(s);

		if (!err)
			err = e;
	}
	strbuf__free(&sb);
	sink__close(s);
	return err;
}
