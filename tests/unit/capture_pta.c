// SPDX-License-Identifier: Apache-2.0
/* Records of torch_npu's allocator: byte layouts, how they are learnt and checked. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/base.h"
#include "capture/capture.h"

enum { MALLOC, FREE, BLOCK_FREE };
enum { CACHING, WORKSPACE };

static struct mt_pta record(uint8_t b2, uint8_t b3, uint8_t b4, int64_t size)
{
	return (struct mt_pta){ .h = { .size = sizeof(struct mt_pta),
				       .type = MT_REC_PTA,
				       .fn = MT_FN_PTA_REPORT,
				       .time = 2000 },
				.raw = { 20, 3, b2, b3, b4, 0xaa, 0xbb, 0xcc },
				.ptr = 0x12c0c0000000,
				.size = size,
				.allocated = 4096,
				.reserved = 20971520,
				.active = 8192,
				.stream = 0xabc };
}

static struct event decode(struct mt_pta r, enum pta_layout layout)
{
	struct event e;

	cr_assert_eq(event__decode(&r, sizeof(r), layout, &e), 0);
	cr_expect_eq(e.addr, r.ptr);
	cr_expect_eq(e.device, (int8_t)r.raw[1]);
	cr_expect_eq(e.allocated, r.allocated);
	cr_expect_eq(e.reserved, r.reserved);
	cr_expect_eq(e.active, r.active);
	cr_expect_eq(e.stream, r.stream);
	cr_expect_eq(e.begin, 2000);
	cr_expect_eq(e.ret, 0);
	return e;
}

static void is_kind(struct event e, enum event_kind kind, uint32_t flags, const char *what)
{
	cr_expect_eq(e.kind, kind, "%s: kind %d", what, e.kind);
	cr_expect_eq(e.flags, flags, "%s: flags %x", what, e.flags);
	cr_expect_eq(e.size, 1024, "%s: size %ld", what, (long)e.size);
}

#define ALL (EVF_TOTALS | EVF_ACTIVE)

Test(pta, layout_a)
{
	/* behind data_type lies garbage */
	is_kind(decode(record(MALLOC, 1, 2, 1024), PTA_LAYOUT_A), EV_PTA_MALLOC, ALL, "malloc");
	is_kind(decode(record(FREE, 2, 1, -1024), PTA_LAYOUT_A), EV_PTA_FREE, ALL, "free");
	is_kind(decode(record(BLOCK_FREE, 7, 7, -1024), PTA_LAYOUT_A), EV_PTA_BLOCK_FREE, ALL,
		"block free");
}

Test(pta, layout_b)
{
	struct mt_pta r;

	is_kind(decode(record(MALLOC, 1, 9, 1024), PTA_LAYOUT_B), EV_PTA_MALLOC, ALL, "malloc");
	is_kind(decode(record(FREE, 0, 9, -1024), PTA_LAYOUT_B), EV_PTA_FREE, ALL, "free");
	is_kind(decode(record(BLOCK_FREE, 0, 9, -1024), PTA_LAYOUT_B), EV_PTA_BLOCK_FREE, ALL,
		"block free");
	/* workspace: nothing reserved, nothing active */
	r = record(MALLOC, 0, 9, 1024);
	r.reserved = r.active = 0;
	is_kind(decode(r, PTA_LAYOUT_B), EV_WS, ALL | EVF_ALLOC | EVF_LAYOUT_B, "workspace");
	/* the last block of the caching allocator: nothing active, its segment still reserved */
	r.reserved = 20971520;
	is_kind(decode(r, PTA_LAYOUT_B), EV_PTA_MALLOC, ALL, "reserved");
	r.reserved = 0;
	r.active = 512;
	is_kind(decode(r, PTA_LAYOUT_B), EV_PTA_MALLOC, ALL, "active");
	r.active = 0;
	/* the same in layout A is a block as others */
	is_kind(decode(r, PTA_LAYOUT_A), EV_PTA_MALLOC, ALL, "no workspace in A");
	r = record(FREE, 0, 9, -1024);
	r.reserved = r.active = r.allocated = 0;
	is_kind(decode(r, PTA_LAYOUT_B), EV_WS, ALL | EVF_LAYOUT_B, "workspace release");
}

