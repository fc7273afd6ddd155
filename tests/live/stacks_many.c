// SPDX-License-Identifier: Apache-2.0
/*
 * stacks-many HAL PART NOTES NUMBER MAPS: maps PART so many times, executable, then allocates so
 * often and notes who called (stackcall.c).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int stackcall_open(int fd, const char *hal, const char *acl);
int stackcall(unsigned long long size);

__attribute__((noinline)) static int leaf(int n)
{
	int err = n ? leaf(n - 1) : stackcall(4096);

	__asm__ volatile("" ::: "memory");
	return err;
}

static void step(const char *what)
{
	puts(what);
	fflush(stdout);
	getchar();
}

int main(int argc, char **argv)
{
	int fd, i, err = 0;

	if (argc != 6 || stackcall_open(open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0600), argv[1], NULL))
		return 1;
	fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	step("up");
	/* None is a continuation of the one before: the kernel does not merge them. */
	for (i = 0; i < atoi(argv[5]) && !err; i++)
		err = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED;
	step("mapped");
	for (i = 0; i < atoi(argv[4]) && !err; i++)
		err = leaf(i % 20);
	step("done");
	return err;
}
