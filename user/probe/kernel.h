/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to probe/: system calls that the libbpf and kernel headers of the
 * oldest supported distribution do not know (tracers.md 3.4).
 */
#ifndef MEMTAP_PROBE_KERNEL_H
#define MEMTAP_PROBE_KERNEL_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>

/* enum bpf_attach_type, numbers are ABI */
#define MT_BPF_PERF_EVENT 41 /* 5.15 */
#define MT_BPF_TRACE_UPROBE_MULTI 48 /* 6.6 */
#define MT_BPF_TRACE_UPROBE_SESSION 57 /* 6.13 */
#define MT_UPROBE_MULTI_RETURN 1

/*
 * fd of a link on n offsets of one file, or -errno. cookies may be NULL. pid: in one process
 * only (before 6.10 perhaps not in its other threads: attach.c), 0 = in every one.
 */
int kernel__multi_link(int prog, uint32_t attach_type, const char *path, const __u64 *offsets,
		       const __u64 *cookies, uint32_t n, uint32_t flags, int pid);
/* fd of a perf event for a uprobe in one process or (pid 0) in every one, or -errno. */
int kernel__perf_uprobe(const char *path, uint64_t off, bool ret, int pid);
/* fd of a link between a program and a perf event with a cookie (5.15), or -errno. */
int kernel__perf_link(int prog, int perf, uint64_t cookie);
/* Without links (before 5.15): the program belongs to the event. 0 or -errno. */
int kernel__perf_set_bpf(int prog, int perf);

#endif
