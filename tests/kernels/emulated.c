// SPDX-License-Identifier: Apache-2.0
/*
 * Asks the kernel what it does with the instruction at each FILE OFFSET of stdin,
 * independently of memtap: prints "FILE OFFSET emulated|stepped|refused|missed".
 *
 * The bytes are copied to a page of their own, a uprobe is set on them, and a
 * child runs them. A kernel that steps an instruction maps the page "[uprobes]"
 * for that into the process; one that emulates it does not. What follows the
 * instruction, or what it jumps to, is of no interest: it is met with a signal.
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define INSN_BYTES 16
#define PAGE 4096

enum answer { EMULATED, STEPPED, UNKNOWN };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int step_page(void)
{
	static char buf[1 << 16];
	int fd = open("/proc/self/maps", O_RDONLY);
	size_t have = 0;
	ssize_t n;

	while ((n = read(fd, buf + have, sizeof(buf) - 1 - have)) > 0)
		have += (size_t)n;
	buf[have] = '\0';
	return fd < 0 || n < 0 ? -1 : strstr(buf, "[uprobes]") != NULL;
}

/* Wherever the instruction has led to, it has been executed or refused by then. */
static void on_signal(int sig)
{
	int page = step_page();

	(void)sig;
	_exit(page < 0 ? UNKNOWN : page ? STEPPED : EMULATED);
}

static void run(void *code)
{
	static char alt[1 << 16], stack[1 << 16];
	static const int sigs[] = { SIGSEGV, SIGILL, SIGBUS, SIGTRAP, SIGFPE, SIGALRM };
	stack_t ss = { .ss_sp = alt, .ss_size = sizeof(alt) };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	void *sp = stack + sizeof(stack) / 2;
	size_t i;

	sigaltstack(&ss, NULL);
	for (i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
		sigaction(sigs[i], &sa, NULL);
	alarm(2); /* should it jump to a loop */
#if defined(__x86_64__)
	__asm__ volatile("mov %0, %%rsp\n\tjmp *%1" ::"r"(sp), "r"(code) : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("mov sp, %0\n\tbr %1" ::"r"(sp), "r"(code) : "memory");
#else
#error "unknown architecture"
#endif
	_exit(UNKNOWN);
}

static int number(const char *path)
{
	FILE *f = fopen(path, "r");
	int v = -1;

	if (!f || fscanf(f, "%d", &v) != 1)
		die(path);
	fclose(f);
	return v;
}

/* A uprobe in all processes; -1 when the kernel refuses the instruction. */
static int probe(const char *path)
{
	static int type = -1;
	struct perf_event_attr a = { .size = sizeof(a) };

	if (type < 0)
		type = number("/sys/bus/event_source/devices/uprobe/type");
	a.type = (uint32_t)type;
	a.config1 = (uintptr_t)path;
	return (int)syscall(SYS_perf_event_open, &a, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The bytes in a file of their own: an instruction at 0, nothing valid behind it. */
static void *lay_out(const uint8_t insn[INSN_BYTES], size_t len, char *path)
{
	uint8_t page[PAGE];
	void *code;
	int fd;

#if defined(__x86_64__)
	memset(page, 0xf4, sizeof(page)); /* hlt */
#else
	memset(page, 0, sizeof(page)); /* udf */
#endif
	memcpy(page, insn, len);
	strcpy(path, "/tmp/insn.XXXXXX");
	fd = mkstemp(path);
	if (fd < 0 || write(fd, page, sizeof(page)) != sizeof(page))
		die(path);
	code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (code == MAP_FAILED)
		die("mmap");
	close(fd);
	return code;
}

static const char *ask(const uint8_t insn[INSN_BYTES])
{
	char path[32];
	void *code;
	const char *said = "missed";
	int status;
	pid_t pid;

#if defined(__x86_64__)
	code = lay_out(insn, INSN_BYTES, path);
#else
	code = lay_out(insn, 4, path);
#endif
	/* Left open: the end of a uprobe waits for a grace period. */
	if (probe(path) < 0) {
		said = "refused";
		goto out;
	}
	if (!memcmp(code, insn, 4)) /* no breakpoint there */
		goto out;
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		run(code);
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (WIFEXITED(status) && WEXITSTATUS(status) != UNKNOWN)
		said = WEXITSTATUS(status) == STEPPED ? "stepped" : "emulated";
out:
	munmap(code, PAGE);
	unlink(path);
	return said;
}

int main(void)
{
	char path[512];
	unsigned long off;

	while (scanf("%511s %lx", path, &off) == 2) {
		uint8_t insn[INSN_BYTES] = { 0 };
		int fd = open(path, O_RDONLY);

		if (fd < 0 || pread(fd, insn, sizeof(insn), (off_t)off) < 4)
			die(path);
		close(fd);
		printf("%s 0x%lx %s\n", path, off, ask(insn));
	}
	return 0;
}
