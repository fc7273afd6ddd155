// SPDX-License-Identifier: Apache-2.0
/* Files, clocks, priority: careful creation, full writes, bounded reads. */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

int path__mkdirs(const char *path)
{
	char buf[PATH_MAX];
	struct stat st;
	size_t n = strlen(path);
	char *p;

	if (!n)
		return -EINVAL;
	if (n >= sizeof(buf))
		return -ENAMETOOLONG;
	memcpy(buf, path, n + 1);
	for (p = buf + 1;; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(buf, 0750) && errno != EEXIST)
			return -errno;
		*p = c;
		if (!c)
			break;
	}
	if (stat(path, &st))
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int path__create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int fd__write_all(int fd, const void *p, size_t n)
{
	const char *s = p;

	while (n) {
		ssize_t w = write(fd, s, n);

		if (w < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		s += w;
		n -= (size_t)w;
	}
	return 0;
}

ssize_t fd__read_all(int fd, size_t max, char **out)
{
	size_t len = 0, cap = 4096;
	char *buf, *p;
	ssize_t n, err;

	*out = NULL;
	buf = malloc(cap);
	if (!buf)
		return -ENOMEM;
	for (;;) {
		n = read(fd, buf + len, cap - len - 1);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			err = -errno;
			goto fail;
		}
		if (!n)
			break;
		len += (size_t)n;
		if (len > max) {
			err = -EFBIG;
			goto fail;
		}
		if (len + 1 < cap)
			continue;
		p = realloc(buf, cap *= 2);
		if (!p) {
			err = -ENOMEM;
			goto fail;
		}
		buf = p;
	}
	buf[len] = '\0';
	*out = buf;
	return (ssize_t)len;
fail:
	free(buf);
	return err;
}

ssize_t file__read(const char *path, size_t max, char **out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	*out = NULL;
	if (fd < 0)
		return -errno;
	n = fd__read_all(fd, max, out);
	close(fd);
	return n;
}

#define OVERLAYFS_MAGIC 0x794c7630 /* linux/magic.h OVERLAYFS_SUPER_MAGIC */

bool fd__on_overlay(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type == OVERLAYFS_MAGIC;
}

static uint64_t now(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* The kernel stamps events with its own clock; ours may be set off (time_namespaces(7)). */
static int64_t read_boot_offset(void)
{
	long long s = 0, ns = 0;
	char *buf, *p;

	if (file__read("/proc/self/timens_offsets", 4096, &buf) < 0 || !buf)
		return 0;
	p = strstr(buf, "boottime");
	if (p && sscanf(p + 8, "%lld %lld", &s, &ns) != 2)
		s = ns = 0;
	free(buf);
	return (int64_t)s * 1000000000 + ns;
}

int64_t clock__boot_offset(void)
{
	static _Atomic bool known;
	static _Atomic int64_t offset;

	if (!known) {
		offset = read_boot_offset();
		known = true;
	}
	return offset;
}

uint64_t clock__boot(void)
{
	return now(CLOCK_BOOTTIME) - (uint64_t)clock__boot_offset();
}

uint64_t clock__real(void)
{
	return now(CLOCK_REALTIME);
}

int64_t clock__boot_to_real(void)
{
	uint64_t best = UINT64_MAX;
	int64_t diff = 0;
	int i;

	/* Between two readings this thread may lose the processor. */
	for (i = 0; i < 16; i++) {
		uint64_t a = clock__boot(), r = clock__real(), b = clock__boot();

		if (b - a < best) {
			best = b - a;
			diff = (int64_t)(r - (a + best / 2));
		}
	}
	return diff;
}

void thread__nice(int value)
{
	errno = 0;
	/* Of a thread on Linux, whatever the name says. Refused without CAP_SYS_NICE. */
	if (getpriority(PRIO_PROCESS, 0) == 0 && !errno)
		(void)setpriority(PRIO_PROCESS, 0, value);
}
