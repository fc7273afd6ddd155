// SPDX-License-Identifier: Apache-2.0
/*
 * BPF objects: all programs as one object where that loads; else each traced
 * layer by itself over shared maps, so that one that does not load leaves the
 * others.
 */
#include "probe/probe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "memtap/event.h"
#include "probe/kernel.h"
#include "probe/progs.h"
#include "target/target.h"

#include "acl.skel.h"
#include "atb.skel.h"
#include "aten.skel.h"
#include "hal.skel.h"
#include "host.skel.h"
#include "lifecycle.skel.h"
#include "merged.skel.h"
#include "mindspore.skel.h"
#include "mstx.skel.h"
#include "pta.skel.h"
#include "pymark.skel.h"
#include "runtime.skel.h"
#include "stacked.skel.h"
#include "stacked_awake.skel.h"
#include "stacked_cpu.skel.h"

/* The object that is loaded first owns the maps. */
static const struct {
	const char *name;
	const void *(*bytes)(size_t *);
} layers[] = {
	{ "memtap", merged_bpf__elf_bytes },
	{ "lifecycle", lifecycle_bpf__elf_bytes },
	{ "hal", hal_bpf__elf_bytes },
	{ "acl", acl_bpf__elf_bytes },
	{ "runtime", runtime_bpf__elf_bytes },
	{ "pta", pta_bpf__elf_bytes },
	{ "mstx", mstx_bpf__elf_bytes },
	{ "pymark", pymark_bpf__elf_bytes },
	{ "mindspore", mindspore_bpf__elf_bytes },
	{ "aten", aten_bpf__elf_bytes },
	{ "atb", atb_bpf__elf_bytes },
	{ "host", host_bpf__elf_bytes },
	{ "stacked", stacked_bpf__elf_bytes },
	{ "stacked_awake", stacked_awake_bpf__elf_bytes },
	{ "stacked_cpu", stacked_cpu_bpf__elf_bytes },
};

#define MERGED 0 /* all programs */
#define FIRST 1 /* the layers, one by one */
#define STACKED (MT_ARRAY_SIZE(layers) - 3) /* all programs, with call stacks */
#define STACKED_AWAKE (MT_ARRAY_SIZE(layers) - 2) /* the same, where they may not sleep */
#define STACKED_CPU (MT_ARRAY_SIZE(layers) - 1) /* the same, for kernels without bpf_loop */

static bool is_whole(size_t layer)
{
	return layer == MERGED || layer >= STACKED;
}

/* What libbpf said last: the reason that a message quotes. */
static char last_libbpf[256];

/* The verifier's verdict: the last line of its log before the statistics. */
static void keep_verdict(char *log)
{
	char *end = strstr(log, "\nprocessed "), *line;

	if (!end)
		return;
	*end = '\0';
	line = strrchr(log, '\n');
	snprintf(last_libbpf, sizeof(last_libbpf), "%.250s", line ? line + 1 : log);
	*end = '\n';
}

static int on_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char *text = NULL, *line, *save = NULL;

	if (level == LIBBPF_DEBUG || vasprintf(&text, fmt, ap) < 0)
		return 0;
	if (strstr(text, "BEGIN PROG LOAD LOG"))
		keep_verdict(text);
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		pr_debug("%s", line);
	free(text);
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

static int add_obj(struct progs *p, struct bpf_object *obj)
{
	void *n = realloc(p->objs, (p->n_objs + 1) * sizeof(*p->objs));

	if (!n)
		return -ENOMEM;
	p->objs = n;
	p->objs[p->n_objs++] = obj;
	return 0;
}

static int add_prog(struct progs *p, struct bpf_program *base, const char *name, const char *why)
{
	void *n = realloc(p->progs, (p->n_progs + 1) * sizeof(*p->progs));

	if (!n)
		return -ENOMEM;
	p->progs = n;
	p->progs[p->n_progs] = (struct prog){ .name = name, .base = base };
	if (why)
		p->progs[p->n_progs].why = strdup(why);
	p->n_progs++;
	return 0;
}

