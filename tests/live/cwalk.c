// SPDX-License-Identifier: Apache-2.0
/*
 * Helper of the live tests: C stacks of all kinds (cwalk_target.c), by the unwinder
 * against what the program itself says of them.
 *
 *   cwalk plain       in BPF, at a probe
 *   cwalk sleepable   the same, by a program that may sleep
 *   cwalk steps       in user space, at each instruction of a stretch (cwalk_steps.c)
 *   cwalk store DIR   write a stack of each kind into DIR (tests/unit/data-stacks)
 *
 * Lines: "same KIND STACKS FRAMES", "differs ..."; "skip REASON" with status 77,
 * and with CWALK_LOG set what the kernel says of it.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "cwalk.skel.h"
#include "cwalk_user.h"

#define ROUNDS 40
#define MAX_KINDS 32
#define SKIP 77

static struct cwalk_shared *shared;

struct got {
	size_t n, wrong;
	struct hmap known; /* hash of a stack -> its frames */
	uint64_t bias_of_file[256];
	struct {
		const char *what;
		size_t stacks, frames;
	} kind[MAX_KINDS];
};

static void count(struct got *g, const struct cwalk_note *n)
{
	size_t i;

	for (i = 0; i < MAX_KINDS && g->kind[i].what && strcmp(g->kind[i].what, n->what) != 0; i++)
		;
	if (i == MAX_KINDS)
		return;
	g->kind[i].what = n->what;
	g->kind[i].stacks++;
	g->kind[i].frames += (size_t)n->n + 1;
}

static uint64_t address_of(const struct got *g, uint64_t frame)
{
	uint32_t file = (uint32_t)(frame >> MT_FRAME_FILE_SHIFT) & ((1U << MT_FRAME_FILE_BITS) - 1);

	if (frame & MT_FRAME_RAW)
		return frame & ~(MT_FRAME_RAW | MT_FRAME_EXACT);
	return (frame & MT_FRAME_ADDR) + g->bias_of_file[file & 255];
}

/* The probe is in a function that the one called which noted the stack. */
static int first_wrong(const struct cwalk_note *n, const uint64_t *pc, uint32_t depth)
{
	int i;

	for (i = 1; i < n->n; i++)
		if (i + 1 >= (int)depth || (n->pc[i] != CWALK_ANY && pc[i + 1] != n->pc[i]))
			return i + 1;
	return (int)depth == n->n + 1 ? 0 : n->n + 1;
}

static void judge(struct got *g, const struct cwalk_note *n, const uint64_t *pc, uint32_t depth,
		  int end, int guessed)
{
	int at = first_wrong(n, pc, depth), i;

	if (!at && end == n->end && guessed == n->guessed) {
		count(g, n);
		return;
	}
	if (g->wrong++ >= 8)
		return;
	printf("differs %s: frame %d of %u, %d are right; end %d, right is %d; guessed %d, right "
	       "is %d\n",
	       n->what, at, depth, n->n + 1, end, n->end, guessed, n->guessed);
	for (i = 0; i < (int)depth && i < at + 3; i++)
		printf("  %#jx %#jx\n", (uintmax_t)pc[i],
		       (uintmax_t)(i > 1 && i <= n->n ? n->pc[i - 1] : 0));
}

static int on_stack(void *ctx, void *data, size_t size)
{
	const struct mt_stack *s = data;
	struct got *g = ctx;
	uint64_t *kept, pc[MT_UW_MAX_FRAMES];
	struct hkey k = { s->hash[0], s->hash[1] };
	bool fresh;
	uint32_t i;

	if (size < sizeof(*s) || s->h.size != size || s->n > MT_UW_MAX_FRAMES)
		return -EPROTO;
	kept = hmap__put(&g->known, k, &fresh);
	if (s->with) {
		*kept = (uint64_t)(uintptr_t)malloc(sizeof(pc));
		memcpy((void *)(uintptr_t)*kept, s + 1, s->n * sizeof(uint64_t));
	} else if (fresh) {
		return -EPROTO;
	}
	for (i = 0; i < s->n; i++)
		pc[i] = address_of(g, ((uint64_t *)(uintptr_t)*kept)[i]);
	judge(g, &shared->note[g->n++], pc, s->n, s->end, s->guessed);
	return 0;
}

