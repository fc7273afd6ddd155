// SPDX-License-Identifier: Apache-2.0
/* Host allocations inside the marker range that switches their recording on, with their own truth.
 */
#include "sim.h"
#include "../truth/sim_truth.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void note(uint64_t t0, const char *fn, uintptr_t in, size_t n, uintptr_t out)
{
	struct sim_truth_rec r = { .fn = fn,
				   .t0 = t0,
				   .t1 = sim_truth_now(),
				   .nargs = 2,
				   .args = { in, n },
				   .out = out,
				   .size = n,
				   .has = SIM_T_OUT | SIM_T_SIZE | SIM_T_NORET };

	lib.truth_put(&r);
}

/* The compiler may not drop or merge these. */
static __thread void *volatile keep;

#define DO(fn, expr, in, n)                                    \
	do {                                                   \
		uintptr_t in_ = (uintptr_t)(in);               \
		uint64_t t_ = on ? sim_truth_now() : 0;        \
		keep = (expr);                                 \
		if (on)                                        \
			note(t_, fn, in_, n, (uintptr_t)keep); \
	} while (0)

static void give_back(void *p, int on)
{
	uintptr_t a = (uintptr_t)p;
	uint64_t t = on ? sim_truth_now() : 0;

	free(p);
	if (on)
		note(t, "free", a, 0, a);
}

void host_section(struct worker *w)
{
	int on = *lib.truth_enabled, i;
	uint64_t range = lib.mstxRangeStartA("report host memory info start", NULL);

	for (i = 0; i < 20; i++) {
		size_t n = 1 + rnd(w) % 20000;
		uint64_t t;
		void *p, *q;

		DO("malloc", malloc(n), NULL, n);
		p = keep;
		q = p;
		DO("realloc", realloc(q, 2 * n), q, 2 * n);
		p = keep;
		give_back(p, on);
		DO("calloc", calloc(4, n), NULL, 4 * n);
		p = keep;
		give_back(p, on);
		t = on ? sim_truth_now() : 0;
		p = NULL;
		if (posix_memalign(&p, 4096, n))
			p = NULL;
		if (on)
			note(t, "posix_memalign", 0, n, (uintptr_t)p);
		give_back(p, on);
	}
	DO("mmap", mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	   NULL, 1 << 20);
	if (keep != MAP_FAILED) {
		void *p = keep;
		uintptr_t a = (uintptr_t)p;
		uint64_t t;

		memset(p, 1, 1 << 20);
		t = on ? sim_truth_now() : 0;
		munmap(p, 1 << 20);
		if (on)
			note(t, "munmap", a, 1 << 20, a);
	}
	lib.mstxRangeEnd(range);
}
