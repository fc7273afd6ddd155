// SPDX-License-Identifier: Apache-2.0
/* Identity of files, readable names, frames as text. */
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include "symbol_test.h"

TestSuite(names, .init = make_dir, .fini = remove_dir);

/* ---- identity ---- */

static struct file_id id_of(const char *file)
{
	struct file_id id;
	int fd = open_file(file);

	cr_assert_eq(file_id__of_fd(fd, &id), 0);
	close(fd);
	return id;
}

Test(names, build_id)
{
	char text[FILE_ID_TEXT], *want = NULL;
	struct file_id a, b;

	cr_assert(compile("g++", "") &&
		  sh("cp full.so copy.so && strip -o stripped.so full.so && "
		     "readelf -n full.so | sed -n 's/.*Build ID: //p' | tr -d '\\n' >id"));
	a = id_of("full.so");
	cr_expect_gt(file__read(in_dir("id"), 100, &want), 0);
	cr_expect_str_eq(file_id__text(&a, text), want);
	free(want);
	b = id_of("copy.so");
	cr_expect(!file_id__cmp(&a, &b) && file_id__hash(&a) == file_id__hash(&b));
	b = id_of("stripped.so");
	cr_expect_eq(file_id__cmp(&a, &b), 0, "the same build");
	file_id__of_build(a.bytes, a.len, &b);
	cr_expect_eq(file_id__cmp(&a, &b), 0);
	b.len--;
	cr_expect(file_id__cmp(&a, &b) && file_id__cmp(&a, &b) == -file_id__cmp(&b, &a));
}

