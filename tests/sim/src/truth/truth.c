// SPDX-License-Identifier: Apache-2.0
/* The ground truth: records kept per thread in memory, written as JSON lines at exit. */
#include "sim_truth.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Neither malloc() nor the exported mmap() is called here: a tracer that counts the target's
 * host allocations must not see the recorder.
 */
#define CHUNK_BYTES (1UL << 20)
#define NAME_MAX_ 4000

struct chunk {
	_Atomic(struct chunk *) next;
	_Atomic size_t used;
	unsigned char data[];
};

struct stored {
	struct sim_truth_rec r;
	uint32_t len; /* of this item with its texts, a multiple of 8 */
	uint32_t namelen; /* with the terminating zero; 0: no name */
	char name[]; /* and behind it r.fn: the library that holds it may be gone at the end */
};

struct thread_log {
	struct thread_log *next;
	struct chunk *first, *last;
	/* What a flush has written already. */
	struct chunk *done_chunk;
	size_t done;
	pid_t tid;
};

int sim_truth_enabled;

static char path_[4096];
static _Atomic(struct thread_log *) logs;
static __thread struct thread_log *mine;
static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t dropped;

static void *pages(size_t n)
{
	long p = syscall(SYS_mmap, NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0L);

	return p == -1 ? NULL : (void *)p;
}

static struct chunk *chunk_new(void)
{
	return pages(CHUNK_BYTES);
}

static struct thread_log *log_new(void)
{
	/* One page each: threads are few and this needs no lock. */
	struct thread_log *l = pages(4096);

	if (!l)
		return NULL;
	l->first = l->last = l->done_chunk = chunk_new();
	if (!l->first)
		return NULL;
	l->tid = (pid_t)syscall(SYS_gettid);
	l->next = atomic_load(&logs);
	while (!atomic_compare_exchange_weak(&logs, &l->next, l))
		;
	return l;
}

void sim_truth_put(const struct sim_truth_rec *rec)
{
	struct thread_log *l = mine;
	size_t nl = 0, fl = strlen(rec->fn) + 1, len, used;
	struct stored *s;
	struct chunk *c;

	if (!l) {
		l = mine = log_new();
		if (!l)
			goto drop;
	}
	if (rec->name)
		nl = strnlen(rec->name, NAME_MAX_) + 1;
	len = (sizeof(*s) + nl + fl + 7) & ~(size_t)7;
	c = l->last;
	used = atomic_load_explicit(&c->used, memory_order_relaxed);
	if (used + len > CHUNK_BYTES - sizeof(*c)) {
		struct chunk *n = chunk_new();

		if (!n)
			goto drop;
		atomic_store(&c->next, n);
		l->last = n;
		c = n;
		used = 0;
	}
	s = (struct stored *)(c->data + used);
	s->r = *rec;
	s->len = (uint32_t)len;
	s->namelen = (uint32_t)nl;
	if (nl) {
		memcpy(s->name, rec->name, nl - 1);
		s->name[nl - 1] = '\0';
	}
	memcpy(s->name + nl, rec->fn, fl);
	atomic_store_explicit(&c->used, used + len, memory_order_release);
	return;
drop:
	atomic_fetch_add(&dropped, 1);
}

struct out {
	int fd;
	size_t n;
	char *buf; /* OUT_BYTES */
};
#define OUT_BYTES (256UL << 10)
#define OUT_ROOM 32768UL /* the longest line: a name of which each byte is escaped */

static void out_flush(struct out *o)
{
	size_t i = 0;

	while (i < o->n) {
		ssize_t w = write(o->fd, o->buf + i, o->n - i);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			break;
		i += (size_t)w;
	}
	o->n = 0;
}

#define PUT(o, ...) ((o)->n += (size_t)snprintf((o)->buf + (o)->n, OUT_BYTES - (o)->n, __VA_ARGS__))

static void out_string(struct out *o, const char *s)
{
	o->buf[o->n++] = '"';
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\') {
			o->buf[o->n++] = '\\';
			o->buf[o->n++] = (char)c;
		} else if (c < 0x20 || c >= 0x7f) {
			/* Bytes, not code points: the reader gets them back by latin-1. */
			PUT(o, "\\u%04x", c);
		} else {
			o->buf[o->n++] = (char)c;
		}
	}
	o->buf[o->n++] = '"';
}

