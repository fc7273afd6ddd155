// SPDX-License-Identifier: Apache-2.0
/* Wire records to events: each function, each layout, and what is no record at all. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/base.h"
#include "capture/capture.h"

static struct mt_call call_of(uint16_t fn, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
	return (struct mt_call){ .h = { .size = sizeof(struct mt_call),
					.type = MT_REC_CALL,
					.cpu = 5,
					.site = 17,
					.tgid = 100,
					.tid = 101,
					.start = 4294967295u,
					.fn = fn,
					.time = 2000 },
				 .begin = 1000,
				 .a = { a0, a1, a2, a3 } };
}

static struct event decoded(const struct mt_call *c)
{
	struct event e;

	cr_assert_eq(event__decode(c, sizeof(*c), PTA_LAYOUT_UNKNOWN, &e), 0, "fn %u", c->h.fn);
	cr_expect_eq(e.time, 2000);
	cr_expect_eq(e.begin, 1000);
	cr_expect_eq(e.tgid, 100);
	cr_expect_eq(e.tid, 101);
	cr_expect_eq(e.start, 4294967295u);
	cr_expect_eq(e.site, 17);
	cr_expect_eq(e.cpu, 5);
	return e;
}

static struct event decode(uint16_t fn, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
	struct mt_call c = call_of(fn, a0, a1, a2, a3);

	return decoded(&c);
}

/* ---- HAL ---- */

#define F_HOST (2ULL << 10)
#define F_DVPP (3ULL << 10)
#define F_HUGE (1ULL << 17)
#define F_GIANT (1ULL << 31)
#define F_MODULE(m) ((uint64_t)(m) << 56)

Test(decode, hal_alloc_flag)
{
	static const struct {
		uint64_t flag;
		int32_t device;
		uint32_t flags, page, module;
	} cases[] = {
		{ 0, 0, 0, 0, 0 },
		{ 7, 7, 0, 0, 0 },
		{ 0x3ff, 1023, 0, 0, 0 },
		{ 0x3ff | F_HOST, 1023, EVF_HOST, 0, 0 },
		{ 3 | F_DVPP, 3, 0, 0, 0 },
		{ 1 | (1ULL << 10), 1, 0, 0, 0 }, /* SVM type 1 is the device's */
		{ 2 | F_HUGE, 2, 0, 1, 0 },
		{ 2 | F_GIANT, 2, 0, 2, 0 },
		{ 2 | F_HUGE | F_GIANT, 2, 0, 2, 0 },
		{ 5 | F_HUGE | F_MODULE(33), 5, 0, 1, 33 },
		{ F_MODULE(255) | F_HOST, 0, EVF_HOST, 0, 255 },
		/* bits between the fields mean nothing here */
		{ 1 | (1ULL << 14) | (1ULL << 16) | (1ULL << 18) | (1ULL << 32) | (1ULL << 55), 1,
		  0, 0, 0 },
		{ 504403158265496577, 1, 0, 0, 7 }, /* msleaks.md 3.3 */
	};
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(cases); i++) {
		struct event e = decode(MT_FN_HAL_ALLOC, 0xffff000000000000, 1ULL << 40,
					cases[i].flag, 0);

		cr_expect_eq(e.kind, EV_HAL_ALLOC);
		cr_expect_eq(e.addr, 0xffff000000000000);
		cr_expect_eq(e.size, 1LL << 40);
		cr_expect_eq(e.device, cases[i].device, "case %zu", i);
		cr_expect_eq(e.flags, cases[i].flags, "case %zu", i);
		cr_expect_eq(e.page, cases[i].page, "case %zu", i);
		cr_expect_eq(e.module, cases[i].module, "case %zu", i);
		cr_expect_eq(e.hal_flag, cases[i].flag, "case %zu", i);
	}
}

