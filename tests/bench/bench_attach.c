// SPDX-License-Identifier: Apache-2.0
/*
 * Time to attach N functions of one file that are looked up, decoded and probed
 * as the default set is, and to detach them again.
 *
 *   bench-attach [ROUNDS]    prints "what<TAB>milliseconds", lines a round
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "memtap/event.h"
#include "probe/calibrate.h"
#include "probe/probe.h"

#define N 100

/* N functions bench_fn_0 … of a few instructions each. */
#ifdef __x86_64__
#define BODY "push %rbp\nxor %eax, %eax\npop %rbp\nret\n"
#else
#define BODY "b 1f\n1: mov w0, #0\nret\n"
#endif
__asm__(".text\n.altmacro\n"
	".macro bench_one i\n.globl bench_fn_\\i\n.type bench_fn_\\i, %function\n"
	"bench_fn_\\i:\n.cfi_startproc\n" BODY
	".cfi_endproc\n.size bench_fn_\\i, . - bench_fn_\\i\n"
	".p2align 4\n.endm\n"
	".set n, 0\n.rept 100\nbench_one %n\n.set n, n + 1\n.endr\n.noaltmacro\n");

/* As the prober does: symbol, site, entry in the map, request. */
static int plan(struct progs *p, int fd, bool session, struct attach_req *r, size_t *n)
{
	struct elf_image *img;
	uint64_t vaddr, size;
	char name[32];
	uint32_t i, no = 1;
	int err = elf_image__open_fd(fd, "bench-attach", &img);

	*n = 0;
	for (i = 0; i < N && !err; i++) {
		struct mt_site s = { .fn = MT_FN_HAL_ALLOC, .pair = (uint16_t)i };
		struct site at;

		snprintf(name, sizeof(name), "bench_fn_%u", i);
		err = elf_image__symbol(img, name, &vaddr, &size);
		if (!err)
			err = site__entry(img, vaddr, 3, 0, &at);
		if (err)
			break;
		bpf_map_update_elem(progs__map(p, "sites"), &no, &s, BPF_ANY);
		r[(*n)++] = (struct attach_req){ .prog = session ? "hal_alloc_s" : "hal_alloc_e",
						 .kind = session ? ATTACH_SESSION : ATTACH_ENTRY,
						 .off = at.off,
						 .site = no++ };
		bpf_map_update_elem(progs__map(p, "sites"), &no, &s, BPF_ANY);
		if (!session)
			r[(*n)++] = (struct attach_req){ .prog = "hal_alloc_r",
							 .kind = ATTACH_RETURN,
							 .off = at.off,
							 .site = no };
		no++;
	}
	elf_image__close(img);
	return err;
}

/* What the kernel needs to end a link at all: one probe, and nothing runs into it. */
static double floor_of(struct progs *p, const struct features *f, int fd,
		       const struct attach_req *one)
{
	struct attach *a = attach__new(p, f);
	struct attach_req r = *one;
	uint64_t t0;
	double ms;

	attach__file(a, fd, &r, 1);
	t0 = clock__boot();
	attach__detach(a);
	ms = (double)(clock__boot() - t0) / 1e6;
	attach__free(a);
	return ms;
}

/* When the last breakpoint has left this process, which has the probed file mapped. */
struct watch {
	const volatile uint8_t *at[2 * N];
	uint8_t planted[2 * N];
	size_t n;
	uint64_t gone; /* ns, 0 = never */
};

static void watch__begin(struct watch *w, const struct attach_req *r, size_t n)
{
	const uint8_t *text = (const uint8_t *)(uintptr_t)floor_of;
	uint64_t off = 0;
	size_t i;

	memset(w, 0, sizeof(*w));
	if (self__file_offset(text, &off))
		return;
	for (i = 0; i < n; i++) {
		w->at[i] = text - off + r[i].off;
		w->planted[i] = *w->at[i];
	}
	w->n = n;
}

static void *watch__run(void *arg)
{
	struct watch *w = arg;
	uint64_t end = clock__boot() + 10000000000ULL;
	size_t left;

	do {
		size_t i;

		usleep(100);
		for (i = left = 0; i < w->n; i++)
			left += *w->at[i] == w->planted[i];
	} while (left && clock__boot() < end);
	if (!left && w->n)
		w->gone = clock__boot();
	return NULL;
}

static int round_of(const struct features *f, int fd)
{
	struct progs_opts po = { .ring_bytes = 1u << 20 };
	static struct attach_req r[2 * N];
	struct progs *p = NULL;
	struct attach *a;
	struct watch w;
	pthread_t thread;
	uint64_t t0 = clock__boot(), t1, t2, t3, attached;
	size_t n, failed;
	int err = progs__load(&po, f, &p);

	if (err)
		return err;
	t1 = clock__boot();
	a = attach__new(p, f);
	err = plan(p, fd, features__has(f, FEAT_SESSION), r, &n);
	failed = err ? 0 : attach__file(a, fd, r, n);
	attached = clock__boot();
	watch__begin(&w, r, err ? 0 : n);
	err = err ? err : -pthread_create(&thread, NULL, watch__run, &w);
	if (err)
		goto out;
	t2 = clock__boot();
	attach__detach(a);
	t3 = clock__boot();
	pthread_join(thread, NULL);
	if (!failed)
		printf("load\t%.2f\nattach\t%.2f\ndetach\t%.2f\ngone\t%.2f\nfloor\t%.2f\n",
		       (double)(t1 - t0) / 1e6, (double)(attached - t1) / 1e6,
		       (double)(t3 - t2) / 1e6, w.gone ? (double)(w.gone - t2) / 1e6 : -1,
		       floor_of(p, f, fd, r));
out:
	attach__free(a);
	progs__free(p);
	return failed ? -EINVAL : err;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 5, fd, i, err = 0;
	struct features f;

	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	features__probe(&f, false);
	for (i = 0; i < rounds && !err; i++)
		err = round_of(&f, fd);
	if (err)
		fprintf(stderr, "bench-attach: %s\n", strerror(-err));
	return err ? 1 : 0;
}
