// SPDX-License-Identifier: Apache-2.0
/* Processes: identity, names, environment, enumeration. */
#include "target/target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

#define STAT_MAX 4096
#define STATUS_MAX 65536
#define ENV_MAX (4u << 20) /* the kernel's own limit for one exec is of this order */

static ssize_t read_proc(pid_t pid, const char *what, size_t max, char **out)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	n = file__read(path, max, out);
	return n == -ENOENT ? -ESRCH : n;
}

/* The first thread may have left before the others. */
static bool other_threads(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return !stat(path, &st) && st.st_nlink > 3;
}

int proc__start(pid_t pid, uint32_t *start)
{
	unsigned long long v;
	char *buf, *p;
	ssize_t n = read_proc(pid, "stat", STAT_MAX, &buf);
	int field, err = -ESRCH;

	if (n < 0)
		return (int)n;
	/* comm may hold anything, also ") 1 2": fields count from the last ')'. */
	p = strrchr(buf, ')');
	if (p && (p[2] == 'Z' || p[2] == 'X') && !other_threads(pid))
		p = NULL; /* it has ended, only its status is still there */
	for (field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (p && sscanf(p, " %llu", &v) == 1) {
		*start = (uint32_t)((int64_t)v - clock__boot_offset() / 10000000);
		err = 0;
	}
	free(buf);
	return err;
}

int proc__comm(pid_t pid, char out[16])
{
	char *buf;
	ssize_t n = read_proc(pid, "comm", 64, &buf);

	if (n < 0)
		return (int)n;
	buf[strcspn(buf, "\n")] = '\0';
	snprintf(out, 16, "%.15s", buf);
	free(buf);
	return 0;
}

bool proc__has_program(pid_t pid)
{
	char link[64], buf[8];

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	return readlink(link, buf, sizeof(buf)) > 0 || errno != ENOENT;
}

/* The rest of the line of /proc/PID/status that starts with `key`, malloced. */
static char *status_line(pid_t pid, const char *key)
{
	char *buf, *p, *line = NULL;
	size_t n = strlen(key);

	if (read_proc(pid, "status", STATUS_MAX, &buf) < 0)
		return NULL;
	for (p = buf; p && *p; p = strchr(p, '\n')) {
		if (*p == '\n')
			p++;
		if (strncmp(p, key, n) == 0 && p[n] == ':') {
			line = strndup(p + n + 1, strcspn(p + n + 1, "\n"));
			break;
		}
	}
	free(buf);
	return line;
}

static int status_number(pid_t pid, const char *key, long *v)
{
	char *line = status_line(pid, key);

	if (!line)
		return -ESRCH;
	*v = strtol(line, NULL, 10);
	free(line);
	return 0;
}

int proc__parent(pid_t pid, pid_t *parent)
{
	long v;
	int err = status_number(pid, "PPid", &v);

	if (!err)
		*parent = (pid_t)v;
	return err;
}

pid_t proc__leader(pid_t tid)
{
	long v;

	return status_number(tid, "Tgid", &v) ? 0 : (pid_t)v;
}

uint32_t proc__nspid(pid_t pid)
{
	char *line = status_line(pid, "NSpid"), *p;
	uint32_t v = (uint32_t)pid;

	if (line) {
		p = strrchr(line, '\t');
		v = (uint32_t)strtoul(p ? p + 1 : line, NULL, 10);
	}
	free(line);
	return v ? v : (uint32_t)pid;
}

bool proc__capable(unsigned int cap)
{
	char *line = status_line(getpid(), "CapEff");
	uint64_t eff = line ? strtoull(line, NULL, 16) : 0;

	free(line);
	return eff >> cap & 1;
}

char *proc__env(pid_t pid, const char *name)
{
	size_t n = strlen(name);
	char *buf, *v = NULL;
	ssize_t len = read_proc(pid, "environ", ENV_MAX, &buf), i;

	if (len < 0)
		return NULL;
	for (i = 0; i < len; i += (ssize_t)strlen(buf + i) + 1) {
		if (strncmp(buf + i, name, n) == 0 && buf[i + (ssize_t)n] == '=') {
			v = strdup(buf + i + n + 1);
			break;
		}
	}
	free(buf);
	return v;
}

int proc__each(int (*fn)(void *ctx, pid_t pid), void *ctx)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	while (!r && (e = readdir(d))) {
		if (isdigit((unsigned char)e->d_name[0]))
			r = fn(ctx, (pid_t)atoi(e->d_name));
	}
	closedir(d);
	return r;
}

static bool base_is(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');

	return strcmp(slash ? slash + 1 : path, name) == 0;
}

/* The file that runs. */
static bool exe_is(pid_t pid, const char *name)
{
	char link[64], exe[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = readlink(link, exe, sizeof(exe) - 1);
	if (n <= 0)
		return false;
	exe[n] = '\0';
	if (n > 10 && strcmp(exe + n - 10, " (deleted)") == 0)
		exe[n - 10] = '\0';
	return base_is(exe, name);
}

static bool is_shell(const char *argv0)
{
	static const char *const names[] = { "sh", "bash", "dash", "ash", "ksh", "zsh" };
	const char *slash = strrchr(argv0, '/'), *base = slash ? slash + 1 : argv0;
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(names); i++)
		if (strcmp(base, names[i]) == 0)
			return true;
	return false;
}

/*
 * What an interpreter runs, of its arguments (each with its NUL): the first that is no option
 * and no operand of one, or the module of -m. NULL: none, as with -c or from a pipe.
 */
static const char *script_of(const char *args, size_t len)
{
	bool shell = is_shell(args);
	/* Options that take an operand: of Python -W and -X, of shells -o. */
	const char *takes = shell ? "oO" : "WX", *end = args + len, *a, *p;

	for (a = args + strlen(args) + 1; a < end; a += strlen(a) + 1) {
		if (a[0] != '-')
			return a;
		if (!a[1]) /* "-": standard input */
			return NULL;
		if (a[1] == '-') {
			if (!a[2]) { /* "--": the end of the options */
				a += 3;
				return a < end ? a : NULL;
			}
			if (strcmp(a, "--check-hash-based-pycs") == 0 ||
			    (shell && (!strcmp(a, "--rcfile") || !strcmp(a, "--init-file"))))
				a += strlen(a) + 1;
			continue;
		}
		for (p = a + 1; *p; p++) {
			if (*p == 'c')
				return NULL;
			if (!shell && *p == 'm') {
				a += strlen(a) + 1;
				return p[1] ? p + 1 : a < end ? a : NULL;
			}
			if (strchr(takes, *p)) {
				/* The rest is its operand, or the next argument is. */
				if (!p[1])
					a += strlen(a) + 1;
				break;
			}
		}
		if (a >= end)
			return NULL;
	}
	return NULL;
}

bool proc__named(pid_t pid, const char *name)
{
	char comm[16], *buf;
	const char *script;
	ssize_t len;
	bool yes;

	/* The kernel keeps 15 bytes of the name: a longer one it cannot confirm. */
	if (!*name || proc__comm(pid, comm))
		return false;
	if (strcmp(comm, name) == 0 || exe_is(pid, name))
		return true;
	len = read_proc(pid, "cmdline", 1u << 20, &buf);
	if (len < 0)
		return false;
	yes = base_is(buf, name);
	script = yes || !len ? NULL : script_of(buf, (size_t)len);
	if (script)
		yes = base_is(script, name);
	free(buf);
	return yes;
}
