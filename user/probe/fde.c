// SPDX-License-Identifier: Apache-2.0
/*
 * Frame descriptions: the bounds of every function of a stripped file.
 *
 * Formats: LSB Core, "Exception Frames" (.eh_frame, .eh_frame_hdr); DWARF 5,
 * 6.4. The search table of .eh_frame_hdr gives where functions start and where
 * their FDEs are; the FDEs give the ranges, and must agree about the starts.
 */
#include "probe/elf.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_AUG 16 /* letters of a CIE's augmentation; 7 are known */
#define MAX_LEB (16 * 7) /* bits of a number, padding included */
#define MAX_FDES (8u << 20) /* the most known: 0.4 million */

/* Pointer encodings, LSB Core 10.5.1 */
#define PE_OMIT 0xff
#define PE_FORMAT 0x0f
#define PE_APPL 0x70
#define PE_INDIR 0x80
enum {
	PE_ABS = 0x00,
	PE_ULEB = 0x01,
	PE_U2 = 0x02,
	PE_U4 = 0x03,
	PE_U8 = 0x04,
	PE_SLEB = 0x09,
	PE_S2 = 0x0a,
	PE_S4 = 0x0b,
	PE_S8 = 0x0c
};
enum { PE_PCREL = 0x10, PE_DATAREL = 0x30 };

/* A cursor that knows the address of what it reads; `bad` once it ran out. */
struct cur {
	const uint8_t *p, *end;
	uint64_t vaddr;
	bool bad;
};

static const uint8_t *take(struct cur *c, size_t n)
{
	const uint8_t *p = c->p;

	if (c->bad || n > (size_t)(c->end - c->p)) {
		c->bad = true;
		return NULL;
	}
	c->p += n;
	c->vaddr += n;
	return p;
}

static uint64_t read_n(struct cur *c, size_t n)
{
	const uint8_t *p = take(c, n);

	if (!p)
		return 0;
	switch (n) {
	case 1:
		return *p;
	case 2:
		return rd16(p);
	case 4:
		return rd32(p);
	default:
		return rd64(p);
	}
}

static uint64_t leb128(struct cur *c, bool is_signed)
{
	uint64_t v = 0;
	unsigned int shift = 0;
	uint8_t b;

	do {
		b = (uint8_t)read_n(c, 1);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
		c->bad |= shift > MAX_LEB;
	} while ((b & 0x80) && !c->bad);
	if (is_signed && shift < 64 && (b & 0x40))
		v |= ~0ULL << shift;
	return v;
}

/* `base` is what DATAREL is relative to; a PE_INDIR value is given as is. */
static uint64_t pointer(struct cur *c, uint8_t enc, uint64_t base)
{
	uint64_t at = c->vaddr, v;

	switch (enc & PE_FORMAT) {
	case PE_ABS:
	case PE_U8:
	case PE_S8:
		v = read_n(c, 8);
		break;
	case PE_ULEB:
		v = leb128(c, false);
		break;
	case PE_SLEB:
		v = leb128(c, true);
		break;
	case PE_U2:
		v = read_n(c, 2);
		break;
	case PE_S2:
		v = (uint64_t)(int64_t)(int16_t)read_n(c, 2);
		break;
	case PE_U4:
		v = read_n(c, 4);
		break;
	case PE_S4:
		v = (uint64_t)(int64_t)(int32_t)read_n(c, 4);
		break;
	default:
		c->bad = true;
		return 0;
	}
	switch (enc & PE_APPL) {
	case 0:
		return v;
	case PE_PCREL:
		return v ? v + at : 0; /* 0 is "none" in every use */
	case PE_DATAREL:
		return v + base;
	default:
		c->bad = true;
		return 0;
	}
}

struct cie {
	uint64_t vaddr; /* 0: none cached */
	uint8_t fde_enc, lsda_enc;
	bool has_aug, signal;
	struct cur program; /* initial instructions */
};

