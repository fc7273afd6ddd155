// SPDX-License-Identifier: Apache-2.0
/*
 * Probes of torch_npu's allocator, best first: its report, its own functions,
 * nothing (then only the driver's segments are seen). Ascend-abi.md 4.1.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/prober.h"

static bool derivable(const struct pta_derived *d)
{
	return d->malloc && d->free && d->block_ptr >= 0 && d->block_size >= 0;
}

int pta__find(struct batch *b, const struct probe_def *d, struct probe_report *rep, uint64_t *vaddr)
{
	struct probed_file *f = b->file;
	struct pta_derived *p = &f->pta;

	if (!f->pta_done) {
		f->pta_done = true;
		if (pta__derive(b->img, p)) {
			memset(p, 0, sizeof(*p));
			p->why = elf_image__over(b->img)
					 ? elf__why(-E2BIG)
					 : "not a library that the derivation knows";
		}
		f->pta_layout = (int)p->layout;
		f->pta_generation = (int)p->generation;
	}
	rep->how = p->from_symtab ? "symbol" : "derived";
	if (is_pta_function(d->fn)) {
		*vaddr = d->fn == MT_FN_PTA_ALLOC ? p->malloc : p->free;
		if (derivable(p) && (b->what == BATCH_FALL_BACK || p->generation == PTA_NONE))
			return 0;
		snprintf(rep->why, sizeof(rep->why), "%s",
			 p->generation == PTA_NONE || b->what == BATCH_FALL_BACK
				 ? "not derived"
				 : "not needed: the report function serves");
		return -ENOENT;
	}
	*vaddr = p->report;
	if (*vaddr)
		return 0;
	snprintf(rep->why, sizeof(rep->why), "%s",
		 p->generation == PTA_C10 ? "generation 5.0: c10's function serves"
		 : p->why		  ? p->why
					  : "not found");
	return -ENOENT;
}

/* Reports of the probes that fn stands for are set to `state`, those that are attached. */
static size_t each_attached(struct probed_file *f, bool functions, const char *state)
{
	size_t i, n = 0;

	for (i = 0; i < f->n_reports; i++) {
		struct probe_report *r = &f->reports[i];

		if (strcmp(r->state, "attached") != 0 ||
		    (functions ? !is_pta_function(r->def->fn) : r->def->fn != MT_FN_PTA_REPORT))
			continue;
		n++;
		if (state)
			r->state = state;
	}
	return n;
}

/* One end of a block without the other would say wrong things. */
static bool functions_work(struct prober *pr, struct probed_file *f)
{
	size_t n = each_attached(f, true, NULL);

	if (n == 2)
		return true;
	if (n) {
		attach__remove(pr->attach, group_of(f, MT_FN_PTA_ALLOC));
		each_attached(f, true, "withdrawn");
		file__count(f);
	}
	return false;
}

void pta__settle(struct prober *pr, struct probed_file *f, int fd)
{
	if (!f->pta_done || pr->opts.dry_run || f->pta_generation == PTA_C10)
		return;
	if (each_attached(f, false, NULL)) {
		if (derivable(&f->pta))
			file__keep(f, fd);
		return;
	}
	f->segments = !functions_work(pr, f);
}

static int fall_back(struct prober *pr, struct probed_file *f)
{
	struct batch b = { .pr = pr, .file = f, .what = BATCH_FALL_BACK };
	int err = -ENOENT;

	if (f->fd < 0)
		return err;
	err = elf_image__open_fd(f->fd, f->path, &b.img);
	if (!err) {
		batch__run(&b, f->fd);
		err = functions_work(pr, f) ? 0 : -ENOENT;
	}
	batch__free(&b);
	return err;
}

int prober__withdraw(struct prober *pr, unsigned int no, const char *why)
{
	struct probed_file *f;
	bool report;
	int err = -ENOENT;

	if (no >= pr->n_files)
		return -ENOENT;
	f = pr->files[no];
	report = each_attached(f, false, NULL) > 0;
	f->withdrawn = true;
	snprintf(f->withdraw_why, sizeof(f->withdraw_why), "%s", why);
	/* First the other way, then this one ends: between them nothing is unseen. */
	if (report)
		err = fall_back(pr, f);
	f->instead_time = clock__boot();
	each_attached(f, !report, "withdrawn");
	attach__remove(pr->attach, group_of(f, report ? MT_FN_PTA_REPORT : MT_FN_PTA_ALLOC));
	file__count(f);
	f->segments = err != 0;
	f->instead = err ? "the driver's segments" : "the allocator's own functions";
	pr_warn("%s: probe of its allocator withdrawn: %s; from here on %s", f->path, why,
		err ? "its tensors are not seen" : "the allocator's own functions are probed");
	return err;
}
