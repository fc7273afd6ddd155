// SPDX-License-Identifier: Apache-2.0
/* Paths as a process sees them: resolved beneath its root, opened without effect. */
#include "target/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/target.h"

#define MAX_LINKS 40 /* as the kernel: include/linux/namei.h MAXSYMLINKS */
#define TRIES 16 /* of openat2, while somebody renames directories on the way */

/* ---- resolving ---- */

/* A walk in user space, for where openat2 is not: a directory, and how deep it is. */
struct walk {
	int root;
	int fd; /* where we are; the walk's own */
	unsigned int depth; /* below the root */
	unsigned int links;
	char rest[2 * PATH_MAX]; /* what is still to be walked */
};

static void step_to(struct walk *w, int fd)
{
	close(w->fd);
	w->fd = fd;
}

static bool is_same(int a, int b)
{
	struct stat x, y;

	return !fstat(a, &x) && !fstat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Never above the root, also when a directory on the way is moved meanwhile. */
static int step_up(struct walk *w)
{
	int fd;

	if (!w->depth || is_same(w->fd, w->root)) {
		w->depth = 0;
		return 0;
	}
	fd = openat(w->fd, "..", O_PATH | O_CLOEXEC | O_DIRECTORY);
	if (fd < 0)
		return -errno;
	w->depth--;
	step_to(w, fd);
	return 0;
}

/* The text of a link stands before the rest. */
static int follow(struct walk *w, int link)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(link, "", text, sizeof(text));
	size_t rest = strlen(w->rest);
	int fd;

	if (n < 0)
		return -errno;
	if (!n)
		return -ENOENT;
	if (++w->links > MAX_LINKS)
		return -ELOOP;
	if ((size_t)n + 1 + rest + 1 > sizeof(w->rest))
		return -ENAMETOOLONG;
	memmove(w->rest + n + 1, w->rest, rest + 1);
	memcpy(w->rest, text, (size_t)n);
	w->rest[n] = '/';
	/* The slash between is only for more: a link to a file is no directory. */
	if (!rest)
		w->rest[n] = '\0';
	if (text[0] != '/')
		return 0;
	fd = fcntl(w->root, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	w->depth = 0;
	step_to(w, fd);
	return 0;
}

/* One component, taken off the rest. */
static int step(struct walk *w)
{
	size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");
	char name[NAME_MAX + 1];
	struct stat st;
	int fd, err = 0;

	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, w->rest + skip, n);
	name[n] = '\0';
	memmove(w->rest, w->rest + skip + n, strlen(w->rest + skip + n) + 1);
	if (!n || strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0)
		return step_up(w);
	fd = openat(w->fd, name, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		err = -errno;
		close(fd);
	} else if (S_ISLNK(st.st_mode)) {
		err = follow(w, fd);
		close(fd);
	} else if (w->rest[0] && !S_ISDIR(st.st_mode)) {
		err = -ENOTDIR;
		close(fd);
	} else {
		w->depth++;
		step_to(w, fd);
	}
	return err;
}

static int walk(int root, const char *path)
{
	struct walk w = { .root = root };
	size_t n = strlen(path);
	int err = 0;

	if (n >= sizeof(w.rest))
		return -ENAMETOOLONG;
	memcpy(w.rest, path, n + 1);
	w.fd = fcntl(root, F_DUPFD_CLOEXEC, 0);
	if (w.fd < 0)
		return -errno;
	while (!err && w.rest[0])
		err = step(&w);
	if (!err)
		return w.fd;
	close(w.fd);
	return err;
}

/* A handle that does nothing to what it stands for. fd or -errno. */
static int resolve(int root, const char *path)
{
	/* The links of /proc (fd, root, cwd) would lead out; the walk takes their text. */
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int i;

	for (i = 0; i < TRIES; i++) {
		int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

		if (fd >= 0)
			return fd;
		/* Refused by a filter of system calls, as older container managers do. */
		if (errno == ENOSYS || errno == EPERM)
			break;
		if (errno != EAGAIN)
			return -errno;
	}
	return walk(root, path);
}

/* ---- opening ---- */

int root__of(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	fd = open(path, O_PATH | O_CLOEXEC | O_DIRECTORY);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? -ESRCH : -errno;
}

int root__open_file(int root, const char *path)
{
	char self[64];
	struct stat st;
	int at = resolve(root, path), fd;

	if (at < 0)
		return at;
	if (fstat(at, &st)) {
		fd = -errno;
	} else if (!S_ISREG(st.st_mode)) {
		fd = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	} else {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
		/* Non-blocking: not even for a lease that somebody has on the file. */
		fd = open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (fd < 0)
			fd = -errno;
	}
	close(at);
	return fd;
}

DIR *root__open_dir(int root, const char *path)
{
	int at = resolve(root, path), fd;
	DIR *d;

	if (at < 0) {
		errno = -at;
		return NULL;
	}
	/* A directory or an error: nothing else is opened. */
	fd = openat(at, ".", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	close(at);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !d)
		close(fd);
	return d;
}

int proc__open(pid_t pid, const char *path)
{
	int root = root__of(pid), fd;

	if (root < 0)
		return root;
	fd = root__open_file(root, path);
	close(root);
	return fd;
}

/* ---- texts ---- */

static int read_link(pid_t pid, const char *what, char *buf)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	n = readlink(path, buf, PATH_MAX);
	if (n < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	if (n == PATH_MAX)
		return -ENAMETOOLONG;
	buf[n] = '\0';
	return 0;
}

int root__text(pid_t pid, char *buf)
{
	return read_link(pid, "root", buf);
}

int root__inside(const char *root, char *path)
{
	size_t n = strlen(root);

	if (path[0] != '/')
		return -EXDEV; /* "(unreachable)/…" */
	if (n <= 1)
		return 0;
	if (strncmp(path, root, n) != 0 || (path[n] && path[n] != '/'))
		return -EXDEV;
	memmove(path, path + n, strlen(path + n) + 1);
	if (!path[0]) {
		path[0] = '/';
		path[1] = '\0';
	}
	return 0;
}

int root__link(pid_t pid, const char *what, char *buf)
{
	char root[PATH_MAX];
	size_t n;
	int err = root__text(pid, root);

	if (!err)
		err = read_link(pid, what, buf);
	if (err)
		return err;
	n = strlen(buf);
	if (n > 10 && strcmp(buf + n - 10, " (deleted)") == 0)
		buf[n - 10] = '\0';
	return root__inside(root, buf);
}
