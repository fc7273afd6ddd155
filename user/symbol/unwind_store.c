// SPDX-License-Identifier: Apache-2.0
/*
 * The rows of all files that traced processes map, each file once: in chunks,
 * with rules that are common to all, within a bound.
 */
#include "symbol/unwind_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* When a file without room is tried again: it is not built before there is some. */
#define NO_ROOM_NS 2000000000ULL

/* ---- rules ---- */

static int common_rule(struct unwind_store *s, const struct mt_uw_rule *r, uint16_t *out)
{
	struct hkey k = { hash__bytes(r, sizeof(*r), 1), hash__bytes(r, sizeof(*r), 2) };
	uint64_t *v;
	bool fresh;
	int err;

	*out = MT_UW_RULE_OTHER;
	if (r->cfa == MT_CFA_OTHER)
		return 0;
	v = hmap__put(&s->by_rule, k, &fresh);
	if (!v)
		return -ENOMEM;
	if (!fresh) {
		*out = (uint16_t)*v;
		return 0;
	}
	if (s->stats.rules >= MT_UW_MAX_RULES) {
		*v = MT_UW_RULE_OTHER;
		s->stats.rules_lost++;
		return 0;
	}
	err = s->sink.rules(s->sink.ctx, s->stats.rules, r, 1);
	if (err) {
		hmap__del(&s->by_rule, k, NULL);
		return err;
	}
	*v = s->stats.rules;
	*out = (uint16_t)s->stats.rules++;
	return 0;
}

/* ---- chunks ---- */

static int end_chunk(struct unwind_store *s)
{
	if (!s->filled || s->filled == s->shown)
		return 0;
	s->shown = s->filled;
	return s->sink.chunk(s->sink.ctx, s->chunk_no, s->chunk);
}

static void remove_chunk(struct unwind_store *s, uint32_t no)
{
	s->sink.chunk(s->sink.ctx, no, NULL);
	s->chunks[no].held = true;
	unwind_store__give(s, HELD_CHUNK, (struct span){ no, 1 });
}

static int next_chunk(struct unwind_store *s)
{
	int err = end_chunk(s);
	uint32_t i;

	if (err)
		return err;
	if (s->open && !s->chunks[s->chunk_no].rows)
		remove_chunk(s, s->chunk_no);
	s->open = false;
	for (i = 0; i < s->n_chunks && (s->chunks[i].rows || s->chunks[i].held); i++)
		;
	if (i == s->n_chunks)
		return -ENOSPC;
	/* Nobody may look into what is left in it from before. */
	memset(s->chunk, 0, sizeof(*s->chunk));
	s->chunk_no = i;
	s->filled = s->shown = 0;
	s->open = true;
	return 0;
}

static void chunk_lose(struct unwind_store *s, uint32_t no, uint32_t rows)
{
	s->chunks[no].rows -= rows;
	s->stats.rows -= rows;
	if (s->chunks[no].rows)
		return;
	s->stats.chunks--;
	if (!s->open || no != s->chunk_no)
		remove_chunk(s, no);
}

/* A page's rows into a chunk; where they are. */
static int place(struct unwind_store *s, const struct mt_uw_row *rows, uint32_t n,
		 const uint16_t *rules, struct mt_uw_page *out)
{
	uint32_t i;
	int err;

	if (!s->open || n > MT_UW_CHUNK - s->filled) {
		err = next_chunk(s);
		if (err)
			return err;
	}
	*out = (struct mt_uw_page){ (uint16_t)s->chunk_no, (uint16_t)s->filled, n };
	for (i = 0; i < n; i++)
		s->chunk->rows[s->filled + i] = (struct mt_uw_row){ rows[i].pc,
								    rules[rows[i].rule] };
	s->filled += n;
	if (!s->chunks[s->chunk_no].rows)
		s->stats.chunks++;
	s->chunks[s->chunk_no].rows += n;
	s->stats.rows += n;
	return 0;
}

/* ---- files ---- */

void unwind_store__take_away(struct unwind_store *s, struct ufile *f)
{
	uint32_t i;

	for (i = 0; i < f->n_pages; i++)
		if (f->places[i].n)
			chunk_lose(s, f->places[i].chunk, f->places[i].n);
	unwind_store__give(s, HELD_PAGES, (struct span){ f->page, f->n_pages });
	s->stats.pages -= f->n_pages;
	s->stats.tables--;
	free(f->places);
	f->places = NULL;
	f->n_pages = 0;
}

