// SPDX-License-Identifier: Apache-2.0
// A program for another C library, whose code says nothing of its stack: main, its three
// functions, and what that library calls back.
#include <stdlib.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void spin(void)
{
	for (;;)
		sink = sink * 31 + 1;
}

__attribute__((noinline)) static void two(int n)
{
	volatile char room[80];

	room[n] = 1;
	spin();
	room[0] = room[n];
}

__attribute__((noinline)) static void one(int n)
{
	two(n + 1);
	sink++;
}

int main(void)
{
	one(3);
	return (int)sink;
}
