// SPDX-License-Identifier: Apache-2.0
/*
 * Counts its own calls in ranges that are recorded: bench-host LIBRARY RANGES MILLISECONDS waits for
 * a line, and prints the pairs of malloc and free behind the mark of each range, and what a pair
 * takes outside of ranges and in their second half.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void *volatile keep;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Pairs until then; the clock is looked at seldom. */
static uint64_t pairs(uint64_t until)
{
	uint64_t n = 0;

	do {
		int i;

		for (i = 0; i < 64; i++) {
			keep = malloc(100);
			free(keep);
		}
		n += 64;
	} while (now() < until);
	return n;
}

int main(int argc, char **argv)
{
	void *lib = argc == 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
	uint64_t (*start)(const char *, void *);
	void (*end)(uint64_t);
	int i, ranges;
	uint64_t ns;
	char c;

	if (!lib) {
		fprintf(stderr, "%s\n", argc == 4 ? dlerror() : "LIBRARY RANGES MILLISECONDS");
		return 2;
	}
	start = (uint64_t(*)(const char *, void *))dlsym(lib, "mstxRangeStartA");
	end = (void (*)(uint64_t))dlsym(lib, "mstxRangeEnd");
	ranges = atoi(argv[2]);
	ns = strtoull(argv[3], NULL, 10) * 1000000;
	printf("READY\n");
	fflush(stdout);
	if (!start || !end || read(0, &c, 1) != 1)
		return 2;
	for (i = 0; i < ranges; i++) {
		uint64_t t0, plain, first, second, id, t1, t2;

		usleep(300000);
		t0 = now();
		plain = pairs(t0 + 20000000);
		printf("plain\t%.1f\n", (double)(now() - t0) / (double)plain);
		id = start("report host memory info start", NULL);
		t0 = now();
		first = pairs(t0 + ns / 2);
		t1 = now();
		second = pairs(t1 + ns / 2);
		t2 = now();
		end(id);
		printf("pairs\t%llu\ninside\t%.1f\n", (unsigned long long)(first + second),
		       (double)(t2 - t1) / (double)second);
	}
	return 0;
}
