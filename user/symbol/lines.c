// SPDX-License-Identifier: Apache-2.0
/*
 * Source lines and inlined calls from DWARF, by libdw: opened on demand only.
 *
 * libdw is given mapped bytes and never a path: it would look for debug files, ask
 * debuginfod and open what a file names (.dwo, dwz) on its own. Trees are walked
 * here, without recursion and with bounds, because they are a target's.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "symbol/debugfile.h"

/* DIEs looked at for one address; the largest unit of LLVM has 3 M. */
#define MAX_VISITS 20000000u
/* Compilers nest scopes less than 100 deep. */
#define MAX_DEPTH 256
#define MAX_UNITS 1000000u
#define MAX_RANGES 8000000u

struct dwarf_file {
	struct elf_view view;
	Elf *elf;
	Dwarf *dw;
};

struct unit_range {
	uint64_t start, end;
	Dwarf_Off die;
};

struct lines {
	struct dwarf_file file, alt;
	struct unit_range *units; /* sorted by start */
	size_t n, cap;
};

static void close_dwarf(struct dwarf_file *f)
{
	if (f->dw)
		dwarf_end(f->dw);
	if (f->elf)
		elf_end(f->elf);
	elf_view__close(&f->view);
}

static int open_dwarf(int fd, struct dwarf_file *f)
{
	int err = elf_view__map_copy(fd, &f->view);

	if (err)
		return err;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return -ENOTSUP;
	f->elf = elf_memory((char *)f->view.data, f->view.size);
	f->dw = f->elf ? dwarf_begin_elf(f->elf, DWARF_C_READ, NULL) : NULL;
	return f->dw ? 0 : -EBADMSG;
}

static bool has_dwarf(const struct elf_view *v)
{
	return elf_view__has(v, ".debug_info") || elf_view__has(v, ".zdebug_info");
}

/* ---- which unit has an address: clang writes no .debug_aranges, so from the units ---- */

static int add_range(struct lines *l, uint64_t start, uint64_t end, Dwarf_Off die)
{
	struct unit_range *v;

	/* Discarded sections are at 0 or -1. */
	if (!start || end <= start)
		return 0;
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 1024;
		v = realloc(l->units, l->cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		l->units = v;
	}
	l->units[l->n++] = (struct unit_range){ start, end, die };
	return 0;
}

static int range_cmp(const void *a, const void *b)
{
	const struct unit_range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->die < y->die ? -1 : x->die > y->die;
}

static int read_units(struct lines *l)
{
	Dwarf_Off off = 0, next;
	unsigned int i, ranges = 0;
	size_t header;
	int err = 0;

	for (i = 0; i < MAX_UNITS && !err; i++, off = next) {
		Dwarf_Addr base, start = 0, end = 0;
		Dwarf_Die cu;
		ptrdiff_t pos = 0;

		if (dwarf_next_unit(l->file.dw, off, &next, &header, NULL, NULL, NULL, NULL, NULL,
				    NULL) ||
		    next <= off)
			break;
		if (!dwarf_offdie(l->file.dw, off + header, &cu) ||
		    dwarf_tag(&cu) != DW_TAG_compile_unit)
			continue;
		while (!err && ranges++ < MAX_RANGES) {
			pos = dwarf_ranges(&cu, pos, &base, &start, &end);
			if (pos <= 0)
				break;
			err = add_range(l, start, end, off + header);
		}
	}
	if (!err && !l->n)
		err = -ENOENT;
	if (!err)
		qsort(l->units, l->n, sizeof(*l->units), range_cmp);
	return err;
}

static bool unit_of(struct lines *l, uint64_t vaddr, Dwarf_Die *cu)
{
	size_t lo = 0, hi = l->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (l->units[mid].start <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* Ranges of units do not overlap, but for those of broken ones. */
	return lo && vaddr < l->units[lo - 1].end &&
	       dwarf_offdie(l->file.dw, l->units[lo - 1].die, cu);
}

/* ---- which functions are at an address ---- */

struct scopes {
	Dwarf_Die v[MAX_DEPTH]; /* the function, then the calls inlined in it, inwards */
	size_t n;
};

static bool holds_functions(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_union_type || tag == DW_TAG_module;
}

/*
 * Depth first: into what has the address, and into what may hold a function that
 * has: namespaces and classes, or (`all`) any other function, for nested ones.
 */
static void find_scopes(Dwarf_Die *cu, uint64_t vaddr, bool all, struct scopes *s)
{
	Dwarf_Die at[MAX_DEPTH];
	size_t depth = 0;
	uint32_t visits = 0;

	s->n = 0;
	if (dwarf_child(cu, &at[0]))
		return;
	while (visits++ < MAX_VISITS) {
		Dwarf_Die *die = &at[depth];
		int tag = dwarf_tag(die);
		bool here = (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine ||
			     tag == DW_TAG_lexical_block || tag == DW_TAG_try_block ||
			     tag == DW_TAG_catch_block) &&
			    dwarf_haspc(die, vaddr) == 1;

		if (here && tag != DW_TAG_lexical_block && tag != DW_TAG_try_block &&
		    tag != DW_TAG_catch_block && s->n < MAX_DEPTH)
			s->v[s->n++] = *die;
		if ((here || (!s->n && (all || holds_functions(tag)))) && depth + 1 < MAX_DEPTH &&
		    !dwarf_child(die, &at[depth + 1])) {
			depth++;
			continue;
		}
		if (here && s->n)
			return; /* a leaf, and what has the address is found once */
		while (dwarf_siblingof(&at[depth], &at[depth])) {
			if (!depth || s->n)
				return; /* nothing further inside has it */
			depth--;
		}
	}
}

static const char *function_name(Dwarf_Die *die)
{
	static const unsigned int names[] = { DW_AT_linkage_name, DW_AT_MIPS_linkage_name };
	Dwarf_Attribute attr;
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(names); i++) {
		const char *name = dwarf_formstring(dwarf_attr_integrate(die, names[i], &attr));

		if (name)
			return name;
	}
	return dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attr));
}

