// SPDX-License-Identifier: Apache-2.0
/*
 * Allocations in ranges "report host memory info start", told as the program itself sees them:
 *
 *   host-target each                     every function of the family once, a line for each
 *   host-target count RANGES CALLS THREADS   calls whose size says where they belong: 1000000 + n
 *                                        behind the mark, 2000000 + n outside
 *   host-target hold | stay              opens a range when it gets a line, closes it at another, and ends
 *                                        then, or at a third
 *   host-target nested                   ranges inside of one another, in two threads, with other texts
 *   host-target together ROUNDS 0 0      two threads open ranges at once; the second's is long, of 10 calls
 *   host-target short RANGES 0 0         ranges one after the other, in which nothing happens
 *   host-target user                     becomes another user's, opens a range and closes it
 *   host-target across                   (host-own.so) a call returns long after its range has closed
 *   host-target late LIBRARY FOLDER NUMBER   the malloc of a library that is mapped behind so many files
 *
 * READY, then it waits for a line.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define TEXT "report host memory info start"
#define INSIDE 1000000
#define OUTSIDE 2000000

static uint64_t (*range_start)(const char *, void *);
static void (*range_end)(uint64_t);

/* The compiler must not drop a pair of calls, nor make one of two. */
static void *volatile keep;

static void tell(const char *fn, const void *old, const void *p, size_t n)
{
	char line[128];
	int len = snprintf(line, sizeof(line), "%s %llu %llu %zu\n", fn,
			   (unsigned long long)(uintptr_t)old, (unsigned long long)(uintptr_t)p, n);

	/* stdio would allocate. */
	if (write(1, line, (size_t)len) != len)
		_exit(3);
}

static void gone(void *p)
{
	uintptr_t a = (uintptr_t)p;

	free(p);
	tell("free", (void *)a, NULL, 0);
}

/* Of C++, where an allocator of its own has them. */
static void *(*new)(size_t);
static void (*delete)(void *);

static void operators(void)
{
	void *p;

	if (!new || !delete)
		return;
	keep = p = new(1120);
	tell("new", NULL, p, 1120);
	delete (p);
	tell("delete", p, NULL, 0);
}

static void each(void)
{
	uint64_t id;
	void *p, *q, *r, *before = malloc(111);
	uintptr_t old;

	/* What is not found has a text, which is allocated. */
	new = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "_Znwm");
	delete = (void (*)(void *))dlsym(RTLD_DEFAULT, "_ZdlPv");
	id = range_start(TEXT, NULL);
	gone(before);
	keep = p = malloc(1111);
	tell("malloc", NULL, p, 1111);
	old = (uintptr_t)p;
	keep = p = realloc(p, 300000); /* moves */
	tell("realloc", (void *)old, p, 300000);
	old = (uintptr_t)p;
	keep = p = realloc(p, 299999); /* stays */
	tell("realloc", (void *)old, p, 299999);
	gone(p);
	keep = p = realloc(NULL, 1112);
	tell("realloc", NULL, p, 1112);
	old = (uintptr_t)p;
	keep = p = reallocarray(p, 10, 1113);
	tell("realloc", (void *)old, p, 11130);
	gone(p);
	keep = p = calloc(7, 1114);
	tell("calloc", NULL, p, 7 * 1114);
	old = (uintptr_t)p;
	keep = p = realloc(p, 0); /* frees */
	tell("realloc", (void *)old, NULL, 0);
	if (p)
		_exit(4);
	if (posix_memalign(&q, 4096, 1115))
		_exit(4);
	tell("posix_memalign", NULL, q, 1115);
	keep = p = aligned_alloc(64, 1152);
	tell("aligned_alloc", NULL, p, 1152);
	keep = r = memalign(16, 1117); /* no more than malloc gives: calls it */
	tell("memalign", NULL, r, 1117);
	gone(q);
	gone(p);
	gone(r);
	keep = p = valloc(1118);
	tell("valloc", NULL, p, 1118);
	gone(p);
	keep = p = strdup("by the C library itself");
	tell("malloc", NULL, p, 24);
	gone(p);
	operators();
	free(NULL);
	keep = malloc(SIZE_MAX / 2); /* fails */
	keep = calloc(SIZE_MAX / 2, 4);
	if (!posix_memalign(&q, 4096, SIZE_MAX / 2))
		_exit(4);
	keep = p = malloc(1119);
	tell("malloc", NULL, p, 1119);
	range_end(id);
	free(p); /* behind the range: no row */
}

static atomic_int open_;
static int n_calls;

static void *worker(void *arg)
{
	long long no = (long long)(intptr_t)arg;
	void *volatile own;
	int n = 0;

	while (n < n_calls) {
		int in = atomic_load(&open_);

		own = malloc((size_t)(in ? INSIDE + no * 100000 + n++ : OUTSIDE + no));
		free(own);
	}
	return NULL;
}

static void count(int ranges, int calls, int threads)
{
	pthread_t t[16];
	uint64_t id;
	int i, r, n;

	n_calls = calls;
	for (r = 0; r < ranges; r++) {
		atomic_store(&open_, 0);
		for (i = 1; i < threads; i++)
			pthread_create(&t[i], NULL, worker, (void *)(intptr_t)i);
		usleep(threads == 1 ? 200000 : threads == 2 ? 500 : 20000);
		id = range_start(TEXT, NULL);
		atomic_store(&open_, 1);
		for (n = 0; n < calls; n++) {
			keep = malloc((size_t)(INSIDE + n));
			free(keep);
			if (n % 100 == 99 && calls >= 10000)
				usleep(1000);
		}
		for (i = 1; i < threads; i++)
			pthread_join(t[i], NULL);
		range_end(id);
		keep = malloc(OUTSIDE);
		free(keep);
	}
}

