// SPDX-License-Identifier: Apache-2.0
/* Symbol tables of files made here, against nm and objdump. */
#include "symbol_test.h"

TestSuite(symtab, .init = make_dir, .fini = remove_dir);

/* ---- against nm ---- */

struct nm {
	uint64_t addr, size;
	char type, name[512];
};

static size_t read_nm(const char *file, struct nm *v, size_t max)
{
	char cmd[256], line[1024];
	size_t n = 0;
	FILE *p;

	snprintf(cmd, sizeof(cmd), "nm -S --defined-only %s", in_dir(file));
	p = popen(cmd, "r");
	cr_assert(p);
	while (n < max && fgets(line, sizeof(line), p)) {
		char *at;

		if (sscanf(line, "%lx %lx %c %511s", &v[n].addr, &v[n].size, &v[n].type,
			   v[n].name) != 4 ||
		    !strchr("TtWwi", v[n].type))
			continue;
		at = strchr(v[n].name + 1, '@');
		if (at)
			*at = '\0';
		n++;
	}
	pclose(p);
	return n;
}

static int order_of(char type)
{
	return type == 't' ? 2 : strchr("Ww", type) ? 1 : 0;
}

/* The rule in the plainest way: global, weak, local; shorter; by text. */
static const char *best_of(const struct nm *v, size_t n, uint64_t addr)
{
	const struct nm *best = NULL;
	size_t i;

	for (i = 0; i < n; i++) {
		const struct nm *s = &v[i];
		int d;

		if (s->addr != addr)
			continue;
		d = best ? order_of(s->type) - order_of(best->type) : -1;
		if (best && !d)
			d = (int)strlen(s->name) - (int)strlen(best->name);
		if (best && !d)
			d = strcmp(s->name, best->name);
		if (d < 0)
			best = s;
	}
	return best ? best->name : NULL;
}

static size_t check_nm(const char *file, const char *debug, const char *truth)
{
	static struct nm v[20000];
	size_t n = read_nm(truth, v, MT_ARRAY_SIZE(v)), i, k, checked = 0;
	struct symtab *t = open_table(file, debug);

	for (i = 0; i < n; i++) {
		const uint64_t at[] = { v[i].addr, v[i].addr + v[i].size / 2,
					v[i].addr + v[i].size - 1 };
		const char *want = best_of(v, n, v[i].addr);
		struct symbol s;

		for (k = 0; k < 3; k++) {
			const char *got;
			size_t j;

			/* Another symbol begins in between: that is the better one there. */
			for (j = 0; j < n; j++)
				if (v[j].addr > v[i].addr && v[j].addr <= at[k])
					break;
			if (j < n)
				continue;
			got = name_at(t, at[k], &s);
			cr_expect(got && !strcmp(got, want), "%s: %lx: %s, not %s", file, at[k],
				  got ? got : "nothing", want);
			cr_expect_eq(s.start, v[i].addr);
			checked++;
		}
	}
	symtab__close(t);
	return checked;
}

static const char *const compilers[] = { "g++", "aarch64-linux-gnu-g++", "clang++" };

Test(symtab, equals_nm)
{
	size_t i, built = 0;

	for (i = 0; i < MT_ARRAY_SIZE(compilers); i++) {
		if (!compile(compilers[i], ""))
			continue;
		built++;
		cr_expect_gt(check_nm("full.so", NULL, "full.so"), 30, "%s", compilers[i]);
	}
	cr_assert_geq(built, 1, "no C++ compiler");
}

/* ---- one form of a file after the other ---- */

Test(symtab, only_dynsym)
{
	struct symtab *full, *t;
	struct symbol a, b;
	uint64_t hidden;
	char text[SYMTAB_SOURCES_TEXT];

	cr_assert(compile("g++", "") && sh("strip -o stripped.so full.so"));
	full = open_table("full.so", NULL);
	t = open_table("stripped.so", NULL);
	cr_expect_str_eq(symtab__sources(full, text), ".symtab, .dynsym, PLT");
	cr_expect_str_eq(symtab__sources(t, text), ".dynsym, PLT");
	cr_expect_str_eq(name_at(t, address_of("full.so", "outer_fn") + 3, NULL), "outer_fn");
	cr_expect_str_eq(name_at(t, address_of("full.so", "entry"), NULL), "entry",
			 "shorter than its alias");
	/* Not exported: no name, but where it begins and ends, from its FDE. */
	hidden = address_of("full.so", "_ZL13hidden_helperi");
	cr_assert(hidden);
	cr_expect_str_eq(name_at(full, hidden + 5, &a), "_ZL13hidden_helperi");
	cr_expect_str_eq(name_at(t, hidden + 5, &b), "");
	cr_expect(a.named && !b.named && a.start == b.start && a.size == b.size);
	cr_expect_lt(symtab__bytes(t), symtab__bytes(full));
	symtab__close(full);
	symtab__close(t);
}

