// SPDX-License-Identifier: Apache-2.0
/*
 * Which instructions this kernel emulates beyond those that all of them do:
 * found by probing one of our own and running over it.
 *
 * A stepped instruction needs a place to be stepped at: the first one of a
 * process makes the kernel map the page "[uprobes]" (xol_add_vma in
 * kernel/events/uprobes.c). An emulated one leaves the map as it was. That
 * tells them apart for certain, where a timing would not.
 */
#include "probe/calibrate.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "probe/kernel.h"
#include "probe/probe.h"

/* Each function begins with the instruction in question and returns. */
#define CASE(name, insn)                                                                       \
	extern void name(void);                                                                \
	__asm__(".text\n\t.balign 16\n\t.globl " #name "\n\t.hidden " #name "\n\t.type " #name \
		", %function\n" #name ":\n\t" insn "\n\tret\n\t.size " #name ", .-" #name "\n")

#if defined(__x86_64__)
/* 6.18 accepts all nops; four bytes, as five may be rewritten to a call there. */
CASE(mt_calibrate_nop, "nopl 0(%rax)");
CASE(mt_calibrate_endbr, "endbr64");
#elif defined(__aarch64__)
/* 6.13: arm64 kernels simulate it (commit ac4ad5c09b34). */
CASE(mt_calibrate_nop, "nop");
/* The push of a frame record: proposed for arm64, in no release known. */
CASE(mt_calibrate_stp, "stp x29, x30, [sp, #-16]!\n\tldp x29, x30, [sp], #16");
#endif

static const struct {
	unsigned int bit;
	const char *text;
	void (*fn)(void);
	uint8_t clean[4]; /* its first bytes, where nobody has put a breakpoint */
} cases[] = {
#if defined(__x86_64__)
	{ SITE_EMU_MULTINOP, "multi-byte nop", mt_calibrate_nop, { 0x0f, 0x1f, 0x40, 0x00 } },
	{ SITE_EMU_ENDBR, "endbr64", mt_calibrate_endbr, { 0xf3, 0x0f, 0x1e, 0xfa } },
#elif defined(__aarch64__)
	{ SITE_EMU_NOP, "nop", mt_calibrate_nop, { 0x1f, 0x20, 0x03, 0xd5 } },
	{ SITE_EMU_STP, "stp x29, x30", mt_calibrate_stp, { 0xfd, 0x7b, 0xbf, 0xa9 } },
#endif
};

int self__file_offset(const void *address, uint64_t *off)
{
	uint64_t want = (uint64_t)(uintptr_t)address;
	unsigned long long start, end, base;
	char *maps, *line, *save = NULL, perm[8];
	int err;

	err = file__read("/proc/self/maps", 1u << 20, &maps);
	if (err < 0)
		return err;
	err = -ENOENT;
	for (line = strtok_r(maps, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (sscanf(line, "%llx-%llx %7s %llx", &start, &end, perm, &base) == 4 &&
		    want >= start && want < end) {
			*off = want - start + base;
			err = 0;
			break;
		}
	free(maps);
	return err;
}

/* Is the page for stepping mapped? Only system calls: runs in a forked child. -1 unreadable. */
static int has_step_page(void)
{
	static const char name[] = "[uprobes]\n";
	static char buf[4096 + sizeof(name)];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t kept = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while ((n = read(fd, buf + kept, 4096)) > 0) {
		size_t have = kept + (size_t)n;

		if (memmem(buf, have, name, sizeof(name) - 1))
			return 1;
		kept = MT_MIN(have, sizeof(name) - 1);
		memmove(buf, buf + have - kept, kept);
	}
	return n < 0 ? -1 : 0;
}

enum { CHILD_EMULATED, CHILD_STEPPED, CHILD_UNKNOWN };

/* 1 emulated, 0 stepped, -1 could not be tried. */
static int run_over(void (*fn)(void))
{
	int status;
	pid_t pid;

	pid = fork();
	if (pid < 0)
		return -1;
	if (!pid) {
		int before = has_step_page(), after;

		fn();
		after = has_step_page();
		_exit(before || after < 0 ? CHILD_UNKNOWN : after ? CHILD_STEPPED : CHILD_EMULATED);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	if (!WIFEXITED(status) || WEXITSTATUS(status) == CHILD_UNKNOWN)
		return -1;
	return WEXITSTATUS(status) == CHILD_EMULATED;
}

static void *close_in_thread(void *arg)
{
	close((int)(intptr_t)arg);
	return NULL;
}

void close__later(int fd)
{
	pthread_t t;

	if (pthread_create(&t, NULL, close_in_thread, (void *)(intptr_t)fd))
		close(fd);
	else
		pthread_detach(t);
}

/*
 * By a multi link where there is one: perf events are closed one after the other
 * for the whole system, and an open waits for all that are being closed.
 */
static int plant(int prog, uint64_t off)
{
	if (prog >= 0)
		return kernel__multi_link(prog, MT_BPF_TRACE_UPROBE_MULTI, "/proc/self/exe",
					  (const __u64 *)&off, NULL, 1, 0, 0);
	return kernel__perf_uprobe("/proc/self/exe", off, false, 0);
}

int calibrate(int prog, unsigned int *emu)
{
	int fd[MT_ARRAY_SIZE(cases)], err = -ENOENT, verdict;
	uint64_t off;
	size_t i;

	*emu = 0;
	/* All are opened before the first is closed: an open would wait for the close. */
	for (i = 0; i < MT_ARRAY_SIZE(cases); i++) {
		const void *fn = (const void *)(uintptr_t)cases[i].fn;

		fd[i] = -1;
		if (self__file_offset(fn, &off))
			continue;
		fd[i] = plant(prog, off);
		/* A breakpoint that is not there would say "emulated". */
		if (fd[i] < 0 || !memcmp(fn, cases[i].clean, sizeof(cases[i].clean)))
			continue;
		verdict = run_over(cases[i].fn);
		if (verdict >= 0)
			err = 0;
		if (verdict == 1)
			*emu |= cases[i].bit;
	}
	for (i = 0; i < MT_ARRAY_SIZE(cases); i++)
		if (fd[i] >= 0)
			close__later(fd[i]);
	return err;
}

const char *calibrate__text(unsigned int emu, char *buf, size_t n)
{
	size_t i, len = 0;

	snprintf(buf, n, "none");
	for (i = 0; i < MT_ARRAY_SIZE(cases); i++)
		if (emu & cases[i].bit && len < n)
			len += (size_t)snprintf(buf + len, n - len, "%s%s", len ? ", " : "",
						cases[i].text);
	return buf;
}
