// SPDX-License-Identifier: Apache-2.0
/* Processes and their mappings: hostile names, environments, deleted files. */
#include "target_test.h"

#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

TestSuite(proc, .init = make_dir, .fini = remove_dir);

#define ODD_NAME "a) b (c 1 2 3"

static void odd_name(void)
{
	prctl(PR_SET_NAME, ODD_NAME);
}

Test(proc, start_and_comm)
{
	pid_t pid = child_of(odd_name);
	uint32_t start = 0, mine;
	uint64_t ticks = clock__boot() / 10000000;
	char comm[16];

	cr_assert_eq(proc__start(pid, &start), 0);
	cr_expect(start <= ticks + 1 && start + 300 > ticks, "%u, now %" PRIu64, start, ticks);
	cr_assert_eq(proc__start(getpid(), &mine), 0);
	cr_expect_geq(start, mine);
	cr_assert_eq(proc__comm(pid, comm), 0);
	cr_expect_str_eq(comm, ODD_NAME);
	cr_expect(proc__has_program(pid));
	cr_expect_eq(proc__nspid(pid), (uint32_t)pid);
	end_child(pid);
	cr_expect_eq(proc__start(pid, &start), -ESRCH);
	cr_expect_eq(proc__comm(pid, comm), -ESRCH);
	cr_expect(!proc__has_program(pid));
}

Test(proc, start_of_a_zombie)
{
	pid_t pid = child_of(NULL);
	siginfo_t si;
	uint32_t start;

	cr_assert_eq(proc__start(pid, &start), 0);
	kill(pid, SIGKILL);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	cr_expect_eq(proc__start(pid, &start), -ESRCH);
	cr_expect(!proc__has_program(pid));
	waitpid(pid, NULL, 0);
}

Test(proc, env)
{
	char *const env[] = { "A=1", "LONGER=x=y", "EMPTY=", "A=2", "NOT", "LONG=z", NULL };
	pid_t pid = program_of("sleep", "sleep", NULL, env);
	char *v = proc__env(pid, "A");

	cr_assert(v);
	cr_expect_str_eq(v, "1"); /* getenv takes the first one */
	free(v);
	v = proc__env(pid, "LONG");
	cr_assert(v);
	cr_expect_str_eq(v, "z");
	free(v);
	v = proc__env(pid, "LONGER");
	cr_assert(v);
	cr_expect_str_eq(v, "x=y");
	free(v);
	v = proc__env(pid, "EMPTY");
	cr_assert(v);
	cr_expect_str_eq(v, "");
	free(v);
	cr_expect_null(proc__env(pid, "NOT"));
	cr_expect_null(proc__env(pid, "LON"));
	end_child(pid);
	cr_expect_null(proc__env(pid, "A"));
}

Test(proc, named)
{
	char *const env[] = { NULL };
	char script[PATH_MAX];
	pid_t pid;

	/* the name of the file that runs, whatever it calls itself */
	copy_program("sleep", "my-sleeper");
	pid = program_of(in_dir("my-sleeper"), "/opt/other/name", NULL, env);
	cr_expect(proc__named(pid, "my-sleeper"));
	cr_expect(proc__named(pid, "name")); /* base name of argv[0] */
	cr_expect(!proc__named(pid, "/opt/other/name"));
	cr_expect(!proc__named(pid, "my-sleepe"));
	cr_expect(!proc__named(pid, "my-sleeper2"));
	cr_expect(!proc__named(pid, ""));
	end_child(pid);
	/* a comm of 15 bytes is a cut one */
	copy_program("sleep", "a-rather-long-name");
	pid = program_of(in_dir("a-rather-long-name"), "x", NULL, env);
	cr_expect(proc__named(pid, "a-rather-long-name"));
	cr_expect(!proc__named(pid, "a-rather-long-nam2"), "the file has another name");
	cr_expect(!proc__named(pid, "a-rather-long-"));
	unlink(in_dir("a-rather-long-name")); /* replaced by an update */
	cr_expect(proc__named(pid, "a-rather-long-name"));
	end_child(pid);
	/* the script that an interpreter runs */
	snprintf(script, sizeof(script), "%s", in_dir("train.py"));
	write_file("train.py", "read x\n");
	pid = program_of("sh", "sh", script, env);
	cr_expect(proc__named(pid, "train.py"));
	cr_expect(proc__named(pid, "sh"));
	cr_expect(!proc__named(pid, "train"));
	end_child(pid);
	cr_expect(!proc__named(pid, "sh"));
}

