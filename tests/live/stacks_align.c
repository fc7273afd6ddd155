// SPDX-License-Identifier: Apache-2.0
/*
 * stacks-align HAL NUMBER NOTES: allocates from functions whose frames are aligned to more than the
 * stack is, and notes who called (stackcall.c). Built without optimisation: with arrays of variable
 * size the compiler keeps the caller's stack pointer in a register, then on the stack, and describes
 * both it and rbp by expressions.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int stackcall_open(int fd, const char *hal, const char *acl);
int stackcall(unsigned long long size);

static volatile int sink;

#define LEVEL(name, align, size, inner)                                     \
	__attribute__((noinline)) static int name(int i)                    \
	{                                                                   \
		_Alignas(align) char fixed[size];                           \
		char varies[i % 64 * 100 + 16];                             \
		int err;                                                    \
                                                                            \
		memset(fixed, i, sizeof(fixed));                            \
		memset(varies, i, sizeof(varies));                          \
		err = inner;                                                \
		sink += fixed[i & 63] + varies[i & 15];                     \
		return err;                                                 \
	}

/* Wants rbp of the frame that it is called by. */
__attribute__((noinline)) static int plain(int i)
{
	char varies[i % 8 + 16];
	int err;

	memset(varies, i, sizeof(varies));
	err = stackcall(4096);
	sink += varies[3];
	return err;
}

LEVEL(innermost, 32, 64, plain(i))
LEVEL(inner, 64, 20000, innermost(i))
LEVEL(middle, 128, 40000, inner(i))
LEVEL(outer, 64, 128, middle(i))

int main(int argc, char **argv)
{
	int i;

	if (argc != 4 || stackcall_open(open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0600), argv[1], NULL))
		return 1;
	puts("up");
	fflush(stdout);
	getchar();
	for (i = 0; i < atoi(argv[2]); i++)
		if (outer(i))
			return 1;
	puts("done");
	fflush(stdout);
	getchar();
	return 0;
}
