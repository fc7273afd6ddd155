// SPDX-License-Identifier: Apache-2.0
/* Names of many files: after they are gone, within a bound, and quickly. */
#include "symbol_test.h"

#include <sys/resource.h>

TestSuite(symbols, .init = make_dir, .fini = remove_dir);

static struct file_id add(struct symbols *s, const char *name, int want)
{
	struct file_id id;
	int fd = open_file(name);

	cr_expect_eq(symbols__add(s, fd, in_dir(name), NULL, &id), want, "%s", name);
	close(fd);
	return id;
}

static void expect_name(struct symbols *s, const struct file_id *id, uint64_t vaddr,
			const char *want)
{
	struct symbol_name n;
	int err = symbols__name(s, id, vaddr, &n);

	cr_expect_eq(err, 0, "%s", strerror(-err));
	if (want)
		cr_expect(n.name && !strcmp(n.name, want), "%s, not %s", n.name, want);
	else
		cr_expect_null(n.name);
}

Test(symbols, file_that_is_gone)
{
	struct symbols *s = symbols__new(NULL);
	uint64_t entry, helper, vaddr = 0;
	struct symbols_stats st;
	struct file_id id, other;
	struct symbol_name n;

	cr_assert(compile("g++", ""));
	entry = address_of("full.so", "entry");
	helper = address_of("full.so", "_ZL13hidden_helperi");
	id = add(s, "full.so", 1);
	/* Another file stands there now, and the first has no name at all. */
	cr_assert(sh("rm full.so && echo text >full.so"));
	expect_name(s, &id, entry, "entry");
	expect_name(s, &id, helper, "_ZL13hidden_helperi");
	cr_expect_eq(symbols__name(s, &id, helper + 4, &n), 0);
	cr_expect_str_eq(n.pretty, "hidden_helper(int)");
	cr_expect_eq(n.start, helper);
	expect_name(s, &id, 0, NULL);
	expect_name(s, &id, 0, NULL);
	cr_expect_eq(symbols__vaddr(s, &id, 0x7ffffff0, &vaddr), -ERANGE);
	memset(&other, 7, sizeof(other));
	cr_expect_eq(symbols__name(s, &other, entry, &n), -ENOENT);
	other = add(s, "full.so", 1);
	cr_expect_eq(other.kind, FILE_ID_HASH, "no ELF file has an identity as well");
	cr_expect_eq(symbols__name(s, &other, entry, &n), -ENOEXEC);
	symbols__stats(s, &st);
	cr_expect_eq(st.misses, 5, "%lu", st.misses);
	cr_expect_eq(st.hits, 1, "%lu", st.hits);
	cr_expect_eq(st.loads, 1);
	cr_expect_eq(st.files, 2);
	cr_expect_eq(st.unknown, 3);
	cr_expect(st.bytes && st.peak_bytes >= st.bytes);
	symbols__free(s);
}

Test(symbols, file_written_over_in_place)
{
	struct symbols *s = symbols__new(NULL);
	struct symbol_name n;
	struct file_id id;

	cr_assert(compile("g++", "-DOTHER -O1") && sh("mv full.so other.so") && compile("g++", ""));
	id = add(s, "full.so", 1);
	cr_assert(sh("cat other.so >full.so"));
	cr_expect_eq(symbols__name(s, &id, 0x1100, &n), -ESTALE);
	symbols__free(s);
}

Test(symbols, known_by_identity)
{
	struct symbols *s = symbols__new(NULL);
	struct file_id a, b;
	struct symbols_stats st;

	cr_assert(compile("g++", "") && sh("cp full.so copy.so && strip -o stripped.so full.so"));
	a = add(s, "full.so", 1);
	b = add(s, "full.so", 0);
	cr_expect_eq(file_id__cmp(&a, &b), 0);
	b = add(s, "copy.so", 0);
	cr_expect_eq(file_id__cmp(&a, &b), 0);
	add(s, "stripped.so", 0);
	symbols__stats(s, &st);
	cr_expect_eq(st.files, 1);
	symbols__free(s);
}

Test(symbols, offsets)
{
	struct symbols *s = symbols__new(NULL);
	struct elf_image *img;
	uint64_t entry, off, v;
	struct file_id id;

	cr_assert(compile("g++", "-Wl,-z,max-page-size=4096,-z,separate-code"));
	id = add(s, "full.so", 1);
	entry = address_of("full.so", "entry");
	cr_assert_eq(elf_image__open(in_dir("full.so"), &img), 0);
	cr_assert_eq(elf_image__offset(img, entry, &off), 0);
	cr_expect_eq(symbols__vaddr(s, &id, off, &v), 0);
	cr_expect_eq(v, entry);
	elf_image__close(img);
	symbols__free(s);
}

Test(symbols, debug_file_later)
{
	struct symbols *s = symbols__new(NULL);
	struct file_id id;
	uint64_t helper;
	int debug;

	cr_assert(compile("g++", "-DOTHER -O1") && sh("cp full.so other.so") &&
		  compile("g++", "") && sh("strip -o stripped.so full.so"));
	helper = address_of("full.so", "_ZL13hidden_helperi");
	id = add(s, "stripped.so", 1);
	expect_name(s, &id, helper, NULL);
	debug = open_file("other.so");
	cr_expect_eq(symbols__debug(s, &id, debug), -ESTALE);
	close(debug);
	debug = open_file("full.so");
	cr_expect_eq(symbols__debug(s, &id, debug), 0);
	close(debug);
	expect_name(s, &id, helper, "_ZL13hidden_helperi");
	symbols__free(s);
}

