/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of user/target share: children to look at, a folder of their own. */
#ifndef MEMTAP_TARGET_TEST_H
#define MEMTAP_TARGET_TEST_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "target/target.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

static char dir[PATH_MAX];

static void make_dir(void)
{
	snprintf(dir, sizeof(dir), "/tmp/memtap-target-XXXXXX");
	cr_assert(mkdtemp(dir));
}

static int rm_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	return remove(path);
}

static void remove_dir(void)
{
	nftw(dir, rm_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Good until the second call after it. */
static const char *in_dir(const char *name)
{
	static char path[2][PATH_MAX + 64];
	static int i;

	i = !i;
	snprintf(path[i], sizeof(path[i]), "%s/%s", dir, name);
	return path[i];
}

static void write_file(const char *name, const char *bytes)
{
	const char *path = in_dir(name);
	char up[PATH_MAX];
	int fd;

	snprintf(up, sizeof(up), "%s", path);
	*strrchr(up, '/') = '\0';
	cr_assert_eq(path__mkdirs(up), 0);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(fd__write_all(fd, bytes, strlen(bytes)), 0);
	close(fd);
}

/* A child that waits until it is ended; `first` runs in it before this returns. */
static pid_t child_of(void (*first)(void))
{
	int ready[2];
	char c;
	pid_t pid;

	cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (first)
			first();
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &c, 1), 1, "the child did not come up");
	close(ready[0]);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

/* `sleep 600`, or with `arg` that instead of 600, under another argv[0]; exec is over. */
static pid_t program_of(const char *file, const char *argv0, const char *arg, char *const env[])
{
	char *const argv[] = { (char *)argv0, (char *)(arg ? arg : "600"), NULL };
	int done[2], in[2];
	char c;
	pid_t pid;

	cr_assert_eq(pipe2(done, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0); /* a script reads from it for ever */
		fcntl(in[1], F_SETFD, 0);
		execvpe(file, argv, env);
		_exit(1);
	}
	close(done[1]);
	cr_assert_eq(read(done[0], &c, 1), 0); /* closed by the exec */
	close(done[0]);
	close(in[0]);
	close(in[1]);
	return pid;
}

/* A copy of a program under a name of our choice. */
static void copy_program(const char *program, const char *name)
{
	char from[PATH_MAX], cmd[2 * PATH_MAX + 256];

	snprintf(from, sizeof(from), "/bin/%s", program);
	snprintf(cmd, sizeof(cmd), "cp -L %s '%s'", from, in_dir(name));
	cr_assert_eq(system(cmd), 0);
}

#pragma GCC diagnostic pop
#endif