static int report(const struct got *g, size_t want)
{
	size_t i;

	for (i = 0; i < MAX_KINDS && g->kind[i].what; i++)
		printf("same %zu %zu %s\n", g->kind[i].stacks, g->kind[i].frames, g->kind[i].what);
	printf("stacks %zu of %zu wrong %zu\n", g->n, want, g->wrong);
	return g->wrong || g->n != want || !want;
}

static int site_offset(size_t *off)
{
	struct elf_image *img;
	uint64_t vaddr, size, o;
	int err = elf_image__open("/proc/self/exe", &img);

	if (err)
		return err;
	err = elf_image__symbol(img, "cwalk_site", &vaddr, &size);
	if (!err)
		err = elf_image__offset(img, vaddr, &o);
	if (!err)
		*off = o;
	elf_image__close(img);
	return err;
}

static void ms(long n)
{
	const struct timespec t = { .tv_nsec = n * 1000000 };

	nanosleep(&t, NULL);
}

static pid_t start_target(int rounds, int stops, bool steps)
{
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return -1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (steps || stops)
			ptrace(PTRACE_TRACEME, 0, 0, 0);
		if (steps)
			cwalk_steps(shared);
		cwalk_target(shared, rounds, stops);
	}
	while (!shared->ready)
		ms(1);
	return pid;
}

static void biases(struct got *g, const struct unwind_maps *maps, pid_t pid)
{
	uint32_t key = (uint32_t)pid, i;
	struct mt_uw_proc proc = { 0 };
	struct mt_uw_map m;

	bpf_map_lookup_elem(maps->procs, &key, &proc);
	for (i = 0; i < proc.n; i++) {
		key = proc.first + i;
		if (!bpf_map_lookup_elem(maps->maps, &key, &m) && m.file < 256)
			g->bias_of_file[m.file] = m.bias;
	}
}

/* The error code is of libbpf 1: -errno. */
static int load(struct cwalk_bpf **out, bool sleepable)
{
	struct cwalk_bpf *skel = cwalk_bpf__open();
	int err;

	*out = NULL;
	if (!skel)
		return -errno;
	bpf_program__set_autoload(skel->progs.take, !sleepable);
	bpf_program__set_autoload(skel->progs.take_s, sleepable);
	bpf_program__set_autoload(skel->progs.nothing, false);
	bpf_program__set_autoload(skel->progs.by_fp, false);
	err = cwalk_bpf__load(skel);
	if (err)
		cwalk_bpf__destroy(skel);
	else
		*out = skel;
	return err;
}

static int in_bpf(bool sleepable)
{
	struct cwalk_bpf *skel;
	int err = load(&skel, sleepable), rc = 1;
	static struct got g;
	struct unwind_store *store = NULL;
	struct ring_buffer *ring = NULL;
	struct bpf_link *link = NULL;
	struct unwind_maps maps;
	struct unwind_sink sink;
	size_t off = 0;
	pid_t pid;

	if (err) {
		printf("skip the unwinder's %s program does not load: %s\n",
		       sleepable ? "sleepable" : "plain", strerror(-err));
		return SKIP;
	}
	pid = start_target(ROUNDS, 0, false);
	maps = (struct unwind_maps){ .chunks = bpf_map__fd(skel->maps.uw_chunks),
				     .pages = bpf_map__fd(skel->maps.uw_pages),
				     .rules = bpf_map__fd(skel->maps.uw_rules),
				     .maps = bpf_map__fd(skel->maps.uw_maps),
				     .procs = bpf_map__fd(skel->maps.uw_procs) };
	sink = unwind_maps__sink(&maps);
	err = site_offset(&off);
	if (!err)
		err = unwind_store__new(&sink, 0, -1, &store);
	if (!err)
		err = unwind_store__process(store, pid);
	if (!err)
		biases(&g, &maps, pid);
	if (!err)
		link = bpf_program__attach_uprobe(sleepable ? skel->progs.take_s : skel->progs.take,
						  false, pid, "/proc/self/exe", off);
	ring = ring_buffer__new(bpf_map__fd(skel->maps.events), on_stack, &g, NULL);
	if (err || !link || !ring) {
		printf("differs: no probe: %s\n", strerror(err ? -err : errno));
		goto out;
	}
	shared->ready = 2;
	do {
		err = ring_buffer__consume(ring);
		ms(1);
	} while (err >= 0 && waitpid(pid, NULL, WNOHANG) != pid);
	if (err >= 0)
		err = ring_buffer__consume(ring);
	if (err < 0)
		printf("differs: a record that cannot be: %s\n", strerror(-err));
	rc = report(&g, (size_t)shared->n) || err < 0;
out:
	ring_buffer__free(ring);
	bpf_link__destroy(link);
	unwind_store__free(store);
	unwind_maps__close(&maps);
	cwalk_bpf__destroy(skel);
	return rc;
}

