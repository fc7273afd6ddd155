// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the hidden functions of libtorch_npu.so from its bytes alone: what it
 * imports, its relocations, FDEs and code. Never from a version.
 *
 * Was right on all released libraries from 2.1.0 to 2.14.0, both architectures;
 * tests/real/derive-all.sh says so again.
 */
#include "probe/derive.h"

#include <errno.h>

#define SYM_REPORT "_ZN9torch_npu8profiler29reportMemoryDataToNpuProfilerERKNS0_11MemoryUsageE"
#define SYM_VTABLE "_ZTVN9torch_npu7toolkit8profiler10MemoryDataE"
#define SYM_C10 "_ZN3c1027reportMemoryUsageToProfilerE" /* its arguments differ */
#define SYM_PTA "_ZN7c10_npu19NPUCachingAllocator"
#define SYM_MALLOC "22DeviceCachingAllocator6mallocE"
#define SYM_FREE "22DeviceCachingAllocator4freeE"
#define SYM_BLOCK(x) SYM_PTA x

/* Every release calls the report function at least this often; other users of the vtable less. */
#define MIN_CALL_SITES 3

struct anchor {
	const struct elf_image *img;
	uint64_t slot;
	unsigned int n;
	struct addr_set *candidates;
};

static const char *reloc_symbol(const struct elf_image *img, const struct elf_reloc *r,
				uint64_t *value)
{
	const char *name;
	Elf64_Sym s;

	*value = 0;
	if (!r->sym || !elf_image__dynsym(img, r->sym, &s))
		return NULL;
	name = elf_image__dynstr(img, s.st_name);
	*value = s.st_value;
	return name;
}

static int find_slot(void *ctx, const struct elf_reloc *r)
{
	struct anchor *a = ctx;
	const char *name;
	uint64_t value;

	if (r->type != REL_GLOB_DAT)
		return 0;
	name = reloc_symbol(a->img, r, &value);
	if (name && !strcmp(name, SYM_VTABLE)) {
		a->slot = r->where;
		a->n++;
	}
	return 0;
}

/* A function in a table of pointers is virtual: not the one looked for. */
static int drop_virtual(void *ctx, const struct elf_reloc *r)
{
	struct anchor *a = ctx;
	uint64_t value;

	if (r->type == REL_RELATIVE) {
		addr_set__del(a->candidates, (uint64_t)r->addend);
	} else if (r->type == REL_ABS64 && reloc_symbol(a->img, r, &value) && value) {
		addr_set__del(a->candidates, value + (uint64_t)r->addend);
	}
	return 0;
}

/* Step 2 of the derivation: the report function; its callers are kept for later checks. */
static const char *find_report(struct elf_image *img, struct pta_derived *out,
			       struct addr_set *callers)
{
	struct anchor a = { .img = img };
	struct addr_set found, who;
	unsigned int n;
	uint64_t size;
	size_t i;

	if (!elf_image__symbol(img, SYM_REPORT, &out->report, &size)) {
		out->from_symtab = true;
		out->call_sites = scan__calls_of(img, out->report, callers);
		return NULL;
	}
	elf_image__each_reloc(img, find_slot, &a);
	if (!a.n)
		return "the file does not import the vtable of MemoryData";
	if (a.n > 1)
		return "several GOT slots for the vtable of MemoryData";
	scan__loads_of(img, a.slot, &found);
	if (found.over)
		return "too many functions load the vtable of MemoryData";
	a.candidates = &found;
	elf_image__each_reloc(img, drop_virtual, &a);
	for (i = 0; i < found.n; i++) {
		n = scan__calls_of(img, found.v[i], &who);
		if (n < MIN_CALL_SITES)
			continue;
		if (out->report) {
			out->report = 0;
			out->call_sites = 0;
			return "several functions look like the report function";
		}
		out->report = found.v[i];
		out->call_sites = n;
		*callers = who;
	}
	return out->report
		       ? NULL
		       : "no function that loads the vtable of MemoryData is called often enough";
}

static bool imports_c10(const struct elf_image *img)
{
	Elf64_Sym s;
	uint32_t i;

	if (!elf_image__spend(img, img->dynsym.n, WORK_SYMBOL))
		return false;
	for (i = 1; elf_image__dynsym(img, i, &s); i++) {
		const char *name = elf_image__dynstr(img, s.st_name);

		if (s.st_shndx == SHN_UNDEF && name && !strncmp(name, SYM_C10, strlen(SYM_C10)))
			return true;
	}
	return false;
}

