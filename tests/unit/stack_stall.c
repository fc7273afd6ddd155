// SPDX-License-Identifier: Apache-2.0
/* Targets that make the threads of stacks wait: names in memory that does not answer, reading
 * without end. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbol/python.h"
#include "symbol/stacks_internal.h"

#define MS 1000000ULL
#define NOBODY_PID 0x7ffffffe

static struct stacks *open_stacks(void)
{
	struct stacks_opts o = { .cache = -1 };
	struct stacks *s;

	memset(&o.maps, 0xff, sizeof(o.maps));
	cr_assert_eq(stacks__new(&o, &s), 0);
	s->opts.python = true;
	return s;
}

static int gate[2];

/* Memory that answers when the gate is opened, and then that nothing is there. */
static int read_silent(void *ctx, uint64_t addr, void *buf, size_t n)
{
	char c;

	if (read(gate[0], &c, 1) < 0)
		abort();
	return -EFAULT;
}

static const struct py_mem silent = { read_silent, NULL };

static struct python *interpreter(const struct py_mem *mem)
{
	struct python *py = calloc(1, sizeof(*py));

	py->proc.fd = -1;
	py->mem = mem;
	return py;
}

static int define(struct stacks *s, uint64_t hash)
{
	struct mt_pywalk r;

	memset(&r, 0, sizeof(r));
	r.h.type = MT_REC_PYSTACK;
	r.h.tgid = NOBODY_PID;
	r.h.start = 7;
	r.s.n = 2;
	r.s.frame[0].code = 0x1000;
	r.s.frame[1].code = 0x2000;
	r.s.frame[0].check = r.s.frame[1].check = 1;
	r.hash[0] = r.hash[1] = hash;
	r.h.size = (uint16_t)(offsetof(struct mt_pywalk, s.frame) + 2 * sizeof(r.s.frame[0]));
	return stacks__define(s, &r, r.h.size);
}

struct defining {
	struct stacks *s;
	int err;
	bool done;
};

static void *define_one(void *arg)
{
	struct defining *d = arg;

	d->err = define(d->s, 1);
	__atomic_store_n(&d->done, true, __ATOMIC_RELEASE);
	return NULL;
}

Test(stack_stall, names)
{
	struct stacks *s = open_stacks();
	const struct mt_refs refs = { .py = 1 };
	struct stacks_stats st;
	struct stack_cells c;
	struct defining d = { .s = s };
	struct sproc *p;
	pthread_t t;
	uint64_t t0;
	int i;

	cr_assert_eq(pipe(gate), 0);
	stacks__exec(s, NOBODY_PID, 7, 0);
	cr_assert(stacks__wait(s, 2000));
	p = stacks__newest(s, NOBODY_PID, 7);
	cr_assert(p);
	p->py = interpreter(&silent);
	t0 = clock__boot();
	cr_assert_eq(pthread_create(&t, NULL, define_one, &d), 0);
	/* It reads, and nothing is locked: who stops or hears of mappings goes on. */
	usleep(100000);
	cr_assert(!__atomic_load_n(&d.done, __ATOMIC_ACQUIRE), "nothing is read");
	cr_assert_eq(pthread_mutex_trylock(&s->lock), 0, "memory is read with the lock held");
	pthread_mutex_unlock(&s->lock);
	for (i = 0; i < 600 && !__atomic_load_n(&d.done, __ATOMIC_ACQUIRE); i++)
		usleep(10000);
	cr_assert(__atomic_load_n(&d.done, __ATOMIC_ACQUIRE), "it waits for ever");
	pthread_join(t, NULL);
	cr_assert_eq(d.err, 0);
	/* Once is enough. */
	t0 = clock__boot();
	cr_assert_eq(define(s, 2), 0);
	cr_expect(clock__boot() - t0 < 500 * MS);
	stacks__cells(s, NOBODY_PID, 7, 1, &refs, &c);
	cr_expect(c.python_len >= 6 && !memcmp(c.python, "NA\nNA\n", 6), "%.*s", (int)c.python_len, c.python);
	stacks__stats(s, &st);
	cr_expect_eq(st.unnamed, 4);
	cr_expect_eq(st.unanswered, 4);
	cr_expect_eq(deadline__late(), 1);
	/* The object goes before who reads it returns. */
	t0 = clock__boot();
	stacks__free(s);
	cr_expect(clock__boot() - t0 < 1000 * MS);
	close(gate[1]);
	for (i = 0; i < 1000 && deadline__late(); i++)
		usleep(1000);
	cr_expect_eq(deadline__late(), 0);
}

static int read_nothing(void *ctx, uint64_t addr, void *buf, size_t n)
{
	return -EFAULT;
}

/* A parent's names are asked for when its child's memory is what hangs, by others. */
Test(stack_stall, only_who_hangs)
{
	static const struct py_mem nothing = { read_nothing, NULL };
	struct stacks *s = open_stacks();
	struct sproc parent = { .py = interpreter(&nothing), .children = 2 }, *p;
	struct stacks_stats st;

	cr_assert_eq(pipe(gate), 0);
	stacks__exec(s, NOBODY_PID, 7, 0);
	cr_assert(stacks__wait(s, 2000));
	p = stacks__newest(s, NOBODY_PID, 7);
	p->py = interpreter(&silent);
	p->parent = &parent;
	cr_assert_eq(define(s, 1), 0);
	cr_expect(python__is_silent(p->py));
	cr_expect(!python__is_silent(parent.py));
	stacks__stats(s, &st);
	cr_expect_eq(st.unanswered, 2);
	close(gate[1]);
	p->parent = NULL;
	stacks__free(s);
	python__close(parent.py);
}

