// SPDX-License-Identifier: Apache-2.0
/* What a target can make never return, with a deadline: opening its files, reading its memory. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/base.h"
#include "base/deadline.h"
#include "target/target.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* ---- files ---- */

struct open_job {
	struct deadline_job job;
	pid_t pid;
	struct mapping m;
	int fd;
	bool local;
	char path[];
};

/* Disks of this machine, by the number that maps has: there is nobody who could not answer. */
#define MAX_DISKS 16
static struct {
	pthread_mutex_t lock;
	struct {
		uint32_t major, minor;
	} v[MAX_DISKS];
	unsigned int n;
} disks = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool on_disk(const struct mapping *m)
{
	bool found = false;
	unsigned int i;

	/* Numbers of file systems without a device are given to others in time. */
	if (!m->dev_major)
		return false;
	pthread_mutex_lock(&disks.lock);
	for (i = 0; i < disks.n && !found; i++)
		found = disks.v[i].major == m->dev_major && disks.v[i].minor == m->dev_minor;
	pthread_mutex_unlock(&disks.lock);
	return found;
}

static void note_disk(const struct mapping *m)
{
	if (!m->dev_major || on_disk(m))
		return;
	pthread_mutex_lock(&disks.lock);
	if (disks.n < MAX_DISKS) {
		disks.v[disks.n].major = m->dev_major;
		disks.v[disks.n++].minor = m->dev_minor;
	}
	pthread_mutex_unlock(&disks.lock);
}

static bool is_local(int fd)
{
	struct statfs st;

	if (fstatfs(fd, &st))
		return false;
	switch ((unsigned long)st.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
	case SQUASHFS_MAGIC:
		return true;
	}
	return false;
}

static void open_run(struct deadline_job *j)
{
	struct open_job *o = (struct open_job *)j;

	o->fd = mapping__open(o->pid, &o->m);
	if (o->fd >= 0)
		o->local = is_local(o->fd);
}

static void open_drop(struct deadline_job *j)
{
	struct open_job *o = (struct open_job *)j;

	if (o->fd >= 0)
		close(o->fd);
	free(o);
}

int mapping__open_within(struct deadline *d, pid_t pid, const struct mapping *m, unsigned int ms)
{
	struct open_job *o;
	size_t n = strlen(m->path) + 1;
	int err;

	if (on_disk(m))
		return mapping__open(pid, m);
	o = malloc(sizeof(*o) + n);
	if (!o)
		return -ENOMEM;
	*o = (struct open_job){ { open_run, open_drop }, pid, *m, -EIO, false };
	memcpy(o->path, m->path, n);
	o->m.path = o->path;
	err = deadline__run(d, &o->job, ms);
	if (err == -ETIMEDOUT)
		return err;
	if (!err) {
		err = o->fd;
		if (o->local)
			note_disk(m);
	}
	free(o);
	return err;
}

/* ---- memory ---- */

struct read_job {
	struct deadline_job job;
	pid_t pid;
	uint64_t addr;
	size_t n;
	ssize_t got;
	uint8_t buf[];
};

static struct {
	pthread_mutex_t lock;
	struct deadline d;
	pid_t late[DEADLINE_MAX_LATE]; /* whose reads have not returned */
} reader = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* With its lock held. */
static pid_t *late_of(pid_t pid)
{
	size_t i;

	for (i = 0; i < DEADLINE_MAX_LATE; i++)
		if (reader.late[i] == pid)
			return &reader.late[i];
	return NULL;
}

static ssize_t read_file(struct read_job *r)
{
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)r->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = pread(fd, r->buf, r->n, (off_t)r->addr);
	if (got < 0)
		got = errno == EIO ? -EFAULT : -errno;
	close(fd);
	return got;
}

static void read_run(struct deadline_job *j)
{
	struct read_job *r = (struct read_job *)j;
	struct iovec local = { r->buf, r->n }, remote = { (void *)(uintptr_t)r->addr, r->n };

	r->got = process_vm_readv(r->pid, &local, 1, &remote, 1, 0);
	if (r->got >= 0)
		return;
	r->got = -errno;
	/* A seccomp filter on us, or a kernel without it. */
	if (r->got == -ENOSYS || r->got == -EPERM)
		r->got = read_file(r);
}

static void read_drop(struct deadline_job *j)
{
	struct read_job *r = (struct read_job *)j;
	pid_t *late;

	pthread_mutex_lock(&reader.lock);
	late = late_of(r->pid);
	if (late)
		*late = 0;
	pthread_mutex_unlock(&reader.lock);
	free(r);
}

ssize_t proc__memory(pid_t pid, uint64_t addr, void *buf, size_t n)
{
	struct read_job *r = malloc(sizeof(*r) + n);
	ssize_t got;
	pid_t *late;

	if (!r)
		return -ENOMEM;
	*r = (struct read_job){ { read_run, read_drop }, pid, addr, n, 0 };
	/* Who is late takes the lock when it returns: that is not waited for. */
	pthread_mutex_lock(&reader.lock);
	got = late_of(pid) ? -EBUSY : deadline__run(&reader.d, &r->job, MEMORY_MS);
	if (got == -ETIMEDOUT) {
		late = late_of(0);
		if (late)
			*late = pid;
		r = NULL;
	}
	pthread_mutex_unlock(&reader.lock);
	if (!r) {
		pr_warn("pid %d: its memory at 0x%llx does not answer (userfaultfd, or a file "
			"system that hangs): it is not read any more until it does",
			(int)pid, (unsigned long long)addr);
		return got;
	}
	if (!got) {
		got = r->got;
		if (got > 0)
			memcpy(buf, r->buf, (size_t)got);
	}
	free(r);
	return got;
}
