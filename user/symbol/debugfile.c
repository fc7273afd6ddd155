// SPDX-License-Identifier: Apache-2.0
/*
 * Separate debug files: by build-id, or by the name and CRC in .gnu_debuglink.
 *
 * Places: GDB manual, "Debugging Information in Separate Files". Looked for in our
 * own file system first, then in that of the process, whose files are as hostile
 * as the process: only regular files are opened, and only the same build is taken.
 */
#include "symbol/debugfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "target/root.h"
#include "target/target.h"

#define DEBUG_DIR "/usr/lib/debug"

int debugfile__check(const struct elf_view *main, const struct elf_view *debug)
{
	uint8_t a[BUILD_ID_MAX], b[BUILD_ID_MAX];
	size_t n = elf_view__build_id(main, a);
	char name[NAME_MAX + 1];
	uint32_t crc;

	if (main->machine != debug->machine)
		return -ESTALE;
	/* As elfutils does: a build-id says more than the CRC, which tools forget to renew. */
	if (n)
		return elf_view__build_id(debug, b) == n && !memcmp(a, b, n) ? 0 : -ESTALE;
	if (!elf_view__debuglink(main, name, sizeof(name), &crc))
		return -ESTALE;
	return elf_view__crc(debug) == crc ? 0 : -ESTALE;
}

/* The roots to look in, in this order; see struct debug_search. */
struct roots {
	int fd[3];
	size_t n;
};

static void open_roots(const struct debug_search *s, struct roots *r)
{
	int fd;

	*r = (struct roots){ .n = 0 };
	if (s && s->root) {
		fd = open(s->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			r->fd[r->n++] = fd;
		return;
	}
	fd = root__of(getpid());
	if (fd >= 0)
		r->fd[r->n++] = fd;
	if (s && s->pid > 0) {
		fd = root__of(s->pid);
		if (fd >= 0)
			r->fd[r->n++] = fd;
	}
}

static void close_roots(struct roots *r)
{
	while (r->n)
		close(r->fd[--r->n]);
}

struct wanted {
	const struct elf_view *main;
	const char *section; /* one of these two must be there; NULL: any file will do */
	const uint8_t *id; /* of an alternate file; NULL: the check of debugfile__check */
	size_t id_len;
	int err; /* the most telling reason so far */
};

static bool fits(struct wanted *w, int fd)
{
	struct elf_view v;
	uint8_t id[BUILD_ID_MAX];
	int err = elf_view__map(fd, &v);

	if (!err && w->id)
		err = elf_view__build_id(&v, id) == w->id_len && !memcmp(id, w->id, w->id_len)
			      ? 0
			      : -ESTALE;
	else if (!err)
		err = debugfile__check(w->main, &v);
	/* The file itself under another name fits as well, and has nothing to add. */
	if (!err && w->section && !elf_view__has(&v, w->section) &&
	    !elf_view__has(&v, ".debug_info"))
		err = -ENOENT;
	elf_view__close(&v);
	if (err == -ESTALE)
		w->err = err;
	return !err;
}

/* The first that fits of a path in the roots. fd or -1. */
static int try_path(const struct roots *r, const char *path, struct wanted *w)
{
	size_t i;
	int fd;

	for (i = 0; i < r->n; i++) {
		fd = root__open_file(r->fd[i], path);
		if (fd < 0)
			continue;
		if (fits(w, fd))
			return fd;
		close(fd);
	}
	return -1;
}

static int try_build_id(const struct roots *r, const uint8_t *id, size_t n, struct wanted *w)
{
	char path[PATH_MAX];
	size_t i, at;

	if (n < 2)
		return -1;
	at = (size_t)snprintf(path, sizeof(path), DEBUG_DIR "/.build-id/%02x/", id[0]);
	for (i = 1; i < n; i++)
		at += (size_t)snprintf(path + at, sizeof(path) - at, "%02x", id[i]);
	snprintf(path + at, sizeof(path) - at, ".debug");
	return try_path(r, path, w);
}

/* DIR/NAME, DIR/.debug/NAME, DEBUG_DIR/DIR/NAME, where DIR is that of the file. */
static int try_link(const struct roots *r, const char *file, const char *name, struct wanted *w)
{
	static const char *const forms[] = { "%.*s/%s", "%.*s/.debug/%s", DEBUG_DIR "%.*s/%s" };
	const char *slash = file ? strrchr(file, '/') : NULL;
	char path[PATH_MAX];
	size_t i;
	int fd = -1;

	/* A name with a slash is no name of a file beside it. */
	if (!slash || file[0] != '/' || strchr(name, '/'))
		return -1;
	for (i = 0; i < MT_ARRAY_SIZE(forms) && fd < 0; i++) {
		int n = snprintf(path, sizeof(path), forms[i], (int)(slash - file), file, name);

		if (n > 0 && (size_t)n < sizeof(path))
			fd = try_path(r, path, w);
	}
	return fd;
}

static int find(const struct elf_view *main, const char *path, const char *section,
		const struct debug_search *s)
{
	struct wanted w = { .main = main, .section = section, .err = -ENOENT };
	uint8_t id[BUILD_ID_MAX];
	size_t n = elf_view__build_id(main, id);
	char name[NAME_MAX + 1];
	struct roots r;
	uint32_t crc;
	int fd;

	open_roots(s, &r);
	fd = try_build_id(&r, id, n, &w);
	if (fd < 0 && elf_view__debuglink(main, name, sizeof(name), &crc))
		fd = try_link(&r, path, name, &w);
	close_roots(&r);
	return fd >= 0 ? fd : w.err;
}

int debugfile__find(int fd, const char *path, const struct debug_search *s)
{
	struct elf_view v;
	int err = elf_view__map(fd, &v);

	if (err)
		return err;
	err = find(&v, path, ".symtab", s);
	elf_view__close(&v);
	return err;
}

int debugfile__find_alt(const struct elf_view *v, const struct debug_search *s)
{
	struct wanted w = { .main = v, .err = -ENOENT };
	uint8_t id[BUILD_ID_MAX];
	char name[PATH_MAX], path[PATH_MAX + sizeof(DEBUG_DIR "/.dwz/")];
	const char *base;
	struct roots r;
	int fd;

	if (!elf_view__altlink(v, name, sizeof(name), id, &w.id_len))
		return -ENOENT;
	w.id = id;
	open_roots(s, &r);
	fd = try_build_id(&r, id, w.id_len, &w);
	if (fd < 0 && name[0] == '/')
		fd = try_path(&r, name, &w);
	/* Relative names count from the debug file, which Debian's .dwz folder is above of. */
	base = strstr(name, ".dwz/");
	if (fd < 0 && base) {
		snprintf(path, sizeof(path), DEBUG_DIR "/%s", base);
		fd = try_path(&r, path, &w);
	}
	close_roots(&r);
	return fd >= 0 ? fd : w.err;
}
