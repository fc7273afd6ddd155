// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks taken by a BPF program at a probe, against those that the program itself
 * notes with glibc's backtrace() at the same call: all frames, of calls through
 * qsort, a signal handler and a recursion of any depth.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <execinfo.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "taken.h"

#define FILES 64
/* With a sanitizer backtrace() is its own, and stands in the list itself. */
#ifdef __SANITIZE_ADDRESS__
#define BEFORE 1
#else
#define BEFORE 0
#endif

/* What the child notes, where the parent sees it. */
struct noted {
	void *pc[MT_UW_MAX_FRAMES + 8];
	int n;
};

static struct noted *notes;
static volatile int call, calls_due;

__attribute__((noinline)) static void probed(void)
{
	asm volatile("" ::: "memory");
}

__attribute__((noinline)) static void note(void)
{
	struct noted *n = &notes[call];

	n->n = backtrace(n->pc, MT_UW_MAX_FRAMES + 8) - BEFORE;
	probed();
	call++;
}

static int compare_ints(const void *a, const void *b)
{
	if (*(const int *)a == 3 && *(const int *)b == 4 && call < calls_due)
		note();
	return *(const int *)a - *(const int *)b;
}

static void on_signal(int sig)
{
	if (call < calls_due)
		note();
}

__attribute__((noinline)) static void recurse(int depth)
{
	volatile char room[64];

	room[0] = (char)depth;
	if (depth)
		recurse(depth - 1);
	else if (call < calls_due)
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
	for (i = 0; call < calls_due; i++) {
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
	struct taken *t;
	struct hmap known; /* hashes -> frames */
	uint64_t bias_of_file[FILES];
};

static int on_stack(void *ctx, void *data, size_t size)
{
	const struct mt_stack *s = data;
	struct got *g = ctx;
	struct taken *t = g->t;
	struct hkey k = { s->hash[0], s->hash[1] };
	const struct noted *want;
	const uint64_t *frames;
	uint64_t *kept;
	bool fresh;
	int i, n;

	if (t->got >= (size_t)calls_due || s->h.type != MT_REC_STACK || s->h.size != size ||
	    size != sizeof(*s) + (s->with ? s->n * sizeof(*frames) : 0)) {
		t->broken++;
		return 0;
	}
	if (!t->got)
		memcpy(t->hash, s->hash, sizeof(t->hash));
	want = &notes[t->got++];
	n = want->n;
	kept = hmap__put(&g->known, k, &fresh);
	if (!kept)
		return -ENOMEM;
	if (s->with) {
		uint64_t *copy = malloc(s->n * sizeof(*copy) + 1);

		if (!copy)
			return -ENOMEM;
		memcpy(copy, s + 1, s->n * sizeof(*copy));
		if (!fresh)
			free((void *)(uintptr_t)*kept);
		*kept = (uint64_t)(uintptr_t)copy;
	} else {
		t->without++;
		if (fresh) {
			t->broken++;
			*kept = 0;
		}
	}
	frames = (const uint64_t *)(uintptr_t)*kept;
	t->cut += s->end != MT_END_ROOT;
	t->frames += s->n;
	if (s->n > t->deepest)
		t->deepest = s->n;
	/* backtrace() begins in note(), the probe in probed(), which note() called. */
	if (s->n != n + 1 || !frames) {
		t->wrong++;
		return 0;
	}
	for (i = 1; i < n; i++) {
		uint32_t file = frames[i + 1] >> MT_FRAME_FILE_SHIFT & ((1U << MT_FRAME_FILE_BITS) - 1);
		uint64_t pc = (frames[i + 1] & MT_FRAME_ADDR) + g->bias_of_file[file % FILES];

		t->wrong += pc != (uint64_t)(uintptr_t)want->pc[i + BEFORE];
	}
	return 0;
}

static void forget(struct got *g)
{
	size_t pos = 0;
	struct hkey k;
	uint64_t v;

	while (hmap__next(&g->known, &pos, &k, &v))
		free((void *)(uintptr_t)v);
	hmap__free(&g->known);
}

static int map_fd(const struct bpf_object *obj, const char *name)
{
	return bpf_object__find_map_fd_by_name(obj, name);
}

struct stack_tail_bpf *taken__load_tail(struct bpf_object *shared)
{
	struct stack_tail_bpf *skel = stack_tail_bpf__open();
	uint32_t zero = 0, walk = MT_UW_STEP_WALK;
	struct bpf_map *m;
	int fd, err = 0;

	if (!skel)
		return NULL;
	bpf_object__for_each_map(m, skel->obj) {
		fd = shared ? map_fd(shared, bpf_map__name(m)) : -1;
		if (fd >= 0 && !err)
			err = bpf_map__reuse_fd(m, fd);
	}
	if (!err)
		err = stack_tail_bpf__load(skel);
	if (!err) {
		fd = bpf_program__fd(skel->progs.uw_step_walk);
		err = bpf_map_update_elem(bpf_map__fd(skel->maps.uw_steps), &walk, &fd, BPF_ANY);
	}
	if (!err) {
		fd = bpf_program__fd(skel->progs.take_tail);
		err = bpf_map_update_elem(bpf_map__fd(skel->maps.mains), &zero, &fd, BPF_ANY);
	}
	if (!err)
		return skel;
	stack_tail_bpf__destroy(skel);
	errno = -err;
	return NULL;
}

/* The biases of the child's files, and where probed() is in its. */
static int look_up(const struct unwind_maps *maps, pid_t pid, struct got *g, uint64_t *off)
{
	uint64_t at = (uint64_t)(uintptr_t)probed, vaddr = 0;
	uint32_t key = (uint32_t)pid, i;
	struct mt_uw_proc proc;
	struct elf_image *img;
	int err;

	if (bpf_map_lookup_elem(maps->procs, &key, &proc))
		return -errno;
	for (i = 0; i < proc.n; i++) {
		struct mt_uw_map m;

		key = proc.first + i;
		if (bpf_map_lookup_elem(maps->maps, &key, &m))
			return -errno;
		if (m.file < FILES)
			g->bias_of_file[m.file] = m.bias;
		if (at >= m.start && at < m.end)
			vaddr = at - m.bias;
	}
	err = elf_image__open("/proc/self/exe", &img);
	if (err)
		return err;
	err = elf_image__offset(img, vaddr, off);
	elf_image__close(img);
	return err;
}

/* All stacks until the child has ended. */
static int read_all(struct ring_buffer *ring, pid_t pid, bool *ended)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	int err;

	for (;;) {
		err = ring_buffer__consume(ring);
		if (err < 0)
			return err;
		if (waitpid(pid, NULL, WNOHANG) == pid)
			break;
		nanosleep(&ms, NULL);
	}
	*ended = true;
	err = ring_buffer__consume(ring);
	return err < 0 ? err : 0;
}

