// SPDX-License-Identifier: Apache-2.0
/* The analyses of --analysis on the dump that a run has just written. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/msleaks_options.h"
#include "cli/scan.h"
#include "cli/session.h"

static const struct {
	unsigned int bit;
	const char *name;
	int (*run)(int argc, char **argv);
} analyses[] = {
	{ MSLEAKS_LEAKS, "leaks", cmd_leaks },
	{ MSLEAKS_INEFFICIENT, "inefficient", cmd_inefficient },
	{ MSLEAKS_DECOMPOSE, "decompose", cmd_decompose },
};

void session__keep_paths(struct session *s)
{
	size_t n = 0, i;

	while (out__path(s->out, (unsigned int)n))
		n++;
	s->written = calloc(n + 1, sizeof(*s->written));
	for (i = 0; s->written && i < n; i++)
		s->written[i] = strdup(out__path(s->out, (unsigned int)i));
}

static char *dump_of(const struct session *s)
{
	size_t i;

	for (i = 0; s->written && s->written[i]; i++)
		if (strstr(path_base(s->written[i]), "_dump_"))
			return s->written[i];
	return NULL;
}

int session__analyse(struct session *s)
{
	char *dump = dump_of(s);
	int status = EXIT_OK, e;
	char name[16];
	size_t i;

	if (!dump) {
		pr_info("no analysis: nothing was written");
		return EXIT_OK;
	}
	for (i = 0; i < MT_ARRAY_SIZE(analyses); i++) {
		char *argv[] = { name, dump, NULL };

		if (!(s->opts.analysis & analyses[i].bit))
			continue;
		if (analyses[i].bit == MSLEAKS_LEAKS && s->opts.n_steps) {
			/* As the vendor's tool: a step alone cannot show what outlives it. */
			pr_info("no analysis of leaks: --steps leaves out what comes between them");
			continue;
		}
		/* As V-seed; V-now analyses what it has (msleaks.md 6.1). */
		if (analyses[i].bit == MSLEAKS_LEAKS && s->opts.paused && !s->opts.newer) {
			pr_info("no analysis of leaks: --collect-mode=custom leaves out what comes "
				"between the windows; memtap leaks does it all the same");
			continue;
		}
		snprintf(name, sizeof(name), "%s", analyses[i].name);
		optind = 0; /* begins anew */
		e = analyses[i].run(2, argv);
		status = status ? status : e;
	}
	return status;
}
