// SPDX-License-Identifier: Apache-2.0
/* What a process had mapped at a time, from notices that say no more than when it came. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

#include "symbol/past_maps.h"

static struct past_maps past;
static uint64_t t0;

static void add(uint64_t start, uint32_t file, uint64_t from, uint64_t until)
{
	const struct past_map m = {
		.map = { .start = start, .end = start + 0x1000, .bias = start, .file = file },
		.from = from,
		.until = until
	};

	cr_assert_eq(past_maps__add(&past, 7, &m), 0);
}

static void init(void)
{
	t0 = clock__boot();
	/* One library after the other at one place, another one beside them. */
	add(0x10000, 1, t0 + 100, UINT64_MAX);
	add(0x10000, 2, t0 + 200, UINT64_MAX);
	add(0x30000, 3, t0 + 150, UINT64_MAX);
	/* It was there at a look, and at a later one not any more. */
	add(0x50000, 4, 0, t0 + 120);
}

static void fini(void)
{
	past_maps__free(&past);
}

TestSuite(past_maps, .init = init, .fini = fini);

static void files_at(uint64_t time, const struct mt_uw_map *base, size_t n_base,
		     const uint32_t *want, size_t n)
{
	struct mt_uw_map *maps;
	ssize_t got = past_maps__at(&past, 7, time, base, n_base, &maps);
	size_t i;

	cr_assert_eq(got, (ssize_t)n, "%zd at +%lld", got, (long long)(time - t0));
	for (i = 0; i < n; i++) {
		cr_assert_eq(maps[i].file, want[i], "file %u at +%lld", maps[i].file,
			     (long long)(time - t0));
		cr_assert(!i || maps[i].start >= maps[i - 1].end);
	}
	free(maps);
}

Test(past_maps, the_youngest_of_its_time)
{
	files_at(t0 + 99, NULL, 0, (uint32_t[]){ 4 }, 1);
	files_at(t0 + 110, NULL, 0, (uint32_t[]){ 1, 4 }, 2);
	files_at(t0 + 160, NULL, 0, (uint32_t[]){ 1, 3 }, 2);
	files_at(t0 + 300, NULL, 0, (uint32_t[]){ 2, 3 }, 2);
}

Test(past_maps, before_what_was_read_later)
{
	const struct mt_uw_map base[] = { { .start = 0x8000, .end = 0x9000, .file = 8 },
					  { .start = 0x10000, .end = 0x10800, .file = 9 },
					  { .start = 0x50800, .end = 0x60000, .file = 10 } };

	files_at(t0 + 110, base, 3, (uint32_t[]){ 8, 1, 4 }, 3);
	files_at(t0 + 130, base, 3, (uint32_t[]){ 8, 1, 10 }, 3);
	files_at(t0 + 50, base, 3, (uint32_t[]){ 8, 9, 4 }, 3);
}

Test(past_maps, by_address_and_file)
{
	cr_assert_null(past_maps__address(&past, 7, t0 + 99, 0x10000));
	cr_assert_eq(past_maps__address(&past, 7, t0 + 150, 0x10fff)->file, 1);
	cr_assert_eq(past_maps__address(&past, 7, t0 + 250, 0x10fff)->file, 2);
	cr_assert_null(past_maps__address(&past, 7, t0 + 250, 0x11000));
	cr_assert_null(past_maps__address(&past, 8, t0 + 250, 0x10000));
	cr_assert_eq(past_maps__file(&past, 7, t0 + 250, 3, 0x10)->start, 0x30000);
	cr_assert_null(past_maps__file(&past, 7, t0 + 250, 3, 0x1001));
	cr_assert_null(past_maps__file(&past, 7, t0 + 140, 3, 0x10));
}

Test(past_maps, epochs)
{
	static const uint64_t other[] = { 99, 100, 121, 150, 200, 400 };
	size_t i;

	add(0x10000, 5, t0 + 400, UINT64_MAX);
	cr_assert_neq(past_maps__epoch(&past, 7, t0 + 300), past_maps__epoch(&past, 7, t0 + 400));
	cr_assert_eq(past_maps__epoch(&past, 7, t0 + 400), past_maps__epoch(&past, 7, t0 + 500));
	for (i = 1; i < sizeof(other) / sizeof(*other); i++)
		cr_assert_lt(past_maps__epoch(&past, 7, t0 + other[i - 1]),
			     past_maps__epoch(&past, 7, t0 + other[i]), "+%d", (int)other[i]);
	cr_assert_eq(past_maps__epoch(&past, 8, t0), 0);
}

/* Bounded, and the latest are kept; epochs go on. */
Test(past_maps, many)
{
	uint64_t before = past_maps__epoch(&past, 7, UINT64_MAX - 1);
	uint32_t i;

	for (i = 0; i < 100000; i++)
		add(0x10000 + 0x10000ULL * (i % 50), 100 + i, t0 + 1000 + i, UINT64_MAX);
	cr_assert_eq(past_maps__epoch(&past, 7, t0 + 1000 + i), before + i);
	cr_assert_eq(past_maps__address(&past, 7, t0 + 1000 + i, 0x10000)->file, 100 + i - 50);
	cr_assert_null(past_maps__address(&past, 7, t0 + 1000, 0x10000));
	past_maps__forget(&past, 7);
	past_maps__forget(&past, 7);
	cr_assert_eq(past_maps__epoch(&past, 7, t0 + 1000 + i), 0);
}

/* Asked for each row: what was mapped long ago must not be counted again each time. */
Test(past_maps, epochs_are_cheap)
{
	struct timespec a, b;
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < 4000; i++)
		add(0x10000 + 0x10000ULL * i, 100 + i, t0 - 2000000 + i, UINT64_MAX);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (i = 0; i < 1000000; i++)
		sum += past_maps__epoch(&past, 7, UINT64_MAX - 1);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	cr_assert_eq(sum, 1000000 * past_maps__epoch(&past, 7, UINT64_MAX - 1));
	cr_assert_lt((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000, 800);
}
