// SPDX-License-Identifier: Apache-2.0
/* Buffers, numbers, the hash table, and files that are created or read with care. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

/* ---- strbuf ---- */

Test(strbuf, grows_and_ends_in_nul)
{
	struct strbuf sb = { 0 };
	size_t i;

	for (i = 0; i < 10000; i++) {
		strbuf__puts(&sb, "ab");
		strbuf__printf(&sb, "%zu,", i % 10);
		cr_assert_eq(sb.len, (i + 1) * 4);
		cr_assert_eq(sb.data[sb.len], '\0');
	}
	for (i = 0; i < 10000; i++)
		cr_assert(!memcmp(sb.data + 4 * i, "ab", 2) &&
			  sb.data[4 * i + 2] == '0' + (int)(i % 10));
	strbuf__reset(&sb);
	cr_expect_eq(sb.len, 0);
	cr_expect_str_eq(sb.data, "");
	strbuf__free(&sb);
	cr_expect_null(sb.data);
	cr_expect_eq(sb.cap, 0);
}

Test(strbuf, adds_bytes_as_they_are)
{
	struct strbuf sb = { 0 };
	char *p;

	strbuf__add(&sb, "a\0b", 3);
	cr_expect_eq(sb.len, 3);
	cr_expect(!memcmp(sb.data, "a\0b", 4));
	strbuf__add(&sb, "", 0);
	cr_expect_eq(sb.len, 3);
	strbuf__printf(&sb, "%s", "");
	cr_expect_eq(sb.len, 3);
	/* room of its own size is enough, also when it is exactly what was left */
	p = strbuf__reserve(&sb, sb.cap - sb.len);
	cr_assert(p);
	cr_expect_gt(sb.cap, 256);
	cr_expect_eq(p, sb.data + 3);
	strbuf__free(&sb);
}

Test(strbuf, long_printf)
{
	struct strbuf sb = { 0 };

	strbuf__printf(&sb, "%0*d", 70000, 7);
	cr_assert_eq(sb.len, 70000);
	cr_expect_eq(sb.data[0], '0');
	cr_expect_eq(sb.data[69999], '7');
	cr_expect_eq(sb.data[70000], '\0');
	strbuf__free(&sb);
}

Test(strbuf, no_memory_is_told)
{
	struct strbuf sb = { 0 };

	strbuf__puts(&sb, "kept");
	cr_expect_null(strbuf__reserve(&sb, SIZE_MAX / 4));
	cr_expect(sb.failed);
	cr_expect_str_eq(sb.data, "kept");
	strbuf__reset(&sb);
	cr_expect(!sb.failed);
	strbuf__free(&sb);
}

/* ---- numbers ---- */

static void same_u64(uint64_t v)
{
	char got[32], want[32];
	int n = snprintf(want, sizeof(want), "%" PRIu64, v);

	memset(got, '#', sizeof(got));
	cr_assert_eq(fmt__u64(got, v), n);
	cr_assert(!memcmp(got, want, (size_t)n), "%.20s for %s", got, want);
	cr_assert_eq(got[n], '#', "a byte behind %s", want);
}

static void same_s64(int64_t v)
{
	char got[32], want[32];
	int n = snprintf(want, sizeof(want), "%" PRId64, v);

	memset(got, '#', sizeof(got));
	cr_assert_eq(fmt__s64(got, v), n);
	cr_assert(!memcmp(got, want, (size_t)n), "%.20s for %s", got, want);
	cr_assert_eq(got[n], '#', "a byte behind %s", want);
}

Test(fmt, edges)
{
	uint64_t p, v;

	for (p = 1; p <= 10000000000000000000ULL; p *= 10) {
		for (v = p - 1; v <= p + 1; v++) {
			same_u64(v);
			same_s64((int64_t)v);
			same_s64(-(int64_t)(v & INT64_MAX));
		}
		if (p == 10000000000000000000ULL)
			break;
	}
	for (v = 0; v < 1100; v++)
		same_u64(v);
	same_u64(UINT64_MAX);
	same_s64(INT64_MAX);
	same_s64(INT64_MIN);
	same_s64(INT64_MIN + 1);
}

/* ---- hash table, against a plain array ---- */

#define N_KEYS 3000

struct reference {
	bool there[N_KEYS];
	uint64_t value[N_KEYS];
	size_t n;
};

/* Clustered as addresses are, both words in use. */
static struct hkey key_no(unsigned int i)
{
	return (struct hkey){ 0x7f0000000000ULL + (i / 3) * 512ULL, i % 3 };
}