Test(decode, hal_alloc_failed)
{
	struct mt_call c = call_of(MT_FN_HAL_ALLOC, 0xdead, 64, 3, 0);
	struct event e;

	c.ret = 6;
	e = decoded(&c);
	cr_expect_eq(e.ret, 6);
	cr_expect_eq(e.addr, 0); /* what lies there is no address */
	cr_expect(!(e.flags & EVF_ALONE));
	c.a[0] = MT_REFUSED_ALONE;
	cr_expect(decoded(&c).flags & EVF_ALONE);
	/* an address of 1 that was given is an address */
	c.ret = 0;
	e = decoded(&c);
	cr_expect(!(e.flags & EVF_ALONE));
	cr_expect_eq(e.addr, 1);
}

Test(decode, hal_alloc_of_a_segment)
{
	struct mt_call c = call_of(MT_FN_HAL_ALLOC, 0x1000, 64, 3, 0);

	c.a[4] = MT_HAL_SEGMENT | 5;
	cr_expect_eq(decoded(&c).flags, EVF_SEGMENT);
	c.a[4] = 1ULL << MT_HAL_SETTING | 5; /* inside aclrtSetDevice(0) */
	cr_expect_eq(decoded(&c).setting, 1);
	c.a[4] = 64ULL << MT_HAL_SETTING | MT_HAL_SEGMENT;
	cr_expect_eq(decoded(&c).setting, 64);
	cr_expect_eq(decoded(&c).flags, EVF_SEGMENT);
	c.a[4] = 5; /* the memory type alone */
	cr_expect_eq(decoded(&c).setting, 0);
	cr_expect_eq(decoded(&c).flags, 0);
	c.a[4] = MT_HAL_SEGMENT;
	c.ret = 6;
	cr_expect_eq(decoded(&c).flags, 0);
}

/* ---- losses that are told every second ---- */

Test(losses, each_telling_has_its_own_interval)
{
	struct loss l = { .site = 7,
			  .reason = MT_LOSS_RING,
			  .device = 2,
			  .cpu = 1,
			  .count = 10,
			  .first = 100,
			  .last = 200 },
		    other = l, news;
	struct losses_told t = { 0 };

	cr_assert(losses_told__news(&t, &l, &news));
	cr_expect_eq(news.count, 10);
	cr_expect_eq(news.first, 100);
	cr_expect_eq(news.last, 200);
	/* it could not be written: nothing is told */
	cr_assert(losses_told__news(&t, &l, &news));
	losses_told__add(&t, &l);
	cr_expect(!losses_told__news(&t, &l, &news));
	/* what comes then is of the time since, not of its end */
	l.count = 25;
	l.last = 900;
	cr_assert(losses_told__news(&t, &l, &news));
	cr_expect_eq(news.count, 15);
	cr_expect_eq(news.first, 200);
	cr_expect_eq(news.last, 900);
	losses_told__add(&t, &l);
	l.count = 26;
	l.last = 1000;
	cr_assert(losses_told__news(&t, &l, &news));
	cr_expect_eq(news.first, 900);
	losses_told__add(&t, &l);
	/* another processor, device, reason or site has its own */
	other.cpu = 0;
	cr_assert(losses_told__news(&t, &other, &news));
	cr_expect_eq(news.count, 10);
	cr_expect_eq(news.first, 100);
	losses_told__add(&t, &other);
	other.device = -1;
	cr_expect(losses_told__news(&t, &other, &news));
	other.device = 2;
	other.reason = MT_LOSS_FAULT;
	cr_expect(losses_told__news(&t, &other, &news));
	other.reason = MT_LOSS_RING;
	other.site = 8;
	cr_expect(losses_told__news(&t, &other, &news));
	cr_expect(!losses_told__news(&t, &l, &news));
	/* a program that began earlier wrote last */
	l.count = 30;
	l.last = 990;
	cr_assert(losses_told__news(&t, &l, &news));
	cr_expect_eq(news.count, 4);
	cr_expect_leq(news.first, news.last);
	losses_told__free(&t);
}