static int steps(void)
{
	cpu_set_t one;
	pid_t pid;
	int status, rc;

	/* On one processor with the target: waking another takes most of the time. */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	pid = start_target(0, 0, true);
	if (cwalk_user__open(pid))
		return 1;
	shared->ready = 2;
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return 1;
	rc = !cwalk_user__steps(shared, pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cwalk_user__close();
	return rc;
}

/* A stopped thread at the site: its stack is compared, and stored the first time. */
static void at_stop(struct got *g, pid_t tid, const char *dir)
{
	const struct cwalk_note *n = &shared->note[shared->n - 1];
	struct cwalk_frames f;
	struct cwalk_regs r;
	char path[4096], *p;
	size_t wrong = g->wrong;

	if (cwalk_user__regs(tid, &r))
		return;
	cwalk_user__walk(&r, &f);
	g->n++;
	judge(g, n, f.pc, f.n, f.end, f.guessed);
	if (wrong != g->wrong)
		return;
	p = path + snprintf(path, sizeof(path), "%s/", dir);
	snprintf(p, sizeof(path) - (size_t)(p - path), "%s %s.stack",
#if defined(__aarch64__)
		 "aarch64",
#else
		 "x86-64",
#endif
		 n->what);
	for (; *p; p++)
		if (*p == ' ' || *p == ',')
			*p = '-';
	if (cwalk_user__store(path, n->what, &r, n))
		g->wrong++;
}

/* In the site, after the call that stops it? */
static bool in_site(pid_t tid)
{
	struct cwalk_regs r;

	return !cwalk_user__regs(tid, &r) && r.pc - (uint64_t)(uintptr_t)cwalk_site < 64;
}

static int store(const char *dir)
{
	pid_t pid = start_target(2, 1, false), tid;
	static struct got g;
	int status;

	shared->ready = 2;
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) || cwalk_user__open(pid))
		return 1;
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
	ptrace(PTRACE_CONT, pid, 0, 0);
	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		int sig = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;

		if (!WIFSTOPPED(status))
			continue;
		if (sig == SIGSTOP && in_site(tid))
			at_stop(&g, tid, dir);
		ptrace(PTRACE_CONT, tid, 0, sig == SIGSTOP || sig == SIGTRAP ? 0 : sig);
	}
	cwalk_user__close();
	return report(&g, (size_t)shared->n);
}

int main(int argc, char **argv)
{
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	if (!getenv("CWALK_LOG"))
		libbpf_set_print(NULL);
	if (argc == 2 && strcmp(argv[1], "plain") == 0)
		return in_bpf(false);
	if (argc == 2 && strcmp(argv[1], "sleepable") == 0)
		return in_bpf(true);
	if (argc == 2 && strcmp(argv[1], "steps") == 0)
		return steps();
	if (argc == 3 && strcmp(argv[1], "store") == 0)
		return store(argv[2]);
	fprintf(stderr, "usage: cwalk plain | sleepable | steps | store DIR\n");
	return 2;
}