Test(pta, layout_c)
{
	is_kind(decode(record(CACHING, MALLOC, 1, 1024), PTA_LAYOUT_C), EV_PTA_MALLOC, ALL,
		"malloc");
	is_kind(decode(record(CACHING, FREE, 0, -1024), PTA_LAYOUT_C), EV_PTA_FREE, ALL, "free");
	is_kind(decode(record(CACHING, BLOCK_FREE, 0, -1024), PTA_LAYOUT_C), EV_PTA_BLOCK_FREE, ALL,
		"block free");
	is_kind(decode(record(WORKSPACE, MALLOC, 0, 1024), PTA_LAYOUT_C), EV_WS, ALL | EVF_ALLOC,
		"workspace");
	is_kind(decode(record(WORKSPACE, FREE, 0, -1024), PTA_LAYOUT_C), EV_WS, ALL,
		"workspace free");
}

Test(pta, layout_not_known_yet)
{
	/* the sign alone, whatever the bytes say */
	is_kind(decode(record(FREE, FREE, 0, 1024), PTA_LAYOUT_UNKNOWN), EV_PTA_MALLOC, ALL,
		"malloc");
	is_kind(decode(record(MALLOC, MALLOC, 0, -1024), PTA_LAYOUT_UNKNOWN), EV_PTA_FREE, ALL,
		"free");
}

Test(pta, c10)
{
	struct mt_pta r = record(0xff, 0xff, 0xff, 1024);

	r.h.fn = MT_FN_C10_REPORT;
	is_kind(decode(r, PTA_LAYOUT_UNKNOWN), EV_PTA_MALLOC, EVF_TOTALS, "malloc");
	/* the layout of another generation does not matter */
	is_kind(decode(r, PTA_LAYOUT_C), EV_PTA_MALLOC, EVF_TOTALS, "malloc");
	r.size = -1024;
	is_kind(decode(r, PTA_LAYOUT_B), EV_PTA_FREE, EVF_TOTALS, "free");
	r.raw[1] = 0xff; /* no device index */
	cr_expect_eq(decode(r, PTA_LAYOUT_UNKNOWN).device, -1);
}

Test(pta, impossible_sizes)
{
	struct mt_pta r = record(CACHING, FREE, 0, INT64_MIN);
	struct event e;

	cr_expect_eq(event__decode(&r, sizeof(r), PTA_LAYOUT_C, &e), -EBADMSG);
	r.size = INT64_MAX;
	cr_expect_eq(event__decode(&r, sizeof(r), PTA_LAYOUT_C, &e), -EBADMSG);
	r.size = -INT64_MAX;
	cr_expect_eq(event__decode(&r, sizeof(r), PTA_LAYOUT_C, &e), -EBADMSG);
	r.size = -(1LL << 55);
	cr_expect_eq(event__decode(&r, sizeof(r), PTA_LAYOUT_C, &e), 0);
	cr_expect_eq(e.size, 1LL << 55);
}

/* ---- learning, spec ascend-abi.md 2.7.1 ---- */

static enum pta_layout learnt(uint8_t b2, uint8_t b3, int64_t size)
{
	struct pta_learner l = { 0 };
	struct mt_pta r = record(b2, b3, 0, size);

	return pta_learner__feed(&l, &r);
}

Test(learner, each_case)
{
	/* free record with @2=0 */
	cr_expect_eq(learnt(CACHING, FREE, -512), PTA_LAYOUT_C);
	cr_expect_eq(learnt(CACHING, BLOCK_FREE, -512), PTA_LAYOUT_C);
	/* malloc record with @2=1 */
	cr_expect_eq(learnt(WORKSPACE, MALLOC, 512), PTA_LAYOUT_C);
	/* free record with @2=2 */
	cr_expect_eq(learnt(BLOCK_FREE, 0, -512), PTA_LAYOUT_B);
	cr_expect_eq(learnt(BLOCK_FREE, 1, -512), PTA_LAYOUT_B);
	/* free record with @2=1 and @3=0 */
	cr_expect_eq(learnt(FREE, 0, -512), PTA_LAYOUT_B);
	/* B external or C workspace: wait */
	cr_expect_eq(learnt(1, 1, -512), PTA_LAYOUT_UNKNOWN);
	cr_expect_eq(learnt(1, 2, -512), PTA_LAYOUT_UNKNOWN);
	/* a malloc of the caching allocator looks alike in all of them */
	cr_expect_eq(learnt(0, 0, 512), PTA_LAYOUT_UNKNOWN);
	cr_expect_eq(learnt(0, 1, 512), PTA_LAYOUT_UNKNOWN);
}