/* A target may say any number: none beyond what the driver has room for is one. */
Test(decode, impossible_devices)
{
	cr_expect_eq(decode(MT_FN_SET_DEVICE, 1023, 0, 0, 0).device, 1023);
	cr_expect_eq(decode(MT_FN_SET_DEVICE, 1024, 0, 0, 0).device, -1);
	cr_expect_eq(decode(MT_FN_SET_DEVICE, INT32_MAX, 0, 0, 0).device, -1);
	cr_expect_eq(decode(MT_FN_SET_DEVICE, (uint64_t)-2, 0, 0, 0).device, -1);
	cr_expect_eq(decode(MT_FN_HAL_CREATE, 1, 512, 1023ULL << 32, 0).device, 1023);
	cr_expect_eq(decode(MT_FN_HAL_CREATE, 1, 512, 1024ULL << 32, 0).device, -1);
	cr_expect_eq(decode(MT_FN_PTA_ALLOC, 1, 512, 1 << 20, 0).device, -1);
}

Test(decode, impossible_sizes)
{
	static const uint16_t fns[] = { MT_FN_HAL_ALLOC, MT_FN_HAL_CREATE, MT_FN_HOST_REG,
					MT_FN_PTA_ALLOC, MT_FN_PTA_FREE,   MT_FN_MS_ALLOC,
					MT_FN_MS_KEEP };
	struct event e;
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(fns); i++) {
		struct mt_call c = call_of(fns[i], 0x1000, 1ULL << 55, 0, 0);

		cr_expect_eq(decoded(&c).size, 1LL << 55);
		c.a[1] = 1ULL << 56;
		cr_expect_eq(event__decode(&c, sizeof(c), PTA_LAYOUT_C, &e), -EBADMSG, "fn %u",
			     fns[i]);
		c.a[1] = (uint64_t)-512;
		cr_expect_eq(event__decode(&c, sizeof(c), PTA_LAYOUT_C, &e), -EBADMSG, "fn %u",
			     fns[i]);
		c.ret = 6; /* refused for it: an event as others */
		cr_expect_eq(event__decode(&c, sizeof(c), PTA_LAYOUT_C, &e), 0, "fn %u", fns[i]);
	}
	/* a domain is no size */
	cr_expect_eq(decode(MT_FN_MSTX_START, 0, UINT64_MAX, 0, 0).kind, EV_RANGE_START);
}

Test(decode, hal_create)
{
	/* side 1 = device, device 6, module 3, giant page */
	struct event e = decode(MT_FN_HAL_CREATE, 0x1234, 4096, 1 | 6ULL << 32, 3 | 2ULL << 32);

	cr_expect_eq(e.kind, EV_HAL_ALLOC);
	cr_expect_eq(e.flags, EVF_CREATE);
	cr_expect_eq(e.addr, 0x1234);
	cr_expect_eq(e.size, 4096);
	cr_expect_eq(e.device, 6);
	cr_expect_eq(e.module, 3);
	cr_expect_eq(e.page, 2);
	e = decode(MT_FN_HAL_CREATE, 0x1234, 4096, 0, 0); /* side 0 = host */
	cr_expect_eq(e.flags, EVF_CREATE | EVF_HOST);
	e = decode(MT_FN_HAL_CREATE, 0x1234, 4096, 0xffffffff00000000, 0);
	cr_expect_eq(e.device, -1); /* properties that could not be read */
	cr_expect_eq(e.flags, EVF_CREATE);
}

Test(decode, host)
{
	struct event e = decode(MT_FN_HOST_ALLOC, 0x1234, 100, MT_HOST_MALLOC, 0);

	cr_expect_eq(e.kind, EV_HOST_ALLOC);
	cr_expect(e.addr == 0x1234 && e.size == 100 && e.key == MT_HOST_MALLOC && e.device == -1);
	/* what a realloc takes back */
	e = decode(MT_FN_HOST_ALLOC, 0x1234, 0, MT_HOST_OTHER, 1);
	cr_expect(e.kind == EV_HOST_FREE && e.addr == 0x1234 && e.key == MT_HOST_OTHER);
	e = decode(MT_FN_HOST_FREE, 0x1234, 0, MT_HOST_CFREE, 0);
	cr_expect(e.kind == EV_HOST_FREE && e.key == MT_HOST_CFREE);
}

