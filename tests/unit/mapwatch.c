// SPDX-License-Identifier: Apache-2.0
/* Processors that come and go, of which a kernel in our hands would be needed: it is played. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "target/target.h"

#define CPUS 8192

static bool online[CPUS];
static int refuse; /* the error for all of them, 0 = none */
static char *rings[CPUS];
static int opened; /* the last one: its mmap comes next */
static size_t n_open;
static uint64_t now;
static char possible[64], list[64];

static long fake_syscall(long no, ...)
{
	va_list ap;

	cr_assert_eq(no, SYS_perf_event_open);
	va_start(ap, no);
	(void)va_arg(ap, void *);
	(void)va_arg(ap, int);
	opened = va_arg(ap, int);
	va_end(ap);
	cr_assert(opened >= 0 && opened < CPUS);
	errno = refuse ? refuse : ENODEV;
	return refuse || !online[opened] ? -1 : eventfd(0, EFD_CLOEXEC);
}

static void *fake_mmap(void *at, size_t size, int prot, int flags, int fd, off_t off)
{
	(void)at, (void)prot, (void)flags, (void)fd, (void)off;
	n_open++;
	return rings[opened] = calloc(1, size);
}

static int fake_munmap(void *p, size_t size)
{
	(void)size;
	n_open--;
	free(p);
	return 0;
}

static uint64_t fake_boot(void)
{
	return now;
}

#define syscall(...) fake_syscall(__VA_ARGS__)
#define mmap(...) fake_mmap(__VA_ARGS__)
#define munmap(...) fake_munmap(__VA_ARGS__)
#define clock__boot() fake_boot()
#define MAPWATCH_POSSIBLE possible
#define MAPWATCH_ONLINE list
#include "../../user/target/mapwatch.c" /* NOLINT(bugprone-suspicious-include) */

static void write_list(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	cr_assert(f);
	fputs(text, f);
	cr_assert_eq(fclose(f), 0);
}

static void begin(void)
{
	strcpy(possible, "/tmp/memtap-possible-XXXXXX");
	strcpy(list, "/tmp/memtap-online-XXXXXX");
	close(mkstemp(possible));
	close(mkstemp(list));
	now = 5000000000ULL;
}

static void end(void)
{
	unlink(possible);
	unlink(list);
	cr_expect_eq(n_open, 0);
}

static void no_notice(void *ctx, const struct map_event *e)
{
	(void)ctx;
	(void)e;
	cr_assert_fail("a notice");
}

static struct map_gap later(struct mapwatch *w, uint64_t ms)
{
	struct map_gap gap;

	now += ms * 1000000;
	mapwatch__read(w, no_notice, NULL, &gap);
	return gap;
}

TestSuite(mapwatch_cpus, .init = begin, .fini = end);

Test(mapwatch_cpus, come_and_go)
{
	struct mapwatch *w;
	struct map_gap gap;
	uint64_t off;

	/* numbers with holes */
	write_list(possible, "0-1,8,10-11\n");
	write_list(list, "0,8\n");
	online[0] = online[8] = true;
	cr_assert_eq(mapwatch__open(&w, 4), 0);
	cr_expect_eq(n_open, 2);
	cr_expect(rings[0] && rings[8] && !rings[1]);
	cr_expect(!later(w, 1500).missing);
	off = now; /* last seen to be off */
	/* not looked for at each read */
	online[10] = true;
	write_list(list, "0,8,10\n");
	cr_expect(!later(w, 500).missing);
	cr_expect_eq(n_open, 2);
	gap = later(w, 600);
	cr_expect(gap.missing);
	cr_expect_eq(gap.since, off);
	cr_expect_eq(n_open, 3);
	cr_expect(!later(w, 1500).missing); /* said once */
	/* it goes, and with it its event: it is opened anew */
	online[10] = false;
	write_list(list, "0,8\n");
	cr_expect(!later(w, 1500).missing);
	cr_expect_eq(n_open, 2);
	off = now;
	online[10] = true;
	write_list(list, "0,8,10\n");
	gap = later(w, 1500);
	cr_expect(gap.missing);
	cr_expect_eq(gap.since, off);
	cr_expect_eq(n_open, 3);
	mapwatch__close(w);
}

/* Online, and the kernel refuses: each second of it may be missing. */
Test(mapwatch_cpus, cannot_be_watched)
{
	struct mapwatch *w;
	struct map_gap gap;
	uint64_t before;

	write_list(possible, "0-1\n");
	write_list(list, "0\n");
	online[0] = true;
	cr_assert_eq(mapwatch__open(&w, 4), 0);
	online[1] = true;
	write_list(list, "0-1\n");
	refuse = EMFILE;
	before = now;
	gap = later(w, 1500);
	cr_expect(gap.missing);
	cr_expect_eq(gap.since, before);
	before = now;
	gap = later(w, 1500);
	cr_expect(gap.missing);
	cr_expect_eq(gap.since, before);
	refuse = 0;
	cr_expect(later(w, 1500).missing);
	cr_expect_eq(n_open, 2);
	cr_expect(!later(w, 1500).missing);
	mapwatch__close(w);
	/* at the start it is an error */
	refuse = EPERM;
	cr_expect_eq(mapwatch__open(&w, 4), -EPERM);
	cr_expect_null(w);
}

/* Without sysfs: by trying. */
Test(mapwatch_cpus, without_lists)
{
	struct mapwatch *w;
	int i;

	unlink(possible);
	unlink(list);
	for (i = 1; i < CPUS; i++)
		online[i] = false;
	online[0] = true;
	cr_assert_eq(mapwatch__open(&w, 4), 0);
	cr_expect_eq(n_open, 1);
	cr_expect(!later(w, 1500).missing);
	mapwatch__close(w);
}
