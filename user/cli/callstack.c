// SPDX-License-Identifier: Apache-2.0
/* --call-stack: its option, the stacks of a run, their cells in rows. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cli/msleaks_options.h"
#include "cli/session.h"
#include "symbol/stacks.h"

/* Frames of a stack when none are given: as many as there is room for. */
#define ALL 0
#define DEPTH_MAX 1000 /* of the vendor's option (msleaks.md 1.1) */
/* What a process had is known for so long after its end. */
#define KEEP_NS 10000000000ULL
/* Bytes of stacks a second of a process: 2048 copies, which take 0.3 s to unwind. */
#define COPY_RATE (32u << 20)
/* A process with torch and CUDA has 8 M rows: 3 s. */
#define TABLES_MS 20000

static int depth_of(const char *text, uint32_t *depth)
{
	char *end;
	unsigned long v;

	*depth = ALL;
	if (!text)
		return 0;
	v = strtoul(text, &end, 10);
	if (end == text || *end || v < 1 || v > DEPTH_MAX)
		return -EINVAL;
	*depth = (uint32_t)v;
	return 0;
}

int callstack__option(struct callstack_opts *o, const char *list)
{
	int err = *list ? 0 : -EINVAL;
	char word[32], *depth;
	const char *at = list;
	bool bad = false;

	while (!err && msleaks_list__word(&at, word, sizeof(word), &bad)) {
		depth = strchr(word, ':');
		if (depth)
			*depth++ = '\0';
		if (!strcmp(word, "c")) {
			err = o->mixed ? -EINVAL : depth_of(depth, &o->c_depth);
			o->c = true;
		} else if (!strcmp(word, "mixed")) {
			/* It takes the place of C stacks. */
			err = o->c ? -EINVAL : depth_of(depth, &o->c_depth);
			o->c = o->python = o->mixed = true;
		} else if (!strcmp(word, "python")) {
			o->python = true;
			err = depth_of(depth, &o->python_depth);
		} else {
			err = -EINVAL;
		}
	}
	return bad ? -EINVAL : err;
}

int callstack__check(const struct callstack_opts *o)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	if (!o->c && (o->lines || o->debuginfod)) {
		pr_err("%s: it is about C frames, and none are asked for: add --call-stack=c or "
		       "mixed",
		       o->lines ? "--lines" : "--debuginfod");
		return -EINVAL;
	}
	if (o->debuginfod && !(urls && *urls)) {
		pr_err("--debuginfod: DEBUGINFOD_URLS is not set: set it to the addresses of "
		       "servers, separated by blanks");
		return -EINVAL;
	}
	return 0;
}

/* Where rows of unwind tables are kept between runs; -1: nowhere. */
static int open_cache(void)
{
	const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char path[512];
	int fd;

	if (base && *base == '/')
		snprintf(path, sizeof(path), "%s/memtap/unwind", base);
	else if (home && *home == '/')
		snprintf(path, sizeof(path), "%s/.cache/memtap/unwind", home);
	else
		return -1;
	fd = unwind_cache__open(path);
	if (fd < 0)
		pr_debug("unwind tables are not kept in %s: %s", path, strerror(-fd));
	return fd < 0 ? -1 : fd;
}

int callstack__open(struct session *s)
{
	const struct callstack_opts *c = &s->opts.stacks;
	const char *why = progs__no_stacks(s->progs);
	struct stacks_opts o = { .c = c->c,
				 .python = c->python,
				 .mixed = c->mixed,
				 .lines = c->lines,
				 .c_depth = c->c_depth,
				 .python_depth = c->python_depth,
				 .keep_ns = KEEP_NS,
				 .cache = -1 };
	const char *keep = getenv("MEMTAP_KEEP_MS"); /* tests: forgets processes sooner */

	if (!c->c && !c->python)
		return 0;
	if (why) {
		pr_warn("--call-stack: %s; rows will have no call stacks", why);
		s->no_stacks = why;
		return 0;
	}
	if (keep)
		o.keep_ns = strtoull(keep, NULL, 10) * 1000000;
	o.maps.unwind.chunks = progs__map(s->progs, "uw_chunks");
	o.maps.unwind.pages = progs__map(s->progs, "uw_pages");
	o.maps.unwind.rules = progs__map(s->progs, "uw_rules");
	o.maps.unwind.maps = progs__map(s->progs, "uw_maps");
	o.maps.unwind.procs = progs__map(s->progs, "uw_procs");
	o.maps.known = progs__map(s->progs, "uw_known");
	o.maps.ends = progs__map(s->progs, "uw_ends");
	o.maps.copies = progs__map(s->progs, "uw_copies");
	o.maps.changes = progs__map(s->progs, "uw_changes");
	o.maps.targets = s->targets_fd;
	o.maps.py_procs = progs__map(s->progs, "py_procs");
	o.maps.py_known = progs__map(s->progs, "py_known");
	o.maps.py_ends = progs__map(s->progs, "py_ends");
	if (c->c)
		o.cache = open_cache();
	/* As good as it gets where the kernel has none yet. */
	if (getrandom(s->cfg.stack_seed, sizeof(s->cfg.stack_seed), GRND_NONBLOCK) < 0)
		s->cfg.stack_seed[0] = s->cfg.stack_seed[1] = clock__real();
	s->cfg.stacks = (c->c ? MT_STACKS_C : 0) | (c->python ? MT_STACKS_PY : 0);
	if (c->c && s->opts.stack_bytes) {
		const char *rate = getenv("MEMTAP_COPY_RATE"); /* tests: makes it be exceeded */

		s->cfg.stack_bytes = s->opts.stack_bytes;
		s->cfg.copy_rate = rate ? strtoull(rate, NULL, 10) : COPY_RATE;
	}
	/* To be merged they must be whole. */
	s->cfg.c_frames = c->c_depth && !c->mixed ? MT_MIN(c->c_depth, MT_UW_MAX_FRAMES)
						  : MT_UW_MAX_FRAMES;
	s->cfg.py_frames = c->python_depth && !c->mixed ? MT_MIN(c->python_depth, MT_PY_DEPTH)
							: MT_PY_DEPTH;
	return stacks__new(&o, &s->stacks);
}

