/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to probe/: what the running kernel does with a probed instruction. */
#ifndef MEMTAP_PROBE_CALIBRATE_H
#define MEMTAP_PROBE_CALIBRATE_H

#include <stddef.h>
#include <stdint.h>

/*
 * SITE_EMU_* bits of what this kernel emulates beyond the common set. `prog`: a
 * program to attach by a multi link, or -1 to take perf events. Forks; takes a few
 * ms. 0, or -ENOENT where it cannot be tried (then no bits).
 */
int calibrate(int prog, unsigned int *emu);
/* The same as words, "none" for 0; in buf. */
const char *calibrate__text(unsigned int emu, char *buf, size_t n);

/* File offset in /proc/self/exe of something in this program's image; 0 or -errno. */
int self__file_offset(const void *address, uint64_t *off);
/* The end of a uprobe waits for a grace period, 10 to 100 ms: not ours to wait for. */
void close__later(int fd);

#endif