Test(decode, frees)
{
	struct event e = decode(MT_FN_HAL_FREE, 0x1234, 0, 0, 0);

	cr_expect_eq(e.kind, EV_HAL_FREE);
	cr_expect_eq(e.addr, 0x1234);
	cr_expect_eq(e.flags, 0);
	cr_expect_eq(e.device, -1);
	e = decode(MT_FN_HAL_RELEASE, 0x1234, 0, 0, 0);
	cr_expect_eq(e.kind, EV_HAL_FREE);
	cr_expect_eq(e.flags, EVF_CREATE);
	cr_expect_eq(e.addr, 0x1234);
	e = decode(MT_FN_HOST_REG, 0x10, 20, 3, 0);
	cr_expect_eq(e.kind, EV_HOST_REG);
	cr_expect_eq(e.size, 20);
	cr_expect_eq(e.hal_flag, 3);
	cr_expect_eq(e.device, -1);
	e = decode(MT_FN_HOST_UNREG, 0x10, 0, 0, 0);
	cr_expect_eq(e.kind, EV_HOST_UNREG);
	cr_expect_eq(e.addr, 0x10);
}

/* ---- acl, runtime, mstx, pools ---- */

Test(decode, acl)
{
	struct mt_call oom =
		call_of(MT_FN_OOM, 1ULL << 36, F_MODULE(7) | 1, 4, MT_FN_HAL_CREATE);
	struct event e = decode(MT_FN_ACL_INIT, 0, 0, 0, 0);

	cr_expect_eq(e.kind, EV_ACL_INIT);
	cr_expect_eq(decode(MT_FN_ACL_FINI, 0, 0, 0, 0).kind, EV_ACL_FINI);
	e = decode(MT_FN_SET_DEVICE, 0xffffffff00000003, 0, 0, 0); /* an int in a register */
	cr_expect_eq(e.kind, EV_SET_DEVICE);
	cr_expect_eq(e.device, 3);
	cr_expect_eq(decode(MT_FN_SET_DEVICE, 0xffffffff, 0, 0, 0).device, -1);
	e = decode(MT_FN_STREAM_ID, 0xabc, 9, 0, 0);
	cr_expect_eq(e.kind, EV_STREAM_ID);
	cr_expect_eq(e.stream, 0xabc);
	cr_expect_eq(e.stream_id, 9);
	oom.a[4] = 2;
	e = decoded(&oom);
	cr_expect_eq(e.kind, EV_OOM);
	cr_expect_eq(e.size, 1LL << 36);
	cr_expect_eq(e.hal_flag, F_MODULE(7) | 1);
	cr_expect_eq(e.refused, 4);
	cr_expect_eq(e.device, 2);
	cr_expect_eq(e.fn, MT_FN_HAL_CREATE);
	oom.a[4] = UINT32_MAX; /* whatever the flag says */
	cr_expect_eq(decoded(&oom).device, -1);
	e = decode(MT_FN_FUNC_NAME, 0x55, 0, 0, 0);
	cr_expect_eq(e.kind, EV_FUNC_NAME);
	cr_expect_eq(e.addr, 0x55);
	e = decode(MT_FN_LAUNCH, 0x66, 0x77, 88, MT_NAME_PROGRAM);
	cr_expect_eq(e.kind, EV_LAUNCH);
	cr_expect_eq(e.addr, 0x66);
	cr_expect_eq(e.stream, 0x77);
	cr_expect_eq(e.key, 88);
	cr_expect_eq(e.name_kind, MT_NAME_PROGRAM);
}

