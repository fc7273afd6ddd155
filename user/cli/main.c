// SPDX-License-Identifier: Apache-2.0
/* memtap: finds the command and runs it. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "record", cmd_record,
	  "trace running processes or a command, write the dump and trace files" },
	{ "probes", cmd_probes,
	  "list the probes of a process or a library: found, site, cost, why not" },
	{ "check", cmd_check, "tell what this kernel and these rights allow" },
	{ "ctl", cmd_ctl, "control a recording that runs: start, stop, mark, snapshot, flush" },
	{ "recover", cmd_recover, "finish the files of a run that was killed" },
	{ "leaks", cmd_leaks,
	  "what a dump shows as leaked: between steps, at the end, between marks" },
	{ "gap", cmd_gap, "how evenly each step of a dump uses its pools" },
	{ "inefficient", cmd_inefficient,
	  "blocks of a dump allocated too early, freed too late, idle" },
	{ "watch", cmd_watch, "what happened to chosen blocks of a dump, from MALLOC to FREE" },
	{ "decompose", cmd_decompose, "who owns the memory of each pool of a dump" },
	{ "cut", cmd_cut,
	  "a window of a dump, or its processes and devices, as dumps of their own" },
	{ "compare", cmd_compare, "two dumps side by side, operator by operator" },
	{ "msleaks", cmd_msleaks,
	  "trace a program by the command line of the vendor's tool, and its files" },
};

static void help(FILE *f)
{
	size_t i;

	fputs("Usage: memtap COMMAND [OPTIONS]\n"
	      "\n"
	      "Memory tracer for Ascend NPU hosts: attaches to running processes from outside.\n"
	      "\n"
	      "Commands:\n",
	      f);
	for (i = 0; i < MT_ARRAY_SIZE(commands); i++)
		fprintf(f, "  %-11s %s\n", commands[i].name, commands[i].help);
	fputs("\n"
	      "Options:\n"
	      "  -h, --help     this text\n"
	      "  -V, --version  print the version\n"
	      "\n"
	      "'memtap COMMAND --help' tells the options of a command; man memtap has it all.\n",
	      f);
}

int cli__usage_error(const char *cmd)
{
	fprintf(stderr, "Try 'memtap %s%s--help'.\n", cmd ? cmd : "", cmd ? " " : "");
	return EXIT_USAGE;
}

bool cli__is_vendor(const char *argv0)
{
	const char *slash = strrchr(argv0, '/'), *base = slash ? slash + 1 : argv0;

	return !strcmp(base, "msleaks") || !strcmp(base, "msmemscope");
}

int cli__size(const char *text, uint64_t *v)
{
	char *end;
	unsigned int shift = 0;

	errno = 0;
	*v = strtoull(text, &end, 10);
	if (errno || end == text || text[0] == '-')
		return -EINVAL;
	switch (*end) {
	case 'k':
	case 'K':
		shift = 10;
		break;
	case 'm':
	case 'M':
		shift = 20;
		break;
	case 'g':
	case 'G':
		shift = 30;
		break;
	case '\0':
		return 0;
	default:
		return -EINVAL;
	}
	if (end[1] || *v > UINT64_MAX >> shift)
		return -EINVAL;
	*v <<= shift;
	return 0;
}

const char *cli__bytes(uint64_t v)
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	static char bufs[8][24];
	static unsigned int next;
	char *buf = bufs[next++ % 8];
	double d = (double)v;
	unsigned int u = 0;

	while (d >= 1024 && u + 1 < MT_ARRAY_SIZE(unit)) {
		d /= 1024;
		u++;
	}
	snprintf(buf, sizeof(bufs[0]), u ? "%.1f %s" : "%.0f %s", d, unit[u]);
	return buf;
}

/* Length of the UTF-8 character at p, 0 if it is none. */
static int utf8_len(const unsigned char *p)
{
	int n = p[0] < 0x80		      ? 1
		: p[0] >= 0xc2 && p[0] < 0xe0 ? 2
		: (p[0] & 0xf0) == 0xe0	      ? 3
		: p[0] >= 0xf0 && p[0] < 0xf5 ? 4
					      : 0,
	    i;

	for (i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* Also those of ISO 6429 with eight bits: U+009B is as good as ESC [ to a terminal. */
static bool is_control(const unsigned char *p)
{
	return p[0] < 0x20 || p[0] == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0);
}

const char *cli__text(const char *path)
{
	static char bufs[4][PATH_MAX];
	static unsigned int next;
	char *buf = bufs[next++ % MT_ARRAY_SIZE(bufs)];
	size_t o = 0;

	while (*path && o + 5 < sizeof(bufs[0])) {
		int n = utf8_len((const unsigned char *)path);

		if (!n || is_control((const unsigned char *)path)) {
			buf[o++] = '?';
			path += n ? n : 1;
			continue;
		}
		memcpy(buf + o, path, (size_t)n);
		o += (size_t)n;
		path += n;
	}
	buf[o] = '\0';
	return buf;
}

/* What was printed must have arrived, or the command has failed. */
static int finish_stdout(int status)
{
	int err = fflush(stdout) ? errno : 0;

	if (!err && !ferror(stdout))
		return status;
	/* Of an earlier write the reason is not known any more. */
	pr_err("standard output: %s", err ? strerror(err) : "not all of it could be written");
	return status == EXIT_OK || status == EXIT_INCOMPLETE ? EXIT_FAIL : status;
}

static int run_command(int argc, char **argv)
{
	size_t i;

	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
		help(stdout);
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "-V") || !strcmp(argv[1], "--version")) {
		puts("memtap " MEMTAP_VERSION);
		return EXIT_OK;
	}
	for (i = 0; i < MT_ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name)) {
			argv[1] = (char *)"memtap: error"; /* so getopt's messages begin */
			return commands[i].run(argc - 1, argv + 1);
		}
	fprintf(stderr, "memtap: no command '%s'\n", argv[1]);
	return cli__usage_error(NULL);
}

int main(int argc, char **argv)
{
	/* A full disk, a size limit or a closed pipe is an error to report, not to die of. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/* Called by the name of the vendor's tool, as through a link. */
	if (argc > 0 && cli__is_vendor(argv[0]))
		return finish_stdout(msleaks__main(argc, argv));
	return finish_stdout(run_command(argc, argv));
}
