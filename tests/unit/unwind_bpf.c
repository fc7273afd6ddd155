// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks taken by the BPF programs at a probe, against glibc's backtrace() at the
 * same calls (tests/stacks/taken.c): by bpf_loop, and as on kernels without it.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/probe.h"
#include "stack.skel.h"
#include "stack_s.skel.h"
#include "taken.h"

#define CALLS 2000

static void run(struct bpf_object *obj, const struct bpf_program *prog, bool pin)
{
	struct taken t;
	int err = taken__run(obj, prog, CALLS, pin, &t);

	if (err && strcmp(t.failed, "perf uprobe") == 0)
		cr_skip_test("no perf uprobe here: %s", strerror(-err));
	cr_assert_eq(err, 0, "%s: %s", t.failed, strerror(-err));
	cr_expect_eq(t.got, CALLS, "%zu", t.got);
	cr_expect_eq(t.wrong, 0, "%zu frames or depths differ", t.wrong);
	cr_expect_eq(t.cut, 0, "%zu stacks are cut", t.cut);
	cr_expect_eq(t.broken, 0, "%zu", t.broken);
	cr_expect_gt(t.without, CALLS / 3, "%zu", t.without);
	cr_expect_gt(t.deepest, 230, "%u", t.deepest);
}

/* Skip where the kernel has not what it takes, or does not let us. */
static void need(enum feature x)
{
	static struct features f;

	libbpf_set_print(NULL);
	features__probe(&f, false);
	if (!features__has(&f, x))
		cr_skip_test("no %s here: %d", feature__name(x), f.state[x]);
}

Test(unwind_bpf, as_backtrace)
{
	struct stack_bpf *skel;

	need(FEAT_LOOP);
	skel = stack_bpf__open_and_load();
	cr_assert(skel, "%s", strerror(errno));
	run(skel->obj, skel->progs.take, false);
	stack_bpf__destroy(skel);
}

Test(unwind_bpf, sleepable)
{
	struct stack_s_bpf *skel;

	need(FEAT_LOOP);
	need(FEAT_SLEEPABLE);
	skel = stack_s_bpf__open();
	cr_assert(skel, "%s", strerror(errno));
	bpf_program__set_autoload(skel->progs.take, false);
	cr_assert_eq(stack_s_bpf__load(skel), 0);
	run(skel->obj, skel->progs.take_s, false);
	stack_s_bpf__destroy(skel);
}

/*
 * These walk in a place for each CPU, for kernels that do not preempt uprobe programs.
 * Where they are preempted (since 6.0) only another probed thread on that CPU could
 * walk there too: the child has one thread, the probe is on the child only, and it
 * stays on one CPU.
 */
static struct stack_tail_bpf *load_tail(void)
{
	struct stack_tail_bpf *skel;

	need(FEAT_RINGBUF);
	skel = taken__load_tail(NULL);
	cr_assert(skel, "%s", strerror(errno));
	return skel;
}

Test(unwind_bpf, without_loop)
{
	struct stack_tail_bpf *skel = load_tail();

	run(skel->obj, skel->progs.take_here, true);
	stack_tail_bpf__destroy(skel);
}

Test(unwind_bpf, by_tail_call)
{
	struct stack_tail_bpf *skel = load_tail();

	run(skel->obj, skel->progs.take_tail, true);
	stack_tail_bpf__destroy(skel);
}

Test(unwind_bpf, by_second_tail_call)
{
	struct stack_tail_bpf *skel = load_tail();

	run(skel->obj, skel->progs.take_called, true);
	stack_tail_bpf__destroy(skel);
}

/* The hash of the same stack, with a seed. */
static void hash_of(uint64_t seed, uint64_t hash[2])
{
	const struct mt_cfg c = { .stack_seed = { seed, ~seed } };
	struct stack_bpf *skel = stack_bpf__open_and_load();
	uint32_t zero = 0;
	struct taken t;
	int err;

	cr_assert(skel, "%s", strerror(errno));
	cr_assert_eq(bpf_map_update_elem(bpf_map__fd(skel->maps.cfg), &zero, &c, BPF_ANY), 0);
	err = taken__run(skel->obj, skel->progs.take, 10, false, &t);
	if (err && strcmp(t.failed, "perf uprobe") == 0)
		cr_skip_test("no perf uprobe here: %s", strerror(-err));
	cr_assert_eq(err, 0, "%s: %s", t.failed, strerror(-err));
	memcpy(hash, t.hash, sizeof(t.hash));
	stack_bpf__destroy(skel);
}