/* Mode of all programs when each site brings its number as a cookie; 0 = they need clones. */
static uint32_t ready_mode(const struct progs *p)
{
	const struct features *f = p->features;
	uint32_t mode = MT_MODE_COOKIE |
			(features__has(f, FEAT_SLEEPABLE) ? MT_MODE_SLEEPABLE : 0) |
			(features__has(f, FEAT_SESSION) ? MT_MODE_LONG : 0) |
			(p->opts.tensors ? MT_MODE_TENSORS : 0);

	/* The verifier takes its time with the walks: once will do. */
	if (p->opts.stacks && features__has(f, FEAT_COOKIE))
		return mode | (p->opts.cgroup ? MT_MODE_CGROUP : 0);
	if (p->opts.cgroup || !features__has(f, FEAT_MULTI) || !features__has(f, FEAT_COOKIE))
		return 0;
	return mode;
}

static uint32_t ready_type(const struct progs *p, const char *name)
{
	if (!features__has(p->features, FEAT_MULTI))
		return 0;
	return ends_with(name, "_s") ? MT_BPF_TRACE_UPROBE_SESSION : MT_BPF_TRACE_UPROBE_MULTI;
}

/* Before the load: what a clone would be, so that the verifier looks at it once. */
static int make_ready(const struct progs *p, struct bpf_program *prog, uint32_t mode)
{
	size_t n = bpf_program__insn_cnt(prog);
	struct bpf_insn *insns = malloc(n * sizeof(*insns));
	int err;

	if (!insns)
		return -ENOMEM;
	memcpy(insns, bpf_program__insns(prog), n * sizeof(*insns));
	prog__patch(insns, n, MT_PATCH_MODE, mode);
	err = bpf_program__set_insns(prog, insns, n);
	free(insns);
	if (err)
		return err;
	if (mode & MT_MODE_SLEEPABLE)
		bpf_program__set_flags(prog, BPF_F_SLEEPABLE);
	return bpf_program__set_expected_attach_type(
		prog, (enum bpf_attach_type)ready_type(p, bpf_program__name(prog)));
}

/* NAME_e and NAME_r are not wanted where sessions work and NAME_s is there. */
static bool replaced(const struct progs *p, struct bpf_object *obj, const char *name)
{
	char s[32];

	if (!features__has(p->features, FEAT_SESSION) ||
	    !(ends_with(name, "_e") || ends_with(name, "_r")))
		return false;
	snprintf(s, sizeof(s), "%.*s_s", (int)strlen(name) - 2, name);
	return bpf_object__find_program_by_name(obj, s) != NULL;
}

/* A name, or with a * at its end the beginning of names. */
static bool matches(const char *pattern, const char *name)
{
	size_t n = strcspn(pattern, "*");

	return pattern[n] ? strncmp(pattern, name, n) == 0 : strcmp(pattern, name) == 0;
}

/* Programs that are loaded only when they are asked for, whether or not stacks are walked. */
static const char *asked_group(const char *name)
{
	static const char *const groups[] = { "aten_*", "atens_*", "atb_*" };
	size_t i;

	for (i = 0; name && i < MT_ARRAY_SIZE(groups); i++)
		if (matches(groups[i], name))
			return groups[i];
	return NULL;
}

/*
 * Programs that walk stacks take the verifier 50 ms each: those of functions that
 * few processes have are loaded when one is met. The group that is loaded with it.
 */
static const char *rare_group(size_t layer, const char *name)
{
	static const char *const groups[] = { "ms_*",  "pta_alloc_*", "pta_free_*",
					      "c10_*", "host_*",      "life_map" };
	size_t i;

	if (asked_group(name))
		return asked_group(name);
	for (i = 0; layer >= STACKED && i < MT_ARRAY_SIZE(groups); i++)
		if (matches(groups[i], name))
			return groups[i];
	return NULL;
}