/* ---- stopping ---- */

static int none(void *ctx, uint32_t first, const void *x, uint32_t n)
{
	return 0;
}

static int no_rules(void *ctx, uint32_t first, const struct mt_uw_rule *r, uint32_t n)
{
	return none(ctx, first, r, n);
}

/* As a file whose server is gone. */
static void hang(void *ctx, uint32_t no, int fd, const char *path)
{
	char c;

	if (read(gate[0], &c, 1) < 0)
		abort();
}

Test(stack_stall, stops_in_time)
{
	const struct unwind_sink sink = { .rules = no_rules, .file = hang };
	struct stacks *s = open_stacks();
	struct notice *n = calloc(1, sizeof(*n) + sizeof(STACKER));
	struct stat st;
	uint64_t t0;

	cr_assert_eq(pipe(gate), 0);
	cr_assert_eq(unwind_store__new(&sink, 0, -1, &s->unwind), 0);
	n->pid = getpid();
	strcpy(n->path, STACKER);
	cr_assert_eq(stat(STACKER, &st), 0);
	n->ino = st.st_ino;
	pthread_mutex_lock(&s->lock);
	s->notices.first = s->notices.last = n;
	s->notices.n = 1;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	usleep(200000);
	cr_assert(s->busy);
	/* Of what needs the lock nothing waits. */
	t0 = clock__boot();
	stacks__process(s, NOBODY_PID);
	stacks__tick(s, 0);
	cr_expect(clock__boot() - t0 < 500 * MS);
	stacks__free(s);
	cr_expect(clock__boot() - t0 < 8000 * MS);
	cr_expect(clock__boot() - t0 > 3000 * MS, "it does not hang");
}

/* ---- who is read when ---- */

/* Ask for a process and take it, as often as its turn comes, for so long. */
static unsigned int read_on(struct stacks *s, pid_t pid, uint64_t ns)
{
	uint64_t end = clock__boot() + ns, next;
	unsigned int n = 0;
	pid_t got;

	while (clock__boot() < end) {
		stacks__ask(s, pid);
		if (stacks__take(&s->queue, &got, &next))
			n++;
		else
			usleep(1000);
	}
	return n;
}

Test(stack_queue, in_turn)
{
	struct stacks s = { 0 };
	uint64_t next, now;
	unsigned int n;
	pid_t got;

	stacks__ask(&s, 1);
	stacks__ask(&s, 2);
	stacks__ask(&s, 1);
	cr_assert(stacks__is_due(&s) && stacks__take(&s.queue, &got, &next));
	cr_expect_eq(got, 1);
	cr_assert(stacks__take(&s.queue, &got, &next));
	cr_expect_eq(got, 2);
	cr_assert(!stacks__take(&s.queue, &got, &next));
	cr_expect_eq(next, UINT64_MAX);
	/* A burst is read at once; who goes on must wait ever longer. */
	n = read_on(&s, 1, 300 * MS);
	cr_expect(n >= 50, "%u", n);
	n = read_on(&s, 1, 2000 * MS);
	cr_expect(n <= 110, "%u", n);
	n = read_on(&s, 1, 1500 * MS);
	cr_expect(n >= 1 && n <= 5, "%u", n);
	cr_expect_gt(s.held_back, 2);
	/* The others have their turn. */
	stacks__ask(&s, 1);
	now = clock__boot();
	stacks__ask(&s, 2);
	cr_assert(stacks__take(&s.queue, &got, &next));
	cr_expect_eq(got, 2);
	cr_expect(next > now && next < now + 1000 * MS);
	/* What waits for something else is asked for sooner. */
	stacks__ask_at(&s, 3, now + 5000 * MS);
	cr_expect(!stacks__take(&s.queue, &got, &next));
	stacks__ask(&s, 3);
	cr_assert(stacks__take(&s.queue, &got, &next));
	cr_expect_eq(got, 3);
	/* Quiet for a while, and all is forgiven. */
	usleep(2900000);
	while (stacks__take(&s.queue, &got, &next))
		;
	usleep(100000);
	n = read_on(&s, 1, 100 * MS);
	cr_expect(n >= 20, "%u", n);
	stacks__pace_free(&s);
	free(s.queue.v);
}

/* What is dear to read is read less often. */
Test(stack_queue, by_cost)
{
	struct stacks s = { 0 };
	unsigned int i, n = 0;
	uint64_t next;
	pid_t got;

	for (i = 0; i < 100; i++) {
		stacks__ask(&s, 1);
		if (!stacks__take(&s.queue, &got, &next))
			break;
		stacks__charge(&s, 1, 200 * MS);
		n++;
	}
	cr_expect(n >= 5 && n <= 12, "%u", n);
	stacks__pace_free(&s);
	free(s.queue.v);
}
