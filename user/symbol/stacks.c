// SPDX-License-Identifier: Apache-2.0
/* Processes whose stacks are walked, the stacks they send, the cells that show them. */
#include "symbol/copy_unwind.h"
#include "symbol/stacks_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXTS_MAX (64u << 20)
#define STACKS_MAX (256u << 20)
/* An event is handed out 0.8 s after it happened: names may be waited for that long. */
#define PATIENCE_NS 700000000ULL
#define RETRY_NS 200000000ULL
#define SWEEP_NS 500000000ULL

/* ---- the sink: to the kernel, and what we keep of it ---- */

static int put_chunk(void *ctx, uint32_t no, const struct mt_uw_chunk *c)
{
	struct stacks *s = ctx;

	return s->maps_sink.chunk(s->maps_sink.ctx, no, c);
}

static int put_pages(void *ctx, uint32_t first, const struct mt_uw_page *p, uint32_t n)
{
	struct stacks *s = ctx;

	return s->maps_sink.pages(s->maps_sink.ctx, first, p, n);
}

static int put_rules(void *ctx, uint32_t first, const struct mt_uw_rule *r, uint32_t n)
{
	struct stacks *s = ctx;

	return s->maps_sink.rules(s->maps_sink.ctx, first, r, n);
}

static int put_maps(void *ctx, uint32_t first, const struct mt_uw_map *m, uint32_t n)
{
	struct stacks *s = ctx;

	free(s->fresh_maps);
	s->n_fresh = 0;
	s->fresh_maps = malloc(n * sizeof(*m) + 1);
	if (!s->fresh_maps)
		return -ENOMEM;
	memcpy(s->fresh_maps, m, n * sizeof(*m));
	s->n_fresh = n;
	return s->maps_sink.maps(s->maps_sink.ctx, first, m, n);
}

/* Not when it is old already: another library may be where it has one. */
static int put_proc(void *ctx, pid_t pid, const struct mt_uw_proc *p)
{
	struct stacks *s = ctx;
	int err = 0;

	if (p && stacks__stamp(s, pid) == s->stamp)
		err = s->maps_sink.proc(s->maps_sink.ctx, pid, p);
	s->read_old = p && stacks__stamp(s, pid) != s->stamp;
	if (!p || s->read_old)
		s->maps_sink.proc(s->maps_sink.ctx, pid, NULL);
	return err;
}

static void on_file(void *ctx, uint32_t no, int fd, const char *path)
{
	struct stacks *s = ctx;
	struct sfile *f;

	pthread_mutex_lock(&s->lock);
	if (no > s->cap_files) {
		uint32_t cap = no + 256;
		void *more = realloc(s->files, cap * sizeof(*s->files));

		if (!more)
			goto out;
		s->files = more;
		s->cap_files = cap;
	}
	while (s->n_files < no)
		s->files[s->n_files++] = (struct sfile){ .fd = -1 };
	f = &s->files[no - 1];
	f->path = strdup(path);
	f->fd = dup(fd);
	f->pid = s->reading;
	f->has_low = copy_space__low(fd, &f->low);
out:
	pthread_mutex_unlock(&s->lock);
}

/* ---- what the programs send ---- */

static int define_c(struct stacks *s, const struct mt_stack *r, size_t size)
{
	const uint64_t *frames = (const uint64_t *)(r + 1);
	struct kept *k;
	int err;

	if (!r->n || r->n > MT_UW_MAX_FRAMES || r->end >= MT_END_MAX)
		return -EBADMSG;
	k = stack_store__find(&s->store, r->hash[0], false);
	if (k && k->verify == r->hash[1]) {
		k->uses++;
		stack_copies__used(s, k, 1);
		return 0;
	}
	/* One that was sent before, and given up since. */
	if (!r->with)
		return 0;
	if (size < sizeof(*r) + r->n * sizeof(*frames))
		return -EBADMSG;
	k = stack_store__add(&s->store, (const uint64_t *)r->hash, false, r->n, &err);
	if (!k)
		return err == -EEXIST ? 0 : err;
	k->uses = 1;
	k->end = r->end;
	k->guessed = r->guessed;
	s->store.guessed += r->guessed > 0;
	memcpy(k->frames, frames, r->n * sizeof(*frames));
	return 0;
}

/* Its own interpreter, or while that is not known the one that it has from its parent. */
static bool name_of(const struct sproc *p, const struct mt_py_frame *f, struct python_name *name)
{
	if (!p)
		return false;
	if (p->py && !python__name(p->py, f, name))
		return true;
	return p->parent && p->parent->py && !python__name(p->parent->py, f, name);
}

static uint32_t line_of(struct stacks *s, const struct sproc *p, const struct mt_py_frame *f)
{
	struct python_name name;

	if (!name_of(p, f, &name)) {
		s->unnamed++;
		return 0;
	}
	strbuf__reset(&s->sb2);
	if (name.line)
		strbuf__printf(&s->sb2, "%s(%d): %s", name.file, name.line, name.name);
	else
		strbuf__printf(&s->sb2, "%s(NA): %s", name.file, name.name);
	return stack_store__line(&s->store, s->sb2.data, s->sb2.len);
}

