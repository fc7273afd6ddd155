// SPDX-License-Identifier: Apache-2.0
/* Operators of torch: types of mangled names, schemas, where the tensors are, what is no tensor. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "capture/capture.h"
#include "probe/aten.h"
#include "probe/elf.h"

static struct mangled params_of(const char *name)
{
	static struct mangled m;

	cr_assert_eq(mangled__params(name, &m), 0, "%s", name);
	return m;
}

Test(aten, mangled)
{
	struct mangled m = params_of("_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE");

	cr_assert_eq(m.n, 3u);
	cr_assert_str_eq(m.param[0], "at::Tensor const&");
	cr_assert_str_eq(m.param[1], "at::Tensor const&");
	cr_assert_str_eq(m.param[2], "c10::Scalar const&");
	m = params_of("_ZN2at25compositeimplicitautograd6linearERKNS_6TensorES3_RKSt8optionalIS1_E");
	cr_assert_str_eq(m.param[2], "std::optional<at::Tensor> const&");
	m = params_of("_ZN2at25compositeimplicitautograd6linearERKNS_6TensorES3_RKN3c108optionalIS1_EE");
	cr_assert_str_eq(m.param[2], "c10::optional<at::Tensor> const&");
	m = params_of("_ZN2at4_ops3foo4callEN3c108ArrayRefINS_6TensorEEESt5arrayIbLm3EEdb");
	cr_assert_eq(m.n, 4u);
	cr_assert_str_eq(m.param[0], "c10::ArrayRef<at::Tensor>");
	cr_assert_str_eq(m.param[1], "std::array<bool,3>");
	cr_assert_str_eq(m.param[2], "double");
}

Test(aten, mangled_hostile)
{
	static struct mangled m;
	char deep[2000];
	size_t i;
	static const char *const bad[] = {
		"_ZN2at4_ops1f4callES9_", "_ZN2at4_ops1f4callE", "_ZN99999999at1fE", "_ZN2at4_ops1f4callERK",
		"_ZN2at1fEN3c10", "_ZN", "_ZN1aI1bE", "_ZN2at1fEDpT_", "_ZN2at1fESZZZZZZZZZZZ_", "f", "",
	};

	for (i = 0; i < MT_ARRAY_SIZE(bad); i++)
		cr_assert(mangled__params(bad[i], &m) < 0 || m.n == 0, "%s", bad[i]);
	memset(deep, 'P', sizeof(deep));
	memcpy(deep, "_ZN2at1fE", 9);
	deep[sizeof(deep) - 1] = '\0';
	cr_assert_lt(mangled__params(deep, &m), 0);
}

static struct schema schema_of(const char *text)
{
	const char *open = strchr(text, '('), *arrow = strstr(text, ") -> "), *dot = memchr(text, '.', (size_t)(open - text));

	return (struct schema){ .text = text,
				.base_len = (unsigned int)((dot ? dot : open) - text),
				.overload_len = dot ? (unsigned int)(open - dot - 1) : 0,
				.params = (unsigned int)(open + 1 - text),
				.returns = (unsigned int)(arrow + 5 - text) };
}

static int place(int machine, const char *text, const char *name, struct mt_op *op)
{
	struct schema s = schema_of(text);
	struct mangled m = params_of(name);

	memset(op, 0, sizeof(*op));
	return aten_sig__place(machine, &s, &m, strstr(name, "10redispatchE") != NULL, op);
}

#define ADD "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE"

Test(aten, registers)
{
	struct mt_op op;

	/* The result's place is the first word on x86-64, in x8 on aarch64. */
	cr_assert_eq(place(EM_X86_64, "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", ADD, &op), 0);
	cr_assert_eq(op.n_args, 2);
	cr_assert_eq(op.arg[0].where, 1);
	cr_assert_eq(op.arg[1].where, 2);
	cr_assert_eq(op.out, MT_OUT_VALUES);
	cr_assert_eq(place(EM_AARCH64, "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", ADD, &op), 0);
	cr_assert_eq(op.arg[0].where, 0);
	/* In place: a reference comes back. */
	cr_assert_eq(place(EM_X86_64, "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
			   "_ZN2at4_ops11add__Tensor4callERNS_6TensorERKS2_RKN3c106ScalarE", &op),
		     0);
	cr_assert_eq(op.arg[0].where, 0);
	cr_assert(op.arg[0].bits & MT_ARG_WRITE);
	cr_assert(!(op.arg[1].bits & MT_ARG_WRITE));
	cr_assert_eq(op.out, MT_OUT_REF);
}

Test(aten, stack_and_floats)
{
	struct mt_op op;

	/* place, self; a double takes no word of these; a list two; what is left goes on the stack */
	cr_assert_eq(place(EM_X86_64, "foo(Tensor self, float p, Tensor[] list, int[] a, Tensor last, Tensor? more) -> Tensor",
			   "_ZN2at4_ops3foo4callERKNS_6TensorEdN3c108ArrayRefIS2_EENS6_IlEES4_RKSt8optionalIS2_E", &op),
		     0);
	cr_assert_eq(op.n_args, 4);
	cr_assert_eq(op.arg[0].where, 1);
	cr_assert_eq(op.arg[1].where, 2);
	cr_assert(op.arg[1].bits & MT_ARG_LIST);
	cr_assert_eq(op.arg[2].where, 6); /* first word of the stack */
	cr_assert_eq(op.arg[3].where, 7);
	cr_assert_eq(op.arg[3].flag, 8);
	cr_assert(!(op.arg[3].bits & MT_ARG_SURE));
}

