// SPDX-License-Identifier: Apache-2.0
/* memtap check: what this kernel and these rights allow, and what is missing for what. */
#include <cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/cli.h"
#include "probe/probe.h"
#include "target/target.h"

static const struct option longs[] = {
	{ "json", no_argument, NULL, 'J' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct report {
	bool json;
	cJSON *top;
	int problems;
};

/* One line: what, value, and what follows from it. */
static void say(struct report *r, const char *key, const char *value, const char *hint)
{
	if (r->json) {
		cJSON_AddStringToObject(r->top, key, value);
		return;
	}
	printf("  %-34s %s%s%s\n", key, value, hint ? "  -> " : "", hint ? hint : "");
}

static char *read_word(const char *path)
{
	char *buf;

	if (file__read(path, 4096, &buf) < 0)
		return NULL;
	buf[strcspn(buf, "\n")] = '\0';
	return buf;
}

static void say_file(struct report *r, const char *key, const char *path, const char *hint)
{
	char *v = read_word(path);

	say(r, key, v ? v : "not readable", v ? NULL : hint);
	free(v);
}

/* Capability numbers: include/uapi/linux/capability.h. */
static const struct {
	const char *name;
	int bit;
	const char *what;
} caps[] = {
	{ "CAP_BPF", 39, "BPF programs cannot be loaded" },
	{ "CAP_PERFMON", 38, "BPF programs may not read the target" },
	{ "CAP_SYS_ADMIN", 21, "no perf uprobes: only kernels with uprobe_multi (6.6)" },
	{ "CAP_DAC_READ_SEARCH", 2,
	  "libraries in directories of other users are not probed ahead" },
	{ "CAP_SYS_PTRACE", 19, "mappings of other users' processes cannot be read" },
	{ "CAP_CHECKPOINT_RESTORE", 40, "deleted or hidden files of a target cannot be opened" },
	{ "CAP_SYS_RESOURCE", 24, "before kernel 5.11: memory lock limit" },
};

static void check_caps(struct report *r)
{
	unsigned long long eff = 0;
	char *buf, *p;
	size_t i;

	if (file__read("/proc/self/status", 1u << 16, &buf) < 0)
		return;
	p = strstr(buf, "\nCapEff:");
	if (p)
		eff = strtoull(p + 8, NULL, 16);
	free(buf);
	for (i = 0; i < MT_ARRAY_SIZE(caps); i++) {
		bool have = eff >> caps[i].bit & 1;
		/* CAP_SYS_ADMIN stands for the three that were split off from it. */
		bool admin = (eff >> 21 & 1) && caps[i].bit >= 38;

		say(r, caps[i].name,
		    have    ? "yes"
		    : admin ? "no (CAP_SYS_ADMIN serves)"
			    : "no",
		    have || admin ? NULL : caps[i].what);
	}
}

/* What follows from a feature that is not there: the rights are missing, or the kernel is older. */
static const char *needed_for(enum feature x, int state)
{
	if (state < 0 && state != FEATURE_OFF)
		return x == FEAT_PERF_UPROBE ? "needs CAP_SYS_ADMIN"
					     : "needs CAP_BPF and CAP_PERFMON";
	switch (x) {
	case FEAT_BTF:
		return "nothing works without: build the kernel with CONFIG_DEBUG_INFO_BTF";
	case FEAT_RINGBUF:
		return "nothing works without: kernel 5.8";
	case FEAT_PERF_UPROBE:
		return "needed where uprobe_multi is missing";
	case FEAT_COOKIE:
		return "one program a probe instead; works";
	case FEAT_SLEEPABLE:
		return "text on pages that are not resident is missing";
	case FEAT_MULTI:
		return "one perf event a probe instead; works, attaches slower";
	case FEAT_SESSION:
		return "two probes a call instead; works";
	case FEAT_LOOP:
		return "call stacks cannot be had: kernel 5.17";
	default:
		return NULL;
	}
}

static void check_features(struct report *r, struct features *f)
{
	char buf[96];
	int i;

	features__probe(f, true);
	for (i = 0; i < FEAT_MAX; i++)
		say(r, feature__name((enum feature)i), feature__text(f->state[i], buf, sizeof(buf)),
		    f->state[i] == 1 ? NULL : needed_for((enum feature)i, f->state[i]));
	say(r, "more emulated instructions", features__emulated(f, buf, sizeof(buf)), NULL);
}

static void check_load(struct report *r, const struct features *f)
{
	static const char *const progs[] = { "hal_alloc_e", "hal_free_e",  "hal_create_e",
					     "acl_call_e",  "rt_launch_e", "rt_launch_r",
					     "pta_report",  "c10_report",  "pta_alloc_r",
					     "mstx_mark",   "py_mark",	   "ms_alloc_r",
					     "life_fork",   "hal_alloc_s" };
	struct progs_opts o = { .ring_bytes = 65536 };
	struct progs *p;
	size_t i;

	if (progs__load(&o, f, &p)) {
		say(r, "programs", "cannot be loaded", "see the error above");
		r->problems++;
		return;
	}
	for (i = 0; i < MT_ARRAY_SIZE(progs); i++) {
		const char *why = progs__why(p, progs[i]);
		char key[48];

		if (!why ||
		    (strcmp(progs[i], "hal_alloc_s") == 0 && !features__has(f, FEAT_SESSION)))
			continue;
		snprintf(key, sizeof(key), "program %s", progs[i]);
		say(r, key, why, "its events are missing");
		r->problems++;
	}
	say(r, "programs", r->problems ? "some do not load" : "load", NULL);
	progs__free(p);
}

struct found {
	size_t libs;
	size_t processes;
};

static int on_mapping(void *ctx, const struct mapping *m)
{
	size_t *n = ctx;

	*n += catalogue__wants(strrchr(m->path, '/') + 1) && !path__is_stub(m->path);
	return 0;
}

static int on_process(void *ctx, pid_t pid)
{
	struct found *f = ctx;
	size_t n = 0;

	proc__each_mapping(pid, on_mapping, &n);
	f->libs += n;
	f->processes += n > 0;
	return 0;
}

int cmd_check(int argc, char **argv)
{
	struct report r = { 0 };
	struct found found = { 0 };
	struct features f;
	struct utsname u;
	bool nothing = false;
	const char *bad;
	char buf[64];
	int opt;

	while ((opt = getopt_long(argc, argv, "Jh", longs, NULL)) != -1) {
		if (opt == 'J') {
			r.json = true;
			continue;
		}
		if (opt != 'h')
			return cli__usage_error("check");
		puts("Usage: memtap check [-J]\n"
		     "\n"
		     "Tell what this kernel and these rights allow, by trying. Exit status 1 if\n"
		     "`memtap record` cannot work here.\n"
		     "\n"
		     "  -J, --json  one JSON object\n"
		     "  -h, --help  this text");
		return EXIT_OK;
	}
	if (optind < argc) {
		pr_err("'%s': no argument is expected", argv[optind]);
		return cli__usage_error("check");
	}
	r.top = cJSON_CreateObject();
	uname(&u);
	if (!r.json)
		puts("System");
	say(&r, "memtap", MEMTAP_VERSION, NULL);
	say(&r, "kernel", u.release, NULL);
	say(&r, "architecture", u.machine, NULL);
	snprintf(buf, sizeof(buf), "%ld", sysconf(_SC_PAGESIZE));
	say(&r, "page size", buf, NULL);
	snprintf(buf, sizeof(buf), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	say(&r, "processors", buf, NULL);
	say_file(&r, "lockdown", "/sys/kernel/security/lockdown", NULL);
	say_file(&r, "kernel.perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid", NULL);
	say_file(&r, "kernel.unprivileged_bpf_disabled",
		 "/proc/sys/kernel/unprivileged_bpf_disabled", NULL);
	bad = knownbad__here(KNOWNBAD_URETPROBE_SECCOMP);
	say(&r, "known defects of this release", bad ? bad : "none",
	    bad ? "`ret` sites are used" : NULL);
	bad = knownbad__here(KNOWNBAD_UTASK_RACE);
	say(&r, "known defects beside others", bad ? bad : "none", NULL);
	if (!r.json)
		puts("Rights");
	check_caps(&r);
	say(&r, "user namespace", userns__is_initial() ? "initial" : "not the initial one",
	    userns__is_initial()
		    ? NULL
		    : "the rights above do not count for BPF: run memtap outside of it");
	say(&r, "PID namespace", pidns__own() ? "not the initial one" : "initial",
	    pidns__own() ? "only processes in it are seen, by their numbers in it" : NULL);
	if (!r.json)
		puts("Features, by trying");
	check_features(&r, &f);
	if (!features__has(&f, FEAT_BTF) || !features__has(&f, FEAT_RINGBUF) ||
	    (!features__has(&f, FEAT_MULTI) && !features__has(&f, FEAT_PERF_UPROBE))) {
		r.problems++;
		nothing = true;
	} else {
		check_load(&r, &f);
	}
	if (!r.json)
		puts("Targets");
	proc__each(on_process, &found);
	snprintf(buf, sizeof(buf), "%zu", found.processes);
	say(&r, "processes with NPU libraries", buf,
	    found.processes ? NULL : "none is running, or their mappings may not be read");
	if (r.json) {
		char *text;

		cJSON_AddBoolToObject(r.top, "ok", !r.problems);
		text = cJSON_Print(r.top);
		puts(text ? text : "{}");
		free(text);
	} else {
		printf("memtap record %s here.\n", nothing	? "cannot work"
						   : r.problems ? "cannot fully work"
								: "can work");
	}
	cJSON_Delete(r.top);
	return r.problems ? EXIT_FAIL : EXIT_OK;
}