/* With the lock held. *later: the process has not been read yet. */
static int define_python(struct stacks *s, const struct mt_pywalk *r, size_t size, bool *later)
{
	struct sproc *p = stacks__proc(s, r->h.tgid, r->h.start, r->h.time);
	struct kept *k;
	uint32_t i;
	int err;

	if (!r->s.n || r->s.n > MT_PY_DEPTH || r->s.why >= MT_PY_WHY_MAX ||
	    size < offsetof(struct mt_pywalk, s.frame) + r->s.n * sizeof(r->s.frame[0]))
		return -EBADMSG;
	if (*later && !(p && (p->py || p->parent)))
		return -EAGAIN;
	*later = false;
	k = stack_store__add(&s->store, (const uint64_t *)r->hash, true, r->s.n, &err);
	if (!k)
		return err == -EEXIST ? 0 : err;
	k->end = (uint8_t)r->s.why;
	for (i = 0; i < r->s.n; i++)
		k->lines[i] = line_of(s, p, &r->s.frame[i]);
	return 0;
}

static int wait_for_names(struct stacks *s, const void *rec, size_t size)
{
	struct waiting *w;

	if (s->n_waiting == s->cap_waiting) {
		size_t cap = s->cap_waiting ? s->cap_waiting * 2 : 64;
		void *more = realloc(s->waiting, cap * sizeof(*s->waiting));

		if (!more)
			return -ENOMEM;
		s->waiting = more;
		s->cap_waiting = cap;
	}
	w = &s->waiting[s->n_waiting];
	w->rec = malloc(size);
	if (!w->rec)
		return -ENOMEM;
	memcpy(w->rec, rec, size);
	w->size = size;
	w->until = clock__boot() + PATIENCE_NS;
	s->n_waiting++;
	return 0;
}

int stacks__define(struct stacks *s, const void *rec, size_t size)
{
	const struct mt_hdr *h = rec;
	bool later = true;
	int err;

	if (size < sizeof(*h) || h->size > size)
		return -EBADMSG;
	size = h->size;
	if (h->type == MT_REC_STACK)
		return size < sizeof(struct mt_stack) ? -EBADMSG : define_c(s, rec, size);
	if (h->type == MT_REC_COPY || h->type == MT_REC_COPY_PIECE)
		return stack_copies__define(s, rec, size);
	if (h->type != MT_REC_PYSTACK || size < offsetof(struct mt_pywalk, s.frame))
		return -EBADMSG;
	pthread_mutex_lock(&s->lock);
	err = define_python(s, rec, size, &later);
	pthread_mutex_unlock(&s->lock);
	return err == -EAGAIN ? wait_for_names(s, rec, size) : err;
}

static void name_waiting(struct stacks *s)
{
	uint64_t now = clock__boot();
	size_t i, kept = 0;

	pthread_mutex_lock(&s->lock);
	for (i = 0; i < s->n_waiting; i++) {
		struct waiting *w = &s->waiting[i];
		bool later = w->until > now;

		if (define_python(s, w->rec, w->size, &later) == -EAGAIN)
			s->waiting[kept++] = *w;
		else
			free(w->rec);
	}
	s->n_waiting = kept;
	pthread_mutex_unlock(&s->lock);
}

void stacks__tick(struct stacks *s, uint64_t written)
{
	uint64_t now = clock__boot();

	if (s->n_waiting)
		name_waiting(s);
	stack_copies__settle(s, false);
	if (now - s->swept >= SWEEP_NS) {
		s->swept = now;
		stacks__forget(s, written);
	}
	if (!s->opts.python || now - s->retried < RETRY_NS / 8)
		return;
	s->retried = now;
	stacks__retry(s, now);
}

/* ---- cells ---- */

static void forget_texts(struct stacks *s)
{
	size_t pos = 0;
	struct hkey k;
	uint64_t v;

	while (hmap__next(&s->texts, &pos, &k, &v)) {
		struct text *t = (struct text *)(uintptr_t)v;

		free(t->data);
		free(t);
	}
	hmap__free(&s->texts);
	s->text_bytes = 0;
}

static struct text *make_text(struct stacks *s, const struct sproc *p, uint64_t time,
			      const struct kept *k, bool python)
{
	struct text *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	strbuf__reset(&s->sb);
	if (python)
		stack_cell__python(s, k, &s->sb);
	else
		t->replaced = stack_cell__c(s, p, time, k, &s->sb);
	t->end = k->end;
	t->data = malloc(s->sb.len + 1);
	if (!t->data || s->sb.failed) {
		s->sb.failed = false;
		free(t->data);
		free(t);
		return NULL;
	}
	memcpy(t->data, s->sb.data, s->sb.len);
	t->len = s->sb.len;
	s->text_bytes += t->len + sizeof(*t) + 32;
	return t;
}

