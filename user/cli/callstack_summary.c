// SPDX-License-Identifier: Apache-2.0
/* What the summary says of call stacks: how many, how complete, why not. */
#include <cJSON.h>
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/session.h"
#include "symbol/stacks.h"

/* Of 100, rounded down: a stack that is missing must be seen. */
static double percent(uint64_t part, uint64_t whole)
{
	uint64_t hundredths = whole ? part * 10000 / whole : 10000;

	return (double)hundredths / 100;
}

static void print_copies(const struct stacks_stats *st, FILE *f)
{
	uint64_t unused = st->copied[MT_COPY_BUDGET], ring = st->copied[MT_COPY_RING];

	if (st->completed)
		fprintf(f, "    completed from copies: %" PRIu64 "\n", st->completed);
	if (st->copies_useless || st->copies_longer)
		fprintf(f,
			"    copies that did not complete their stack: %" PRIu64 ", %" PRIu64
			" of them with more frames\n",
			st->copies_useless + st->copies_longer, st->copies_longer);
	if (unused || ring || st->copies_dropped)
		fprintf(f,
			"    not copied: %" PRIu64 " above the rate, %" PRIu64
			" without room in the ring, %" PRIu64 " without memory\n",
			unused, ring, st->copies_dropped);
}

/* What was not to be had when it was wanted. */
static void print_room(const struct stacks_stats *st, FILE *f)
{
	const struct unwind_stats *u = &st->unwind;

	if (u->evicted || u->no_room || u->too_large)
		fprintf(f,
			"    unwind tables without room: %u files, %u taken away, %u larger than "
			"one "
			"may be\n",
			u->no_room, u->evicted, u->too_large);
	if (u->maps_waited || u->procs_lost || u->maps_over)
		fprintf(f,
			"    mappings without room: waited for %" PRIu64
			" times, of %u processes none to the end; %u of one process beyond %u\n",
			u->maps_waited, u->procs_lost, u->maps_over, 1U << MT_UW_MAPS_SHIFT);
	if (st->held_back || st->notices_lost)
		fprintf(f,
			"    processes that map without end: read later %" PRIu64 " times; %" PRIu64
			" mappings not noted\n",
			st->held_back, st->notices_lost);
}

static void print_c(const struct stacks_stats *st, bool limited, FILE *f)
{
	uint64_t all = st->unsent, complete = 0;
	unsigned int i;

	for (i = 1; i < MT_END_MAX; i++) {
		all += st->ends[i];
		if (stack_end__complete(i) || (limited && i == MT_END_DEEP))
			complete += st->ends[i];
	}
	fprintf(f, "  C stacks: %" PRIu64 ", %.2f %% complete%s; %" PRIu64 " different ones\n", all,
		percent(complete, all), limited ? " or as deep as asked for" : "", st->kept);
	for (i = 1; i < MT_END_MAX; i++)
		if (st->ends[i] && !stack_end__complete(i) && !(limited && i == MT_END_DEEP))
			fprintf(f, "    cut, %s: %" PRIu64 "\n", stack_end__text(i), st->ends[i]);
	if (st->unsent)
		fprintf(f, "    lost, no room in the ring: %" PRIu64 "\n", st->unsent);
	print_copies(st, f);
	if (st->guessed)
		fprintf(f,
			"    with frames by frame pointers, without tables: %" PRIu64 " of the "
			"different ones\n",
			st->guessed);
	print_room(st, f);
}

static void print_python(const struct stacks_stats *st, bool limited, FILE *f)
{
	uint64_t all = st->py_unsent, have = 0;
	unsigned int i;

	for (i = 0; i < MT_PY_WHY_MAX; i++) {
		all += st->py[i];
		if (i == MT_PY_OK || (limited && i == MT_PY_TOO_DEEP))
			have += st->py[i];
	}
	fprintf(f,
		"  Python stacks: %" PRIu64 " of %" PRIu64 " events%s; %" PRIu64
		" different ones\n",
		have, all, limited ? ", as deep as asked for" : "", st->py_kept);
	for (i = 1; i < MT_PY_WHY_MAX; i++)
		if (st->py[i] && !(limited && i == MT_PY_TOO_DEEP))
			fprintf(f, "    %s, %s: %" PRIu64 "\n",
				i == MT_PY_UNREADABLE || i == MT_PY_TOO_DEEP ? "cut" : "none",
				python__reason(i), st->py[i]);
	if (st->py_unsent)
		fprintf(f, "    lost, no room in the ring: %" PRIu64 "\n", st->py_unsent);
	if (st->unnamed)
		fprintf(f,
			"    frames without a name: %" PRIu64 ", %" PRIu64
			" of them in memory that does not answer\n",
			st->unnamed, st->unanswered);
	if (st->silent)
		fprintf(f,
			"    interpreters that could not be looked at, memory does not answer: "
			"%u\n",
			st->silent);
}

static void print_mixed(const struct stacks_stats *st, FILE *f)
{
	uint64_t apart = 0;
	unsigned int i;

	for (i = STACK_NO_LOOP; i < STACK_MERGES; i++)
		apart += st->merged[i];
	fprintf(f,
		"  mixed stacks: %" PRIu64 " rows merged, %" PRIu64 " without Python, %" PRIu64
		" shown separately\n",
		st->merged[STACK_MERGED], st->merged[STACK_NO_PYTHON], apart);
	for (i = STACK_NO_LOOP; i < STACK_MERGES; i++)
		if (st->merged[i])
			fprintf(f, "    separately, %s: %" PRIu64 "\n", stack_merge__text(i),
				st->merged[i]);
}

