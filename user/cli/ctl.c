// SPDX-License-Identifier: Apache-2.0
/* memtap ctl: asks a recording that runs to start, stop, mark, take a snapshot, flush. */
#include <cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/control.h"

#define ANSWER_MS 30000 /* a recorder that lags has so long */
#define TRACES_MS 5000 /* each that is asked whether it traces a process */
#define MAX_RECORDERS 1024 /* sockets of one folder that are looked at */

static void help(FILE *f)
{
	fputs("Usage: memtap ctl [OPTIONS] PID REQUEST [TEXT]\n"
	      "\n"
	      "Control a recording that runs: PID is that of memtap, for all that it traces, or "
	      "of\n"
	      "a process that it traces, for this one alone.\n"
	      "\n"
	      "Requests:\n"
	      "  start            collect from here on (record --collect-mode=custom)\n"
	      "  stop             collect nothing until the next start\n"
	      "  step             a step begins: a STEP row\n"
	      "  mark TEXT        a Mark row\n"
	      "  snapshot [NAME]  a SNAPSHOT row of each pool, from what memtap has seen\n"
	      "  flush            all rows so far are in the file when the answer comes\n"
	      "  status           what is recorded, whether it is paused, and where to\n"
	      "\n"
	      "Options:\n"
	      "  -J, --json       print the whole answer\n"
	      "  -h, --help       this text\n"
	      "\n"
	      "man memtap-ctl\n",
	      f);
}

/* Connected to the socket of this recorder in a folder, or -errno. */
static int connect_in(int dir, const char *name, unsigned int ms)
{
	int fd = control_dir__connect(dir, name, ms), err = 0;
	struct ucred peer;
	socklen_t n = sizeof(peer);

	if (fd < 0)
		return fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n))
		err = -errno;
	else if (peer.uid != 0 && peer.uid != geteuid() && geteuid() != 0)
		err = -EPERM;
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

static int send_line(int fd, const char *line, size_t n)
{
	ssize_t w;

	for (; n; line += w, n -= (size_t)w) {
		w = send(fd, line, n, MSG_NOSIGNAL);
		if (w < 0)
			return -errno;
	}
	return 0;
}

/* Sends a line, waits ms for one. 0, -ETIMEDOUT, -EPIPE: it ended without an answer. */
static int ask(int fd, const char *line, unsigned int ms, char answer[CONTROL_LINE])
{
	uint64_t end = clock__boot() + ms * 1000000ULL, now;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t len = 0;
	ssize_t n;
	int err = send_line(fd, line, strlen(line));

	while (!err) {
		now = clock__boot();
		if (now >= end || poll(&p, 1, (int)((end - now) / 1000000) + 1) == 0)
			return -ETIMEDOUT;
		n = recv(fd, answer + len, CONTROL_LINE - 1 - len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || len + (size_t)n == CONTROL_LINE - 1)
			return -EPIPE;
		len += (size_t)n;
		answer[len] = '\0';
		if (answer[len - 1] == '\n')
			break;
	}
	return err;
}

static uid_t owner_of(pid_t pid)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &st) ? geteuid() : st.st_uid;
}

/* The recorder of this number. Descriptor or -errno; *why: of a folder that cannot be trusted. */
static int find_recorder(pid_t pid, char why[PATH_MAX + 128])
{
	char path[PATH_MAX], name[32];
	int dir, fd, err = -ENOENT;
	unsigned int i;

	control_dir__name(pid, name);
	for (i = 0; i < CONTROL_DIRS; i++) {
		if (!control_dir__path(i, owner_of(pid), path))
			continue;
		dir = control_dir__open(path, false);
		if (dir < 0) {
			if (dir != -ENOENT)
				snprintf(why, PATH_MAX + 128, "%s: %s", path, strerror(-dir));
			continue;
		}
		fd = connect_in(dir, name, ANSWER_MS);
		close(dir);
		if (fd >= 0)
			return fd;
		if (fd != -ENOENT && fd != -ECONNREFUSED)
			err = fd;
	}
	return err;
}

struct found {
	int fd;
	unsigned int n;
	pid_t pids[2];
};

