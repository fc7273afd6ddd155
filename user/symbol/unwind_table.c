// SPDX-License-Identifier: Apache-2.0
/*
 * The unwind rows of a file, from its call frame information.
 *
 * The functions' bounds come from the FDEs; libdw runs their programs, once for
 * each row. Rows that say the same as the one before are left out. What lies
 * between two functions has a row that says so, although no call returns there:
 * an address there is a sign that something is wrong, or of a made stack.
 *
 * aarch64 has the rows of all functions as well: bpf/lib/unwind.bpf.h says why. Its
 * linkers describe no .plt; its rows are made here.
 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "symbol/cfi.h"

#define PADDING 0
#define MAX_PAGES (1U << 16) /* 4 GiB of code */
#define MAX_RULES 65535 /* a row has 16 bits for it */
#define MAX_ROWS (1U << 28)

struct range {
	uint64_t start, end;
	const struct mt_uw_rule *rule; /* of all of it; NULL: as libdw says */
};

struct builder {
	struct unwind_table *t;
	size_t cap_rows, cap_rules;
	struct hmap rules; /* hash of a rule -> its index */
	uint16_t now; /* rule in force */
	uint32_t page; /* index of the page that is written; rows before it are done */
	int machine;
};

static int grow(void *array, size_t n, size_t *cap, size_t size, size_t first)
{
	void **p = array, *more;
	size_t want;

	if (n < *cap)
		return 0;
	want = *cap ? *cap + *cap / 2 : first;
	more = realloc(*p, want * size);
	if (!more)
		return -ENOMEM;
	*p = more;
	*cap = want;
	return 0;
}

/* Index of a rule; a negative error. */
static int rule_index(struct builder *b, const struct mt_uw_rule *r)
{
	struct unwind_table *t = b->t;
	struct hkey k = { hash__bytes(r, sizeof(*r), 1), hash__bytes(r, sizeof(*r), 2) };
	uint64_t *v;
	bool fresh;

	if (r->cfa == MT_CFA_NONE)
		return 0;
	v = hmap__put(&b->rules, k, &fresh);
	if (!v)
		return -ENOMEM;
	if (!fresh && memcmp(&t->rules[*v], r, sizeof(*r)) == 0)
		return (int)*v;
	if (t->n_rules > MAX_RULES)
		return -E2BIG;
	if (grow(&t->rules, t->n_rules, &b->cap_rules, sizeof(*t->rules), 256))
		return -ENOMEM;
	t->rules[t->n_rules] = *r;
	*v = t->n_rules;
	return (int)t->n_rules++;
}

static int add_row(struct builder *b, uint16_t pc, uint16_t rule)
{
	struct unwind_table *t = b->t;
	int err;

	if (t->n_rows >= MAX_ROWS)
		return -E2BIG;
	err = grow(&t->rows, t->n_rows, &b->cap_rows, sizeof(*t->rows), 4096);
	if (err)
		return err;
	t->rows[t->n_rows++] = (struct mt_uw_row){ pc, rule };
	return 0;
}

/* A page has its rows. */
static void end_page(struct builder *b)
{
	struct unwind_table *t = b->t;
	struct unwind_page *p = &t->pages[b->page];

	p->n = t->n_rows - p->first;
	if (p->n > MT_UW_CHUNK) {
		t->n_rows = p->first;
		p->n = 0;
		t->n_crowded++;
	}
}

/* Write up to a page, each one in between beginning with the rule that is in force. */
static int go_to_page(struct builder *b, uint32_t page, bool starts_there)
{
	int err = 0;

	while (b->page < page && !err) {
		end_page(b);
		b->page++;
		b->t->pages[b->page].first = b->t->n_rows;
		if (b->now && !(starts_there && b->page == page))
			err = add_row(b, 0, b->now);
	}
	return err;
}

/* From an address on a rule holds. Addresses only grow. */
static int from_here(struct builder *b, uint64_t vaddr, const struct mt_uw_rule *r)
{
	uint64_t at = vaddr - b->t->base;
	int rule = rule_index(b, r), err;

	if (rule < 0)
		return rule;
	if (rule == b->now)
		return 0;
	err = go_to_page(b, (uint32_t)(at >> MT_UW_PAGE_SHIFT), !(at & (MT_UW_PAGE - 1)));
	if (!err)
		err = add_row(b, (uint16_t)at, (uint16_t)rule);
	b->now = (uint16_t)rule;
	return err;
}

/*
 * Rows of one function: 15,700 are the most that were seen (spec ascend-abi.md 5), and the time
 * for each grows with its number. What follows is left out.
 */
#define MAX_FUNCTION_ROWS 32768

