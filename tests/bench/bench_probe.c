// SPDX-License-Identifier: Apache-2.0
/*
 * What a probe costs the traced thread: CPU time of a call of a probed function
 * in another process, for an empty program and memtap's own on the same site.
 *
 *   bench-probe [ROUNDS [CALLS [CASE]]]    prints "case<TAB>ns per call", a line a round;
 *                                          of the cases whose names have CASE in them
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "memtap/event.h"
#include "probe/kernel.h"
#include "memtap/unwind.h"
#include "probe/probe.h"
#include "symbol/stacks.h"

typedef int target_fn(const void *record, uint64_t size, uint64_t flag);

target_fn bench_emulated, bench_stepped;

/*
 * Two functions that do nothing: the first instruction of one is emulated by
 * the kernel, none of the other's up to its end is.
 */
#ifdef __x86_64__
__asm__(".text\n.p2align 4\n.globl bench_emulated\n.type bench_emulated, @function\n"
	"bench_emulated:\n.cfi_startproc\npush %rbp\n.cfi_adjust_cfa_offset 8\n"
	"xor %eax, %eax\npop %rbp\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
	".size bench_emulated, . - bench_emulated\n"
	".p2align 4\n.globl bench_stepped\n.type bench_stepped, @function\n"
	"bench_stepped:\n.cfi_startproc\nxor %eax, %eax\nsub $8, %rsp\nadd $8, %rsp\nret\n"
	".cfi_endproc\n.size bench_stepped, . - bench_stepped\n");
#else
__asm__(".text\n.p2align 4\n.globl bench_emulated\n.type bench_emulated, %function\n"
	"bench_emulated:\n.cfi_startproc\nb 1f\n1: mov w0, #0\nret\n.cfi_endproc\n"
	".size bench_emulated, . - bench_emulated\n"
	".p2align 4\n.globl bench_stepped\n.type bench_stepped, %function\n"
	"bench_stepped:\n.cfi_startproc\nmov w0, #0\nmov w3, #0\nret\n.cfi_endproc\n"
	".size bench_stepped, . - bench_stepped\n");
#endif

/* ---- the traced process ---- */

static double target_run(target_fn *f, uint64_t calls)
{
	/* A record that torch_npu could have made; its first word serves as halMemAlloc's result.
	 */
	static const uint64_t record[7] = { 0x14, 4096, 512, 512, 1024, 512, 0 };
	struct timespec a, b;
	uint64_t i;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	for (i = 0; i < calls; i++)
		f(record, 512, 0);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) /
	       (double)calls;
}

struct order {
	uint64_t calls;
	int stepped, depth;
};

/* With so many frames of this program, main's and this one's included, above the probed one. */
__attribute__((noinline)) static double target_at(target_fn *f, uint64_t calls, int depth)
{
	volatile char room[96]; /* as frames of real programs have it */
	double ns;

	room[depth] = 1;
	ns = depth > 4 ? target_at(f, calls, depth - 1) : target_run(f, calls);
	room[0] = room[depth];
	return ns;
}

static void target_main(int in, int out)
{
	struct order o;

	while (read(in, &o, sizeof(o)) == sizeof(o)) {
		double ns = target_at(o.stepped ? bench_stepped : bench_emulated, o.calls, o.depth);

		if (write(out, &ns, sizeof(ns)) != sizeof(ns))
			break;
	}
	_exit(0);
}

/* ---- cases ---- */

enum how {
	NONE,
	EMPTY_ENTRY, /* a program that returns 0 */
	EMPTY_PAIR, /* entry and uretprobe */
	EMPTY_SESSION,
	PTA, /* memtap's program of the report function: entry only */
	HAL_SESSION, /* memtap's programs of halMemAlloc: entry and return */
	HAL_PAIR,
	HAL_RET,
};