Test(learner, waits_and_keeps)
{
	struct mt_pta open_one = record(1, 1, 0, -512), nothing = record(0, 0, 0, 512);
	struct mt_pta c = record(CACHING, FREE, 0, -512), b = record(BLOCK_FREE, 0, 0, -512);
	struct pta_learner l = { 0 };

	cr_expect_eq(pta_learner__feed(&l, &open_one), PTA_LAYOUT_UNKNOWN);
	cr_expect_eq(pta_learner__feed(&l, &nothing), PTA_LAYOUT_UNKNOWN);
	cr_expect_eq(pta_learner__feed(&l, &c), PTA_LAYOUT_C);
	cr_expect_eq(pta_learner__feed(&l, &b), PTA_LAYOUT_C);
	l = (struct pta_learner){ 0 };
	cr_expect_eq(pta_learner__feed(&l, &b), PTA_LAYOUT_B);
	cr_expect_eq(pta_learner__feed(&l, &c), PTA_LAYOUT_B);
	cr_expect_eq(pta_learner__feed(&l, &open_one), PTA_LAYOUT_B);
}

/* ---- plausibility ---- */

Test(implausible, good_records)
{
	struct mt_pta r = record(CACHING, MALLOC, 0, 1024);

	cr_expect_null(pta__implausible(&r, PTA_LAYOUT_C));
	cr_expect_null(pta__implausible(&r, PTA_LAYOUT_UNKNOWN));
	r = record(CACHING, BLOCK_FREE, 0, -1024);
	cr_expect_null(pta__implausible(&r, PTA_LAYOUT_C));
	r.allocated = r.reserved;
	cr_expect_null(pta__implausible(&r, PTA_LAYOUT_C));
	r = record(BLOCK_FREE, 0xee, 0xee, -1024);
	cr_expect_null(pta__implausible(&r, PTA_LAYOUT_B));
	cr_expect_null(pta__implausible(&r, PTA_LAYOUT_A));
	/* workspace: the totals of another allocator */
	r = record(WORKSPACE, MALLOC, 0, 1024);
	r.allocated = r.reserved + 1;
	cr_expect_null(pta__implausible(&r, PTA_LAYOUT_C));
	r = record(MALLOC, 0, 0, 1024);
	r.reserved = r.active = 0;
	cr_expect_null(pta__implausible(&r, PTA_LAYOUT_B));
}

static void is_wrong(struct mt_pta r, enum pta_layout layout, const char *word)
{
	const char *why = pta__implausible(&r, layout);

	cr_expect(why && strstr(why, word), "%s instead of %s", why ? why : "nothing", word);
}

Test(implausible, bad_records)
{
	struct mt_pta r = record(CACHING, MALLOC, 0, 1024);

	r.raw[0] = 0;
	is_wrong(r, PTA_LAYOUT_C, "device type");
	is_wrong(record(CACHING, MALLOC, 0, 1000), PTA_LAYOUT_C, "512");
	is_wrong(record(CACHING, FREE, 0, -1000), PTA_LAYOUT_C, "512");
	r = record(CACHING, MALLOC, 0, 1024);
	r.ptr = 0;
	is_wrong(r, PTA_LAYOUT_C, "address");
	is_wrong(record(CACHING, 3, 0, 1024), PTA_LAYOUT_C, "data type");
	is_wrong(record(3, 0, 0, 1024), PTA_LAYOUT_B, "data type");
	is_wrong(record(2, MALLOC, 0, 1024), PTA_LAYOUT_C, "component");
	r = record(CACHING, MALLOC, 0, 1024);
	r.allocated = -1;
	is_wrong(r, PTA_LAYOUT_C, "allocated");
	r.allocated = r.reserved + 1;
	is_wrong(r, PTA_LAYOUT_C, "allocated");
	is_wrong(r, PTA_LAYOUT_B, "allocated");
	is_wrong(r, PTA_LAYOUT_UNKNOWN, "allocated");
}

Test(implausible, calls)
{
	struct mt_call c = { .h = { .fn = MT_FN_PTA_ALLOC }, .a = { 0x1000, 512, 3 } };

	cr_expect_null(pta__implausible_call(&c));
	c.a[0] = 0;
	cr_expect(pta__implausible_call(&c));
	c.a[0] = 0x1000;
	c.a[1] = 0;
	cr_expect(pta__implausible_call(&c));
	c.a[1] = 513;
	cr_expect(pta__implausible_call(&c));
	c.a[1] = 1024;
	c.a[2] = 1024;
	cr_expect(pta__implausible_call(&c));
	c.a[2] = 0xffffffff;
	cr_expect(pta__implausible_call(&c));
}

/* ---- whom to believe ---- */

static struct pta_judge j;
static enum pta_layout how;

static void end_judge(void)
{
	pta_judge__free(&j);
}

TestSuite(judge, .fini = end_judge);