static void try_socket(int dir, const char *name, pid_t target, struct found *f)
{
	char line[64], answer[CONTROL_LINE];
	pid_t pid = control_dir__pid(name);
	cJSON *obj;
	int fd, err;

	if (!pid)
		return;
	fd = connect_in(dir, name, TRACES_MS);
	if (fd < 0)
		return;
	snprintf(line, sizeof(line), "pid=%d status\n", (int)target);
	err = ask(fd, line, TRACES_MS, answer);
	if (err == -ETIMEDOUT)
		pr_warn("ctl: memtap %d does not answer in %d s, is it stopped? Whether it traces "
			"pid %d is not known; its own pid asks it alone",
			(int)pid, TRACES_MS / 1000, (int)target);
	obj = err ? NULL : cJSON_Parse(answer);
	if (cJSON_IsTrue(cJSON_GetObjectItem(obj, "ok"))) {
		if (f->n < MT_ARRAY_SIZE(f->pids))
			f->pids[f->n] = pid;
		if (f->n++)
			close(fd);
		else
			f->fd = fd;
	} else {
		close(fd);
	}
	cJSON_Delete(obj);
}

/* The recorder that traces this process. */
static void find_tracer(pid_t target, struct found *f)
{
	char path[PATH_MAX];
	struct dirent *e;
	unsigned int i, n = 0;
	int fd;
	DIR *d;

	for (i = 0; i < CONTROL_DIRS; i++) {
		if (!control_dir__path(i, owner_of(target), path))
			continue;
		fd = control_dir__open(path, false);
		d = fd < 0 ? NULL : fdopendir(fd);
		if (!d) {
			if (fd >= 0)
				close(fd);
			continue;
		}
		while ((e = readdir(d)) && n++ < MAX_RECORDERS)
			try_socket(dirfd(d), e->d_name, target, f);
		closedir(d);
	}
}

static int print_answer(const char *request, const char *answer, bool json)
{
	/* Whole, and written anew: it may come from a socket of another user. */
	cJSON *obj = cJSON_ParseWithOpts(answer, NULL, true);
	char *text = json && obj ? cJSON_PrintUnformatted(obj) : NULL;
	const cJSON *v = cJSON_GetObjectItem(obj, "error");
	int status = cJSON_IsTrue(cJSON_GetObjectItem(obj, "ok")) ? EXIT_OK : EXIT_FAIL;

	if (text) {
		puts(text);
	} else if (status) {
		pr_err("ctl: %s: %s", request,
		       cJSON_IsString(v) ? cli__text(v->valuestring)
					 : "the answer cannot be understood; is it memtap of "
					   "another version?");
	} else {
		const cJSON *n = cJSON_GetObjectItem(obj, "processes");
		const cJSON *dir = cJSON_GetObjectItem(obj, "dir");
		const cJSON *rows = cJSON_GetObjectItem(obj, "rows");
		const cJSON *waiting = cJSON_GetObjectItem(obj, "waiting");

		printf("%s: %.0f process%s", request, cJSON_IsNumber(n) ? n->valuedouble : 0,
		       cJSON_IsNumber(n) && n->valuedouble == 1 ? "" : "es");
		if (cJSON_IsString(dir))
			printf("%s; %.0f rows in %s",
			       cJSON_IsTrue(cJSON_GetObjectItem(obj, "paused")) ? ", paused" : "",
			       cJSON_IsNumber(rows) ? rows->valuedouble : 0,
			       cli__text(dir->valuestring));
		if (cJSON_IsNumber(waiting) && waiting->valuedouble > 0)
			printf("; %.0f rows wait for the end of their block, in the journal",
			       waiting->valuedouble);
		putchar('\n');
	}
	cJSON_free(text);
	cJSON_Delete(obj);
	return status;
}

/* The words behind PID as one line; -E2BIG, -EINVAL. */
static int make_line(char **words, int n, pid_t target, char line[CONTROL_LINE])
{
	size_t len = 0;
	int i;

	if (target)
		len = (size_t)snprintf(line, CONTROL_LINE, "pid=%d ", (int)target);
	for (i = 0; i < n; i++) {
		if (strchr(words[i], '\n'))
			return -EINVAL;
		len += (size_t)snprintf(line + len, CONTROL_LINE - len, "%s%s", i ? " " : "",
					words[i]);
		if (len >= CONTROL_LINE - 2)
			return -E2BIG;
	}
	line[len] = '\n';
	line[len + 1] = '\0';
	return 0;
}

