// SPDX-License-Identifier: Apache-2.0
/* The mappings of a process, as the unwinder reads them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbol/unwind_store.h"
#include "target/target.h"

#define MAX_VDSO (1U << 20)
/* Tables are made for so long before those that are there are shown. */
#define SHOW_NS 100000000ULL
/* Mappings without room are tried again. */
#define NO_ROOM_NS 1000000000ULL
#define SOON_NS 500000000ULL
/* Files of a target are waited for so long, where they may be nobody's. */
#define OPEN_MS 1000
/* Files that are held open for it. */
#define MAX_WAITING 256

/* A file whose rows are to be built. */
struct waiting {
	struct ufile *f;
	int fd;
	uint64_t size;
};

struct reading {
	struct unwind_store *s;
	pid_t pid;
	struct mt_uw_map *maps;
	uint32_t n, cap;
	uint32_t *files;
	uint32_t n_files, cap_files;
	struct waiting *waiting;
	uint32_t n_waiting, cap_waiting;
	uint32_t n_over; /* mappings that have no place */
	uint64_t again; /* when it is to be looked at again; 0: no need */
};

static void later(struct reading *r, uint64_t when)
{
	if (!r->again || when < r->again)
		r->again = when;
}

static int note_file(struct reading *r, uint32_t no)
{
	uint32_t i;

	/* Mappings of a file lie side by side. */
	for (i = r->n_files; i > 0 && i + 4 > r->n_files; i--)
		if (r->files[i - 1] == no)
			return 0;
	if (r->n_files == r->cap_files) {
		uint32_t cap = r->cap_files + 128;
		void *more = realloc(r->files, cap * sizeof(*r->files));

		if (!more)
			return -ENOMEM;
		r->files = more;
		r->cap_files = cap;
	}
	r->files[r->n_files++] = no;
	return 0;
}

/* Takes the descriptor over. */
static int wait_for(struct reading *r, struct ufile *f, int fd)
{
	struct stat st;
	uint32_t i;

	for (i = 0; i < r->n_waiting; i++)
		if (r->waiting[i].f == f)
			break;
	if (i < r->n_waiting || fstat(fd, &st)) {
		close(fd);
		return 0;
	}
	if (r->n_waiting == r->cap_waiting) {
		uint32_t cap = r->cap_waiting + 64;
		void *more = realloc(r->waiting, cap * sizeof(*r->waiting));

		if (!more) {
			close(fd);
			return -ENOMEM;
		}
		r->waiting = more;
		r->cap_waiting = cap;
	}
	r->waiting[r->n_waiting++] = (struct waiting){ f, fd, (uint64_t)st.st_size };
	return 0;
}

/* The vdso is no file: what the process sees there, in one. fd or -errno. */
static int copy_vdso(pid_t pid, const struct mapping *m)
{
	size_t n = (size_t)(m->end - m->start);
	char *buf;
	int fd = -1;

	if (n > MAX_VDSO)
		return -EFBIG;
	buf = malloc(n);
	if (buf && proc__memory(pid, m->start, buf, n) == (ssize_t)n) {
		fd = memfd_create("vdso", MFD_CLOEXEC);
		if (fd >= 0 && fd__write_all(fd, buf, n)) {
			close(fd);
			fd = -1;
		}
	}
	free(buf);
	return fd < 0 ? -EIO : fd;
}

/* The one vdso of a kind: by its content. */
static struct ufile *vdso_file(struct unwind_store *s, int fd)
{
	char *text = NULL;
	ssize_t n = lseek(fd, 0, SEEK_SET) < 0 ? -errno : fd__read_all(fd, MAX_VDSO, &text);
	struct hkey k;
	uint64_t *v;
	bool fresh;
	struct ufile *f;

	if (n < 0)
		return NULL;
	k = (struct hkey){ hash__bytes(text, (size_t)n, 3), hash__bytes(text, (size_t)n, 4) };
	free(text);
	v = hmap__put(&s->by_file, k, &fresh);
	if (!v)
		return NULL;
	if (!fresh && *v)
		return s->files[*v - 1];
	f = unwind_store__file(s, fd, "[vdso]");
	/* The table may have moved. */
	v = hmap__get(&s->by_file, k);
	if (f && v)
		*v = f->no;
	return f;
}

/*
 * Address in the file of what is mapped from an offset, which is that of a whole
 * page: of a segment it may hold bytes before the first, or of the one before.
 */
