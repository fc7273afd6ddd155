// SPDX-License-Identifier: Apache-2.0
/* Decodes whole functions and recognises jump tables, import stubs and cold parts. */
#include "probe/func.h"

#include <errno.h>
#include <stdlib.h>

/* Bounds the memory for a hostile or broken file; libtorch's largest function is 0.4 MB. */
#define MAX_FUNC_BYTES (4u << 20)
/* Instructions to look back from a jump for the arithmetic of a table. */
#define SWITCH_WINDOW 16

int func__decode(const struct elf_image *img, uint64_t start, uint64_t end, enum insn_detail detail,
		 struct func *out)
{
	size_t cap = 0, off = 0, n;
	const uint8_t *p;
	struct insn *v;

	*out = (struct func){ .machine = img->machine, .start = start, .end = end };
	if (end <= start || end - start > MAX_FUNC_BYTES)
		return -EINVAL;
	n = end - start;
	p = elf_image__at(img, start, n);
	if (!p)
		return -EINVAL;
	while (off < n) {
		if (out->n == cap) {
			cap = cap ? cap * 2 : 256;
			v = realloc(out->v, cap * sizeof(*v));
			if (!v) {
				func__free(out);
				return -ENOMEM;
			}
			out->v = v;
		}
		if (!elf_image__spend(img, 1, WORK_INSN)) {
			func__free(out);
			return -E2BIG;
		}
		if (insn__decode(img->machine, detail, p + off, n - off, start + off,
				 &out->v[out->n]))
			return 0; /* not exact */
		off += out->v[out->n++].len;
	}
	out->exact = true;
	return 0;
}

void func__free(struct func *f)
{
	free(f->v);
	*f = (struct func){ 0 };
}

ssize_t func__index(const struct func *f, uint64_t addr)
{
	size_t lo = 0, hi = f->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->v[mid].addr < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < f->n && f->v[lo].addr == addr ? (ssize_t)lo : -1;
}

/* Last instruction before index i, in straight line, that writes reg; -1 if none. */
static ssize_t last_writer(const struct func *f, size_t i, int reg)
{
	size_t low = i > SWITCH_WINDOW ? i - SWITCH_WINDOW : 0;

	if (reg < 0)
		return -1;
	while (i-- > low) {
		const struct insn *in = &f->v[i];

		if (in->kind == INSN_JMP || in->kind == INSN_JMP_IND || in->kind == INSN_RET)
			return -1;
		if (in->writes >> reg & 1)
			return (ssize_t)i;
	}
	return -1;
}

/* A load of a table entry: indexed, or of a table at a constant address. */
static bool loads_entry(const struct func *f, ssize_t i)
{
	return i >= 0 && f->v[i].load && f->v[i].mem_index >= 0 && f->v[i].mem_base != X86_RSP;
}

static bool switch_x86(const struct func *f, size_t i)
{
	const struct insn *jmp = &f->v[i];
	ssize_t w, t;

	/* jmp [table + r * 8]: code that is not position independent */
	if (jmp->load)
		return jmp->mem_index >= 0 && jmp->mem_base == INSN_NOREG;
	w = last_writer(f, i, jmp->copy_of);
	if (w < 0)
		return false;
	if (f->v[w].load)
		return f->v[w].mem_index >= 0 && f->v[w].mem_base == INSN_NOREG;
	/* movsxd r, [table + i * 4]; add r, table (or the sum in the other order) */
	if (f->v[w].add_of < 0 || f->v[w].add_imm || f->v[w].value)
		return false;
	t = last_writer(f, (size_t)w, f->v[w].dst);
	if (loads_entry(f, t) && f->v[t].sign_load)
		return true;
	t = last_writer(f, (size_t)w, f->v[w].add_of);
	return loads_entry(f, t) && f->v[t].sign_load;
}

static bool switch_a64(const struct func *f, size_t i)
{
	ssize_t w = last_writer(f, i, f->v[i].copy_of);
	size_t k, low;

	/* ldr[bh] w, [table, i]; adr label; add x, label, w, sxth #2; br x */
	if (w < 0 || f->v[w].load || f->v[w].kind != INSN_OTHER || f->v[w].copy_of >= 0)
		return false;
	low = w > SWITCH_WINDOW ? (size_t)w - SWITCH_WINDOW : 0;
	for (k = (size_t)w; k-- > low;) {
		const struct insn *in = &f->v[k];

		if (in->kind == INSN_JMP || in->kind == INSN_JMP_IND || in->kind == INSN_RET)
			return false;
		if (in->load && in->mem_index >= 0 && in->mem_size <= 4)
			return true;
	}
	return false;
}

bool func__is_switch(const struct func *f, size_t i)
{
	return f->machine == EM_AARCH64 ? switch_a64(f, i) : switch_x86(f, i);
}

bool code__is_stub(const struct elf_image *img, uint64_t vaddr)
{
	struct insn in;
	const uint8_t *p;
	size_t n;
	int i;

	for (i = 0; i < 5; i++) {
		p = elf_image__rest(img, vaddr, &n);
		if (!p || insn__decode(img->machine, INSN_FULL, p, n, vaddr, &in))
			return false;
		vaddr += in.len;
		if (img->machine == EM_X86_64) {
			if (in.kind == INSN_JMP_IND)
				return in.mem_addr != 0;
			if (strcmp(in.text, "endbr64"))
				return false;
			continue;
		}
		/* bti c; adrp x16; ldr x17, [x16]; add x16; br x17: AAPCS64 names them IP0, IP1 */
		if (in.kind == INSN_JMP_IND)
			return in.copy_of == 17;
		if (strcmp(in.text, "bti") && in.dst != 16 && in.dst != 17)
			return false;
	}
	return false;
}

bool fde__leads_back(struct elf_image *img, const struct fde *fde, uint64_t start, uint64_t end)
{
	struct func f;
	bool back = false;
	size_t i;

	if (func__decode(img, fde->start, fde->end, INSN_FLOW, &f))
		return false;
	for (i = 0; i < f.n && !back; i++)
		if (f.v[i].kind == INSN_JMP || f.v[i].kind == INSN_JCC)
			back = f.v[i].target > start && f.v[i].target < end;
	func__free(&f);
	return back;
}

bool fde__is_part_of(struct elf_image *img, const struct fde *fde, uint64_t start, uint64_t end)
{
	struct fde_detail d;

	if (code__is_stub(img, fde->start) || elf_image__fde_detail(img, fde, &d) || d.signal)
		return false;
	return d.starts_framed || fde__leads_back(img, fde, start, end);
}

int func__bounds(struct elf_image *img, uint64_t vaddr, struct fde *out)
{
	const struct fde *fde = elf_image__fde_at(img, vaddr);
	uint64_t size;

	if (fde) {
		*out = *fde;
		return 0;
	}
	size = elf_image__symbol_size(img, vaddr);
	if (!size || !elf_image__at(img, vaddr, size))
		return -ENOENT;
	*out = (struct fde){ vaddr, vaddr + size };
	return 0;
}