static void compare(const struct hmap *m, const struct reference *r)
{
	static bool met[N_KEYS];
	size_t pos = 0, n = 0;
	struct hkey k;
	uint64_t v;

	memset(met, 0, sizeof(met));
	cr_assert_eq(m->n, r->n);
	while (hmap__next(m, &pos, &k, &v)) {
		unsigned int i = (unsigned int)((k.a - 0x7f0000000000ULL) / 512 * 3 + k.b);

		cr_assert_lt(i, N_KEYS);
		cr_assert(r->there[i] && !met[i], "key %u", i);
		cr_assert_eq(v, r->value[i]);
		met[i] = true;
		n++;
	}
	cr_assert_eq(n, r->n);
	cr_assert(!hmap__next(m, &pos, &k, &v));
}

Test(hmap, random_operations)
{
	static struct reference r;
	struct hmap m = { 0 };
	unsigned int seed = 12345, step, i;
	uint64_t *v, old;
	bool fresh;

	for (step = 0; step < 400000; step++) {
		/* By turns it mostly grows and mostly shrinks, down to nothing. */
		bool grow = (unsigned int)rand_r(&seed) % 8 < (step / 40000 % 2 ? 2 : 6);

		i = (unsigned int)rand_r(&seed) % N_KEYS;
		v = hmap__get(&m, key_no(i));
		cr_assert_eq(v != NULL, r.there[i]);
		if (v)
			cr_assert_eq(*v, r.value[i]);
		if (grow) {
			v = hmap__put(&m, key_no(i), &fresh);
			cr_assert(v);
			cr_assert_eq(fresh, !r.there[i]);
			cr_assert_eq(*v, r.there[i] ? r.value[i] : 0);
			*v = r.value[i] = step + 1;
			r.n += !r.there[i];
			r.there[i] = true;
		} else {
			cr_assert_eq(hmap__del(&m, key_no(i), &old), r.there[i]);
			if (r.there[i])
				cr_assert_eq(old, r.value[i]);
			r.n -= r.there[i];
			r.there[i] = false;
		}
		cr_assert_leq(m.n, m.used);
		cr_assert_lt(m.used, m.cap);
		if (step % 5000 == 0)
			compare(&m, &r);
	}
	compare(&m, &r);
	for (i = 0; i < N_KEYS; i++)
		hmap__del(&m, key_no(i), NULL);
	memset(&r, 0, sizeof(r));
	compare(&m, &r);
	hmap__free(&m);
	cr_expect_eq(m.cap, 0);
}

/* One address after the other, allocated and freed: the table must stay small. */
Test(hmap, deleted_slots_are_used_again)
{
	struct hmap m = { 0 };
	uint64_t i;

	for (i = 0; i < 300000; i++) {
		struct hkey k = { i * 4096, 7 }, last = { (i - 20) * 4096, 7 };

		cr_assert(hmap__put(&m, k, NULL));
		if (i >= 20)
			cr_assert(hmap__del(&m, last, NULL));
	}
	cr_expect_eq(m.n, 20);
	cr_expect_leq(m.cap, 128, "%zu slots for 20 keys", m.cap);
	hmap__free(&m);
}

Test(hmap, empty)
{
	struct hmap m = { 0 };
	size_t pos = 0;

	cr_expect_null(hmap__get(&m, (struct hkey){ 0, 0 }));
	cr_expect(!hmap__del(&m, (struct hkey){ 0, 0 }, NULL));
	cr_expect(!hmap__next(&m, &pos, NULL, NULL));
	hmap__free(&m);
	/* the key of zeroes is one as any other */
	cr_assert(hmap__put(&m, (struct hkey){ 0, 0 }, NULL));
	cr_expect(hmap__get(&m, (struct hkey){ 0, 0 }));
	cr_expect_null(hmap__get(&m, (struct hkey){ 0, 1 }));
	hmap__free(&m);
}

Test(hash, every_byte_counts)
{
	char a[40], b[40];
	size_t i, n;

	memset(a, 'x', sizeof(a));
	for (n = 0; n <= sizeof(a); n++) {
		for (i = 0; i < n; i++) {
			memcpy(b, a, sizeof(a));
			b[i] ^= 1;
			cr_expect_neq(hash__bytes(a, n, 1), hash__bytes(b, n, 1));
		}
		memcpy(b, a, sizeof(a));
		cr_expect_eq(hash__bytes(a, n, 1), hash__bytes(b, n, 1));
		cr_expect_neq(hash__bytes(a, n, 1), hash__bytes(a, n, 2));
	}
	cr_expect_neq(hash__bytes("\0", 1, 0), hash__bytes("\0\0", 2, 0));
}

/* ---- files ---- */

static char dir[] = "/tmp/memtap-base-XXXXXX";
static char path[256];

static const char *in_dir(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void make_dir(void)
{
	cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
	static const char *const made[] = { "new", "there", "link", "dangling", "a/b/c",
					    "a/b", "a",	    "file", "aim",	"x" };
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(made); i++)
		remove(in_dir(made[i]));
	rmdir(dir);
}

