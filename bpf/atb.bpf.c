// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Operations of ATB, their runners, kernels and tensors (ascend-abi.md 2.9). Exceptions may
 * leave these functions, so entry probes and `ret` sites only.
 */
#include "lib/inflight.bpf.h"

/* atb::Runner, the same in all releases; where the operation's name is, the site knows. */
#define RUNNER_IDS 8 /* std::vector<int64_t> */
#define RUNNER_COUNT 32 /* of executions */
#define RUNNER_DIR 48 /* std::string: its first word is the text's address in either ABI */

/* atb::RunnerVariantPack */
#define PACK_OUT 6784
#define PACK_BUFFERS 13784 /* workspace, its size, intermediate buffer, its size */

/* atb::SVector<Tensor> */
#define VECTOR_SIZE 8
#define VECTOR_ROOM 16
#define VECTOR_HEAP 6776
#define VECTOR_INLINE 64
#define VECTOR_MAX 256
#define TENSOR 104

/* Mki::Tensor and SVector<Tensor>, by the distance from one tensor to the next */
#define MKI_MAX 48
#define MKI_DIMS 400 /* how many: behind 49 sizes */

/* A page that is not there is waited for here: nothing may wait under a reservation. */
static __always_inline void touch(__u64 addr)
{
	char c;

	(void)user_read(&c, 1, addr);
}

/* ---- the workspace ---- */

static __always_inline void pool__emit(struct probe *p, struct pt_regs *ctx, __u64 at, __u64 size,
				       __u32 end)
{
	struct mt_call *c;
	struct refs refs;

	stat_inc(p, entry);
	stat_inc(p, seen);
	refs__here(p, ctx, &refs);
	c = bpf_ringbuf_reserve(&events, sizeof(*c) + REFS_SIZE, 0);
	if (!c) {
		probe__lose(p, MT_LOSS_RING, -1);
		return;
	}
	hdr__fill(&c->h, p, MT_REC_CALL, sizeof(*c), p->now);
	c->begin = p->now;
	c->ret = 0;
	c->a[0] = at;
	c->a[1] = size;
	c->a[2] = end;
	c->a[3] = p->site->off[0];
	c->a[4] = 0;
	refs__put_taken(&refs, &c->h, sizeof(*c));
	EMIT_SUBMIT(p, c);
}

/* Its return address, where x86-64 has it; on arm64 it is in a register that is saved anywhere. */
static __always_inline __u64 pool__back(__u64 sp)
{
	__u64 v = 0;

#if defined(__TARGET_ARCH_x86)
	(void)user_u64(sp, &v);
#endif
	return v;
}

/* OperationBase::Execute(this, pack, workspace, size, context): the outermost has the workspace. */
SEC("uprobe")
int atb_op_e(struct pt_regs *ctx)
{
	struct mt_guard_key k = { .class = MT_GUARD_ATB_POOL };
	struct mt_guard g = {}, *open;
	struct probe p;
	__u64 back;

	if (!probe__start(&p, ctx))
		return 0;
	g.sp = p.sp;
	g.pair = p.site->pair;
	g.size = ctx_arg(ctx, 2, p.sp);
	g.flag = ctx_arg(ctx, 3, p.sp);
	if (!g.size || !g.flag)
		return 0;
	k.tid = p.ktid;
	open = bpf_map_lookup_elem(&guards, &k);
	if (open) {
		back = pool__back(open->sp);
		if (open->sp > p.sp && (__u32)back == open->fn && back >> 32 == open->segment) {
			stat_inc(&p, nested);
			return 0;
		}
		/* An exception has left it. */
		pool__emit(&p, ctx, open->size, open->flag, 1);
	}
	back = pool__back(p.sp);
	g.fn = back;
	g.segment = back >> 32;
	if (bpf_map_update_elem(&guards, &k, &g, BPF_ANY)) {
		stat_inc(&p, entry);
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_INFLIGHT, -1);
		return 0;
	}
	pool__emit(&p, ctx, g.size, g.flag, 0);
	return 0;
}

