// SPDX-License-Identifier: Apache-2.0
/* Times in which something may be missing: inside the window, and each told once. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/scan.h"

static struct lost {
	uint64_t first, last;
	char reason[32];
	uint32_t pid;
} lost[16];
static size_t n_lost;
static struct session s;

bool target__is(struct session *session, pid_t pid, struct mt_target *t)
{
	(void)session;
	(void)pid;
	(void)t;
	return false;
}

static void on_row(void *ctx, const struct row *r)
{
	(void)ctx;
	if (r->type != ROW_LOST || r->device != DEV_NA)
		return;
	cr_assert_lt(n_lost, MT_ARRAY_SIZE(lost));
	lost[n_lost] = (struct lost){ r->lost_first, r->lost_last, "", r->pid };
	snprintf(lost[n_lost++].reason, sizeof(lost[0].reason), "%s", r->lost_reason);
}

static void begin(void)
{
	struct model_opts o = { 0 };
	struct model_ops ops = { .row = on_row };

	log__set_level(LOG_ERROR);
	memset(&s, 0, sizeof(s));
	n_lost = 0;
	s.model = model__new(&o, &ops, NULL);
	cr_assert(s.model);
	cr_assert_eq(model__process(s.model, 1000000000u, 5, 1), 0);
	s.t_attached = 1000;
}

static void end(void)
{
	session__free_gaps(&s);
	model__free(s.model);
}

TestSuite(gaps, .init = begin, .fini = end);

Test(gaps, notices_lost)
{
	session__note_unwatched(&s, 500);
	cr_assert_eq(s.n_gaps, 1);
	cr_expect_eq(s.gaps[0].first, 1000); /* not before the window */
	/* one that touches it and is not told yet: the same */
	session__note_unwatched(&s, 2000);
	cr_assert_eq(s.n_gaps, 1);
	session__gap_rows(&s, UINT64_MAX);
	cr_assert_eq(n_lost, 1);
	cr_expect_str_eq(lost[0].reason, "mapping notices lost");
	cr_expect_eq(lost[0].first, 1000);
	session__gap_rows(&s, UINT64_MAX);
	cr_expect_eq(n_lost, 1);
}

/* After the stop nothing is missing, and a gap that reaches behind it ends there. */
Test(gaps, behind_the_stop)
{
	struct probed_file f = { .path = (char *)"/l.so", .attach_time = 9000 };

	s.t_stop = 5000;
	session__note_unwatched(&s, 6000);
	session__note_unwatched(&s, 5000);
	session__note_late(&s, &f, "/l.so", 7, 6000);
	session__note_functions(&s, &f, "f", 7, 6000, 9000);
	session__note_process(&s, 7, 6000);
	cr_expect_eq(s.n_gaps, 0);
	session__note_unwatched(&s, 4000);
	session__note_unwatched(&s, 6000); /* nor does it change one that is there */
	cr_assert_eq(s.n_gaps, 1);
	cr_expect_eq(s.gaps[0].first, 4000);
	cr_expect_eq(s.gaps[0].last, 5000);
	session__note_late(&s, &f, "/l.so", 7, 4500);
	session__note_functions(&s, &f, "f", 7, 4500, 9000);
	session__note_process(&s, 7, 4500);
	cr_assert_eq(s.n_gaps, 4);
	session__gap_rows(&s, 5000);
	cr_assert_eq(n_lost, 4);
	while (n_lost--) {
		cr_expect_lt(lost[n_lost].first, lost[n_lost].last, "%s", lost[n_lost].reason);
		cr_expect_eq(lost[n_lost].last, 5000, "%s", lost[n_lost].reason);
	}
}

Test(gaps, late_process)
{
	uint32_t start;

	session__note_process(&s, getpid(), 3000);
	session__note_process(&s, getpid(), 4000); /* of another mapping */
	cr_assert_eq(s.n_gaps, 1);
	cr_expect_eq(s.gaps[0].kind, GAP_PROCESS);
	cr_expect_eq(s.gaps[0].first, 3000);
	cr_expect(!s.gaps[0].never);
	cr_assert_eq(proc__start(getpid(), &start), 0);
	cr_expect_eq(s.gaps[0].start, start);
	/* notices lost behind it are not it */
	session__note_unwatched(&s, 2000);
	cr_expect_eq(s.n_gaps, 2);
	s.t_stop = clock__boot();
	session__gap_rows(&s, s.t_stop);
	cr_assert_eq(n_lost, 2);
	cr_expect_str_eq(lost[0].reason, "late process");
	cr_expect_eq(lost[0].pid, (uint32_t)getpid());
}
