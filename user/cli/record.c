// SPDX-License-Identifier: Apache-2.0
/* memtap record: its options. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/host.h"
#include "cli/msleaks_options.h"
#include "cli/session.h"
#include "memtap/unwind.h"

static void help(FILE *f)
{
	fputs("Usage: memtap record [OPTIONS] {-p PID | -n NAME | -a | --cgroup PATH | -- CMD "
	      "[ARGS]}\n"
	      "\n"
	      "Trace NPU memory of running processes from outside; write DIR/dump and DIR/trace.\n"
	      "\n"
	      "Targets (all but -a may be combined and add up):\n"
	      "  -p, --pid PID[,PID...]  processes, with their children; may be repeated\n"
	      "  -n, --name NAME         processes so named, also ones that start later\n"
	      "  -a, --all               every process of the host, alone\n"
	      "      --cgroup PATH       processes of a cgroup (relative: below the mount)\n"
	      "      --no-follow         do not follow children\n"
	      "  -- CMD [ARGS]           start a command and trace it from its first call\n"
	      "\n"
	      "Output:\n"
	      "  -o, --output DIR        default ./memtap-<date>\n"
	      "      --data-format csv|db    (csv)\n"
	      "      --order time|block  rows as things happen, or as the vendor writes them "
	      "(time)\n"
	      "      --timeline real|kernel  axis of the trace: time, or kernel ordinals (real)\n"
	      "      --summary-json FILE the summary for programs; - is stdout\n"
	      "\n"
	      "What:\n"
	      "      --level 0,1         0 operators, 1 kernel launches (0,1)\n"
	      "      --events LIST       of alloc, free, launch, access (alloc,free,launch)\n"
	      "      --ops[=REGEX]       operators of torch, of names like aten.add.Tensor (none)\n"
	      "      --device LIST       of npu, npu:N, cpu (all)\n"
	      "      --host-memory MODE  malloc and free of the host: none, in ranges, all "
	      "(ranges; "
	      "all with\n"
	      "                          --device cpu)\n"
	      "      --exact-ranges      stop the process while its allocator is probed\n"
	      "      --steps LIST        only steps of these numbers, 1 to 5 of them, counted from "
	      "the attach\n"
	      "      --call-stack LIST   of c[:DEPTH] or mixed[:DEPTH], python[:DEPTH]: stacks of "
	      "memory events\n"
	      "      --stack-bytes SIZE  copied of a stack that is cut, to complete it (16K; 0: "
	      "none)\n"
	      "      --lines             with source lines and inlined calls of C frames\n"
	      "      --debuginfod SECONDS    first ask $DEBUGINFOD_URLS for debug files, so long\n"
	      "      --owners WHERE      read who owns tensors from Python objects, or none (none; "
	      "objects\n"
	      "                          with --analysis decompose)\n"
	      "  -d, --duration SECONDS  stop by itself\n"
	      "\n"
	      "Other:\n"
	      "      --analysis LIST     of leaks, decompose, inefficient: print them at the end\n"
	      "      --collect-mode full|custom  from the attach on, or from a start by the "
	      "program "
	      "or memtap ctl (full)\n"
	      "      --log-level LEVEL   debug, info, warn or error (info)\n"
	      "      --ring-size SIZE    buffer between kernel and memtap, K, M, G (64M)\n"
	      "      --strict            exit with 3 if anything was lost\n"
	      "  -q, --quiet             no status line, summary only if something was lost\n"
	      "  -v, --verbose           tell more\n"
	      "  -h, --help              this text\n"
	      "\n"
	      "SIGINT or SIGTERM stop the capture; a second one aborts. man memtap-record\n",
	      f);
}

enum {
	OPT_CGROUP = 256,
	OPT_RING,
	OPT_JSON,
	OPT_LEVEL,
	OPT_EVENTS,
	OPT_DEVICE,
	OPT_FORMAT,
	OPT_ORDER,
	OPT_TIMELINE,
	OPT_STACK,
	OPT_LINES,
	OPT_DEBUGINFOD,
	OPT_STACK_BYTES,
	OPT_OWNERS,
	OPT_STRICT,
	OPT_NOFOLLOW,
	OPT_STEPS,
	OPT_ANALYSIS,
	OPT_LOG,
	OPT_MODE,
	OPT_WATCH,
	OPT_COMPARE,
	OPT_INPUT,
	OPT_OPS,
	OPT_HOST,
	OPT_EXACT,
};

static const struct option longs[] = {
	{ "pid", required_argument, NULL, 'p' },
	{ "name", required_argument, NULL, 'n' },
	{ "all", no_argument, NULL, 'a' },
	{ "cgroup", required_argument, NULL, OPT_CGROUP },
	{ "no-follow", no_argument, NULL, OPT_NOFOLLOW },
	{ "duration", required_argument, NULL, 'd' },
	{ "output", required_argument, NULL, 'o' },
	{ "ring-size", required_argument, NULL, OPT_RING },
	{ "summary-json", required_argument, NULL, OPT_JSON },
	{ "level", required_argument, NULL, OPT_LEVEL },
	{ "events", required_argument, NULL, OPT_EVENTS },
	{ "ops", optional_argument, NULL, OPT_OPS },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "host-memory", required_argument, NULL, OPT_HOST },
	{ "exact-ranges", no_argument, NULL, OPT_EXACT },
	{ "call-stack", required_argument, NULL, OPT_STACK },
	{ "lines", no_argument, NULL, OPT_LINES },
	{ "debuginfod", required_argument, NULL, OPT_DEBUGINFOD },
	{ "data-format", required_argument, NULL, OPT_FORMAT },
	{ "order", required_argument, NULL, OPT_ORDER },
	{ "timeline", required_argument, NULL, OPT_TIMELINE },
	{ "stack-bytes", required_argument, NULL, OPT_STACK_BYTES },
	{ "owners", required_argument, NULL, OPT_OWNERS },
	{ "strict", no_argument, NULL, OPT_STRICT },
	{ "steps", required_argument, NULL, OPT_STEPS },
	{ "analysis", required_argument, NULL, OPT_ANALYSIS },
	{ "log-level", required_argument, NULL, OPT_LOG },
	{ "collect-mode", required_argument, NULL, OPT_MODE },
	{ "watch", required_argument, NULL, OPT_WATCH },
	{ "compare", no_argument, NULL, OPT_COMPARE },
	{ "input", required_argument, NULL, OPT_INPUT },
	/* The newer spellings of the vendor's. */
	{ "input-path", required_argument, NULL, OPT_INPUT },
	{ "format", required_argument, NULL, OPT_FORMAT },
	{ "output-path", required_argument, NULL, 'o' },
	{ "debug", no_argument, NULL, 'v' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static int add_pids(struct record_opts *o, char *list)
{
	char *word, *end, *save = NULL;

	for (word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		long v = strtol(word, &end, 10);
		void *p = realloc(o->pids, (o->n_pids + 1) * sizeof(*o->pids));

		if (!p)
			return -ENOMEM;
		o->pids = p;
		if (*end || end == word || v < 1 || v > 1 << 22)
			return -EINVAL;
		o->pids[o->n_pids++] = (pid_t)v;
	}
	return o->n_pids ? 0 : -EINVAL;
}

static int add_name(struct record_opts *o, const char *name)
{
	void *p = realloc(o->names, (o->n_names + 1) * sizeof(*o->names));

	if (!p)
		return -ENOMEM;
	o->names = p;
	o->names[o->n_names++] = name;
	return 0;
}

static int read_events(struct record_opts *o, const char *list)
{
	bool none, traceback;

	if (msleaks_list__events(list, &o->events, &none, &traceback))
		return -EINVAL;
	return none || traceback ? -EINVAL : 0;
}

static int read_analysis(struct record_opts *o, const char *list)
{
	unsigned int top;

	if (msleaks_list__analysis(list, &o->analysis, &top))
		return -EINVAL;
	/* Rows of failed allocations are always written; nothing is left to be analysed then. */
	o->oom_top = o->analysis & MSLEAKS_OOM ? top : 0;
	o->analysis &= ~MSLEAKS_OOM;
	return 0;
}

static int read_log_level(const char *word)
{
	struct msleaks_opts m;
	const char *why;
	int err;

	msleaks__init(&m);
	err = msleaks__set(&m, msleaks_option__find("log-level"), word, &why);
	if (!err)
		log__set_level(m.log_level);
	return err;
}

/* Options of the vendor's that mean nothing on a process that runs, or that nobody can serve. */
static int not_here(int opt)
{
	if (opt == OPT_WATCH) {
		pr_err("--watch: contents of device memory cannot be read from outside the "
		       "process; memtap leaks and memtap inefficient tell when a block was made "
		       "and freed");
	} else {
		pr_err("--%s: nothing is recorded with it; compare two dumps with memtap compare "
		       "BASE OTHER",
		       opt == OPT_COMPARE ? "compare" : "input");
	}
	return -EEXIST;
}

static int choose(const char *arg, const char *a, const char *b)
{
	return !strcmp(arg, a) ? 0 : !strcmp(arg, b) ? 1 : -EINVAL;
}

static int one_option(struct record_opts *o, int opt, char *arg)
{
	uint64_t v;
	char *end;
	int r;

	switch (opt) {
	case 'p':
		return add_pids(o, arg);
	case 'n':
		return add_name(o, arg);
	case 'a':
		o->all = true;
		return 0;
	case OPT_CGROUP:
		if (o->cgroup) {
			pr_err("--cgroup: one only, and '%s' was given before: name a cgroup above "
			       "both",
			       o->cgroup);
			return -EEXIST;
		}
		o->cgroup = arg;
		return 0;
	case OPT_NOFOLLOW:
		o->follow = false;
		return 0;
	case 'd':
		o->seconds = strtod(arg, &end);
		return *end || end == arg || !(o->seconds > 0) || o->seconds > 1e8 ? -EINVAL : 0;
	case 'o':
		o->dir = arg;
		return 0;
	case OPT_RING:
		if (cli__size(arg, &v) || v < 4096 || v > 1ULL << 31)
			return -EINVAL;
		o->ring_bytes = v;
		return 0;
	case OPT_JSON:
		o->summary_json = arg;
		return 0;
	case OPT_LEVEL:
		return msleaks_list__level(arg, &o->level);
	case OPT_EVENTS:
		return read_events(o, arg);
	case OPT_OPS:
		return ops__option(&o->ops, arg);
	case OPT_DEVICE:
		return msleaks_list__device(arg, &o->npus, &o->npu_slots, &o->cpu);
	case OPT_HOST:
		return host__mode(arg, &o->host);
	case OPT_EXACT:
		o->host.exact = true;
		return 0;
	case OPT_STEPS:
		return msleaks_list__steps(arg, o->steps, &o->n_steps);
	case OPT_ANALYSIS:
		return read_analysis(o, arg);
	case OPT_LOG:
		return read_log_level(arg);
	case OPT_MODE:
		return asked__mode(arg, &o->paused);
	case OPT_WATCH:
	case OPT_COMPARE:
	case OPT_INPUT:
		return not_here(opt);
	case OPT_STACK:
		return callstack__option(&o->stacks, arg);
	case OPT_LINES:
		o->stacks.lines = true;
		return 0;
	case OPT_DEBUGINFOD:
		v = strtoul(arg, &end, 10);
		o->stacks.debuginfod = (unsigned int)v;
		return *end || end == arg || v < 1 || v > 3600 ? -EINVAL : 0;
	case OPT_STACK_BYTES:
		if (cli__size(arg, &v) || (v && v < MT_COPY_PIECE) || v > MT_COPY_MAX)
			return -EINVAL;
		/* Pages are copied. */
		o->stack_bytes = (uint32_t)(v + MT_COPY_PIECE - 1) / MT_COPY_PIECE * MT_COPY_PIECE;
		return 0;
	case OPT_FORMAT:
		r = choose(arg, "csv", "db");
		o->format = r == 1 ? OUT_DB : OUT_CSV;
		return r < 0 ? r : 0;
	case OPT_ORDER:
		r = choose(arg, "time", "block");
		o->order = r == 1 ? OUT_ORDER_BLOCK : OUT_ORDER_TIME;
		return r < 0 ? r : 0;
	case OPT_TIMELINE:
		r = choose(arg, "real", "kernel");
		o->timeline = r == 1 ? OUT_TIMELINE_KERNEL : OUT_TIMELINE_REAL;
		return r < 0 ? r : 0;
	case OPT_OWNERS:
		r = choose(arg, "none", "objects");
		o->objects = r == 1;
		o->objects_given = true;
		return r < 0 ? r : 0;
	case OPT_STRICT:
		o->strict = true;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case 'v':
		log__set_level(LOG_DEBUG);
		return 0;
	}
	return -EINVAL;
}

static const char *option_name(int opt)
{
	size_t i;

	for (i = 0; longs[i].name; i++)
		if (longs[i].val == opt)
			return longs[i].name;
	return "?";
}

/* What an option takes, for the message about something else. */
static const char *option_values(int opt)
{
	switch (opt) {
	case 'p':
		return "process ids, separated by commas";
	case 'd':
		return "seconds above 0, up to 1e8";
	case OPT_RING:
		return "a size from 4K to 2G";
	case OPT_LEVEL:
		return "0, 1 or both, separated by a comma";
	case OPT_EVENTS:
		return "a list of alloc, free, launch, access, separated by commas";
	case OPT_OPS:
		return "an extended regular expression, or nothing";
	case OPT_DEVICE:
		return "a list of npu, npu:0 to npu:31, cpu, separated by commas";
	case OPT_HOST:
		return "none, ranges or all";
	case OPT_STEPS:
		return "1 to 5 numbers from 1, without leading zeros, separated by commas";
	case OPT_ANALYSIS:
		return "a list of leaks, decompose, inefficient, oom[:K], or none";
	case OPT_LOG:
		return "debug, info, warn or error";
	case OPT_MODE:
		return "full (immediate) or custom (deferred)";
	case OPT_STACK:
		return "c or mixed, python, or two of them, separated by a comma, each with "
		       ":DEPTH from 1 to 1000 or without";
	case OPT_STACK_BYTES:
		return "0 or a size from 4K to 64K";
	case OPT_DEBUGINFOD:
		return "seconds from 1 to 3600";
	case OPT_FORMAT:
		return "csv or db";
	case OPT_ORDER:
		return "time or block";
	case OPT_TIMELINE:
		return "real or kernel";
	case OPT_OWNERS:
		return "objects or none";
	}
	return "another value";
}

/* An option that was refused with err. */
static void refuse_option(int opt, const char *arg, int err)
{
	if (err == -EINVAL)
		pr_err("--%s: '%s' is not valid; it takes %s", option_name(opt), arg,
		       option_values(opt));
	else if (err != -EEXIST) /* said already */
		pr_err("--%s: %s", option_name(opt), strerror(-err));
}

static char default_dir[64];

static const char *make_default_dir(void)
{
	time_t now = (time_t)(clock__real() / 1000000000ULL);
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(default_dir, sizeof(default_dir), "memtap-%Y%m%d%H%M%S", &tm);
	return default_dir;
}

/* The others add up; -a leaves nothing to add, and whoever names some does not want all. */
static int check_targets(const struct record_opts *o)
{
	const struct {
		bool given;
		const char *option, *what;
	} some[] = {
		{ o->n_pids > 0, "-p", "traces only some processes" },
		{ o->n_names > 0, "-n", "traces only some processes" },
		{ o->cgroup != NULL, "--cgroup", "traces only some processes" },
		{ o->cmd != NULL, "-- CMD", "traces only that command" },
		{ !o->follow, "--no-follow", "leaves children out" },
	};
	size_t i;

	if (!o->n_pids && !o->n_names && !o->all && !o->cgroup && !o->cmd) {
		pr_err("no target: give -p PID, -n NAME, -a, --cgroup PATH or -- CMD");
		return -EINVAL;
	}
	for (i = 0; o->all && i < MT_ARRAY_SIZE(some); i++) {
		if (!some[i].given)
			continue;
		pr_err("-a and %s contradict each other: -a traces every process of the host, %s "
		       "%s; leave one of them out",
		       some[i].option, some[i].option, some[i].what);
		return -EINVAL;
	}
	return 0;
}

int cmd_record(int argc, char **argv)
{
	struct session *s = calloc(1, sizeof(*s));
	struct record_opts *o;
	int opt, err, status = EXIT_OK;
	char none[] = "", *arg, *given;

	if (!s)
		return EXIT_FAIL;
	o = &s->opts;
	o->follow = true;
	o->ring_bytes = 64 << 20;
	o->stack_bytes = 16 << 10;
	o->level = LEVEL_OP | LEVEL_KERNEL;
	o->events = EVENTS_ALLOC | EVENTS_LAUNCH;
	while ((opt = getopt_long(argc, argv, "+p:n:ad:o:qvh", longs, NULL)) != -1) {
		if (opt == 'h') {
			help(stdout);
			goto out;
		}
		if (opt == '?') {
			status = cli__usage_error("record");
			goto out;
		}
		/* Lists are taken apart where they stand: the message shows the whole. */
		arg = optarg ? optarg : none;
		given = strdup(arg);
		err = given ? one_option(o, opt, opt == OPT_OPS ? optarg : arg) : -ENOMEM;
		if (err)
			refuse_option(opt, given, err);
		free(given);
		if (err) {
			status = cli__usage_error("record");
			goto out;
		}
	}
	if (optind < argc) {
		if (strcmp(argv[optind - 1], "--") != 0) {
			pr_err("'%s': a command to trace stands behind --", argv[optind]);
			status = cli__usage_error("record");
			goto out;
		}
		o->cmd = argv + optind;
	}
	if (check_targets(o) || host__check(o) || ops__check(o) || callstack__check(&o->stacks)) {
		status = cli__usage_error("record");
		goto out;
	}
	if (!o->objects_given)
		o->objects = o->analysis & MSLEAKS_DECOMPOSE;
	if (!o->dir)
		o->dir = make_default_dir();
	err = session__run(s);
	if (!err && o->analysis)
		err = session__analyse(s) == EXIT_FAIL ? -EIO : 0;
	if (err) {
		status = EXIT_FAIL;
	} else if (o->strict && session__incomplete(s)) {
		pr_warn("exit status 3: the recording is not complete (see the summary)");
		status = EXIT_INCOMPLETE;
	}
out:
	session__free(s);
	return status;
}