Test(symtab, debugdata)
{
	char text[SYMTAB_SOURCES_TEXT];
	struct symtab *t;

	cr_assert(compile("g++", ""));
	if (!sh("xz --version >/dev/null"))
		cr_skip_test("no xz here");
	/* As distributions make it: what .dynsym has is taken out. */
	cr_assert(sh("nm -D full.so --format=posix --defined-only | awk '{print $1}' | sed "
		     "'s/@.*//' | sort >dyn && "
		     "nm full.so --format=posix --defined-only | awk '$2 ~ /[Tt]/ {print $1}' | "
		     "sort >all && "
		     "comm -13 dyn all >keep && objcopy --only-keep-debug full.so debug && "
		     "objcopy -S --remove-section .comment --keep-symbols=keep debug mini && "
		     "xz mini && strip -o stripped.so full.so && "
		     "objcopy --add-section .gnu_debugdata=mini.xz stripped.so with.so"));
	t = open_table("with.so", NULL);
	cr_expect_str_eq(symtab__sources(t, text), ".dynsym, .gnu_debugdata, PLT");
	symtab__close(t);
	cr_expect_gt(check_nm("with.so", NULL, "full.so"), 20);
	/* Cut short: the other names stay. */
	cr_assert(sh("head -c 200 mini.xz >cut && objcopy --add-section .gnu_debugdata=cut "
		     "stripped.so with.so"));
	t = open_table("with.so", NULL);
	cr_expect_str_eq(symtab__sources(t, text), ".dynsym, PLT");
	cr_expect_str_eq(name_at(t, address_of("full.so", "entry"), NULL), "entry");
	symtab__close(t);
}

/* A file of 300 MB of zeros in a few bytes: refused, not unpacked for ever. */
Test(symtab, debugdata_bomb)
{
	struct symtab *t;

	cr_assert(compile("g++", ""));
	if (!sh("xz --version >/dev/null"))
		cr_skip_test("no xz here");
	cr_assert(sh("head -c 300000000 /dev/zero | xz -1 >bomb && strip -o stripped.so full.so && "
		     "objcopy --add-section .gnu_debugdata=bomb stripped.so with.so"));
	t = open_table("with.so", NULL);
	cr_expect_str_eq(name_at(t, address_of("full.so", "entry"), NULL), "entry");
	symtab__close(t);
}

Test(symtab, no_section_headers)
{
	struct symtab *t;
	uint64_t zero = 0;
	int fd;

	cr_assert(compile("g++", "") && sh("strip -o bare.so full.so"));
	fd = open(in_dir("bare.so"), O_RDWR | O_CLOEXEC);
	cr_assert_eq(pwrite(fd, &zero, 8, 0x28), 8); /* e_shoff */
	cr_assert_eq(pwrite(fd, &zero, 4, 0x3c), 4); /* e_shnum, e_shstrndx */
	close(fd);
	t = open_table("bare.so", NULL);
	cr_expect_str_eq(name_at(t, address_of("full.so", "outer_fn"), NULL), "outer_fn");
	symtab__close(t);
}

/* ---- labels ---- */

static void check_labels(const char *cxx)
{
	struct symtab *t;
	struct symbol s;
	uint64_t a;

	if (!compile(cxx, ""))
		return;
	t = open_table("full.so", NULL);
	a = address_of("full.so", "outer_fn");
	cr_assert(a);
	cr_expect_str_eq(name_at(t, a, NULL), "outer_fn");
	cr_expect_str_eq(name_at(t, a + 20, NULL), "outer_fn", "a label within it is no function");
	cr_expect_str_eq(name_at(t, a + 32, NULL), "inner_fn");
	cr_expect_str_eq(name_at(t, a + 47, NULL), "inner_fn");
	cr_expect_str_eq(name_at(t, a + 48, &s), "outer_fn", "goes on behind the inner one");
	cr_expect(s.start == a && s.size == 64);
	cr_expect_null(name_at(t, a + 64, NULL), "behind its last byte");
	cr_expect_null(name_at(t, a + 95, NULL));
	cr_expect_str_eq(name_at(t, a + 96, NULL), "sized_a",
			 "with a size, then global before weak before local");
	a = address_of("full.so", "unsized_fn");
	cr_expect_str_eq(name_at(t, a + 47, NULL), "unsized_fn");
	cr_expect_str_eq(name_at(t, a + 48, NULL), "plain_label");
	cr_expect_str_eq(name_at(t, a + 79, NULL), "plain_label");
	cr_expect_str_eq(name_at(t, a + 80, NULL), "last_fn");
	cr_expect(!name_at(t, a + 96, NULL) || strcmp(name_at(t, a + 96, NULL), "last_fn") != 0);
	a = address_of("full.so", "versioned@VER_1");
	cr_assert(a);
	cr_expect_str_eq(name_at(t, a, NULL), "versioned");
	cr_expect_null(name_at(t, 0, NULL));
	cr_expect_null(name_at(t, UINT64_MAX, NULL));
	symtab__close(t);
}

