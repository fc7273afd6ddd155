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

/* ---- what is handed out when ---- */

static struct drain *still(void)
{
	struct drain *d = calloc(1, sizeof(*d));

	pthread_mutex_init(&d->lock, NULL);
	d->opts = (struct drain_opts){ .window_ns = 100000000, .max_bytes = 1 << 20, .early = true };
	d->next = clock__boot() / SLICE_NS - 20;
	d->stop = true; /* there is no thread */
	return d;
}

static void put(struct drain *d, unsigned int type, uint64_t time, bool life)
{
	struct mt_task r = { .h = { .size = sizeof(r), .type = (uint8_t)type, .time = time } };

	take(d, &r, sizeof(r), life);
}

static uint64_t times[8];
static unsigned int types[8], n_times;

static void on_record(void *ctx, const void *rec, size_t size, bool late)
{
	const struct mt_hdr *h = rec;

	cr_assert_lt(n_times, 8);
	types[n_times] = h->type;
	times[n_times++] = h->time;
}

Test(drain, tells_up_to_when_all_is_handed_out)
{
	struct drain *d = still();
	uint64_t now = clock__boot();

	put(d, MT_REC_CALL, now - 150000000, false);
	put(d, MT_REC_CALL, now + 1000000000, false);
	drain__deliver(d, false, on_record, NULL);
	cr_expect_eq(n_times, 1);
	cr_expect_gt(drain__handed_out(d), now - 150000000);
	/* Nothing that has not been handed out is from before: a row of that time is in order. */
	cr_expect_leq(drain__handed_out(d), now + 1000000000);
	cr_expect_leq(drain__handed_out(d), clock__boot() - 100000000);
	drain__free(d);
}

static void slow_record(void *ctx, const void *rec, size_t size, bool late)
{
	usleep(300000);
	/* Meanwhile an event of 0.2 s ago comes, and the stack that it names. */
	put(ctx, MT_REC_CALL, clock__boot() - 200000000, false);
	put(ctx, MT_REC_PYSTACK, clock__boot() - 200000000, false);
}

/* A stack may take long to name: what came meanwhile waits for its own. */
Test(drain, events_wait_for_their_stacks)
{
	struct drain *d = still();

	put(d, MT_REC_PYSTACK, clock__boot(), false);
	drain__early(d, slow_record, d);
	drain__deliver(d, false, on_record, NULL);
	cr_expect_eq(n_times, 0, "handed out before its stack");
	drain__early(d, on_record, NULL);
	cr_expect_eq(n_times, 1);
	drain__deliver(d, false, on_record, NULL);
	cr_expect_eq(n_times, 2);
	drain__free(d);
}

/* The other ring is read first; what it tells happened later all the same. */
Test(drain, hands_out_stacks_at_once_and_in_order)
{
	struct drain *d = still();
	uint64_t now = clock__boot();

	put(d, MT_REC_FORK, now - 3000, true);
	put(d, MT_REC_EXIT, now - 1000, true);
	put(d, MT_REC_STACK, now - 2000, false);
	put(d, MT_REC_PYSTACK, now - 2500, false);
	put(d, MT_REC_CALL, now - 2000, false);
	drain__early(d, on_record, NULL);
	cr_assert_eq(n_times, 4);
	cr_expect(types[0] == MT_REC_FORK && types[1] == MT_REC_PYSTACK && types[2] == MT_REC_STACK &&
		  types[3] == MT_REC_EXIT);
	/* Stacks are no events; births and ends come again in their time. */
	cr_expect(d->st.received == 1 && d->st.stacks == 2 && d->st.life == 2);
	n_times = 0;
	drain__early(d, on_record, NULL);
	cr_expect_eq(n_times, 0);
	drain__deliver(d, true, on_record, NULL);
	cr_expect_eq(n_times, 3);
	cr_expect(times[0] <= times[1] && times[1] <= times[2]);
	drain__free(d);
}

static unsigned int ends;

static void on_range_ended(void *ctx, uint32_t tgid)
{
	cr_expect_eq(tgid, 7);
	ends++;
}

static void put_call(struct drain *d, unsigned int fn, uint64_t what)
{
	struct mt_call c = { .h = { .size = sizeof(c), .type = MT_REC_CALL, .fn = (uint16_t)fn, .tgid = 7,
				    .time = clock__boot() },
			     .a = { 0, what } };

	take(d, &c, sizeof(c), false);
}

/* A range that ends, and a step that is asked for; nothing else that is asked. */
Test(drain, tells_ends_of_steps)
{
	struct drain *d = still();
	struct mt_hdr cut = { .size = sizeof(cut), .type = MT_REC_CALL, .fn = MT_FN_MSTX_END, .time = clock__boot() };

	d->opts.range_ended = on_range_ended;
	put_call(d, MT_FN_MSTX_END, 0);
	put_call(d, MT_FN_ASK, MT_ASK_STEP | 0xdead00000000);
	cr_expect_eq(ends, 2);
	put_call(d, MT_FN_ASK, MT_ASK_START);
	put_call(d, MT_FN_MSTX_START, 0);
	take(d, &cut, sizeof(cut), false);
	cr_expect_eq(ends, 2);
	drain__free(d);
}
