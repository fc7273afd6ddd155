// SPDX-License-Identifier: Apache-2.0
/* memtap probes: wanted, found, site, cost, and why not; of a process or a file. */
#include <cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/probes_file.h"
#include "cli/scan.h"
#include "probe/probe.h"
#include "target/target.h"

static void help(FILE *f)
{
	fputs("Usage: memtap probes [OPTIONS] {-p PID | FILE...}\n"
	      "\n"
	      "List the probes that `record` would set: symbol, site, expected cost, why not.\n"
	      "Nothing is attached, but with --try.\n"
	      "\n"
	      "  -p, --pid PID   libraries that a process has mapped or could load\n"
	      "      --derive    print what is derived from FILE (a libtorch_npu.so)\n"
	      "  -T, --try       attach each for a moment: attached or failed, and why\n"
	      "  -J, --json      machine-readable\n"
	      "  -A, --missing   also list probes that a library has no function for\n"
	      "      --host      also those of malloc and its family, which are set while a\n"
	      "                  range for the host's memory is open; FILE may be any allocator\n"
	      "  -h, --help      this text\n"
	      "\n"
	      "Cost: emulated = one trap a call, stepped = two. man memtap-probes\n",
	      f);
}

static const struct option longs[] = {
	{ "pid", required_argument, NULL, 'p' }, { "derive", no_argument, NULL, 'D' },
	{ "json", no_argument, NULL, 'J' },	 { "try", no_argument, NULL, 'T' },
	{ "missing", no_argument, NULL, 'A' },	 { "host", no_argument, NULL, 'H' },
	{ "help", no_argument, NULL, 'h' },	 { 0 },
};

struct look {
	struct prober *prober;
	pid_t pid;
	bool host;
};

static int add(struct look *l, int fd, const char *path)
{
	int r = prober__add(l->prober, fd, path, 0);

	if (r < 0)
		pr_err("%s: %s", path, elf__why(r));
	return r < 0 ? r : 0;
}

static int on_allocator(void *ctx, const struct mapping *m)
{
	struct look *l = ctx;
	int fd = hostmem__is_likely(m->path) ? mapping__open(l->pid, m) : -ENOENT;

	if (fd < 0)
		return 0;
	(void)prober__host_file(l->prober, fd, m->path);
	close(fd);
	return 0;
}

/* The same files that `record` finds. */
static int look_at_pid(struct look *l)
{
	struct scan c = { .prober = l->prober, .pid = l->pid };
	uint32_t start;
	int err = proc__start(l->pid, &start);

	if (!err)
		err = scan__process(&c);
	if (!err && l->host)
		err = proc__each_mapping(l->pid, on_allocator, l);
	scan__free(&c);
	if (err < 0) {
		pr_err("pid %d: %s", (int)l->pid,
		       err == -ESRCH	? "no such process"
		       : err == -EACCES ? "its mappings may not be read: another user's, or of "
					  "another user namespace; needs CAP_SYS_PTRACE there (man "
					  "memtap, CAPABILITIES)"
					: strerror(-err));
		return err;
	}
	if (!c.mapped && !c.ahead) {
		pr_err("pid %d: not an NPU process: %snone of %s is mapped or found where it would "
		       "look",
		       (int)l->pid,
		       process__is_static(l->pid) ? "it is statically linked, and " : "",
		       catalogue__libs_text());
		return -ENOENT;
	}
	return 0;
}

static int look_at_file(struct look *l, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;
	const char *base = strrchr(path, '/');

	if (fd < 0) {
		pr_err("%s: %s", path, strerror(errno));
		return -errno;
	}
	if (l->host && prober__host_file(l->prober, fd, path) > 0) {
		close(fd);
		return 0;
	}
	if (!catalogue__wants(base ? base + 1 : path) || path__is_stub(path)) {
		pr_err("%s: %s", path,
		       path__is_stub(path) ? "a link-time stub, never probed"
					   : "no library of the catalogue has this name");
		close(fd);
		return -ENOENT;
	}
	err = add(l, fd, path);
	close(fd);
	return err;
}

static void print_text(const struct prober *pr, bool missing)
{
	const struct probed_file *f;
	size_t i, j;

	for (i = 0; (f = prober__file(pr, i)); i++) {
		size_t found = 0;

		for (j = 0; j < f->n_reports; j++)
			found += strcmp(f->reports[j].state, "missing") != 0;
		printf("%s: %zu of %zu wanted functions found\n", cli__text(f->path), found,
		       f->n_reports);
		for (j = 0; j < f->n_reports; j++) {
			const struct probe_report *r = &f->reports[j];

			if (!missing && strcmp(r->state, "missing") == 0 &&
			    r->def->symbol[0][0] != '_')
				continue;
			printf("  %-8s 0x%08" PRIx64 "  %-9s %-14s %-9s %-12s %s%s%s\n", r->state,
			       r->off, r->cost, r->insn[0] ? r->insn : "-", r->returns, r->how,
			       r->symbol, r->why[0] ? ": " : "", r->why);
		}
	}
}

