// SPDX-License-Identifier: Apache-2.0
/* Probes in files: looks each wanted function up, chooses its site, attaches. */
#include "probe/probe.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fnmatch.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "memtap/event.h"
#include "probe/pymethod.h"
#include "target/target.h"

#define MAX_RETS 64

struct site_info {
	struct probed_file *file;
	const char *symbol;
	bool is_return;
	uint16_t fn;
};

struct prober {
	struct progs *progs;
	const struct features *f;
	struct prober_opts opts;
	struct attach *attach;
	struct probed_file **files;
	size_t n_files;
	struct site_info sites[MT_MAX_SITES];
	unsigned int n_sites; /* site 0 is the lifecycle */
	unsigned int n_pairs;
};

/* What is being put together for one file. */
struct batch {
	struct prober *pr;
	struct probed_file *file;
	struct elf_image *img;
	struct pta_derived pta;
	bool pta_done;
	pid_t pid;
	int py_minor; /* 3.N of the Python around, 0 = unknown */
	struct attach_req *reqs;
	size_t n, cap;
	struct hmap offsets; /* (offset, kind) taken: aliases are one site */
	bool full;
};

struct prober *prober__new(struct progs *progs, const struct features *f,
			   const struct prober_opts *opts)
{
	struct prober *pr = calloc(1, sizeof(*pr));

	if (!pr)
		return NULL;
	pr->progs = progs;
	pr->f = f;
	pr->opts = *opts;
	pr->n_sites = 1;
	pr->sites[0].symbol = "lifecycle";
	if (progs) {
		pr->attach = attach__new(progs, f);
		if (!pr->attach) {
			free(pr);
			return NULL;
		}
	}
	return pr;
}

static void file__free(struct probed_file *f)
{
	free(f->path);
	free(f->reports);
	free(f);
}

void prober__free(struct prober *pr)
{
	size_t i;

	if (!pr)
		return;
	attach__free(pr->attach);
	for (i = 0; i < pr->n_files; i++)
		file__free(pr->files[i]);
	free(pr->files);
	free(pr);
}

/* A site number with its configuration in the map; 0 = no more room. */
static unsigned int new_site(struct batch *b, const struct probe_def *d, const char *symbol,
			     unsigned int pair, int sp_off, bool is_return)
{
	struct prober *pr = b->pr;
	unsigned int no = pr->n_sites;
	struct mt_site s = { .fn = d->fn,
			     .flags = d->flags,
			     .pair = (__u16)pair,
			     .sp_off = (__s16)sp_off,
			     .name_kind = d->name_kind };

	if (no >= MT_MAX_SITES) {
		b->full = true;
		return 0;
	}
	memcpy(s.arg, d->arg, sizeof(s.arg));
	memcpy(s.off, d->off, sizeof(s.off));
	if (d->kind == PROBE_PYTHON) {
		/* Unknown version: the layout of the most common ones. */
		s.off[0] = (__u16)(b->py_minor ? b->py_minor : 11);
	} else if (d->fn == MT_FN_PTA_ALLOC || d->fn == MT_FN_PTA_FREE) {
		/* 2.7.3: allocated_bytes, reserved_bytes behind the recursive mutex */
		bool arm = elf_image__machine(b->img) == 183 /* EM_AARCH64 */;

		s.off[0] = (__u16)b->pta.block_ptr;
		s.off[1] = (__u16)b->pta.block_size;
		s.off[2] = arm ? 432 : 424;
		s.off[3] = arm ? 528 : 520;
	}
	if (pr->progs && bpf_map_update_elem(progs__map(pr->progs, "sites"), &no, &s, 0))
		return 0;
	pr->sites[no] = (struct site_info){ b->file, symbol, is_return, d->fn };
	pr->n_sites++;
	return no;
}

static struct attach_req *new_req(struct batch *b)
{
	if (b->n == b->cap) {
		size_t cap = b->cap ? b->cap * 2 : 64;
		void *p = realloc(b->reqs, cap * sizeof(*b->reqs));

		if (!p)
			return NULL;
		b->reqs = p;
		b->cap = cap;
	}
	memset(&b->reqs[b->n], 0, sizeof(b->reqs[0]));
	return &b->reqs[b->n++];
}

/* Program names with their ending: the string must outlive the request. */
static const char *prog_name(const char *base, char end)
{
	static struct {
		char s[20];
	} pool[64];
	static size_t n;
	char want[20];
	size_t i;

	snprintf(want, sizeof(want), "%s_%c", base, end);
	for (i = 0; i < n; i++)
		if (strcmp(pool[i].s, want) == 0)
			return pool[i].s;
	if (n == MT_ARRAY_SIZE(pool))
		return base;
	memcpy(pool[n].s, want, sizeof(want));
	return pool[n++].s;
}