struct reads {
	bool b4, b2, h0, w0, any4;
};

static int note_read(void *ctx, const struct insn *in)
{
	struct reads *r = ctx;

	r->b4 |= in->mem_disp == 4 && in->mem_size == 1;
	r->b2 |= in->mem_disp == 2 && in->mem_size == 1;
	r->h0 |= in->mem_disp == 0 && in->mem_size == 2;
	r->w0 |= in->mem_disp == 0 && in->mem_size == 4;
	r->any4 |= in->mem_disp <= 4 && in->mem_disp + in->mem_size > 4;
	return 0;
}

/* Which byte layout of MemoryUsage the report function reads. */
static const char *find_layout(struct elf_image *img, struct pta_derived *out)
{
	struct reads r = { 0 };
	struct fde b;
	struct func f;

	if (func__bounds(img, out->report, &b))
		return "the report function has no bounds";
	out->report_size = b.end - out->report;
	if (func__decode(img, out->report, b.end, INSN_FULL, &f))
		return "the report function cannot be decoded";
	arg__each_load(img, &f, note_read, &r);
	func__free(&f);
	if (r.b4)
		out->layout = PTA_LAYOUT_C;
	else if (r.h0 && r.b2)
		out->layout = PTA_LAYOUT_A;
	else if (r.w0 && !r.any4)
		out->layout = PTA_LAYOUT_B;
	return out->layout == PTA_LAYOUT_UNKNOWN
		       ? "the report function reads its argument in an unknown way"
		       : NULL;
}

static bool is_start(struct elf_image *img, uint64_t addr)
{
	const struct fde *f = elf_image__fde_at(img, addr);

	return f && f->start == addr;
}

/*
 * A function that calls report, itself or through one it calls; with one return.
 * Where nothing reports (releases without either function) there is nothing to
 * ask: free may even end in a jump. What the probes read is checked as it comes.
 */
static bool reports(struct elf_image *img, uint64_t addr, const struct pta_derived *d,
		    const struct addr_set *callers)
{
	const struct fde *fde = elf_image__fde_at(img, addr);
	bool yes = addr_set__has(callers, addr);
	unsigned int rets = 0;
	struct func f;
	size_t i;

	if (!d->report)
		return true;
	if (func__decode(img, fde->start, fde->end, INSN_FLOW, &f))
		return false;
	for (i = 0; i < f.n; i++) {
		rets += f.v[i].kind == INSN_RET;
		yes |= f.v[i].kind == INSN_CALL && addr_set__has(callers, f.v[i].target);
	}
	func__free(&f);
	return yes && rets == 1;
}

/*
 * Steps 3 and 4: what an exported wrapper ends in, before its first return: with
 * `jump` a jump out of it, else its last call that stays in the file.
 */
static uint64_t inner_function(struct elf_image *img, const char *wrapper, bool jump,
			       const struct pta_derived *d, const struct addr_set *callers)
{
	uint64_t addr, call = 0, tail = 0, found;
	struct fde b;
	struct func f;
	size_t i;

	if (elf_image__symbol(img, wrapper, &addr, NULL) || func__bounds(img, addr, &b) ||
	    func__decode(img, addr, b.end, INSN_FLOW, &f))
		return 0;
	/* Where the wrapper itself reports, the inner function is part of it (6.0.rc2, 2.2.0). */
	for (i = 0; i < f.n && !addr_set__has(callers, b.start) && f.v[i].kind != INSN_RET; i++) {
		const struct insn *in = &f.v[i];

		if ((in->kind != INSN_CALL && in->kind != INSN_JMP) || in->target == d->report ||
		    !is_start(img, in->target) || code__is_stub(img, in->target))
			continue;
		if (in->kind == INSN_CALL)
			call = in->target;
		else if (jump && !tail && (in->target < b.start || in->target >= b.end))
			tail = in->target;
	}
	func__free(&f);
	found = tail ? tail : call;
	return found && reports(img, found, d, callers) ? found : 0;
}