TestSuite(files, .init = make_dir, .fini = remove_dir);

static void put_file(const char *name, const char *text)
{
	int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_EXCL, 0644);

	cr_assert_geq(fd, 0);
	cr_assert_eq(fd__write_all(fd, text, strlen(text)), 0);
	close(fd);
}

Test(files, create_is_private)
{
	mode_t old = umask(0);
	struct stat st;
	int fd = path__create(in_dir("new"));

	umask(old);
	cr_assert_geq(fd, 0);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0600, "%o", st.st_mode);
	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_expect_eq(fd__write_all(fd, "x", 1), 0);
	close(fd);
	cr_expect_eq(path__create(path), -EEXIST);
}

Test(files, create_refuses_what_is_there)
{
	char aim[256], *text;

	put_file("there", "precious");
	cr_expect_eq(path__create(in_dir("there")), -EEXIST);
	snprintf(aim, sizeof(aim), "%s/there", dir);
	cr_assert_eq(symlink(aim, in_dir("link")), 0);
	cr_expect_eq(path__create(in_dir("link")), -EEXIST);
	cr_assert_eq(file__read(aim, 100, &text), 8);
	cr_expect_str_eq(text, "precious");
	free(text);
	/* a link to nothing must not make its target */
	snprintf(aim, sizeof(aim), "%s/aim", dir);
	cr_assert_eq(symlink(aim, in_dir("dangling")), 0);
	cr_expect_lt(path__create(in_dir("dangling")), 0);
	cr_expect_neq(access(aim, F_OK), 0);
	cr_expect_eq(path__create(in_dir("no/such")), -ENOENT);
}

Test(files, mkdirs)
{
	mode_t old = umask(0);
	char longer[5000];
	struct stat st;

	cr_expect_eq(path__mkdirs(in_dir("a//b/c/")), 0);
	umask(old);
	cr_assert_eq(stat(in_dir("a/b/c"), &st), 0);
	cr_expect(S_ISDIR(st.st_mode));
	cr_expect_eq(st.st_mode & 07777, 0750, "%o", st.st_mode);
	cr_expect_eq(path__mkdirs(in_dir("a/b/c")), 0);
	cr_expect_eq(path__mkdirs("/"), 0);
	cr_expect_eq(path__mkdirs(""), -EINVAL);
	put_file("file", "");
	cr_expect_eq(path__mkdirs(in_dir("file")), -ENOTDIR);
	cr_expect_eq(path__mkdirs(in_dir("file/below")), -ENOTDIR);
	memset(longer, 'a', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	cr_expect_eq(path__mkdirs(longer), -ENAMETOOLONG);
}

Test(files, read_within_limits)
{
	char text[9001], *got = (char *)1;

	memset(text, 'r', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	put_file("file", text);
	cr_assert_eq(file__read(in_dir("file"), 9000, &got), 9000);
	cr_expect_str_eq(got, text);
	free(got);
	cr_expect_eq(file__read(path, 8999, &got), -EFBIG);
	cr_expect_null(got);
	cr_expect_eq(file__read(path, 0, &got), -EFBIG);
	cr_expect_eq(file__read(in_dir("none"), 10, &got), -ENOENT);
	cr_expect_null(got);
	put_file("x", "");
	cr_assert_eq(file__read(in_dir("x"), 0, &got), 0);
	cr_expect_str_eq(got, "");
	free(got);
	/* a directory opens, but has no bytes; procfs tells no size */
	cr_expect_eq(file__read(dir, 10, &got), -EISDIR);
	cr_assert_gt(file__read("/proc/self/status", 65536, &got), 100);
	cr_expect(strstr(got, "\nPid:"));
	free(got);
	cr_expect_eq(file__read("/dev/zero", 100000, &got), -EFBIG);
}

Test(files, read_of_each_size_around_a_page)
{
	char text[4200], *got;
	size_t n;

	for (n = 4090; n < 4100; n++) {
		memset(text, 'p', n);
		text[n] = '\0';
		put_file("x", text);
		cr_assert_eq(file__read(in_dir("x"), n, &got), (ssize_t)n);
		cr_expect_str_eq(got, text);
		free(got);
		unlink(path);
	}
}

Test(files, write_all_to_a_full_disk)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_expect_eq(fd__write_all(fd, "x", 1), -ENOSPC);
	cr_expect_eq(fd__write_all(fd, "", 0), 0);
	close(fd);
	cr_expect_eq(fd__write_all(-1, "x", 1), -EBADF);
}

Test(clocks, differ_by_a_constant)
{
	int64_t d = clock__boot_to_real();
	int64_t off = (int64_t)(clock__real() - clock__boot()) - d;

	cr_expect(off > -50000000 && off < 50000000, "%" PRId64 " ns", off);
	cr_expect_gt(d, 0);
}
