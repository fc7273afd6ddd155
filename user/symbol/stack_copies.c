// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks that were cut in the kernel, completed over copies of them: pieces are collected, and
 * unwound a moment later, when what was mapped then has been read, or when a cell wants them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/copy_unwind.h"
#include "symbol/stacks_internal.h"
#include "symbol/symbols.h"

/* What waits to be unwound. */
#define MAX_BYTES (64u << 20)
/* Notices of mappings are read at once, but a table may be in the making. */
#define SETTLE_NS 100000000ULL
#define PATIENCE_NS 600000000ULL
/* Of each 20 ms the thread that hands out events may spend so much. */
#define SLICE_NS 8000000ULL

struct pending_copy {
	struct pending_copy *next;
	uint64_t hash;
	bool done; /* it stays in the list until it is the first */
	bool closed; /* what follows is of another copy of the same stack */
	struct stack_copy c;
	uint8_t *bytes;
};

static struct hkey key_of(uint64_t hash)
{
	return (struct hkey){ hash, 0 };
}

static struct pending_copy *find(const struct stacks *s, uint64_t hash)
{
	uint64_t *v = hmap__get(&s->copies.by_hash, key_of(hash));

	return v ? (struct pending_copy *)(uintptr_t)*v : NULL;
}

static int begin(struct stacks *s, const struct mt_copy *r)
{
	struct pending_copy *p;
	uint64_t *v;

	if (!r->hash[0])
		return -EBADMSG;
	p = find(s, r->hash[0]);
	if (p) {
		p->closed = true;
		return 0;
	}
	if (s->copies.bytes > MAX_BYTES) {
		s->copies.dropped++;
		return 0;
	}
	p = calloc(1, sizeof(*p));
	v = p ? hmap__put(&s->copies.by_hash, key_of(r->hash[0]), NULL) : NULL;
	if (!v) {
		free(p);
		return -ENOMEM;
	}
	*v = (uint64_t)(uintptr_t)p;
	p->hash = r->hash[0];
	p->c = (struct stack_copy){ .head = *r };
	*(s->copies.last ? &s->copies.last->next : &s->copies.first) = p;
	s->copies.last = p;
	s->copies.bytes += sizeof(*p);
	return 0;
}

static int add_piece(struct stacks *s, const struct mt_copy_piece *r)
{
	struct pending_copy *p = find(s, r->hash[0]);
	uint8_t *more;

	if (!p || p->closed || p->c.head.hash[1] != r->hash[1] ||
	    p->c.n + sizeof(r->bytes) > MT_COPY_MAX + MT_COPY_PIECE)
		return 0;
	if (!p->c.n)
		p->c.from = r->addr;
	/* One in between was lost. */
	if (r->addr != p->c.from + p->c.n)
		return 0;
	more = realloc(p->bytes, p->c.n + sizeof(r->bytes));
	if (!more)
		return -ENOMEM;
	p->bytes = more;
	s->copies.bytes += sizeof(r->bytes);
	memcpy(p->bytes + p->c.n, r->bytes, sizeof(r->bytes));
	p->c.n += sizeof(r->bytes);
	return 0;
}

int stack_copies__define(struct stacks *s, const void *rec, size_t size)
{
	const struct mt_hdr *h = rec;

	if (h->type == MT_REC_COPY)
		return size < sizeof(struct mt_copy) ? -EBADMSG : begin(s, rec);
	return size < sizeof(struct mt_copy_piece) ? -EBADMSG : add_piece(s, rec);
}

/* ---- unwinding ---- */

static int file_of(void *ctx, uint32_t no)
{
	return stack_cell__file((struct stacks *)ctx, no);
}

static bool low_of(void *ctx, uint32_t no, uint64_t *low)
{
	const struct stacks *s = ctx;

	if (!no || no > s->n_files || !s->files[no - 1].has_low)
		return false;
	*low = s->files[no - 1].low;
	return true;
}

/* The code that the process had then; the one of the last copy, if it is the same. */
static struct copy_space *space_of(struct stacks *s, const struct mt_hdr *h)
{
	const struct sproc *p = stacks__proc(s, h->tgid, h->start, h->time);
	const struct copy_files files = { s, file_of, low_of };
	struct mt_uw_map *maps;
	ssize_t n = past_maps__at(&s->past, (pid_t)h->tgid, h->time, p ? p->maps : NULL,
				  p ? p->n_maps : 0, &maps);

	if (n < 0)
		return NULL;
	if (!copy_space__is(s->copies.space, maps, (size_t)n)) {
		copy_space__free(s->copies.space);
		s->copies.space = NULL;
		copy_space__new(maps, (size_t)n, &files, &s->copies.space);
	}
	free(maps);
	return s->copies.space;
}

static uint64_t frame_of(const struct copy_space *sp, const struct copy_frame *f)
{
	const struct mt_uw_map *m = copy_space__map(sp, f->pc - !f->exact);
	uint64_t v = m && m->file ? (uint64_t)m->file << MT_FRAME_FILE_SHIFT |
					    ((f->pc - m->bias) & MT_FRAME_ADDR)
				  : MT_FRAME_RAW | (f->pc & ((1ULL << 56) - 1));

	return f->exact ? v | MT_FRAME_EXACT : v;
}