/* The script stands behind the options of the interpreter. */
Test(proc, named_by_script)
{
#define ARGS(...)                 \
	{                         \
		__VA_ARGS__, NULL \
	}
	static const struct {
		const char *argv[8];
		const char *name;
		bool yes;
	} cases[] = {
		{ ARGS("python3", "-u", "train.py"), "train.py", true },
		{ ARGS("python3", "-u", "-O", "dir/train.py", "other.py"), "train.py", true },
		{ ARGS("python3", "-u", "train.py", "other.py"), "other.py", false },
		{ ARGS("python3", "-W", "error", "train.py"), "train.py", true },
		{ ARGS("python3", "-W", "error", "train.py"), "error", false },
		{ ARGS("python3", "-Werror", "train.py"), "train.py", true },
		{ ARGS("python3", "-uX", "dev", "train.py"), "train.py", true },
		{ ARGS("python3", "-uXdev", "train.py"), "train.py", true },
		{ ARGS("python3", "-m", "torch.distributed.run", "train.py"),
		  "torch.distributed.run", true },
		{ ARGS("python3", "-m", "torch.distributed.run", "train.py"), "train.py", false },
		{ ARGS("python3", "-umjob", "train.py"), "job", true },
		{ ARGS("python3", "-c", "train.py"), "train.py", false },
		{ ARGS("python3", "-uc", "code", "train.py"), "train.py", false },
		{ ARGS("python3", "-", "train.py"), "train.py", false },
		{ ARGS("python3", "--", "train.py"), "train.py", true },
		{ ARGS("python3", "--check-hash-based-pycs", "always", "train.py"), "train.py",
		  true },
		{ ARGS("python3", "-u"), "-u", false },
		{ ARGS("python3", "-X"), "-X", false },
		{ ARGS("python3", "-m"), "-m", false },
		{ ARGS("/bin/bash", "-e", "-o", "pipefail", "run.sh"), "run.sh", true },
		{ ARGS("bash", "-em", "run.sh"), "run.sh", true },
		{ ARGS("bash", "-c", "run.sh"), "run.sh", false },
		{ ARGS("bash", "--rcfile", "x", "run.sh"), "run.sh", true },
	};
	char file[PATH_MAX];
	size_t i;

	copy_program("sleep", "quiet");
	snprintf(file, sizeof(file), "%s", in_dir("quiet"));
	for (i = 0; i < MT_ARRAY_SIZE(cases); i++) {
		pid_t pid = fork();
		char got[64];

		cr_assert(pid >= 0);
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			/* Stopped at its first instruction: it keeps these arguments. */
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
			execv(file, (char *const *)cases[i].argv);
			_exit(127);
		}
		cr_assert_eq(waitpid(pid, NULL, 0), pid);
		snprintf(got, sizeof(got), "%s %s %s", cases[i].argv[0], cases[i].argv[1],
			 cases[i].argv[2] ? cases[i].argv[2] : "");
		cr_expect_eq(proc__named(pid, cases[i].name), cases[i].yes, "%s: %s", got,
			     cases[i].name);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

static void renamed(void)
{
	prctl(PR_SET_NAME, "renamed");
}

/* Programs that set their title keep the file that they run. */
Test(proc, named_by_the_executable)
{
	pid_t pid = child_of(renamed);
	char exe[PATH_MAX], *base;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	cr_assert_gt(n, 0);
	exe[n] = '\0';
	base = strrchr(exe, '/') + 1;
	cr_expect(proc__named(pid, "renamed"));
	cr_expect(proc__named(pid, base));
	end_child(pid);
}

/* ---- mappings ---- */

struct look {
	const char *path;
	unsigned int n;
	struct mapping m;
};

static int find_mapping(void *ctx, const struct mapping *m)
{
	struct look *l = ctx;

	cr_assert_lt(m->start, m->end);
	if (strcmp(m->path, l->path) == 0) {
		l->m = *m;
		l->n++;
	}
	return 0;
}

static void *map_file(const char *name, const char *bytes)
{
	int fd;
	void *p;

	write_file(name, bytes);
	fd = open(in_dir(name), O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	cr_assert_neq(p, MAP_FAILED);
	close(fd);
	return p;
}

static void has_bytes(const struct mapping *m, const char *bytes)
{
	char got[64] = "";
	int fd = mapping__open(getpid(), m);

	cr_assert_geq(fd, 0, "%s", strerror(-fd));
	cr_expect_gt(read(fd, got, sizeof(got) - 1), 0);
	cr_expect_str_eq(got, bytes);
	close(fd);
}

Test(proc, mapping_with_an_odd_name)
{
	void *p = map_file("odd \n name.so", "odd one");
	struct look l = { .path = in_dir("odd \n name.so") };
	struct stat st;

	cr_assert_eq(proc__each_mapping(getpid(), find_mapping, &l), 0);
	cr_assert_eq(l.n, 1);
	cr_expect_eq(l.m.start, (uintptr_t)p);
	cr_expect_eq(l.m.end, (uintptr_t)p + 4096);
	cr_expect_eq(l.m.offset, 0);
	cr_expect(!l.m.deleted);
	cr_assert_eq(stat(l.path, &st), 0);
	cr_expect_eq(l.m.ino, st.st_ino);
	l.m.path = l.path; /* the line of maps is gone */
	has_bytes(&l.m, "odd one");
	l.m.start++; /* as if it had just been changed: then by its path */
	has_bytes(&l.m, "odd one");
	munmap(p, 4096);
}

Test(proc, deleted_mapping)
{
	void *p = map_file("gone lib.so", "gone one");
	struct look l = { .path = in_dir("gone lib.so") };

	unlink(l.path);
	cr_assert_eq(proc__each_mapping(getpid(), find_mapping, &l), 0);
	cr_assert_eq(l.n, 1);
	cr_expect(l.m.deleted);
	if (geteuid() == 0)
		has_bytes(&l.m, "gone one");
	/* another file of that name is another file */
	write_file("gone lib.so", "a new one");
	l.m.path = l.path;
	l.m.start++;
	cr_expect_lt(mapping__open(getpid(), &l.m), 0);
	munmap(p, 4096);
}

static int stop_at_once(void *ctx, const struct mapping *m)
{
	++*(int *)ctx;
	return 42;
}

static int executable_files(void *ctx, const struct mapping *m)
{
	cr_expect_eq(m->path[0], '/', "%s", m->path);
	++*(int *)ctx;
	return 0;
}

Test(proc, mappings_of_executable_files_only)
{
	void *data,
		*anon = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct look l;
	int n = 0, fd;

	write_file("data.so", "data");
	fd = open(in_dir("data.so"), O_RDONLY | O_CLOEXEC);
	data = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	cr_assert(data != MAP_FAILED && anon != MAP_FAILED);
	close(fd);
	l = (struct look){ .path = in_dir("data.so") };
	cr_assert_eq(proc__each_mapping(getpid(), find_mapping, &l), 0);
	cr_expect_eq(l.n, 0);
	cr_assert_eq(proc__each_mapping(getpid(), executable_files, &n), 0);
	cr_expect_gt(n, 2);
	n = 0;
	cr_expect_eq(proc__each_mapping(getpid(), stop_at_once, &n), 42);
	cr_expect_eq(n, 1);
	cr_expect_eq(proc__each_mapping(INT_MAX, stop_at_once, &n), -ESRCH);
	munmap(data, 4096);
	munmap(anon, 4096);
}

Test(stub, paths)
{
	cr_expect(path__is_stub("/usr/local/Ascend/x86_64-linux/devlib/libascend_hal.so"));
	cr_expect(path__is_stub("/usr/local/Ascend/lib64/stub/libascend_hal.so"));
	cr_expect(path__is_stub("/a/devlib/linux/x86_64/libascend_hal.so"));
	cr_expect(!path__is_stub("/usr/local/Ascend/driver/lib64/driver/libascend_hal.so"));
	cr_expect(!path__is_stub("/a/stubs/libascend_hal.so"));
	cr_expect(!path__is_stub("/a/libstub/libascend_hal.so"));
	cr_expect(!path__is_stub("/a/lib64/stub"));
	cr_expect(!path__is_stub("libascend_hal.so"));
}

static int find_pid(void *ctx, pid_t pid)
{
	return pid == *(pid_t *)ctx ? 7 : 0;
}

Test(proc, each)
{
	pid_t pid = child_of(NULL), none = INT_MAX;

	cr_expect_eq(proc__each(find_pid, &pid), 7);
	cr_expect_eq(proc__each(find_pid, &none), 0);
	end_child(pid);
	cr_expect_eq(proc__each(find_pid, &pid), 0);
}

/* ---- cgroups ---- */

static int is_pid(void *ctx, pid_t pid)
{
	return pid == *(pid_t *)ctx;
}

/* By what /proc says and by a walk through the folder, the same. */
static void in_cgroup(const char *path, pid_t pid, int want)
{
	cr_expect_eq(cgroup__has(path, pid), want, "%s", path);
	cr_expect_eq(cgroup__each(path, is_pid, &pid), want, "%s", path);
}

Test(cgroup, who_is_in)
{
	static const char *const mounts[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids",
					      "/sys/fs/cgroup" };
	char mine[PATH_MAX] = "", other[PATH_MAX], procs[PATH_MAX + 16];
	pid_t pid = child_of(NULL);
	FILE *f;
	size_t i;

	cr_expect_eq(cgroup__has("/tmp", pid), -EMEDIUMTYPE);
	cr_expect_eq(cgroup__each("/proc", is_pid, &pid), -EMEDIUMTYPE);
	cr_expect_eq(cgroup__has("/no such cgroup", pid), -ENOENT);
	for (i = 0; i < 3; i++) {
		snprintf(mine, sizeof(mine), "%s/memtap-test.%d", mounts[i], (int)getpid());
		if (!mkdir(mine, 0755))
			break;
	}
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", mine);
	f = i < 3 ? fopen(procs, "we") : NULL;
	if (!f) {
		rmdir(mine);
		end_child(pid);
		cr_skip_test("no cgroup can be made here");
	}
	/* Its name is the beginning of another's. */
	snprintf(other, sizeof(other), "%.*sx", (int)sizeof(other) - 2, mine);
	cr_assert_eq(mkdir(other, 0755), 0);
	in_cgroup(mine, pid, 0);
	fprintf(f, "%d", (int)pid);
	cr_expect_eq(fclose(f), 0);
	in_cgroup(mine, pid, 1);
	in_cgroup(other, pid, 0);
	in_cgroup(mounts[i], pid, 1);
	end_child(pid);
	rmdir(other);
	for (i = 0; i < 100 && rmdir(mine); i++)
		usleep(10000);
}

/* ---- notices of new mappings ---- */

static void count_mine(void *ctx, const struct map_event *e)
{
	if (e->pid == getpid() && strcmp(e->path, in_dir("x.so")) == 0)
		++*(size_t *)ctx;
}

static void map_times(int fd, size_t n)
{
	while (n--) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		cr_assert(p != MAP_FAILED);
		munmap(p, 4096);
	}
}

TestSuite(mapwatch, .init = make_dir, .fini = remove_dir);

Test(mapwatch, notices_and_their_loss)
{
	struct mapwatch *w;
	struct map_gap gap;
	uint64_t before, after, lost;
	size_t n = 0;
	cpu_set_t one;
	struct pollfd ready = { .events = POLLIN };
	int fd, err = mapwatch__open(&w, 16);

	if (err == -EACCES || err == -EPERM)
		cr_skip_test("perf events of the whole host are not permitted: %s", strerror(-err));
	cr_assert_eq(err, 0, "%s", strerror(-err));
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	write_file("x.so", "text");
	fd = open(in_dir("x.so"), O_RDONLY | O_CLOEXEC);
	mapwatch__read(w, count_mine, &n, &gap); /* what came before */
	n = 0;
	ready.fd = mapwatch__fd(w);
	(void)poll(&ready, 1, 0); /* of others, and before */
	map_times(fd, 3);
	cr_expect_eq(poll(&ready, 1, 1000), 1, "nothing wakes the reader");
	mapwatch__read(w, count_mine, &n, &gap);
	cr_expect_eq(n, 3);
	cr_expect(!gap.missing);
	/* More than the ring holds: said at once, though the kernel has not told yet. */
	n = 0;
	before = clock__boot();
	map_times(fd, 4000);
	after = clock__boot();
	mapwatch__read(w, count_mine, &n, &gap);
	cr_expect(n > 100 && n < 4000, "%zu", n);
	cr_expect(gap.missing);
	lost = gap.lost; /* not 0 when another process's shorter record had room again */
	cr_expect(gap.since > before && gap.since < after);
	/* How many comes with the next one; that they are missing is not said twice. */
	map_times(fd, 1);
	mapwatch__read(w, count_mine, &n, &gap);
	lost += gap.lost;
	cr_expect_geq(n + lost, 4001, "%zu + %" PRIu64, n, lost);
	cr_expect(!gap.missing);
	map_times(fd, 1);
	mapwatch__read(w, count_mine, &n, &gap);
	cr_expect(!gap.missing && !gap.lost);
	close(fd);
	mapwatch__close(w);
}