static enum pta_judgement says(uint32_t tgid, struct mt_pta r)
{
	r.h.tgid = tgid;
	r.h.start = 7;
	return pta_judge__report(&j, &r, PTA_LAYOUT_C, &how);
}

static enum pta_judgement good(uint32_t tgid)
{
	return says(tgid, record(CACHING, MALLOC, 0, 1024));
}

static enum pta_judgement bad(uint32_t tgid)
{
	return says(tgid, record(CACHING, MALLOC, 0, 1000));
}

Test(judge, one_process_alone_is_all)
{
	cr_expect_eq(good(1), PTA_BELIEVED);
	cr_expect_eq(how, PTA_LAYOUT_C);
	cr_expect_eq(bad(1), PTA_NONSENSE);
	cr_expect(strstr(j.voices[j.last].wrong, "512"));
	cr_expect_eq(good(1), PTA_DOUBTED);
	cr_expect_eq(bad(1), PTA_DOUBTED);
}

Test(judge, a_wrong_place_shows_at_once)
{
	cr_expect_eq(bad(1), PTA_NONSENSE);
}

Test(judge, one_of_several_is_alone)
{
	cr_expect_eq(good(1), PTA_BELIEVED);
	cr_expect_eq(bad(2), PTA_NEWLY_DOUBTED);
	cr_expect_eq(j.voices[j.last].tgid, 2);
	cr_expect_eq(good(2), PTA_DOUBTED);
	cr_expect_eq(bad(2), PTA_DOUBTED);
	cr_expect_eq(good(1), PTA_BELIEVED);
	cr_expect_eq(good(3), PTA_BELIEVED);
	cr_expect_eq(bad(4), PTA_NEWLY_DOUBTED);
	/* Three of four. */
	cr_expect_eq(bad(3), PTA_NONSENSE);
}

Test(judge, only_the_first_records_are_looked_at)
{
	int i;

	for (i = 0; i < 64; i++)
		cr_assert_eq(good(1), PTA_BELIEVED);
	cr_expect_eq(bad(1), PTA_BELIEVED);
	/* Each process has its own first records. */
	cr_expect_eq(bad(2), PTA_NEWLY_DOUBTED);
}

Test(judge, a_new_program_begins_anew)
{
	cr_expect_eq(good(1), PTA_BELIEVED);
	cr_expect_eq(bad(2), PTA_NEWLY_DOUBTED);
	pta_judge__forget(&j, 2, 7);
	pta_judge__forget(&j, 3, 7);
	cr_expect_eq(j.wrong, 0);
	cr_expect_eq(good(2), PTA_BELIEVED);
	cr_expect_eq(bad(1), PTA_NEWLY_DOUBTED);
	pta_judge__forget(&j, 2, 7);
	cr_expect_eq(j.right, 0);
	cr_expect_eq(bad(2), PTA_NONSENSE);
}

/* One that teaches nonsense does not teach others. */
Test(judge, each_learns_its_layout)
{
	struct mt_pta b = record(BLOCK_FREE, 0xee, 0xee, -1024),
		      c = record(CACHING, FREE, 0, -1024);

	b.h.tgid = 1;
	c.h.tgid = 2;
	cr_expect_eq(pta_judge__report(&j, &b, PTA_LAYOUT_UNKNOWN, &how), PTA_BELIEVED);
	cr_expect_eq(how, PTA_LAYOUT_B);
	cr_expect_eq(pta_judge__report(&j, &c, PTA_LAYOUT_UNKNOWN, &how), PTA_BELIEVED);
	cr_expect_eq(how, PTA_LAYOUT_C);
	/* One that has not shown it yet is as the first one. */
	c = record(MALLOC, 0, 0, 1024);
	c.h.tgid = 3;
	cr_expect_eq(pta_judge__report(&j, &c, PTA_LAYOUT_UNKNOWN, &how), PTA_BELIEVED);
	cr_expect_eq(how, PTA_LAYOUT_B);
}

Test(judge, calls)
{
	struct mt_call c = { .h = { .fn = MT_FN_PTA_ALLOC, .tgid = 1 }, .a = { 0x1000, 512, 3 } };

	cr_expect_eq(pta_judge__call(&j, &c), PTA_BELIEVED);
	c.h.tgid = 2;
	c.a[0] = 0;
	cr_expect_eq(pta_judge__call(&j, &c), PTA_NEWLY_DOUBTED);
	c.h.tgid = 1;
	cr_expect_eq(pta_judge__call(&j, &c), PTA_NONSENSE);
	c.a[0] = 0x1000;
	cr_expect_eq(pta_judge__call(&j, &c), PTA_DOUBTED);
}
