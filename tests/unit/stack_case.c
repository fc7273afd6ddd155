// SPDX-License-Identifier: Apache-2.0
/* Reads a stored stack. */
#include "stack_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stack_words.h"

struct reading {
	struct stack_case *c;
	struct case_row {
		uint32_t map;
		uint64_t vaddr;
		uint16_t rule;
	} rows[4096];
	uint32_t n_rows, map_no[4096]; /* numbers in the file by index */
};

static int word(const char *const *words, size_t n, const char *s)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (words[i] && strcmp(words[i], s) == 0)
			return (int)i;
	return -1;
}

#define WORD(words, s) word(words, sizeof(words) / sizeof(*(words)), s)

static struct case_bytes *more_memory(struct stack_case *c, uint64_t addr, size_t n)
{
	struct case_bytes *b;

	c->memory = realloc(c->memory, (c->n_memory + 1) * sizeof(*c->memory));
	b = &c->memory[c->n_memory++];
	*b = (struct case_bytes){ addr, n, calloc(n + 1, 1) };
	return b;
}

static bool read_bytes(struct stack_case *c, uint64_t addr, const char *hex)
{
	size_t n = strlen(hex) / 2, i;
	struct case_bytes *b = more_memory(c, addr, n);

	for (i = 0; i < n; i++) {
		unsigned int v;

		if (sscanf(hex + 2 * i, "%2x", &v) != 1)
			return false;
		b->bytes[i] = (uint8_t)v;
	}
	return n > 0;
}

static bool read_rule(struct stack_case *c, const char *s)
{
	char cfa[16], fp[16], ra[16];
	struct mt_uw_rule r = { 0 };
	unsigned int no, reg;
	int a, b, d;

	if (sscanf(s, "rule %u %15s %d %d %u fp %15s %d ra %15s %d", &no, cfa, &r.off, &r.add, &reg,
		   fp, &r.fp_off, ra, &r.ra_off) != 9)
		return false;
	a = WORD(cfa_words, cfa);
	b = WORD(fp_words, fp);
	d = WORD(ra_words, ra);
	if (a < 0 || b < 0 || d < 0 || no >= MT_UW_MAX_RULES || reg > 255)
		return false;
	r.cfa = (uint8_t)a;
	r.fp = (uint8_t)b;
	r.ra = (uint8_t)d;
	r.reg = (uint8_t)reg;
	c->rules[no] = r;
	return true;
}

static bool read_map(struct reading *r, const char *s)
{
	struct stack_case *c = r->c;
	struct mt_uw_map m = { 0 };
	uint64_t start, end, bias;
	uint32_t no;
	char name[64];

	if (sscanf(s, "map %u %lx %lx %lx %63s", &no, &start, &end, &bias, name) != 5 ||
	    c->n_maps == 4096)
		return false;
	m.start = start;
	m.end = end;
	m.bias = bias;
	m.file = strcmp(name, "-") ? c->n_maps + 1 : 0;
	c->maps = realloc(c->maps, (c->n_maps + 1) * sizeof(m));
	r->map_no[c->n_maps] = no;
	c->maps[c->n_maps++] = m;
	return true;
}

static bool read_more(struct stack_case *c, const char *s)
{
	int i, n;

	for (i = 0, s += 4; i < 17; i++, s += n)
		if (sscanf(s, " %lx%n", (unsigned long *)&c->more[i], &n) != 1)
			return false;
	return true;
}

