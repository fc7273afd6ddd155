// SPDX-License-Identifier: Apache-2.0
/*
 * Where objects of ATB and Mki have their names and tensors: read off the code of exported
 * getters, which is short and the same in all that their layouts differ by (ascend-abi.md 2.9).
 */
#include <errno.h>
#include <stdio.h>

#include "base/base.h"
#include "probe/func.h"

#define EM_X86_64_ 62
#define X86_RDI 7
#define X86_RSI 6
#define LOOKED_AT 24 /* instructions of a getter */

/* atb::Runner: vptr, numbers, two counters, directory, flag, operation, prefix [, vector], name */
#define OPERATION_MIN 80
#define OPERATION_MAX 256
#define KERNEL_MIN 16
#define KERNEL_MAX 4096

/* Mki::SVector<Tensor>: 49 tensors and their number. */
#define MKI_ROOM 49
#define TENSOR_OLD 432 /* without strides */
#define TENSOR_NEW 464

struct asked {
	uint64_t vaddr;
	int self; /* register that holds `this` */
	int64_t min, max;
};

/* x86-64 `add $imm, %r64` (REX.W 83 /0 ib, 81 /0 id), which the decoder gives no constant of. */
static int64_t added(const struct elf_image *img, const struct insn *in, int self)
{
	const uint8_t *p = elf_image__at(img, in->addr, in->len);

	if (!p || in->len < 4 || p[0] != (self > 7 ? 0x49 : 0x48) || p[2] != (0xc0 | (self & 7)))
		return -1;
	if (p[1] == 0x83 && in->len == 4)
		return (int8_t)p[3];
	if (p[1] == 0x81 && in->len == 7)
		return (int32_t)((uint32_t)p[3] | (uint32_t)p[4] << 8 | (uint32_t)p[5] << 16 |
				 (uint32_t)p[6] << 24);
	return -1;
}

/* The place in `this` that an instruction reads, or whose address it makes; -1. */
static int64_t place_of(const struct elf_image *img, const struct insn *in, int self)
{
	if (in->load && in->mem_base == self && in->mem_index == INSN_NOREG)
		return in->mem_disp;
	if (in->add_of == self && in->add_imm)
		return in->add_imm;
	return elf_image__machine(img) == EM_X86_64_ ? added(img, in, self) : -1;
}

/*
 * `this` may be moved to another register first, or added to in place. Of a std::string the
 * compiler may read the length before the address, which stands before it: the lowest place
 * counts.
 */
static int offset_in(struct elf_image *img, const struct asked *a, uint16_t *out)
{
	uint64_t held = 1ULL << a->self;
	struct func f;
	struct fde b;
	size_t i;
	int err = func__bounds(img, a->vaddr, &b), r;

	if (!err)
		err = func__decode(img, a->vaddr, MT_MIN(b.end, a->vaddr + 256), INSN_FULL, &f);
	if (err)
		return err;
	err = -ENOTSUP;
	for (i = 0; i < f.n && i < LOOKED_AT; i++) {
		const struct insn *in = &f.v[i];

		for (r = 0; r < 32; r++) {
			int64_t at = held >> r & 1 ? place_of(img, in, r) : -1;

			if (at < a->min || at > a->max || at & 7 || (!err && at > *out))
				continue;
			*out = (uint16_t)at;
			err = 0;
		}
		if (in->kind == INSN_RET || in->kind == INSN_CALL || in->kind == INSN_CALL_IND ||
		    in->kind == INSN_JMP)
			break;
		r = in->copy_of >= 0 && in->copy_of < 32 && !in->load && !in->store &&
		    held >> in->copy_of & 1;
		held &= ~(uint64_t)in->writes;
		if (r && in->dst >= 0 && in->dst < 32)
			held |= 1ULL << in->dst;
	}
	func__free(&f);
	return err;
}

static int find(const struct elf_image *img, const char *name, uint64_t *vaddr)
{
	uint64_t size;

	return elf_image__symbol(img, name, vaddr, &size);
}