static void *second(void *arg)
{
	uint64_t id = range_start(TEXT, NULL), other = range_start("another text", NULL);

	keep = malloc(INSIDE + 2);
	range_end(other);
	keep = malloc(INSIDE + 3);
	range_end(id);
	(void)arg;
	return NULL;
}

static void nested(void)
{
	uint64_t a, b, c;
	pthread_t t;

	a = range_start("report host memory info starts", NULL);
	keep = malloc(OUTSIDE + 1);
	b = range_start(TEXT, NULL);
	keep = malloc(INSIDE + 1);
	pthread_create(&t, NULL, second, NULL);
	pthread_join(t, NULL);
	c = range_start(TEXT, NULL);
	range_end(c);
	keep = malloc(INSIDE + 4); /* the outer one is open still */
	range_end(b);
	keep = malloc(OUTSIDE + 2);
	range_end(a);
	keep = malloc(OUTSIDE + 3);
}

static pthread_barrier_t round_;
static int n_rounds;

static void *one_of_two(void *arg)
{
	int r, i, is_long = arg != NULL;
	uint64_t id;

	for (r = 0; r < n_rounds; r++) {
		pthread_barrier_wait(&round_);
		id = range_start(TEXT, NULL);
		for (i = 0; is_long && i < 10; i++) {
			keep = malloc((size_t)(INSIDE + r * 10 + i));
			free(keep);
			usleep(5000);
		}
		range_end(id);
		usleep(is_long ? 30000 : 0);
	}
	return NULL;
}

static void together(int rounds)
{
	pthread_t t;

	n_rounds = rounds;
	pthread_barrier_init(&round_, NULL, 2);
	pthread_create(&t, NULL, one_of_two, &round_);
	one_of_two(NULL);
	pthread_join(t, NULL);
}

static void short_ranges(int n)
{
	while (n--) {
		uint64_t id = range_start(TEXT, NULL);

		usleep(2000);
		range_end(id);
	}
}

/* host-own.so calls it out of malloc(ACROSS). */
#define ACROSS 424242
static uint64_t open_range;

static void close_inside(void)
{
	range_end(open_range);
	usleep(500000); /* the probes are gone */
}

__attribute__((noinline)) static void deeper(void)
{
	char volatile room[16384];
	int i;

	room[0] = 0;
	open_range = range_start(TEXT, NULL);
	for (i = 0; i < 5; i++) {
		keep = malloc((size_t)(INSIDE + i + room[0]));
		free(keep);
	}
	range_end(open_range);
}

static void across(void)
{
	void (**hook)(void) = (void (**)(void))dlsym(RTLD_DEFAULT, "host_hook");

	if (!hook)
		_exit(7);
	*hook = close_inside;
	open_range = range_start(TEXT, NULL);
	keep = malloc(ACROSS);
	deeper();
}

static void late(const char *library, const char *folder, int number)
{
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	void *(*take)(size_t);
	char path[4096];
	uint64_t id;
	int i, fd;

	if (!lib)
		_exit(6);
	*(void **)&take = dlsym(lib, "malloc");
	for (i = 0; i < number; i++) {
		snprintf(path, sizeof(path), "%s/%d", folder, i);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
		/* Below the library: it comes last in the list. */
		if (fd < 0 || ftruncate(fd, 4096) ||
		    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			_exit(8);
		close(fd);
	}
	for (i = 0; i < 60; i++) {
		usleep(200000);
		id = range_start(TEXT, NULL);
		keep = take((size_t)(INSIDE + i));
		range_end(id);
	}
}

static void hold(int stay)
{
	struct timespec t;
	char c;
	uint64_t id = range_start(TEXT, NULL);

	clock_gettime(CLOCK_MONOTONIC, &t);
	keep = malloc(INSIDE);
	free(keep);
	printf("OPENED %lld\n", (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000);
	fflush(stdout);
	if (read(0, &c, 1) != 1)
		_exit(5);
	range_end(id);
	if (!stay)
		return;
	printf("CLOSED\n");
	fflush(stdout);
	if (read(0, &c, 1) != 1)
		_exit(5);
}

static void *any(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(6);
	}
	return p;
}

int main(int argc, char **argv)
{
	void *lib = dlopen("libms_tools_ext.so", RTLD_NOW);
	char c;

	if (!lib || argc < 2) {
		fprintf(stderr, "%s\n", lib ? "what?" : dlerror());
		return 6;
	}
	range_start = (uint64_t(*)(const char *, void *))any(lib, "mstxRangeStartA");
	range_end = (void (*)(uint64_t))any(lib, "mstxRangeEnd");
	printf("READY %d\n", (int)getpid());
	fflush(stdout);
	if (read(0, &c, 1) != 1)
		return 5;
	if (!strcmp(argv[1], "each"))
		each();
	else if (!strcmp(argv[1], "nested"))
		nested();
	else if (!strcmp(argv[1], "hold"))
		hold(0);
	else if (!strcmp(argv[1], "stay"))
		hold(1);
	else if (!strcmp(argv[1], "together") && argc == 5)
		together(atoi(argv[2]));
	else if (!strcmp(argv[1], "short") && argc == 5)
		short_ranges(atoi(argv[2]));
	else if (!strcmp(argv[1], "user")) {
		if (setuid(65534))
			_exit(9);
		range_end(range_start(TEXT, NULL));
	} else if (!strcmp(argv[1], "across"))
		across();
	else if (!strcmp(argv[1], "late") && argc == 5)
		late(argv[2], argv[3], atoi(argv[4]));
	else if (argc == 5)
		count(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
	printf("DONE\n");
	fflush(stdout);
	return 0;
}