Test(decode, mstx)
{
	struct mt_call c = call_of(MT_FN_MSTX_START, 0x77, 0xd0, MT_MSTX_LIB, 0);
	struct event e;

	c.ret = 42; /* an id, no failure */
	e = decoded(&c);
	cr_expect_eq(e.kind, EV_RANGE_START);
	cr_expect_eq(e.key, 42);
	cr_expect_eq(e.ret, 0);
	cr_expect_eq(e.stream, 0x77);
	cr_expect_eq(e.size, 0xd0); /* the domain */
	cr_expect_eq(e.flags, 0);
	c.a[2] = MT_MSTX_PY;
	c.a[4] = 1; /* Python raised */
	e = decoded(&c);
	cr_expect_eq(e.flags, EVF_PY);
	cr_expect_eq(e.ret, 1);
	c.h.fn = MT_FN_MSTX_MARK;
	e = decoded(&c);
	cr_expect_eq(e.kind, EV_MARK);
	cr_expect_eq(e.flags, EVF_PY);
	c.h.fn = MT_FN_MSTX_END;
	c.a[0] = 43;
	e = decoded(&c);
	cr_expect_eq(e.kind, EV_RANGE_END);
	cr_expect_eq(e.key, 43);
	cr_expect_eq(e.ret, 1);
	cr_expect_eq(e.flags, EVF_PY);
}

Test(decode, asks)
{
	/* The upper half of the register of an `unsigned int` is anything. */
	struct mt_call c = call_of(MT_FN_ASK, 0x7700000000000077, 0xdead00000000 | MT_ASK_LABEL, MT_MSTX_LIB, 0);
	struct event e = decoded(&c);

	cr_expect_eq(e.kind, EV_ASK);
	cr_expect_eq(e.key, MT_ASK_LABEL);
	cr_expect_eq(e.addr, 0x7700000000000077);
	cr_expect_eq(e.size, 0);
}

Test(decode, pools)
{
	struct mt_call c = call_of(MT_FN_PTA_ALLOC, 0x1000, 1024, 3, 512);
	struct event e;

	cr_expect(!(decoded(&c).flags & EVF_TOTALS));
	c.a[4] = 2048;
	e = decoded(&c);
	cr_expect_eq(e.kind, EV_PTA_MALLOC);
	cr_expect_eq(e.addr, 0x1000);
	cr_expect_eq(e.size, 1024);
	cr_expect_eq(e.device, 3);
	cr_expect_eq(e.flags, EVF_TOTALS);
	cr_expect_eq(e.allocated, 512);
	cr_expect_eq(e.reserved, 2048);
	/* totals that contradict each other are none */
	c.a[3] = 2049;
	cr_expect(!(decoded(&c).flags & EVF_TOTALS));
	/* at the entry of free the block is still counted */
	c.h.fn = MT_FN_PTA_FREE;
	c.a[3] = 1536;
	e = decoded(&c);
	cr_expect_eq(e.kind, EV_PTA_FREE);
	cr_expect_eq(e.device, 3);
	cr_expect_eq(e.allocated, 512);
	cr_expect_eq(e.flags, EVF_TOTALS);
	c.a[3] = 1023;
	cr_expect(!(decoded(&c).flags & EVF_TOTALS));
	e = decode(MT_FN_MS_ALLOC, 0x2000, 64, 0, 0);
	cr_expect_eq(e.kind, EV_MS_ALLOC);
	cr_expect_eq(e.addr, 0x2000);
	cr_expect_eq(e.size, 64);
	cr_expect_eq(decode(MT_FN_MS_FREE, 0x2000, 0, 0, 0).kind, EV_MS_FREE);
	cr_expect_eq(decode(MT_FN_MS_KEEP, 0x2000, 64, 0, 0).kind, EV_MS_KEEP);
	cr_expect_eq(decode(MT_FN_MS_PART, 0, 0, 0, 0).kind, EV_MS_PART);
}

