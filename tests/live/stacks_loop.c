// SPDX-License-Identifier: Apache-2.0
/* stacks-loop FILE THREADS LIBRARY: maps a file as code and unmaps it, without end, in all threads. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static int fd;

static void *loop(void *arg)
{
	for (;;) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		if (p == MAP_FAILED)
			exit(1);
		munmap(p, 4096);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;
	int i;

	if (argc < 4 || !dlopen(argv[3], RTLD_NOW))
		return 2;
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 2;
	for (i = 1; i < atoi(argv[2]); i++)
		if (pthread_create(&t, NULL, loop, NULL))
			return 2;
	puts("up");
	fflush(stdout);
	loop(NULL);
	return 0;
}
