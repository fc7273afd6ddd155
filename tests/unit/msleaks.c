// SPDX-License-Identifier: Apache-2.0
/* Every row of the vendor's options: what it takes, what it refuses and with which message. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/msleaks_options.h"

#define WIDE "\xef\xbc\x8c"

static struct msleaks_opts o;
static const char *why;

static void begin(void)
{
	msleaks__init(&o);
}

static void end(void)
{
	msleaks__free(&o);
}

TestSuite(msleaks, .init = begin, .fini = end);

static int set(const char *name, const char *value)
{
	const struct msleaks_option *r = msleaks_option__find(name);

	cr_assert(r, "%s", name);
	return msleaks__set(&o, r, value, &why);
}

/* Each is refused, with this message. */
static void refuses(const char *name, const char *message, const char *const *values)
{
	for (; *values; values++) {
		cr_expect_eq(set(name, *values), -22, "--%s=%s is taken", name, *values);
		cr_expect_str_eq(why, message, "--%s=%s: %s", name, *values, why);
	}
}

#define REFUSES(name, message, ...) \
	refuses(name, message, (const char *const[]){ __VA_ARGS__, NULL })

Test(msleaks, table_is_the_vendors)
{
	/* msleaks.md 1.1, its rows in order; then the newer spellings, then ours. */
	static const char *const seed[] = { "help",	    "version",	  "level",	 "events",
					    "steps",	    "call-stack", "analysis",	 "compare",
					    "input",	    "output",	  "data-format", "device",
					    "collect-mode", "watch",	  "log-level" };
	static const char *const newer[] = { "input-path", "output-path", "format",
					     "verbose",	   "debug",	  "quiet" };
	const struct msleaks_option *r, *q;
	size_t i, j, n = 0;

	for (i = 0; i < MT_ARRAY_SIZE(seed); i++) {
		r = msleaks_option__find(seed[i]);
		cr_assert(r && !r->newer && !r->ours, "%s", seed[i]);
	}
	for (i = 0; i < MT_ARRAY_SIZE(newer); i++) {
		r = msleaks_option__find(newer[i]);
		cr_assert(r && r->newer, "%s", newer[i]);
	}
	for (i = 0; (r = msleaks_option__at(i)); i++) {
		n += !r->ours;
		cr_expect(r->read && r->help, "%s", r->name);
		/* A newer spelling is read as the older one. */
		if (r->old) {
			q = msleaks_option__find(r->old);
			cr_expect(q && q->read == r->read, "%s", r->name);
		}
		for (j = 0; (q = msleaks_option__at(j)); j++)
			cr_expect(i == j || strcmp(r->name, q->name) != 0, "%s twice", r->name);
	}
	cr_expect_eq(n, MT_ARRAY_SIZE(seed) + MT_ARRAY_SIZE(newer));
	cr_expect_null(msleaks_option__find("data-trace-level")); /* of no version */
}

Test(msleaks, defaults)
{
	msleaks__imply(&o);
	cr_expect_eq(o.level, LEVEL_OP);
	cr_expect_eq(o.events, EVENTS_ALLOC | EVENTS_LAUNCH);
	cr_expect_eq(o.analysis, MSLEAKS_LEAKS);
	cr_expect_eq(o.format, OUT_CSV);
	cr_expect_eq(o.n_steps, 0);
	cr_expect(o.npus && !o.npu_slots && !o.cpu);
	cr_expect(!o.stack_c && !o.stack_python && !o.compare && !o.watch && !o.custom);
	cr_expect_str_eq(msleaks__output(&o), "./leaksDumpResults");
	cr_expect_str_eq(msleaks__tool(&o), "msleaks");
	cr_assert_eq(set("generation", "now"), 0);
	cr_expect_str_eq(msleaks__output(&o), "./memscopeDumpResults");
	cr_expect_str_eq(msleaks__tool(&o), "msmemscope");
	REFUSES("generation", "--generation param is invalid.", "", "old", "Now");
}