/* Cursor over a record at an address, length word consumed; false if there is none. */
static bool record(const struct elf_image *img, uint64_t vaddr, struct cur *c)
{
	size_t rest;
	const uint8_t *p = elf_image__rest(img, vaddr, &rest);
	uint64_t len;

	if (!p || rest < 4)
		return false;
	len = rd32(p);
	/* 0xffffffff announces the 64-bit form, which no linker writes. */
	if (!len || len == 0xffffffff || len > rest - 4)
		return false;
	*c = (struct cur){ p + 4, p + 4 + len, vaddr + 4, false };
	return true;
}

static bool read_cie(const struct elf_image *img, uint64_t vaddr, struct cie *cie)
{
	const char *aug;
	struct cur c, body;
	uint8_t version;
	uint64_t len;

	if (!record(img, vaddr, &c) || read_n(&c, 4) != 0)
		return false;
	version = (uint8_t)read_n(&c, 1);
	if (version != 1 && version != 3)
		return false;
	aug = (const char *)c.p;
	if (!memchr(c.p, 0, MT_MIN((size_t)(c.end - c.p), (size_t)MAX_AUG)))
		return false;
	take(&c, strlen(aug) + 1);
	leb128(&c, false); /* code alignment */
	leb128(&c, true); /* data alignment */
	if (version == 1)
		take(&c, 1);
	else
		leb128(&c, false); /* return address register */
	*cie = (struct cie){ .fde_enc = PE_ABS, .lsda_enc = PE_OMIT };
	if (*aug == 'z') {
		cie->has_aug = true;
		len = leb128(&c, false);
		body = c;
		take(&body, len);
		aug++;
	} else if (*aug) {
		return false;
	}
	for (; *aug; aug++) {
		switch (*aug) {
		case 'R':
			cie->fde_enc = (uint8_t)read_n(&c, 1);
			break;
		case 'L':
			cie->lsda_enc = (uint8_t)read_n(&c, 1);
			break;
		case 'P':
			pointer(&c, (uint8_t)read_n(&c, 1) & (uint8_t)~PE_INDIR, 0);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* aarch64: B key signs return addresses */
		case 'G': /* aarch64: memory-tagged frames */
			break;
		default:
			return false;
		}
	}
	cie->vaddr = vaddr;
	cie->program = cie->has_aug ? body : c;
	return !c.bad && !cie->program.bad;
}

/* Cursor behind the range of the FDE at vaddr; the CIE is cached in *cie. */
static bool read_fde(const struct elf_image *img, uint64_t vaddr, struct cie *cie, struct fde *fde,
		     struct cur *c)
{
	uint64_t id, id_at, range;

	if (!elf_image__spend(img, 1, WORK_FDE))
		return false;
	if (!record(img, vaddr, c))
		return false;
	id_at = c->vaddr;
	id = read_n(c, 4);
	if (c->bad || !id || id > id_at) /* 0: a CIE */
		return false;
	if (cie->vaddr != id_at - id) {
		cie->vaddr = 0;
		if (!read_cie(img, id_at - id, cie)) {
			cie->vaddr = 0;
			return false;
		}
	}
	fde->start = pointer(c, cie->fde_enc, 0);
	range = pointer(c, cie->fde_enc & PE_FORMAT, 0);
	fde->end = fde->start + range;
	return !c->bad && range && fde->end > fde->start;
}

struct found {
	struct fde fde;
	uint64_t rec;
};

struct found_list {
	struct found *v;
	size_t n, cap;
};

static int add_found(const struct elf_image *img, struct found_list *l, const struct fde *fde,
		     uint64_t rec)
{
	const struct elf_seg *s = elf_image__seg(img, fde->start);
	struct found *v;

	/* Code only, whole in one segment; the rest (discarded sections) is dropped. */
	if (!s || !(s->flags & PF_X) || fde->end - s->vaddr > s->filesz)
		return 0;
	if (l->n == MAX_FDES)
		return -E2BIG;
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 4096;
		v = realloc(l->v, l->cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		l->v = v;
	}
	l->v[l->n++] = (struct found){ *fde, rec };
	return 0;
}

