// SPDX-License-Identifier: Apache-2.0
/* Programs ready to attach: the loaded one, a clone for its mode, or a stub for its site. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "memtap/event.h"
#include "probe/progs.h"

void prog__patch(struct bpf_insn *insns, size_t n, uint32_t magic, uint32_t value)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (insns[i].code == (BPF_ALU64 | BPF_MOV | BPF_K) && insns[i].imm == (__s32)magic)
			insns[i].imm = (__s32)value;
}

static int by_start(const void *a, const void *b)
{
	const struct bpf_func_info *x = a, *y = b;

	return (x->insn_off > y->insn_off) - (x->insn_off < y->insn_off);
}

/* Where the functions of a program begin, each once and in order; NULL: it has but one. */
static struct bpf_func_info *find_funcs(const struct bpf_insn *insns, size_t n, uint32_t *count)
{
	struct bpf_func_info *f = calloc(n + 1, sizeof(*f));
	uint32_t have = 1, kept = 0;
	size_t i;

	*count = 0;
	if (!f)
		return NULL;
	for (i = 0; i < n; i++)
		if ((insns[i].code == (BPF_JMP | BPF_CALL) &&
		     insns[i].src_reg == BPF_PSEUDO_CALL) ||
		    (insns[i].code == (BPF_LD | BPF_IMM | BPF_DW) &&
		     insns[i].src_reg == BPF_PSEUDO_FUNC))
			f[have++].insn_off = (uint32_t)i + 1 + (uint32_t)insns[i].imm;
	qsort(f, have, sizeof(*f), by_start);
	for (i = 0; i < have; i++)
		if (!i || f[i].insn_off != f[kept - 1].insn_off)
			f[kept++] = f[i];
	*count = kept;
	if (kept > 1)
		return f;
	free(f);
	return NULL;
}

/*
 * The types of a program's functions, from the kernel, which has them of the loaded
 * one. Without them it takes global functions as static ones, looking at them anew at
 * each call, and refuses callbacks. `f` is sorted by place, as the kernel's are, whose
 * places have moved.
 */
static int ask_types(int fd, struct bpf_func_info *f, uint32_t n)
{
	struct bpf_func_info *have = calloc(n, sizeof(*have));
	struct bpf_prog_info info = { .nr_func_info = n, .func_info_rec_size = sizeof(*have) };
	uint32_t len = sizeof(info), i;
	int err = 0;

	if (!have)
		return -ENOMEM;
	info.func_info = (uint64_t)(uintptr_t)have;
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		err = -errno;
	else if (info.nr_func_info != n) /* one was dead code */
		err = -EOPNOTSUPP;
	for (i = 0; i < n && !err; i++)
		f[i].type_id = have[i].type_id;
	free(have);
	return err;
}

/* The types of the object that has a program. */
static int types_of(const struct progs *p, const struct bpf_program *base)
{
	size_t i;

	for (i = 0; i < p->n_objs; i++) {
		struct bpf_program *prog;

		bpf_object__for_each_program(prog, p->objs[i])
		{
			if (prog == base)
				return bpf_object__btf_fd(p->objs[i]);
		}
	}
	return -ENOENT;
}

static int make_clone(struct progs *p, const struct prog *g, uint32_t attach_type, uint32_t site,
		      uint32_t mode)
{
	size_t n = bpf_program__insn_cnt(g->base);
	LIBBPF_OPTS(bpf_prog_load_opts, o, .expected_attach_type = attach_type);
	struct bpf_insn *insns = malloc(n * sizeof(*insns));
	struct bpf_func_info *funcs;
	uint32_t n_funcs;
	char name[16];
	int fd;

	if (!insns)
		return -ENOMEM;
	funcs = find_funcs(bpf_program__insns(g->base), n, &n_funcs);
	if (!n_funcs) {
		fd = -ENOMEM;
		goto out;
	}
	if (funcs) {
		fd = ask_types(bpf_program__fd(g->base), funcs, n_funcs);
		if (fd)
			goto out;
		fd = types_of(p, g->base);
		if (fd < 0)
			goto out;
		o.prog_btf_fd = (uint32_t)fd;
		o.func_info = funcs;
		o.func_info_cnt = n_funcs;
		o.func_info_rec_size = sizeof(*funcs);
	}
	memcpy(insns, bpf_program__insns(g->base), n * sizeof(*insns));
	prog__patch(insns, n, MT_PATCH_MODE, mode);
	prog__patch(insns, n, MT_PATCH_SITE, site);
	o.prog_flags = mode & MT_MODE_SLEEPABLE ? BPF_F_SLEEPABLE : 0;
	snprintf(name, sizeof(name), "mt_%.12s", g->name);
	fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, name, "Dual BSD/GPL", insns, n, &o);
	if (fd < 0)
		fd = -errno;
out:
	free(funcs);
	free(insns);
	return fd;
}

static int keep_clone(struct progs *p, const struct prog *g, uint32_t attach_type, uint32_t site,
		      int fd)
{
	void *more = realloc(p->clones, (p->n_clones + 1) * sizeof(*p->clones));

	if (!more) {
		close(fd);
		return -ENOMEM;
	}
	p->clones = more;
	p->clones[p->n_clones++] = (struct clone){ g, attach_type, site, fd };
	return fd;
}