Test(msleaks, level)
{
	static const struct {
		const char *value;
		unsigned int level;
	} good[] = { { "0", LEVEL_OP },
		     { "1", LEVEL_KERNEL },
		     { "0,1", LEVEL_OP | LEVEL_KERNEL },
		     { "1" WIDE "0", LEVEL_OP | LEVEL_KERNEL },
		     { "op", LEVEL_OP },
		     { "op,kernel", LEVEL_OP | LEVEL_KERNEL },
		     { "1,", LEVEL_KERNEL } };
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(good); i++) {
		cr_expect_eq(set("level", good[i].value), 0, "%s", good[i].value);
		cr_expect_eq(o.level, good[i].level, "%s", good[i].value);
	}
	REFUSES("level", "invalid data trace level input.", "", "2", "0,2", "-1", "01", "0;1",
		"0,,1", ",0", "Op", "0 ,1", "1" WIDE WIDE "0",
		"0123456789012345678901234567890123456789");
}

Test(msleaks, events)
{
	static const struct {
		const char *value;
		unsigned int events;
	} good[] = { { "alloc", EVENTS_ALLOC },
		     { "free", EVENTS_ALLOC },
		     { "launch", EVENTS_LAUNCH },
		     { "access", EVENTS_ALLOC | EVENTS_ACCESS },
		     { "free" WIDE "launch", EVENTS_ALLOC | EVENTS_LAUNCH },
		     { "alloc,free,launch,access", EVENTS_ALLOC | EVENTS_LAUNCH | EVENTS_ACCESS },
		     { "none", 0 } };
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(good); i++) {
		cr_expect_eq(set("events", good[i].value), 0, "%s", good[i].value);
		cr_expect_eq(o.events, good[i].events, "%s", good[i].value);
	}
	REFUSES("events", "invalid event trace type input.", "", "all", "alloc,x", "ALLOC",
		"alloc,,free", "none,alloc", "traceback", "alloc,traceback");
	/* Only the newer tool takes it on the command line. */
	o.generation = MSLEAKS_NOW;
	cr_expect_eq(set("events", "traceback"), 0);
	cr_expect(o.traceback);
}

Test(msleaks, implied)
{
	/* The default analysis makes `launch` alone record memory, too. */
	cr_expect_eq(set("events", "launch"), 0);
	msleaks__imply(&o);
	cr_expect_eq(o.events, EVENTS_ALLOC | EVENTS_LAUNCH);
	cr_expect_eq(set("events", "launch"), 0);
	cr_expect_eq(set("analysis", ""), 0);
	msleaks__imply(&o);
	cr_expect_eq(o.events, EVENTS_LAUNCH);
	cr_expect_eq(set("analysis", "decompose"), 0);
	msleaks__imply(&o);
	cr_expect_eq(o.events, EVENTS_ALLOC | EVENTS_LAUNCH);
	/* V-seed: implies nothing. */
	cr_expect_eq(set("events", "launch"), 0);
	cr_expect_eq(set("analysis", "inefficient"), 0);
	msleaks__imply(&o);
	cr_expect_eq(o.events, EVENTS_LAUNCH);
	o.generation = MSLEAKS_NOW;
	msleaks__imply(&o);
	cr_expect_eq(o.events, EVENTS_ALLOC | EVENTS_LAUNCH | EVENTS_ACCESS);
	cr_expect_eq(set("events", "launch"), 0);
	cr_expect_eq(set("analysis", "oom:5"), 0);
	msleaks__imply(&o);
	cr_expect_eq(o.events, EVENTS_ALLOC | EVENTS_LAUNCH);
	cr_expect_eq(set("events", "none"), 0);
	cr_expect_eq(set("analysis", "none"), 0);
	msleaks__imply(&o);
	cr_expect_eq(o.events, 0);
}

Test(msleaks, steps)
{
	static const uint64_t want[] = { 1, 2, 30, 400, 5 };

	cr_expect_eq(set("steps", "1,2" WIDE "30,400,5"), 0);
	cr_expect_eq(o.n_steps, 5);
	cr_expect_arr_eq(o.steps, want, sizeof(want));
	cr_expect_eq(set("steps", "7"), 0);
	cr_expect(o.n_steps == 1 && o.steps[0] == 7);
	REFUSES("steps", "invalid steps input.", "", "0", "01", "1,2,3,4,5,6", "a", "1,x", "-1",
		"1.5", "1,,2", "99999999999999999999", "1 2", "+1");
}

