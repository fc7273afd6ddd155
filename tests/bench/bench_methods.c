// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks of a real program in three ways: walked in the kernel by rows, followed by frame
 * pointers, copied and walked by libdw. What each costs the program and memtap, and how
 * many of its stacks reach the root.
 *
 *   bench-methods PYTHON SCRIPT [CALLS]    prints "method<TAB>what<TAB>number" lines
 *
 * SCRIPT calls getppid() of the C library so many times when a line comes, and says the CPU
 * time that it took, in ns.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "methods.h"
#include "methods.skel.h"
#include "probe/probe.h"
#include "symbol/copy_unwind.h"
#include "symbol/symbol.h"
#include "target/target.h"

#define ROUNDS 5
#define RING (256u << 20) /* holds all copies of a round */
#define MAX_FILES 512

struct count {
	uint64_t stacks, whole, frames;
	double ns; /* of the reader, to walk copies */
};

struct bench {
	struct methods_bpf *skel;
	struct unwind_maps maps;
	struct unwind_sink to;
	struct unwind_store *store;
	struct mt_uw_map *map; /* of the target */
	uint32_t n_map;
	int fds[MAX_FILES];
	struct copy_space *space;
	uint64_t entry; /* of its program: where the main thread's last frame is */
	struct count c;
	struct stack_copy copy; /* that is arriving */
	uint8_t bytes[MT_COPY_MAX + MT_COPY_PIECE];
	FILE *in, *out; /* the target's */
	pid_t pid;
};

static double cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- rows into the kernel, mappings and files here too ---- */

static int on_chunk(void *ctx, uint32_t no, const struct mt_uw_chunk *c)
{
	struct bench *b = ctx;

	return b->to.chunk(b->to.ctx, no, c);
}

static int on_pages(void *ctx, uint32_t first, const struct mt_uw_page *p, uint32_t n)
{
	struct bench *b = ctx;

	return b->to.pages(b->to.ctx, first, p, n);
}

static int on_rules(void *ctx, uint32_t first, const struct mt_uw_rule *r, uint32_t n)
{
	struct bench *b = ctx;

	return b->to.rules(b->to.ctx, first, r, n);
}

static int on_maps(void *ctx, uint32_t first, const struct mt_uw_map *m, uint32_t n)
{
	struct bench *b = ctx;

	free(b->map);
	b->map = malloc(n * sizeof(*m));
	if (!b->map)
		return -ENOMEM;
	memcpy(b->map, m, n * sizeof(*m));
	b->n_map = n;
	return b->to.maps(b->to.ctx, first, m, n);
}

static int on_proc(void *ctx, pid_t pid, const struct mt_uw_proc *p)
{
	struct bench *b = ctx;

	return b->to.proc(b->to.ctx, pid, p);
}

static void on_look(void *ctx, pid_t pid)
{
	struct bench *b = ctx;

	b->to.look(b->to.ctx, pid);
}

static void on_file(void *ctx, uint32_t no, int fd, const char *path)
{
	struct bench *b = ctx;

	(void)path;
	if (no < MAX_FILES)
		b->fds[no] = dup(fd);
}

static int file_of(void *ctx, uint32_t no)
{
	return no < MAX_FILES ? ((struct bench *)ctx)->fds[no] : -1;
}

static bool low_of(void *ctx, uint32_t no, uint64_t *low)
{
	int fd = file_of(ctx, no);

	return fd >= 0 && copy_space__low(fd, low);
}

/* ---- records ---- */

static void walk_copy(struct bench *b)
{
	struct copy_frame frames[MT_UW_MAX_FRAMES];
	bool root = false;
	double t0;
	int n;

	if (!b->copy.n)
		return;
	t0 = cpu();
	n = copy_space__unwind(b->space, &b->copy, frames, MT_UW_MAX_FRAMES, &root);
	b->c.ns += cpu() - t0;
	b->c.stacks++;
	b->c.whole += n > 0 && root;
	b->c.frames += n > 0 ? (uint64_t)n : 0;
	b->copy.n = 0;
}

