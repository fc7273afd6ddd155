// SPDX-License-Identifier: Apache-2.0
/* Commands on dump files: how their options are read, and one path after the other. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/offline.h"

int offline__wrong(const char *cmd, const char *option, const char *text, const char *wanted)
{
	pr_err("%s '%s': %s is wanted", option, cli__text(text), wanted);
	return cli__usage_error(cmd);
}

static int number(const char *text, int base, uint64_t *v)
{
	char *end;

	errno = 0;
	*v = strtoull(text, &end, base);
	return errno || *text < '0' || *text > '9' || *end ? -EINVAL : 0;
}

int offline__number(const char *cmd, const char *option, const char *text, uint64_t least,
		    uint64_t most, uint64_t *v)
{
	char wanted[64];

	if (!number(text, 10, v) && *v >= least && *v <= most)
		return 0;
	if (most == UINT64_MAX)
		snprintf(wanted, sizeof(wanted), "a number from %llu on",
			 (unsigned long long)least);
	else
		snprintf(wanted, sizeof(wanted), "a number from %llu to %llu",
			 (unsigned long long)least, (unsigned long long)most);
	return offline__wrong(cmd, option, text, wanted);
}

int offline__address(const char *cmd, const char *option, const char *text, uint64_t *v)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');

	if (!number(text, hex ? 16 : 10, v))
		return 0;
	return offline__wrong(cmd, option, text, "an address, decimal or 0x...,");
}

int offline__size(const char *cmd, const char *option, const char *text, int64_t *v)
{
	uint64_t size;

	if (cli__size(text, &size) || size > INT64_MAX)
		return offline__wrong(cmd, option, text, "a size such as 4096, 64K or 2M");
	*v = (int64_t)size;
	return 0;
}

static int read_format(const struct offline_cmd *c, const char *text)
{
	if (strcmp(text, "text") != 0 && strcmp(text, "csv") != 0)
		return offline__wrong(c->name, "--format", text, "text or csv");
	c->common->csv = *text == 'c';
	return 0;
}

/* EXIT_OK, EXIT_USAGE or EXIT_FAIL, said; -1: help was asked for. */
static int read_options(const struct offline_cmd *c, int argc, char **argv)
{
	int opt, status = EXIT_OK;

	while (!status && (opt = getopt_long(argc, argv, "h", c->longs, NULL)) != -1) {
		switch (opt) {
		case OFFLINE_FORMAT:
			status = read_format(c, optarg);
			break;
		case OFFLINE_STACKS:
			c->common->stacks = true;
			break;
		case OFFLINE_STRICT:
			c->common->strict = true;
			break;
		case 'h':
			c->help();
			return -1;
		case '?':
			return cli__usage_error(c->name);
		default:
			status = c->option(opt);
		}
	}
	return status;
}

int offline__run(const struct offline_cmd *c, int argc, char **argv)
{
	int status = read_options(c, argc, argv), i, err = 0, e;
	bool incomplete = false;

	if (!status && c->ready)
		status = c->ready();
	if (status)
		return status < 0 ? EXIT_OK : status;
	if (optind == argc)
		return offline__no_path(c->name);
	for (i = optind; i < argc; i++) {
		unsigned int said = log__errors();

		offline__title(argv[i], argc - optind);
		e = c->one(argv[i], &incomplete);
		if (e && log__errors() == said)
			pr_err("%s: cannot be analysed: %s", cli__text(argv[i]),
			       e < 0 ? strerror(-e) : "it was given up");
		err = err ? err : e;
	}
	return offline__status(err, incomplete, c->common->strict);
}