Test(msleaks, call_stack)
{
	cr_expect_eq(set("call-stack", "c"), 0);
	cr_expect(o.stack_c && o.c_depth == 50 && !o.stack_python);
	cr_expect_eq(set("call-stack", "python:7" WIDE "c:1000"), 0);
	cr_expect(o.stack_c && o.c_depth == 1000 && o.stack_python && o.python_depth == 7);
	cr_expect_eq(set("call-stack", "c:0,python"), 0);
	cr_expect(!o.stack_c && o.stack_python && o.python_depth == 50);
	cr_expect_eq(set("call-stack", ""), 0);
	cr_expect(!o.stack_c && !o.stack_python);
	REFUSES("call-stack", "invalid call-stack depth input.", "c:1001", "c:-1", "c:", "c:x",
		"c:1x", "d", "c,d", "python:99999", "c:+1", "c,,python", "mixed");
}

Test(msleaks, analysis)
{
	cr_expect_eq(set("analysis", "leaks" WIDE "decompose,inefficient"), 0);
	cr_expect_eq(o.analysis, MSLEAKS_LEAKS | MSLEAKS_DECOMPOSE | MSLEAKS_INEFFICIENT);
	cr_expect_eq(set("analysis", ""), 0);
	cr_expect_eq(o.analysis, 0);
	cr_expect_eq(set("analysis", "oom:1000"), 0);
	cr_expect(o.analysis == MSLEAKS_OOM && o.oom_top == 1000);
	cr_expect_eq(set("analysis", "oom:0"), 0);
	cr_expect_eq(o.oom_top, 10);
	cr_expect_eq(set("analysis", "oom:1001,leaks"), 0);
	cr_expect(o.analysis == (MSLEAKS_OOM | MSLEAKS_LEAKS) && o.oom_top == 10);
	cr_expect_eq(set("analysis", "oomph"), 0);
	cr_expect_eq(o.analysis, MSLEAKS_OOM);
	cr_expect_eq(set("analysis", "none,leaks"), 0);
	cr_expect_eq(o.analysis, 0);
	REFUSES("analysis", "invalid analysis type input.", "leak", "leaks,x", "leaks,,decompose",
		",", "Leaks");
}

Test(msleaks, input)
{
	cr_expect_eq(set("input", "a,b/c"), 0);
	cr_expect_str_eq(o.input[0], "a");
	cr_expect_str_eq(o.input[1], "b/c");
	cr_expect_eq(set("input-path", "x" WIDE "y"), 0);
	cr_expect_str_eq(o.input[0], "x");
	cr_expect_str_eq(o.input[1], "y");
	REFUSES("input", "invalid paths input.", "", "a", "a,", ",b", "a,b,c", "a,b" WIDE "c");
	cr_expect_null(o.input[0]);
	/* They must be there. */
	log__set_level(LOG_ERROR);
	cr_expect_eq(set("input", "/nowhere/a,/nowhere/b"), 0);
	cr_expect_eq(msleaks__check_inputs(&o), -22);
	cr_expect_eq(set("input", "/proc/self/exe,/proc/self/exe"), 0);
	cr_expect_eq(msleaks__check_inputs(&o), 0);
}

Test(msleaks, output)
{
	static char deep[80] = "a", *p = deep + 1;
	int i;

	cr_expect_eq(set("output", "a/b-c_d.e~ /\xe4\xb8\xad"), 0);
	cr_expect_str_eq(msleaks__output(&o), "a/b-c_d.e~ /\xe4\xb8\xad");
	cr_expect_eq(set("output-path", "/x"), 0);
	cr_expect_str_eq(msleaks__output(&o), "/x");
	REFUSES("output", "empty output path.", "");
	REFUSES("output", "invalid output path.", "=a", "+a", "-a", "@a", "a;b", "a,b", "a\nb",
		"\xc3\xa4", "\xe4\xb8", "a*");
	for (i = 0; i < 32; i++) {
		*p++ = '/';
		*p++ = 'b';
	}
	cr_expect_eq(set("output", deep), 0);
	memcpy(p, "/b", 3);
	REFUSES("output", "invalid output path.", deep);
}