Test(decode, mindspore_totals)
{
	struct mt_call c = call_of(MT_FN_MS_ALLOC, 0x2000, 64, 0, 0xabcd00);
	struct event e = decoded(&c);

	cr_expect_eq(e.key, 0xabcd);
	cr_expect_eq(e.flags, 0);
	c.a[2] = 1; /* plus one: nothing is in use */
	e = decoded(&c);
	cr_expect_eq(e.flags, EVF_TOTALS);
	cr_expect_eq(e.allocated, 0);
	c.a[4] = 4097;
	c.a[3] |= MT_MS_VMM | MT_MS_LOOSE;
	e = decoded(&c);
	cr_expect_eq(e.flags, EVF_TOTALS | EVF_RESERVED | EVF_VMM | EVF_LOOSE);
	cr_expect_eq(e.reserved, 4096);
	c.h.fn = MT_FN_MS_FREE;
	c.a[3] = MT_MS_PART;
	/* nonsense where the pool has something else */
	c.a[2] = c.a[4] = 1ULL << 60;
	cr_expect_eq(decoded(&c).flags, EVF_PART);
}

/* ---- texts and bounds ---- */

Test(decode, text)
{
	struct mt_call_name n = { .c = call_of(MT_FN_MS_ALLOC, 1, 2, 0, 0) };
	struct event e;

	n.c.h.size = sizeof(n);
	memcpy(n.text, "AscendPool", 11);
	n.c.h.strlen = 10;
	cr_assert_eq(event__decode(&n, sizeof(n), PTA_LAYOUT_UNKNOWN, &e), 0);
	cr_expect_eq(e.text, n.text);
	cr_expect_eq(e.text_len, 10);
	cr_expect_eq(e.flags, 0);
	n.c.h.strlen = sizeof(n.text);
	n.c.h.flags = MT_F_TRUNC;
	cr_assert_eq(event__decode(&n, sizeof(n), PTA_LAYOUT_UNKNOWN, &e), 0);
	cr_expect_eq(e.text_len, sizeof(n.text));
	cr_expect_eq(e.flags, EVF_TRUNC);
	n.c.h.strlen = 0;
	n.c.h.flags = MT_F_NOTEXT | 0x80;
	cr_assert_eq(event__decode(&n, sizeof(n), PTA_LAYOUT_UNKNOWN, &e), 0);
	cr_expect_eq(e.flags, EVF_NOTEXT);
	cr_expect_eq(e.text_len, 0);
}

Test(decode, text_beyond_the_record)
{
	struct mt_call_name n = { .c = call_of(MT_FN_MS_ALLOC, 1, 2, 0, 0) };
	struct event e;

	n.c.h.size = sizeof(n);
	n.c.h.strlen = sizeof(n.text) + 1;
	cr_expect_eq(event__decode(&n, sizeof(n), PTA_LAYOUT_UNKNOWN, &e), -EBADMSG);
	n.c.h.strlen = UINT16_MAX;
	cr_expect_eq(event__decode(&n, sizeof(n), PTA_LAYOUT_UNKNOWN, &e), -EBADMSG);
	/* within the buffer, but the header says that the record ends before */
	n.c.h.size = sizeof(n.c) + 8;
	n.c.h.strlen = 16;
	cr_expect_eq(event__decode(&n, sizeof(n), PTA_LAYOUT_UNKNOWN, &e), -EBADMSG);
	n.c.h.strlen = 8;
	cr_expect_eq(event__decode(&n, sizeof(n), PTA_LAYOUT_UNKNOWN, &e), 0);
}

Test(decode, cut_records)
{
	static const uint8_t types[] = { MT_REC_CALL, MT_REC_PTA, MT_REC_FORK, MT_REC_EXEC,
					 MT_REC_EXIT };
	union {
		struct mt_hdr h;
		char room[sizeof(struct mt_call)];
	} r;
	struct event e;
	size_t i, n, full;

	for (i = 0; i < MT_ARRAY_SIZE(types); i++) {
		full = types[i] >= MT_REC_FORK ? sizeof(struct mt_task) : sizeof(struct mt_call);
		for (n = 0; n < full; n++) {
			memset(&r, 0, sizeof(r));
			r.h.type = types[i];
			r.h.fn = types[i] == MT_REC_PTA ? MT_FN_PTA_REPORT : MT_FN_HAL_FREE;
			r.h.size = (uint16_t)n;
			cr_expect_eq(event__decode(&r, n, PTA_LAYOUT_C, &e), -EBADMSG);
			/* cut in the header only, and cut on the way only */
			cr_expect_eq(event__decode(&r, full, PTA_LAYOUT_C, &e), -EBADMSG,
				     "type %u, header says %zu", types[i], n);
			r.h.size = (uint16_t)full;
			cr_expect_eq(event__decode(&r, n, PTA_LAYOUT_C, &e), -EBADMSG);
		}
		r.h.size = (uint16_t)full;
		cr_expect_eq(event__decode(&r, full, PTA_LAYOUT_C, &e), 0, "type %u", types[i]);
	}
}

