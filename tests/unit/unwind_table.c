// SPDX-License-Identifier: Apache-2.0
/* Rows of files against libdw, and the store that shares them out. */
#include <criterion/criterion.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "symbol/cfi.h"
#include "symbol/spans.h"
#include "unwind_test.h"

static char libc_path[PATH_MAX];

static int on_object(struct dl_phdr_info *i, size_t size, void *arg)
{
	if (!strstr(i->dlpi_name, "/libc.so"))
		return 0;
	snprintf(libc_path, sizeof(libc_path), "%s", i->dlpi_name);
	return 1;
}

static void find_libc(void)
{
	cr_assert_eq(dl_iterate_phdr(on_object, NULL), 1);
}

TestSuite(unwind_table, .init = find_libc);

/* The rule of an address by libdw alone. */
static struct mt_uw_rule by_libdw(Dwarf_CFI *cfi, int machine, uint64_t at)
{
	struct mt_uw_rule r = { .cfa = MT_CFA_NONE };
	Dwarf_Frame *f;
	bool signal;

	if (dwarf_cfi_addrframe(cfi, at, &f) == 0) {
		dwarf_frame_info(f, NULL, NULL, &signal);
		cfi__rule(f, machine, signal, &r);
		free(f);
	}
	return r;
}

static void same_as_libdw(const char *path, size_t least)
{
	struct unwind_table *t;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_image *img;
	Dwarf_CFI *cfi;
	uint64_t at, step = 37;
	size_t found = 0;
	Elf *elf;
	uint32_t i, k;

	cr_assert_geq(fd, 0);
	cr_assert_eq(unwind_table__build_fd(fd, &t), 0);
	cr_assert_eq(elf_image__open_fd(fd, path, &img), 0);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	cfi = dwarf_getcfi_elf(elf);
	cr_assert(cfi);
	for (i = 0; i < t->n_pages; i++)
		for (k = 1; k < t->pages[i].n; k++) {
			const struct mt_uw_row *r = &t->rows[t->pages[i].first + k];

			cr_assert_lt(r[-1].pc, r->pc, "page %u row %u", i, k);
			cr_assert_neq(r[-1].rule, r->rule, "page %u row %u", i, k);
		}
	/* All over the file, and on both sides of each boundary of a page. */
	for (at = t->base; at < t->base + ((uint64_t)t->n_pages << MT_UW_PAGE_SHIFT);
	     at += at % MT_UW_PAGE > MT_UW_PAGE - step || at % MT_UW_PAGE < 3 ? 1 : step) {
		struct mt_uw_rule want = by_libdw(cfi, elf_image__machine(img), at);
		const struct mt_uw_rule *got = unwind_table__at(t, at);

		cr_assert_eq(memcmp(&want, got, sizeof(want)), 0, "%#jx: cfa %d%+d, libdw %d%+d", (uintmax_t)at,
			     got->cfa, got->off, want.cfa, want.off);
		found += got->cfa != MT_CFA_NONE;
	}
	cr_expect_geq(found, least, "%zu", found);
	cr_expect_eq(unwind_table__at(t, t->base - 1)->cfa, MT_CFA_NONE);
	cr_expect_eq(unwind_table__at(t, ~0ULL)->cfa, MT_CFA_NONE);
	dwarf_cfi_end(cfi);
	elf_end(elf);
	elf_image__close(img);
	unwind_table__free(t);
	close(fd);
}

Test(unwind_table, libc)
{
	same_as_libdw(libc_path, 10000);
}

Test(unwind_table, omitted_frame_pointers)
{
	same_as_libdw(STACKER, 50);
}

Test(unwind_table, debug_frame)
{
	/* Only that section, as Go programs and files without exception tables have it. */
	struct unwind_table *t, *eh;
	size_t i, rules = 0;

	cr_assert_eq(unwind_table__build(DEBUG_FRAME, &t), 0);
	cr_assert_eq(unwind_table__build(EH_FRAME, &eh), 0);
	cr_expect_geq(t->n_rows, 3);
	for (i = 0; i < t->n_rows; i++)
		rules |= 1U << t->rules[t->rows[i].rule].cfa;
	cr_expect(rules & 1 << MT_CFA_SP, "%#zx", rules);
	cr_expect_geq(eh->n_rows, t->n_rows);
	unwind_table__free(t);
	unwind_table__free(eh);
}

Test(unwind_table, no_code_or_no_file)
{
	struct unwind_table *t = (void *)1;
	int fd = memfd_create("x", MFD_CLOEXEC);

	cr_expect_eq(unwind_table__build("/nonexistent", &t), -ENOENT);
	cr_expect_null(t);
	cr_expect_eq(write(fd, "no ELF file at all", 18), 18);
	cr_expect_eq(unwind_table__build_fd(fd, &t), -ENOEXEC);
	cr_expect_null(t);
	close(fd);
}

/* A file that ends anywhere: an error or a table, never a crash. */
Test(unwind_table, cut_short)
{
	char *text;
	ssize_t n = file__read(STACKER, 1 << 20, &text);
	ssize_t at;

	cr_assert_gt(n, 4096);
	for (at = 64; at < n; at += n / 90 | 1) {
		int fd = memfd_create("x", MFD_CLOEXEC);
		struct unwind_table *t;

		cr_assert_eq(fd__write_all(fd, text, (size_t)at), 0);
		if (!unwind_table__build_fd(fd, &t))
			unwind_table__free(t);
		else
			cr_expect_null(t);
		close(fd);
	}
	free(text);
}

/* ---- on disk ---- */

static char cache_dir[] = "/tmp/unwind-cache.XXXXXX";

static void patch(int dir, const char *name, off_t at)
{
	int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
	char c;

	cr_assert_eq(pread(fd, &c, 1, at), 1);
	c ^= 0x40;
	cr_assert_eq(pwrite(fd, &c, 1, at), 1);
	close(fd);
}