SEC("uprobe")
int atb_op_r(struct pt_regs *ctx)
{
	struct mt_guard *g;
	struct probe p;
	__u64 at, size;

	if (!probe__start(&p, ctx))
		return 0;
	g = guard__mine(&p, MT_GUARD_ATB_POOL);
	if (!g)
		return 0;
	at = g->size;
	size = g->flag;
	guard__drop(&p, MT_GUARD_ATB_POOL);
	pool__emit(&p, ctx, at, size, 1);
	return 0;
}

/* ---- tensors ---- */

/*
 * Where a loop stands is kept in a guard, which is this thread's own: what comes from a map the
 * verifier does not follow, and steps look the same to it.
 */
#define ATB_PLACE(g) (*(volatile __u32 *)&(g)->refused)
#define ATB_FAULTS(g) (*(volatile __u32 *)&(g)->fn)
#define ATB_FULL(g) (*(volatile __u32 *)&(g)->segment)

/* Are they asked for? The bit of all programs spares the verifier a loop that none will run. */
static __always_inline int atb__tensors(const struct probe *p)
{
	return (patch_mode() & MT_MODE_TENSORS) && (p->site->flags & MT_SITE_ACCESS);
}

struct atb_tensors {
	__u64 in, out; /* the first of them */
	__u32 n_in, n_out;
	__u32 stride; /* 0: of atb, else of Mki */
};