Test(decode, unknown_records)
{
	struct mt_call c = call_of(MT_FN_NONE, 0, 0, 0, 0);
	unsigned int t, fn;
	struct event e;

	for (t = 0; t < 256; t++) {
		c.h.type = (uint8_t)t;
		c.h.fn = MT_FN_NONE;
		if (t == MT_REC_NONE || t == MT_REC_CALL || t > MT_REC_EXIT)
			cr_expect_eq(event__decode(&c, sizeof(c), PTA_LAYOUT_C, &e), -EBADMSG,
				     "type %u", t);
	}
	c.h.type = MT_REC_CALL;
	for (fn = MT_FN_MAX; fn < 300; fn++) {
		c.h.fn = (uint16_t)fn;
		cr_expect_eq(event__decode(&c, sizeof(c), PTA_LAYOUT_C, &e), -EBADMSG);
	}
	/* guards and lifecycle are no calls */
	c.h.fn = MT_FN_ENCLOSING;
	cr_expect_eq(event__decode(&c, sizeof(c), PTA_LAYOUT_C, &e), -EBADMSG);
	c.h.fn = MT_FN_TASK;
	cr_expect_eq(event__decode(&c, sizeof(c), PTA_LAYOUT_C, &e), -EBADMSG);
}

/* A function that is added to the wire must be decoded, or be named here. */
Test(decode, every_function)
{
	uint16_t fn;
	struct event e;

	for (fn = MT_FN_HAL_ALLOC; fn < MT_FN_MAX; fn++) {
		struct mt_call c = call_of(fn, 0, 0, 0, 0);
		bool none = fn == MT_FN_PTA_REPORT || fn == MT_FN_C10_REPORT ||
			    fn == MT_FN_SEGMENT || fn == MT_FN_ENCLOSING || fn == MT_FN_TASK ||
			    fn == MT_FN_MS_VMM || fn == MT_FN_ATB_RUN || fn == MT_FN_ATB_KERNEL ||
			    fn == MT_FN_ATB_LAUNCH;

		cr_expect_eq(event__decode(&c, sizeof(c), PTA_LAYOUT_C, &e), none ? -EBADMSG : 0,
			     "fn %u", fn);
	}
}

Test(decode, lifecycle)
{
	struct mt_task t = { .h = { .size = sizeof(t), .type = MT_REC_FORK, .tgid = 9 },
			     .ptgid = 7,
			     .comm = "sixteen bytes..." };
	struct event e;

	cr_assert_eq(event__decode(&t, sizeof(t), PTA_LAYOUT_UNKNOWN, &e), 0);
	cr_expect_eq(e.kind, EV_FORK);
	cr_expect_eq(e.addr, 7);
	cr_expect_eq(e.text_len, 16); /* no NUL within it */
	t.h.type = MT_REC_EXEC;
	memcpy(t.comm, "sh", 3);
	cr_assert_eq(event__decode(&t, sizeof(t), PTA_LAYOUT_UNKNOWN, &e), 0);
	cr_expect_eq(e.kind, EV_EXEC);
	cr_expect_eq(e.text_len, 2);
	t.h.type = MT_REC_EXIT;
	cr_assert_eq(event__decode(&t, sizeof(t), PTA_LAYOUT_UNKNOWN, &e), 0);
	cr_expect_eq(e.kind, EV_EXIT);
}