static int prepare(struct progs *p, struct bpf_object *obj, size_t layer, const char *only)
{
	bool ready = is_whole(layer) && (!only || layer >= STACKED || asked_group(only));
	uint32_t mode = ready ? ready_mode(p) : 0;
	struct bpf_program *prog;
	struct bpf_map *map;
	int err;

	bpf_object__for_each_program(prog, obj)
	{
		const char *name = bpf_program__name(prog);
		bool on = ends_with(name, "_s") ? features__has(p->features, FEAT_SESSION) : true;

		if (only)
			on = matches(only, name);
		else if (is_whole(layer) && (replaced(p, obj, name) || rare_group(layer, name)))
			on = false;
		bpf_program__set_autoload(prog, on);
		if (ends_with(name, "_s"))
			bpf_program__set_expected_attach_type(
				prog, (enum bpf_attach_type)MT_BPF_TRACE_UPROBE_SESSION);
		if (!on || !mode || bpf_program__type(prog) != BPF_PROG_TYPE_KPROBE)
			continue;
		err = make_ready(p, prog, mode);
		if (err)
			return err;
	}
	bpf_object__for_each_map(map, obj)
	{
		const char *name = bpf_map__name(map);

		if (p->n_objs) {
			int fd = bpf_object__find_map_fd_by_name(p->objs[0], name);

			err = fd < 0 ? 0 : bpf_map__reuse_fd(map, fd);
			if (err)
				return err;
			continue;
		}
		if (strcmp(name, "events") == 0)
			bpf_map__set_max_entries(map, p->opts.ring_bytes);
		if (strcmp(name, "ops") == 0 && p->opts.ops)
			bpf_map__set_max_entries(map, MT_MAX_OPS);
		if ((strcmp(name, "inflight") == 0 || strcmp(name, "guards") == 0) &&
		    p->opts.inflight_max)
			bpf_map__set_max_entries(map, p->opts.inflight_max);
	}
	return 0;
}

/* One object; `only` restricts it to what it matches. */
static int load_one(struct progs *p, size_t layer, const char *only, struct bpf_object **out)
{
	struct bpf_object *obj = NULL;
	size_t size;
	const void *bytes = layers[layer].bytes(&size);
	LIBBPF_OPTS(bpf_object_open_opts, o, .object_name = layers[layer].name);
	int err;

	last_libbpf[0] = '\0';
	obj = bpf_object__open_mem(bytes, size, &o);
	if (!obj)
		return -errno;
	err = prepare(p, obj, layer, only);
	if (!err)
		err = bpf_object__load(obj);
	if (err) {
		bpf_object__close(obj);
		return err;
	}
	*out = obj;
	return add_obj(p, obj);
}

/* Everything as one object. Leaves nothing behind when that does not load. */
static int load_merged(struct progs *p)
{
	uint32_t mode = ready_mode(p);
	struct bpf_program *prog;
	struct bpf_object *obj = NULL;
	int err = load_one(p, p->whole, NULL, &obj);

	if (err)
		return err;
	bpf_object__for_each_program(prog, obj)
	{
		const char *name = bpf_program__name(prog);
		bool on = bpf_program__autoload(prog);
		struct prog *g;

		if (!on && !replaced(p, obj, name) && !rare_group(p->whole, name))
			continue;
		err = add_prog(p, on ? prog : NULL, name, NULL);
		if (err)
			return err;
		g = &p->progs[p->n_progs - 1];
		g->lazy = !on;
		if (on && mode && bpf_program__type(prog) == BPF_PROG_TYPE_KPROBE) {
			g->ready = true;
			g->attach_type = ready_type(p, name);
			g->mode = mode;
		}
	}
	return 0;
}

