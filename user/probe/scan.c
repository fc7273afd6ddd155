// SPDX-License-Identifier: Apache-2.0
/*
 * Searches through all code of a file. On x86-64 the bytes are searched first,
 * since decoding 70 MB takes seconds; what is found counts only if decoding its
 * function from the start meets an instruction there.
 */
#include "probe/derive.h"

#include <errno.h>

void addr_set__add(struct addr_set *s, uint64_t v)
{
	if (addr_set__has(s, v))
		return;
	if (s->n == MT_ARRAY_SIZE(s->v))
		s->over = true;
	else
		s->v[s->n++] = v;
}

bool addr_set__has(const struct addr_set *s, uint64_t v)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (s->v[i] == v)
			return true;
	return false;
}

void addr_set__del(struct addr_set *s, uint64_t v)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		if (s->v[i] == v) {
			s->v[i] = s->v[--s->n];
			return;
		}
	}
}

/* The instruction at addr, when decoding its function from the start comes by there. */
static const struct fde *confirm(struct elf_image *img, uint64_t addr, struct insn *in)
{
	const struct fde *fde = elf_image__fde_at(img, addr);
	uint64_t at;
	const uint8_t *p;

	if (!fde)
		return NULL;
	p = elf_image__at(img, fde->start, fde->end - fde->start);
	if (!p)
		return NULL;
	if (img->machine == EM_AARCH64) {
		at = addr;
	} else {
		/* Bytes that are no instruction: data between code; go on behind it. */
		for (at = fde->start; at < addr; at += in->len) {
			if (!elf_image__spend(img, 1, WORK_INSN))
				return NULL;
			if (insn__decode(img->machine, INSN_FLOW, p + (at - fde->start),
					 fde->end - at, at, in))
				in->len = 1;
		}
	}
	if (at != addr ||
	    insn__decode(img->machine, INSN_FULL, p + (at - fde->start), fde->end - at, at, in))
		return NULL;
	return fde;
}

/*
 * x86-64: `48|4c OP modrm disp32` with rip-relative addressing (SDM vol. 2, 2.2.1.6)
 * whose address is `value`. OP 8b is mov from memory, 8d lea.
 */
static void scan_rip(struct elf_image *img, uint8_t op, uint64_t value,
		     void (*hit)(void *ctx, const struct fde *fde, const struct insn *in),
		     void *ctx)
{
	size_t s;

	for (s = 0; s < img->nsegs; s++) {
		const struct elf_seg *seg = &img->segs[s];
		const uint8_t *base = img->data + seg->off, *end = base + seg->filesz, *p;

		if (!(seg->flags & PF_X) || seg->filesz < 8)
			continue;
		if (!elf_image__spend(img, seg->filesz / 16, WORK_16BYTES))
			return;
		for (p = base + 1; p + 6 <= end; p++) {
			uint64_t next;
			struct insn in;
			const struct fde *fde;

			p = memchr(p, op, (size_t)(end - 5 - p));
			if (!p)
				break;
			if (!elf_image__spend(img, 1, WORK_HIT))
				return;
			if ((p[-1] & 0xfb) != 0x48 || (p[1] & 0xc7) != 0x05)
				continue;
			next = seg->vaddr + (uint64_t)(p + 6 - base);
			if (next + (uint64_t)(int64_t)(int32_t)rd32(p + 2) != value)
				continue;
			fde = confirm(img, next - 7, &in);
			if (fde)
				hit(ctx, fde, &in);
		}
	}
}

static void add_function(void *ctx, const struct fde *fde, const struct insn *in)
{
	if (in->load && in->mem_addr)
		addr_set__add(ctx, fde->start);
}

static void add_place(void *ctx, const struct fde *fde, const struct insn *in)
{
	if (in->value)
		addr_set__add(ctx, in->addr);
}

void scan__leas_of(struct elf_image *img, uint64_t value, struct addr_set *out)
{
	*out = (struct addr_set){ 0 };
	if (img->machine == EM_X86_64)
		scan_rip(img, 0x8d, value, add_place, out);
}