static bool code_at(const struct ufile *f, const struct mapping *m, uint64_t *vaddr)
{
	uint64_t end = m->offset + (m->end - m->start);
	uint32_t i;

	for (i = 0; i < f->n_code; i++) {
		const struct elf_code *c = &f->code[i];

		if (c->off < end && c->off + c->size > m->offset) {
			*vaddr = c->vaddr + (m->offset - c->off);
			return true;
		}
	}
	return false;
}

static void fill(struct mt_uw_map *to, const struct ufile *f, const struct mapping *m)
{
	uint64_t vaddr;

	to->file = f->no;
	if (!code_at(f, m, &vaddr)) {
		to->bias = m->start - m->offset;
		return;
	}
	to->bias = m->start - vaddr;
	to->page = f->page;
	to->page_no = f->page_no;
	to->pages = f->n_pages;
}

void unwind_store__place(struct unwind_store *s, pid_t pid, int fd, const struct mapping *m,
			 struct mt_uw_map *to)
{
	struct ufile *f = unwind_store__file(s, fd, m->path);
	const uint64_t *v = hmap__get(&s->by_pid, (struct hkey){ (uint64_t)pid, 0 });
	const struct uproc *p = v ? (const struct uproc *)(uintptr_t)*v : NULL;

	if (!f)
		return;
	fill(to, f, m);
	if (p && p->copy)
		to->file = unwind_twins__number(s, p->copy, p->maps.n, f->no, to->bias);
}

static int on_mapping(void *ctx, const struct mapping *m)
{
	struct reading *r = ctx;
	struct ufile *f = NULL;
	int fd = -1;

	/* More are not looked at by the programs either. */
	if (r->n == 1U << MT_UW_MAPS_SHIFT) {
		r->n_over++;
		return 0;
	}
	if (r->n == r->cap) {
		uint32_t cap = r->cap + 128;
		void *more = realloc(r->maps, cap * sizeof(*r->maps));

		if (!more)
			return -ENOMEM;
		r->maps = more;
		r->cap = cap;
	}
	r->maps[r->n] = (struct mt_uw_map){ .start = m->start, .end = m->end };
	if (*m->path == '/') {
		fd = mapping__open_within(&r->s->opening, r->pid, m, OPEN_MS);
		f = fd < 0 ? NULL : unwind_store__file(r->s, fd, m->path);
	} else if (strcmp(m->path, "[vdso]") == 0) {
		fd = copy_vdso(r->pid, m);
		f = fd < 0 ? NULL : vdso_file(r->s, fd);
	}
	if (f)
		fill(&r->maps[r->n], f, m);
	r->n++;
	if (f && ufile__waits(f) && r->n_waiting < MAX_WAITING) {
		int err = wait_for(r, f, fd);

		return err ? err : note_file(r, f->no);
	}
	if (fd >= 0)
		close(fd);
	return f ? note_file(r, f->no) : 0;
}

static struct uproc *proc_of(struct unwind_store *s, pid_t pid)
{
	bool fresh;
	uint64_t *v = hmap__put(&s->by_pid, (struct hkey){ (uint64_t)pid, 0 }, &fresh);

	if (!v)
		return NULL;
	if (fresh) {
		struct uproc *p = calloc(1, sizeof(*p));

		if (!p) {
			hmap__del(&s->by_pid, (struct hkey){ (uint64_t)pid, 0 }, NULL);
			return NULL;
		}
		p->pid = pid;
		s->stats.procs++;
		*v = (uint64_t)(uintptr_t)p;
	}
	return (struct uproc *)(uintptr_t)*v;
}

/* Its mappings have no room, or have some again. */
static void set_lost(struct unwind_store *s, struct uproc *p, bool v)
{
	if (v != p->lost)
		s->stats.procs_lost += v ? 1 : -1;
	p->lost = v;
}

/* What the programs have is what was read now: nothing is written, nothing given back. */
static bool is_shown(const struct reading *r, const struct uproc *p)
{
	const struct unwind_sink *to = &r->s->sink;

	return p->copy && p->maps.n == r->n && !memcmp(p->copy, r->maps, r->n * sizeof(*r->maps)) &&
	       (!to->has || to->has(to->ctx, r->pid, &p->shown, r->maps));
}

static int no_room(struct reading *r, struct uproc *p)
{
	uint64_t when = unwind_store__next(r->s, HELD_MAPS);

	/* What it has is shown on: what was mapped over is not there any more. */
	set_lost(r->s, p, true);
	r->s->stats.maps_waited++;
	later(r, when ? when : clock__boot() + NO_ROOM_NS);
	return -ENOSPC;
}

