// SPDX-License-Identifier: Apache-2.0
/*
 * Debug files from debuginfod servers, by elfutils' client library.
 *
 * Only where somebody asks for it: it goes to the network, and is slow when off
 * line. The library is opened when first wanted, as it brings in a hundred others.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "symbol/symbol.h"

/* elfutils' debuginfod.h, which need not be installed. */
typedef struct debuginfod_client debuginfod_client;

struct client {
	void *lib;
	debuginfod_client *(*begin)(void);
	int (*find)(debuginfod_client *c, const unsigned char *build_id, int len, char **path);
	void (*set_progress)(debuginfod_client *c, int (*fn)(debuginfod_client *, long, long));
	void (*set_data)(debuginfod_client *c, void *data); /* since 0.180 */
	void *(*get_data)(debuginfod_client *c);
	void (*end)(debuginfod_client *c);
};

static struct client client;

static void *symbol(const char *name)
{
	return dlsym(client.lib, name);
}

static bool load(void)
{
	if (client.lib)
		return true;
	client.lib = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!client.lib)
		return false;
	*(void **)&client.begin = symbol("debuginfod_begin");
	*(void **)&client.find = symbol("debuginfod_find_debuginfo");
	*(void **)&client.set_progress = symbol("debuginfod_set_progressfn");
	*(void **)&client.set_data = symbol("debuginfod_set_user_data");
	*(void **)&client.get_data = symbol("debuginfod_get_user_data");
	*(void **)&client.end = symbol("debuginfod_end");
	if (client.begin && client.find && client.set_progress && client.set_data &&
	    client.get_data && client.end)
		return true;
	dlclose(client.lib);
	client = (struct client){ 0 };
	return false;
}

struct limit {
	uint64_t deadline;
	bool (*stop)(void *ctx);
	void *ctx;
	bool stopped;
};

/* Called at least once a second; not 0 gives up. */
static int progress(debuginfod_client *c, long done, long total)
{
	struct limit *l = client.get_data(c);

	(void)done;
	(void)total;
	if (!l)
		return 0;
	l->stopped = l->stop && l->stop(l->ctx);
	return l->stopped || clock__boot() >= l->deadline;
}

int debuginfod__fetch(const struct file_id *id, unsigned int timeout_ms, bool (*stop)(void *ctx),
		      void *ctx)
{
	struct limit limit = { clock__boot() + timeout_ms * 1000000ULL, stop, ctx, false };
	const char *urls = getenv("DEBUGINFOD_URLS");
	debuginfod_client *c;
	int fd;

	if (id->kind != FILE_ID_BUILD)
		return -EINVAL;
	if (!urls || !*urls)
		return -ENOENT;
	if (!load())
		return -EOPNOTSUPP;
	c = client.begin();
	if (!c)
		return -ENOMEM;
	client.set_data(c, &limit);
	client.set_progress(c, progress);
	fd = client.find(c, id->bytes, id->len, NULL);
	client.end(c);
	if (fd < 0 && limit.stopped)
		return -EINTR;
	if (fd < 0 && clock__boot() >= limit.deadline)
		return -ETIME;
	return fd;
}