Test(names, without_build_id)
{
	char text[FILE_ID_TEXT];
	struct file_id a, b, was;
	static const off_t places[] = { 0x1000, 65536 + 100, 3000000 - 60000, 3000000 - 1 };
	size_t i;
	int fd;

	cr_assert(compile("g++", "-Wl,--build-id=none") && sh("cp full.so copy.so"));
	a = id_of("full.so");
	cr_expect_eq(a.kind, FILE_ID_HASH);
	cr_expect_eq(strncmp(file_id__text(&a, text), "hash-", 5), 0);
	cr_expect_eq(strlen(text), 5 + 32);
	b = id_of("copy.so");
	cr_expect_eq(file_id__cmp(&a, &b), 0);
	fd = open(in_dir("copy.so"), O_RDWR | O_CLOEXEC);
	cr_assert_eq(pwrite(fd, "x", 1, 0x1001), 1);
	b = id_of("copy.so");
	cr_expect(file_id__cmp(&a, &b), "one byte of a small file");
	close(fd);

	/* A large one: its size, both ends and the samples count. */
	fd = open(in_dir("big"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(ftruncate(fd, 3000000), 0);
	was = id_of("big");
	cr_assert_eq(ftruncate(fd, 3000001), 0);
	b = id_of("big");
	cr_expect(file_id__cmp(&was, &b));
	cr_assert_eq(ftruncate(fd, 3000000), 0);
	for (i = 0; i < MT_ARRAY_SIZE(places); i++) {
		cr_assert_eq(pwrite(fd, "x", 1, places[i]), 1);
		b = id_of("big");
		cr_expect(file_id__cmp(&was, &b), "%ld", (long)places[i]);
		was = b;
	}
	close(fd);
	cr_expect_neq(file_id__of_fd(-1, &b), 0);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cr_expect_neq(file_id__of_fd(fd, &b), 0);
}

/* ---- demangling ---- */

static const char *plain(const char *name)
{
	static struct strbuf sb;

	strbuf__reset(&sb);
	strbuf__puts(&sb, ">");
	return demangle(name, &sb) ? NULL : sb.data + 1;
}

Test(names, demangled)
{
	static const char *const not_cxx[] = { "",	"_",	"_Z",	"main",	   "_ZN",
					       "_Zfoo", "_R1a", "_ZTv", "_Z1f\xff" };
	size_t i;

	cr_expect_str_eq(plain("_ZN3c1011StorageImplD1Ev"), "c10::StorageImpl::~StorageImpl()");
	cr_expect_str_eq(plain("_Z1fi.cold"), "f(int) [clone .cold]");
	cr_expect_str_eq(plain("_ZNSt6vectorIiSaIiEE9push_backEOi"),
			 "std::vector<int, std::allocator<int> >::push_back(int&&)");
	/* Rust's older scheme is the same. */
	cr_expect_str_eq(plain("_ZN4core3fmt5write17h0123456789abcdefE"),
			 "core::fmt::write::h0123456789abcdef");
	for (i = 0; i < MT_ARRAY_SIZE(not_cxx); i++)
		cr_expect_null(plain(not_cxx[i]), "%s", not_cxx[i]);
}

/* What binutils makes of the names of a real library. */
Test(names, demangled_like_cxxfilt)
{
	unsigned int n = 0, same = 0;
	static char name[65536], want[1 << 20];
	FILE *a, *b;

	cr_assert(sh("f=$(ldconfig -p | sed -n 's/.*libstdc++.so.6 .*=> //p' | head -n 1); "
		     "nm -D --defined-only $f | awk '{ sub(/@.*/, \"\", $3); print $3 }' | grep "
		     "^_Z | head -n 3000 >names && "
		     "c++filt -i <names >want"));
	a = fopen(in_dir("names"), "re");
	b = fopen(in_dir("want"), "re");
	cr_assert(a && b);
	while (fgets(name, sizeof(name), a) && fgets(want, sizeof(want), b)) {
		const char *got;

		name[strcspn(name, "\n")] = '\0';
		want[strcspn(want, "\n")] = '\0';
		got = plain(name);
		n++;
		same += got && !strcmp(got, want);
	}
	fclose(a);
	fclose(b);
	cr_expect_gt(n, 1000);
	/* Both are the same code, of two releases: few may differ. */
	cr_expect_geq(same, n * 99 / 100, "%u of %u", same, n);
}

static uint64_t cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* A reference to what stands before: S_, S0_ … S9_, SA_ … */
static const char *ref(int i)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static char s[8];

	if (i < 36)
		snprintf(s, sizeof(s), "S%c_", digits[i]);
	else
		snprintf(s, sizeof(s), "S%c%c_", digits[i / 36], digits[i % 36]);
	return s;
}

/* f(A<int>, A<it, it>, A<that, that> …): the text doubles with each. */
static void doubling(struct strbuf *sb, int n, const char *end)
{
	int i;

	strbuf__reset(sb);
	strbuf__puts(sb, "_Z1f1AIiE");
	for (i = 0; i < n; i++) {
		strbuf__puts(sb, "S_I");
		strbuf__puts(sb, ref(i));
		strbuf__puts(sb, ref(i));
		strbuf__puts(sb, "E");
	}
	strbuf__puts(sb, end);
}

/* f(a<b<c<int>, c<int>>, b<…>>...): each level holds the one below twice; no pack anywhere. */
static void expanding(struct strbuf *sb, int n)
{
	int i;

	strbuf__reset(sb);
	strbuf__puts(sb, "_Z1fDp");
	for (i = 0; i < n; i++)
		strbuf__printf(sb, "1%cI", 'a' + i % 26);
	strbuf__puts(sb, "iE");
	for (i = 0; i < n - 1; i++) {
		strbuf__puts(sb, ref(n + i - 1)); /* S_ is the first, S0_ the second */
		strbuf__puts(sb, "E");
	}
}

Test(names, hostile_names)
{
	struct strbuf sb = { 0 }, out = { 0 };
	uint64_t start = cpu();
	int i;

	doubling(&sb, 3, "");
	cr_expect_eq(demangle(sb.data, &out), 0, "a few are fine");
	strbuf__reset(&out);
	strbuf__puts(&out, "before");
	doubling(&sb, 60, "");
	cr_expect_eq(demangle(sb.data, &out), -E2BIG);
	cr_expect_str_eq(out.data, "before");
	cr_expect_eq(out.len, 6);
	/* Looked through for a pack, for hours and without a word of text. */
	strbuf__reset(&out);
	expanding(&sb, 4);
	cr_expect_eq(demangle(sb.data, &out), 0, "a few are fine");
	expanding(&sb, 60);
	cr_expect_eq(demangle(sb.data, &out), -E2BIG);
	for (i = 0; i < 200; i++) { /* deep, then long */
		int k, n = i * 40;

		strbuf__reset(&sb);
		strbuf__puts(&sb, "_Z1f");
		for (k = 0; k < n; k++)
			strbuf__puts(&sb, i & 1 ? "P" : "1AI");
		demangle(sb.data, &out);
	}
	strbuf__puts(&sb, "i");
	cr_expect_eq(demangle(sb.data, &out), -E2BIG);
	cr_expect_lt(cpu() - start, 2000000000ULL);
	strbuf__free(&sb);
	strbuf__free(&out);
}

/* ---- text of frames ---- */

static int bias_of(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct {
		uintptr_t at, bias;
	} *x = ctx;
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && x->at - info->dlpi_addr - ph->p_vaddr < ph->p_memsz) {
			x->bias = info->dlpi_addr;
			return 1;
		}
	}
	return 0;
}