static int show(struct reading *r)
{
	struct unwind_store *s = r->s;
	struct uproc *p = proc_of(s, r->pid), old;
	struct mt_uw_proc to = { .n = r->n, .owner = (uint32_t)r->pid };
	uint32_t i;
	int err;

	if (!p)
		return -ENOMEM;
	err = unwind_twins__assign(s, p->copy, p->copy ? p->maps.n : 0, r->maps, r->n);
	if (err)
		return err;
	if (is_shown(r, p))
		return 0;
	unwind_store__settle(s);
	err = r->n ? spans__take(&s->maps, r->n, &to.first) : -ESRCH;
	if (err == -ENOSPC)
		return no_room(r, p);
	if (err) {
		unwind_store__forget(s, r->pid);
		return err;
	}
	old = *p;
	if (!++s->gen)
		s->gen = 1;
	to.gen = s->gen;
	*p = (struct uproc){ .pid = r->pid,
			     .maps = { to.first, to.n },
			     .files = r->files,
			     .n_files = r->n_files,
			     .shown = to,
			     .lost = old.lost };
	r->files = NULL;
	s->stats.maps += to.n;
	for (i = 0; i < p->n_files; i++)
		s->files[p->files[i] - 1]->procs++;
	err = s->sink.maps(s->sink.ctx, to.first, r->maps, to.n);
	if (!err)
		err = s->sink.proc(s->sink.ctx, r->pid, &to);
	unwind_store__give_maps(s, &old);
	free(old.copy);
	set_lost(s, p, err);
	if (err) {
		later(r, clock__boot() + NO_ROOM_NS);
		return err;
	}
	/* Each mapping is compared: it is written down whole. */
	p->copy = r->maps;
	r->maps = NULL;
	return 0;
}

static int by_size(const void *a, const void *b)
{
	const struct waiting *x = a, *y = b;

	return x->size < y->size ? -1 : x->size > y->size;
}

/*
 * The smallest first: the drivers, allocators and C libraries of a process, and most of
 * its stacks, have theirs before the first of the giants has.
 */
static void build_some(struct reading *r)
{
	uint64_t end = clock__boot() + SHOW_NS;
	uint32_t i;

	if (!r->n_waiting)
		return;
	qsort(r->waiting, r->n_waiting, sizeof(*r->waiting), by_size);
	for (i = 0; i < r->n_waiting; i++) {
		struct ufile *f = r->waiting[i].f;

		if (i && clock__boot() >= end)
			later(r, 1);
		else if (unwind_store__may_build(r->s, f, &r->again)) {
			unwind_store__build(r->s, f, r->waiting[i].fd);
			later(r, 1); /* to be shown */
		}
		close(r->waiting[i].fd);
	}
}

int unwind_store__look(struct unwind_store *s, pid_t pid, uint64_t *again)
{
	struct reading r = { .s = s, .pid = pid };
	int err;

	s->since = s->clock;
	if (s->sink.look)
		s->sink.look(s->sink.ctx, pid);
	err = proc__each_code(pid, on_mapping, &r);
	if (err)
		unwind_store__forget(s, pid);
	else
		err = show(&r);
	build_some(&r);
	*again = err && err != -ENOSPC && err != -E2BIG ? 0 : r.again;
	if (r.n_over > s->stats.maps_over)
		s->stats.maps_over = r.n_over;
	free(r.waiting);
	free(r.maps);
	free(r.files);
	return err;
}

int unwind_store__process(struct unwind_store *s, pid_t pid)
{
	uint64_t again, now;
	int err;

	for (;;) {
		err = unwind_store__look(s, pid, &again);
		now = clock__boot();
		if (!again || again > now + SOON_NS)
			return err;
		if (again > now)
			usleep((useconds_t)((again - now) / 1000) + 1);
	}
}

void unwind_store__forget(struct unwind_store *s, pid_t pid)
{
	uint64_t v;
	struct uproc *p;

	/* Also one that was never read: it has what its parent had. */
	s->sink.proc(s->sink.ctx, pid, NULL);
	if (!hmap__del(&s->by_pid, (struct hkey){ (uint64_t)pid, 0 }, &v))
		return;
	p = (struct uproc *)(uintptr_t)v;
	unwind_store__give_maps(s, p);
	s->stats.procs--;
	free(p->copy);
	free(p);
}

void unwind_store__free_procs(struct unwind_store *s)
{
	size_t pos = 0;
	struct hkey k;
	uint64_t v;

	while (hmap__next(&s->by_pid, &pos, &k, &v)) {
		struct uproc *p = (struct uproc *)(uintptr_t)v;

		free(p->files);
		free(p->copy);
		free(p);
	}
	hmap__free(&s->by_pid);
}