static const struct bench_case {
	const char *name;
	enum how how;
	bool stepped, perf, ours;
	int stack; /* frames of the stack that goes with it; 0: none */
} cases[] = {
	{ "emulated: no probe", NONE, 0, 0, 0 },
	{ "emulated: empty, multi", EMPTY_ENTRY, 0, 0, 0 },
	{ "emulated: empty, perf", EMPTY_ENTRY, 0, 1, 0 },
	{ "stepped: no probe", NONE, 1, 0, 0 },
	{ "stepped: empty, multi", EMPTY_ENTRY, 1, 0, 0 },
	{ "emulated: empty session", EMPTY_SESSION, 0, 0, 0 },
	{ "emulated: empty entry and uretprobe", EMPTY_PAIR, 0, 0, 0 },
	{ "emulated: PTA, other process", PTA, 0, 0, 0 },
	{ "emulated: HAL session, other process", HAL_SESSION, 0, 0, 0 },
	{ "emulated: PTA, recorded", PTA, 0, 0, 1 },
	{ "emulated: PTA, recorded, perf", PTA, 0, 1, 1 },
	{ "stepped: PTA, recorded", PTA, 1, 0, 1 },
	{ "emulated: HAL session, recorded", HAL_SESSION, 0, 0, 1 },
	{ "emulated: HAL entry and uretprobe, recorded", HAL_PAIR, 0, 0, 1 },
	{ "emulated: HAL entry and ret site, recorded", HAL_RET, 0, 0, 1 },
	{ "emulated: PTA, recorded, with a stack of 20 frames", PTA, 0, 0, 1, 20 },
	{ "emulated: PTA, recorded, with a stack of 60 frames", PTA, 0, 0, 1, 60 },
	{ "emulated: HAL session, recorded, with a stack of 20 frames", HAL_SESSION, 0, 0, 1, 20 },
	{ "stepped: PTA, recorded, with a stack of 20 frames", PTA, 1, 0, 1, 20 },
};

struct bench {
	struct features f, f_perf;
	struct progs *progs, *plain, *stacked; /* in use now; those of each kind, or NULL */
	struct attach *multi, *perf, *with_stacks;
	struct stacks *stacks;
	int exe, empty, empty_perf, empty_session;
	struct site at[2], ret[2];
	uint32_t tgid;
	int to, from;
	bool stop;
};

static int load_empty(uint32_t attach_type)
{
	struct bpf_insn insns[] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K },
				    { .code = BPF_JMP | BPF_EXIT } };
	LIBBPF_OPTS(bpf_prog_load_opts, o, .expected_attach_type = attach_type);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "bench_empty", "GPL", insns, 2, &o);
}

static int find_sites(struct bench *b)
{
	static const char *const names[] = { "bench_emulated", "bench_stepped" };
	struct elf_image *img;
	uint64_t vaddr, size;
	int i, err = elf_image__open_fd(b->exe, "bench-probe", &img);

	for (i = 0; i < 2 && !err; i++) {
		err = elf_image__symbol(img, names[i], &vaddr, &size);
		/* Argument registers are not asked for: the stepped one must stay at its entry. */
		if (!err)
			err = site__entry(img, vaddr, 3, 0, &b->at[i]);
		if (!err && site__returns(img, vaddr, &b->ret[i], 1) != 1)
			err = -ENOENT;
	}
	elf_image__close(img);
	return err;
}

static void put_site(struct bench *b, uint32_t no, uint16_t fn, int sp_off)
{
	struct mt_site s = { .fn = fn, .pair = 1, .sp_off = (int16_t)sp_off };

	if (b->progs == b->stacked)
		s.flags = MT_SITE_STACK;
	bpf_map_update_elem(progs__map(b->progs, "sites"), &no, &s, BPF_ANY);
}

static int attach_memtap(struct bench *b, const struct bench_case *c)
{
	const struct site *at = &b->at[c->stepped], *ret = &b->ret[c->stepped];
	struct attach_req r[2] = { { .off = at->off, .site = 1 }, { .off = at->off, .site = 2 } };
	struct mt_target t = { 0 };
	size_t n = 1;
	int pop = 0;

#ifdef __x86_64__
	pop = -8;
#endif
	put_site(b, 1, c->how == PTA ? MT_FN_PTA_REPORT : MT_FN_HAL_ALLOC, at->sp_off);
	put_site(b, 2, MT_FN_HAL_ALLOC, c->how == HAL_RET ? ret->sp_off : pop);
	switch (c->how) {
	case PTA:
		r[0].prog = "pta_report";
		break;
	case HAL_SESSION:
		r[0].prog = "hal_alloc_s";
		r[0].kind = ATTACH_SESSION;
		break;
	default:
		n = 2;
		r[0].prog = "hal_alloc_e";
		r[1].prog = "hal_alloc_r";
		r[1].kind = c->how == HAL_RET ? ATTACH_ENTRY : ATTACH_RETURN;
		if (c->how == HAL_RET)
			r[1].off = ret->off;
	}
	if (c->ours)
		bpf_map_update_elem(progs__map(b->progs, "targets"), &b->tgid, &t, BPF_ANY);
	return attach__file(c->stack  ? b->with_stacks
			    : c->perf ? b->perf
				      : b->multi,
			    b->exe, r, n)
		       ? -EINVAL
		       : 0;
}