/* Whoever makes stacks cannot know which hash they will have. */
Test(unwind_bpf, seeded)
{
	static const uint64_t seeds[3] = { 1, 1, 2 };
	uint64_t h[3][2];
	int i;

	need(FEAT_LOOP);
	/* One place to call from: it is in the stack. */
	for (i = 0; i < 3; i++)
		hash_of(seeds[i], h[i]);
	cr_expect(h[0][0] == h[1][0] && h[0][1] == h[1][1], "it is not the stack's alone");
	cr_expect(h[0][0] != h[2][0] && h[0][1] != h[2][1]);
}

static uint64_t sum_of(const struct bpf_map *m, uint32_t key)
{
	uint64_t count[256] = { 0 }, sum = 0;
	int i;

	cr_assert_leq(libbpf_num_possible_cpus(), 256);
	cr_assert_eq(bpf_map_lookup_elem(bpf_map__fd(m), &key, count), 0);
	for (i = 0; i < libbpf_num_possible_cpus(); i++)
		sum += count[i];
	return sum;
}

__attribute__((noinline)) static void probed_here(void)
{
	asm volatile("" ::: "memory");
}

/* A copy whose last page finds no room in the ring is one copy, not two. */
Test(unwind_bpf, copies_are_counted_once)
{
	const struct mt_cfg c = { .stack_bytes = MT_COPY_MAX, .copy_rate = 1ULL << 40, .wake_bytes = 1U << 30 };
	struct stack_bpf *skel;
	struct bpf_link *link;
	struct map_of { uint64_t start, end, off; char path[256]; } m;
	uint32_t zero = 0;
	uint64_t off = 0;
	char line[512];
	FILE *f;
	int i;

	need(FEAT_LOOP);
	skel = stack_bpf__open();
	cr_assert(skel, "%s", strerror(errno));
	/* The definition, the head, some pages; never all. */
	cr_assert_eq(bpf_map__set_max_entries(skel->maps.events, 16384), 0);
	cr_assert_eq(stack_bpf__load(skel), 0);
	cr_assert_eq(bpf_map_update_elem(bpf_map__fd(skel->maps.cfg), &zero, &c, BPF_ANY), 0);
	f = fopen("/proc/self/maps", "re");
	while (!off && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %255s", &m.start, &m.end, &m.off, m.path) == 4 &&
		    (uintptr_t)probed_here >= m.start && (uintptr_t)probed_here < m.end)
			off = (uintptr_t)probed_here - m.start + m.off;
	fclose(f);
	cr_assert(off);
	link = bpf_program__attach_uprobe(skel->progs.take, false, getpid(), "/proc/self/exe", off);
	if (!link)
		cr_skip_test("no perf uprobe here: %s", strerror(errno));
	/* Of no known process: each could be completed from a copy. */
	for (i = 0; i < 3; i++)
		probed_here();
	bpf_link__destroy(link);
	cr_expect_eq(sum_of(skel->maps.uw_ends, MT_END_NOPROC) + sum_of(skel->maps.uw_ends, MT_END_NOT), 3);
	cr_expect_geq(sum_of(skel->maps.uw_copies, MT_COPY_RING), 1);
	cr_expect_eq(sum_of(skel->maps.uw_copies, MT_COPY_TAKEN) + sum_of(skel->maps.uw_copies, MT_COPY_RING),
		     sum_of(skel->maps.uw_ends, MT_END_NOPROC), "%lu taken, %lu without room, of %lu",
		     sum_of(skel->maps.uw_copies, MT_COPY_TAKEN), sum_of(skel->maps.uw_copies, MT_COPY_RING),
		     sum_of(skel->maps.uw_ends, MT_END_NOPROC));
	stack_bpf__destroy(skel);
}

/* A walk that cannot begin is counted. */
Test(unwind_bpf, no_walker)
{
	struct stack_tail_bpf *skel = load_tail();
	uint32_t walk = MT_UW_STEP_WALK, room = MT_END_ROOM;
	uint64_t count[256] = { 0 }, sum = 0;
	struct taken t;
	int i, err;

	cr_assert_leq(libbpf_num_possible_cpus(), 256);
	cr_assert_eq(bpf_map_delete_elem(bpf_map__fd(skel->maps.uw_steps), &walk), 0);
	err = taken__run(skel->obj, skel->progs.take_tail, 100, true, &t);
	if (err && strcmp(t.failed, "perf uprobe") == 0)
		cr_skip_test("no perf uprobe here: %s", strerror(-err));
	cr_assert_eq(err, 0, "%s: %s", t.failed, strerror(-err));
	cr_assert_eq(bpf_map_lookup_elem(bpf_map__fd(skel->maps.uw_ends), &room, count), 0);
	for (i = 0; i < libbpf_num_possible_cpus(); i++)
		sum += count[i];
	cr_expect_eq(t.got, 0, "%zu", t.got);
	cr_expect_eq(sum, 100, "%lu", sum);
	stack_tail_bpf__destroy(skel);
}