static __always_inline void atb_tensor__emit(struct probe *p, struct mt_guard *g, __u64 at,
					     __u64 sp, __u32 arg, __u32 write, __u32 stride)
{
	struct mt_atb_tensor *r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	long err;

	if (!r) {
		ATB_FULL(g) = ATB_FULL(g) + 1;
		return;
	}
	hdr__fill(&r->h, p, MT_REC_ATB_TENSOR, sizeof(*r), bpf_ktime_get_boot_ns());
	r->sp = sp;
	r->write = write;
	r->kernel = stride != 0;
	r->arg = arg;
	r->pad = 0;
	if (stride) {
		err = bpf_probe_read_user(r->raw, 72, (const void *)at) |
		      bpf_probe_read_user(r->raw + 72, 8, (const void *)at + MKI_DIMS) |
		      bpf_probe_read_user(r->raw + 80, 8, (const void *)at + stride - 24) |
		      bpf_probe_read_user(r->raw + 96, 8, (const void *)at + stride - 16);
		__builtin_memset(r->raw + 88, 0, 8);
	} else {
		err = bpf_probe_read_user(r->raw, TENSOR, (const void *)at);
	}
	if (err) {
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		ATB_FAULTS(g) = ATB_FAULTS(g) + 1;
		return;
	}
	stat_inc(p, entry);
	stat_inc(p, seen);
	stat_inc(p, submitted);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static __always_inline void atb_tensors__lose(struct probe *p, __u32 reason, __u64 n)
{
	if (!n)
		return;
	__sync_fetch_and_add(&p->stat->entry, n);
	__sync_fetch_and_add(&p->stat->seen, n);
	probe__lose_n(p, reason, -1, n);
}

static __always_inline void atb_tensors__emit(struct probe *p, const struct atb_tensors *t,
					      __u64 sp)
{
	struct mt_guard_key k = { .tid = p->ktid, .class = MT_GUARD_ATB_LOOP };
	struct mt_guard fresh = {}, *g;
	__u32 total = t->n_in + t->n_out, stride = t->stride ? t->stride : TENSOR, step;
	const __u32 steps = patch_mode() & MT_MODE_LONG ? MT_ATB_TENSORS : MT_ATB_TENSORS_OLD;

	if (!total)
		return;
	g = bpf_map_update_elem(&guards, &k, &fresh, BPF_ANY) ? 0
							      : bpf_map_lookup_elem(&guards, &k);
	if (!g) {
		atb_tensors__lose(p, MT_LOSS_INFLIGHT, total);
		return;
	}
	touch(t->in);
	touch(t->out);
#pragma clang loop unroll(disable)
	for (step = 0; step < steps; step++) {
		__u32 i = ATB_PLACE(g), write = i >= t->n_in;
		__u64 at = write ? t->out + (__u64)stride * (i - t->n_in)
				 : t->in + (__u64)stride * i;

		if (i >= total)
			break;
		ATB_PLACE(g) = i + 1;
		atb_tensor__emit(p, g, at, sp, write ? i - t->n_in : i, write, t->stride);
	}
	atb_tensors__lose(p, MT_LOSS_FAULT, ATB_FAULTS(g));
	atb_tensors__lose(p, MT_LOSS_RING, ATB_FULL(g));
	atb_tensors__lose(p, MT_LOSS_LENGTH, total - ATB_PLACE(g));
	bpf_map_delete_elem(&guards, &k);
}

/* An SVector<Tensor>: its first tensor and how many; what cannot be one has none. */
static __always_inline int vector__read(__u64 at, __u64 *first, __u32 *n)
{
	__u64 size, heap;

	*n = 0;
	if (user_u64(at + VECTOR_SIZE, &size) || user_u64(at + VECTOR_HEAP, &heap) ||
	    size > (heap ? VECTOR_MAX : VECTOR_INLINE))
		return -1;
	*first = heap ? heap : at + VECTOR_ROOM;
	*n = size;
	return 0;
}

/* ---- runners ---- */

/* Texts go into the record itself: together they are larger than the stack. */
static __always_inline void texts__put(struct mt_atb *r, __u64 name, __u64 dir)
{
	long n = bpf_probe_read_user_str(r->name, sizeof(r->name), (const void *)name);

	if (n == sizeof(r->name))
		r->h.flags |= MT_F_TRUNC;
	if (n < 0)
		r->h.flags |= MT_F_NOTEXT;
	r->name_len = n > 0 ? n - 1 : 0;
	n = bpf_probe_read_user_str(r->dir, sizeof(r->dir), (const void *)dir);
	if (n == sizeof(r->dir))
		r->h.flags |= MT_F_TRUNC;
	r->dir_len = n > 0 ? n - 1 : 0;
}

static __always_inline void run__emit(struct probe *p, const struct mt_inflight *f, __u16 what,
				      __s32 ret)
{
	__u64 runner = f->a[0], ids[2] = {}, buf[4] = {}, count, name, dir, id = 0;
	struct mt_atb *r;

	stat_inc(p, seen);
	if (user_u64(runner + p->site->off[0], &name) || user_u64(runner + RUNNER_DIR, &dir) ||
	    user_u64(runner + RUNNER_COUNT, &count) ||
	    user_read(ids, sizeof(ids), runner + RUNNER_IDS) ||
	    user_read(buf, sizeof(buf), f->a[1] + PACK_BUFFERS)) {
		probe__lose(p, MT_LOSS_FAULT, -1);
		return;
	}
	if (ids[1] > ids[0])
		(void)user_u64(ids[1] - 8, &id);
	touch(name);
	touch(dir);
	r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	if (!r) {
		probe__lose(p, MT_LOSS_RING, -1);
		return;
	}
	hdr__fill(&r->h, p, MT_REC_ATB, sizeof(*r), p->now);
	r->begin = f->begin;
	r->sp = p->sp;
	r->runner = runner;
	r->workspace = buf[0];
	r->bytes = buf[1] + buf[3];
	r->count = count;
	r->id = id;
	r->ids = (ids[1] - ids[0]) / 8;
	r->ret = ret;
	r->what = what;
	r->pad = 0;
	texts__put(r, name, dir);
	EMIT_SUBMIT(p, r);
}

static __always_inline void run__tensors(struct probe *p, __u64 pack)
{
	struct atb_tensors t = {};

	/* The vectors of a pack that makes no sense have no tensors: one loss each. */
	if (vector__read(pack, &t.in, &t.n_in))
		atb_tensors__lose(p, MT_LOSS_FAULT, 1);
	if (vector__read(pack + PACK_OUT, &t.out, &t.n_out))
		atb_tensors__lose(p, MT_LOSS_FAULT, 1);
	atb_tensors__emit(p, &t, p->sp);
}

/* Runner::Execute(this, pack): of graphs too, whose nodes' runners run inside. */
SEC("uprobe")
int atb_run_e(struct pt_regs *ctx)
{
	struct mt_inflight_key k = {};
	struct mt_inflight f = {};
	struct probe p;

	if (!probe__start(&p, ctx) || probe__paused(&p))
		return 0;
	k.tid = p.ktid;
	k.pair = p.site->pair;
	k.sp = p.sp;
	f.begin = p.now;
	f.a[0] = ctx_arg(ctx, 0, p.sp);
	f.a[1] = ctx_arg(ctx, 1, p.sp);
	stat_inc(&p, entry);
	if (bpf_map_update_elem(&inflight, &k, &f, BPF_ANY)) {
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_INFLIGHT, -1);
		return 0;
	}
	run__emit(&p, &f, MT_ATB_START, 0);
	if (atb__tensors(&p))
		run__tensors(&p, f.a[1]);
	return 0;
}