void callstack__print(struct session *s, FILE *f)
{
	struct stacks_stats st;

	if (!s->stacks) {
		fprintf(f, "  stacks: %s\n", s->no_stacks ? s->no_stacks : "none asked for");
		return;
	}
	stacks__stats(s->stacks, &st);
	if (s->opts.stacks.c)
		print_c(&st, s->opts.stacks.c_depth && !s->opts.stacks.mixed, f);
	if (s->opts.stacks.python)
		print_python(&st, s->opts.stacks.python_depth && !s->opts.stacks.mixed, f);
	if (s->opts.stacks.mixed)
		print_mixed(&st, f);
	if (s->opts.stacks.lines)
		fprintf(f, "  source lines: of %" PRIu64 " frames, none of %" PRIu64 "\n",
			st.sources, st.no_source);
	if (st.collisions || st.unknown || s->stacks_bad)
		fprintf(f,
			"    shown as NA: %" PRIu64
			" cells; stacks with the hash of another: %" PRIu64 ", malformed %" PRIu64
			"\n",
			st.unknown, st.collisions, s->stacks_bad);
	fprintf(f, "    kept: %s, %s of names; %" PRIu64 " given up\n", cli__bytes(st.bytes),
		cli__bytes(st.symbols.bytes), st.evicted);
}

static void add(cJSON *o, const char *name, uint64_t v)
{
	char buf[24];

	snprintf(buf, sizeof(buf), "%" PRIu64, v);
	cJSON_AddRawToObject(o, name, buf);
}

void callstack__json(struct session *s, cJSON *top)
{
	cJSON *o = cJSON_AddObjectToObject(top, "stacks"), *cut;
	struct stacks_stats st;
	uint64_t complete = 0;
	unsigned int i;

	if (!s->stacks) {
		if (s->no_stacks)
			cJSON_AddStringToObject(o, "why", s->no_stacks);
		return;
	}
	stacks__stats(s->stacks, &st);
	for (i = 1; i < MT_END_MAX; i++)
		complete += stack_end__complete(i) ? st.ends[i] : 0;
	add(o, "c_complete", complete);
	cut = cJSON_AddObjectToObject(o, "c_cut");
	for (i = 1; i < MT_END_MAX; i++)
		if (st.ends[i] && !stack_end__complete(i))
			add(cut, stack_end__text(i), st.ends[i]);
	add(o, "c_lost", st.unsent);
	add(o, "c_from_copies", st.completed);
	add(o, "c_copies", st.copied[MT_COPY_TAKEN]);
	add(o, "c_copies_useless", st.copies_useless);
	add(o, "c_copies_longer", st.copies_longer);
	add(o, "c_not_copied",
	    st.copied[MT_COPY_BUDGET] + st.copied[MT_COPY_RING] + st.copies_dropped);
	add(o, "c_different", st.kept);
	add(o, "c_guessed", st.guessed);
	add(o, "python", st.py[MT_PY_OK]);
	cut = cJSON_AddObjectToObject(o, "python_not");
	for (i = 1; i < MT_PY_WHY_MAX; i++)
		if (st.py[i])
			add(cut, python__reason(i), st.py[i]);
	add(o, "python_lost", st.py_unsent);
	add(o, "python_different", st.py_kept);
	add(o, "python_unnamed", st.unnamed);
	add(o, "python_unanswered", st.unanswered);
	add(o, "python_silent", st.silent);
	if (s->opts.stacks.mixed) {
		add(o, "mixed", st.merged[STACK_MERGED]);
		add(o, "mixed_no_python", st.merged[STACK_NO_PYTHON]);
		cut = cJSON_AddObjectToObject(o, "mixed_not");
		for (i = STACK_NO_LOOP; i < STACK_MERGES; i++)
			if (st.merged[i])
				add(cut, stack_merge__text(i), st.merged[i]);
	}
	if (s->opts.stacks.lines) {
		add(o, "source_frames", st.sources);
		add(o, "source_not", st.no_source);
		add(o, "source_bytes", st.source_bytes);
	}
	add(o, "unknown_cells", st.unknown);
	add(o, "collisions", st.collisions);
	add(o, "given_up", st.evicted);
	add(o, "malformed", s->stacks_bad);
	add(o, "kept_bytes", st.bytes);
	add(o, "programs", st.programs);
	add(o, "name_bytes", st.symbols.bytes);
	add(o, "unwind_rows", st.unwind.rows);
	add(o, "unwind_files", st.unwind.tables);
	add(o, "unwind_cached", st.unwind.cached);
	add(o, "unwind_evicted", st.unwind.evicted);
	add(o, "unwind_no_room", st.unwind.no_room);
	add(o, "unwind_too_large", st.unwind.too_large);
	add(o, "maps_waited", st.unwind.maps_waited);
	add(o, "maps_lost", st.unwind.procs_lost);
	add(o, "maps_over", st.unwind.maps_over);
	add(o, "held_back", st.held_back);
	add(o, "notices_lost", st.notices_lost);
}
