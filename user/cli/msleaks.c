// SPDX-License-Identifier: Apache-2.0
/* memtap msleaks: the vendor's command line in front of the commands of memtap. */
#include "cli/host.h"
#include "cli/msleaks_options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "cli/scan.h"
#include "cli/session.h"

#define MAX_OPTIONS 40

static const char *called = "memtap msleaks"; /* as what */

static void help(FILE *f)
{
	const struct msleaks_option *r;
	char left[64];
	size_t i;

	fprintf(f,
		"Usage: %s [OPTIONS] PROG [ARGS]\n"
		"       %s [OPTIONS] -- PROG [ARGS]\n"
		"       %s --compare --input=BASE,OTHER [OPTIONS]\n"
		"\n"
		"The command line of the vendor's msleaks: trace a program from its first call, "
		"with\n"
		"the vendor's files, rows and console. Nothing is loaded into the program.\n"
		"Options stand before PROG; those behind it are the program's.\n"
		"\n",
		called, called, called);
	for (i = 0; (r = msleaks_option__at(i)); i++) {
		char letter[8] = "    ";

		if (r->letter)
			snprintf(letter, sizeof(letter), "-%c, ", r->letter);
		snprintf(left, sizeof(left), "  %s--%s%s", letter, r->name, r->values ? "=" : "");
		fprintf(f, "%-24s  %s", left, r->help);
		if (r->def)
			fprintf(f, " (%s)", r->def);
		fputc('\n', f);
		if (r->values)
			fprintf(f, "%-24s  %s\n", "", r->values);
	}
	fputs("\n"
	      "-v is --version, with --generation=now (or called as msmemscope) --verbose.\n"
	      "What is traced and what not yet: man memtap-msleaks\n",
	      f);
}

/* The vendor's message, ours, and the usage; unlike the vendor's tool we fail. */
static int usage_error(void)
{
	help(stderr);
	return EXIT_USAGE;
}

static int hint(void)
{
	fprintf(stderr, "Try '%s --help'.\n", called);
	return EXIT_USAGE;
}

static int refuse(const struct msleaks_opts *o, const struct msleaks_option *row, const char *value,
		  const char *why)
{
	if (row->read == msleaks_option__find("output")->read) {
		fprintf(stderr, "[%s] WARN: %s\nPlease use correct output path!\n",
			msleaks__tool(o), why);
	} else {
		msleaks__error(o, why);
	}
	pr_err("--%s: '%s' is not valid; it takes %s", row->name, cli__text(value), row->values);
	return usage_error();
}

static void make_longs(struct option longs[MAX_OPTIONS])
{
	const struct msleaks_option *r;
	size_t i;

	for (i = 0; (r = msleaks_option__at(i)) && i + 1 < MAX_OPTIONS; i++)
		longs[i] = (struct option){ r->name, r->values ? required_argument : no_argument,
					    NULL, 256 + (int)i };
	longs[i] = (struct option){ 0 };
}

/* Of a letter; the one whose meaning has changed goes by the generation. */
static const struct msleaks_option *by_letter(const struct msleaks_opts *o, int c)
{
	const struct msleaks_option *r;
	size_t i;

	if (c == 'v' && o->generation == MSLEAKS_SEED)
		return msleaks_option__find("version");
	for (i = 0; (r = msleaks_option__at(i)); i++)
		if (r->letter == c)
			return r;
	return NULL;
}

/* What decides how the others are read, wherever it stands. */
static void find_generation(struct msleaks_opts *o, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
		const char *v = !strncmp(argv[i], "--generation=", 13) ? argv[i] + 13 : NULL;

		if (!v && !strcmp(argv[i], "--generation") && i + 1 < argc)
			v = argv[++i];
		if (v)
			o->generation = !strcmp(v, "now") ? MSLEAKS_NOW : MSLEAKS_SEED;
	}
}