/* All records from the start of .eh_frame, for files without a search table. */
static int walk_frames(const struct elf_image *img, uint64_t vaddr, struct found_list *l)
{
	struct cie cie = { 0 };
	struct fde fde;
	struct cur c, r;
	int err = 0;

	while (!err && elf_image__spend(img, 1, WORK_FDE) && record(img, vaddr, &r)) {
		if (read_fde(img, vaddr, &cie, &fde, &c))
			err = add_found(img, l, &fde, vaddr);
		vaddr = r.vaddr + (uint64_t)(r.end - r.p);
	}
	return err;
}

/* Files without PT_GNU_EH_FRAME (musl-gcc's, many static ones): what the section headers say. */
static int read_section(const struct elf_image *img, struct found_list *l)
{
	uint64_t vaddr;

	return elf_image__section(img, ".eh_frame", &vaddr) ? walk_frames(img, vaddr, l) : -ENOENT;
}

static int read_table(const struct elf_image *img, struct found_list *l)
{
	const uint8_t *p = elf_image__at(img, img->eh_hdr, img->eh_hdr_size);
	uint64_t frame, count, i;
	struct cie cie = { 0 };
	struct cur c, body;
	struct fde fde;
	uint8_t enc[4];
	int err = 0;

	if (!p || img->eh_hdr_size < 4)
		return -ENOENT;
	memcpy(enc, p, sizeof(enc)); /* version, encodings of frame, count, table */
	if (enc[0] != 1)
		return -ENOENT;
	c = (struct cur){ p + 4, p + img->eh_hdr_size, img->eh_hdr + 4, false };
	frame = enc[1] == PE_OMIT ? 0 : pointer(&c, enc[1], img->eh_hdr);
	count = enc[2] == PE_OMIT ? 0 : pointer(&c, enc[2], img->eh_hdr);
	if (c.bad)
		return -ENOENT;
	/* The one form in use: pairs of sdata4 relative to the header. */
	if (enc[3] != (PE_DATAREL | PE_S4) || !count)
		return walk_frames(img, frame, l);
	for (i = 0; i < count; i++) {
		uint64_t start = pointer(&c, enc[3], img->eh_hdr);
		uint64_t rec = pointer(&c, enc[3], img->eh_hdr);

		if (c.bad || img->over)
			break;
		if (read_fde(img, rec, &cie, &fde, &body) && fde.start == start) {
			err = add_found(img, l, &fde, rec);
			if (err)
				break;
		}
	}
	return err;
}

static int found_cmp(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->fde.start != y->fde.start)
		return x->fde.start < y->fde.start ? -1 : 1;
	return x->rec < y->rec ? -1 : x->rec > y->rec;
}

static int load_fdes(struct elf_image *img)
{
	struct found_list l = { 0 };
	bool sorted = true;
	size_t i, n = 0;
	int err = img->eh_hdr_size ? read_table(img, &l) : read_section(img, &l);

	if (img->over)
		err = -E2BIG;
	if (!err && !l.n)
		err = -ENOENT;
	if (err)
		goto out;
	for (i = 1; i < l.n && sorted; i++)
		sorted = l.v[i - 1].fde.start < l.v[i].fde.start;
	if (!sorted)
		qsort(l.v, l.n, sizeof(*l.v), found_cmp);
	img->fdes = malloc(l.n * sizeof(*img->fdes));
	img->fde_recs = malloc(l.n * sizeof(*img->fde_recs));
	if (!img->fdes || !img->fde_recs) {
		err = -ENOMEM;
		goto out;
	}
	for (i = 0; i < l.n; i++) {
		/* Of two that overlap the first counts; compilers make none. */
		if (n && l.v[i].fde.start < img->fdes[n - 1].end)
			continue;
		img->fdes[n] = l.v[i].fde;
		img->fde_recs[n++] = l.v[i].rec;
	}
	img->nfdes = n;
out:
	free(l.v);
	return err;
}