Test(symtab, labels)
{
	check_labels("g++");
	check_labels("aarch64-linux-gnu-g++");
}

/* ---- PLT ---- */

/* Against what objdump makes up; returns how many. */
static unsigned int check_plt(const char *prefix, const char *cxx, const char *flags)
{
	char cmd[512], line[1024], name[512];
	unsigned int n = 0;
	struct symtab *t;
	uint64_t a;
	char all[128];
	FILE *p;

	snprintf(all, sizeof(all), "-s %s", flags);
	if (!compile(cxx, all))
		return UINT_MAX;
	t = open_table("full.so", NULL);
	snprintf(cmd, sizeof(cmd), "%sobjdump -d %s | grep '^[0-9a-f]* <.*@plt>:$'", prefix,
		 in_dir("full.so"));
	p = popen(cmd, "r");
	cr_assert(p);
	while (fgets(line, sizeof(line), p)) {
		const char *got;

		cr_assert_eq(sscanf(line, "%lx <%511[^>]", &a, name), 2);
		got = name_at(t, a, NULL);
		cr_expect(got && !strcmp(got, name), "%s %s: %lx: %s, not %s", cxx, flags, a,
			  got ? got : "nothing", name);
		got = name_at(t, a + 7, NULL);
		cr_expect(got && !strcmp(got, name));
		n++;
	}
	pclose(p);
	symtab__close(t);
	return n;
}

Test(symtab, plt)
{
	static const char *const flags[] = { "",
					     "-Wl,-z,now",
					     "-fcf-protection=full -Wl,-z,ibtplt",
					     "-fcf-protection=full -Wl,-z,ibtplt,-z,now",
					     "-fuse-ld=lld",
					     "-fuse-ld=mold" };
	static const char *const arm[] = {
		"", "-mbranch-protection=standard -Wl,-z,force-bti,-z,pac-plt"
	};
	unsigned int n;
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(flags); i++) {
		n = check_plt("", "g++", flags[i]);
		cr_expect(n >= 3, "%s: %u", flags[i], n); /* or no such linker: UINT_MAX */
	}
	for (i = 0; i < MT_ARRAY_SIZE(arm); i++) {
		n = check_plt("aarch64-linux-gnu-", "aarch64-linux-gnu-g++", arm[i]);
		cr_expect(n >= 3, "%s: %u", arm[i], n);
	}
}

/* ---- debug files ---- */

static struct debug_search below(void)
{
	static char root[PATH_MAX];

	snprintf(root, sizeof(root), "%s/root", dir);
	return (struct debug_search){ .root = root };
}

static int find_debug(const char *file, const char *path)
{
	struct debug_search s = below();
	int fd = open_file(file), d = debugfile__find(fd, path, &s);

	close(fd);
	return d;
}

static void put_by_build_id(const char *file, const char *debug)
{
	cr_assert(sh("id=$(readelf -n %s | sed -n 's/.*Build ID: //p') && "
		     "d=root/usr/lib/debug/.build-id/$(echo $id | cut -c1-2) && mkdir -p $d && "
		     "cp %s $d/$(echo $id | cut -c3-).debug",
		     file, debug));
}

Test(symtab, debug_file_by_build_id)
{
	int fd;

	cr_assert(compile("g++", "") && sh("objcopy --only-keep-debug full.so full.debug && "
					   "strip -o stripped.so full.so && mkdir root"));
	cr_expect_eq(find_debug("stripped.so", "/usr/lib/full.so"), -ENOENT);
	put_by_build_id("full.so", "full.debug");
	fd = find_debug("stripped.so", NULL);
	cr_expect_geq(fd, 0);
	close(fd);
	cr_expect_gt(check_nm("stripped.so", "full.debug", "full.so"), 30);
}