/* What came from here, not from a recorder: to stderr, and where JSON is wanted there as well. */
static int fail(bool json, const char *fmt, ...) MT_PRINTF(2, 3);

static int fail(bool json, const char *fmt, ...)
{
	char text[PATH_MAX + 512], *out;
	va_list ap;
	cJSON *obj;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pr_err("ctl: %s", text);
	obj = json ? cJSON_CreateObject() : NULL;
	if (!obj)
		return EXIT_FAIL;
	cJSON_AddBoolToObject(obj, "ok", false);
	cJSON_AddStringToObject(obj, "error", text);
	out = cJSON_PrintUnformatted(obj);
	if (out)
		puts(out);
	free(out);
	cJSON_Delete(obj);
	return EXIT_FAIL;
}

static int no_recorder(pid_t pid, int err, const char *why, bool json)
{
	if (err != -ENOENT)
		return fail(json,
			    "pid %d: its socket cannot be used: %s; root and the user who records "
			    "may do so",
			    (int)pid, strerror(-err));
	if (*why)
		return fail(json,
			    "pid %d: no memtap that you may reach: %s; ask as root or as the user "
			    "who records (memtap record -p %d traces a process)",
			    (int)pid, why, (int)pid);
	return fail(json,
		    "pid %d: no memtap that records, and no process that one traces; memtap record "
		    "-p %d traces it",
		    (int)pid, (int)pid);
}

int cmd_ctl(int argc, char **argv)
{
	static const struct option longs[] = { { "json", no_argument, NULL, 'J' },
					       { "help", no_argument, NULL, 'h' },
					       { 0 } };
	char line[CONTROL_LINE], answer[CONTROL_LINE], why[PATH_MAX + 128] = "", *end;
	struct found f = { .fd = -1 };
	bool json = false;
	int opt, fd, err;
	long pid;

	while ((opt = getopt_long(argc, argv, "+Jh", longs, NULL)) != -1) {
		if (opt == 'h') {
			help(stdout);
			return EXIT_OK;
		}
		if (opt != 'J')
			return cli__usage_error("ctl");
		json = true;
	}
	if (argc - optind < 2) {
		pr_err("ctl: a PID and a request are wanted: memtap ctl PID start");
		return cli__usage_error("ctl");
	}
	pid = strtol(argv[optind], &end, 10);
	if (*end || end == argv[optind] || pid < 1 || pid > 1 << 22) {
		pr_err("ctl: '%s' is no process id", cli__text(argv[optind]));
		return cli__usage_error("ctl");
	}
	fd = find_recorder((pid_t)pid, why);
	if (fd == -ENOENT) {
		find_tracer((pid_t)pid, &f);
		fd = f.n ? f.fd : fd;
	}
	if (f.n > 1) {
		close(fd);
		return fail(json,
			    "pid %ld is traced by several memtap, %d and %d among them: give the "
			    "pid of one",
			    pid, (int)f.pids[0], (int)f.pids[1]);
	}
	if (fd < 0)
		return no_recorder((pid_t)pid, fd, why, json);
	err = make_line(argv + optind + 1, argc - optind - 1, f.n ? (pid_t)pid : 0, line);
	if (err) {
		pr_err("ctl: %s",
		       err == -E2BIG ? "the text is too long" : "the text may have one line only");
		close(fd);
		return cli__usage_error("ctl");
	}
	err = ask(fd, line, ANSWER_MS, answer);
	close(fd);
	if (err == -ETIMEDOUT)
		return fail(json,
			    "pid %ld: no answer within %d s: it is stopped, or very busy; try "
			    "again when it goes on",
			    pid, ANSWER_MS / 1000);
	if (err)
		return fail(json, "pid %ld: no answer: %s", pid,
			    err == -EPIPE ? "the recording has ended" : strerror(-err));
	return print_answer(argv[optind + 1], answer, json);
}
