/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps shared by all programs. Each object declares them; the loader creates
 * them once and makes the other objects reuse them (probe/progs.c).
 */
#ifndef MEMTAP_MAPS_BPF_H
#define MEMTAP_MAPS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <memtap/event.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* replaced by --ring-size */
} events SEC(".maps");

/* fork, exec, exit: never sampled, never crowded out by events (R11). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} life SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mt_cfg);
} cfg SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MT_MAX_SITES);
	__type(key, __u32);
	__type(value, struct mt_site);
} sites SEC(".maps");

/* Requests for a start that processes have made (MT_ASK_START): see cfg.pause_at. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} starts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32); /* tgid */
	__type(value, struct mt_target);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct mt_inflight_key);
	__type(value, struct mt_inflight);
} inflight SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct mt_guard_key);
	__type(value, struct mt_guard);
} guards SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MT_MAX_SITES);
	__type(key, __u32);
	__type(value, struct mt_site_stat);
} stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 2048);
	__type(key, struct mt_loss_key);
	__type(value, struct mt_loss_val);
} losses SEC(".maps");

/* Operators, and the layouts of the libraries they are in; one of each unless they are asked for.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mt_op);
} ops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MT_MAX_TORCHES);
	__type(key, __u32);
	__type(value, struct mt_torch);
} torches SEC(".maps");

/* Allocators of the host (host.bpf.h): processes in ranges, their ranges, who is stopped. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32); /* tgid */
	__type(value, struct mt_host_gate);
} host_gates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct mt_host_key);
	__type(value, struct mt_host_range);
} host_ranges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32); /* tgid */
	__type(value, struct mt_host_stop);
} host_stops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} host_notes SEC(".maps");

/* Notes that the ring had no room for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} host_lost SEC(".maps");

/*
 * Kernels without cookies: a small program a site leaves the number of the site
 * and calls the common one. Nothing else runs on this CPU in between.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} called SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, MT_MAX_MAINS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} mains SEC(".maps");

/* Here, for it must be once in an object: merged.bpf.c includes several programs. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

#endif
