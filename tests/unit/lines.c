// SPDX-License-Identifier: Apache-2.0
/* Source lines and inlined calls, against addr2line. */
#include "symbol_test.h"

TestSuite(lines, .init = make_dir, .fini = remove_dir);

/* "function file:line" a line, innermost first, as addr2line is made to print. */
struct frames {
	char function[16][256], at[16][256];
	size_t n;
};

static int put_frame(void *ctx, const struct line_frame *f)
{
	const char *base = f->file ? strrchr(f->file, '/') : NULL;
	struct frames *x = ctx;

	cr_assert_lt(x->n, MT_ARRAY_SIZE(x->at));
	snprintf(x->function[x->n], sizeof(x->function[0]), "%s", f->function ? f->function : "??");
	snprintf(x->at[x->n++], sizeof(x->at[0]), "%s:%u",
		 !f->file ? "??"
		 : base	  ? base + 1
			  : f->file,
		 f->line);
	return 0;
}

static struct lines *open_lines(const char *file, const char *debug)
{
	int fd = open_file(file), dfd = debug ? open_file(debug) : -1, err;
	struct lines *l;

	err = lines__open(fd, dfd, NULL, &l);
	cr_assert_eq(err, 0, "%s: %s", file, strerror(-err));
	close(fd);
	if (dfd >= 0)
		close(dfd);
	return l;
}

static void put_addresses(const char *file)
{
	FILE *out = fopen(in_dir("addresses"), "we"), *in;
	char line[2048];
	uint64_t at, size, i;

	cr_assert(out &&
		  sh("nm -S --defined-only %s | grep -E ' [tTwW] (_Z|entry|weak)' >nm", file));
	in = fopen(in_dir("nm"), "re");
	cr_assert(in);
	while (fgets(line, sizeof(line), in)) {
		cr_assert_eq(sscanf(line, "%lx %lx", &at, &size), 2);
		for (i = 0; i < size; i += 4)
			fprintf(out, "0x%lx\n", at + i);
	}
	fclose(in);
	fclose(out);
}

static void compare(const struct frames *got, const struct frames *want, uint64_t start,
		    const char *what, uint64_t addr)
{
	size_t i;

	cr_expect_eq(got->n, want->n, "%s %lx: %zu frames, not %zu", what, addr, got->n, want->n);
	for (i = 0; i < got->n && i < want->n; i++) {
		cr_expect(!strcmp(got->at[i], want->at[i]), "%s %lx: %s, not %s", what, addr,
			  got->at[i], want->at[i]);
		/* These tools give a symbol of that address instead where they see fit. */
		cr_expect(!strcmp(got->function[i], want->function[i]) ||
				  address_of("full.so", want->function[i]) == start,
			  "%s %lx: %s, not %s", what, addr, got->function[i], want->function[i]);
	}
}

/* Every fourth byte of the functions of names.cc. Counts addresses, and those with inlined calls.
 */
static void check(const char *tool, const char *file, const char *debug, const char *truth,
		  unsigned int *inlined, unsigned int *n)
{
	struct symtab *t = open_table(truth, NULL);
	struct lines *l = open_lines(file, debug);
	struct frames want = { 0 }, got;
	struct symbol sym;
	char line[2048];
	uint64_t addr = 0;
	bool name = true;
	FILE *p;

	*inlined = *n = 0;
	put_addresses(truth);
	cr_assert(sh("%s -a -f -i -e %s <addresses >want", tool, truth));
	p = fopen(in_dir("want"), "re");
	cr_assert(p);
	for (;;) {
		bool more = fgets(line, sizeof(line), p);
		const char *slash = strrchr(line, '/');

		if (!more || !strncmp(line, "0x", 2)) {
			if (addr && want.n && want.at[0][0] != '?') {
				got.n = 0;
				lines__find(l, addr, put_frame, &got);
				cr_assert(name_at(t, addr, &sym));
				compare(&got, &want, sym.start, debug ? debug : file, addr);
				++*n;
				*inlined += want.n > 1;
			}
			if (!more)
				break;
			addr = strtoull(line, NULL, 16);
			want.n = 0;
			continue;
		}
		line[strcspn(line, name ? "\n" : " \n")] = '\0'; /* without (discriminator 1) */
		if (!name && line[0] && line[strlen(line) - 1] == '?') /* no line: 0 */
			line[strlen(line) - 1] = '0';
		if (name)
			snprintf(want.function[want.n], sizeof(want.function[0]), "%.255s", line);
		else
			snprintf(want.at[want.n++], sizeof(want.at[0]), "%.255s",
				 slash ? slash + 1 : line);
		name = !name;
	}
	fclose(p);
	lines__close(l);
	symtab__close(t);
}