/* A getter that returns a std::string: its name differs by ABI. */
static int name_at(struct elf_image *img, const char *stem, int64_t min, int64_t max, uint16_t *out)
{
	/* The result's place is the first argument on x86-64, x8 on arm64. */
	struct asked a = { .self = elf_image__machine(img) == EM_X86_64_ ? X86_RSI : 0,
			   .min = min,
			   .max = max };
	char name[96];

	snprintf(name, sizeof(name), "%sB5cxx11Ev", stem);
	if (find(img, name, &a.vaddr)) {
		snprintf(name, sizeof(name), "%sEv", stem);
		if (find(img, name, &a.vaddr))
			return -ENOENT;
	}
	return offset_in(img, &a, out);
}

/*
 * arm64 adds what is too large for one instruction in two steps, or by a register: movz,
 * add of both kinds (Arm ARM C6.2). What x0 has at the `ret` beyond what it came with.
 */
static int sum_a64(const struct elf_image *img, uint64_t vaddr, uint64_t *out)
{
	uint64_t value[32] = { 0 }, sum = 0;
	unsigned int i;

	for (i = 0; i < LOOKED_AT; i++, vaddr += 4) {
		const uint8_t *p = elf_image__at(img, vaddr, 4);
		uint32_t w;

		if (!p)
			return -ENOTSUP;
		w = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
		    (uint32_t)p[3] << 24;
		if (w == 0xd65f03c0) {
			*out = sum;
			return sum ? 0 : -ENOTSUP;
		}
		if ((w & 0xff8003ff) == 0x91000000) /* add x0, x0, #imm */
			sum += (uint64_t)(w >> 10 & 0xfff) << (w >> 22 & 1 ? 12 : 0);
		else if ((w & 0xffe0ffff) == 0x8b000000 && (w >> 16 & 31)) /* add x0, x0, xN */
			sum += value[w >> 16 & 31];
		else if ((w & 0xffe00000) == 0xd2800000 && w & 31) /* movz xN, #imm */
			value[w & 31] = w >> 5 & 0xffff;
		else if (w != 0xd503245f) /* bti c */
			return -ENOTSUP;
	}
	return -ENOTSUP;
}

static int vector_at(struct elf_image *img, const char *name, uint16_t *out)
{
	struct asked a = { .self = X86_RDI, .min = 8, .max = UINT16_MAX };
	int err = find(img, name, &a.vaddr);
	uint64_t sum;

	if (err || elf_image__machine(img) == EM_X86_64_)
		return err ? err : offset_in(img, &a, out);
	err = sum_a64(img, a.vaddr, &sum);
	if (!err && sum > UINT16_MAX)
		err = -ENOTSUP;
	if (!err)
		*out = (uint16_t)sum;
	return err;
}

/* Both vectors stand one behind the other: their distance tells the size of a tensor. */
static void kernel_tensors(struct elf_image *img, struct atb_layout *out)
{
	uint16_t in = 0, behind = 0;
	int stride;

	if (vector_at(img, "_ZN3Mki11LaunchParam12GetInTensorsEv", &in) ||
	    vector_at(img, "_ZN3Mki11LaunchParam13GetOutTensorsEv", &behind))
		return;
	stride = (behind - in - 8) / MKI_ROOM;
	if ((stride != TENSOR_OLD && stride != TENSOR_NEW) || behind - in != stride * MKI_ROOM + 8)
		return;
	out->in = in;
	out->out = behind;
	out->stride = (uint16_t)stride;
}

void atb__derive(struct elf_image *img, struct atb_layout *out)
{
	uint64_t vaddr;

	*out = (struct atb_layout){ 0 };
	out->mstx = !find(img, "_ZN3atb15MstxMemRegister16MstxHeapRegisterEPvm", &vaddr);
	if (!find(img, "_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE", &vaddr) &&
	    name_at(img, "_ZNK3atb6Runner16GetOperationName", OPERATION_MIN, OPERATION_MAX,
		    &out->operation))
		out->why = "where a runner has its operation's name is not known";
	if (!find(img, "_ZN3Mki10KernelBase3RunERKNS_11LaunchParamERNS_7RunInfoE", &vaddr)) {
		if (name_at(img, "_ZNK3Mki10KernelBase7GetName", KERNEL_MIN, KERNEL_MAX,
			    &out->kernel))
			out->why = "where a kernel has its name is not known";
		kernel_tensors(img, out);
	}
}
