// SPDX-License-Identifier: Apache-2.0
/* For aarch64: functions with frames of all kinds, compiled in several ways (unwind_arm64.c). */
extern void outside(void *p, int n);
extern int more(int v);
extern void end(void) __attribute__((noreturn));

int leaf(int v)
{
	return v * 3 + 1;
}

int leaf_with_locals(int v)
{
	volatile int x[30];

	x[v % 30] = v;
	return x[v % 7];
}

int plain(int v)
{
	return more(v) + 1;
}

int saves_many(int a, int b, int c, int d, double x)
{
	int e = more(a), f = more(b), g = more(c), h = more(d);

	return e * f + g * h + more(e + f) + (int)(x * e);
}

void with_alloca(int n)
{
	char *p = __builtin_alloca((unsigned long)n);

	outside(p, n);
	p[0] = p[n - 1];
	outside(p, n + 1);
}

void large(int n)
{
	char room[70000];

	outside(room, n);
	outside(room + 1, n);
}

/* The frame only on one way. */
int shrink_wrapped(int v, int *p)
{
	if (!p)
		return v;
	*p = more(v);
	return more(*p) + more(v);
}

int early(int v)
{
	int i, sum = 0;

	for (i = 0; i < v; i++) {
		sum += more(i);
		if (sum > 100)
			return sum;
	}
	return more(sum) + 1;
}

int tail(int v)
{
	more(v + 1);
	return more(v);
}

void does_not_return(int v)
{
	if (v)
		end();
	outside(&v, 1);
}

int variadic(int n, ...)
{
	__builtin_va_list l;
	int v;

	__builtin_va_start(l, n);
	v = __builtin_va_arg(l, int) + more(n);
	__builtin_va_end(l);
	return v;
}
