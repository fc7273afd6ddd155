// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks taken by the BPF program at a probe, against those that the program
 * itself notes with glibc's backtrace() at the same call: all frames, of calls
 * through qsort, a signal handler and a recursion of any depth.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "stack.skel.h"
#include "symbol/symbol.h"

#define CALLS 2000

/* What the child notes, where the parent sees it. */
struct noted {
	void *pc[MT_UW_MAX_FRAMES + 8];
	int n;
};

static struct noted *notes;
static volatile int call;

__attribute__((noinline)) static void probed(void)
{
	asm volatile("" ::: "memory");
}

__attribute__((noinline)) static void note(void)
{
	struct noted *n = &notes[call];

	n->n = backtrace(n->pc, MT_UW_MAX_FRAMES + 8);
	probed();
	call++;
}

static int compare_ints(const void *a, const void *b)
{
	if (*(const int *)a == 3 && *(const int *)b == 4 && call < CALLS)
		note();
	return *(const int *)a - *(const int *)b;
}

static void on_signal(int sig)
{
	if (call < CALLS)
		note();
}

__attribute__((noinline)) static void recurse(int depth)
{
	volatile char room[64];

	room[0] = (char)depth;
	if (depth)
		recurse(depth - 1);
	else if (call < CALLS)
		note();
	room[1] = room[0];
}

static void child(int go)
{
	int v[] = { 5, 3, 4, 1 }, i;
	char c;

	signal(SIGUSR1, on_signal);
	if (read(go, &c, 1) != 1)
		_exit(1);
	for (i = 0; call < CALLS; i++) {
		int w[4];

		memcpy(w, v, sizeof(w));
		qsort(w, 4, sizeof(int), compare_ints);
		recurse(i % 230);
		raise(SIGUSR1);
	}
	_exit(0);
}

/* The stacks that came, in order. */
struct got {
	size_t n, wrong, cut, without;
	const struct mt_uw_map *maps;
	struct hmap known; /* first hash -> its frames */
	uint64_t bias_of_file[64];
};

static int on_stack(void *ctx, void *data, size_t size)
{
	const struct mt_stack *s = data;
	struct got *g = ctx;
	const uint64_t *frames = (const uint64_t *)(s + 1);
	struct noted *want = &notes[g->n++];
	struct hkey k = { s->hash[0], s->hash[1] };
	uint64_t *kept;
	bool fresh;
	int i, n = want->n;

	cr_assert_eq(s->h.type, MT_REC_STACK);
	cr_assert_eq(s->h.size, size);
	kept = hmap__put(&g->known, k, &fresh);
	if (s->with) {
		uint64_t *copy = malloc(s->n * sizeof(*copy) + 1);

		memcpy(copy, frames, s->n * sizeof(*copy));
		*kept = (uint64_t)(uintptr_t)copy;
	} else {
		g->without++;
		cr_assert(!fresh, "a stack that was never sent");
	}
	frames = (const uint64_t *)(uintptr_t)*kept;
	g->cut += s->end != MT_END_ROOT;
	/* backtrace() begins in note(), the probe in probed(), which note() called. */
	if (s->n != n + 1) {
		g->wrong++;
		return 0;
	}
	for (i = 1; i < n; i++) {
		uint32_t file = frames[i + 1] >> MT_FRAME_FILE_SHIFT & ((1U << MT_FRAME_FILE_BITS) - 1);
		uint64_t pc = (frames[i + 1] & MT_FRAME_ADDR) + g->bias_of_file[file & 63];

		g->wrong += pc != (uint64_t)(uintptr_t)want->pc[i];
	}
	return 0;
}

static void run(bool sleepable)
{
	struct stack_bpf *skel;
	struct unwind_maps maps;
	struct unwind_sink sink;
	struct unwind_store *store;
	struct got g = { 0 };
	struct ring_buffer *ring;
	struct bpf_link *link;
	struct bpf_program *prog;
	struct mt_uw_proc proc;
	struct elf_image *img;
	uint64_t off, vaddr = 0;
	uint32_t key, i;
	pid_t pid;
	int go[2], err;

	libbpf_set_print(NULL);
	skel = stack_bpf__open_and_load();
	if (!skel)
		cr_skip_test("these BPF programs do not load here: %s", strerror(errno));
	notes = mmap(NULL, CALLS * sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(notes, MAP_FAILED);
	cr_assert_eq(pipe(go), 0);
	pid = fork();
	if (!pid)
		child(go[0]);
	maps = (struct unwind_maps){ .chunks = bpf_map__fd(skel->maps.uw_chunks),
				     .pages = bpf_map__fd(skel->maps.uw_pages),
				     .rules = bpf_map__fd(skel->maps.uw_rules),
				     .maps = bpf_map__fd(skel->maps.uw_maps),
				     .procs = bpf_map__fd(skel->maps.uw_procs) };
	sink = unwind_maps__sink(&maps);
	cr_assert_eq(unwind_store__new(&sink, 0, -1, &store), 0);
	cr_assert_eq(unwind_store__process(store, pid), 0);
	key = (uint32_t)pid;
	cr_assert_eq(bpf_map_lookup_elem(maps.procs, &key, &proc), 0);
	for (i = 0; i < proc.n; i++) {
		struct mt_uw_map m;

		key = proc.first + i;
		cr_assert_eq(bpf_map_lookup_elem(maps.maps, &key, &m), 0);
		if (m.file < 64)
			g.bias_of_file[m.file] = m.bias;
		if ((uint64_t)(uintptr_t)probed >= m.start && (uint64_t)(uintptr_t)probed < m.end)
			vaddr = (uint64_t)(uintptr_t)probed - m.bias;
	}
	cr_assert_eq(elf_image__open("/proc/self/exe", &img), 0);
	cr_assert_eq(elf_image__offset(img, vaddr, &off), 0);
	elf_image__close(img);
	prog = sleepable ? skel->progs.take_s : skel->progs.take;
	link = bpf_program__attach_uprobe(prog, false, pid, "/proc/self/exe", off);
	if (!link)
		cr_skip_test("no perf uprobe here: %s", strerror(errno));
	ring = ring_buffer__new(bpf_map__fd(skel->maps.events), on_stack, &g, NULL);
	cr_assert(ring);
	cr_assert_eq(write(go[1], "x", 1), 1);
	for (;;) {
		const struct timespec ms = { .tv_nsec = 1000000 };

		err = ring_buffer__consume(ring);
		cr_assert_geq(err, 0);
		if (waitpid(pid, NULL, WNOHANG) == pid)
			break;
		nanosleep(&ms, NULL);
	}
	ring_buffer__consume(ring);
	cr_expect_eq(g.n, CALLS, "%zu", g.n);
	cr_expect_eq(g.wrong, 0, "%zu frames or depths differ", g.wrong);
	cr_expect_eq(g.cut, 0, "%zu stacks are cut", g.cut);
	cr_expect_gt(g.without, CALLS / 3, "%zu", g.without);
	ring_buffer__free(ring);
	bpf_link__destroy(link);
	unwind_store__free(store);
	unwind_maps__close(&maps);
	stack_bpf__destroy(skel);
	munmap(notes, CALLS * sizeof(*notes));
}

Test(unwind_bpf, as_backtrace)
{
	run(false);
}

Test(unwind_bpf, sleepable)
{
	run(true);
}
