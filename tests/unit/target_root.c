// SPDX-License-Identifier: Apache-2.0
/* Paths below the root of a process: links, what is no file, races; with and without openat2. */
#include "target_test.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "target/ldpath.h"
#include "target/root.h"

/* dir/in is the root, dir/out what must never be seen. */
static int top;

static void make_root(void)
{
	make_dir();
	cr_assert_eq(mkdir(in_dir("in"), 0755), 0);
	top = open(in_dir("in"), O_PATH | O_CLOEXEC);
	cr_assert_geq(top, 0);
}

static int refusal;

/* As a container manager's filter answers to a system call that it does not know. */
static void refuse_openat2(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)refusal),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = MT_ARRAY_SIZE(code), .filter = code };

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
	cr_assert_eq(syscall(SYS_openat2, -1, "", NULL, 0), -1);
	cr_assert_eq(errno, refusal);
}

static void by_walk(void)
{
	make_root();
	refusal = ENOSYS;
	refuse_openat2();
}

static void by_walk_eperm(void)
{
	make_root();
	refusal = EPERM;
	refuse_openat2();
}

TestSuite(root_openat2, .init = make_root, .fini = remove_dir, .timeout = 30);
TestSuite(root_walk, .init = by_walk, .fini = remove_dir, .timeout = 30);
TestSuite(root_walk_eperm, .init = by_walk_eperm, .fini = remove_dir, .timeout = 30);

/* Each test in all three ways. */
#define ROOT_TEST(name)             \
	static void name(void);     \
	Test(root_openat2, name)    \
	{                           \
		name();             \
	}                           \
	Test(root_walk, name)       \
	{                           \
		name();             \
	}                           \
	Test(root_walk_eperm, name) \
	{                           \
		name();             \
	}                           \
	static void name(void)

static void link_to(const char *text, const char *name)
{
	cr_assert_eq(symlink(text, in_dir(name)), 0, "%s", name);
}

