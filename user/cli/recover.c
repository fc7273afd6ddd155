// SPDX-License-Identifier: Apache-2.0
/* memtap recover: finishes the files of a killed run. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "output/output.h"

static const struct option longs[] = { { "help", no_argument, NULL, 'h' }, { 0 } };

int cmd_recover(int argc, char **argv)
{
	int opt, err = 0;

	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (opt != 'h')
			return cli__usage_error("recover");
		puts("Usage: memtap recover DIR...\n"
		     "\n"
		     "Finish the files of a `memtap record` that was killed: close the trace JSON, "
		     "cut\n"
		     "a torn last row, checkpoint a db, write the rows of open blocks, and a LOST "
		     "and\n"
		     "a STOP_TRACE row. Runs that are still writing are left alone.\n"
		     "\n"
		     "  -h, --help  this text");
		return EXIT_OK;
	}
	if (optind == argc) {
		pr_err("no directory given");
		return cli__usage_error("recover");
	}
	for (; optind < argc; optind++) {
		int e = out__recover(argv[optind]);

		if (e)
			pr_err("%s: %s", argv[optind], strerror(-e));
		err = err ? err : e;
	}
	return err ? EXIT_FAIL : EXIT_OK;
}
