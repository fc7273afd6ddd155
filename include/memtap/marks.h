/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program may tell memtap about itself: link with -lmemtap_marks and call these.
 *
 * The library does nothing: memtap probes memtap_mark() wherever it is mapped, and reads its
 * arguments. While nobody traces, a call costs a call.
 */
#ifndef MEMTAP_MARKS_H
#define MEMTAP_MARKS_H

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers of enum mt_ask (memtap/event.h): an interface, they stay. */
enum memtap_what {
	MEMTAP_START = 1, /* rows from here on; text = "FREE,TOTAL" bytes of the device, or "" */
	MEMTAP_STOP = 2,
	MEMTAP_STEP = 3, /* a step begins */
	MEMTAP_ENTER = 4, /* the thread's allocations have the owner `text` from here on */
	MEMTAP_LEAVE = 5, /* no longer */
	MEMTAP_LABEL = 6, /* the block at the address `value` has the owner `text`, too */
	MEMTAP_CONFIG = 7, /* an option a line: --level=, --events=, --device= */
	MEMTAP_SNAPSHOT = 8, /* of device `value`; text = "RESERVED,MAX_RESERVED,ALLOCATED,"
			      * "MAX_ALLOCATED,TOTAL,FREE,NAME", numbers may be empty */
	MEMTAP_MARK = 9, /* a mark */
};

/* text: never NULL; 255 bytes of it are read. */
void memtap_mark(unsigned long what, unsigned long value, const char *text);
/* Has somebody put a probe into memtap_mark() right now? 0 or 1. */
int memtap_traced(void);

#ifdef __cplusplus
}
#endif

#endif