static int on_record(void *ctx, void *data, size_t size)
{
	struct bench *b = ctx;
	const struct mt_hdr *h = data;

	if (h->type == MT_REC_STACK) {
		const struct mt_stack *s = data;

		b->c.stacks++;
		b->c.whole += s->end >= MT_END_ROOT && s->end <= MT_END_ENTRY;
		b->c.frames += s->n;
	} else if (h->type == FP_STACK) {
		const struct fp_stack *s = data;

		b->c.stacks++;
		b->c.whole += s->n && s->pc[s->n - 1] - b->entry < 64;
		b->c.frames += s->n;
	} else if (h->type == MT_REC_COPY) {
		walk_copy(b);
		b->copy = (struct stack_copy){ .head = *(const struct mt_copy *)data,
					       .bytes = b->bytes };
	} else if (h->type == MT_REC_COPY_PIECE) {
		const struct mt_copy_piece *p = data;

		if (!b->copy.n)
			b->copy.from = p->addr;
		if (b->copy.n + sizeof(p->bytes) <= sizeof(b->bytes)) {
			memcpy(b->bytes + b->copy.n, p->bytes, sizeof(p->bytes));
			b->copy.n += sizeof(p->bytes);
		}
	}
	(void)size;
	return 0;
}

/* ---- the target ---- */

static int begin(struct bench *b, char *const argv[])
{
	int to[2], from[2];

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		return -errno;
	b->pid = fork();
	if (b->pid < 0)
		return -errno;
	if (!b->pid) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		execv(argv[0], argv);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	b->out = fdopen(to[1], "w");
	b->in = fdopen(from[0], "r");
	return b->in && b->out ? 0 : -ENOMEM;
}

static int ask(struct bench *b, double *ns)
{
	char line[64];

	fputs("go\n", b->out);
	fflush(b->out);
	if (!fgets(line, sizeof(line), b->in))
		return -EPIPE;
	*ns = atof(line);
	return 0;
}

/* Where its program begins, in memory: AT_ENTRY. */
static uint64_t entry_of(pid_t pid)
{
	char path[64];
	Elf64_auxv_t a;
	uint64_t entry = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	f = fopen(path, "re");
	while (f && fread(&a, sizeof(a), 1, f) == 1)
		if (a.a_type == AT_ENTRY)
			entry = a.a_un.a_val;
	if (f)
		fclose(f);
	return entry;
}

static int find_site(const struct bench *b, char *path, size_t size, size_t *off)
{
	char maps[64], line[512];
	struct elf_image *img;
	uint64_t vaddr, bytes, o;
	int err = -ENOENT;
	FILE *f;

	snprintf(maps, sizeof(maps), "/proc/%d/maps", (int)b->pid);
	f = fopen(maps, "re");
	while (f && fgets(line, sizeof(line), f)) {
		char *at = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		if (at && (strstr(at, "/libc.so.6") || strstr(at, "/libc-2."))) {
			snprintf(path, size, "%s", at);
			err = 0;
			break;
		}
	}
	if (f)
		fclose(f);
	if (err)
		return err;
	err = elf_image__open(path, &img);
	if (err)
		return err;
	err = elf_image__symbol(img, "getppid", &vaddr, &bytes);
	if (!err)
		err = elf_image__offset(img, vaddr, &o);
	if (!err)
		*off = o;
	elf_image__close(img);
	return err;
}

static int run(struct bench *b, const char *method, const struct bpf_program *prog,
	       const char *path, size_t off, int calls, struct ring_buffer *ring)
{
	struct bpf_link *link = NULL;
	double ns, best = 0;
	int i;

	memset(&b->c, 0, sizeof(b->c));
	if (prog) {
		link = bpf_program__attach_uprobe(prog, false, b->pid, path, off);
		if (!link)
			return -errno;
	}
	for (i = 0; i < ROUNDS; i++) {
		if (ask(b, &ns))
			return -EPIPE;
		best = !i || ns < best ? ns : best;
		ring_buffer__consume(ring);
	}
	bpf_link__destroy(link);
	ring_buffer__consume(ring);
	walk_copy(b);
	printf("%s\tns a call\t%.1f\n", method, best / calls);
	if (!prog || !b->c.stacks)
		return 0;
	printf("%s\tstacks\t%ju\n", method, (uintmax_t)b->c.stacks);
	printf("%s\twhole percent\t%.2f\n", method,
	       100.0 * (double)b->c.whole / (double)b->c.stacks);
	printf("%s\tframes a stack\t%.2f\n", method, (double)b->c.frames / (double)b->c.stacks);
	printf("%s\treader ns a stack\t%.0f\n", method, b->c.ns / (double)b->c.stacks);
	return 0;
}