static int put_table(struct unwind_store *s, struct ufile *f, const struct unwind_table *t)
{
	uint16_t *rules = calloc(t->n_rules, sizeof(*rules));
	struct mt_uw_page *places;
	uint32_t i;
	int err = rules ? 0 : -ENOMEM;

	for (i = 1; i < t->n_rules && !err; i++)
		err = common_rule(s, &t->rules[i], &rules[i]);
	places = err ? NULL : calloc(t->n_pages, sizeof(*places));
	if (!err)
		err = places ? spans__take(&s->pages, t->n_pages, &f->page) : -ENOMEM;
	if (err) {
		free(places);
		goto out;
	}
	f->places = places;
	f->n_pages = t->n_pages;
	f->page_no = (uint32_t)(t->base >> MT_UW_PAGE_SHIFT);
	s->stats.pages += f->n_pages;
	s->stats.tables++;
	for (i = 0; i < t->n_pages && !err; i++)
		if (t->pages[i].n)
			err = place(s, t->rows + t->pages[i].first, t->pages[i].n, rules,
				    &f->places[i]);
	if (!err)
		err = end_chunk(s);
	if (!err)
		err = s->sink.pages(s->sink.ctx, f->page, f->places, f->n_pages);
	if (err)
		unwind_store__take_away(s, f);
out:
	free(rules);
	return err;
}

/* From the disk, or built and put there. */
static int table_of(struct unwind_store *s, struct ufile *f, int fd, struct unwind_table **t)
{
	int err;

	if (s->cache >= 0 && !unwind_cache__load(s->cache, f->id, f->id_len, t)) {
		s->stats.cached++;
		return 0;
	}
	err = unwind_table__build_fd(fd, t);
	if (!err && s->cache >= 0)
		unwind_cache__save(s->cache, f->id, f->id_len, *t); /* next time then */
	return err;
}

static void set_no_room(struct unwind_store *s, struct ufile *f, bool v)
{
	if (v != f->no_room)
		s->stats.no_room += v ? 1 : -1;
	f->no_room = v;
}

void unwind_store__build(struct unwind_store *s, struct ufile *f, int fd)
{
	struct unwind_table *t;

	f->built = true;
	f->evicted = false;
	f->err = table_of(s, f, fd, &t);
	if (f->err)
		return;
	unwind_store__settle(s);
	f->need = unwind_room__of(s, t);
	if (unwind_room__too_large(s, f->need)) {
		f->err = -EFBIG;
		s->stats.too_large++;
	} else if (!unwind_room__fits(s, f->need, false)) {
		f->err = -ENOSPC;
	} else {
		f->err = put_table(s, f, t);
	}
	unwind_table__free(t);
	if (f->err == -ENOSPC)
		f->built = false; /* unwind_store__may_build says when */
	else
		set_no_room(s, f, false);
}

bool unwind_store__may_build(struct unwind_store *s, struct ufile *f, uint64_t *again)
{
	uint64_t now = clock__boot(), when = f->retry;

	if (!f->need.pages)
		return true; /* nobody knows yet what it takes */
	unwind_store__settle(s);
	if (now >= when) {
		if (unwind_room__fits(s, f->need, false))
			return true;
		/* What goes now can be used when nobody reads it any more. */
		when = unwind_room__make(s, f->need);
		set_no_room(s, f, !when);
		if (!when)
			when = now + NO_ROOM_NS;
		f->retry = when;
	}
	if (!*again || when < *again)
		*again = when;
	return false;
}

struct ufile *unwind_store__add(struct unwind_store *s, const char *path)
{
	struct ufile *f = NULL;

	if (s->n_files == s->cap_files) {
		uint32_t cap = s->cap_files + 256;
		void *more = realloc(s->files, cap * sizeof(void *));

		if (!more)
			return NULL;
		s->files = more;
		s->cap_files = cap;
	}
	if (s->n_files >> MT_FRAME_FILE_BITS)
		return NULL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->path = strdup(path);
	if (!f->path) {
		free(f);
		return NULL;
	}
	s->files[s->n_files++] = f;
	f->no = s->n_files; /* 0 is none */
	s->stats.files++;
	return f;
}

static void read_code(struct ufile *f, int fd)
{
	struct elf_image *img;
	size_t n;

	f->err = elf_image__open_fd(fd, f->path, &img);
	if (f->err)
		return;
	n = elf_image__code(img, f->code, MAX_CODE);
	f->n_code = (uint32_t)MT_MIN(n, (size_t)MAX_CODE);
	f->id_len = elf_image__build_id(img, f->id);
	elf_image__close(img);
}

/* What makes a file on disk another one. */
struct file_what {
	uint64_t dev, ino, size, sec, ns;
};