static bool read_line(struct reading *r, char *s)
{
	struct stack_case *c = r->c;
	struct case_row *row = &r->rows[r->n_rows];
	char text[256];
	uint64_t at;
	size_t n;

	s[strcspn(s, "\n")] = 0;
	if (*s == '#' || !*s)
		return true;
	if (sscanf(s, "arch %15s", c->arch) == 1 || sscanf(s, "what %63[^\n]", c->what) == 1 ||
	    sscanf(s, "guessed %d", &c->guessed) == 1)
		return true;
	if (sscanf(s, "regs pc=%lx sp=%lx fp=%lx lr=%lx", &c->pc, &c->sp, &c->fp, &c->lr) == 4)
		return true;
	if (strncmp(s, "more ", 5) == 0)
		return read_more(c, s);
	if (strncmp(s, "map ", 4) == 0)
		return read_map(r, s);
	if (strncmp(s, "rule ", 5) == 0)
		return read_rule(c, s);
	if (sscanf(s, "row %u %lx %hu", &row->map, &row->vaddr, &row->rule) == 3)
		return ++r->n_rows < 4096;
	if (sscanf(s, "zeros %lx %zu", &at, &n) == 2)
		return n < 1 << 20 && more_memory(c, at, n);
	if (sscanf(s, "bytes %lx %255s", &at, text) == 2)
		return read_bytes(c, at, text);
	if (strcmp(s, "frame any") == 0 && c->n_frames < CASE_FRAMES)
		return (c->frames[c->n_frames++] = CASE_ANY) != 0;
	if (sscanf(s, "frame %lx", &at) == 1 && c->n_frames < CASE_FRAMES)
		return (c->frames[c->n_frames++] = at) != 0;
	if (sscanf(s, "end %15s", text) == 1)
		return (c->end = WORD(end_words, text)) > 0;
	return false;
}

static int row_cmp(const void *a, const void *b)
{
	const struct case_row *x = a, *y = b;

	if (x->map != y->map)
		return x->map < y->map ? -1 : 1;
	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static int map_cmp(const void *a, const void *b)
{
	const struct mt_uw_map *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Pages of the addresses that a map has rows for. */
static void put_rows(struct reading *r, struct mt_uw_map *m, const struct case_row *rows,
		     uint32_t n)
{
	struct stack_case *c = r->c;
	uint32_t i;

	m->page = c->n_pages;
	m->page_no = (uint32_t)(rows[0].vaddr >> MT_UW_PAGE_SHIFT);
	m->pages = (uint32_t)(rows[n - 1].vaddr >> MT_UW_PAGE_SHIFT) - m->page_no + 1;
	c->n_pages += m->pages;
	c->pages = realloc(c->pages, c->n_pages * sizeof(*c->pages));
	memset(&c->pages[m->page], 0, m->pages * sizeof(*c->pages));
	for (i = 0; i < n; i++) {
		struct mt_uw_page *p;

		if (i && rows[i].vaddr == rows[i - 1].vaddr)
			continue;
		p = &c->pages[m->page + (uint32_t)(rows[i].vaddr >> MT_UW_PAGE_SHIFT) - m->page_no];
		if (!p->n++)
			p->first = (uint16_t)c->n_rows;
		c->rows->rows[c->n_rows++] = (struct mt_uw_row){ (uint16_t)rows[i].vaddr,
								 rows[i].rule };
	}
}

static void finish(struct reading *r)
{
	struct stack_case *c = r->c;
	uint32_t i, k, first;

	qsort(r->rows, r->n_rows, sizeof(r->rows[0]), row_cmp);
	for (first = 0; first < r->n_rows; first = i) {
		for (i = first; i < r->n_rows && r->rows[i].map == r->rows[first].map; i++)
			;
		for (k = 0; k < c->n_maps; k++)
			if (r->map_no[k] == r->rows[first].map)
				put_rows(r, &c->maps[k], &r->rows[first], i - first);
	}
	if (c->n_maps)
		qsort(c->maps, c->n_maps, sizeof(c->maps[0]), map_cmp);
}

struct stack_case *stack_case__read(const char *path, int *line)
{
	struct reading *r = calloc(1, sizeof(*r));
	struct stack_case *c = r->c = calloc(1, sizeof(*c));
	FILE *f = fopen(path, "re");
	char s[1024] = "";
	bool good;

	*line = 1;
	c->rows = calloc(1, sizeof(*c->rows));
	c->rules = calloc(MT_UW_MAX_RULES, sizeof(*c->rules));
	good = f && fgets(s, sizeof(s), f) && strcmp(s, "memtap-stack 1\n") == 0;
	while (good && fgets(s, sizeof(s), f)) {
		++*line;
		good = read_line(r, s);
	}
	if (f)
		fclose(f);
	if (good && c->n_frames && c->end && c->n_maps) {
		finish(r);
	} else {
		stack_case__free(c);
		c = NULL;
	}
	free(r);
	return c;
}

void stack_case__free(struct stack_case *c)
{
	size_t i;

	for (i = 0; i < c->n_memory; i++)
		free(c->memory[i].bytes);
	free(c->memory);
	free(c->maps);
	free(c->pages);
	free(c->rows);
	free(c->rules);
	free(c);
}