int main(int argc, char **argv)
{
	static struct bench b = { .maps.open_fd = -1 };
	struct unwind_sink sink = { .ctx = &b,
				    .chunk = on_chunk,
				    .pages = on_pages,
				    .rules = on_rules,
				    .maps = on_maps,
				    .proc = on_proc,
				    .file = on_file,
				    .look = on_look };
	const struct copy_files files = { &b, file_of, low_of };
	struct mt_cfg cfg = { .stack_bytes = 32768, .wake_bytes = 1u << 30 };
	struct ring_buffer *ring = NULL;
	uint32_t zero = 0;
	char path[512], word[16];
	double ns;
	size_t off = 0;
	int calls, err;

	if (argc < 3) {
		fprintf(stderr, "usage: bench-methods PYTHON SCRIPT [CALLS]\n");
		return 2;
	}
	calls = argc > 3 ? atoi(argv[3]) : 1000;
	snprintf(word, sizeof(word), "%d", calls);
	memset(b.fds, -1, sizeof(b.fds));
	b.skel = methods_bpf__open();
	if (b.skel)
		bpf_map__set_max_entries(b.skel->maps.events, RING);
	err = b.skel ? methods_bpf__load(b.skel) : -errno;
	err = !err ? begin(&b, (char *[]){ argv[1], argv[2], word, NULL }) : err;
	if (!err)
		err = ask(&b, &ns); /* it is up */
	if (err)
		goto out;
	b.entry = entry_of(b.pid);
	b.maps.chunks = bpf_map__fd(b.skel->maps.uw_chunks);
	b.maps.pages = bpf_map__fd(b.skel->maps.uw_pages);
	b.maps.rules = bpf_map__fd(b.skel->maps.uw_rules);
	b.maps.maps = bpf_map__fd(b.skel->maps.uw_maps);
	b.maps.procs = bpf_map__fd(b.skel->maps.uw_procs);
	b.to = unwind_maps__sink(&b.maps);
	bpf_map_update_elem(bpf_map__fd(b.skel->maps.cfg), &zero, &cfg, BPF_ANY);
	err = unwind_store__new(&sink, 0, -1, &b.store);
	if (!err)
		err = unwind_store__process(b.store, b.pid);
	if (!err)
		err = copy_space__new(b.map, b.n_map, &files, &b.space);
	if (!err)
		err = find_site(&b, path, sizeof(path), &off);
	ring = ring_buffer__new(bpf_map__fd(b.skel->maps.events), on_record, &b, NULL);
	if (!err)
		err = run(&b, "no probe", NULL, path, off, calls, ring);
	if (!err)
		err = run(&b, "empty program", b.skel->progs.nothing, path, off, calls, ring);
	if (!err)
		err = run(&b, "frame pointers", b.skel->progs.by_fp, path, off, calls, ring);
	if (!err)
		err = run(&b, "rows", b.skel->progs.by_rows, path, off, calls, ring);
	if (!err)
		err = run(&b, "copy", b.skel->progs.by_copy, path, off, calls, ring);
out:
	if (err)
		fprintf(stderr, "bench-methods: %s\n", strerror(-err));
	if (b.pid > 0) {
		kill(b.pid, SIGKILL);
		waitpid(b.pid, NULL, 0);
	}
	ring_buffer__free(ring);
	copy_space__free(b.space);
	unwind_store__free(b.store);
	unwind_maps__close(&b.maps);
	methods_bpf__destroy(b.skel);
	return err ? 1 : 0;
}