/* The rows of one function. */
static int add_function(struct builder *b, Dwarf_CFI *cfi, const struct range *fn)
{
	uint64_t at = fn->start;
	uint32_t rows = 0;
	int err = 0;

	if (fn->rule)
		return from_here(b, at, fn->rule);
	while (at < fn->end && !err) {
		struct mt_uw_rule r = { .cfa = MT_CFA_OTHER };
		Dwarf_Addr start, end = fn->end;
		Dwarf_Frame *f = NULL;
		bool signal = false;

		if (rows++ == MAX_FUNCTION_ROWS)
			end = fn->end;
		else if (dwarf_cfi_addrframe(cfi, at, &f) == 0 &&
			 dwarf_frame_info(f, &start, &end, &signal) >= 0)
			cfi__rule(f, b->machine, signal, &r);
		free(f);
		if (end <= at || end > fn->end)
			end = fn->end;
		if (r.cfa == MT_CFA_OTHER)
			b->t->n_other++;
		err = from_here(b, at, &r);
		at = end;
	}
	return err;
}

static int add_all(struct builder *b, Dwarf_CFI *cfi, const struct range *fns, size_t n)
{
	static const struct mt_uw_rule none;
	struct unwind_table *t = b->t;
	size_t i;
	int err = 0;

	t->base = fns[0].start & ~(uint64_t)(MT_UW_PAGE - 1);
	if ((fns[n - 1].end - t->base) >> MT_UW_PAGE_SHIFT >= MAX_PAGES)
		return -E2BIG;
	t->n_pages = (uint32_t)((fns[n - 1].end - t->base) >> MT_UW_PAGE_SHIFT) + 1;
	t->pages = calloc(t->n_pages, sizeof(*t->pages));
	if (!t->pages || grow(&t->rules, 0, &b->cap_rules, sizeof(*t->rules), 256))
		return -ENOMEM;
	t->rules[t->n_rules++] = none;
	for (i = 0; i < n && !err; i++) {
		err = add_function(b, cfi, &fns[i]);
		if (!err && (i + 1 == n || fns[i + 1].start > fns[i].end))
			err = from_here(b, fns[i].end, &none);
	}
	if (!err)
		err = go_to_page(b, t->n_pages - 1, false);
	end_page(b);
	return err;
}

static Elf_Data *section(Elf *elf, const char *name, uint64_t *vaddr)
{
	size_t strings;
	Elf_Scn *s = NULL;

	if (elf_getshdrstrndx(elf, &strings))
		return NULL;
	while ((s = elf_nextscn(elf, s))) {
		GElf_Shdr h;
		const char *have = gelf_getshdr(s, &h) ? elf_strptr(elf, strings, h.sh_name) : NULL;

		if (have && strcmp(have, name) == 0) {
			if (h.sh_flags & SHF_COMPRESSED)
				elf_compress(s, 0, 0);
			*vaddr = h.sh_addr;
			return elf_getdata(s, NULL);
		}
	}
	return NULL;
}

/* ---- .plt of aarch64 ---- */

/*
 * Its entries leave sp and x30 alone. The first 32 bytes store x16 and x30 and go to
 * the lazy binder; they are missing where there is none.
 */
static size_t plt_ranges(Elf *elf, struct range out[3])
{
	static const struct mt_uw_rule entry = { .cfa = MT_CFA_SP, .ra = MT_RA_LR };
	static const struct mt_uw_rule lazy = { .cfa = MT_CFA_SP, .off = 16, .ra_off = -8 };
	uint64_t at, end;
	Elf_Data *d = section(elf, ".plt", &at);
	uint32_t i;

	if (!d || !d->d_buf || d->d_size < 32 || __builtin_add_overflow(at, d->d_size, &end))
		return 0;
	for (i = 0; i < 8; i += 4) { /* behind a landing pad (bti c) */
		uint32_t code;

		memcpy(&code, (const char *)d->d_buf + i, sizeof(code));
		if (code != 0xa9bf7bf0) /* stp x16, x30, [sp, #-16]! */
			continue;
		out[0] = (struct range){ at, at + i + 4, &entry };
		out[1] = (struct range){ at + i + 4, at + 32, &lazy };
		out[2] = (struct range){ at + 32, end, &entry };
		return end > at + 32 ? 3 : 2;
	}
	out[0] = (struct range){ at, end, &entry };
	return 1;
}

/* Put them in their place, where there is room for them; nothing else describes them. */
static void add_plt(struct builder *b, Elf *elf, struct range *fns, size_t *n)
{
	struct range plt[3];
	size_t more = b->machine == EM_AARCH64 ? plt_ranges(elf, plt) : 0, i;

	for (i = 0; i < *n && more && fns[i].end <= plt[0].start; i++)
		;
	if (!more || (i < *n && fns[i].start < plt[more - 1].end))
		return;
	memmove(&fns[i + more], &fns[i], (*n - i) * sizeof(*fns));
	memcpy(&fns[i], plt, more * sizeof(*plt));
	*n += more;
}

