// SPDX-License-Identifier: Apache-2.0
/* Files whose addresses may be asked for: known by identity, kept open whatever becomes of them. */
#include "symbol/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/elf.h"
#include "symbol/debugfile.h"

#define DEFAULT_BYTES (128u << 20)
#define DEFAULT_FILES 2048u

static struct hkey id_key(const struct file_id *id)
{
	return (struct hkey){ hash__bytes(id->bytes, id->len, id->kind),
			      hash__bytes(id->bytes, id->len, id->kind + 16u) };
}

/* ---- order of use ---- */

static void unlink_file(struct symbols *s, struct file *f)
{
	*(f->newer ? &f->newer->older : &s->newest) = f->older;
	*(f->older ? &f->older->newer : &s->oldest) = f->newer;
	f->newer = f->older = NULL;
}

static void push_newest(struct symbols *s, struct file *f)
{
	f->older = s->newest;
	*(s->newest ? &s->newest->newer : &s->oldest) = f;
	s->newest = f;
}

void symbols__used(struct symbols *s, struct file *f)
{
	if (s->newest == f)
		return;
	unlink_file(s, f);
	push_newest(s, f);
}

/* ---- files ---- */

static void free_file(struct symbols *s, struct file *f)
{
	symbols__unload(s, f);
	unlink_file(s, f);
	hmap__del(&s->by_id, id_key(&f->id), NULL);
	if (f->fd >= 0)
		close(f->fd);
	if (f->debug_fd >= 0)
		close(f->debug_fd);
	free(f->spans);
	free(f);
	s->stats.files--;
}

static void drop_oldest(struct symbols *s)
{
	free_file(s, s->oldest);
	s->stats.dropped++;
	/* It may stand there under several inodes: simply learn them again. */
	hmap__free(&s->by_inode);
}

struct symbols *symbols__new(const struct symbols_opts *o)
{
	struct symbols *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (o)
		s->opts = *o;
	if (!s->opts.max_bytes)
		s->opts.max_bytes = DEFAULT_BYTES;
	if (!s->opts.max_files)
		s->opts.max_files = DEFAULT_FILES;
	return s;
}

void symbols__free(struct symbols *s)
{
	if (!s)
		return;
	while (s->oldest)
		free_file(s, s->oldest);
	hmap__free(&s->by_id);
	hmap__free(&s->by_inode);
	strbuf__free(&s->scratch);
	free(s);
}

struct file *symbols__file(struct symbols *s, const struct file_id *id)
{
	uint64_t *v = hmap__get(&s->by_id, id_key(id));
	struct file *f = v ? (struct file *)(uintptr_t)*v : NULL;

	return f && !file_id__cmp(&f->id, id) ? f : NULL;
}

static int read_spans(struct file *f, const struct elf_image *img)
{
	size_t i;

	f->spans = calloc(img->nsegs + 1, sizeof(*f->spans));
	if (!f->spans)
		return -ENOMEM;
	for (i = 0; i < img->nsegs; i++)
		if (img->segs[i].flags & PF_X)
			f->spans[f->n_spans++] = (struct span){ img->segs[i].off,
								img->segs[i].vaddr,
								img->segs[i].filesz };
	return 0;
}

/* A file without its own .symtab may have it elsewhere: while its process is there. */
static void find_debug(struct file *f, const struct elf_image *img, const char *path,
		       const struct debug_search *where)
{
	struct elf_view v;
	int fd;

	if (elf_view__memory(img->data, img->size, &v))
		return;
	if (!elf_view__section(&v, NULL, SHT_SYMTAB)) {
		fd = debugfile__find(f->fd, path, where);
		f->debug_fd = fd >= 0 ? fd : -1;
	}
	elf_view__close(&v);
}