/* Returns differ by mechanism, which is known only where it may be tried. */
static void print_mechanism(const struct features *f)
{
	const char *m = features__mechanism(f);

	printf("Mechanism here: %s\n",
	       m ? m : "not known, as nothing could be tried (memtap check tells why)");
}

static void print_json(const struct prober *pr, const char *mechanism)
{
	cJSON *top = cJSON_CreateArray();
	const struct probed_file *f;
	char *text;
	size_t i, j;

	for (i = 0; (f = prober__file(pr, i)); i++) {
		cJSON *o = cJSON_CreateObject(), *list;

		cJSON_AddStringToObject(o, "path", cli__text(f->path));
		if (mechanism)
			cJSON_AddStringToObject(o, "mechanism", mechanism);
		else
			cJSON_AddNullToObject(o, "mechanism");
		list = cJSON_AddArrayToObject(o, "probes");
		for (j = 0; j < f->n_reports; j++) {
			const struct probe_report *r = &f->reports[j];
			cJSON *p = cJSON_CreateObject();
			char off[24];

			snprintf(off, sizeof(off), "0x%" PRIx64, r->off);
			cJSON_AddStringToObject(p, "symbol", r->symbol);
			cJSON_AddStringToObject(p, "state", r->state);
			cJSON_AddStringToObject(p, "offset", off);
			cJSON_AddStringToObject(p, "instruction", r->insn);
			cJSON_AddStringToObject(p, "cost", r->cost);
			cJSON_AddStringToObject(p, "return_by", r->returns);
			cJSON_AddStringToObject(p, "found_by", r->how);
			cJSON_AddStringToObject(p, "why", r->why);
			cJSON_AddItemToArray(list, p);
		}
		cJSON_AddItemToArray(top, o);
	}
	text = cJSON_Print(top);
	puts(text ? text : "[]");
	free(text);
	cJSON_Delete(top);
}

int cmd_probes(int argc, char **argv)
{
	struct prober_opts opts = { .classes = CLASS_ALL, .dry_run = true };
	struct features f = { { 0 } };
	struct look l = { 0 };
	bool json = false, derive = false, missing = false;
	struct progs_opts po = { .ring_bytes = 65536 };
	struct progs *progs = NULL;
	int opt, err = 0;
	const char *bad;
	char *end;

	while ((opt = getopt_long(argc, argv, "p:JATh", longs, NULL)) != -1) {
		switch (opt) {
		case 'p':
			l.pid = (pid_t)strtol(optarg, &end, 10);
			if (*end || l.pid < 1) {
				pr_err("--pid: '%s' is not a process id", optarg);
				return cli__usage_error("probes");
			}
			break;
		case 'D':
			derive = true;
			break;
		case 'J':
			json = true;
			break;
		case 'T':
			opts.dry_run = false;
			break;
		case 'A':
			missing = true;
			break;
		case 'H':
			l.host = true;
			break;
		case 'h':
			help(stdout);
			return EXIT_OK;
		default:
			return cli__usage_error("probes");
		}
	}
	if (!l.pid == (optind == argc) || (derive && optind == argc)) {
		pr_err("give either -p PID or files%s", derive ? " (--derive wants a file)" : "");
		return cli__usage_error("probes");
	}
	if (derive) {
		for (; optind < argc; optind++)
			if (probes_file__derive(argv[optind], json, stdout))
				err = -EINVAL;
		return err ? EXIT_FAIL : EXIT_OK;
	}
	features__probe(&f, false);
	bad = knownbad__here(KNOWNBAD_URETPROBE_SECCOMP);
	if (bad) { /* as record does */
		pr_warn("%s: `ret` sites would be used instead", bad);
		opts.ret_sites = true;
	}
	if (!opts.dry_run && progs__load(&po, &f, &progs))
		return EXIT_FAIL;
	l.prober = prober__new(progs, &f, &opts);
	if (!l.prober)
		return EXIT_FAIL;
	if (l.pid)
		err = look_at_pid(&l);
	for (; optind < argc; optind++) {
		int e = look_at_file(&l, argv[optind]);

		err = err ? err : e;
	}
	if (json) {
		print_json(l.prober, features__mechanism(&f));
	} else {
		print_text(l.prober, missing);
		if (prober__file(l.prober, 0))
			print_mechanism(&f);
	}
	prober__free(l.prober);
	progs__free(progs);
	return err ? EXIT_FAIL : EXIT_OK;
}
