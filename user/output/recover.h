/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of recovery: what a dump holds, what a journal holds, traces. */
#ifndef MEMTAP_OUTPUT_RECOVER_H
#define MEMTAP_OUTPUT_RECOVER_H

#include "output/journal.h"

struct found_pid {
	uint32_t pid;
	bool started, stopped; /* START_TRACE, STOP_TRACE seen, in this order */
	uint64_t max_id;
};

/* What is in a dump. */
struct found {
	struct found_pid *pids;
	size_t n_pids, cap_pids;
	struct hmap by_pid; /* pid -> index in pids */
	struct hmap tail; /* rows behind the journal's last COMMIT */
	uint64_t rows;
	uint64_t max_time;
	uint64_t end; /* csv: offset behind the last whole row */
	bool lost_noted; /* an earlier recovery wrote its LOST row */
	bool nomem;
};

/* Note a row; in_tail: it lies behind the last COMMIT. */
void found__row(struct found *f, const struct row *r, bool in_tail);
bool found__has(const struct found *f, const struct row *r);
void found__free(struct found *f);
/* Read a dump; position is the journal's last COMMIT. 0 or -errno. */
int found__scan_csv(struct found *f, int fd, uint64_t position);
int found__scan_db(struct found *f, void *handle, const char *table, uint64_t position);

/* What is in a journal: the blocks that are open in it. */
struct open_block {
	uint64_t seq;
	struct strbuf rows;
};

struct opened {
	struct journal_head head;
	struct open_block *blocks; /* oldest first */
	size_t n, cap;
	struct hmap by_seq;
	uint64_t position;
	uint64_t good, size; /* bytes that make sense, bytes there are */
};

/* 0, -EBADMSG (no journal of ours) or -errno. A torn end is no error. */
int opened__read(struct opened *o, int fd);
void opened__free(struct opened *o);

/* Close the brackets of a trace file; *done tells whether that was needed. */
int recover__trace(int fd, bool *done);

#endif
