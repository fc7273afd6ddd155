// SPDX-License-Identifier: Apache-2.0
/* What the summary says of the host's memory. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/host.h"

void host__print(struct session *s, FILE *f)
{
	struct host_stats st;

	host__stats(s, &st);
	if (st.missed)
		fprintf(f,
			"  HOST: the first %.0f us on average (at most %.0f us) of %" PRIu64
			" %s are not recorded%s\n",
			(double)st.missed_ns / 1e3 / (double)st.missed, (double)st.most_ns / 1e3,
			st.missed,
			s->opts.host.mode == MT_HOST_ALWAYS ? "processes that came later"
							    : "ranges",
			s->opts.host.mode == MT_HOST_RANGES && !s->opts.host.exact
				? " (--exact-ranges stops the process meanwhile)"
				: "");
	if (st.stopped)
		fprintf(f,
			"  HOST: %" PRIu64
			" ranges are recorded from their beginning; the process was stopped for "
			"%.0f us on average, at most %.0f us\n",
			st.stopped, (double)st.stopped_ns / 1e3 / (double)st.stopped,
			(double)st.stopped_most_ns / 1e3);
	if (st.late)
		fprintf(f, "  HOST: processes that the watchdog continued: %" PRIu64 "\n", st.late);
	if (st.refused)
		fprintf(f,
			"  HOST: ranges for which the process was not stopped, for a debugger has "
			"it, "
			"another stops it or it is another user's: %" PRIu64 "\n",
			st.refused);
	if (st.left)
		fprintf(f,
			"  HOST: processes that were stopped by another meanwhile, and stay so: "
			"%" PRIu64 "\n",
			st.left);
	if (st.failed)
		fprintf(f, "  HOST: ranges of which nothing is recorded: %" PRIu64 "\n", st.failed);
	if (st.notes_lost)
		fprintf(f,
			"  HOST: notices of ranges that were lost: %" PRIu64
			"; nothing of them is recorded\n",
			st.notes_lost);
}

static void add(cJSON *o, const char *name, uint64_t v)
{
	cJSON_AddNumberToObject(o, name, (double)v);
}

void host__json(struct session *s, struct cJSON *top)
{
	static const char *const modes[] = { "none", "ranges", "all" };
	cJSON *o = cJSON_AddObjectToObject(top, "host_memory");
	struct host_stats st;

	host__stats(s, &st);
	cJSON_AddStringToObject(o, "mode", modes[s->opts.host.mode]);
	cJSON_AddBoolToObject(o, "exact", s->opts.host.exact);
	add(o, "ranges", st.ranges);
	add(o, "missed", st.missed);
	add(o, "missed_ns", st.missed_ns);
	add(o, "missed_most_ns", st.most_ns);
	add(o, "stopped", st.stopped);
	add(o, "stopped_ns", st.stopped_ns);
	add(o, "stopped_most_ns", st.stopped_most_ns);
	add(o, "continued_by_watchdog", st.late);
	add(o, "not_stopped", st.refused);
	add(o, "left_stopped", st.left);
	add(o, "failed", st.failed);
	add(o, "notes_lost", st.notes_lost);
}