Test(symtab, debug_file_of_another_build)
{
	struct symtab *t;
	int fd, debug;

	cr_assert(compile("g++", "-DOTHER -O1") &&
		  sh("objcopy --only-keep-debug full.so other.debug"));
	cr_assert(compile("g++", "") && sh("strip -o stripped.so full.so && mkdir root"));
	put_by_build_id("full.so", "other.debug");
	cr_expect_eq(find_debug("stripped.so", NULL), -ESTALE);
	fd = open_file("stripped.so");
	debug = open_file("other.debug");
	cr_expect_eq(symtab__open(fd, debug, &t), -ESTALE);
	cr_expect_null(t);
}

Test(symtab, debug_link)
{
	static const char *const at[] = { "root/usr/lib/full.debug",
					  "root/usr/lib/.debug/full.debug",
					  "root/usr/lib/debug/usr/lib/full.debug" };
	size_t i;
	int fd;

	/* No build-id, as the vendor's driver: the CRC decides. */
	cr_assert(compile("g++", "-Wl,--build-id=none") &&
		  sh("objcopy --only-keep-debug full.so full.debug && strip full.so -o stripped.so "
		     "&& "
		     "objcopy --add-gnu-debuglink=full.debug stripped.so"));
	for (i = 0; i < MT_ARRAY_SIZE(at); i++) {
		cr_assert(sh("rm -rf root; mkdir -p $(dirname %s) && cp full.debug %s", at[i],
			     at[i]));
		fd = find_debug("stripped.so", "/usr/lib/full.so");
		cr_expect_geq(fd, 0, "%s", at[i]);
		close(fd);
		cr_expect_eq(find_debug("stripped.so", "/opt/full.so"), -ENOENT);
		cr_assert(sh("printf x >>%s", at[i]));
		cr_expect_eq(find_debug("stripped.so", "/usr/lib/full.so"), -ESTALE, "%s", at[i]);
	}
	cr_expect_gt(check_nm("stripped.so", "full.debug", "full.so"), 30);
}

/* What a hostile root holds is not opened: a FIFO would block, a link leads out of it. */
Test(symtab, debug_file_that_is_a_fifo)
{
	cr_assert(compile("g++", "") && sh("strip -o stripped.so full.so && mkdir root"));
	put_by_build_id("full.so", "full.so");
	cr_assert(sh("f=$(find root -name '*.debug') && rm $f && mkfifo $f"));
	cr_expect_eq(find_debug("stripped.so", NULL), -ENOENT);
	cr_assert(sh("f=$(find root -name '*.debug') && rm $f && ln -s $PWD/full.so $f"));
	cr_expect_eq(find_debug("stripped.so", NULL), -ENOENT);
}

/* ---- debuginfod ---- */

static void serve(const char *program)
{
	cr_assert(
		sh("cat >server.py <<'END'\n%s\nEND\npython3 server.py >/dev/null & echo $! >pid; "
		   "for i in $(seq 100); do [ -s port ] && exit 0; sleep 0.1; done; exit 1",
		   program));
}