static int add_req(struct batch *b, const char *prog, enum attach_kind kind, uint64_t off,
		   unsigned int site)
{
	struct attach_req *r;

	if (!site)
		return -ENOSPC;
	r = new_req(b);
	if (!r)
		return -ENOMEM;
	*r = (struct attach_req){ .prog = prog, .kind = kind, .off = off, .site = site };
	return 0;
}

/* sp at a uretprobe: the return address has been popped on x86-64. */
static int uret_sp(const struct elf_image *img)
{
	return elf_image__machine(img) == 62 /* EM_X86_64 */ ? -8 : 0;
}

static int add_rets(struct batch *b, const struct probe_def *d, struct probe_report *rep,
		    const char *prog, uint64_t vaddr, unsigned int pair)
{
	struct site rets[MAX_RETS];
	int n = site__returns(b->img, vaddr, rets, MAX_RETS), i, err;

	if (n <= 0) {
		snprintf(rep->why, sizeof(rep->why), "its returns cannot be probed: %s",
			 n ? strerror(-n) : "none found");
		return n ? n : -ENOENT;
	}
	for (i = 0; i < n; i++) {
		err = add_req(b, prog, ATTACH_ENTRY, rets[i].off,
			      new_site(b, d, rep->symbol, pair, rets[i].sp_off, true));
		if (err)
			return err;
	}
	return 0;
}

/* Requests for one function at vaddr. 0 or -errno with rep->why. */
static int plan(struct batch *b, const struct probe_def *d, struct probe_report *rep,
		uint64_t vaddr)
{
	struct probe_def own = *d;
	unsigned int pair = ++b->pr->n_pairs, no;
	struct site s;
	bool uret, session;
	uint64_t *taken;
	bool fresh;
	int err;

	err = site__entry(b->img, vaddr, d->nargs, 0, &s);
	if (err) {
		snprintf(rep->why, sizeof(rep->why), "no file offset for its address: %s",
			 strerror(-err));
		return err;
	}
	uret = d->kind == PROBE_CALL && !b->pr->opts.ret_sites;
	/*
	 * A uretprobe replaces the return address where it fires, which must still
	 * be at sp (x86-64) or in x30 (arm64: nothing may have been executed).
	 */
	if (uret && (s.sp_off || (uret_sp(b->img) == 0 && s.vaddr != vaddr))) {
		s.vaddr = vaddr;
		s.sp_off = 0;
		s.cost = SITE_STEPPED;
		snprintf(s.insn, sizeof(s.insn), "entry");
		err = elf_image__offset(b->img, vaddr, &s.off);
		if (err)
			return err;
	}
	rep->off = s.off;
	rep->cost = s.cost == SITE_EMULATED ? "emulated" : "stepped";
	snprintf(rep->insn, sizeof(rep->insn), "%s", s.insn);
	taken = hmap__put(&b->offsets, (struct hkey){ s.off, (uint64_t)d->fn }, &fresh);
	if (taken && !fresh) {
		snprintf(rep->why, sizeof(rep->why), "the same code as another probe");
		return -EALREADY;
	}
	session = uret && features__has(b->pr->f, FEAT_SESSION) &&
		  !(b->pr->progs && progs__why(b->pr->progs, prog_name(d->prog, 's')));
	switch (d->kind) {
	case PROBE_ENTRY:
		return add_req(b, d->prog, ATTACH_ENTRY, s.off,
			       new_site(b, d, rep->symbol, pair, s.sp_off, false));
	case PROBE_PYTHON:
		/* Returns first: without them nesting cannot be told and is not tried. */
		if (!add_rets(b, d, rep, "py_ret", vaddr, pair))
			own.flags |= MT_SITE_GUARD;
		rep->why[0] = '\0';
		return add_req(b, d->prog, ATTACH_ENTRY, s.off,
			       new_site(b, &own, rep->symbol, pair, s.sp_off, false));
	case PROBE_RETS:
		err = add_rets(b, d, rep, prog_name(d->prog, 'r'), vaddr, pair);
		if (err)
			return err;
		break;
	case PROBE_CALL:
		if (!uret) {
			err = add_rets(b, d, rep, prog_name(d->prog, 'r'), vaddr, pair);
			if (err)
				return err;
			break;
		}
		no = new_site(b, d, rep->symbol, pair, s.sp_off, false);
		if (session) {
			/* The return uses the next number. */
			new_site(b, d, rep->symbol, pair, uret_sp(b->img), true);
			return add_req(b, prog_name(d->prog, 's'), ATTACH_SESSION, s.off, no);
		}
		err = add_req(b, prog_name(d->prog, 'r'), ATTACH_RETURN, s.off,
			      new_site(b, d, rep->symbol, pair, uret_sp(b->img), true));
		if (err)
			return err;
		return add_req(b, prog_name(d->prog, 'e'), ATTACH_ENTRY, s.off, no);
	}
	return add_req(b, prog_name(d->prog, 'e'), ATTACH_ENTRY, s.off,
		       new_site(b, d, rep->symbol, pair, s.sp_off, false));
}