static int attach_empty(struct bench *b, const struct bench_case *c, int fd[2])
{
	__u64 off = b->at[c->stepped].off;
	const char *path = "/proc/self/exe";

	if (c->perf) {
		fd[0] = kernel__perf_uprobe(path, off, false, 0);
		return fd[0] < 0 ? fd[0] : kernel__perf_set_bpf(b->empty_perf, fd[0]);
	}
	if (c->how == EMPTY_SESSION)
		fd[0] = kernel__multi_link(b->empty_session, MT_BPF_TRACE_UPROBE_SESSION, path,
					   &off, NULL, 1, 0, 0);
	else
		fd[0] = kernel__multi_link(b->empty, MT_BPF_TRACE_UPROBE_MULTI, path, &off, NULL, 1,
					   0, 0);
	if (c->how == EMPTY_PAIR)
		fd[1] = kernel__multi_link(b->empty, MT_BPF_TRACE_UPROBE_MULTI, path, &off, NULL, 1,
					   MT_UPROBE_MULTI_RETURN, 0);
	return fd[0] < 0 ? fd[0] : 0;
}

static unsigned int depth_seen; /* of the stack that came last */

static int look(void *ctx, void *data, size_t size)
{
	const struct mt_stack *s = data;

	(void)ctx;
	if (size >= sizeof(*s) && s->h.type == MT_REC_STACK)
		__atomic_store_n(&depth_seen, s->n, __ATOMIC_RELEASE);
	return 0;
}