void callstack__targets(struct session *s)
{
	uint32_t key, *prev = NULL;

	if (!s->stacks)
		return;
	/* With -a there are none: those that have a library of interest, as they are found. */
	while (!bpf_map_get_next_key(s->targets_fd, prev, &key)) {
		prev = &key;
		stacks__process(s->stacks, (pid_t)key);
	}
}

static bool interrupted(void *ctx)
{
	return session__interrupted(ctx);
}

static void fetch_debug_files(struct session *s)
{
	uint64_t t0 = clock__boot();
	unsigned int asked;
	int n = stacks__fetch(s->stacks, s->opts.stacks.debuginfod * 1000, interrupted, s, &asked);

	if (n == -EINTR)
		return;
	if (n == -EOPNOTSUPP)
		pr_warn("--debuginfod: libdebuginfod.so.1 is not installed (Debian: "
			"libdebuginfod1); no debug "
			"files were asked for");
	else if (n < 0)
		pr_warn("--debuginfod: no debug file within %u s", s->opts.stacks.debuginfod);
	else
		pr_info("debuginfod: %d of %u debug files, in %.0f ms", n, asked,
			(double)(clock__boot() - t0) / 1e6);
}

void callstack__wait(struct session *s)
{
	struct stacks_stats st;
	uint64_t t0 = clock__boot();

	if (!s->stacks)
		return;
	if (!stacks__wait(s->stacks, TABLES_MS))
		pr_warn("unwind tables are still being made after %d s: stacks of code without "
			"them "
			"are cut until they are there",
			TABLES_MS / 1000);
	if (s->opts.stacks.debuginfod)
		fetch_debug_files(s);
	stacks__stats(s->stacks, &st);
	if (s->opts.stacks.c)
		pr_info("unwind tables: %u of %u files, %.1f M rows, %u from the cache, in %.0f ms",
			st.unwind.tables, st.unwind.files, (double)st.unwind.rows / 1e6,
			st.unwind.cached, (double)(clock__boot() - t0) / 1e6);
}

/* What cannot wait for its time. */
static void on_early(void *ctx, const void *rec, size_t size, bool late)
{
	const struct mt_hdr *h = rec;
	struct session *s = ctx;

	switch (h->type) {
	case MT_REC_STACK:
	case MT_REC_PYSTACK:
	case MT_REC_COPY:
	case MT_REC_COPY_PIECE:
		if (s->stacks && stacks__define(s->stacks, rec, size))
			s->stacks_bad++;
		break;
	case MT_REC_EXEC:
		if (s->stacks)
			stacks__exec(s->stacks, (pid_t)h->tgid, h->start, h->time);
		break;
	case MT_REC_FORK:
		if (s->stacks && size >= sizeof(struct mt_task))
			stacks__forked(s->stacks, (pid_t)((const struct mt_task *)rec)->ptgid,
				       (pid_t)h->tgid, h->start);
		break;
	case MT_REC_EXIT:
		if (s->stacks)
			stacks__gone(s->stacks, (pid_t)h->tgid);
		break;
	}
}

void callstack__early(struct session *s)
{
	drain__early(s->drain, on_early, s);
	if (s->stacks)
		stacks__tick(s->stacks, drain__handed_out(s->drain));
}

void callstack__mapped(struct session *s, pid_t pid)
{
	if (s->stacks)
		stacks__process(s->stacks, pid);
}

void callstack__cells(void *ctx, struct row *r)
{
	struct session *s = ctx;
	struct mt_refs refs = { r->stack_c, r->stack_py };
	struct stack_cells cells;

	if (!s->stacks)
		return;
	stacks__cells(s->stacks, r->pid, r->start, r->time - (uint64_t)s->boot_to_real, &refs,
		      &cells);
	r->cell_py = cells.python;
	r->cell_py_len = cells.python_len;
	r->cell_c = cells.c;
	r->cell_c_len = cells.c_len;
}
