// SPDX-License-Identifier: Apache-2.0
/* bpf(2) and perf_event_open(2) as needed for uprobes, with our own attribute layouts. */
#include "probe/kernel.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

/* union bpf_attr, member link_create, as of 6.6. */
struct attr_multi {
	__u32 prog_fd, target_fd, attach_type, flags;
	__aligned_u64 path, offsets, ref_ctr_offsets, cookies;
	__u32 cnt, multi_flags, pid, pad;
};

int kernel__multi_link(int prog, uint32_t attach_type, const char *path, const __u64 *offsets,
		       const __u64 *cookies, uint32_t n, uint32_t flags, int pid)
{
	struct attr_multi a = {
		.prog_fd = (__u32)prog,
		.attach_type = attach_type,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offsets,
		.cookies = (uintptr_t)cookies,
		.cnt = n,
		.multi_flags = flags,
		.pid = (__u32)pid,
	};
	/* The padding word is not part of the kernel's struct: it must not be counted. */
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &a, offsetof(struct attr_multi, pad));

	return fd < 0 ? -errno : fd;
}

struct attr_perf_link {
	__u32 prog_fd, target_fd, attach_type, flags;
	__u64 cookie;
};

int kernel__perf_link(int prog, int perf, uint64_t cookie)
{
	struct attr_perf_link a = {
		.prog_fd = (__u32)prog,
		.target_fd = (__u32)perf,
		.attach_type = MT_BPF_PERF_EVENT,
		.cookie = cookie,
	};
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &a, sizeof(a));

	return fd < 0 ? -errno : fd;
}

static long sysfs_number(const char *path, const char *fmt)
{
	char *buf;
	long v = -1;

	if (file__read(path, 4096, &buf) < 0)
		return -1;
	if (sscanf(buf, fmt, &v) != 1)
		v = -1;
	free(buf);
	return v;
}

int kernel__perf_uprobe(const char *path, uint64_t off, bool ret, int pid)
{
	static long type = -2, bit;
	struct perf_event_attr a = { .size = sizeof(a) };
	int fd;

	if (type == -2) {
		bit = sysfs_number("/sys/bus/event_source/devices/uprobe/format/retprobe",
				   "config:%ld");
		type = sysfs_number("/sys/bus/event_source/devices/uprobe/type", "%ld");
	}
	if (type < 0 || bit < 0 || bit > 63)
		return -EOPNOTSUPP;
	a.type = (__u32)type;
	a.config = ret ? 1ULL << bit : 0;
	a.uprobe_path = (uintptr_t)path;
	a.probe_offset = off;
	/*
	 * pid -1 on one CPU: the breakpoint is in every process, the program runs on all CPUs. Of
	 * one process: in its memory, so the program runs for all of its threads.
	 */
	fd = (int)syscall(SYS_perf_event_open, &a, pid ? pid : -1, pid ? -1 : 0, -1,
			  PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int kernel__perf_set_bpf(int prog, int perf)
{
	if (ioctl(perf, PERF_EVENT_IOC_SET_BPF, prog) || ioctl(perf, PERF_EVENT_IOC_ENABLE, 0))
		return -errno;
	return 0;
}