/* Hidden allocator functions of torch_npu, derived once a file. */
static int find_pta(struct batch *b, const struct probe_def *d, struct probe_report *rep,
		    uint64_t *vaddr)
{
	if (!b->pta_done) {
		int err = pta__derive(b->img, &b->pta);

		b->pta_done = true;
		if (err) {
			memset(&b->pta, 0, sizeof(b->pta));
			b->pta.why = "not a library that the derivation knows";
		}
		b->file->pta_layout = (int)b->pta.layout;
		b->file->pta_generation = (int)b->pta.generation;
	}
	rep->how = b->pta.from_symtab ? "symbol" : "derived";
	switch (d->fn) {
	case MT_FN_PTA_REPORT:
		*vaddr = b->pta.report;
		break;
	default:
		/* Fall-back 1 of 4.1: only where neither report function exists. */
		*vaddr = d->fn == MT_FN_PTA_ALLOC ? b->pta.malloc : b->pta.free;
		if (b->pta.generation != PTA_NONE || !b->pta.malloc || !b->pta.free ||
		    b->pta.block_ptr < 0 || b->pta.block_size < 0) {
			snprintf(rep->why, sizeof(rep->why), "%s",
				 b->pta.generation == PTA_NONE
					 ? "not derived"
					 : "not needed: the report function serves");
			*vaddr = 0;
			return -ENOENT;
		}
		return 0;
	}
	if (*vaddr)
		return 0;
	snprintf(rep->why, sizeof(rep->why), "%s",
		 b->pta.generation == PTA_C10 ? "generation 5.0: c10's function serves"
		 : b->pta.why		      ? b->pta.why
					      : "not found");
	return -ENOENT;
}

static int find_function(struct batch *b, const struct probe_def *d, struct probe_report *rep,
			 uint64_t *vaddr)
{
	uint64_t size;
	size_t i;
	int err;

	rep->symbol = d->symbol[0];
	if (d->fn == MT_FN_PTA_REPORT || d->fn == MT_FN_PTA_ALLOC || d->fn == MT_FN_PTA_FREE)
		return find_pta(b, d, rep, vaddr);
	if (d->kind == PROBE_PYTHON) {
		rep->how = "method table";
		err = pymethod__find(b->img, d->symbol[0], vaddr);
		if (err && b->pid)
			err = pymethod__find_live(b->img, b->pid, b->file->dev, b->file->ino,
						  d->symbol[0], vaddr);
		if (err)
			snprintf(rep->why, sizeof(rep->why), "no such entry in a method table");
		return err;
	}
	rep->how = "symbol";
	for (i = 0; i < MT_ARRAY_SIZE(d->symbol) && d->symbol[i]; i++) {
		if (elf_image__symbol(b->img, d->symbol[i], vaddr, &size))
			continue;
		rep->symbol = d->symbol[i];
		return 0;
	}
	snprintf(rep->why, sizeof(rep->why), "no such symbol");
	return -ENOENT;
}

/* 3.N from ".../python3.N/..." or "cpython-3NN"; 0 = none. */
static int python_minor(const char *path, pid_t pid)
{
	const char *p = strstr(path, "/python3.");
	int minor = 0;

	if (pid)
		minor = pymethod__python_minor(pid);
	if (minor)
		return minor;
	if (p)
		return atoi(p + 9);
	p = strstr(path, ".cpython-3");
	return p ? atoi(p + 10) : 0;
}