static void out_rec(struct out *o, const struct stored *s, pid_t pid, pid_t tid)
{
	const struct sim_truth_rec *r = &s->r;
	int i;

	if (o->n + OUT_ROOM > OUT_BYTES)
		out_flush(o);
	PUT(o, "{\"fn\":\"%s\",\"pid\":%d,\"tid\":%d,\"t0\":%llu,\"t1\":%llu,\"args\":[",
	    s->name + s->namelen, (int)pid, (int)tid, (unsigned long long)r->t0,
	    (unsigned long long)r->t1);
	for (i = 0; i < r->nargs; i++)
		PUT(o, "%s%llu", i ? "," : "", (unsigned long long)r->args[i]);
	PUT(o, "]");
	if (!(r->has & SIM_T_NORET))
		PUT(o, ",\"ret\":%lld", (long long)r->ret);
	if (r->has & SIM_T_OUT)
		PUT(o, ",\"out\":%llu", (unsigned long long)r->out);
	if (r->has & SIM_T_SIZE)
		PUT(o, ",\"size\":%llu", (unsigned long long)r->size);
	if (r->has & SIM_T_DEV)
		PUT(o, ",\"device\":%d", r->device);
	if (r->has & SIM_T_STREAM)
		PUT(o, ",\"stream\":%llu", (unsigned long long)r->stream);
	if (r->has & SIM_T_SID)
		PUT(o, ",\"stream_id\":%d", r->sid);
	if (r->has & SIM_T_TOTALS)
		PUT(o, ",\"alloc\":%lld,\"reserved\":%lld,\"active\":%lld", (long long)r->alloc,
		    (long long)r->reserved, (long long)r->active);
	if (r->has & SIM_T_USED)
		PUT(o, ",\"used\":%lld", (long long)r->alloc);
	if (r->has & SIM_T_ATYPE)
		PUT(o, ",\"atype\":%d", r->atype);
	if (s->namelen) {
		PUT(o, ",\"name\":");
		out_string(o, s->name);
	}
	PUT(o, "}\n");
}

void sim_truth_flush(void)
{
	struct thread_log *l;
	struct out o = { .fd = -1 };
	char name[4200];
	pid_t pid = getpid();

	if (!path_[0])
		return;
	pthread_mutex_lock(&flush_lock);
	snprintf(name, sizeof(name), "%s.%d", path_, (int)pid);
	o.buf = pages(OUT_BYTES);
	o.fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (o.fd < 0 || !o.buf) {
		pthread_mutex_unlock(&flush_lock);
		return;
	}
	for (l = atomic_load(&logs); l; l = l->next) {
		struct chunk *c = l->done_chunk;

		for (;;) {
			/* next first: a chunk that has a successor grows no more. */
			struct chunk *next = atomic_load(&c->next);
			size_t used = atomic_load_explicit(&c->used, memory_order_acquire);

			while (l->done < used) {
				struct stored *s = (struct stored *)(c->data + l->done);

				out_rec(&o, s, pid, l->tid);
				l->done += s->len;
			}
			if (!next)
				break;
			c = l->done_chunk = next;
			l->done = 0;
		}
	}
	if (atomic_load(&dropped))
		PUT(&o, "{\"fn\":\"truth_dropped\",\"pid\":%d,\"size\":%llu}\n", (int)pid,
		    (unsigned long long)atomic_exchange(&dropped, 0));
	out_flush(&o);
	close(o.fd);
	syscall(SYS_munmap, o.buf, OUT_BYTES);
	pthread_mutex_unlock(&flush_lock);
}

/* The child starts an account of its own: what it inherited is the parent's to write. */
static void in_child(void)
{
	atomic_store(&logs, NULL);
	atomic_store(&dropped, 0);
	mine = NULL;
	pthread_mutex_init(&flush_lock, NULL);
}

int sim_truth_start(const char *path)
{
	if (path && path[0])
		snprintf(path_, sizeof(path_), "%s", path);
	sim_truth_enabled = path_[0] != '\0';
	return sim_truth_enabled;
}

__attribute__((constructor)) static void begin(void)
{
	const char *p = getenv("SIM_TRUTH");

	pthread_atfork(NULL, NULL, in_child);
	if (p && p[0])
		sim_truth_start(p);
}

__attribute__((destructor)) static void end(void)
{
	sim_truth_flush();
}
