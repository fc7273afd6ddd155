// SPDX-License-Identifier: Apache-2.0
/* Reads of another process's memory, whole or not at all. */
#include "symbol/python.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int read_file(struct py_process *p, uint64_t addr, void *buf, size_t n)
{
	char path[64];
	ssize_t got;

	if (p->fd < 0) {
		snprintf(path, sizeof(path), "/proc/%d/mem", (int)p->pid);
		p->fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (p->fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	if (addr > INT64_MAX)
		return -EFAULT;
	got = pread(p->fd, buf, n, (off_t)addr);
	if (got < 0)
		return errno == EIO ? -EFAULT : -errno;
	/* 0: the process has gone. */
	return got == 0 ? -ESRCH : (size_t)got == n ? 0 : -EFAULT;
}

static int read_process(void *ctx, uint64_t addr, void *buf, size_t n)
{
	struct py_process *p = ctx;
	struct iovec local = { buf, n }, remote = { (void *)(uintptr_t)addr, n };
	ssize_t got;

	if (!n)
		return 0;
	if (p->fd >= 0)
		return read_file(p, addr, buf, n);
	got = process_vm_readv(p->pid, &local, 1, &remote, 1, 0);
	if (got >= 0)
		return (size_t)got == n ? 0 : -EFAULT;
	/* A seccomp filter on us, or a kernel without it. */
	if (errno == ENOSYS || errno == EPERM)
		return read_file(p, addr, buf, n);
	return -errno;
}

void py_process__open(struct py_process *p, pid_t pid)
{
	*p = (struct py_process){ .pid = pid, .fd = -1, .mem = { read_process, p } };
}

void py_process__close(struct py_process *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

int py_mem__u64(const struct py_mem *m, uint64_t addr, uint64_t *v)
{
	*v = 0;
	return py_mem__read(m, addr, v, sizeof(*v));
}

int py_mem__text(const struct py_mem *m, uint64_t addr, char *buf, size_t n)
{
	size_t at = 0;

	while (at < n) {
		/* Never beyond an 64-byte line that it is not known to reach. */
		size_t piece = MT_MIN(n - at, 64 - (size_t)((addr + at) & 63)), len;
		int err = py_mem__read(m, addr + at, buf + at, piece);

		if (err)
			return err;
		len = strnlen(buf + at, piece);
		if (len < piece)
			return 0;
		at += piece;
	}
	buf[n - 1] = '\0';
	return -ENAMETOOLONG;
}