Test(msleaks, words)
{
	static const struct {
		const char *name, *good[6], *bad[4], *message;
	} rows[] = {
		{ "data-format",
		  { "db", "csv" },
		  { "", "json", "csv,db" },
		  "--data-format param is invalid. DATA_FORMAT can only be set csv,db." },
		{ "format",
		  { "db", "csv" },
		  { "", "xlsx" },
		  "--data-format param is invalid. DATA_FORMAT can only be set csv,db." },
		{ "collect-mode",
		  { "full", "custom", "immediate", "deferred" },
		  { "", "later" },
		  "--collect-mode param is invalid." },
		{ "log-level",
		  { "info", "warn", "error", "warning", "debug" },
		  { "", "fatal", "INFO" },
		  "--log-level param is invalid. LOG_LEVEL can only be set info,warn,error." },
	};
	size_t i, j;

	for (i = 0; i < MT_ARRAY_SIZE(rows); i++) {
		for (j = 0; rows[i].good[j]; j++)
			cr_expect_eq(set(rows[i].name, rows[i].good[j]), 0, "--%s=%s", rows[i].name,
				     rows[i].good[j]);
		refuses(rows[i].name, rows[i].message, rows[i].bad);
	}
	cr_expect_eq(set("data-format", "db"), 0);
	cr_expect_eq(o.format, OUT_DB);
	cr_expect_eq(set("collect-mode", "deferred"), 0);
	cr_expect(o.custom);
	cr_expect_eq(set("collect-mode", "immediate"), 0);
	cr_expect(!o.custom);
}

Test(msleaks, log_level)
{
	cr_expect_eq(set("quiet", NULL), 0);
	msleaks__imply(&o);
	cr_expect_eq(o.log_level, LOG_ERROR);
	/* Verbose beats quiet, an explicit level both. */
	cr_expect_eq(set("debug", NULL), 0);
	msleaks__imply(&o);
	cr_expect_eq(o.log_level, LOG_DEBUG);
	cr_expect_eq(set("log-level", "warn"), 0);
	msleaks__imply(&o);
	cr_expect_eq(o.log_level, LOG_WARN);
}

Test(msleaks, device)
{
	cr_expect_eq(set("device", "npu:0" WIDE "npu:31"), 0);
	cr_expect(!o.npus && o.npu_slots == (1u | 1u << 31) && !o.cpu);
	cr_expect_eq(set("device", "npu,cpu"), 0);
	cr_expect(o.npus && !o.npu_slots && o.cpu);
	cr_expect_eq(set("device", "cpu"), 0);
	msleaks__imply(&o);
	cr_expect(!o.npus && o.cpu); /* drops the NPUs */
	REFUSES("device", "invalid device.", "", "npu:32", "npu:-1", "npu:", "npu:1x", "gpu",
		"npu:0,x", "npu,,cpu", "npu:100", "NPU");
}

Test(msleaks, watch)
{
	static const char *const good[] = {
		"torch._ops.aten.add.Tensor:0,torch._ops.aten.relu.default", ",end", "a,b",
		"a,b,full-content", "a:12,b,full-content"
	};
	char name[300];
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(good); i++) {
		o.watch = false;
		cr_expect_eq(set("watch", good[i]), 0, "%s", good[i]);
		cr_expect(o.watch);
	}
	REFUSES("watch", "invalid watch config.", "", "end", "a,", ",", "a:01,b", "a:x,b", "a:,b",
		":0,b", "a,b,c", "a,b,full-content,d", "a,b,");
	memset(name, 'x', sizeof(name));
	memcpy(name + 254, ",b", 3);
	cr_expect_eq(set("watch", name), 0);
	memcpy(name + 254, "x,b", 4);
	REFUSES("watch", "invalid watch config.", name);
}

Test(msleaks, flags)
{
	cr_expect_eq(set("compare", NULL), 0);
	cr_expect_eq(set("help", NULL), 0);
	cr_expect_eq(set("version", NULL), 0);
	cr_expect_eq(set("extended", NULL), 0);
	cr_expect_eq(set("strict", NULL), 0);
	cr_expect(o.compare && o.help && o.version && o.extended && o.strict);
}
