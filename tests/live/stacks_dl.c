// SPDX-License-Identifier: Apache-2.0
/*
 * Allocates where stacks cannot be walked in the kernel, or not yet: through libraries that were
 * loaded just now, as the first act of a program, through code that nothing describes.
 *
 *   stacks-dl HAL NOTES open FOLDER LIBRARIES ROUNDS PAUSE_US   load, call, close, the next one
 *   stacks-dl HAL NOTES keep FOLDER LIBRARIES ROUNDS PAUSE_US   load all, each called at once;
 *                                                               close all
 *   stacks-dl HAL NOTES late FOLDER LIBRARIES ROUNDS PAUSE_US   load all, wait, call each; close all
 *   stacks-dl HAL NOTES exec PROGRAMS                           programs that allocate at once
 *   stacks-dl HAL NOTES code ROUNDS                             through assembly without .cfi
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int stackcall_open(int fd, const char *hal, const char *acl);
int stackcall(unsigned long long size);
/* stacks_code.S */
int with_record(int (*call)(unsigned long long), unsigned long long size);
int without_record(int (*call)(unsigned long long), unsigned long long size);

typedef int (*through_fn)(int (*call)(unsigned long long), unsigned long long size, int deeper);

static void *load(const char *folder, int i)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/stacks-lib%d.so", folder, i);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *one(const char *folder, int i)
{
	through_fn f;
	void *h = load(folder, i);

	*(void **)&f = h ? dlsym(h, "through") : NULL;
	if (!f) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	f(stackcall, 4096 + (unsigned long long)i, i % 3);
	return h;
}

static void libraries(char **argv, int keep)
{
	int n = atoi(argv[1]), rounds = atoi(argv[2]), pause = atoi(argv[3]), r, i;
	void *h[64];

	for (r = 0; r < rounds; r++) {
		for (i = 0; i < n && i < 64; i++) {
			h[i] = one(argv[0], i);
			if (!keep)
				dlclose(h[i]);
			if (pause)
				usleep((useconds_t)pause);
		}
		for (i = 0; keep && i < n && i < 64; i++)
			dlclose(h[i]);
	}
}

static void late(char **argv)
{
	int n = atoi(argv[1]), rounds = atoi(argv[2]), pause = atoi(argv[3]), r, i;
	void *h[64];

	for (r = 0; r < rounds; r++) {
		for (i = 0; i < n && i < 64; i++)
			h[i] = load(argv[0], i);
		usleep((useconds_t)pause);
		for (i = 0; i < n && i < 64; i++)
			dlclose(one(argv[0], i));
		for (i = 0; i < n && i < 64; i++)
			dlclose(h[i]);
	}
}

static void programs(char **argv, int n)
{
	char *args[] = { argv[0], argv[1], argv[2], "first", NULL };
	int i;

	for (i = 0; i < n; i++) {
		pid_t pid = fork();

		if (!pid) {
			execv("/proc/self/exe", args);
			_exit(127);
		}
		waitpid(pid, NULL, 0);
	}
}

static void children(int n)
{
	int i;

	for (i = 0; i < n; i++) {
		pid_t pid = fork();

		if (!pid) {
			stackcall(4096);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

static void code(int rounds)
{
	int i;

	for (i = 0; i < rounds; i++)
		with_record(stackcall, 8192);
	for (i = 0; i < rounds; i++)
		without_record(stackcall, 12288);
}

int main(int argc, char **argv)
{
	int fd = argc > 3 ? open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || stackcall_open(fd, argv[1], NULL))
		return 1;
	if (strcmp(argv[3], "first") == 0)
		return stackcall(4096);
	puts("up");
	fflush(stdout);
	getchar();
	if (strcmp(argv[3], "exec") == 0)
		programs(argv, atoi(argv[4]));
	else if (strcmp(argv[3], "fork") == 0)
		children(atoi(argv[4]));
	else if (strcmp(argv[3], "code") == 0)
		code(atoi(argv[4]));
	else if (strcmp(argv[3], "late") == 0)
		late(argv + 4);
	else
		libraries(argv + 4, strcmp(argv[3], "keep") == 0);
	puts("done");
	fflush(stdout);
	getchar();
	return 0;
}