/* Is it known what was mapped then? Before, a stack would be walked by what was there earlier.
 * With the lock held. */
static bool is_known(const struct stacks *s, const struct pending_copy *p)
{
	const uint64_t *v = hmap__get(&s->paces, (struct hkey){ p->c.head.h.tgid, 0 });
	const struct pace *own = v ? (const struct pace *)(uintptr_t)*v : NULL;
	uint64_t then = p->c.head.h.time;

	return !s->watch || (s->heard > then && s->deaf < then && !(own && own->deaf >= then));
}

/* With the lock held. */
static void mend(struct stacks *s, struct pending_copy *p)
{
	struct copy_frame frames[MT_UW_MAX_FRAMES];
	struct kept *k = stack_store__find(&s->store, p->hash, false), *more;
	uint32_t max = MT_UW_MAX_FRAMES, i;
	struct copy_space *sp;
	uint8_t was, end;
	bool root;
	int n;

	if (!k || k->placed || k->verify != p->c.head.hash[1])
		return;
	if (!is_known(s, p) || stack_notices__waiting(s, (pid_t)p->c.head.h.tgid)) {
		s->copies.failed++;
		return;
	}
	if (s->opts.c_depth)
		max = MT_MIN(max, s->opts.c_depth);
	sp = space_of(s, &p->c.head.h);
	p->c.bytes = p->bytes;
	n = sp ? copy_space__unwind(sp, &p->c, frames, max, &root) : -ENOMEM;
	if (n <= 0 || (!root && (uint32_t)n <= k->n)) {
		s->copies.failed++;
		return;
	}
	was = k->end;
	end = root ? MT_END_ROOT : (uint32_t)n == max ? MT_END_DEEP : was;
	more = stack_store__grow(&s->store, k, (uint32_t)n);
	if (!more) {
		s->copies.dropped++;
		return;
	}
	for (i = 0; i < (uint32_t)n; i++) {
		more->frames[i] = frame_of(sp, &frames[i]);
		/* At the end of the run the process may have something else there. */
		more->frames[n + i] = frames[i].pc;
	}
	/* libdw, too, follows frame records where there is no description. */
	if (was == MT_END_NOROW && !more->guessed) {
		more->guessed = 1;
		s->store.guessed++;
	}
	more->was = was;
	more->end = end;
	s->copies.longer += !root;
	stack_copies__used(s, more, more->uses);
}

void stack_copies__used(struct stacks *s, const struct kept *k, uint32_t uses)
{
	if (!k->placed)
		return;
	s->copies.moved[k->was] -= uses;
	s->copies.moved[k->end] += uses;
	if (stack_end__complete(k->end))
		s->copies.completed += uses;
}

static void take_out(struct stacks *s, struct pending_copy *p)
{
	hmap__del(&s->copies.by_hash, key_of(p->hash), NULL);
	p->done = true;
}

static void drop_first(struct stacks *s)
{
	struct pending_copy *p = s->copies.first;

	s->copies.first = p->next;
	if (!s->copies.first)
		s->copies.last = NULL;
	s->copies.bytes -= sizeof(*p) + p->c.n;
	free(p->bytes);
	free(p);
}

void stack_copies__wanted(struct stacks *s, uint64_t hash)
{
	struct pending_copy *p = find(s, hash);

	if (!p)
		return;
	mend(s, p);
	take_out(s, p);
}

/* Will what was mapped then be read? With the lock held. */
static bool is_pending(const struct stacks *s, const struct pending_copy *p)
{
	return stacks__is_pending(s, (pid_t)p->c.head.h.tgid) || !is_known(s, p);
}

bool stack_copies__young(struct stacks *s, uint64_t hash)
{
	const struct pending_copy *p = hash ? find(s, hash) : NULL;
	uint64_t age = p ? clock__boot() - p->c.head.h.time : UINT64_MAX;
	bool young;

	if (age >= PATIENCE_NS)
		return false;
	pthread_mutex_lock(&s->lock);
	young = age < SETTLE_NS || is_pending(s, p);
	pthread_mutex_unlock(&s->lock);
	return young;
}

void stack_copies__settle(struct stacks *s, bool all)
{
	uint64_t began = clock__boot(), age;
	struct pending_copy *p;

	pthread_mutex_lock(&s->lock);
	while ((p = s->copies.first)) {
		age = began - MT_MIN(began, p->c.head.h.time);
		if (!p->done && !all &&
		    (age < SETTLE_NS || (is_pending(s, p) && age < PATIENCE_NS)))
			break;
		if (!p->done) {
			mend(s, p);
			take_out(s, p);
		}
		drop_first(s);
		if (!all && clock__boot() - began > SLICE_NS)
			break;
	}
	pthread_mutex_unlock(&s->lock);
}

void stack_copies__free(struct stacks *s)
{
	while (s->copies.first)
		drop_first(s);
	hmap__free(&s->copies.by_hash);
	copy_space__free(s->copies.space);
}
