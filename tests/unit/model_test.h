/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the model share: events go in, copies of the rows come out. */
#ifndef MEMTAP_MODEL_TEST_H
#define MEMTAP_MODEL_TEST_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "capture/capture.h"
#include "model/model.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

#define PID 100u
#define START 5000u

static struct row rows[4096];
static char row_names[4096][64];
static char row_paths[4096][256];
static size_t n_rows, n_ended;
static const char *visible; /* of the next process that is met */
static uint32_t nspid;
static struct model *m;
static uint64_t now = 1000;

static void on_row(void *ctx, const struct row *r)
{
	(void)ctx;
	cr_assert_lt(n_rows, MT_ARRAY_SIZE(rows));
	rows[n_rows] = *r;
	snprintf(row_names[n_rows], sizeof(row_names[0]), "%.*s", (int)r->name_len,
		 r->name ? r->name : "");
	rows[n_rows].name = row_names[n_rows];
	snprintf(row_paths[n_rows], sizeof(row_paths[0]), "%s", r->path ? r->path : "");
	n_rows++;
}

static void on_describe(void *ctx, uint32_t tgid, uint32_t start, struct process_desc *d)
{
	(void)ctx;
	cr_assert(tgid && start);
	d->visible = visible ? strdup(visible) : NULL;
	d->nspid = nspid;
}

static void on_ended(void *ctx, uint32_t tgid)
{
	(void)ctx;
	cr_assert(tgid);
	n_ended++;
}

static char labels[8][200]; /* that blocks were given, one a line: TYPE ADDR LABEL */
static size_t n_labels;

static void on_label(void *ctx, uint32_t tgid, enum row_type type, uint64_t addr, const char *label)
{
	(void)ctx;
	cr_assert_lt(n_labels, MT_ARRAY_SIZE(labels));
	snprintf(labels[n_labels++], sizeof(labels[0]), "%s %llx %s", row_type__name(type), (unsigned long long)addr,
		 label);
}

/* Any text: no events of memory. */
static void on_config(void *ctx, uint32_t tgid, const char *text, size_t len, struct model_wants *w)
{
	(void)ctx, (void)text;
	cr_assert(tgid && len);
	w->events &= ~EVENTS_ALLOC;
}

static void begin_opts(struct model_opts o)
{
	struct model_ops ops = { .row = on_row, .describe = on_describe, .ended = on_ended, .label = on_label,
				 .config = on_config };

	m = model__new(&o, &ops, NULL);
	cr_assert(m);
	n_rows = n_ended = n_labels = 0;
}

#define ALL_OPTS \
	((struct model_opts){ .level = LEVEL_KERNEL, .events = EVENTS_ALLOC | EVENTS_LAUNCH })

static void begin(void)
{
	begin_opts(ALL_OPTS);
}

static void end(void)
{
	model__free(m);
	m = NULL;
}

static struct event ev(enum event_kind kind)
{
	now += 10;
	return (struct event){ .kind = kind,
			       .time = now,
			       .begin = now - 1,
			       .tgid = PID,
			       .tid = PID + 1,
			       .start = START,
			       .device = -1 };
}

static struct event on_thread(struct event e, uint32_t tid)
{
	e.tid = tid;
	return e;
}

static struct event of_process(struct event e, uint32_t tgid)
{
	e.tgid = e.tid = tgid;
	return e;
}

static struct event hal(uint64_t addr, int64_t size, int32_t device)
{
	struct event e = ev(EV_HAL_ALLOC);

	e.addr = addr;
	e.size = size;
	e.device = device;
	e.hal_flag = (uint64_t)device;
	return e;
}

static struct event hal_free(uint64_t addr)
{
	struct event e = ev(EV_HAL_FREE);

	e.addr = addr;
	return e;
}

static struct event pta(enum event_kind kind, uint64_t addr, int64_t size, int32_t device)
{
	struct event e = ev(kind);

	e.addr = addr;
	e.size = size;
	e.device = device;
	e.flags = EVF_TOTALS | EVF_ACTIVE;
	e.allocated = 1536;
	e.reserved = 20971520;
	e.active = 2048;
	e.stream = 0xabc;
	return e;
}

static struct event text_event(enum event_kind kind, const char *text)
{
	struct event e = ev(kind);

	e.text = text;
	e.text_len = (uint32_t)strlen(text);
	return e;
}

static struct event set_device(uint32_t tid, int32_t device)
{
	struct event e = on_thread(ev(EV_SET_DEVICE), tid);

	e.device = device;
	return e;
}

static void put(struct event e)
{
	cr_assert_eq(model__event(m, &e), 0);
}

/* The row that this event must give. */
static const struct row *row_of(struct event e)
{
	size_t before = n_rows;

	put(e);
	cr_assert_gt(n_rows, before, "no row for event kind %d", e.kind);
	cr_expect_eq(rows[n_rows - 1].time, e.time);
	cr_expect_eq(rows[n_rows - 1].pid, e.tgid);
	cr_expect_eq(rows[n_rows - 1].tid, e.tid);
	return &rows[n_rows - 1];
}

static struct model_counts counts(void)
{
	struct model_counts c;

	model__counts(m, &c);
	return c;
}

/* The event must give no row, but count for a rule. */
static void ruled_out(struct event e, enum rule rule)
{
	uint64_t before = counts().rules[rule];
	size_t n;

	cr_assert_eq(model__process(m, e.tgid, e.start, e.time), 0);
	n = n_rows;
	put(e);
	cr_expect_eq(n_rows, n, "a row for event kind %d", e.kind);
	cr_expect_eq(counts().rules[rule], before + 1, "%s", rule__name(rule));
}

static size_t rows_with(enum row_event event, enum row_type type)
{
	size_t i, n = 0;

	for (i = 0; i < n_rows; i++)
		n += rows[i].event == event && rows[i].type == type;
	return n;
}

static uint64_t pool_used(enum row_type type, int32_t device)
{
	struct pool_state p[64];
	size_t n = model__pools(m, p, MT_ARRAY_SIZE(p)), i;

	for (i = 0; i < n; i++)
		if (p[i].type == type && p[i].device == device)
			return p[i].used;
	return UINT64_MAX;
}

static struct event range(uint64_t id, const char *text)
{
	struct event e = text_event(EV_RANGE_START, text);

	e.key = id;
	return e;
}

static struct event range_end(uint64_t id)
{
	struct event e = ev(EV_RANGE_END);

	e.key = id;
	return e;
}

#pragma GCC diagnostic pop
#endif
