// SPDX-License-Identifier: Apache-2.0
/* `memtap probes FILE --derive`: derives the hidden functions and prints what was found. */
#include "cli/probes_file.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <cjson/cJSON.h>

#include "base/base.h"
#include "probe/probe.h"

#define VALUE_MAX 64

/* One list serves both formats: the value as text, "-" when there is none. */
struct line {
	const char *key;
	char value[VALUE_MAX];
	const char *text; /* instead of value: a longer one */
	bool number; /* a JSON number */
};

struct report {
	struct line v[24];
	size_t n;
};

static struct line *add(struct report *r, const char *key)
{
	struct line *l = &r->v[r->n++];

	*l = (struct line){ .key = key, .value = "-" };
	return l;
}

static void add_text(struct report *r, const char *key, const char *text)
{
	if (text)
		add(r, key)->text = text;
	else
		add(r, key);
}

/* Addresses are hexadecimal text in both formats, 0 is "not found". */
static void add_hex(struct report *r, const char *key, uint64_t v)
{
	struct line *l = add(r, key);

	if (v)
		snprintf(l->value, sizeof(l->value), "0x%" PRIx64, v);
}

static void add_number(struct report *r, const char *key, int64_t v, bool found)
{
	struct line *l = add(r, key);

	if (!found)
		return;
	snprintf(l->value, sizeof(l->value), "%" PRId64, v);
	l->number = true;
}

static void add_build_id(struct report *r, const struct elf_image *img)
{
	struct line *l = add(r, "build_id");
	uint8_t id[BUILD_ID_MAX];
	size_t n = elf_image__build_id(img, id), i;

	/* 31 bytes fill the line; GNU build-ids have 16 or 20. */
	for (i = 0; i < n && 2 * i + 2 < sizeof(l->value); i++)
		snprintf(l->value + 2 * i, 3, "%02x", id[i]);
}

static void add_site(struct report *r, struct elf_image *img, uint64_t report)
{
	struct site s;
	bool found = report && !site__entry(img, report, 1, 0, &s);
	struct line *l;

	add_hex(r, "site_off", found ? s.off : 0);
	add_number(r, "site_delta", found ? (int64_t)(s.vaddr - report) : 0, found);
	l = add(r, "site_insn");
	if (found)
		snprintf(l->value, sizeof(l->value), "%s", s.insn);
	add_text(r, "site_cost",
		 !found			   ? NULL
		 : s.cost == SITE_EMULATED ? "emulated"
					   : "single-stepped");
}

static void print_text(const struct report *r, FILE *out)
{
	size_t i;

	for (i = 0; i < r->n; i++)
		fprintf(out, "%s %s\n", r->v[i].key, r->v[i].text ? r->v[i].text : r->v[i].value);
}

static int print_json(const struct report *r, FILE *out)
{
	cJSON *o = cJSON_CreateObject();
	char *s = NULL;
	bool ok = o;
	size_t i;

	for (i = 0; i < r->n && ok; i++) {
		const struct line *l = &r->v[i];
		const char *v = l->text ? l->text : l->value;

		if (l->number)
			ok = cJSON_AddRawToObject(o, l->key, v);
		else if (!l->text && !strcmp(v, "-"))
			ok = cJSON_AddNullToObject(o, l->key);
		else
			ok = cJSON_AddStringToObject(o, l->key, v);
	}
	if (ok)
		s = cJSON_PrintUnformatted(o);
	cJSON_Delete(o);
	if (!s)
		return -ENOMEM;
	fprintf(out, "%s\n", s);
	cJSON_free(s);
	return 0;
}

int probes_file__derive(const char *path, bool json, FILE *out)
{
	static const char *const generations[] = { "none", "c10", "report" };
	static const char *const layouts[] = { NULL, "A", "B", "C" };
	struct report r = { .n = 0 };
	uint64_t began = clock__boot();
	struct elf_image *img;
	struct pta_derived d;
	bool report;
	int err;

	err = elf_image__open(path, &img);
	if (err) {
		pr_err("%s: %s", path, elf__why(err));
		return err;
	}
	err = pta__derive(img, &d);
	if (err) {
		pr_err("%s: %s", path,
		       elf_image__over(img) ? elf__why(err) : "not for x86-64 or aarch64");
		goto out;
	}
	report = d.generation == PTA_REPORT;
	add_text(&r, "file", path);
	add_build_id(&r, img);
	add_text(&r, "arch", elf_image__machine(img) == EM_X86_64 ? "x86_64" : "aarch64");
	add_text(&r, "generation", generations[d.generation]);
	add_hex(&r, "report_off", d.report_off);
	add_number(&r, "report_size", (int64_t)d.report_size, report);
	add_text(&r, "layout", layouts[d.layout]);
	add_number(&r, "call_sites", d.call_sites, report);
	add_text(&r, "frees", !report ? NULL : d.merged ? "merged" : "exact");
	add_hex(&r, "malloc_vaddr", d.malloc);
	add_hex(&r, "free_vaddr", d.free);
	add_number(&r, "block_ptr", d.block_ptr, d.block_ptr >= 0);
	add_number(&r, "block_size", d.block_size, d.block_size >= 0);
	add_number(&r, "fdes", (int64_t)d.fdes, true);
	add_text(&r, "from_symtab", d.from_symtab ? "yes" : "no");
	add_site(&r, img, d.report);
	add_text(&r, "why", d.why);
	add_number(&r, "elapsed_ms", (int64_t)((clock__boot() - began) / 1000000), true);
	if (json)
		err = print_json(&r, out);
	else
		print_text(&r, out);
out:
	elf_image__close(img);
	return err;
}
