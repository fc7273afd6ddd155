// SPDX-License-Identifier: Apache-2.0
/* What the kernel can do: each feature is tried, and switched off by MEMTAP_DISABLE. */
#include "probe/probe.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "probe/calibrate.h"
#include "probe/kernel.h"

static const struct {
	const char *name;
	const char *text;
} names[FEAT_MAX] = {
	[FEAT_BTF] = { "btf", "kernel type information (BTF)" },
	[FEAT_RINGBUF] = { "ringbuf", "BPF ring buffer" },
	[FEAT_PERF_UPROBE] = { "perf", "perf uprobes" },
	[FEAT_COOKIE] = { "cookie", "attach cookies" },
	[FEAT_SLEEPABLE] = { "sleepable", "sleepable uprobe programs" },
	[FEAT_MULTI] = { "multi", "uprobe_multi links" },
	[FEAT_SESSION] = { "session", "uprobe sessions" },
	[FEAT_LOOP] = { "loop", "stacks walked by loops" },
};

const char *feature__name(enum feature x)
{
	return names[x].text;
}

static int verdict(int fd_or_err)
{
	if (fd_or_err >= 0) {
		close(fd_or_err);
		return 1;
	}
	return fd_or_err == -EPERM || fd_or_err == -EACCES ? fd_or_err : 0;
}

/* A two-instruction program, or one that also calls a helper first. */
static int load(__s32 helper, __u32 attach_type, __u32 flags)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_JMP | BPF_CALL, .imm = helper },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach_type,
		    .prog_flags = flags);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "mt_feat", "Dual BSD/GPL",
			       helper ? insns : insns + 1, helper ? 3 : 2, &opts);

	return fd < 0 ? -errno : fd;
}

static int try_ringbuf(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "mt_feat", 0, 0, (__u32)sysconf(_SC_PAGESIZE),
				NULL);

	return verdict(fd < 0 ? -errno : fd);
}

/*
 * A link on a path that is no regular file: -EBADF says that the attach type is
 * known and its arguments were understood (the trick of libbpf's features.c).
 */
static int try_multi(__u32 attach_type)
{
	__u64 off = 1;
	int prog = load(0, attach_type, 0), fd;

	if (prog < 0)
		return verdict(prog);
	fd = kernel__multi_link(prog, attach_type, "/", &off, NULL, 1, 0, 0);
	close(prog);
	if (fd >= 0)
		close(fd);
	if (fd == -EBADF)
		return 1;
	return fd == -EPERM || fd == -EACCES ? fd : 0;
}

/* Without its arguments: refused for them (-EACCES) where the helper is known. */
static int try_loop(void)
{
	int err = load(BPF_FUNC_loop, 0, 0);

	if (err >= 0)
		close(err);
	return err >= 0 || err == -EACCES ? 1 : err == -EPERM ? err : 0;
}

/* An address of this program that nothing executes; perf checks the file only. */
static void perf_target(void)
{
}

static int try_perf(int *fd)
{
	uint64_t off;

	*fd = -1;
	if (self__file_offset((const void *)(uintptr_t)perf_target, &off))
		return 0;
	*fd = kernel__perf_uprobe("/proc/self/exe", off, false, 0);
	return *fd < 0 ? verdict(*fd) : 1;
}

static bool disabled(const char *name)
{
	const char *list = getenv("MEMTAP_DISABLE");
	size_t n = strlen(name);

	while (list && *list) {
		size_t m = strcspn(list, ", ");

		if (m == n && strncmp(list, name, n) == 0)
			return true;
		list += m + (list[m] != '\0');
	}
	return false;
}

/*
 * What is here already tells whether perf events are needed at all. To try them
 * may take long: each waits for all that anybody is closing (event_mutex).
 */
void features__probe(struct features *f, bool all)
{
	int perf = -1, i, prog;

	f->state[FEAT_BTF] = access("/sys/kernel/btf/vmlinux", R_OK) == 0 ? 1 : 0;
	f->state[FEAT_RINGBUF] = try_ringbuf();
	f->state[FEAT_COOKIE] = verdict(load(BPF_FUNC_get_attach_cookie, 0, 0));
	f->state[FEAT_SLEEPABLE] = verdict(load(0, 0, BPF_F_SLEEPABLE));
	f->state[FEAT_MULTI] = try_multi(MT_BPF_TRACE_UPROBE_MULTI);
	f->state[FEAT_SESSION] = try_multi(MT_BPF_TRACE_UPROBE_SESSION);
	f->state[FEAT_LOOP] = try_loop();
	f->state[FEAT_PERF_UPROBE] = FEATURE_UNTRIED;
	if (all || f->state[FEAT_MULTI] != 1 || disabled("multi"))
		f->state[FEAT_PERF_UPROBE] = try_perf(&perf);
	f->emu_known = false;
	f->emu = 0;
	if (!disabled("emulation")) {
		prog = f->state[FEAT_MULTI] == 1 && !disabled("multi")
			       ? load(0, MT_BPF_TRACE_UPROBE_MULTI, 0)
			       : -1;
		f->emu_known = !calibrate(prog, &f->emu);
		if (prog >= 0)
			close(prog);
	}
	if (perf >= 0)
		close__later(perf);
	for (i = 0; i < FEAT_MAX; i++)
		if (disabled(names[i].name))
			f->state[i] = FEATURE_OFF;
	/* A session is attached through a multi link and told apart by cookies. */
	if (!features__has(f, FEAT_MULTI) && features__has(f, FEAT_SESSION))
		f->state[FEAT_SESSION] = FEATURE_OFF;
}

bool features__has(const struct features *f, enum feature x)
{
	return f->state[x] == 1;
}

const char *features__mechanism(const struct features *f)
{
	if (features__has(f, FEAT_SESSION))
		return "uprobe_multi with sessions";
	if (features__has(f, FEAT_MULTI))
		return "uprobe_multi";
	if (!features__has(f, FEAT_PERF_UPROBE))
		return NULL;
	return features__has(f, FEAT_COOKIE) ? "perf uprobes with cookies"
					     : "perf uprobes, one program a site";
}

const char *features__emulated(const struct features *f, char *buf, size_t n)
{
	/* Probing our own program was the way to find out. */
	if (!f->emu_known && !disabled("emulation"))
		return "not known: takes a probe of memtap itself";
	return calibrate__text(f->emu, buf, n);
}

const char *feature__text(int state, char *buf, size_t n)
{
	if (state == 1)
		return "yes";
	if (state == 0)
		return "no (this kernel has it not)";
	if (state == FEATURE_OFF)
		return "switched off (MEMTAP_DISABLE)";
	if (state == FEATURE_UNTRIED)
		return "not tried";
	snprintf(buf, n, "not permitted: %s", strerror(-state));
	return buf;
}
