// SPDX-License-Identifier: Apache-2.0
/*
 * Stopped threads of real programs, walked by our rows and by libdwfl, which
 * knows nothing of them: the same frames, to the root.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <elf.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unwind_test.h"

static pid_t target;

static int read_target(void *dst, uint32_t n, uint64_t addr)
{
	struct iovec l = { dst, n }, r = { (void *)(uintptr_t)addr, n };

	return process_vm_readv(target, &l, 1, &r, 1, 0) == (ssize_t)n ? 0 : -EFAULT;
}

struct stack {
	uint64_t pc[MT_UW_MAX_FRAMES];
	uint32_t n;
	int end;
};

static int on_frame(Dwfl_Frame *f, void *arg)
{
	struct stack *s = arg;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(f, &pc, NULL) || s->n == MT_UW_MAX_FRAMES)
		return DWARF_CB_ABORT;
	s->pc[s->n++] = pc;
	return DWARF_CB_OK;
}

static void start_registers(struct mt_uw *u, pid_t tid)
{
#if defined(__x86_64__)
	struct user_regs_struct r;
	struct iovec v = { &r, sizeof(r) };

	cr_assert_eq(ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &v), 0);
	u->pc = r.rip;
	u->sp = r.rsp;
	u->fp = r.rbp;
	memcpy(u->regs,
	       (uint64_t[]){ r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9,
			     r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip },
	       17 * sizeof(u->regs[0]));
	u->regs_known = 1;
#else
	struct user_regs_struct r;
	struct iovec v = { &r, sizeof(r) };

	cr_assert_eq(ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &v), 0);
	u->pc = r.pc;
	u->sp = r.sp;
	u->fp = r.regs[29];
	u->lr = r.regs[30];
#endif
	u->exact = 1;
	u->first = kernel.proc.first;
	u->n = kernel.proc.n;
	u->gen = kernel.proc.gen;
}

static void ours(pid_t tid, struct stack *s)
{
	static struct mt_uw u;

	memset(&u, 0, sizeof(u));
	start_registers(&u, tid);
	do {
		s->pc[s->n++] = u.pc;
	} while (!uw_step(&u));
	s->end = u.rec.end;
}

static bool stop(pid_t tid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, tid, 0, 0) || ptrace(PTRACE_INTERRUPT, tid, 0, 0))
		return false;
	return waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status);
}

/* All threads of the target, once. */
static void compare(Dwfl *dwfl, size_t *stacks, size_t *odd, size_t *deepest)
{
	char path[64];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)target);
	dir = opendir(path);
	cr_assert(dir);
	while ((e = readdir(dir))) {
		struct stack a = { .n = 0 }, b = { .n = 0 };
		pid_t tid = atoi(e->d_name);
		uint32_t i;

		if (!tid || !stop(tid))
			continue;
		ours(tid, &a);
		dwfl_getthread_frames(dwfl, tid, on_frame, &b);
		for (i = 0; i < a.n && i < b.n && a.pc[i] == b.pc[i]; i++)
			;
		++*stacks;
		/* In the middle of swapcontext, whose description is wrong while it changes stacks.
		 */
		if (a.end != MT_END_ROOT && a.n == 1 && i == 1) {
			++*odd;
			goto next;
		}
		cr_expect(i == a.n && i == b.n,
			  "frame %u of %u, %u of libdwfl: %#jx, %#jx (end %d)", i, a.n, b.n,
			  (uintmax_t)a.pc[i], (uintmax_t)b.pc[i], a.end);
		cr_expect(a.end == MT_END_ROOT || a.end == MT_END_ENTRY, "end %d after %u frames",
			  a.end, a.n);
		*deepest = *deepest > a.n ? *deepest : a.n;
	next:
		ptrace(PTRACE_DETACH, tid, 0, 0);
	}
	closedir(dir);
}

static void run(const char *const argv[])
{
	const struct timespec begin = { .tv_nsec = 700000000 };

	target = fork();
	cr_assert_geq(target, 0);
	if (!target) {
		execv(argv[0], (char **)argv);
		_exit(127);
	}
	nanosleep(&begin, NULL);
}