Test(unwind_cache, load_what_was_saved)
{
	static const uint8_t id[] = { 1, 2, 0xab };
	struct unwind_table *t, *u;
	struct stat st;
	int dir;

	find_libc();
	cr_assert(mkdtemp(cache_dir));
	dir = unwind_cache__open(cache_dir);
	cr_assert_geq(dir, 0);
	cr_assert_eq(unwind_table__build(libc_path, &t), 0);
	cr_expect_eq(unwind_cache__load(dir, id, 3, &u), -ENOENT);
	cr_assert_eq(unwind_cache__save(dir, id, 3, t), 0);
	cr_assert_eq(fstatat(dir, "0102ab.rows", &st, 0), 0);
	cr_expect_eq(st.st_mode & 0777, 0600);
	cr_assert_eq(unwind_cache__load(dir, id, 3, &u), 0);
	cr_expect(u->base == t->base && u->n_pages == t->n_pages && u->n_rows == t->n_rows &&
		  u->n_rules == t->n_rules && u->n_other == t->n_other);
	cr_expect_eq(memcmp(u->rows, t->rows, t->n_rows * sizeof(*t->rows)), 0);
	cr_expect_eq(memcmp(u->rules, t->rules, t->n_rules * sizeof(*t->rules)), 0);
	cr_expect_eq(memcmp(u->pages, t->pages, t->n_pages * sizeof(*t->pages)), 0);
	unwind_table__free(u);
	/* A bit of the body, of the head; others may write it; cut; a link. */
	patch(dir, "0102ab.rows", st.st_size / 2);
	cr_expect_eq(unwind_cache__load(dir, id, 3, &u), -EINVAL);
	cr_expect_null(u);
	patch(dir, "0102ab.rows", st.st_size / 2);
	patch(dir, "0102ab.rows", 8);
	cr_expect_eq(unwind_cache__load(dir, id, 3, &u), -EINVAL);
	patch(dir, "0102ab.rows", 8);
	cr_assert_eq(fchmodat(dir, "0102ab.rows", 0622, 0), 0);
	cr_expect_eq(unwind_cache__load(dir, id, 3, &u), -EPERM);
	cr_assert_eq(fchmodat(dir, "0102ab.rows", 0600, 0), 0);
	cr_assert_eq(unwind_cache__load(dir, id, 3, &u), 0);
	unwind_table__free(u);
	cr_assert_eq(renameat(dir, "0102ab.rows", dir, "x"), 0);
	cr_assert_eq(symlinkat("x", dir, "0102ab.rows"), 0);
	cr_expect_eq(unwind_cache__load(dir, id, 3, &u), -ELOOP);
	unlinkat(dir, "0102ab.rows", 0);
	unlinkat(dir, "x", 0);
	close(dir);
	cr_assert_eq(chmod(cache_dir, 0777), 0);
	cr_expect_eq(unwind_cache__open(cache_dir), -EPERM);
	rmdir(cache_dir);
	unwind_table__free(t);
}

/* ---- the store ---- */

static int own_memory(void *dst, uint32_t n, uint64_t addr)
{
	memcpy(dst, (void *)(uintptr_t)addr, n);
	return 0;
}

Test(unwind_store, one_place_for_each_file)
{
	struct unwind_store *s;
	struct unwind_stats a, b;

	arrays__init();
	read_memory = own_memory;
	cr_assert_eq(unwind_store__new(&to_arrays, 0, -1, &s), 0);
	cr_assert_eq(unwind_store__process(s, getpid()), 0);
	unwind_store__stats(s, &a);
	cr_expect(a.files > 3 && a.tables > 3 && a.rows > 10000 && a.procs == 1 && a.maps >= a.files);
	cr_assert_eq(unwind_store__process(s, getpid()), 0);
	unwind_store__stats(s, &b);
	cr_expect_eq(b.files, a.files);
	cr_expect_eq(b.rows, a.rows);
	cr_expect_eq(b.chunks, a.chunks);
	cr_expect_eq(b.maps, a.maps);
	cr_expect_eq(unwind_store__process(s, INT_MAX), -ESRCH);
	unwind_store__free(s);
	arrays__fini();
}

Test(unwind_store, makes_room)
{
	struct unwind_store *s;
	struct unwind_stats st;

	find_libc();
	arrays__init();
	/* Two chunks: libc alone takes more than one. */
	cr_assert_eq(unwind_store__new(&to_arrays, 2, -1, &s), 0);
	cr_assert_eq(unwind_store__process(s, getpid()), 0);
	unwind_store__stats(s, &st);
	cr_expect(st.no_room > 0, "%u files without room", st.no_room);
	cr_expect_leq(st.chunks, 2);
	cr_expect_eq(st.evicted, 0, "nothing that is in use goes");
	unwind_store__forget(s, getpid());
	unwind_store__free(s);
	arrays__fini();
}

Test(spans, join)
{
	struct spans s;
	uint32_t a, b, c, d;

	cr_assert_eq(spans__init(&s, 100), 0);
	cr_expect(!spans__take(&s, 40, &a) && !spans__take(&s, 30, &b) && !spans__take(&s, 30, &c));
	cr_expect_eq(spans__take(&s, 1, &d), -ENOSPC);
	cr_expect(!spans__give(&s, a, 40) && !spans__give(&s, c, 30));
	cr_expect_eq(spans__take(&s, 41, &d), -ENOSPC);
	cr_expect_eq(s.n, 2);
	cr_expect(!spans__give(&s, b, 30));
	cr_expect_eq(s.n, 1);
	cr_expect(!spans__take(&s, 100, &d) && d == 0);
	spans__fini(&s);
}