Test(lines, like_addr2line)
{
	/* binutils does not find the ranges of clang's DWARF 5. */
	static const char *const how[][3] = { { "g++", "-gdwarf-5", "addr2line" },
					      { "g++", "-gdwarf-4", "addr2line" },
					      { "g++", "-gdwarf-5 -ffunction-sections",
						"addr2line" },
					      { "clang++", "-gdwarf-5", "llvm-addr2line" },
					      { "clang++", "-gdwarf-4", "addr2line" } };
	unsigned int inlined, n;
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(how); i++) {
		if (!compile(how[i][0], how[i][1]))
			continue;
		check(how[i][2], "full.so", NULL, "full.so", &inlined, &n);
		cr_expect(n > 100 && inlined >= 5, "%s %s: %u, %u", how[i][0], how[i][1], n,
			  inlined);
	}
}

Test(lines, compressed_and_separate)
{
	unsigned int inlined, n;
	struct lines *l;
	int fd;

	cr_assert(compile("g++", "") &&
		  sh("objcopy --only-keep-debug --compress-debug-sections full.so full.debug && "
		     "strip -o stripped.so full.so && objcopy --strip-debug full.so other.so"));
	check("addr2line", "stripped.so", "full.debug", "full.so", &inlined, &n);
	cr_expect(n > 100 && inlined >= 5);
	fd = open_file("stripped.so");
	cr_expect_eq(lines__open(fd, -1, NULL, &l), -ENOENT);
	close(fd);
	cr_assert(compile("g++", "-O1 -DOTHER"));
	fd = open_file("full.so");
	cr_expect_eq(lines__open(fd, open_file("full.debug"), NULL, &l), -ESTALE);
	cr_expect_null(l);
}

/* Of two libraries dwz takes out what both have: without that file names would be wrong. */
Test(lines, dwz)
{
	char root[PATH_MAX];
	struct debug_search where = { .root = root };
	struct frames f = { 0 };
	struct lines *l;
	int fd;

	snprintf(root, sizeof(root), "%s/root", dir);
	cr_assert(compile("g++", "") &&
		  sh("mkdir root; cp full.so plain.so; cp full.so second.so"));
	if (!sh("dwz -v >/dev/null 2>&1 && dwz -m common -M /common full.so second.so"))
		cr_skip_test("no dwz here");
	fd = open_file("full.so");
	cr_expect_eq(lines__open(fd, -1, &where, &l), -ENOLINK);
	cr_assert(sh("cp common root/common"));
	cr_assert_eq(lines__open(fd, -1, &where, &l), 0);
	cr_expect_eq(lines__find(l, address_of("plain.so", "entry"), put_frame, &f), 0);
	cr_expect_str_eq(f.function[0], "entry");
	cr_expect_eq(strncmp(f.at[0], "names.cc:", 9), 0, "%s", f.at[0]);
	lines__close(l);
}

static int stop(void *ctx, const struct line_frame *f)
{
	++*(int *)ctx;
	return 42;
}

Test(lines, ends_when_told)
{
	struct lines *l;
	int calls = 0;

	cr_assert(compile("g++", ""));
	l = open_lines("full.so", NULL);
	cr_expect_eq(lines__find(l, address_of("full.so", "entry"), stop, &calls), 42);
	cr_expect_eq(calls, 1);
	cr_expect_eq(lines__find(l, 1, stop, &calls), -ENOENT);
	cr_expect_eq(lines__find(l, UINT64_MAX, stop, &calls), -ENOENT);
	cr_expect_eq(calls, 1);
	lines__close(l);
}

/* A file that becomes shorter while it is read does not end the tracer. */
Test(lines, file_cut_while_open)
{
	struct frames f = { 0 };
	struct lines *l;
	uint64_t a;

	cr_assert(compile("g++", ""));
	a = address_of("full.so", "entry");
	l = open_lines("full.so", NULL);
	cr_assert_eq(truncate(in_dir("full.so"), 4096), 0);
	lines__find(l, a, put_frame, &f);
	lines__close(l);
}
