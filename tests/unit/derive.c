// SPDX-License-Identifier: Apache-2.0
/*
 * Derivation of hidden functions, on a library compiled here with and without
 * symbols: what the stripped one gives must be what the other's symbols say.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe/probe.h"

static const char *const compilers[] = { "cc", "aarch64-linux-gnu-gcc" };

struct built {
	struct elf_image *full, *stripped;
};

static bool compile(const char *cc, const char *flags, const char *out)
{
	const char *src = getenv("SRCDIR");
	char cmd[2 * PATH_MAX];

	snprintf(cmd, sizeof(cmd),
		 "%s -O2 -fPIC -fno-inline -shared -nostdlib -w %s -o %s "
		 "%s/tests/unit/data-derive/fake_npu.c 2>/dev/null",
		 cc, flags, out, src ? src : ".");
	return !system(cmd);
}

/* Both forms of the library; false when there is no such compiler. */
static bool build(const char *cc, const char *flags, struct built *b)
{
	char dir[] = "/tmp/memtap-derive-XXXXXX", full[64], stripped[64], all[256];
	bool ok;

	cr_assert(mkdtemp(dir));
	snprintf(full, sizeof(full), "%s/full.so", dir);
	snprintf(stripped, sizeof(stripped), "%s/stripped.so", dir);
	snprintf(all, sizeof(all), "-s %s", flags);
	ok = compile(cc, flags, full) && compile(cc, all, stripped);
	if (ok) {
		cr_assert_eq(elf_image__open(full, &b->full), 0);
		cr_assert_eq(elf_image__open(stripped, &b->stripped), 0);
	}
	unlink(full);
	unlink(stripped);
	rmdir(dir);
	return ok;
}

static void done(struct built *b)
{
	elf_image__close(b->full);
	elf_image__close(b->stripped);
}

static uint64_t truth(const struct built *b, const char *name)
{
	uint64_t v = 0, size;

	cr_assert_eq(elf_image__symbol(b->full, name, &v, &size), 0, "%s", name);
	cr_assert_eq(elf_image__symbol(b->stripped, name, &size, &size), -ENOENT, "%s", name);
	return v;
}

static void each_compiler(const char *flags, void (*fn)(struct built *b))
{
	unsigned int i, n = 0;
	struct built b;

	for (i = 0; i < sizeof(compilers) / sizeof(*compilers); i++) {
		if (!build(compilers[i], flags, &b))
			continue;
		fn(&b);
		done(&b);
		n++;
	}
	if (!n)
		cr_skip("no C compiler on this machine");
}

static enum pta_layout expected;

static void finds_all(struct built *b)
{
	struct pta_derived d;
	uint64_t off;

	cr_assert_eq(pta__derive(b->stripped, &d), 0);
	cr_assert_eq(d.generation, PTA_REPORT, "%s", d.why);
	cr_expect_eq(d.report, truth(b, "report_memory"));
	cr_assert_eq(elf_image__offset(b->stripped, d.report, &off), 0);
	cr_expect_eq(d.report_off, off);
	cr_expect_eq(d.layout, expected, "layout %d", d.layout);
	cr_expect_eq(d.call_sites, 4);
	cr_expect_eq(d.malloc, truth(b, "hidden_malloc"));
	cr_expect_eq(d.free, truth(b, "hidden_free"));
	cr_expect_eq(d.block_ptr, 72);
	cr_expect_eq(d.block_size, 48);
	cr_expect(!d.from_symtab);
	cr_expect_null(d.why, "%s", d.why);
}

Test(derive, layout_a)
{
	expected = PTA_LAYOUT_A;
	each_compiler("-DLAYOUT=1", finds_all);
}

Test(derive, layout_b)
{
	expected = PTA_LAYOUT_B;
	each_compiler("-DLAYOUT=2", finds_all);
}

