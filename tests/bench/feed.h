/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/* What the feeding program and its driver share. */
#ifndef BENCH_FEED_H
#define BENCH_FEED_H

#define FEED_BATCH 32   /* records a run of the program */
#define FEED_LIVE  4096 /* blocks that live at once */

enum feed_mode {
	FEED_MIX,       /* per 32 records: 25 of the pool, 6 launches, 1 of the driver */
	FEED_POOL,      /* pool blocks only: each record gives a row and two trace events */
	FEED_WORKSPACE, /* workspace blocks only: rows, no trace event */
};

struct feed {
	__u64 sent, full, mallocs, frees, hal;
	__u32 mode, tgid, tid, start;
	__u32 site_pta, site_launch, site_alloc, site_free;
};

#endif
