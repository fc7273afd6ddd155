// SPDX-License-Identifier: Apache-2.0
/* Processes whose stacks are walked, the stacks they send, the cells that show them. */
#include "symbol/copy_unwind.h"
#include "symbol/stacks_internal.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static int keep_maps(struct stacks *s, const struct mt_uw_map *m, uint32_t n)
{
	free(s->fresh_maps);
	s->n_fresh = 0;
	s->fresh_maps = malloc(n * sizeof(*m) + 1);
	if (!s->fresh_maps)
		return -ENOMEM;
	memcpy(s->fresh_maps, m, n * sizeof(*m));
	s->n_fresh = n;
	return 0;
}

static int put_maps(void *ctx, uint32_t first, const struct mt_uw_map *m, uint32_t n)
{
	struct stacks *s = ctx;
	int err = keep_maps(s, m, n);

	return err ? err : s->maps_sink.maps(s->maps_sink.ctx, first, m, n);
}

/* Not when it is old already: another library may be where it has one. */
static int put_proc(void *ctx, pid_t pid, const struct mt_uw_proc *p)
{
	struct stacks *s = ctx;
	int err = 0;

	if (p && stacks__stamp(s, pid) == s->stamp)
		err = s->maps_sink.proc(s->maps_sink.ctx, pid, p);
	__atomic_add_fetch(&s->published, 1, __ATOMIC_RELEASE);
	s->read_old = p && (err == -ENOENT || stacks__stamp(s, pid) != s->stamp);
	if (!p || s->read_old)
		s->maps_sink.proc(s->maps_sink.ctx, pid, NULL);
	/* Its place is gone with the program that was read: that is no lack of room. */
	return s->read_old ? 0 : err;
}

static bool has_proc(void *ctx, pid_t pid, const struct mt_uw_proc *p, const struct mt_uw_map *m)
{
	struct stacks *s = ctx;

	return stacks__stamp(s, pid) == s->stamp && !keep_maps(s, m, p->n) &&
	       s->maps_sink.has(s->maps_sink.ctx, pid, p, m);
}

static void each_owner(void *ctx, void (*fn)(void *to, const struct mt_uw_proc *p), void *to)
{
	struct stacks *s = ctx;

	s->maps_sink.owners(s->maps_sink.ctx, fn, to);
}

/* With the lock held. NULL: no memory. */
static struct sfile *file_place(struct stacks *s, uint32_t no)
{
	if (no > s->cap_files) {
		uint32_t cap = no + 256;
		void *more = realloc(s->files, cap * sizeof(*s->files));

		if (!more)
			return NULL;
		s->files = more;
		s->cap_files = cap;
	}
	while (s->n_files < no)
		s->files[s->n_files++] = (struct sfile){ .fd = -1 };
	return &s->files[no - 1];
}

static void on_file(void *ctx, uint32_t no, int fd, const char *path)
{
	struct stacks *s = ctx;
	struct sfile *f;

	pthread_mutex_lock(&s->lock);
	f = file_place(s, no);
	if (f) {
		f->path = strdup(path);
		f->fd = dup(fd);
		f->pid = s->reading;
		f->has_low = copy_space__low(fd, &f->low);
	}
	pthread_mutex_unlock(&s->lock);
}

static void on_twin(void *ctx, uint32_t no, uint32_t of)
{
	struct stacks *s = ctx;
	struct sfile *f;

	pthread_mutex_lock(&s->lock);
	f = file_place(s, no);
	if (f && of <= s->n_files) {
		*f = s->files[of - 1];
		f->path = f->path ? strdup(f->path) : NULL;
		f->fd = f->fd < 0 ? -1 : dup(f->fd);
	}
	pthread_mutex_unlock(&s->lock);
}

/* What is mapped while it is read makes it old. */
static void on_look(void *ctx, pid_t pid)
{
	struct stacks *s = ctx;

	s->stamp = stacks__stamp(s, pid);
	s->read_old = false;
	free(s->fresh_maps);
	s->fresh_maps = NULL;
	s->n_fresh = 0;
	s->maps_sink.look(s->maps_sink.ctx, pid);
}

/* A stack that was given up is sent again when it is met again. */
static void on_evict(void *ctx, uint64_t hash, bool python)
{
	struct stacks *s = ctx;

	bpf_map_delete_elem(python ? s->opts.maps.py_known : s->opts.maps.known, &hash);
}

/* ---- what the programs send ---- */

int stacks__not_added(struct stacks *s, int err)
{
	if (err == -EALREADY) /* cells that were made show one of the two */
		stack_text__forget(s);
	return err == -EEXIST || err == -EALREADY ? 0 : err;
}

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
		return stacks__not_added(s, err);
	k->uses = 1;
	k->end = r->end;
	k->guessed = r->guessed;
	s->store.guessed += r->guessed > 0;
	memcpy(k->frames, frames, r->n * sizeof(*frames));
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
	err = stack_names__define(s, rec, size, &later);
	return err == -EAGAIN ? wait_for_names(s, rec, size) : err;
}

static void name_waiting(struct stacks *s)
{
	uint64_t now = clock__boot();
	size_t i, kept = 0;

	for (i = 0; i < s->n_waiting; i++) {
		struct waiting *w = &s->waiting[i];
		bool later = w->until > now;

		if (stack_names__define(s, w->rec, w->size, &later) == -EAGAIN)
			s->waiting[kept++] = *w;
		else
			free(w->rec);
	}
	s->n_waiting = kept;
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

/* ---- */

int stacks__new(const struct stacks_opts *o, struct stacks **out)
{
	struct stacks *s = calloc(1, sizeof(*s));
	struct unwind_sink sink = { .ctx = s,
				    .chunk = put_chunk,
				    .pages = put_pages,
				    .rules = put_rules,
				    .maps = put_maps,
				    .proc = put_proc,
				    .file = on_file,
				    .twin = on_twin,
				    .look = on_look,
				    .has = has_proc,
				    .owners = each_owner };
	struct symbols_opts names = { 0 };
	pthread_condattr_t attr;
	int err = 0;

	*out = NULL;
	if (!s)
		return -ENOMEM;
	s->opts = *o;
	s->store.max_bytes = o->max_bytes ? o->max_bytes : STACKS_MAX;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	pthread_cond_init(&s->idle, &attr);
	pthread_condattr_destroy(&attr);
	s->maps_sink = unwind_maps__sink(&s->opts.maps.unwind);
	if (o->c)
		err = unwind_store__new(&sink, 0, o->cache, &s->unwind);
	else if (o->cache >= 0)
		close(o->cache);
	if (err)
		goto fail;
	s->store.evict = on_evict;
	s->store.evict_ctx = s;
	s->symbols = symbols__new(&names);
	s->sources = o->lines ? sources__new(0) : NULL;
	if (!s->symbols || (o->lines && !s->sources)) {
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
	size_t i;

	if (!s)
		return;
	stack_notices__stop(s);
	/* It still has all of it; the process ends soon. */
	if (!stacks__stop(s))
		return;
	deadline__close(&s->naming);
	deadline__close(&s->opening);
	stack_text__forget(s);
	stack_copies__free(s);
	stack_notices__free(s);
	stacks__pace_free(s);
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
	sources__free(s->sources);
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
	free(s->queue.v);
	free(s->ended.v);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->wake);
	pthread_cond_destroy(&s->idle);
	free(s);
}