/* 0, or the status to end with, in which -1 stands for success. */
static int parse(struct msleaks_opts *o, int argc, char **argv)
{
	struct option longs[MAX_OPTIONS];
	const struct msleaks_option *r;
	char none[] = "";
	const char *why;
	int c;

	make_longs(longs);
	find_generation(o, argc, argv);
	while ((c = getopt_long(argc, argv, "+hVvqi:o:", longs, NULL)) != -1) {
		r = c >= 256 ? msleaks_option__at((size_t)c - 256) : by_letter(o, c);
		if (!r)
			return usage_error();
		if (msleaks__set(o, r, r->values ? optarg : NULL, &why))
			return refuse(o, r, optarg ? optarg : none, why);
		if (o->help) {
			help(stdout);
			return -1;
		}
		if (o->version) {
			puts("memtap " MEMTAP_VERSION);
			return -1;
		}
	}
	msleaks__imply(o);
	return 0;
}

/* Options that the vendor's tool would take from behind the program. */
static void tell_behind(int argc, char **argv, int first)
{
	char name[64];
	size_t n;
	int i;

	if (!strcmp(argv[first - 1], "--"))
		return;
	for (i = first + 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strncmp(argv[i], "--", 2) != 0)
			continue;
		n = strcspn(argv[i] + 2, "=");
		if (n >= sizeof(name))
			continue;
		memcpy(name, argv[i] + 2, n);
		name[n] = '\0';
		if (msleaks_option__find(name))
			pr_warn("'%s' stands behind the program and is left to it; put it before "
				"%s if it is meant for this tool",
				cli__text(argv[i]), cli__text(argv[first]));
	}
}

/* What cannot be served at all is refused: what would be recorded is not what was asked for. */
static int refuse_unserved(const struct msleaks_opts *o)
{
	if (o->watch) {
		pr_err("--watch: contents of device memory cannot be read from outside the "
		       "process; leave it out, or use the vendor's tool for it");
		return -EINVAL;
	}
	return 0;
}

/* Rows that will be missing, by name. */
static void tell_untraced(const struct msleaks_opts *o)
{
	if (o->events & EVENTS_ACCESS && !(o->level & LEVEL_OP))
		pr_warn("--events access: accesses are seen at operators; without --level 0 (op) "
			"there will be no ACCESS rows");
	if (o->traceback)
		pr_warn("--events traceback: calls of Python functions are not traced yet");
	if (o->analysis & MSLEAKS_INEFFICIENT &&
	    (!(o->level & LEVEL_OP) || ~o->events & (EVENTS_LAUNCH | EVENTS_ACCESS)))
		pr_warn("--analysis inefficient: judged by operators and accesses: without --level "
			"0 and --events launch,access little will be found");
}

static int compare(const struct msleaks_opts *o)
{
	char level[24], out[PATH_MAX + 16], name[] = "compare";
	char *argv[8] = { name, level, out };
	bool both = o->level == (LEVEL_OP | LEVEL_KERNEL);
	int n = 3;

	if (msleaks__check_inputs(o)) {
		msleaks__error(o, "invalid paths input.");
		fputs("Please use compare command with correct input paths!\n", stderr);
		pr_err("--compare: two dumps that exist and can be read are wanted: "
		       "--input=BASE,OTHER");
		return usage_error();
	}
	snprintf(level, sizeof(level), "--level=%s",
		 both			? "0,1"
		 : o->level == LEVEL_OP ? "0"
					: "1");
	snprintf(out, sizeof(out), "--output=%s", msleaks__output(o));
	argv[n++] = (char *)o->input[0];
	argv[n++] = (char *)o->input[1];
	optind = 0; /* begins anew */
	compare__tell_as(msleaks__tool(o));
	return cmd_compare(n, argv);
}

