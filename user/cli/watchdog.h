/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that lets targets go on that were stopped for --exact-ranges, when memtap does not:
 * after a second, or when memtap has died.
 */
#ifndef MEMTAP_WATCHDOG_H
#define MEMTAP_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

struct watchdog;

/* What the programs stop stands in `stops`; `cfg`: to tell them that nobody listens any more. */
int watchdog__start(int stops_fd, int cfg_fd, struct watchdog **out);
/* Is it there? */
bool watchdog__alive(struct watchdog *w);
/* Nothing can be stopped any more: it ends. NULL is fine. */
void watchdog__end(struct watchdog *w);

/*
 * Let a process go on that the programs have stopped by then (boot time), whoever comes first. 1:
 * done; 0: somebody else did, or it was not stopped; -EBUSY: another has stopped it too, so it
 * stays; -EMFILE and the like: not now, the entry is there still; -errno.
 */
int stop__release(int stops_fd, uint32_t tgid, uint64_t upto);
/* The same for all. */
void stop__release_all(int stops_fd, uint64_t upto);

#endif