static unsigned int number(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	Dwarf_Word v;

	return dwarf_formudata(dwarf_attr(die, name, &attr), &v) || v > UINT32_MAX
		       ? 0
		       : (unsigned int)v;
}

/* Where an inlined call stands: file and line of the caller. */
static void call_site(Dwarf_Die *cu, Dwarf_Die *die, struct line_frame *f)
{
	Dwarf_Files *files;
	size_t n;

	f->file = NULL;
	f->line = number(die, DW_AT_call_line);
	if (!dwarf_getsrcfiles(cu, &files, &n) && number(die, DW_AT_call_file) < n)
		f->file = dwarf_filesrc(files, number(die, DW_AT_call_file), NULL, NULL);
}

int lines__find(struct lines *l, uint64_t vaddr, line_fn fn, void *ctx)
{
	struct line_frame f = { 0 };
	struct scopes s;
	Dwarf_Die cu;
	Dwarf_Line *line;
	int no = 0, err;

	if (!unit_of(l, vaddr, &cu))
		return -ENOENT;
	find_scopes(&cu, vaddr, false, &s);
	if (!s.n)
		find_scopes(&cu, vaddr, true, &s);
	line = dwarf_getsrc_die(&cu, vaddr);
	if (line) {
		f.file = dwarf_linesrc(line, NULL, NULL);
		if (!dwarf_lineno(line, &no) && no > 0)
			f.line = (unsigned int)no;
	}
	if (!s.n && !f.file)
		return -ENOENT;
	do {
		f.inlined = s.n && dwarf_tag(&s.v[s.n - 1]) == DW_TAG_inlined_subroutine;
		f.function = s.n ? function_name(&s.v[s.n - 1]) : NULL;
		err = fn(ctx, &f);
		if (err || !f.inlined)
			return err;
		call_site(&cu, &s.v[s.n - 1], &f);
	} while (--s.n);
	return 0;
}

/* ---- open ---- */

/* dwz moves what several files share into another one; without it names would be wrong. */
static int open_alt(struct lines *l, const struct debug_search *s)
{
	int fd, err;

	if (!elf_view__has(&l->file.view, ".gnu_debugaltlink"))
		return 0;
	fd = debugfile__find_alt(&l->file.view, s);
	if (fd < 0)
		return -ENOLINK;
	err = open_dwarf(fd, &l->alt);
	close(fd);
	if (!err)
		dwarf_setalt(l->file.dw, l->alt.dw);
	return err;
}

int lines__open(int fd, int debug_fd, const struct debug_search *s, struct lines **out)
{
	struct lines *l = calloc(1, sizeof(*l));
	struct elf_view main = { 0 };
	int err = l ? elf_view__map(fd, &main) : -ENOMEM;

	*out = NULL;
	if (!err && debug_fd >= 0) {
		struct elf_view debug;

		err = elf_view__map(debug_fd, &debug);
		if (!err)
			err = debugfile__check(&main, &debug);
		elf_view__close(&debug);
		fd = debug_fd;
	}
	if (!err && debug_fd < 0 && !has_dwarf(&main))
		err = -ENOENT;
	if (!err)
		err = open_dwarf(fd, &l->file);
	if (!err)
		err = open_alt(l, s);
	if (!err)
		err = read_units(l);
	elf_view__close(&main);
	if (err) {
		lines__close(l);
		return err;
	}
	*out = l;
	return 0;
}

void lines__close(struct lines *l)
{
	if (!l)
		return;
	close_dwarf(&l->file);
	close_dwarf(&l->alt);
	free(l->units);
	free(l);
}