struct ufile *unwind_store__file(struct unwind_store *s, int fd, const char *path)
{
	struct file_what what;
	struct stat st;
	struct ufile *f;
	struct hkey k;
	uint64_t *v;
	bool fresh;

	if (fstat(fd, &st))
		return NULL;
	/*
	 * A file that is written again keeps its number and is another one all the same: it may
	 * have its old time of change, but nobody can set st_ctim.
	 */
	what = (struct file_what){ .dev = st.st_dev,
				   .ino = st.st_ino,
				   .size = (uint64_t)st.st_size,
				   .sec = (uint64_t)st.st_ctim.tv_sec,
				   .ns = (uint64_t)st.st_ctim.tv_nsec };
	k = (struct hkey){ hash__bytes(&what, sizeof(what), 9),
			   hash__bytes(&what, sizeof(what), 10) };
	v = hmap__put(&s->by_file, k, &fresh);
	if (!v)
		return NULL;
	if (fresh) {
		f = unwind_store__add(s, path);
		if (!f) {
			hmap__del(&s->by_file, k, NULL);
			return NULL;
		}
		*v = f->no;
		f->dev = st.st_dev;
		f->ino = st.st_ino;
		read_code(f, fd);
		/* The rows of this very file: what it calls itself anybody can say. */
		if (f->id_len && f->id_len + sizeof(k.a) <= sizeof(f->id)) {
			memcpy(f->id + f->id_len, &k.a, sizeof(k.a));
			f->id_len += sizeof(k.a);
		} else {
			f->id_len = 0;
		}
		if (s->sink.file)
			s->sink.file(s->sink.ctx, f->no, fd, path);
	} else {
		f = s->files[*v - 1];
	}
	f->used = ++s->clock;
	return f;
}

bool ufile__waits(const struct ufile *f)
{
	return f->n_code && (!f->built || f->evicted);
}

const char *unwind_store__path(const struct unwind_store *s, uint32_t file)
{
	return file && file <= s->n_files ? s->files[file - 1]->path : NULL;
}

bool unwind_store__is_one(const struct unwind_store *s, uint32_t a, uint32_t b)
{
	const struct ufile *x, *y;

	if (a == b)
		return true;
	if (!a || !b || a > s->n_files || b > s->n_files)
		return false;
	x = s->files[a - 1];
	y = s->files[b - 1];
	return x->ino && x->ino == y->ino && x->dev == y->dev;
}

void unwind_store__stats(const struct unwind_store *s, struct unwind_stats *out)
{
	*out = s->stats;
}

int unwind_store__new(const struct unwind_sink *sink, uint32_t max_chunks, int cache,
		      struct unwind_store **out)
{
	static const struct mt_uw_rule first[] = { { .cfa = MT_CFA_NONE },
						   { .cfa = MT_CFA_OTHER } };
	struct unwind_store *s = calloc(1, sizeof(*s));
	int err = -ENOMEM;

	*out = NULL;
	if (!s)
		return -ENOMEM;
	s->sink = *sink;
	s->cache = cache;
	s->n_chunks = max_chunks && max_chunks < MT_UW_MAX_CHUNKS ? max_chunks : MT_UW_MAX_CHUNKS;
	s->chunks = calloc(s->n_chunks, sizeof(*s->chunks));
	s->chunk = malloc(sizeof(*s->chunk));
	if (!s->chunks || !s->chunk || spans__init(&s->pages, MT_UW_MAX_PAGES) ||
	    spans__init(&s->maps, MT_UW_MAX_MAPS))
		goto fail;
	s->stats.rules = MT_UW_RULE_OTHER + 1;
	err = sink->rules(sink->ctx, 0, first, 2);
	if (err)
		goto fail;
	*out = s;
	return 0;
fail:
	unwind_store__free(s);
	return err;
}

void unwind_store__free(struct unwind_store *s)
{
	uint32_t i;

	if (!s)
		return;
	unwind_store__free_procs(s);
	deadline__close(&s->opening);
	if (s->cache >= 0)
		close(s->cache);
	for (i = 0; i < s->n_files; i++) {
		free(s->files[i]->places);
		free(s->files[i]->path);
		free(s->files[i]);
	}
	free(s->files);
	free(s->chunks);
	free(s->chunk);
	for (i = 0; i < s->n_held; i++)
		free(s->held[i].files);
	free(s->held);
	spans__fini(&s->pages);
	spans__fini(&s->maps);
	hmap__free(&s->by_rule);
	hmap__free(&s->by_file);
	free(s);
}
