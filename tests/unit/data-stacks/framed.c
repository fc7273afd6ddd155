// SPDX-License-Identifier: Apache-2.0
/* Functions with frames, for a file that has them in .debug_frame only and one that has both. */
extern int twice(int v, int (*fn)(int));

static int __attribute__((noinline)) add(int v)
{
	volatile int x[40];

	x[v % 40] = v;
	return x[v % 40] + 1;
}

int twice(int v, int (*fn)(int))
{
	return fn(v) + add(fn(v + 1)) + add(v);
}