static int kept_clone(const struct progs *p, const struct prog *g, uint32_t attach_type,
		      uint32_t site)
{
	size_t i;

	for (i = 0; i < p->n_clones; i++)
		if (p->clones[i].prog == g && p->clones[i].attach_type == attach_type &&
		    p->clones[i].site == site)
			return p->clones[i].fd;
	return -1;
}

/*
 * Without cookies each site needs a program of its own. One that only leaves
 * the number of its site in a map and goes on to the common program is
 * verified in no time; a clone of the common one takes milliseconds.
 */
static int make_stub(int called, int mains, uint32_t site, uint32_t index)
{
	const struct bpf_insn insns[] = {
		{ BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0 },
		{ BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0 },
		{ BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4 },
		{ BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, called },
		{ 0 },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem },
		{ BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 6, 0 }, /* to the end */
		{ BPF_ST | BPF_MEM | BPF_W, 0, 0, 0, (__s32)site },
		{ BPF_ALU64 | BPF_MOV | BPF_X, 1, 6, 0, 0 },
		{ BPF_LD | BPF_IMM | BPF_DW, 2, BPF_PSEUDO_MAP_FD, 0, mains },
		{ 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, (__s32)index },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_tail_call },
		{ BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "mt_stub", "Dual BSD/GPL", insns,
			       MT_ARRAY_SIZE(insns), NULL);

	return fd < 0 ? -errno : fd;
}

/*
 * Only where the number cannot be another thread's when it is read: uprobe
 * programs are not preempted before 6.0, which is when they may sleep.
 */
static bool can_stub(const struct progs *p, uint32_t attach_type)
{
	return !attach_type && !features__has(p->features, FEAT_COOKIE) &&
	       p->features->state[FEAT_SLEEPABLE] == 0;
}

static int stub_of(struct progs *p, const struct prog *g, uint32_t site, uint32_t mode)
{
	int called = progs__map(p, "called"), mains = progs__map(p, "mains"), fd;
	uint32_t i;

	for (i = 0; i < p->n_mains && p->mains[i] != g; i++)
		;
	if (i == p->n_mains) {
		if (i == MT_MAX_MAINS)
			return -ENOSPC;
		fd = make_clone(p, g, 0, 0, mode | MT_MODE_CALLED);
		if (fd < 0)
			return fd;
		/* The map keeps it. */
		if (bpf_map_update_elem(mains, &i, &fd, BPF_ANY)) {
			int err = -errno;

			close(fd);
			return err;
		}
		close(fd);
		p->mains[p->n_mains++] = g;
	}
	return make_stub(called, mains, site, i);
}

/* Is it the program that the kernel refuses, or has the attempt failed for something else? */
static bool is_refusal(int err)
{
	return err == -EINVAL || err == -EACCES || err == -E2BIG || err == -EOPNOTSUPP ||
	       err == -524; /* ENOTSUPP of the kernel */
}

int progs__clone(struct progs *p, const char *name, uint32_t attach_type, uint32_t site)
{
	const struct prog *g = progs__find(p, name);
	bool cookie = attach_type || features__has(p->features, FEAT_COOKIE);
	uint32_t mode = (cookie ? MT_MODE_COOKIE : 0) | (p->opts.cgroup ? MT_MODE_CGROUP : 0) |
			(features__has(p->features, FEAT_SLEEPABLE) ? MT_MODE_SLEEPABLE : 0) |
			(features__has(p->features, FEAT_SESSION) ? MT_MODE_LONG : 0) |
			(p->opts.tensors ? MT_MODE_TENSORS : 0);
	/* What a program can do without when this kernel refuses it there. */
	static const uint32_t optional[] = { MT_MODE_SLEEPABLE, MT_MODE_CGROUP };
	size_t i;
	int fd;

	if (!g || !g->base)
		return -ENOENT;
	if (g->ready && g->attach_type == attach_type && g->mode == mode)
		return bpf_program__fd(g->base);
	if (cookie)
		site = 0;
	fd = kept_clone(p, g, attach_type, site);
	if (fd >= 0)
		return fd;
	fd = can_stub(p, attach_type) ? stub_of(p, g, site, mode) : -EOPNOTSUPP;
	if (fd < 0)
		fd = make_clone(p, g, attach_type, site, mode);
	for (i = 0; is_refusal(fd) && i < MT_ARRAY_SIZE(optional); i++) {
		if (!(mode & optional[i]))
			continue;
		pr_debug("program %s: no variant with mode 0x%x: %s", name, mode, strerror(-fd));
		mode &= ~optional[i];
		fd = make_clone(p, g, attach_type, site, mode);
		/* Only what loads without the filter shows that it was the filter. */
		if (fd >= 0 && optional[i] == MT_MODE_CGROUP) {
			p->opts.cgroup = false;
			pr_warn("this kernel cannot filter by cgroup: its present processes and "
				"their "
				"children are traced");
		}
	}
	if (fd < 0)
		return fd;
	return keep_clone(p, g, attach_type, site, fd);
}