static int load_layer(struct progs *p, size_t layer)
{
	struct bpf_object *obj = NULL, *names = NULL;
	struct bpf_program *prog;
	const void *bytes;
	size_t size;
	int err;

	err = load_one(p, layer, NULL, &obj);
	if (!err) {
		bpf_object__for_each_program(prog, obj)
		{
			if (bpf_program__autoload(prog))
				err = add_prog(p, prog, bpf_program__name(prog), NULL);
			if (err)
				return err;
		}
		return 0;
	}
	if (layer == FIRST)
		return err;
	/* One of them does not load: find out which, keep the others. */
	bytes = layers[layer].bytes(&size);
	names = bpf_object__open_mem(bytes, size, NULL);
	if (!names)
		return -errno;
	if (add_obj(p, names)) { /* owns the names */
		bpf_object__close(names);
		return -ENOMEM;
	}
	bpf_object__for_each_program(prog, names)
	{
		const char *name = bpf_program__name(prog);

		if (ends_with(name, "_s") && !features__has(p->features, FEAT_SESSION))
			continue;
		err = load_one(p, layer, name, &obj);
		if (err) {
			char why[320];

			snprintf(why, sizeof(why), "%s%s%s", strerror(-err),
				 last_libbpf[0] ? ": " : "", last_libbpf);
			pr_debug("program %s does not load: %s", name, why);
			err = add_prog(p, NULL, name, why);
		} else {
			err = add_prog(p, bpf_object__find_program_by_name(obj, name), name, NULL);
		}
		if (err)
			return err;
	}
	return 0;
}

static int explain(int err)
{
	if (err == -EPERM || err == -EACCES)
		pr_err("loading BPF programs: not permitted; needs CAP_BPF and CAP_PERFMON, before "
		       "kernel 5.11 also CAP_SYS_RESOURCE%s (man memtap, CAPABILITIES)",
		       userns__is_initial() ? ""
					    : "; in a user namespace they do not count: run "
					      "memtap outside of it");
	else
		pr_err("loading BPF programs: %s%s%s (memtap check tells what this kernel lacks)",
		       strerror(-err), last_libbpf[0] ? ": " : "", last_libbpf);
	return err;
}

static int load_layers(struct progs *p)
{
	size_t i;
	int err = 0;

	for (i = FIRST; i < STACKED && !err; i++) {
		err = load_layer(p, i);
		if (err && i == FIRST)
			explain(err);
	}
	return err;
}

/*
 * Without bpf_loop the walks have a place for each CPU, and need programs that are
 * not preempted: before 6.0, which is when they may sleep.
 */
static bool can_walk(const struct progs *p)
{
	return features__has(p->features, FEAT_LOOP) || p->features->state[FEAT_SLEEPABLE] == 0;
}

static size_t stacked_layer(const struct features *f)
{
	if (!features__has(f, FEAT_LOOP))
		return STACKED_CPU;
	return features__has(f, FEAT_SLEEPABLE) ? STACKED : STACKED_AWAKE;
}

int progs__load(const struct progs_opts *opts, const struct features *f, struct progs **out)
{
	struct progs *p = calloc(1, sizeof(*p));
	int err;

	*out = NULL;
	if (!p)
		return -ENOMEM;
	p->features = f;
	p->opts = *opts;
	libbpf_set_print(on_libbpf);
	if (opts->stacks && !can_walk(p)) {
		p->opts.stacks = false;
		p->no_stacks = "this kernel has no bpf_loop (5.17)";
	} else if (opts->stacks && features__has(f, FEAT_LOOP) && !features__has(f, FEAT_COOKIE)) {
		p->opts.stacks = false;
		p->no_stacks = "this kernel has no attach cookies (5.15)";
	} else if (opts->stacks) {
		p->whole = stacked_layer(f);
		err = load_merged(p);
		if (!err)
			goto done;
		if (p->n_objs)
			goto fail;
		p->opts.stacks = false;
		snprintf(p->verdict, sizeof(p->verdict), "their programs do not load: %s%s%s",
			 strerror(-err), last_libbpf[0] ? ": " : "", last_libbpf);
		p->no_stacks = p->verdict;
	} else {
		p->no_stacks = "not asked for";
	}
	p->whole = MERGED;
	err = load_merged(p);
	if (err && !p->n_objs) {
		pr_debug("not all programs load (%s): layer by layer", strerror(-err));
		err = load_layers(p);
	}
	if (err)
		goto fail;
done:
	*out = p;
	return 0;
fail:
	progs__free(p);
	return err;
}