static void stay_here(pid_t pid)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)sched_getcpu(), &set);
	sched_setaffinity(pid, sizeof(set), &set);
}

int taken__run(struct bpf_object *obj, const struct bpf_program *prog, int calls, bool pin, struct taken *t)
{
	const size_t size = (size_t)calls * sizeof(*notes);
	struct unwind_maps maps = { .chunks = map_fd(obj, "uw_chunks"),
				    .pages = map_fd(obj, "uw_pages"),
				    .rules = map_fd(obj, "uw_rules"),
				    .maps = map_fd(obj, "uw_maps"),
				    .procs = map_fd(obj, "uw_procs") };
	struct unwind_sink sink = unwind_maps__sink(&maps);
	struct unwind_store *store = NULL;
	struct ring_buffer *ring = NULL;
	struct bpf_link *link = NULL;
	struct got g = { .t = t };
	int go[2] = { -1, -1 }, err;
	bool ended = false;
	uint64_t off = 0;
	pid_t pid = -1;

	*t = (struct taken){ .failed = "child" };
	calls_due = calls;
	notes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (notes == MAP_FAILED)
		return -errno;
	if (pipe(go) || (pid = fork()) < 0) {
		err = -errno;
		goto out;
	}
	if (!pid)
		child(go[0]);
	if (pin)
		stay_here(pid);
	t->failed = "rows";
	err = unwind_store__new(&sink, 0, -1, &store);
	if (!err)
		err = unwind_store__process(store, pid);
	if (!err)
		err = look_up(&maps, pid, &g, &off);
	if (err)
		goto out;
	t->failed = "perf uprobe";
	link = bpf_program__attach_uprobe(prog, false, pid, "/proc/self/exe", off);
	if (!link) {
		err = -errno;
		goto out;
	}
	t->failed = "ring";
	ring = ring_buffer__new(map_fd(obj, "events"), on_stack, &g, NULL);
	if (!ring || write(go[1], "x", 1) != 1) {
		err = -errno;
		goto out;
	}
	err = read_all(ring, pid, &ended);
out:
	if (pid > 0 && !ended) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	close(go[0]);
	close(go[1]);
	ring_buffer__free(ring);
	bpf_link__destroy(link);
	unwind_store__free(store);
	unwind_maps__close(&maps);
	forget(&g);
	munmap(notes, size);
	return err;
}
