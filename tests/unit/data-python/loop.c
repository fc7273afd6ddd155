// SPDX-License-Identifier: Apache-2.0
/* Shaped as an interpreter's evaluation loop: exported, with an unlikely part that is split off. */
extern long other(long v, void *p) __attribute__((weak));
extern void fail(long v) __attribute__((cold, weak));

long _PyEval_EvalFrameDefault(long n, const unsigned char *code);
long neighbour(long n);

long _PyEval_EvalFrameDefault(long n, const unsigned char *code)
{
	long stack[16] = { 0 }, sp = 0;

	for (;;) {
		switch (*code++) {
		case 0:
			return stack[sp];
		case 1:
			stack[sp & 15] += other(n, stack);
			break;
		case 2:
			sp = (sp + 1) & 15;
			break;
		case 3:
			if (__builtin_expect(!stack[sp], 0)) {
				fail(sp);
				fail(n);
				stack[sp] = other(sp, stack);
			}
			break;
		case 4:
			stack[sp] -= _PyEval_EvalFrameDefault(n - 1, code);
			break;
		default:
			stack[sp] ^= n;
		}
	}
}

/* Has an unlikely part too, which is none of the loop. */
long neighbour(long n)
{
	long v[8] = { 0 };

	if (__builtin_expect(!n, 0)) {
		fail(n);
		return other(n, v) + v[n & 7];
	}
	return other(n, v) ^ v[n & 7];
}
