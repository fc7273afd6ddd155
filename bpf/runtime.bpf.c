// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Kernel launches of libruntime, the outermost of a thread (ascend-abi.md 2.4, 4.1). */
#include "lib/inflight.bpf.h"

#define MAGIC_FUNC 0x46554E43 /* "FUNC": wrapper of a function handle, CANN master */
#define MAGIC_BINH 0x42494E48 /* "BINH": wrapper of a program handle */

/* struct Kernel and struct Program of cann-runtime (2.4, item 2). */
#define KERNEL_NAME 24 /* std::string: its first word is the char pointer */
#define PROGRAM_TABLE 8 /* sorted array of {u64 tilingKey, Kernel *} */
#define PROGRAM_COUNT 16 /* u32 room of the array, u32 entries in it */
#define TABLE_STEPS 16 /* binary search: up to 65535 kernels a program */

static __always_inline __u64 unwrap(__u64 h, __u64 magic)
{
	__u64 v;

	if (user_u64(h, &v))
		return 0;
	if ((__u32)v != magic)
		return h;
	return user_u64(h + 8, &v) ? 0 : v;
}

/* Address of the name of the kernel behind a function handle; 0 = unknown. */
static __always_inline __u64 handle_name(__u64 h)
{
	__u64 k = h ? unwrap(h, MAGIC_FUNC) : 0, name;

	return k && !user_u64(k + KERNEL_NAME, &name) ? name : 0;
}

static __always_inline __u64 program_name(__u64 prog, __u64 key)
{
	__u64 obj = prog ? unwrap(prog, MAGIC_BINH) : 0, table, row[2], name;
	__u32 size[2], count, lo = 0, mid;
	int i;

	if (!obj || user_u64(obj + PROGRAM_TABLE, &table) || !table ||
	    user_read(size, sizeof(size), obj + PROGRAM_COUNT))
		return 0;
	count = size[1] && size[1] < size[0] ? size[1] : size[0];
	if (!count || count > 65535)
		return 0;
	for (i = 0; i < TABLE_STEPS; i++) {
		if (lo >= count)
			break;
		mid = lo + (count - lo) / 2;
		if (user_read(row, sizeof(row), table + 16 * (__u64)mid))
			return 0;
		if (row[0] == key)
			return !user_u64(row[1] + KERNEL_NAME, &name) ? name : 0;
		if (row[0] < key)
			lo = mid + 1;
		else
			count = mid;
	}
	return 0;
}

static __always_inline int rt_launch_enter(struct pt_regs *ctx)
{
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx) || probe__paused(&p))
		return 0;
	if (!guard__only(&p, MT_GUARD_LAUNCH))
		return 0;
	if (p.site->arg[0] >= 0)
		f.a[0] = ctx_arg(ctx, p.site->arg[0], p.sp);
	if (p.site->arg[1] >= 0)
		f.a[1] = ctx_arg(ctx, p.site->arg[1], p.sp);
	if (p.site->arg[2] >= 0)
		f.a[2] = ctx_arg(ctx, p.site->arg[2], p.sp);
	f.a[3] = p.site->name_kind;
	inflight__put(&p, &f);
	return 1;
}

static __always_inline void rt_launch_leave(struct pt_regs *ctx, __u32 session)
{
	struct mt_inflight f;
	struct probe p;
	__u64 name = 0;

	if (!probe__start_ret(&p, ctx, session))
		return;
	if (!guard__mine(&p, MT_GUARD_LAUNCH)) {
		/* Nested, or begun before the attach. */
		return;
	}
	guard__drop(&p, MT_GUARD_LAUNCH);
	if (!inflight__take(&p, &f))
		return;
	switch (p.site->name_kind) {
	case MT_NAME_HANDLE:
		name = handle_name(f.a[0]);
		break;
	case MT_NAME_PROGRAM:
		name = program_name(f.a[0], f.a[2]);
		break;
	case MT_NAME_STRING:
		name = f.a[0];
		if ((p.site->flags & MT_SITE_RC_ADDR) && user_u64(name + p.site->off[0], &name))
			name = 0;
		break;
	}
	EMIT_CALL_TEXT(mt_call_name, &p, f.begin, &f, (__s32)CTX_RC(ctx), name);
}
MT_PAIR(rt_launch)
