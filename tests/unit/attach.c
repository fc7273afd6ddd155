// SPDX-License-Identifier: Apache-2.0
/* Attaching with a kernel that refuses some offsets: no function is probed by halves. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define kernel__perf_uprobe fake_perf_uprobe
#define kernel__perf_link fake_perf_link
#define kernel__perf_set_bpf fake_perf_set_bpf
#define kernel__multi_link fake_multi_link
#define progs__clone fake_clone
#define features__has fake_has
#include "../../user/probe/attach.c" // NOLINT(bugprone-suspicious-include)

static bool multi;
static uint64_t bad; /* this offset is refused */
static int pids; /* that were asked for */
static bool threads; /* a link of one process is one of a thread */
static uint64_t cookies; /* of multi links, added up */

static int some_fd(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool features__has(const struct features *f, enum feature what)
{
	(void)f;
	return what == FEAT_COOKIE || ((what == FEAT_MULTI || what == FEAT_SESSION) && multi);
}

int progs__clone(struct progs *p, const char *prog, uint32_t attach_type, uint32_t site)
{
	(void)p;
	(void)prog;
	(void)attach_type;
	(void)site;
	return 0;
}

int kernel__perf_uprobe(const char *path, uint64_t off, bool ret, int pid)
{
	(void)path;
	(void)ret;
	pids |= pid;
	return off == bad ? -EINVAL : some_fd();
}

int kernel__perf_link(int prog, int perf, uint64_t cookie)
{
	(void)prog;
	(void)perf;
	return some_fd();
}

int kernel__perf_set_bpf(int prog, int perf)
{
	(void)prog;
	(void)perf;
	return 0;
}

int kernel__multi_link(int prog, uint32_t type, const char *path, const __u64 *off,
		       const __u64 *cookie, uint32_t n, uint32_t flags, int pid)
{
	uint32_t i;

	(void)prog;
	(void)type;
	(void)path;
	(void)flags;
	pids |= pid;
	/* As a kernel that knows threads for processes, or one that does not. */
	if (pid < 0)
		return threads ? -EBADF : -EINVAL;
	for (i = 0; i < n; i++)
		if (off[i] == bad)
			return -EINVAL;
	for (i = 0; i < n; i++)
		cookies += cookie[i];
	return some_fd();
}

/* Two functions: an entry and two `ret` sites each. */
static const struct attach_req plan[] = {
	{ .prog = "x_r", .off = 1, .pair = 1, .is_return = true },
	{ .prog = "x_r", .off = 2, .pair = 1, .is_return = true },
	{ .prog = "x_e", .off = 3, .pair = 1 },
	{ .prog = "x_r", .off = 4, .pair = 2, .is_return = true },
	{ .prog = "x_r", .off = 5, .pair = 2, .is_return = true },
	{ .prog = "x_e", .off = 6, .pair = 2 },
};

static void check(uint64_t refused, size_t links, size_t failed, const int errs[6])
{
	struct attach *a = attach__new(NULL, NULL);
	struct attach_req reqs[6];
	size_t i;

	memcpy(reqs, plan, sizeof(reqs));
	bad = refused;
	cr_expect_eq(attach__file(a, 0, reqs, 6), failed, "refused %d", (int)refused);
	for (i = 0; i < 6; i++)
		cr_expect_eq(reqs[i].err, errs[i] ? -EINVAL : 0, "refused %d, request %zu: %d",
			     (int)refused, i, reqs[i].err);
	cr_expect_eq(attach__links(a), links, "refused %d: %zu links", (int)refused,
		     attach__links(a));
	attach__free(a);
}

Test(attach, by_perf)
{
	check(0, 6, 0, (const int[6]){ 0 });
	check(1, 3, 3, (const int[6]){ 1, 1, 1, 0, 0, 0 });
	check(5, 3, 2, (const int[6]){ 0, 0, 0, 0, 1, 1 });
	check(6, 3, 1, (const int[6]){ 0, 0, 0, 0, 0, 1 });
}

Test(attach, by_multi)
{
	multi = true;
	check(0, 2, 0, (const int[6]){ 0 });
	/* The returns one by one, the entry that is left in a link. */
	check(1, 3, 2, (const int[6]){ 1, 0, 1, 0, 0, 0 });
	check(5, 3, 2, (const int[6]){ 0, 0, 0, 0, 1, 1 });
	/* The returns share a link: they stay, and find no open call. */
	check(6, 2, 1, (const int[6]){ 0, 0, 0, 0, 0, 1 });
}

/* Three functions of one session program: the one that is refused is not the others' end. */
Test(attach, by_session)
{
	static const struct attach_req sessions[] = {
		{ .prog = "x_s", .kind = ATTACH_SESSION, .off = 1, .site = 10, .pair = 1 },
		{ .prog = "x_s", .kind = ATTACH_SESSION, .off = 2, .site = 20, .pair = 2 },
		{ .prog = "x_s", .kind = ATTACH_SESSION, .off = 3, .site = 30, .pair = 3 },
	};
	struct attach *a = attach__new(NULL, NULL);
	struct attach_req reqs[3];

	multi = true;
	memcpy(reqs, sessions, sizeof(reqs));
	bad = 2;
	cookies = 0;
	cr_expect_eq(attach__file(a, 0, reqs, 3), 1);
	cr_expect_eq(reqs[0].err, 0);
	cr_expect_eq(reqs[1].err, -EINVAL);
	cr_expect_eq(reqs[2].err, 0);
	cr_expect_eq(attach__links(a), 2);
	cr_expect_eq(cookies, 10 + 30, "each with its own site");
	memcpy(reqs, sessions, sizeof(reqs));
	bad = 0;
	cr_expect_eq(attach__file(a, 0, reqs, 3), 0);
	cr_expect_eq(attach__links(a), 3, "all in one link");
	attach__free(a);
}

/* One process only: by a link where that means all of its threads, else by perf events. */
Test(attach, in_a_process)
{
	struct attach *a = attach__new(NULL, NULL);
	struct attach_req reqs[6];

	multi = true;
	memcpy(reqs, plan, sizeof(reqs));
	attach__in(a, 1234, "x_e");
	pids = 0;
	cr_expect_eq(attach__file(a, 0, reqs, 6), 0);
	cr_expect_eq(pids, 1234);
	cr_expect_eq(attach__links(a), 2);
	attach__free(a);
}

Test(attach, in_a_process_of_threads)
{
	struct attach *a = attach__new(NULL, NULL);
	struct attach_req reqs[6];

	multi = threads = true;
	memcpy(reqs, plan, sizeof(reqs));
	attach__in(a, 1234, "x_e");
	pids = 0;
	cr_expect_eq(attach__file(a, 0, reqs, 6), 0);
	cr_expect_eq(pids, 1234);
	cr_expect_eq(attach__links(a), 6);
	attach__free(a);
}

Test(attach, errors_have_a_text)
{
	cr_expect_null(strstr(attach__why(-524), "524"));
	cr_expect(strstr(attach__why(-524), "instruction"));
	cr_expect_str_eq(attach__why(-EINVAL), strerror(EINVAL));
}