/* The text of a stack in a process; NULL: it is not known. */
static const struct text *text_of(struct stacks *s, const struct sproc *p, uint64_t time,
				  uint64_t hash, bool python)
{
	/* A library that is closed and opened again is at another place. */
	uint64_t epoch = p && !python ? past_maps__epoch(&s->past, p->pid, time) : 0;
	struct hkey key = { hash ^ python, (p ? p->no : 0) << 32 | (uint32_t)epoch };
	const struct kept *k;
	uint64_t *v;

	if (!hash)
		return NULL;
	v = hmap__get(&s->texts, key);
	if (v)
		return (const struct text *)(uintptr_t)*v;
	if (!python)
		stack_copies__wanted(s, hash);
	k = stack_store__find(&s->store, hash, python);
	if (!k) {
		s->unknown++;
		return NULL;
	}
	v = hmap__put(&s->texts, key, NULL);
	if (!v)
		return NULL;
	*v = (uint64_t)(uintptr_t)make_text(s, p, time, k, python);
	if (!*v)
		hmap__del(&s->texts, key, NULL);
	v = hmap__get(&s->texts, key);
	return v ? (const struct text *)(uintptr_t)*v : NULL;
}

static void show(const struct text *t, const char **p, size_t *n)
{
	*p = t ? t->data : "NA";
	*n = t ? t->len : 2;
}

void stacks__cells(struct stacks *s, uint32_t tgid, uint32_t start, uint64_t time,
		   const struct mt_refs *refs, struct stack_cells *out)
{
	const struct text *t;
	const struct sproc *p;

	memset(out, 0, sizeof(*out));
	if (s->text_bytes > TEXTS_MAX)
		forget_texts(s);
	/* At the end of a recording the last events are younger than what is read for them. */
	while (stack_copies__young(s, refs->c))
		usleep(10000);
	pthread_mutex_lock(&s->lock);
	p = stacks__proc(s, tgid, start, time);
	if (s->opts.python)
		show(text_of(s, p, time, refs->py, true), &out->python, &out->python_len);
	if (s->opts.c) {
		t = text_of(s, p, time, refs->c, false);
		if (t && t->replaced) {
			s->copies.moved[t->end]--;
			s->copies.moved[MT_END_NOMAP]++;
		}
		show(t, &out->c, &out->c_len);
	}
	pthread_mutex_unlock(&s->lock);
}

/* ---- */

int stacks__new(const struct stacks_opts *o, struct stacks **out)
{
	struct stacks *s = calloc(1, sizeof(*s));
	struct unwind_sink sink = {
		s, put_chunk, put_pages, put_rules, put_maps, put_proc, on_file
	};
	struct symbols_opts names = { 0 };
	int err = 0;

	*out = NULL;
	if (!s)
		return -ENOMEM;
	s->opts = *o;
	s->store.max_bytes = o->max_bytes ? o->max_bytes : STACKS_MAX;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	pthread_cond_init(&s->idle, NULL);
	s->maps_sink = unwind_maps__sink(&s->opts.maps.unwind);
	if (o->c)
		err = unwind_store__new(&sink, 0, o->cache, &s->unwind);
	else if (o->cache >= 0)
		close(o->cache);
	if (err)
		goto fail;
	s->symbols = symbols__new(&names);
	if (!s->symbols) {
		err = -ENOMEM;
		goto fail;
	}
	err = stacks__start(s);
	if (err)
		goto fail;
	if (o->maps.targets >= 0) {
		int no_watch = stack_notices__start(s);

		if (no_watch)
			pr_debug("no thread for notices of mappings: %s", strerror(-no_watch));
	}
	*out = s;
	return 0;
fail:
	stacks__free(s);
	return err;
}

bool stacks__watches(const struct stacks *s)
{
	return s->watch;
}

void stacks__free(struct stacks *s)
{
	struct notice *n;
	size_t i;

	if (!s)
		return;
	stack_notices__stop(s);
	stacks__stop(s);
	stack_copies__free(s);
	forget_texts(s);
	while ((n = stack_notices__take(&s->notices)) || (n = stack_notices__take(&s->orphans)))
		free(n);
	for (i = 0; i < s->n_procs; i++) {
		python__close(s->procs[i]->py);
		free(s->procs[i]->maps);
		free(s->procs[i]);
	}
	for (i = 0; i < s->n_files; i++) {
		free(s->files[i].path);
		if (s->files[i].fd >= 0)
			close(s->files[i].fd);
	}
	for (i = 0; i < s->n_waiting; i++)
		free(s->waiting[i].rec);
	unwind_store__free(s->unwind);
	unwind_maps__close(&s->opts.maps.unwind);
	symbols__free(s->symbols);
	stack_store__free(&s->store);
	hmap__free(&s->by_proc);
	hmap__free(&s->told);
	strbuf__free(&s->sb);
	strbuf__free(&s->sb2);
	past_maps__free(&s->past);
	free(s->fresh_maps);
	free(s->procs);
	free(s->files);
	free(s->waiting);
	free(s->queue.pids);
	free(s->ended.pids);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->wake);
	pthread_cond_destroy(&s->idle);
	free(s);
}