int elf_image__fdes(struct elf_image *img, const struct fde **fdes, size_t *n)
{
	if (!img->fdes_done) {
		img->fdes_err = load_fdes(img);
		img->fdes_done = true;
	}
	*fdes = img->fdes;
	*n = img->nfdes;
	return img->fdes_err;
}

const struct fde *elf_image__fde_at(struct elf_image *img, uint64_t vaddr)
{
	const struct fde *f;
	size_t lo = 0, hi;

	if (elf_image__fdes(img, &f, &hi))
		return NULL;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (vaddr >= f[mid].end)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < img->nfdes && vaddr >= f[lo].start ? &f[lo] : NULL;
}

static bool is_nop(const struct elf_image *img, uint64_t addr)
{
	const uint8_t *p = elf_image__at(img, addr, 4);

	if (!p)
		return false;
	return img->machine == EM_X86_64 ? *p == 0x90 : rd32(p) == 0xd503201f;
}

/*
 * Do these instructions set up anything but the state at a function's entry (CFA
 * = sp + 8 and the return address below it; on aarch64 CFA = sp), before they
 * advance? A `.cold` part starts with its function's frame: GCC says so in its
 * FDE, gas moves that into a CIE of its own. A part that begins with a landing
 * pad has a nop before it, which does not count. Opcodes: DWARF 5, 7.24.
 */
static bool sets_frame(const struct elf_image *img, uint64_t start, struct cur *c)
{
	bool x86 = img->machine == EM_X86_64;

	while (!c->bad && c->p < c->end) {
		uint8_t op = (uint8_t)read_n(c, 1);

		if (op == 0x41 && is_nop(img, start)) { /* advance by one */
			start = 0;
			continue;
		}
		if ((op & 0xc0) == 0x40 || (op >= 0x01 && op <= 0x04)) /* set_loc, advance_loc* */
			return false;
		if (op == 0x00) /* DW_CFA_nop: padding */
			continue;
		if (op == 0x2e) { /* DW_CFA_GNU_args_size: not about the frame */
			leb128(c, false);
		} else if (op == 0x0c) { /* DW_CFA_def_cfa: 7 is rsp, 31 sp */
			if (leb128(c, false) != (x86 ? 7 : 31) || leb128(c, false) != (x86 ? 8 : 0))
				return true;
		} else if (x86 && op == (0x80 | 16)) { /* DW_CFA_offset of the return address */
			leb128(c, false);
		} else {
			return true;
		}
	}
	return false;
}

int elf_image__fde_detail(struct elf_image *img, const struct fde *fde, struct fde_detail *out)
{
	struct cie cie = { 0 };
	struct cur c, aug;
	struct fde f;
	uint64_t len;

	*out = (struct fde_detail){ 0 };
	if (fde < img->fdes || fde >= img->fdes + img->nfdes)
		return -EINVAL;
	if (!read_fde(img, img->fde_recs[fde - img->fdes], &cie, &f, &c) ||
	    !elf_image__spend(img, (uint64_t)(c.end - c.p), WORK_BYTE) ||
	    !elf_image__spend(img, (uint64_t)(cie.program.end - cie.program.p), WORK_BYTE))
		return -EINVAL;
	out->signal = cie.signal;
	if (cie.has_aug) {
		len = leb128(&c, false);
		aug = c;
		if (!take(&c, len))
			return -EINVAL;
		aug.end = c.p;
		if (cie.lsda_enc != PE_OMIT)
			out->lsda = pointer(&aug, cie.lsda_enc, 0);
		if (aug.bad)
			return -EINVAL;
	}
	out->starts_framed = sets_frame(img, 0, &cie.program) || sets_frame(img, f.start, &c);
	return 0;
}
