// SPDX-License-Identifier: Apache-2.0
/* Probes in files: looks each wanted function up, chooses its site, attaches. */
#include "probe/prober.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/pymethod.h"
#include "target/target.h"

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
	if (f->fd > 0)
		close(f->fd);
	methods__free(f->methods);
	free(f->path);
	free(f->reports);
	free(f);
}

void file__keep(struct probed_file *f, int fd)
{
	if (f->fd < 0)
		f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void prober__free(struct prober *pr)
{
	size_t i;

	if (!pr)
		return;
	attach__free(pr->attach);
	for (i = 0; i < pr->n_files; i++)
		file__free(pr->files[i]);
	ops__free(pr);
	hostmem__free(pr);
	free(pr->files);
	free(pr);
}

static int find_function(struct batch *b, const struct probe_def *d, struct probe_report *rep,
			 uint64_t *vaddr)
{
	uint64_t size;
	size_t i;
	int err;

	rep->symbol = d->symbol[0];
	if (d->fn == MT_FN_PTA_REPORT || is_pta_function(d->fn))
		return pta__find(b, d, rep, vaddr);
	if (d->kind == PROBE_PYTHON) {
		rep->how = "method table";
		*vaddr = methods__found(b->file, rep);
		if (*vaddr)
			return 0;
		err = pymethod__find(b->img, d->symbol[0], vaddr);
		rep->unfilled = err && err != -ENOENT;
		if (err)
			snprintf(rep->why, sizeof(rep->why), "no such entry in a method table");
		return err;
	}
	rep->how = "symbol";
	*vaddr = 0;
	if (d->kind == PROBE_OPS)
		return 0; /* many, see prober_ops.c */
	for (i = 0; i < MT_ARRAY_SIZE(d->symbol) && d->symbol[i]; i++) {
		if (elf_image__symbol(b->img, d->symbol[i], vaddr, &size))
			continue;
		rep->symbol = d->symbol[i];
		return is_atb(d->fn) ? atb__check(b, d, rep) : 0;
	}
	snprintf(rep->why, sizeof(rep->why), "no such symbol");
	return -ENOENT;
}

bool probe_report__failed(const struct probe_report *r)
{
	return strcmp(r->state, "failed") == 0 && !r->same;
}

void file__count(struct probed_file *f)
{
	size_t i;

	f->attached = 0;
	for (i = 0; i < f->n_reports; i++)
		f->attached += strcmp(f->reports[i].state, "attached") == 0;
}

void batch__free(struct batch *b)
{
	hmap__free(&b->offsets);
	free(b->reqs);
	elf_image__close(b->img);
}

/*
 * All probes of the batch are attached: from now on they see. Before, an
 * allocation would have a row and its free, a few milliseconds on, none.
 * Returns first: an entry must not begin what its return does not end.
 */
void sites__on(struct prober *pr, unsigned int first)
{
	unsigned int no;
	int entries;

	for (entries = 0; entries <= 1; entries++) {
		for (no = first; no < pr->n_sites; no++) {
			struct site_info *s = &pr->sites[no];

			if (s->is_return == (entries == 1))
				continue;
			s->cfg.flags &= (__u16)~MT_SITE_OFF;
			if (bpf_map_update_elem(progs__map(pr->progs, "sites"), &no, &s->cfg, 0))
				pr_warn("probe %s: its site cannot be switched on: %s", s->symbol,
					strerror(errno));
		}
	}
}

static bool is_wanted(const struct batch *b, const struct probe_report *rep)
{
	switch (b->what) {
	case BATCH_FALL_BACK:
		return is_pta_function(rep->def->fn);
	case BATCH_METHODS:
		return methods__found(b->file, rep) != 0;
	case BATCH_ALL:
		break;
	}
	return true;
}

/* The file was not read to its end: what was found in it may be wrong. */
static void too_much(struct batch *b)
{
	size_t i;

	for (i = 0; i < b->file->n_reports; i++) {
		struct probe_report *rep = &b->file->reports[i];

		if (!is_wanted(b, rep))
			continue;
		rep->state = "failed";
		rep->unfilled = false;
		snprintf(rep->why, sizeof(rep->why), "%s", elf__why(-E2BIG));
	}
	b->n = 0;
	pr_warn("%s: %s; it is not probed", b->file->path, elf__why(-E2BIG));
}

void batch__run(struct batch *b, int fd)
{
	unsigned int first_site = b->pr->n_sites;

	struct probed_file *f = b->file;
	size_t i, j, first;

	for (i = 0; i < f->n_reports; i++) {
		struct probe_report *rep = &f->reports[i];
		uint64_t vaddr;
		int err;

		if (!is_wanted(b, rep))
			continue;
		err = find_function(b, rep->def, rep, &vaddr);
		if (err) {
			/* It is there, and what it is called with is not understood. */
			rep->state = err == -ENOTSUP ? "failed" : "missing";
			continue;
		}
		first = b->n;
		rep->why[0] = '\0';
		rep->same = false;
		if (batch__plan(b, rep->def, rep, vaddr)) {
			rep->state = "failed";
			b->n = first;
			continue;
		}
		rep->state = "found";
		/* Remember which requests are this report's: by site order. */
		for (j = first; j < b->n; j++)
			b->reqs[j].err = (int)i;
	}
	if (elf_image__over(b->img)) {
		too_much(b);
		b->pr->n_sites = first_site; /* nothing fires with their numbers */
		return;
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
	attach__file(b->pr->attach, fd, b->reqs, b->n);
	sites__on(b->pr, first_site);
	for (j = 0; j < b->n; j++) {
		struct probe_report *rep = &f->reports[owner[j].rep];

		if (!b->reqs[j].err) {
			/* Never NULL. NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
			if (strcmp(rep->state, "found") == 0)
				rep->state = "attached";
			continue;
		}
		rep->state = "failed";
		snprintf(rep->why, sizeof(rep->why), "%s", attach__why(b->reqs[j].err));
		if (b->reqs[j].err == -ENOENT && progs__why(b->pr->progs, b->reqs[j].prog))
			snprintf(rep->why, sizeof(rep->why), "program %s does not load",
				 b->reqs[j].prog);
	}
	free(owner);
	file__count(f);
	if (b->what == BATCH_ALL)
		f->attach_time = clock__boot();
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Several overlays, and the file system below, show one file under different
 * device numbers; a uprobe sits on the file below, once for all. Elsewhere a
 * device number is to be believed: snapshots share all the rest.
 */
static bool same_file(const struct probed_file *f, const struct stat *st, bool overlay)
{
	if (f->ino != st->st_ino)
		return false;
	if (f->dev == st->st_dev)
		return true;
	return (overlay || f->overlay) && f->size == (uint64_t)st->st_size &&
	       f->mtime.tv_sec == st->st_mtim.tv_sec && f->mtime.tv_nsec == st->st_mtim.tv_nsec &&
	       f->ctime.tv_sec == st->st_ctim.tv_sec && f->ctime.tv_nsec == st->st_ctim.tv_nsec;
}

const struct probed_file *prober__file_of(const struct prober *pr, int fd)
{
	bool overlay = fd__on_overlay(fd);
	struct stat st;
	size_t i;

	if (fstat(fd, &st))
		return NULL;
	for (i = 0; i < pr->n_files; i++)
		if (same_file(pr->files[i], &st, overlay))
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
	if (prober__file_of(pr, fd))
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
	f->fd = -1;
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	f->size = (uint64_t)st.st_size;
	f->mtime = st.st_mtim;
	f->ctime = st.st_ctim;
	f->overlay = fd__on_overlay(fd);
	pr->files[pr->n_files++] = f;
	for (i = 0; i < n; i++)
		if ((defs[i].klass & pr->opts.classes) && !fnmatch(defs[i].lib, base, FNM_EXTMATCH))
			f->reports[f->n_reports++] = (struct probe_report){ .def = &defs[i],
									    .cost = "-",
									    .returns = "-",
									    .how = "-",
									    .state = "missing" };
	b.file = f;
	b.py_minor = pymethod__python_minor(path, pid);
	for (i = 0; i < f->n_reports && !is_ms_pool(f->reports[i].def->fn); i++)
		;
	if (i < f->n_reports) {
		/* Where it does not work out the sums of the rows stand for the pool's own. */
		(void)mspool__derive(b.img, false, &b.ms[0]);
		(void)mspool__derive(b.img, true, &b.ms[1]);
	}
	if (f->n_reports && is_atb(f->reports[0].def->fn))
		atb__derive(b.img, &b.atb);
	batch__run(&b, fd);
	pta__settle(pr, f, fd);
	methods__settle(&b, fd);
	if (pid && f->unfilled && prober__look(pr, f->no, pid) > 0)
		f->attach_time = clock__boot();
	if (b.full)
		pr_warn("%s: more than %d probe sites; some of its functions are not probed", path,
			MT_MAX_SITES);
	err = 1;
out:
	batch__free(&b);
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
	const char *s = features__mechanism(pr->f);

	return s ? s : "none";
}