static int new_file(struct symbols *s, int fd, const char *path, const struct debug_search *where,
		    const struct elf_image *img, const struct file_id *id, struct file **out)
{
	struct file *f = calloc(1, sizeof(*f));
	uint64_t *slot;
	bool fresh;
	int err = f ? 0 : -ENOMEM;

	if (err)
		return err;
	*f = (struct file){ .id = *id, .debug_fd = -1 };
	f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (f->fd < 0)
		err = -errno;
	if (!err && img)
		err = read_spans(f, img);
	if (!err && img)
		find_debug(f, img, path, where);
	if (!img)
		f->err = -ENOEXEC;
	slot = err ? NULL : hmap__put(&s->by_id, id_key(id), &fresh);
	if (slot && !fresh) { /* the hash of another id: made on purpose */
		slot = NULL;
		err = -EEXIST;
	}
	if (!slot) {
		if (f->fd >= 0)
			close(f->fd);
		if (f->debug_fd >= 0)
			close(f->debug_fd);
		free(f->spans);
		free(f);
		return err ? err : -ENOMEM;
	}
	*slot = (uintptr_t)f;
	push_newest(s, f);
	s->stats.files++;
	*out = f;
	return 1;
}

/* Device, inode and what changes when the contents do. */
static struct hkey inode_key(const struct stat *st)
{
	const uint64_t v[] = { st->st_dev,
			       st->st_ino,
			       (uint64_t)st->st_size,
			       (uint64_t)st->st_mtim.tv_sec,
			       (uint64_t)st->st_mtim.tv_nsec,
			       (uint64_t)st->st_ctim.tv_sec,
			       (uint64_t)st->st_ctim.tv_nsec };

	return (struct hkey){ hash__bytes(v, sizeof(v), 0), hash__bytes(v, sizeof(v), 1) };
}

int symbols__add(struct symbols *s, int fd, const char *path, const struct debug_search *where,
		 struct file_id *id)
{
	struct elf_image *img = NULL;
	struct file *f = NULL;
	struct stat st;
	uint64_t *v;
	int err;

	*id = (struct file_id){ .kind = FILE_ID_NONE };
	if (fstat(fd, &st))
		return -errno;
	v = hmap__get(&s->by_inode, inode_key(&st));
	if (v) {
		f = (struct file *)(uintptr_t)*v;
		*id = f->id;
		symbols__used(s, f);
		return 0;
	}
	err = elf_image__open_fd(fd, "", &img);
	if (err && err != -ENOEXEC)
		return err;
	err = file_id__of_image(img, fd, id);
	if (err)
		goto out;
	f = symbols__file(s, id);
	if (f) {
		symbols__used(s, f);
	} else {
		while (s->stats.files >= s->opts.max_files)
			drop_oldest(s);
		err = new_file(s, fd, path, where, img, id, &f);
		if (err < 0)
			goto out;
	}
	if (s->by_inode.n >= 8 * s->opts.max_files)
		hmap__free(&s->by_inode);
	v = hmap__put(&s->by_inode, inode_key(&st), NULL);
	if (v) /* else it is only slower the next time */
		*v = (uintptr_t)f;
out:
	elf_image__close(img);
	return err;
}

int symbols__debug(struct symbols *s, const struct file_id *id, int debug_fd)
{
	struct file *f = symbols__file(s, id);
	struct elf_view main, debug;
	int err;

	if (!f)
		return -ENOENT;
	err = elf_view__map(f->fd, &main);
	if (err)
		return err;
	err = elf_view__map(debug_fd, &debug);
	if (!err)
		err = debugfile__check(&main, &debug);
	elf_view__close(&main);
	elf_view__close(&debug);
	if (err)
		return err;
	debug_fd = fcntl(debug_fd, F_DUPFD_CLOEXEC, 0);
	if (debug_fd < 0)
		return -errno;
	if (f->debug_fd >= 0)
		close(f->debug_fd);
	f->debug_fd = debug_fd;
	f->err = 0;
	symbols__unload(s, f);
	return 0;
}

int symbols__vaddr(struct symbols *s, const struct file_id *id, uint64_t off, uint64_t *vaddr)
{
	struct file *f = symbols__file(s, id);
	size_t i;

	if (!f)
		return -ENOENT;
	for (i = 0; i < f->n_spans; i++) {
		const struct span *p = &f->spans[i];

		if (off >= p->off && off - p->off < p->size) {
			*vaddr = p->vaddr + (off - p->off);
			return 0;
		}
	}
	return -ERANGE;
}

int symbols__files(struct symbols *s, const struct file_id *id, int *fd, int *debug_fd)
{
	struct file *f = symbols__file(s, id);

	if (!f)
		return -ENOENT;
	*fd = f->fd;
	*debug_fd = f->debug_fd;
	return 0;
}

void symbols__stats(const struct symbols *s, struct symbols_stats *out)
{
	*out = s->stats;
}
