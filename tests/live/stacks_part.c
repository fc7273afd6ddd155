// SPDX-License-Identifier: Apache-2.0
// A library that calls back, for stacks_odd.cc to map in odd ways.
int part(int (*call)(unsigned long long), unsigned long long size);

__attribute__((noinline)) static int deeper(int (*call)(unsigned long long), unsigned long long size, int n)
{
	volatile char room[48];
	int err;

	room[n] = 1;
	err = n ? deeper(call, size, n - 1) : call(size);
	room[0] = room[n];
	return err;
}

int part(int (*call)(unsigned long long), unsigned long long size)
{
	int err = deeper(call, size, 3);

	__asm__ volatile("" ::: "memory");
	return err;
}