static void run_batch(struct batch *b, int fd)
{
	struct probed_file *f = b->file;
	size_t i, j, first;

	for (i = 0; i < f->n_reports; i++) {
		struct probe_report *rep = &f->reports[i];
		uint64_t vaddr;

		if (find_function(b, rep->def, rep, &vaddr)) {
			rep->state = "missing";
			continue;
		}
		first = b->n;
		if (plan(b, rep->def, rep, vaddr)) {
			rep->state = "failed";
			b->n = first;
			continue;
		}
		rep->state = "found";
		/* Remember which requests are this report's: by site order. */
		for (j = first; j < b->n; j++)
			b->reqs[j].err = (int)i;
	}
	if (b->pr->opts.dry_run || !b->n)
		return;
	struct {
		size_t rep;
	} *owner = calloc(b->n, sizeof(*owner));

	if (!owner)
		return;
	for (j = 0; j < b->n; j++)
		owner[j].rep = (size_t)b->reqs[j].err;
	attach__file(b->pr->attach, fd, f->no, b->reqs, b->n);
	for (j = 0; j < b->n; j++) {
		struct probe_report *rep = &f->reports[owner[j].rep];

		if (!b->reqs[j].err) {
			if (strcmp(rep->state, "found") == 0)
				rep->state = "attached";
			continue;
		}
		rep->state = "failed";
		snprintf(rep->why, sizeof(rep->why), "%s", strerror(-b->reqs[j].err));
		if (b->reqs[j].err == -ENOENT && progs__why(b->pr->progs, b->reqs[j].prog))
			snprintf(rep->why, sizeof(rep->why), "program %s does not load",
				 b->reqs[j].prog);
	}
	free(owner);
	for (i = 0; i < f->n_reports; i++)
		f->attached += strcmp(f->reports[i].state, "attached") == 0;
	f->attach_time = clock__boot();
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

const struct probed_file *prober__file_of(const struct prober *pr, int fd)
{
	struct stat st;
	size_t i;

	if (fstat(fd, &st))
		return NULL;
	for (i = 0; i < pr->n_files; i++)
		if (pr->files[i]->dev == st.st_dev && pr->files[i]->ino == st.st_ino)
			return pr->files[i];
	return NULL;
}

int prober__add(struct prober *pr, int fd, const char *path, pid_t pid)
{
	struct batch b = { .pr = pr, .pid = pid };
	const char *base = base_name(path);
	const struct probe_def *defs;
	struct probed_file *f;
	struct stat st;
	size_t n, i;
	void *more;
	int err;

	if (path__is_stub(path) || !catalogue__wants(base))
		return 0;
	if (fstat(fd, &st))
		return -errno;
	for (i = 0; i < pr->n_files; i++)
		if (pr->files[i]->dev == st.st_dev && pr->files[i]->ino == st.st_ino)
			return 0;
	err = elf_image__open_fd(fd, path, &b.img);
	if (err)
		return err;
	f = calloc(1, sizeof(*f));
	more = f ? realloc(pr->files, (pr->n_files + 1) * sizeof(*pr->files)) : NULL;
	defs = catalogue__defs(&n);
	if (more)
		pr->files = more;
	if (f) {
		f->path = strdup(path);
		f->reports = calloc(n, sizeof(*f->reports));
	}
	if (!more || !f->path || !f->reports) {
		err = -ENOMEM;
		if (f)
			file__free(f);
		goto out;
	}
	f->no = (unsigned int)pr->n_files;
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	pr->files[pr->n_files++] = f;
	for (i = 0; i < n; i++)
		if ((defs[i].klass & pr->opts.classes) && !fnmatch(defs[i].lib, base, FNM_EXTMATCH))
			f->reports[f->n_reports++] = (struct probe_report){
				.def = &defs[i], .cost = "-", .how = "-", .state = "missing"
			};
	b.file = f;
	b.py_minor = python_minor(path, pid);
	run_batch(&b, fd);
	if (b.full)
		pr_warn("%s: more than %d probe sites; some of its functions are not probed", path,
			MT_MAX_SITES);
	err = 1;
out:
	hmap__free(&b.offsets);
	free(b.reqs);
	elf_image__close(b.img);
	return err;
}

const struct probed_file *prober__site_file(const struct prober *pr, unsigned int site)
{
	return site < pr->n_sites ? pr->sites[site].file : NULL;
}

const char *prober__site_name(const struct prober *pr, unsigned int site)
{
	return site < pr->n_sites ? pr->sites[site].symbol : "unknown";
}

unsigned int prober__site_fn(const struct prober *pr, unsigned int site)
{
	return site < pr->n_sites ? pr->sites[site].fn : MT_FN_NONE;
}

bool prober__site_is_return(const struct prober *pr, unsigned int site)
{
	return site < pr->n_sites && pr->sites[site].is_return;
}

unsigned int prober__sites(const struct prober *pr)
{
	return pr->n_sites;
}

void prober__withdraw(struct prober *pr, unsigned int no, const char *why)
{
	struct probed_file *f;

	if (no >= pr->n_files || pr->files[no]->withdrawn)
		return;
	f = pr->files[no];
	f->withdrawn = true;
	f->attached = 0;
	snprintf(f->withdraw_why, sizeof(f->withdraw_why), "%s", why);
	attach__remove(pr->attach, no);
	pr_warn("%s: probes withdrawn: %s", f->path, why);
}

void prober__detach(struct prober *pr)
{
	if (pr->attach)
		attach__detach(pr->attach);
}

const struct probed_file *prober__file(const struct prober *pr, size_t i)
{
	return i < pr->n_files ? pr->files[i] : NULL;
}

size_t prober__attached(const struct prober *pr)
{
	size_t i, n = 0;

	for (i = 0; i < pr->n_files; i++)
		n += pr->files[i]->attached;
	return n;
}

const char *prober__mechanism(const struct prober *pr)
{
	return pr->attach ? attach__mechanism(pr->attach) : "none";
}