const char *progs__no_stacks(const struct progs *p)
{
	return p->no_stacks;
}

void progs__free(struct progs *p)
{
	size_t i;

	if (!p)
		return;
	progs__lifecycle_stop(p);
	for (i = 0; i < p->n_clones; i++)
		close(p->clones[i].fd);
	for (i = 0; i < p->n_progs; i++)
		free(p->progs[i].why);
	for (i = p->n_objs; i > 0; i--)
		bpf_object__close(p->objs[i - 1]);
	free(p->objs);
	free(p->progs);
	free(p->clones);
	free(p);
}

int progs__map(const struct progs *p, const char *name)
{
	return bpf_object__find_map_fd_by_name(p->objs[0], name);
}

static void load_lazy(struct progs *p, struct prog *wanted)
{
	const char *group = rare_group(p->whole, wanted->name);
	struct bpf_object *obj = NULL;
	int err = load_one(p, p->whole, group ? group : wanted->name, &obj);
	size_t i;

	for (i = 0; i < p->n_progs; i++) {
		struct prog *g = &p->progs[i];

		if (!g->lazy || !matches(group ? group : wanted->name, g->name))
			continue;
		g->lazy = false;
		if (err)
			g->why = strdup(strerror(-err));
		else
			g->base = bpf_object__find_program_by_name(obj, g->name);
		if (g->base && (p->whole >= STACKED || asked_group(g->name)) && ready_mode(p) &&
		    bpf_program__type(g->base) == BPF_PROG_TYPE_KPROBE) {
			g->ready = true;
			g->attach_type = ready_type(p, g->name);
			g->mode = ready_mode(p);
		}
	}
}

const struct prog *progs__find(struct progs *p, const char *name)
{
	size_t i;

	for (i = 0; i < p->n_progs; i++) {
		struct prog *g = &p->progs[i];

		if (strcmp(g->name, name) != 0)
			continue;
		if (g->lazy)
			load_lazy(p, g);
		return g;
	}
	return NULL;
}

const char *progs__why(struct progs *p, const char *name)
{
	const struct prog *g = progs__find(p, name);

	if (!g)
		return "no such program";
	return g->base ? NULL : g->why;
}

/* Only for stacks, and they are almost as good without it. */
static void watch_maps(struct progs *p)
{
	const struct prog *g = p->opts.stacks ? progs__find(p, "life_map") : NULL;
	struct bpf_link *l = g && g->base ? bpf_program__attach(g->base) : NULL;

	if (l)
		p->life[p->n_life++] = l;
	else if (g)
		pr_debug("new mappings are not told to the programs: %s",
			 g->why ? g->why : strerror(errno));
}

int progs__lifecycle(struct progs *p)
{
	static const char *const names[] = { "life_fork", "life_exec", "life_exit" };
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(names); i++) {
		const struct prog *g = progs__find(p, names[i]);
		struct bpf_link *l = g && g->base ? bpf_program__attach(g->base) : NULL;

		if (!l)
			return g && g->base ? -errno : -ENOENT;
		p->life[p->n_life++] = l;
	}
	watch_maps(p);
	return 0;
}

void progs__lifecycle_stop(struct progs *p)
{
	while (p->n_life)
		bpf_link__destroy(p->life[--p->n_life]);
}