SEC("uprobe")
int atb_run_r(struct pt_regs *ctx)
{
	struct mt_inflight f;
	struct probe p;

	/* Paused: nobody asks for its end, or its begin was not kept. */
	if (!probe__start(&p, ctx) || probe__paused(&p) || !inflight__take(&p, &f))
		return 0;
	stat_inc(&p, entry);
	run__emit(&p, &f, MT_ATB_END, (__s32)CTX_RC(ctx));
	if (atb__tensors(&p))
		run__tensors(&p, f.a[1]);
	return 0;
}

/* ---- kernels ---- */

/* g: of RunKernel; name: the address of a std::string */
static __always_inline void kernel__emit(struct probe *p, const struct mt_guard *g, __u64 name_at,
					 __u16 what, __s32 ret)
{
	__u64 runner = g->size, sp = g->sp, no = g->flag, name, dir;
	struct mt_atb *r;

	stat_inc(p, entry);
	stat_inc(p, seen);
	if (user_u64(name_at, &name) || user_u64(runner + RUNNER_DIR, &dir)) {
		probe__lose(p, MT_LOSS_FAULT, -1);
		return;
	}
	touch(name);
	touch(dir);
	r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	if (!r) {
		probe__lose(p, MT_LOSS_RING, -1);
		return;
	}
	hdr__fill(&r->h, p, MT_REC_ATB, sizeof(*r), p->now);
	r->begin = p->now;
	r->sp = sp;
	r->runner = runner;
	r->workspace = r->bytes = 0;
	r->count = no;
	r->id = 0;
	r->ids = 0;
	r->ret = ret;
	r->what = what;
	r->pad = 0;
	texts__put(r, name, dir);
	EMIT_SUBMIT(p, r);
}

/* What Mki::KernelBase::Run has left of a launch; layout of the tensors in refused, segment, fn. */
static __always_inline void kernel__tensors(struct probe *p, const struct mt_guard *launch,
					    __u64 sp)
{
	struct atb_tensors t = { .stride = launch->segment };
	__u64 param = launch->flag, n;

	if (!param || !t.stride)
		return;
	t.in = param + launch->refused;
	t.out = param + launch->fn;
	if (user_u64(t.in + (__u64)t.stride * (MKI_MAX + 1), &n) || n > MKI_MAX)
		atb_tensors__lose(p, MT_LOSS_FAULT, 1);
	else
		t.n_in = n;
	if (user_u64(t.out + (__u64)t.stride * (MKI_MAX + 1), &n) || n > MKI_MAX)
		atb_tensors__lose(p, MT_LOSS_FAULT, 1);
	else
		t.n_out = n;
	atb_tensors__emit(p, &t, sp);
}