/* What glibc, and so the vendor's tool, writes of the same addresses. */
static void expect_glibc(uintptr_t pc)
{
	struct {
		uintptr_t at, bias;
	} x = { pc, 0 };
	void *addr = (void *)pc;
	char **want = backtrace_symbols(&addr, 1);
	struct strbuf sb = { 0 };
	struct cell_frame f = { .pc = pc };
	Dl_info info;

	if (dladdr(addr, &info)) {
		dl_iterate_phdr(bias_of, &x);
		f.module = info.dli_fname;
		f.name = info.dli_sname;
		f.bias = x.bias;
		f.start = (uintptr_t)info.dli_saddr - x.bias;
	}
	cell__frame(&sb, &f);
	strbuf__puts(&sb, "");
	cr_expect(sb.data[sb.len - 1] == '\n' && !strncmp(sb.data, want[0], sb.len - 1) &&
			  !want[0][sb.len - 1],
		  "%s, not %s", sb.data, want[0]);
	free(want);
	strbuf__free(&sb);
}

Test(names, cell_like_glibc)
{
	/* In libc with a name, its start, one byte further, a far one; in none. */
	void *f = dlsym(RTLD_DEFAULT, "qsort");

	expect_glibc((uintptr_t)f);
	expect_glibc((uintptr_t)f + 0x1f);
	expect_glibc((uintptr_t)f + 0x100000);
	expect_glibc((uintptr_t)expect_glibc + 3);
	expect_glibc(0x1000);
}

Test(names, cells)
{
	struct strbuf sb = { 0 };
	struct cell_frame f = { .module = "/lib/a.so",
				.pc = 0x7f0000001234,
				.bias = 0x7f0000000000,
				.name = "halMemAlloc",
				.start = 0x1200 };

	cell__frame(&sb, &f);
	cr_expect_str_eq(sb.data, "/lib/a.so(halMemAlloc+0x34) [0x7f0000001234]\n");
	strbuf__reset(&sb);
	f.name = NULL;
	cell__frame(&sb, &f);
	cr_expect_str_eq(sb.data, "/lib/a.so(+0x1234) [0x7f0000001234]\n");
	strbuf__reset(&sb);
	f.bias = 0;
	cell__frame(&sb, &f);
	cr_expect_str_eq(sb.data, "/lib/a.so() [0x7f0000001234]\n");
	strbuf__reset(&sb);
	f = (struct cell_frame){
		.module = "a\nb", .pc = 0x10, .name = "c\x1b[2J", .file = "d\r.c", .line = 7
	};
	cell__frame(&sb, &f);
	cr_expect_str_eq(sb.data, "a?b(c?[2J+0x10) [0x10] at d?.c:7\n");
	strbuf__reset(&sb);
	f = (struct cell_frame){
		.module = "/lib/a.so", .pc = 0x10, .name = "inner", .file = "d.c"
	};
	cell__inlined(&sb, &f);
	cr_expect_str_eq(sb.data, "/lib/a.so(inner) [0x10] at d.c (inlined)\n");
	strbuf__free(&sb);
}
