// SPDX-License-Identifier: Apache-2.0
/* The folders of the sockets for `memtap ctl`: private ones, or none. */
#include "cli/control.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_SWEPT 65536 /* names that are looked at */

bool control_dir__path(unsigned int i, uid_t owner, char buf[PATH_MAX])
{
	const char *user = getenv("XDG_RUNTIME_DIR");

	switch (i) {
	case 0:
		return snprintf(buf, PATH_MAX, "/run/memtap") > 0;
	case 1:
		return user && user[0] == '/' &&
		       snprintf(buf, PATH_MAX, "%s/memtap", user) < PATH_MAX;
	case 2:
		return snprintf(buf, PATH_MAX, "/tmp/memtap-%u", (unsigned int)geteuid()) > 0;
	case 3:
		return owner != geteuid() &&
		       snprintf(buf, PATH_MAX, "/tmp/memtap-%u", (unsigned int)owner) > 0;
	default:
		return false;
	}
}

int control_dir__open(const char *path, bool make)
{
	struct stat st;
	int fd, err;

	if (make && mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ELOOP ? -ENOTDIR : -errno;
	err = fstat(fd, &st) ? -errno : 0;
	/* Root may look into the folders of others, too. */
	if (!err && ((st.st_uid != geteuid() && st.st_uid != 0 && (make || geteuid() != 0)) ||
		     st.st_mode & 077))
		err = -EPERM;
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

void control_dir__name(pid_t pid, char buf[32])
{
	snprintf(buf, 32, "%d.sock", (int)pid);
}

pid_t control_dir__pid(const char *name)
{
	long pid = strtol(name, NULL, 10);
	char same[32];

	if (pid <= 0 || pid > 1 << 22)
		return 0;
	control_dir__name((pid_t)pid, same);
	return strcmp(name, same) ? 0 : (pid_t)pid;
}

static struct sockaddr_un address(int dir, const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/%s", dir, name);
	return sa;
}

int control_dir__connect(int dir, const char *name, unsigned int ms)
{
	const struct timeval limit = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	const struct sockaddr_un sa = address(dir, name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (ms ? 0 : SOCK_NONBLOCK), 0), err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!connect(fd, (const struct sockaddr *)&sa, sizeof(sa)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* 1: somebody listens, 0: nobody does, or there is none. */
static int is_used(int dir, const char *name)
{
	int fd = control_dir__connect(dir, name, 0);

	if (fd >= 0)
		close(fd);
	return fd != -ECONNREFUSED && fd != -ENOENT;
}

int control_dir__listen(int dir, const char *name, int backlog)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;
	struct sockaddr_un sa;
	char fresh[40];
	mode_t mask;

	if (fd < 0)
		return -errno;
	/* It has its name when it listens: one that does not is nobody's. */
	snprintf(fresh, sizeof(fresh), "%s.new", name);
	sa = address(dir, fresh);
	unlinkat(dir, fresh, 0);
	mask = umask(0177);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, backlog))
		err = -errno;
	umask(mask);
	if (!err && is_used(dir, name))
		err = -EADDRINUSE;
	if (!err && renameat(dir, fresh, dir, name))
		err = -errno;
	if (!err)
		return fd;
	unlinkat(dir, fresh, 0);
	close(fd);
	return err;
}

void control_dir__sweep(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	unsigned int n = 0;
	pid_t pid;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((e = readdir(d)) && n++ < MAX_SWEPT) {
		pid = control_dir__pid(e->d_name);
		/* The number may be another container's, of one that listens. */
		if (pid && kill(pid, 0) && errno == ESRCH && !is_used(dir, e->d_name))
			unlinkat(dir, e->d_name, 0);
	}
	closedir(d);
}
