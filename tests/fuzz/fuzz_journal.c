// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: `memtap recover` on a folder that anybody may have written: a
 * journal, the dump that it belongs to, a trace. See run.sh.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "output/journal.h"
#include "output/recover.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STAMP "20240101000000"
#define DUMP "dump/leaks_dump_" STAMP

static char dir[256];
static int root = -1;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)argc;
	(void)argv;
	dup2(null, STDOUT_FILENO); /* recovery tells what it does */
	log__set_level(LOG_ERROR);
	/* run.sh makes it in memory, and removes it */
	snprintf(dir, sizeof(dir), "%s/run-XXXXXX",
		 getenv("FUZZ_WORK") ? getenv("FUZZ_WORK") : ".");
	if (!mkdtemp(dir))
		abort();
	root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || mkdirat(root, "dump", 0700) || mkdirat(root, "trace", 0700))
		abort();
	return 0;
}

static void put(const char *name, const void *p, size_t n)
{
	int fd = openat(root, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	close(fd);
}

/* Bytes that are to be a journal: with sums that hold, else nothing behind them is reached. */
static void put_journal(const uint8_t *p, size_t n, uint8_t mode)
{
	struct journal_head head = { .version = JOURNAL_VERSION, .flags = mode & 31 };
	struct strbuf sb = { 0 };

	memcpy(head.magic, JOURNAL_MAGIC, sizeof(head.magic));
	strbuf__add(&sb, &head, sizeof(head));
	while (n > 2) {
		size_t len = MT_MIN((size_t)p[1] * 4 + 8, n - 2);
		struct journal_rec rec = { .len = (uint32_t)len, .kind = p[0] & 3 };

		rec.sum = journal__sum(p + 2, len, rec.kind);
		if (p[0] & 64)
			rec.sum ^= 1;
		strbuf__add(&sb, &rec, sizeof(rec));
		strbuf__add(&sb, p + 2, len);
		p += len + 2;
		n -= len + 2;
	}
	strbuf__add(&sb, p, n); /* a torn end */
	if (sb.failed)
		abort();
	put("dump/.leaks_dump_" STAMP ".journal", sb.data, sb.len);
	strbuf__free(&sb);
}

static const char *const left[] = { DUMP ".csv",
				    DUMP ".db",
				    DUMP ".db-wal",
				    DUMP ".db-shm",
				    DUMP ".db-journal",
				    "dump/.leaks_dump_" STAMP ".journal",
				    "trace/npu0_trace_" STAMP ".json" };

/* mode, length of the journal and of the trace in units of 16 bytes; they; the rest is the dump. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t nj, nt, i;
	uint8_t mode;

	if (size < 3 || size > 65536)
		return 0;
	mode = data[0];
	nj = (size_t)data[1] * 16;
	nt = (size_t)data[2] * 16;
	data += 3;
	size -= 3;
	nj = MT_MIN(nj, size);
	nt = MT_MIN(nt, size - nj);
	if (mode & 128)
		put("dump/.leaks_dump_" STAMP ".journal", data, nj);
	else
		put_journal(data, nj, mode);
	put("trace/npu0_trace_" STAMP ".json", data + nj, nt);
	put(mode & JOURNAL_DB ? DUMP ".db" : DUMP ".csv", data + nj + nt, size - nj - nt);
	out__recover(dir);
	out__recover(dir); /* once more: it may have been killed itself */
	for (i = 0; i < MT_ARRAY_SIZE(left); i++)
		unlinkat(root, left[i], 0);
	return 0;
}
