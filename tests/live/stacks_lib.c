// SPDX-License-Identifier: Apache-2.0
/* One of many libraries without frame pointers, with frames of its own size: LIB is its number. */
#include <string.h>

typedef int (*call_fn)(unsigned long long size);

__attribute__((noinline)) static int inner(call_fn call, unsigned long long size)
{
	volatile char room[16 + 24 * LIB];

	memset((char *)room, LIB, sizeof(room));
	return call(size) + (room[0] != LIB);
}

__attribute__((noinline)) int through(call_fn call, unsigned long long size, int deeper)
{
	volatile char room[16 + 40 * (LIB % 7)];

	memset((char *)room, deeper, sizeof(room));
	return (deeper ? through(call, size, deeper - 1) : inner(call, size)) + (room[0] != deeper);
}