static void watch(const char *const argv[], size_t rounds, size_t least_deep, size_t tables)
{
	static char *path;
	static const Dwfl_Callbacks cb = { .find_elf = dwfl_linux_proc_find_elf,
					   .find_debuginfo = dwfl_standard_find_debuginfo,
					   .debuginfo_path = &path };
	const struct timespec ms = { .tv_nsec = 1000000 };
	struct unwind_store *s;
	struct unwind_stats st;
	size_t stacks = 0, odd = 0, deepest = 0, i;
	Dwfl *dwfl;

	run(argv);
	arrays__init();
	read_memory = read_target;
	cr_assert_eq(unwind_store__new(&to_arrays, 0, -1, &s), 0);
	cr_assert_eq(unwind_store__process(s, target), 0);
	dwfl = dwfl_begin(&cb);
	dwfl_linux_proc_report(dwfl, target);
	dwfl_report_end(dwfl, NULL, NULL);
	cr_assert_eq(dwfl_linux_proc_attach(dwfl, target, true), 0, "%s", dwfl_errmsg(-1));
	for (i = 0; i < rounds; i++) {
		compare(dwfl, &stacks, &odd, &deepest);
		nanosleep(&ms, NULL);
	}
	dwfl_end(dwfl);
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	cr_expect_geq(stacks, rounds);
	cr_expect_leq(odd, stacks / 100, "%zu of %zu", odd, stacks);
	cr_expect_geq(deepest, least_deep, "deepest %zu", deepest);
	unwind_store__stats(s, &st);
	cr_expect(st.tables >= tables && st.rows > 1000 && !st.rules_lost && !st.no_room);
	unwind_store__forget(s, target);
	cr_expect(!kernel.has_proc);
	unwind_store__free(s);
	arrays__fini();
}

Test(unwind_live, python)
{
	static const char script[] =
		"import threading, re, json\n"
		"def work():\n"
		"    while True:\n"
		"        json.dumps({str(i): [i] * 5 for i in range(50)})\n"
		"        re.sub('a.*b', 'c', 'xxaab' * 20)\n"
		"        sorted(range(100), key=lambda x: -x)\n"
		"def deep(n):\n"
		"    work() if not n else sorted([n], key=lambda x: deep(n - 1))\n"
		"for i in range(2):\n"
		"    threading.Thread(target=deep, args=(i * 12,), daemon=True).start()\n"
		"work()\n";

	watch((const char *const[]){ "/usr/bin/python3", "-c", script, NULL }, 120, 25, 2);
}

Test(unwind_live, cxx)
{
	watch((const char *const[]){ STACKER, NULL }, 300, 12, 2);
}

/* All in one file, which the kernel maps by itself. */
Test(unwind_live, static_pie)
{
	watch((const char *const[]){ STACKER_STATIC, NULL }, 200, 12, 1);
}

/* File that an address of the target is of. */
static void file_at(uint64_t pc, char *out, size_t size)
{
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)target);
	f = fopen(path, "re");
	cr_assert(f);
	*out = '\0';
	while (fgets(line, sizeof(line), f)) {
		unsigned long from, to;
		const char *name = strchr(line, '/');

		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && pc >= from && pc < to && name)
			snprintf(out, size, "%s", name);
	}
	fclose(f);
}

/*
 * A limit: musl is built without .eh_frame, so that a stack ends, and says so, at the
 * first function of it: the one that calls main.
 */
Test(unwind_live, musl)
{
	struct unwind_store *s;
	struct stack a = { .n = 0 };
	char file[512];
	uint32_t i;

	if (!*MUSL)
		cr_skip_test("no musl-gcc here");
	run((const char *const[]){ MUSL, NULL });
	arrays__init();
	read_memory = read_target;
	cr_assert_eq(unwind_store__new(&to_arrays, 0, -1, &s), 0);
	cr_assert_eq(unwind_store__process(s, target), 0);
	cr_assert(stop(target));
	ours(target, &a);
	cr_expect_eq(a.n, 5, "%u frames", a.n);
	for (i = 0; i < a.n; i++) {
		file_at(a.pc[i], file, sizeof(file));
		cr_expect_eq(!strstr(file, "-musl/") && !strstr(file, "ld-musl"), i < 4, "%u: %s",
			     i, file);
	}
	cr_expect(a.end == MT_END_NOTABLE || a.end == MT_END_NOROW, "end %d", a.end);
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	unwind_store__free(s);
	arrays__fini();
}
