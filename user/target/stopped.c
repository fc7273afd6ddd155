// SPDX-License-Identifier: Apache-2.0
/* Is a process stopped, or in the hands of a debugger? And letting go on what we have stopped. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "target/target.h"

#define STATUS_MAX 65536
/* SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU */
#define STOP_SIGNALS (0xfULL << (SIGSTOP - 1))

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

static const char *value_of(const char *status, const char *key)
{
	const char *p = strstr(status, key);

	return p ? p + strlen(key) : NULL;
}

int proc__stopped(pid_t pid, struct proc_stopped *out)
{
	char path[64], *buf;
	const char *p;
	ssize_t n;

	memset(out, 0, sizeof(*out));
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	n = file__read(path, STATUS_MAX, &buf);
	if (n < 0)
		return n == -ENOENT ? -ESRCH : (int)n;
	/* The name is in the first line, with its newlines escaped. */
	p = value_of(buf, "\nState:\t");
	out->state = p ? *p : '?';
	p = value_of(buf, "\nTracerPid:\t");
	out->tracer = p ? (pid_t)strtol(p, NULL, 10) : 0;
	p = value_of(buf, "\nSigPnd:\t");
	out->again = p && strtoull(p, NULL, 16) & STOP_SIGNALS;
	p = value_of(buf, "\nShdPnd:\t");
	out->again |= p && strtoull(p, NULL, 16) & STOP_SIGNALS;
	free(buf);
	return 0;
}

int proc__to_continue(pid_t pid, uint32_t start)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0), err;
	struct proc_stopped st;
	uint32_t now;

	/* The number may be another process's by now; from here on it is this one's. */
	if (fd < 0)
		return -errno;
	err = proc__start(pid, &now);
	if (!err && now != start)
		err = -ESRCH;
	if (!err && !proc__stopped(pid, &st) && st.state == 'T' && st.again)
		err = -EBUSY;
	if (!err)
		return fd;
	close(fd);
	return err;
}

int proc__continue(int fd)
{
	int err = syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0) ? -errno : 0;

	close(fd);
	return err;
}
