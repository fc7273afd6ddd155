// SPDX-License-Identifier: Apache-2.0
/* What a program does without when the kernel refuses it, and what it never does without. */
#include <criterion/criterion.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <stdint.h>

/* Its last argument is const in some releases of libbpf only. */
#define bpf_prog_load(type, name, license, insns, cnt, opts) fake_load(insns)
static int fake_load(const struct bpf_insn *insns);
#define bpf_program__insn_cnt fake_insn_cnt
#define bpf_program__insns fake_insns
#define bpf_program__fd fake_fd
#define progs__find fake_find
#define features__has fake_has
#include "../../user/probe/clone.c" // NOLINT(bugprone-suspicious-include)

static const struct bpf_insn base[] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K,
					  .imm = MT_PATCH_MODE } };
static const struct prog prog = { .name = "x", .base = (struct bpf_program *)&base };
static uint32_t refuses; /* modes with any of these bits */
static int error;
static unsigned int loads;

static int fake_load(const struct bpf_insn *insns)
{
	loads++;
	if ((uint32_t)insns[0].imm & refuses) {
		errno = error;
		return -1;
	}
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

size_t bpf_program__insn_cnt(const struct bpf_program *p)
{
	return 1;
}

const struct bpf_insn *bpf_program__insns(const struct bpf_program *p)
{
	return base;
}

int bpf_program__fd(const struct bpf_program *p)
{
	return -1;
}

const struct prog *progs__find(struct progs *p, const char *name)
{
	return &prog;
}

bool features__has(const struct features *f, enum feature x)
{
	return x == FEAT_SLEEPABLE || x == FEAT_COOKIE;
}

/* Its descriptor or error; *filters: does it still filter by cgroup? */
static int clone_of(uint32_t bits, int err, bool *filters)
{
	static const struct features f;
	struct progs p = { .features = &f, .opts.cgroup = true };
	int fd;

	refuses = bits;
	error = err;
	loads = 0;
	fd = progs__clone(&p, "x", 0, 1);
	*filters = p.opts.cgroup;
	if (fd >= 0)
		close(fd);
	free(p.clones);
	return fd;
}

Test(clone, cgroup_filter)
{
	bool filters;

	cr_expect_geq(clone_of(0, 0, &filters), 0);
	cr_expect(filters);
	cr_expect_geq(clone_of(MT_MODE_SLEEPABLE, EINVAL, &filters), 0);
	cr_expect(filters, "sleeping was refused");
	cr_expect_geq(clone_of(MT_MODE_CGROUP, EINVAL, &filters), 0);
	cr_expect(!filters, "the filter was refused");
	/* The program is refused with and without the filter: it is not about the filter. */
	cr_expect_eq(clone_of(MT_MODE_COOKIE, EACCES, &filters), -EACCES);
	cr_expect(filters);
	/* Nor is it about any mode. */
	cr_expect_eq(clone_of(MT_MODE_CGROUP, ENOMEM, &filters), -ENOMEM);
	cr_expect(filters);
	cr_expect_eq(loads, 1);
	cr_expect_eq(clone_of(MT_MODE_CGROUP, EPERM, &filters), -EPERM);
	cr_expect(filters);
}
