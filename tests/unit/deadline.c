// SPDX-License-Identifier: Apache-2.0
/* Jobs that hang are left behind; memory of a process that nobody serves. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/deadline.h"
#include "target/target.h"

#define MS 1000000ULL

struct job {
	struct deadline_job j;
	int fd; /* it returns when that can be read, or at once */
	int *ran, *dropped;
};

static void run(struct deadline_job *j)
{
	struct job *x = (struct job *)j;
	char c;

	if (x->fd >= 0 && read(x->fd, &c, 1) < 0)
		abort();
	__atomic_add_fetch(x->ran, 1, __ATOMIC_RELAXED);
}

static void drop(struct deadline_job *j)
{
	struct job *x = (struct job *)j;

	__atomic_add_fetch(x->dropped, 1, __ATOMIC_RELAXED);
	free(x);
}

static int ran, dropped;

static struct job *job(int fd)
{
	struct job *x = malloc(sizeof(*x));

	*x = (struct job){ { run, drop }, fd, &ran, &dropped };
	return x;
}

static void until_late(unsigned int n)
{
	int i;

	for (i = 0; i < 1000 && deadline__late() != n; i++)
		usleep(1000);
	cr_assert_eq(deadline__late(), n);
}

Test(deadline, hangs)
{
	struct deadline d = { 0 };
	struct job *quick = job(-1);
	int p[2], i;
	uint64_t t0;

	cr_assert_eq(pipe(p), 0);
	for (i = 0; i < 3; i++)
		cr_assert_eq(deadline__run(&d, &quick->j, 1000), 0);
	cr_assert_eq(ran, 3);
	t0 = clock__boot();
	cr_assert_eq(deadline__run(&d, &job(p[0])->j, 50), -ETIMEDOUT);
	cr_expect(clock__boot() - t0 >= 50 * MS && clock__boot() - t0 < 2000 * MS);
	cr_expect_eq(deadline__late(), 1);
	/* Others are done meanwhile, by another thread. */
	cr_assert_eq(deadline__run(&d, &quick->j, 1000), 0);
	cr_expect_eq(dropped, 0);
	for (i = 1; i < DEADLINE_MAX_LATE; i++)
		cr_assert_eq(deadline__run(&d, &job(p[0])->j, 1), -ETIMEDOUT);
	t0 = clock__boot();
	cr_expect_eq(deadline__run(&d, &quick->j, 10000), -EBUSY);
	cr_expect(clock__boot() - t0 < 1000 * MS);
	/* They return at last, and are counted no more. */
	close(p[1]);
	until_late(0);
	cr_expect_eq(dropped, DEADLINE_MAX_LATE);
	cr_expect_eq(ran, 4 + DEADLINE_MAX_LATE);
	cr_assert_eq(deadline__run(&d, &quick->j, 1000), 0);
	deadline__close(&d);
	free(quick);
	close(p[0]);
}

/* A fault in a job must reach its handler, as in threads of ours (elf_guard). */
static void check_mask(struct deadline_job *j)
{
	struct job *x = (struct job *)j;
	sigset_t now;

	pthread_sigmask(SIG_SETMASK, NULL, &now);
	*x->ran = sigismember(&now, SIGINT) == 1 && sigismember(&now, SIGBUS) == 0;
}

Test(deadline, signals)
{
	struct deadline d = { 0 };
	int ok = 0;
	struct job x = { { check_mask, NULL }, -1, &ok, NULL };

	cr_assert_eq(deadline__run(&d, &x.j, 1000), 0);
	cr_expect(ok);
	deadline__close(&d);
}

#define SIZE 65536

/* A child with memory that userfaultfd does not serve; its address. */
static pid_t silent_child(uint64_t *at, int *hold)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int p[2], h[2], fd;
	char *m, c;
	pid_t pid;

	cr_assert(!pipe(p) && !pipe(h));
	pid = fork();
	if (!pid) {
		close(h[1]);
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
		m = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		reg.range.start = (uintptr_t)m;
		reg.range.len = SIZE;
		if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
			_exit(1);
		if (write(p[1], &m, sizeof(m)) != sizeof(m) || read(h[0], &c, 1) < 0)
			_exit(2);
		_exit(0);
	}
	close(p[1]);
	close(h[0]);
	cr_assert_eq(read(p[0], &m, sizeof(m)), sizeof(m), "needs userfaultfd, as root has it");
	close(p[0]);
	*at = (uintptr_t)m;
	*hold = h[1];
	return pid;
}

Test(deadline, memory)
{
	char here[16] = "there", buf[16];
	uint64_t at, t0 = clock__boot();
	int hold;
	pid_t pid = silent_child(&at, &hold);

	cr_assert_eq(proc__memory(getpid(), (uintptr_t)here, buf, sizeof(buf)), sizeof(buf));
	cr_assert_str_eq(buf, "there");
	cr_assert_eq(proc__memory(getpid(), 16, buf, sizeof(buf)), -EFAULT);
	cr_assert_eq(proc__memory(pid, at, buf, sizeof(buf)), -ETIMEDOUT);
	cr_expect(clock__boot() - t0 < (MEMORY_MS + 3000) * MS);
	/* Neither it nor its other memory is asked again, but others are. */
	t0 = clock__boot();
	cr_expect_eq(proc__memory(pid, (uintptr_t)here, buf, sizeof(buf)), -EBUSY);
	cr_expect_eq(proc__memory(getpid(), (uintptr_t)here, buf, sizeof(buf)), sizeof(buf));
	cr_expect(clock__boot() - t0 < 500 * MS);
	/* Its end makes the read return. */
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	until_late(0);
	cr_expect_eq(proc__memory(pid, at, buf, sizeof(buf)), -ESRCH);
	close(hold);
}