static int build_eh(struct builder *b, struct elf_image *img, Elf *elf)
{
	const struct fde *fdes;
	struct range *fns;
	Dwarf_CFI *cfi;
	size_t n, i;
	int err = elf_image__fdes(img, &fdes, &n);

	if (err || !n)
		return err ? err : -ENOENT;
	cfi = dwarf_getcfi_elf(elf);
	fns = malloc((n + 3) * sizeof(*fns));
	if (!cfi || !fns) {
		err = cfi ? -ENOMEM : -ENOENT;
		goto out;
	}
	for (i = 0; i < n; i++)
		fns[i] = (struct range){ fdes[i].start, fdes[i].end, NULL };
	add_plt(b, elf, fns, &n);
	err = add_all(b, cfi, fns, n);
out:
	if (cfi)
		dwarf_cfi_end(cfi);
	free(fns);
	return err;
}

/* ---- .debug_frame: files that have no .eh_frame ---- */

static int range_cmp(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Functions of .debug_frame: addresses of 8 bytes, as they are. */
static int debug_functions(Elf *elf, Elf_Data *data, struct range **out, size_t *n)
{
	const unsigned char *ident = (const unsigned char *)elf_getident(elf, NULL);
	Dwarf_Off at = 0, next;
	struct range *fns = NULL;
	size_t cap = 0, kept, i;
	Dwarf_CFI_Entry e;
	int r;

	*n = 0;
	for (; (r = dwarf_next_cfi(ident, data, false, at, &next, &e)) != 1; at = next) {
		struct range fn = { 0 };

		if (r < 0 && next == at)
			break;
		if (r < 0 || dwarf_cfi_cie_p(&e) || e.fde.end - e.fde.start < 16)
			continue;
		memcpy(&fn.start, e.fde.start, 8);
		memcpy(&fn.end, e.fde.start + 8, 8);
		if (!fn.end || __builtin_add_overflow(fn.start, fn.end, &fn.end))
			continue;
		if (grow(&fns, *n, &cap, sizeof(*fns), 1024)) {
			free(fns);
			return -ENOMEM;
		}
		fns[(*n)++] = fn;
	}
	if (!fns)
		return -ENOENT;
	qsort(fns, *n, sizeof(*fns), range_cmp);
	for (i = kept = 0; i < *n; i++)
		if (!kept || fns[i].start >= fns[kept - 1].end)
			fns[kept++] = fns[i];
	*n = kept;
	*out = fns;
	return 0;
}

static int build_debug(struct builder *b, Elf *elf)
{
	uint64_t vaddr;
	Elf_Data *data = section(elf, ".debug_frame", &vaddr);
	struct range *fns = NULL;
	Dwarf *dw = NULL;
	Dwarf_CFI *cfi;
	size_t n;
	int err;

	if (!data)
		return -ENOENT;
	err = debug_functions(elf, data, &fns, &n);
	if (err)
		goto out;
	dw = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	cfi = dw ? dwarf_getcfi(dw) : NULL;
	err = cfi ? add_all(b, cfi, fns, n) : -ENOENT;
out:
	if (dw)
		dwarf_end(dw);
	free(fns);
	return err;
}

static void shrink(struct unwind_table *t)
{
	void *p = realloc(t->rows, (t->n_rows + 1) * sizeof(*t->rows));

	if (p)
		t->rows = p;
	p = realloc(t->rules, t->n_rules * sizeof(*t->rules));
	if (p)
		t->rules = p;
}

static int build(int fd, struct elf_image *img, struct unwind_table **out)
{
	struct builder b = { .t = calloc(1, sizeof(*b.t)), .machine = elf_image__machine(img) };
	Elf *elf;
	int err;

	if (!b.t)
		return -ENOMEM;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	err = elf ? build_eh(&b, img, elf) : -ENOEXEC;
	if (err == -ENOENT)
		err = build_debug(&b, elf);
	if (elf)
		elf_end(elf);
	hmap__free(&b.rules);
	if (err) {
		unwind_table__free(b.t);
		return err;
	}
	shrink(b.t);
	*out = b.t;
	return 0;
}

int unwind_table__build_fd(int fd, struct unwind_table **out)
{
	struct elf_image *img;
	int err = elf_image__open_fd(fd, "", &img);

	*out = NULL;
	if (err)
		return err;
	err = build(fd, img, out);
	elf_image__close(img);
	return err;
}

int unwind_table__build(const char *path, struct unwind_table **out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	*out = NULL;
	if (fd < 0)
		return -errno;
	err = unwind_table__build_fd(fd, out);
	close(fd);
	return err;
}

void unwind_table__free(struct unwind_table *t)
{
	if (!t)
		return;
	free(t->pages);
	free(t->rows);
	free(t->rules);
	free(t);
}

const struct mt_uw_rule *unwind_table__at(const struct unwind_table *t, uint64_t vaddr)
{
	uint64_t at = vaddr - t->base;
	const struct unwind_page *p;
	const struct mt_uw_row *rows;
	uint32_t lo = 0, hi;

	if (vaddr < t->base || at >> MT_UW_PAGE_SHIFT >= t->n_pages)
		return &t->rules[0];
	p = &t->pages[at >> MT_UW_PAGE_SHIFT];
	rows = t->rows + p->first;
	hi = p->n;
	/* The last row at or before it. */
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (rows[mid].pc <= (uint16_t)at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return &t->rules[lo ? rows[lo - 1].rule : 0];
}