/* aarch64: does the register of an adrp load `slot` before it gets another value? */
static bool adrp_loads(const struct elf_image *img, const struct insn *adrp, const uint8_t *p,
		       uint64_t end, uint64_t slot)
{
	uint64_t at;
	struct insn in;

	for (at = adrp->addr + 4; at + 4 <= end; at += 4) {
		if (!elf_image__spend(img, 1, WORK_STEP) ||
		    insn__decode_a64(INSN_FULL, p + (at - adrp->addr), 4, at, &in))
			return false;
		if (in.load && in.mem_base == adrp->dst && in.mem_index < 0 && in.mem_size == 8 &&
		    adrp->value + (uint64_t)in.mem_disp == slot)
			return true;
		if (in.writes >> adrp->dst & 1)
			return false;
	}
	return false;
}

static void scan_adrp(struct elf_image *img, uint64_t slot, struct addr_set *out)
{
	size_t s, k;

	for (s = 0; s < img->nsegs; s++) {
		const struct elf_seg *seg = &img->segs[s];
		const uint8_t *base = img->data + seg->off;

		if (!(seg->flags & PF_X))
			continue;
		if (!elf_image__spend(img, seg->filesz / 4, WORK_HIT))
			return;
		for (k = -seg->vaddr & 3; k + 4 <= seg->filesz; k += 4) {
			uint32_t w = rd32(base + k);
			uint64_t at = seg->vaddr + k;
			const struct fde *fde;
			struct insn in;

			if ((w & 0x9f000000) != 0x90000000) /* adrp, Arm ARM C6.2 */
				continue;
			if (insn__decode_a64(INSN_FULL, base + k, 4, at, &in) ||
			    in.value != (slot & ~0xfffULL))
				continue;
			fde = elf_image__fde_at(img, at);
			if (fde && !addr_set__has(out, fde->start) &&
			    adrp_loads(img, &in, base + k, fde->end, slot))
				addr_set__add(out, fde->start);
		}
	}
}

void scan__loads_of(struct elf_image *img, uint64_t slot, struct addr_set *out)
{
	*out = (struct addr_set){ 0 };
	if (img->machine == EM_AARCH64)
		scan_adrp(img, slot, out);
	else
		scan_rip(img, 0x8b, slot, add_function, out);
}

static unsigned int calls_x86(struct elf_image *img, const struct elf_seg *seg, uint64_t target,
			      struct addr_set *callers)
{
	const uint8_t *base = img->data + seg->off, *end = base + seg->filesz, *p;
	unsigned int n = 0;

	if (seg->filesz < 5)
		return 0;
	for (p = base; p + 5 <= end; p++) {
		const struct fde *fde;
		struct insn in;
		uint64_t at;

		p = memchr(p, 0xe8, (size_t)(end - 4 - p)); /* call rel32 */
		if (!p || !elf_image__spend(img, 1, WORK_HIT))
			break;
		at = seg->vaddr + (uint64_t)(p - base);
		if (at + 5 + (uint64_t)(int64_t)(int32_t)rd32(p + 1) != target)
			continue;
		fde = confirm(img, at, &in);
		if (!fde || in.kind != INSN_CALL)
			continue;
		addr_set__add(callers, fde->start);
		n++;
	}
	return n;
}

static unsigned int calls_a64(struct elf_image *img, const struct elf_seg *seg, uint64_t target,
			      struct addr_set *callers)
{
	const uint8_t *base = img->data + seg->off;
	unsigned int n = 0;
	size_t k;

	if (!elf_image__spend(img, seg->filesz / 4, WORK_HIT))
		return 0;
	for (k = -seg->vaddr & 3; k + 4 <= seg->filesz; k += 4) {
		uint32_t w = rd32(base + k);
		uint64_t at = seg->vaddr + k;
		const struct fde *fde;

		if ((w & 0xfc000000) != 0x94000000) /* bl */
			continue;
		/* 26 bits, in words */
		if (at + (uint64_t)((int64_t)(int32_t)(w << 6) >> 4) != target)
			continue;
		fde = elf_image__fde_at(img, at);
		if (!fde)
			continue;
		addr_set__add(callers, fde->start);
		n++;
	}
	return n;
}

unsigned int scan__calls_of(struct elf_image *img, uint64_t target, struct addr_set *callers)
{
	unsigned int n = 0;
	size_t s;

	*callers = (struct addr_set){ 0 };
	for (s = 0; s < img->nsegs; s++) {
		if (!(img->segs[s].flags & PF_X))
			continue;
		if (!elf_image__spend(img, img->segs[s].filesz / 16, WORK_16BYTES))
			break;
		n += img->machine == EM_AARCH64 ? calls_a64(img, &img->segs[s], target, callers)
						: calls_x86(img, &img->segs[s], target, callers);
	}
	return n;
}