static void to_session(struct record_opts *r, const struct msleaks_opts *o)
{
	r->vendor = !o->extended;
	r->newer = o->generation == MSLEAKS_NOW;
	r->owners = r->objects = o->analysis & MSLEAKS_DECOMPOSE;
	r->oom = o->analysis & MSLEAKS_OOM;
	r->oom_top = r->oom ? o->oom_top : 0;
	r->order = OUT_ORDER_BLOCK;
	r->timeline = OUT_TIMELINE_KERNEL;
	r->format = o->format;
	r->dir = msleaks__output(o);
	r->level = o->level;
	r->events = o->events;
	r->npus = o->npus;
	r->npu_slots = o->npu_slots;
	r->cpu = o->cpu;
	r->host.exact = o->exact_ranges;
	memcpy(r->steps, o->steps, sizeof(r->steps));
	r->n_steps = o->n_steps;
	r->paused = o->custom;
	r->stacks.c = o->stack_c;
	r->stacks.python = o->stack_python;
	r->stacks.c_depth = o->c_depth;
	r->stacks.python_depth = o->python_depth;
	r->analysis = o->analysis & ~MSLEAKS_OOM;
	r->ops = o->ops;
	r->ops.quiet = !o->ops.asked;
	/* The newer tool looks for leaks then, too (msleaks.md 6.1). */
	if (r->oom && r->newer)
		r->analysis |= MSLEAKS_LEAKS;
	r->strict = o->strict;
	r->quiet = o->quiet;
}

/* The vendor's lines on the console: of the files, and of a program that has failed. */
static void tell_console(const struct session *s, const struct msleaks_opts *o)
{
	const char *tool = msleaks__tool(o), *base, *ext;
	int st = s->child_status;
	size_t i;

	for (i = 0; s->written && s->written[i]; i++) {
		base = path_base(s->written[i]);
		ext = strrchr(base, '.');
		if (ext && !strcmp(ext, ".db")) {
			printf("[%s] Info: create dbfile %s.\n", tool, cli__text(s->written[i]));
			printf("[%s] Info: create dbtable %s_dump in %s.\n", tool,
			       s->opts.newer ? "memscope" : "leaks", cli__text(s->written[i]));
		} else {
			printf("[%s] Info: create file %s.\n", tool, cli__text(s->written[i]));
		}
	}
	if (s->child_done && WIFSIGNALED(st))
		printf("[%s] user program exited by signal: %d\n", tool, WTERMSIG(st));
	else if (s->child_done && WEXITSTATUS(st))
		printf("[%s] user program %s exited abnormally\n", tool, cli__text(s->opts.cmd[0]));
}

static int trace(const struct msleaks_opts *o, char **cmd)
{
	struct session *s = calloc(1, sizeof(*s));
	int status = EXIT_FAIL;

	if (!s) {
		pr_err("out of memory");
		return EXIT_FAIL;
	}
	s->opts.follow = true;
	s->opts.ring_bytes = 64 << 20;
	s->opts.stack_bytes = 16 << 10;
	to_session(&s->opts, o);
	s->opts.cmd = cmd;
	if (host__check(&s->opts)) {
		status = hint();
	} else if (!session__run(s)) {
		tell_console(s, o);
		status = s->opts.analysis ? session__analyse(s) : EXIT_OK;
		if (status == EXIT_OK && o->strict && session__incomplete(s)) {
			pr_warn("exit status 3: the recording is not complete (see the summary)");
			status = EXIT_INCOMPLETE;
		}
	}
	session__free(s);
	return status;
}

int cmd_msleaks(int argc, char **argv)
{
	struct msleaks_opts o;
	int status;

	msleaks__init(&o);
	if (!strcmp(called, "msmemscope"))
		o.generation = MSLEAKS_NOW;
	status = parse(&o, argc, argv);
	if (status) {
		status = status < 0 ? EXIT_OK : status;
		goto out;
	}
	log__set_level(o.log_level);
	if (o.compare) {
		status = compare(&o);
		goto out;
	}
	if (optind == argc) {
		pr_err("no program to trace: give it behind the options, or attach to one that "
		       "runs with memtap record -p PID");
		status = hint();
		goto out;
	}
	if (refuse_unserved(&o)) {
		status = hint();
		goto out;
	}
	tell_behind(argc, argv, optind);
	tell_untraced(&o);
	status = trace(&o, argv + optind);
out:
	msleaks__free(&o);
	return status;
}

int msleaks__main(int argc, char **argv)
{
	called = path_base(argv[0]);
	return cmd_msleaks(argc, argv);
}
