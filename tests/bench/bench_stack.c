// SPDX-License-Identifier: Apache-2.0
/*
 * What a stack costs: CPU time of a call of a probed function at some depth, with
 * an empty program, the kernel's walk by frame pointers, and ours by rows: with
 * bpf_loop, and as on kernels without it, in the program and by a tail call.
 *
 *   bench-stack [ROUNDS [CALLS]]    prints "depth<TAB>case<TAB>ns per call", a line a round
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stack.skel.h"
#include "taken.h"

void bench_stack_site(void);

/* Its first instruction is emulated by the kernel: the probe takes one trap. */
#ifdef __x86_64__
__asm__(".text\n.p2align 4\n.globl bench_stack_site\n.type bench_stack_site, @function\n"
	"bench_stack_site:\n.cfi_startproc\npush %rbp\n.cfi_adjust_cfa_offset 8\npop %rbp\n"
	".cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size bench_stack_site, . - "
	"bench_stack_site\n");
#else
__asm__(".text\n.p2align 4\n.globl bench_stack_site\n.type bench_stack_site, %function\n"
	"bench_stack_site:\n.cfi_startproc\nb 1f\n1: ret\n.cfi_endproc\n"
	".size bench_stack_site, . - bench_stack_site\n");
#endif

static double at_depth(int depth, int calls)
{
	volatile char room[48];
	struct timespec a, b;
	double ns;
	int i;

	room[0] = (char)depth;
	if (depth > 1) {
		ns = at_depth(depth - 1, calls);
		room[1] = room[0];
		return ns;
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	for (i = 0; i < calls; i++)
		bench_stack_site();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / calls;
}

/* A process that runs so many calls at each depth that is written to it. */
static void target(int from, int to, int calls)
{
	int depth;

	while (read(from, &depth, sizeof(depth)) == sizeof(depth)) {
		double ns = at_depth(depth, calls);

		if (write(to, &ns, sizeof(ns)) != sizeof(ns))
			break;
	}
	_exit(0);
}

static const int depths[] = { 1, 10, 20, 50, 100 };

static int measure(pid_t pid, int to, int from, const char *name, const struct bpf_program *prog,
		   size_t off, int rounds)
{
	struct bpf_link *link = NULL;
	size_t i;
	int r;

	if (prog) {
		link = bpf_program__attach_uprobe(prog, false, pid, "/proc/self/exe", off);
		if (!link)
			return -errno;
	}
	for (r = 0; r < rounds; r++)
		for (i = 0; i < sizeof(depths) / sizeof(*depths); i++) {
			double ns;

			if (write(to, &depths[i], sizeof(int)) != sizeof(int) ||
			    read(from, &ns, sizeof(ns)) != sizeof(ns))
				return -EPIPE;
			printf("%d\t%s\t%.0f\n", depths[i], name, ns);
		}
	bpf_link__destroy(link);
	return 0;
}

/* Where the function is in our file. */
static int site_offset(size_t *off)
{
	struct elf_image *img;
	uint64_t vaddr, size, o;
	int err = elf_image__open("/proc/self/exe", &img);

	if (err)
		return err;
	err = elf_image__symbol(img, "bench_stack_site", &vaddr, &size);
	if (!err)
		err = elf_image__offset(img, vaddr, &o);
	if (!err)
		*off = o;
	elf_image__close(img);
	return err;
}

static int drop(void *ctx, void *data, size_t size)
{
	return 0;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 5, calls = argc > 2 ? atoi(argv[2]) : 20000;
	struct unwind_store *store = NULL;
	struct ring_buffer *ring = NULL;
	int to[2], from[2], err;
	struct stack_tail_bpf *tail = NULL;
	struct stack_bpf *skel;
	struct unwind_maps maps = { .open_fd = -1 };
	struct unwind_sink sink;
	size_t off = 0;
	pid_t pid, reader;

	skel = stack_bpf__open_and_load();
	if (skel)
		tail = taken__load_tail(skel->obj);
	if (!tail || site_offset(&off) || pipe(to) || pipe(from)) {
		perror("bench-stack");
		return 1;
	}
	pid = fork();
	if (!pid)
		target(to[0], from[1], calls);
	maps.chunks = bpf_map__fd(skel->maps.uw_chunks);
	maps.pages = bpf_map__fd(skel->maps.uw_pages);
	maps.rules = bpf_map__fd(skel->maps.uw_rules);
	maps.maps = bpf_map__fd(skel->maps.uw_maps);
	maps.procs = bpf_map__fd(skel->maps.uw_procs);
	sink = unwind_maps__sink(&maps);
	err = unwind_store__new(&sink, 0, -1, &store);
	if (!err)
		err = unwind_store__process(store, pid);
	ring = ring_buffer__new(bpf_map__fd(skel->maps.events), drop, NULL, NULL);
	reader = fork(); /* empties the ring */
	if (!reader)
		for (;;)
			ring_buffer__poll(ring, 1), ring_buffer__consume(ring);
	if (!err)
		err = measure(pid, to[1], from[0], "no probe", NULL, off, rounds);
	if (!err)
		err = measure(pid, to[1], from[0], "empty program", skel->progs.nothing, off,
			      rounds);
	if (!err)
		err = measure(pid, to[1], from[0], "frame pointers", skel->progs.by_fp, off,
			      rounds);
	if (!err)
		err = measure(pid, to[1], from[0], "rows", skel->progs.take, off, rounds);
	if (!err)
		err = measure(pid, to[1], from[0], "rows, no loop", tail->progs.take_here, off,
			      rounds);
	if (!err)
		err = measure(pid, to[1], from[0], "rows, tail call", tail->progs.take_tail, off,
			      rounds);
	kill(reader, SIGKILL);
	waitpid(reader, NULL, 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (err)
		fprintf(stderr, "bench-stack: %s\n", strerror(-err));
	ring_buffer__free(ring);
	unwind_store__free(store);
	unwind_maps__close(&maps);
	stack_tail_bpf__destroy(tail);
	stack_bpf__destroy(skel);
	return err ? 1 : 0;
}
