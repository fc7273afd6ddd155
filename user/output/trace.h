/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of trace events, between trace.c and trace_event.c. */
#ifndef MEMTAP_OUTPUT_TRACE_H
#define MEMTAP_OUTPUT_TRACE_H

#include "output/internal.h"

/* A point or a length on the time axis: ns (real) or a kernel ordinal. */
struct stamp {
	int64_t v;
	bool real;
};

void trace_event__begin_file(struct sink *s);
/* Zero of the real axis as wall-clock time. */
void trace_event__anchor(struct sink *s, uint64_t realtime_ns);
void trace_event__process(struct sink *s, uint32_t pid);
void trace_event__counter(struct sink *s, const char *name, uint32_t pid, uint32_t tid,
			  struct stamp ts, uint64_t size);
/* args {key: text}; text NULL = none. */
void trace_event__instant(struct sink *s, const char *name, uint32_t pid, uint32_t tid,
			  struct stamp ts, const char *key, const char *text, size_t len);
void trace_event__slice(struct sink *s, const char *name, uint32_t pid, uint32_t tid,
			struct stamp ts, struct stamp dur);
void trace_event__leak(struct sink *s, uint32_t tid, uint64_t addr, int64_t size, struct stamp ts,
		       struct stamp dur);
/*
 * Metadata, brackets, close. When the disk is full the brackets go over the
 * last comma, so that the file is valid in any case.
 */
int trace_event__end_file(struct sink *s, uint32_t *pids, size_t n);

#endif