static int run_case(struct bench *b, const struct bench_case *c, uint64_t calls)
{
	/* The probed function is a frame, and below main there are three of the C library. */
	struct order o = { c->how == NONE ? calls * 20 : calls, c->stepped,
			   c->stack ? c->stack - 2 : 4 };
	int fd[2] = { -1, -1 }, err = 0, i;
	double ns = 0;

	if (c->stack && !b->stacked)
		return 0; /* bench.py says so */
	b->progs = c->stack ? b->stacked : b->plain;

	if (c->how >= PTA)
		err = attach_memtap(b, c);
	else if (c->how != NONE)
		err = attach_empty(b, c, fd);
	if (err) {
		fprintf(stderr, "%s: %s\n", c->name, strerror(-err));
	} else if (write(b->to, &o, sizeof(o)) != sizeof(o) ||
		   read(b->from, &ns, sizeof(ns)) != sizeof(ns)) {
		err = -EPIPE;
	} else {
		printf("%s\t%.1f\n", c->name, ns);
		if (c->stack)
			printf("frames, %s\t%u\n", c->name,
			       __atomic_load_n(&depth_seen, __ATOMIC_ACQUIRE));
		fflush(stdout);
	}
	for (i = 0; i < 2; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	attach__detach(b->multi);
	attach__detach(b->perf);
	if (b->with_stacks)
		attach__detach(b->with_stacks);
	bpf_map_delete_elem(progs__map(b->progs, "targets"), &b->tgid);
	return err;
}

/* ---- the reader of the ring: takes everything and keeps nothing ---- */

static int forget(void *ctx, void *data, size_t size)
{
	(void)ctx;
	(void)data;
	(void)size;
	return 0;
}

static void *reader(void *arg)
{
	struct bench *b = arg;
	struct ring_buffer *rb = ring_buffer__new(progs__map(b->plain, "events"), forget, NULL,
						  NULL);

	if (rb && b->stacked)
		ring_buffer__add(rb, progs__map(b->stacked, "events"), look, NULL);
	while (rb && !__atomic_load_n(&b->stop, __ATOMIC_ACQUIRE))
		ring_buffer__poll(rb, 5);
	ring_buffer__free(rb);
	return NULL;
}

/* The object that walks stacks, and the tables of the target. */
static int setup_stacks(struct bench *b, pid_t pid)
{
	struct progs_opts po = { .ring_bytes = 64u << 20, .stacks = true };
	struct mt_cfg cfg = { .self = (uint32_t)getpid(),
			      .wake_bytes = 16u << 20,
			      .stacks = MT_STACKS_C,
			      .c_frames = MT_UW_MAX_FRAMES };
	struct stacks_opts o = { .c = true, .cache = -1 };
	struct progs *p;
	uint32_t zero = 0;
	int err;

	err = progs__load(&po, &b->f, &p);
	if (err)
		return err;
	if (progs__no_stacks(p)) {
		progs__free(p);
		return 0;
	}
	b->stacked = p;
	b->with_stacks = attach__new(p, &b->f);
	o.maps.unwind = (struct unwind_maps){
		.chunks = progs__map(p, "uw_chunks"),
		.pages = progs__map(p, "uw_pages"),
		.rules = progs__map(p, "uw_rules"),
		.maps = progs__map(p, "uw_maps"),
		.procs = progs__map(p, "uw_procs"),
	};
	o.maps.known = progs__map(p, "uw_known");
	o.maps.ends = progs__map(p, "uw_ends");
	o.maps.py_procs = progs__map(p, "py_procs");
	o.maps.py_known = progs__map(p, "py_known");
	o.maps.py_ends = progs__map(p, "py_ends");
	err = stacks__new(&o, &b->stacks);
	if (err)
		return err;
	stacks__process(b->stacks, pid);
	if (!stacks__wait(b->stacks, 20000))
		return -ETIMEDOUT;
	return bpf_map_update_elem(progs__map(p, "cfg"), &zero, &cfg, BPF_ANY) ? -errno : 0;
}

static int setup(struct bench *b, pid_t pid)
{
	struct progs_opts po = { .ring_bytes = 64u << 20 };
	struct mt_cfg cfg = { .self = (uint32_t)getpid(), .wake_bytes = 16u << 20 };
	uint32_t zero = 0;
	int err;

	features__probe(&b->f, true);
	b->f_perf = b->f;
	b->f_perf.state[FEAT_MULTI] = b->f_perf.state[FEAT_SESSION] = FEATURE_OFF;
	err = progs__load(&po, &b->f, &b->plain);
	if (err)
		return err;
	b->progs = b->plain;
	b->multi = attach__new(b->plain, &b->f);
	b->perf = attach__new(b->plain, &b->f_perf);
	b->empty = load_empty(MT_BPF_TRACE_UPROBE_MULTI);
	b->empty_session = load_empty(MT_BPF_TRACE_UPROBE_SESSION);
	b->empty_perf = load_empty(0);
	b->exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	err = bpf_map_update_elem(progs__map(b->plain, "cfg"), &zero, &cfg, BPF_ANY);
	err = err ? -errno : find_sites(b);
	return err ? err : setup_stacks(b, pid);
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 5, r;
	uint64_t calls = argc > 2 ? strtoull(argv[2], NULL, 10) : 50000;
	struct bench b = { .stop = false };
	int to[2], from[2], err, status;
	pthread_t thread;
	pid_t pid;
	size_t i;

	if (pipe(to) || pipe(from))
		return 1;
	pid = fork();
	if (!pid) {
		close(to[1]);
		target_main(to[0], from[1]);
	}
	close(to[0]);
	b.to = to[1];
	b.from = from[0];
	b.tgid = (uint32_t)pid;
	err = setup(&b, pid);
	if (err) {
		fprintf(stderr, "bench-probe: %s\n", strerror(-err));
		close(b.to);
		return 1;
	}
	if (pthread_create(&thread, NULL, reader, &b))
		return 1;
	for (r = 0; r < rounds; r++)
		for (i = 0; i < MT_ARRAY_SIZE(cases); i++)
			if (argc < 4 || strstr(cases[i].name, argv[3]))
				err |= run_case(&b, &cases[i], calls);
	__atomic_store_n(&b.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	close(b.to);
	waitpid(pid, &status, 0);
	attach__free(b.multi);
	attach__free(b.perf);
	attach__free(b.with_stacks);
	stacks__free(b.stacks);
	progs__free(b.plain);
	progs__free(b.stacked);
	return err ? 1 : 0;
}
