// SPDX-License-Identifier: Apache-2.0
/* The folders of the sockets for `memtap ctl`: private ones, or none. */
#include "cli/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