/* At the first sight: its process may have ended when a name is wanted. */
Test(symbols, debug_file_found_at_once)
{
	struct symbols *s = symbols__new(NULL);
	char root[PATH_MAX];
	struct debug_search where = { .root = root };
	struct file_id id;
	uint64_t helper;
	int fd, debug;

	snprintf(root, sizeof(root), "%s/root", dir);
	cr_assert(compile("g++", "") &&
		  sh("objcopy --only-keep-debug full.so full.debug && strip full.so -o stripped.so "
		     "&& "
		     "objcopy --add-gnu-debuglink=full.debug stripped.so && mkdir -p root/opt && "
		     "mv full.debug root/opt"));
	helper = address_of("full.so", "_ZL13hidden_helperi");
	fd = open_file("stripped.so");
	cr_expect_eq(symbols__add(s, fd, "/opt/lib.so", &where, &id), 1);
	close(fd);
	cr_assert(sh("rm -r root stripped.so"));
	expect_name(s, &id, helper, "_ZL13hidden_helperi");
	cr_expect_eq(symbols__files(s, &id, &fd, &debug), 0);
	cr_expect(fd >= 0 && debug >= 0);
	symbols__free(s);
}

/* ---- bounds ---- */

enum { FILES = 12, FUNCTIONS = 400 };

/* Files of their own names, each with many functions. */
static void make_files(struct symbols *s, struct file_id id[FILES])
{
	char name[32];
	int i;

	for (i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "lib%d.so", i);
		cr_assert(sh("for i in $(seq %d); do echo \"void a_rather_long_name_of_%d_$i(void) "
			     "{}\"; done >a.c && "
			     "cc -O1 -shared -Wl,--build-id a.c -o %s",
			     FUNCTIONS, i, name));
		id[i] = add(s, name, 1);
	}
}

Test(symbols, bounded_bytes)
{
	struct symbols_opts o = { .max_bytes = 40000 };
	struct symbols *s = symbols__new(&o);
	struct file_id id[FILES];
	struct symbols_stats st;
	char want[64], lib[32];
	uint64_t addr, size;
	int i, k, round;

	make_files(s, id);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < FILES; i++) {
			struct elf_image *img;

			snprintf(lib, sizeof(lib), "lib%d.so", i);
			cr_assert_eq(elf_image__open(in_dir(lib), &img), 0);
			for (k = 1; k < FUNCTIONS; k += 57) {
				snprintf(want, sizeof(want), "a_rather_long_name_of_%d_%d", i, k);
				cr_assert_eq(elf_image__symbol(img, want, &addr, &size), 0);
				expect_name(s, &id[i], addr, want);
			}
			elf_image__close(img);
			symbols__stats(s, &st);
			cr_expect_leq(st.bytes, o.max_bytes);
		}
	}
	cr_expect_gt(st.evictions, FILES, "%lu", st.evictions);
	cr_expect_eq(st.loads - st.tables, st.evictions);
	cr_expect_leq(st.peak_bytes, o.max_bytes + 20000, "%zu", st.peak_bytes);
	symbols__free(s);
}

/* One file that is larger than the bound is read once, and forgets its answers. */
Test(symbols, one_table_above_the_bound)
{
	struct symbols_opts o = { .max_bytes = 4096 };
	struct symbols *s = symbols__new(&o);
	uint64_t entry, a;
	struct symbols_stats st;
	struct symbol_name n;
	struct file_id id;

	cr_assert(compile("g++", ""));
	entry = address_of("full.so", "entry");
	id = add(s, "full.so", 1);
	for (a = 0; a < 0x4000; a++)
		symbols__name(s, &id, a, &n);
	expect_name(s, &id, entry, "entry");
	symbols__stats(s, &st);
	cr_expect_eq(st.loads, 1);
	cr_expect_eq(st.evictions, 0);
	cr_expect_leq(st.peak_bytes, 40000, "%zu", st.peak_bytes);
	symbols__free(s);
}

static unsigned int open_fds(void)
{
	unsigned int n = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

Test(symbols, bounded_files)
{
	struct symbols_opts o = { .max_files = 4 };
	struct symbols *s = symbols__new(&o);
	struct file_id id[FILES];
	unsigned int before = open_fds();
	struct symbols_stats st;
	struct symbol_name n;

	make_files(s, id);
	symbols__stats(s, &st);
	cr_expect_eq(st.files, 4);
	cr_expect_eq(st.dropped, FILES - 4);
	cr_expect_eq(open_fds(), before + 4);
	cr_expect_eq(symbols__name(s, &id[0], 0x1100, &n), -ENOENT);
	cr_expect_eq(symbols__name(s, &id[FILES - 1], 0x1100, &n), 0);
	add(s, "lib0.so", 1);
	cr_expect_eq(symbols__name(s, &id[0], 0x1100, &n), 0);
	symbols__free(s);
	cr_expect_eq(open_fds(), before);
}

/* ---- speed ---- */

static uint64_t cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

Test(symbols, hit_within_a_microsecond)
{
	struct symbols *s = symbols__new(NULL);
	uint64_t entry, best = UINT64_MAX, t;
	struct symbol_name n;
	struct file_id id;
	int i, k;

	cr_assert(compile("g++", ""));
	entry = address_of("full.so", "entry");
	id = add(s, "full.so", 1);
	for (i = 0; i < 50; i++) { /* the best of many: others use this machine */
		t = cpu();
		for (k = 0; k < 1000; k++)
			symbols__name(s, &id, entry + (uint64_t)(k % 50), &n);
		best = MT_MIN(best, (cpu() - t) / 1000);
	}
	cr_expect_leq(best, 1000, "%lu ns", best);
	symbols__free(s);
}