Test(derive, layout_c)
{
	expected = PTA_LAYOUT_C;
	each_compiler("-DLAYOUT=3", finds_all);
	/* the branch protection of distributions, and what GCC 9 to 13 may do */
	each_compiler("-DLAYOUT=3 -O1 -fno-omit-frame-pointer", finds_all);
	each_compiler("-DLAYOUT=3 -O3 -falign-functions=64", finds_all);
}

static void finds_c10(struct built *b)
{
	struct pta_derived d;

	cr_assert_eq(pta__derive(b->stripped, &d), 0);
	cr_expect_eq(d.generation, PTA_C10);
	cr_expect_eq(d.report, 0);
	cr_expect_eq(d.malloc, 0);
	cr_expect_eq(d.block_ptr, -1);
	cr_expect(d.why);
}

Test(derive, generation_5)
{
	each_compiler("-DLAYOUT=0", finds_c10);
}

/* Neither function: only the allocator's own are left. */
static void finds_inner_only(struct built *b)
{
	struct pta_derived d;

	cr_assert_eq(pta__derive(b->stripped, &d), 0);
	cr_expect_eq(d.generation, PTA_NONE);
	cr_expect_eq(d.report, 0);
	cr_expect_eq(d.malloc, truth(b, "hidden_malloc"));
	cr_expect_eq(d.free, truth(b, "hidden_free"));
	cr_expect_eq(d.block_ptr, 72);
	cr_expect_eq(d.block_size, 48);
	cr_expect(d.why);
}

Test(derive, nobody_reports)
{
	each_compiler("-DLAYOUT=0 -DNOBODY", finds_inner_only);
}

static void finds_no_inner(struct built *b)
{
	struct pta_derived d;

	cr_assert_eq(pta__derive(b->stripped, &d), 0);
	cr_expect_eq(d.report, truth(b, "report_memory"));
	cr_expect_eq(d.call_sites, 6);
	cr_expect_eq(d.malloc, 0);
	cr_expect_eq(d.free, 0);
	cr_expect(d.why);
}

Test(derive, outer_functions_report)
{
	each_compiler("-DLAYOUT=2 -DOUTER", finds_no_inner);
}

static void refuses_twins(struct built *b)
{
	struct pta_derived d;

	cr_assert_eq(pta__derive(b->stripped, &d), 0);
	cr_expect_eq(d.generation, PTA_NONE);
	cr_expect_eq(d.report, 0);
	cr_expect(d.why);
}

Test(derive, ambiguous)
{
	each_compiler("-DLAYOUT=3 -DTWINS", refuses_twins);
}

Test(derive, another_library)
{
	struct elf_image *img;
	struct pta_derived d;

	cr_assert_eq(elf_image__open("/proc/self/exe", &img), 0);
	cr_assert_eq(pta__derive(img, &d), 0);
	cr_expect_eq(d.generation, PTA_NONE);
	cr_expect(d.why);
	elf_image__close(img);
}

static void finds_methods(struct built *b)
{
	uint64_t v;

	/* "range_mark" ends in it, and the linker makes one string of both */
	cr_assert_eq(pymethod__find(b->stripped, "_mark", &v), 0);
	cr_expect_eq(v, truth(b, "hidden_py_mark"));
	cr_assert_eq(pymethod__find(b->stripped, "_mark_on_host", &v), 0);
	cr_expect_eq(v, truth(b, "hidden_py_mark_on_host"));
	/* a string that is no name in a table; a name that stands twice; none at all */
	cr_expect_eq(pymethod__find(b->stripped, "_range_end", &v), -ENODATA);
	cr_expect_eq(pymethod__find(b->stripped, "_lonely", &v), -ENODATA);
	cr_expect_eq(pymethod__find(b->stripped, "_twice", &v), -EEXIST);
	cr_expect_eq(pymethod__find(b->stripped, "_absent", &v), -ENOENT);
	cr_expect_eq(pymethod__find(b->stripped, "", &v), -EINVAL);
}

Test(derive, python_methods)
{
	each_compiler("-DLAYOUT=3", finds_methods);
	each_compiler("-DLAYOUT=3 -Wl,-z,pack-relative-relocs", finds_methods);
}