static void set_server(void)
{
	char *port = NULL, url[64];

	cr_assert_gt(file__read(in_dir("port"), 16, &port), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", atoi(port));
	free(port);
	setenv("DEBUGINFOD_URLS", url, 1);
	setenv("DEBUGINFOD_CACHE_PATH", in_dir("cache"), 1);
	setenv("no_proxy", "127.0.0.1", 1);
}

Test(symtab, debuginfod)
{
	struct symtab *t;
	struct file_id id;
	int fd, got;

	cr_assert(compile("g++", "") && sh("strip -o stripped.so full.so"));
	fd = open_file("stripped.so");
	cr_assert_eq(file_id__of_fd(fd, &id), 0);
	unsetenv("DEBUGINFOD_URLS");
	cr_expect_eq(debuginfod__fetch(&id, 1000, NULL, NULL), -ENOENT);
	serve("import http.server, socketserver\n"
	      "class H(http.server.BaseHTTPRequestHandler):\n"
	      "  def do_GET(self):\n"
	      "    b = open('full.so', 'rb').read()\n"
	      "    self.send_response(200 if self.path.endswith('/debuginfo') else 404)\n"
	      "    self.send_header('Content-Length', str(len(b))); self.end_headers()\n"
	      "    self.wfile.write(b)\n"
	      "s = socketserver.TCPServer(('127.0.0.1', 0), H)\n"
	      "open('port', 'w').write(str(s.server_address[1]))\n"
	      "s.serve_forever()");
	set_server();
	got = debuginfod__fetch(&id, 20000, NULL, NULL);
	sh("kill $(cat pid)");
	if (got == -EOPNOTSUPP)
		cr_skip_test("libdebuginfod.so.1 is not installed");
	cr_assert_geq(got, 0, "%s", strerror(-got));
	cr_assert_eq(symtab__open(fd, got, &t), 0);
	cr_expect_str_eq(name_at(t, address_of("full.so", "_ZL13hidden_helperi"), NULL),
			 "_ZL13hidden_helperi");
	symtab__close(t);
	id.kind = FILE_ID_HASH;
	cr_expect_eq(debuginfod__fetch(&id, 1000, NULL, NULL), -EINVAL);
}

Test(symtab, debuginfod_that_never_answers)
{
	struct file_id id;
	uint64_t start;
	int fd, got;

	cr_assert(compile("g++", ""));
	fd = open_file("full.so");
	cr_assert_eq(file_id__of_fd(fd, &id), 0);
	serve("import socket, time\n"
	      "s = socket.create_server(('127.0.0.1', 0))\n"
	      "open('port', 'w').write(str(s.getsockname()[1]))\n"
	      "c = s.accept()\n"
	      "time.sleep(60)");
	set_server();
	start = clock__boot();
	got = debuginfod__fetch(&id, 1500, NULL, NULL);
	sh("kill $(cat pid)");
	if (got == -EOPNOTSUPP)
		cr_skip_test("libdebuginfod.so.1 is not installed");
	cr_expect_eq(got, -ETIME, "%d", got);
	cr_expect_lt(clock__boot() - start, 10 * 1000000000ULL);
}

/* ---- hostile files ---- */

/* Whatever is cut off or changed: an error or a table, never a crash. */
Test(symtab, broken_files)
{
	uint32_t seed = 1;
	struct symtab *t;
	struct stat st;
	char *bytes;
	int in, fd, i;
	off_t k;

	cr_assert(compile("g++", "-s"));
	in = open_file("full.so");
	fstat(in, &st);
	bytes = malloc((size_t)st.st_size);
	cr_assert_eq(pread(in, bytes, (size_t)st.st_size, 0), st.st_size);
	fd = open(in_dir("broken.so"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (k = 0; k < st.st_size; k += 97) {
		cr_assert_eq(ftruncate(fd, 0), 0);
		cr_assert_eq(pwrite(fd, bytes, (size_t)k, 0), k);
		if (!symtab__open(fd, -1, &t))
			name_at(t, 0x1000 + (uint64_t)k, NULL);
		symtab__close(t);
	}
	for (i = 0; i < 1000; i++) {
		char b[4];
		off_t at;

		seed = seed * 1664525 + 1013904223;
		/* Headers, tables, section headers: mostly at both ends. */
		at = (off_t)(seed >> 8) % 4096;
		if (i & 1)
			at = st.st_size - 4 - at;
		memcpy(b, bytes + at, 4);
		memset(bytes + at, i & 2 ? 0xff : (int)(seed >> 24), 4);
		cr_assert_eq(pwrite(fd, bytes, (size_t)st.st_size, 0), st.st_size);
		memcpy(bytes + at, b, 4);
		if (!symtab__open(fd, -1, &t))
			for (k = 0; k < 0x5000; k += 16)
				name_at(t, (uint64_t)k, NULL);
		symtab__close(t);
	}
	free(bytes);
}

/* 2000 functions within each other: a look-up stays short, and the innermost is found. */
Test(symtab, deep_nesting)
{
	struct symtab *t;
	uint64_t a;

	cr_assert(sh("awk 'BEGIN { print \".text\"; for (i = 0; i < 2000; i++) printf \".type "
		     "f%%d, @function\\nf%%d: nop\\n\", i, i; "
		     "for (i = 1999; i >= 0; i--) printf \"nop\\n.size f%%d, . - f%%d\\n\", i, i "
		     "}' >deep.s && "
		     "cc -shared -nostdlib deep.s -o deep.so"));
	t = open_table("deep.so", NULL);
	a = address_of("deep.so", "f0");
	cr_expect_str_eq(name_at(t, a + 1999, NULL), "f1999");
	cr_expect_str_eq(name_at(t, a + 10, NULL), "f10");
	cr_expect_str_eq(name_at(t, a + 3999, NULL), "f0");
	symtab__close(t);
}