/* 6.0.rc2: the exported wrapper reports itself, after the inner function, of the block as it is
 * then. */
static bool reports_merged(struct elf_image *img, const struct pta_derived *d,
			   const struct addr_set *callers)
{
	uint64_t addr;

	return d->layout == PTA_LAYOUT_B &&
	       !elf_image__symbol(img, SYM_BLOCK("9FreeBlockEPv"), &addr, NULL) &&
	       addr_set__has(callers, addr);
}

struct named {
	uint64_t malloc, free;
};

static int note_symbol(void *ctx, const char *name, uint64_t vaddr, uint64_t size)
{
	struct named *n = ctx;

	if (strncmp(name, SYM_PTA, strlen(SYM_PTA)) || strchr(name, '.')) /* .cold, .part */
		return 0;
	if (strstr(name, SYM_MALLOC))
		n->malloc = vaddr;
	else if (strstr(name, SYM_FREE))
		n->free = vaddr;
	return 0;
}

static int first_word(void *ctx, const struct insn *in)
{
	int *off = ctx;

	if (in->mem_size != 8 || in->mem_disp < 0 || in->mem_disp > 4096)
		return 0;
	*off = (int)in->mem_disp;
	return 1;
}

/* Step 5: the field that an exported getter reads through its argument. */
static int field_of(struct elf_image *img, const char *getter)
{
	uint64_t addr;
	struct func f;
	struct fde b;
	int off = -1;

	if (elf_image__symbol(img, getter, &addr, NULL) || func__bounds(img, addr, &b) ||
	    func__decode(img, addr, b.end, INSN_FULL, &f))
		return -1;
	arg__each_load(img, &f, first_word, &off);
	func__free(&f);
	return off;
}

/* DeviceCachingAllocator::malloc and ::free, and where Block keeps what they are about. */
static void find_inner(struct elf_image *img, struct pta_derived *out,
		       const struct addr_set *callers)
{
	struct named named = { 0 };

	elf_image__each_symbol(img, note_symbol, &named);
	out->malloc = named.malloc ? named.malloc
				   : inner_function(img, SYM_BLOCK("11MallocBlockEmPvi"), false,
						    out, callers);
	out->free = named.free
			    ? named.free
			    : inner_function(img, SYM_BLOCK("9FreeBlockEPv"), true, out, callers);
	out->block_ptr = field_of(img, SYM_BLOCK("11GetBlockPtrEPKv"));
	out->block_size = field_of(img, SYM_BLOCK("12GetBlockSizeEPKv"));
}

static int derive(struct elf_image *img, struct pta_derived *out)
{
	struct addr_set callers = { 0 };
	const char *why, *layout_why;
	const struct fde *fdes;

	*out = (struct pta_derived){ .block_ptr = -1, .block_size = -1 };
	if (img->machine != EM_X86_64 && img->machine != EM_AARCH64)
		return -ENOEXEC;
	if (elf_image__fdes(img, &fdes, &out->fdes)) {
		out->why = "the file has no frame descriptions";
		return 0;
	}
	why = find_report(img, out, &callers);
	if (!out->report) {
		if (imports_c10(img))
			out->generation = PTA_C10;
		else
			find_inner(img, out, &callers);
		out->why = out->generation == PTA_C10 ? "releases 5.0.x report to libc10" : why;
		return 0;
	}
	out->generation = PTA_REPORT;
	if (elf_image__offset(img, out->report, &out->report_off))
		return -EINVAL; /* not possible: it is the start of an FDE or a symbol in a segment
				 */
	layout_why = find_layout(img, out);
	find_inner(img, out, &callers);
	out->merged = reports_merged(img, out, &callers);
	if (layout_why)
		out->why = layout_why;
	else if (!out->malloc || !out->free)
		out->why = "this release reports from outer functions, or they do not look as "
			   "expected";
	else if (out->block_ptr < 0 || out->block_size < 0)
		out->why = "the getters of Block do not look as expected";
	return 0;
}

int pta__derive(struct elf_image *img, struct pta_derived *out)
{
	int err = derive(img, out);

	if (!img->over)
		return err;
	/* What looks unique so far need not be. */
	*out = (struct pta_derived){ .block_ptr = -1, .block_size = -1, .why = elf__why(-E2BIG) };
	return -E2BIG;
}