/* OpsRunner::RunKernel(this, node, number, context) */
SEC("uprobe")
int atb_kern_e(struct pt_regs *ctx)
{
	struct mt_guard_key k = { .class = MT_GUARD_ATB_KERNEL };
	struct mt_guard g = {};
	struct probe p;

	if (!probe__start(&p, ctx) || probe__paused(&p))
		return 0;
	k.tid = p.ktid;
	g.sp = p.sp;
	g.pair = p.site->pair;
	g.size = ctx_arg(ctx, 0, p.sp);
	g.flag = ctx_arg(ctx, 2, p.sp);
	if (bpf_map_update_elem(&guards, &k, &g, BPF_ANY)) {
		stat_inc(&p, entry);
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_INFLIGHT, -1);
		return 0;
	}
	k.class = MT_GUARD_ATB_LAUNCH;
	bpf_map_delete_elem(&guards, &k);
	return 0;
}

SEC("uprobe")
int atb_kern_r(struct pt_regs *ctx)
{
	struct mt_guard_key k = { .class = MT_GUARD_ATB_LAUNCH };
	struct mt_guard *g, *launch;
	struct probe p;

	if (!probe__start(&p, ctx))
		return 0;
	g = guard__mine(&p, MT_GUARD_ATB_KERNEL);
	if (!g)
		return 0;
	k.tid = p.ktid;
	launch = bpf_map_lookup_elem(&guards, &k);
	if (launch) {
		__s32 ret = (__s32)CTX_RC(ctx);

		kernel__emit(&p, g, launch->size, MT_ATB_KERNEL_END, ret);
		/* As the vendor's tool: nothing of what has failed. */
		if (!ret && atb__tensors(&p))
			kernel__tensors(&p, launch, p.sp);
		bpf_map_delete_elem(&guards, &k);
	}
	guard__drop(&p, MT_GUARD_ATB_KERNEL);
	return 0;
}

/*
 * Mki::KernelBase::Run(status *, this, launch parameters, …) and RunWithArgs: the first inside
 * RunKernel is that of its kernel. off: of the kernel's name; of the tensors in the parameters.
 */
SEC("uprobe")
int atb_mki(struct pt_regs *ctx)
{
	struct mt_guard_key k = { .class = MT_GUARD_ATB_LAUNCH };
	struct mt_guard launch = {}, *g;
	struct probe p;
	long err;

	if (!probe__start(&p, ctx))
		return 0;
	g = guard__around(&p, MT_GUARD_ATB_KERNEL);
	if (!g)
		return 0; /* of somebody else */
	k.tid = p.ktid;
	launch.sp = p.sp;
	launch.size = ctx_arg(ctx, p.site->arg[0], p.sp) + p.site->off[0];
	if (p.site->arg[1] >= 0 && p.site->off[2]) {
		launch.flag = ctx_arg(ctx, p.site->arg[1], p.sp);
		launch.refused = p.site->off[1];
		launch.segment = p.site->off[2];
		launch.fn = p.site->off[3];
	}
	err = bpf_map_update_elem(&guards, &k, &launch, BPF_NOEXIST);
	if (err == -17) { /* EEXIST: inside of one that has a row */
		stat_inc(&p, nested);
		return 0;
	}
	if (err) {
		stat_inc(&p, entry);
		stat_inc(&p, seen);
		probe__lose(&p, MT_LOSS_INFLIGHT, -1);
		return 0;
	}
	kernel__emit(&p, g, launch.size, MT_ATB_KERNEL_START, 0);
	if (atb__tensors(&p))
		kernel__tensors(&p, &launch, g->sp);
	return 0;
}