Test(aten, what_is_not_understood)
{
	struct mt_op op;

	/* Another function's schema, and a type that nobody knows: nothing is read of results. */
	cr_assert_eq(place(EM_X86_64, "add.Tensor(Tensor self) -> Tensor", ADD, &op), -ENOTSUP);
	cr_assert_eq(op.out, MT_OUT_NONE);
	cr_assert_eq(place(EM_X86_64, "f(Tensor self, Thing t) -> Tensor",
			   "_ZN2at4_ops1f4callERKNS_6TensorEN3c105ThingE", &op),
		     -ENOTSUP);
	cr_assert(op.flags & MT_OP_CUT);
}

Test(aten, what_has_accesses)
{
	struct mt_op op;

	place(EM_X86_64, "t(Tensor(a) self) -> Tensor(a)", "_ZN2at4_ops1t4callERKNS_6TensorE", &op);
	cr_assert(op.flags & MT_OP_VIEW);
	cr_assert(op.flags & MT_OP_NO_ACCESS);
	place(EM_X86_64, "empty_like(Tensor self) -> Tensor", "_ZN2at4_ops10empty_like4callERKNS_6TensorE", &op);
	cr_assert(op.flags & MT_OP_NO_ACCESS);
	place(EM_X86_64, "zeros_like(Tensor self) -> Tensor", "_ZN2at4_ops10zeros_like4callERKNS_6TensorE", &op);
	cr_assert(op.flags & MT_OP_NO_INPUTS);
	cr_assert(!(op.flags & MT_OP_NO_ACCESS));
}

/* Texts lie in a segment of their own, or with the code where the linker does not part them. */
Test(aten, schemas_of_segments)
{
	static const char file[] = "\0mm(Tensor self, Tensor mat2) -> Tensor\0t(Tensor(a) self) -> Tensor(a)";
	static const uint32_t flags[] = { PF_R, PF_R | PF_X, PF_R | PF_W };
	struct elf_image *img = NULL;
	struct schemas found;
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(flags); i++) {
		struct elf_seg seg = { .filesz = sizeof(file), .memsz = sizeof(file), .flags = flags[i] };
		struct elf_image of = { .data = (const uint8_t *)file, .size = sizeof(file), .segs = &seg, .nsegs = 1,
					.work = 1000000 };

		img = &of;
		cr_assert_eq(schemas__read(img, &found), 0);
		cr_assert_eq(found.n, flags[i] & PF_W ? 0 : 2, "flags %u: %zu", flags[i], found.n);
		cr_assert_eq(!schemas__find(&found, "mm", 2), flags[i] & PF_W ? 1 : 0);
		schemas__free(&found);
	}
}

static struct mt_access tensor(void)
{
	return (struct mt_access){ .h = { .size = sizeof(struct mt_access), .type = MT_REC_ACCESS },
				   .op = 7,
				   .dims = 2,
				   .data = 0x1000,
				   .offset = 4,
				   .numel = 6,
				   .raw = { 6, 0, 20, 3, 1 },
				   .sizes = { 2, 3 } };
}

static int decode(const struct mt_access *r, struct event *e)
{
	return event__decode(r, sizeof(*r), PTA_LAYOUT_UNKNOWN, e);
}

Test(aten, access)
{
	struct mt_access r = tensor();
	struct event e;

	cr_assert_eq(decode(&r, &e), 0);
	cr_assert_eq(e.kind, EV_ACCESS);
	cr_assert_eq(e.addr, 0x1010u); /* four elements on */
	cr_assert_eq(e.size, 24);
	cr_assert_eq(e.device, 3);
	cr_assert_str_eq(e.access.dtype, "torch.float32");
	/* before 2.2: is there one, type, index */
	r.raw[2] = 1;
	r.raw[3] = 20;
	r.raw[4] = 5;
	cr_assert_eq(decode(&r, &e), 0);
	cr_assert_eq(e.device, 5);
}

Test(aten, no_tensor)
{
	struct mt_access r = tensor();
	struct event e;

	r.numel = 7; /* not what the sizes make */
	cr_assert_eq(decode(&r, &e), -EBADMSG);
	r = tensor();
	r.raw[0] = 200; /* no such type */
	cr_assert_eq(decode(&r, &e), -EBADMSG);
	r = tensor();
	r.dims = 65;
	cr_assert_eq(decode(&r, &e), -EBADMSG);
	r = tensor();
	r.sizes[0] = INT64_MAX;
	cr_assert_eq(decode(&r, &e), -EBADMSG);
	r = tensor();
	r.sizes[0] = -1;
	r.numel = -3;
	cr_assert_eq(decode(&r, &e), -EBADMSG);
	r = tensor();
	cr_assert_eq(event__decode(&r, sizeof(r) - 8, PTA_LAYOUT_UNKNOWN, &e), -EBADMSG);
	/* More dimensions than are kept: what is there must divide. */
	r = tensor();
	r.dims = 9;
	r.sizes[0] = 2, r.sizes[1] = 3;
	r.sizes[2] = r.sizes[3] = r.sizes[4] = r.sizes[5] = r.sizes[6] = r.sizes[7] = 1;
	r.numel = 12;
	cr_assert_eq(decode(&r, &e), 0);
	cr_assert(e.access.cut);
}