/* What is read through a path below the root: its first bytes, or the error as text. */
static const char *got(const char *path)
{
	static char buf[32];
	int fd = root__open_file(top, path);
	ssize_t n;

	if (fd < 0)
		return strerrorname_np(-fd);
	n = read(fd, buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = '\0';
	close(fd);
	return buf;
}

#define expect_got(path, text) cr_expect_str_eq(got(path), text, "%s: %s", path, got(path))

ROOT_TEST(links_stay_inside)
{
	char outer[2 * PATH_MAX];

	write_file("secret", "outside");
	write_file("in/secret", "inside");
	write_file("in/a/b/lib.so", "lib");
	expect_got("/a/b/lib.so", "lib");
	expect_got("a//b/./lib.so", "lib");
	expect_got("/a/b/../../a/b/lib.so", "lib");
	expect_got("/../secret", "inside");
	expect_got("/a/../../../secret", "inside");
	link_to("/a/b", "in/abs-dir");
	link_to("/a/b/lib.so", "in/abs-file");
	link_to("a/b/lib.so", "in/rel-file");
	link_to("/", "in/a/to-root");
	link_to("../../../../..", "in/a/b/up");
	link_to("/abs-dir/", "in/a/slash");
	link_to("/abs-dir/../b/../to-root/abs-file", "in/a/b/winding");
	expect_got("/abs-dir/lib.so", "lib");
	expect_got("/abs-file", "lib");
	expect_got("/rel-file", "lib");
	expect_got("/a/to-root/secret", "inside");
	expect_got("/a/b/up/secret", "inside");
	expect_got("/a/slash/lib.so", "lib");
	expect_got("/a/slash/../../secret", "inside");
	expect_got("/a/b/winding", "lib");
	/* a path of this side, which also is one of that side */
	snprintf(outer, sizeof(outer), "%s/secret", dir);
	link_to(outer, "in/decoy");
	expect_got("/decoy", "ENOENT");
	snprintf(outer, sizeof(outer), "in%s/secret", dir);
	write_file(outer, "in too");
	expect_got("/decoy", "in too");
}

ROOT_TEST(what_is_not_there)
{
	char name[PATH_MAX + 600];

	write_file("in/file", "x");
	link_to("nothing", "in/dangling");
	link_to("/loop2", "in/loop1");
	link_to("loop1", "in/loop2");
	link_to("self/x", "in/self");
	expect_got("/nothing", "ENOENT");
	expect_got("/nothing/below", "ENOENT");
	expect_got("/dangling", "ENOENT");
	expect_got("/file/below", "ENOTDIR");
	expect_got("/file/../file", "ENOTDIR");
	expect_got("/loop1", "ELOOP");
	expect_got("/loop2/x", "ELOOP");
	expect_got("/self", "ELOOP");
	memset(name, 'a', 300);
	name[300] = '\0';
	expect_got(name, "ENAMETOOLONG");
	memset(name, '/', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	cr_expect_neq(got(name)[0], '\0');
}

/* As many links as the kernel follows, and one more. */
ROOT_TEST(chains_of_links)
{
	char name[32], to[32];
	int i;

	write_file("in/l0", "end");
	for (i = 1; i <= 41; i++) {
		snprintf(name, sizeof(name), "in/l%d", i);
		snprintf(to, sizeof(to), i % 2 ? "l%d" : "/l%d", i - 1);
		link_to(to, name);
	}
	expect_got("/l40", "end");
	expect_got("/l41", "ELOOP");
}

ROOT_TEST(texts_of_links_that_grow)
{
	char text[PATH_MAX];
	size_t n;

	/* each step doubles the rest: ends by the number of links or by its length */
	link_to("more/more/more", "in/more");
	cr_expect_neq(got("/more/more")[0], '\0');
	for (n = 0; n + 2 < sizeof(text); n += 2)
		memcpy(text + n, "m/", 2);
	text[n] = '\0';
	link_to(text, "in/m");
	cr_expect(strcmp(got("/m"), "ELOOP") == 0 || strcmp(got("/m"), "ENAMETOOLONG") == 0, "%s",
		  got("/m"));
}

ROOT_TEST(not_files)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), host;

	cr_assert_geq(s, 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", in_dir("in/socket"));
	cr_assert_eq(bind(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
	cr_assert_eq(mkfifo(in_dir("in/fifo"), 0600), 0);
	cr_assert_eq(mkdir(in_dir("in/folder"), 0700), 0);
	link_to("/fifo", "in/to-fifo");
	link_to("folder", "in/to-folder");
	expect_got("/fifo", "EINVAL");
	expect_got("/to-fifo", "EINVAL");
	expect_got("/socket", "EINVAL");
	expect_got("/folder", "EISDIR");
	expect_got("/to-folder/", "EISDIR");
	expect_got("/", "EISDIR");
	cr_expect_null(root__open_dir(top, "/fifo"));
	cr_expect_eq(errno, ENOTDIR);
	host = open("/", O_PATH | O_CLOEXEC);
	cr_expect_eq(root__open_file(host, "/dev/null"), -EINVAL);
	close(host);
	close(s);
}

static _Atomic int opened;

static void *write_to_fifo(void *arg)
{
	int fd = open(arg, O_WRONLY | O_CLOEXEC); /* until there is a reader */

	opened = 1;
	close(fd);
	return NULL;
}

/* Who waits for a reader of a FIFO must not meet us instead. */
ROOT_TEST(fifos_are_left_alone)
{
	static char path[PATH_MAX + 32];
	pthread_t t;
	int fd;

	snprintf(path, sizeof(path), "%s/in/fifo", dir);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_eq(pthread_create(&t, NULL, write_to_fifo, path), 0);
	usleep(50000);
	expect_got("/fifo", "EINVAL");
	usleep(50000);
	cr_expect_eq(opened, 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	pthread_join(t, NULL);
	cr_expect_eq(opened, 1);
	close(fd);
}

/* The links of /proc/PID lead anywhere: never out. */
ROOT_TEST(links_of_proc)
{
	int proc = open("/proc", O_PATH | O_CLOEXEC), fd;

	cr_assert_geq(proc, 0);
	fd = root__open_file(proc, "/self/root/etc/passwd");
	cr_expect_lt(fd, 0);
	fd = root__open_file(proc, "/self/exe");
	cr_expect_lt(fd, 0);
	fd = root__open_file(proc, "/self/root/self/stat");
	if (fd >= 0)
		close(fd); /* by its text: that file below /proc itself */
	close(proc);
}

ROOT_TEST(no_permission)
{
	write_file("in/a/file", "x");
	write_file("in/file", "x");
	if (!geteuid()) {
		cr_assert_eq(chmod(in_dir("in"), 0755), 0);
		cr_assert_eq(chmod(dir, 0755), 0);
		cr_assert_eq(chmod(in_dir("in/a"), 0700), 0);
		cr_assert_eq(chmod(in_dir("in/file"), 0600), 0);
		cr_assert_eq(setresuid(65534, 65534, 0), 0);
	} else {
		cr_assert_eq(chmod(in_dir("in/a"), 0), 0);
		cr_assert_eq(chmod(in_dir("in/file"), 0), 0);
	}
	expect_got("/a/file", "EACCES");
	expect_got("/file", "EACCES");
	cr_expect_null(root__open_dir(top, "/a"));
	cr_expect_eq(errno, EACCES);
	if (!getegid())
		cr_assert_eq(setresuid(0, 0, 0), 0);
	else
		chmod(in_dir("in/a"), 0700);
}

static _Atomic int stop;

static void *move_about(void *arg)
{
	char here[PATH_MAX + 32], there[PATH_MAX + 32];

	snprintf(here, sizeof(here), "%s/in/a/b/c", dir);
	snprintf(there, sizeof(there), "%s/in/c", dir);
	while (!stop) {
		rename(here, there);
		rename(there, here);
	}
	return NULL;
}

/* While directories are moved towards the root, ".." must not step over it. */
ROOT_TEST(never_outside_while_things_move)
{
	unsigned int outside = 0, inside = 0, tries;
	pthread_t t;

	write_file("secret", "outside");
	write_file("in/a/secret", "inside");
	write_file("in/a/b/c/d/file", "x");
	cr_assert_eq(pthread_create(&t, NULL, move_about, NULL), 0);
	for (tries = 0; tries < 20000; tries++) {
		const char *text = got("/a/b/c/d/../../../secret");

		outside += strcmp(text, "outside") == 0;
		inside += strcmp(text, "inside") == 0;
	}
	stop = 1;
	pthread_join(t, NULL);
	cr_expect_eq(outside, 0, "%u times outside", outside);
	cr_expect_gt(inside, 0, "the test never got through");
}

ROOT_TEST(directories)
{
	unsigned int n = 0;
	DIR *d;

	write_file("in/real/one", "1");
	link_to("/real", "in/link");
	d = root__open_dir(top, "/link/");
	cr_assert_not_null(d);
	for (struct dirent *e; (e = readdir(d));)
		n += strcmp(e->d_name, "one") == 0;
	closedir(d);
	cr_expect_eq(n, 1);
	cr_expect_null(root__open_dir(top, "/real/one"));
	cr_expect_eq(errno, ENOTDIR);
}

/* ---- texts of the kernel ---- */

static const char *inside(const char *root, const char *path)
{
	static char buf[64];

	snprintf(buf, sizeof(buf), "%s", path);
	return root__inside(root, buf) == -EXDEV ? "outside" : buf;
}

Test(root, inside)
{
	cr_expect_str_eq(inside("/", "/usr/lib"), "/usr/lib");
	cr_expect_str_eq(inside("", "/usr/lib"), "/usr/lib");
	cr_expect_str_eq(inside("/srv/jail", "/srv/jail/usr/lib"), "/usr/lib");
	cr_expect_str_eq(inside("/srv/jail", "/srv/jail"), "/");
	cr_expect_str_eq(inside("/srv/jail", "/srv/jail2/lib"), "outside");
	cr_expect_str_eq(inside("/srv/jail", "/usr/lib"), "outside");
	cr_expect_str_eq(inside("/", "(unreachable)/usr/lib"), "outside");
}

Test(root, of_a_process)
{
	char cwd[PATH_MAX], link[PATH_MAX];
	pid_t pid = child_of(NULL);
	int root = root__of(pid);

	cr_assert_geq(root, 0);
	close(root);
	cr_assert_not_null(getcwd(cwd, sizeof(cwd)));
	cr_expect_eq(root__link(pid, "cwd", link), 0);
	cr_expect_str_eq(link, cwd);
	end_child(pid);
	cr_expect_eq(root__of(pid), -ESRCH);
	cr_expect_eq(root__link(pid, "cwd", link), -ESRCH);
	cr_expect_eq(proc__open(pid, "/etc/passwd"), -ESRCH);
}

/* ---- lists ---- */

static char said[1024];

static int say(void *ctx, const char *path)
{
	size_t n = strlen(said);

	snprintf(said + n, sizeof(said) - n, "%s%s", n ? " " : "", path);
	return ctx && !--*(int *)ctx ? 5 : 0;
}

static const char *dirs_of(const char *list, const char *cwd, const char *origin)
{
	struct ldpath how = { ":;", cwd, origin, true };

	said[0] = '\0';
	cr_expect_eq(ldpath__each(list, &how, say, NULL), 0);
	return said;
}

#define expect_dirs(list, cwd, origin, text) cr_expect_str_eq(dirs_of(list, cwd, origin), text)

Test(ldpath, entries)
{
	expect_dirs("", "/w", "/o", "");
	expect_dirs("/a:/b;/c", "/w", "/o", "/a /b /c");
	expect_dirs(":", "/w", "/o", "/w /w");
	expect_dirs("/a:", "/w", "/o", "/a /w");
	expect_dirs(";/a::/b", "/w", "/o", "/w /a /w /b");
	expect_dirs("a:./b:../c", "/w", "/o", "/w/a /w/./b /w/../c");
	expect_dirs("a", "/", "/o", "/a");
	expect_dirs("a::/b", NULL, "/o", "/b");
	expect_dirs("a::/b", "", "/o", "/b");
}

#ifdef __aarch64__
#define LIBS(a, b) a "lib64" b " " a "lib" b " " a "lib/aarch64-linux-gnu" b
#define PLATFORMS(a, b) a "aarch64" b
#else
#define LIBS(a, b) a "lib64" b " " a "lib" b " " a "lib/x86_64-linux-gnu" b
#define PLATFORMS(a, b) a "x86_64" b " " a "haswell" b " " a "xeon_phi" b
#endif

Test(ldpath, tokens)
{
	struct ldpath plain = { ":", "/w", "/o", false };

	expect_dirs("$ORIGIN:${ORIGIN}/x:/a$ORIGIN", "/w", "/o", "/o /o/x /a/o");
	expect_dirs("$ORIGINS:$ORIGIN_:$ORIGIN1:${ORIGIN:${ORIGINS}", "/w", "/o",
		    "/w/$ORIGINS /w/$ORIGIN_ /w/$ORIGIN1 /w/${ORIGIN /w/${ORIGINS}");
	expect_dirs("$:$/:${}:$X:$$ORIGIN", "/w", "/o", "/w/$ /w/$/ /w/${} /w/$X /w/$/o");
	expect_dirs("$ORIGIN/a:/b", "/w", NULL, "/b");
	expect_dirs("/a/$LIB/x:/b", "/w", "/o", LIBS("/a/", "/x") " /b");
	expect_dirs("/${LIB}", "/w", "/o", LIBS("/", ""));
	expect_dirs("/a/$PLATFORM:/b", "/w", "/o", PLATFORMS("/a/", "") " /b");
	expect_dirs("$LIB", "/w", "/o", LIBS("/w/", ""));
	said[0] = '\0';
	ldpath__each("$ORIGIN:/$LIB", &plain, say, NULL);
	cr_expect_str_eq(said, "/w/$ORIGIN /$LIB");
}

Test(ldpath, stops_when_told)
{
	struct ldpath how = { ":", "/w", "/o", true };
	int left = 2;

	said[0] = '\0';
	cr_expect_eq(ldpath__each("/a:/$LIB:/c", &how, say, &left), 5);
	cr_expect_str_eq(said, "/a /lib64");
	left = 1;
	cr_expect_eq(ldpath__each(":/c", &how, say, &left), 5);
	left = 2;
	cr_expect_eq(ldpath__each("/c:", &how, say, &left), 5);
}
