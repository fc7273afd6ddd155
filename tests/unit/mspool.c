// SPDX-License-Identifier: Apache-2.0
/* Where MindSpore's pools count their bytes, derived from getters compiled here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe/probe.h"

static const char *const compilers[] = { "cc", "aarch64-linux-gnu-gcc" };

/* NULL when there is no such compiler. */
static struct elf_image *build(const char *cc, const char *flags)
{
	char dir[] = "/tmp/memtap-mspool-XXXXXX", out[64], cmd[2 * PATH_MAX];
	const char *src = getenv("SRCDIR");
	struct elf_image *img = NULL;

	cr_assert(mkdtemp(dir));
	snprintf(out, sizeof(out), "%s/pool.so", dir);
	snprintf(cmd, sizeof(cmd),
		 "%s -O2 -fPIC -shared -nostdlib -s %s -o %s "
		 "%s/tests/unit/data-derive/fake_mspool.c "
		 "2>/dev/null",
		 cc, flags, out, src ? src : ".");
	if (!system(cmd))
		cr_assert_eq(elf_image__open(out, &img), 0);
	unlink(out);
	rmdir(dir);
	return img;
}

static void each_compiler(const char *flags, void (*fn)(struct elf_image *img, const char *what))
{
	unsigned int i, n = 0;

	for (i = 0; i < sizeof(compilers) / sizeof(*compilers); i++) {
		struct elf_image *img = build(compilers[i], flags);
		char what[128];

		if (!img)
			continue;
		snprintf(what, sizeof(what), "%s %s", compilers[i], flags);
		fn(img, what);
		elf_image__close(img);
		n++;
	}
	if (!n)
		cr_skip("no C compiler on this machine");
}

static void finds_all(struct elf_image *img, const char *what)
{
	struct mspool_stats s;

	cr_assert_eq(mspool__derive(img, false, &s), 0, "%s", what);
	cr_expect_eq(s.at[0], 0xd8, "%s: %x", what, s.at[0]);
	cr_expect_eq(s.at[1], 0);
	cr_expect_eq(s.used, 0, "%s: %d", what, s.used);
	cr_expect_eq(s.reserved, 2, "%s: %d", what, s.reserved);
	cr_expect_eq(s.besides, 3, "%s: %d", what, s.besides);
	cr_assert_eq(mspool__derive(img, true, &s), 0, "%s", what);
	cr_expect(s.at[0] + s.at[1] == 0xd0 && (s.at[0] == 0x60 || s.at[0] == 0x70), "%s", what);
	cr_expect_eq(s.used, 2, "%s: %d", what, s.used);
	cr_expect_eq(s.reserved, 1, "%s: %d", what, s.reserved);
	cr_expect_eq(s.besides, -1, "%s: %d", what, s.besides);
}

Test(mspool, as_released)
{
	each_compiler("-fstack-protector-all", finds_all);
	each_compiler("", finds_all);
	each_compiler("-O1 -fno-omit-frame-pointer", finds_all);
}

static void finds_one_word(struct elf_image *img, const char *what)
{
	struct mspool_stats s;

	cr_assert_eq(mspool__derive(img, false, &s), 0, "%s", what);
	cr_expect_eq(s.used, 0);
	cr_expect_eq(s.reserved, 2, "%s: %d", what, s.reserved);
	cr_expect_eq(s.besides, -1);
}

Test(mspool, without_ranges)
{
	each_compiler("-DFLAT", finds_one_word);
}

static void is_careful(struct elf_image *img, const char *what)
{
	struct mspool_stats s;

	cr_expect_eq(mspool__derive(img, false, &s), -ENOTSUP, "%s", what);
	cr_expect_eq(s.at[0], 0);
	cr_expect_eq(s.used, -1);
	cr_expect_eq(s.reserved, -1);
}

Test(mspool, sum_of_two_words)
{
	each_compiler("-DTANGLED", is_careful);
}

Test(mspool, no_such_library)
{
	struct mspool_stats s;
	struct elf_image *img;

	cr_assert_eq(elf_image__open("/proc/self/exe", &img), 0);
	cr_expect_eq(mspool__derive(img, false, &s), -ENOENT);
	cr_expect_eq(mspool__derive(img, true, &s), -ENOENT);
	cr_expect_eq(s.at[0], 0);
	elf_image__close(img);
}
