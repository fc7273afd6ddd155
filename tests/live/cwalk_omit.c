// SPDX-License-Identifier: Apache-2.0
/* Compiled without frame pointers. */
#include <alloca.h>
#include <string.h>

#include "cwalk.h"

__attribute__((noinline)) void cwalk_omit(cwalk_fn *fn, void *arg, int depth)
{
	volatile char room[40];

	room[depth % 40] = 1;
	if (depth)
		cwalk_omit(fn, arg, depth - 1);
	else
		fn(arg);
	room[0] = room[1];
}

__attribute__((noinline)) void cwalk_omit_alloca(cwalk_fn *fn, void *arg, int n)
{
	volatile char *p = alloca((size_t)n + 1);

	p[n] = 1;
	fn(arg);
	p[0] = p[n];
}
