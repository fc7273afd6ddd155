// SPDX-License-Identifier: Apache-2.0
/* Clones of programs that have functions: the kernel takes them with their types only. */
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* As kernels before 5.15 are, but for the stubs: what is cloned is the program itself. */
#define progs__find fake_find
#define features__has fake_has
#include "../../user/probe/clone.c" // NOLINT(bugprone-suspicious-include)
#include "stack.skel.h"
#include "taken.h"

static struct prog prog;

const struct prog *progs__find(struct progs *p, const char *name)
{
	return &prog;
}

bool features__has(const struct features *f, enum feature x)
{
	return false;
}

/* Functions that the kernel sees in a clone of a program, or an error. */
static int functions(struct bpf_object *obj, struct bpf_program *base)
{
	const struct features f = { .state[FEAT_SLEEPABLE] = -EPERM };
	struct progs p = { .features = &f, .objs = &obj, .n_objs = 1 };
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd;

	prog = (struct prog){ .name = bpf_program__name(base), .base = base };
	fd = progs__clone(&p, prog.name, 0, 1);
	if (fd < 0)
		return fd;
	cr_assert_eq(bpf_obj_get_info_by_fd(fd, &info, &len), 0);
	cr_expect_neq(fd, bpf_program__fd(base));
	close(fd);
	free(p.clones);
	return (int)info.nr_func_info;
}

Test(clone_funcs, global)
{
	struct stack_tail_bpf *skel;

	libbpf_set_print(NULL);
	skel = taken__load_tail(NULL);
	if (!skel)
		cr_skip_test("these BPF programs do not load here: %s", strerror(errno));
	cr_expect_eq(functions(skel->obj, skel->progs.take_here), 5,
		     "the program, uw_frames(), uw_some(), uw_frame() and uw_copy()");
	cr_expect_eq(functions(skel->obj, skel->progs.take_tail), 0, "no types are needed");
	stack_tail_bpf__destroy(skel);
}

Test(clone_funcs, callback)
{
	struct stack_bpf *skel;

	libbpf_set_print(NULL);
	skel = stack_bpf__open_and_load();
	if (!skel)
		cr_skip_test("these BPF programs do not load here: %s", strerror(errno));
	cr_expect_eq(functions(skel->obj, skel->progs.take), 4,
		     "the program, uw_walk(), uw_one() and uw_copy()");
	stack_bpf__destroy(skel);
}
