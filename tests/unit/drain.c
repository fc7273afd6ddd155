// SPDX-License-Identifier: Apache-2.0
/* The draining thread when a record is being written for long: it waits, and does not spin. */
#include <criterion/criterion.h>
#include <sys/eventfd.h>

#define ring_buffer__new fake_new
#define ring_buffer__free fake_free
#define ring_buffer__consume fake_consume
#define ring_buffer__epoll_fd fake_epoll_fd
#include "../../user/capture/drain.c" // NOLINT(bugprone-suspicious-include)

static int ep;
static unsigned int looks;

/* There is something, and always will be: its first record is not finished. */
static int ready_epoll(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = eventfd(1, EFD_CLOEXEC), e = epoll_create1(EPOLL_CLOEXEC);

	cr_assert(fd >= 0 && e >= 0);
	cr_assert_eq(epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev), 0);
	return e;
}

struct ring_buffer *fake_new(int map_fd, ring_buffer_sample_fn fn, void *ctx,
			     const struct ring_buffer_opts *opts)
{
	return (struct ring_buffer *)&ep;
}

void fake_free(struct ring_buffer *rb)
{
}

int fake_consume(struct ring_buffer *rb)
{
	__atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
	return 0;
}

int fake_epoll_fd(const struct ring_buffer *rb)
{
	return ep;
}

Test(drain, waits_for_a_record_in_work)
{
	struct drain_opts opts = { .window_ns = 1000000, .max_bytes = 1 << 20 };
	struct drain *d;
	unsigned int n;

	ep = ready_epoll();
	cr_assert_eq(drain__start(0, 0, &opts, &d), 0);
	usleep(200000);
	n = __atomic_load_n(&looks, __ATOMIC_RELAXED);
	drain__free(d);
	/* Two rings, each 5 ms. */
	cr_expect_leq(n, 2 * 200 / POLL_MS + 20, "looked %u times in 200 ms", n);
	cr_expect_geq(n, 2);
}
