// SPDX-License-Identifier: Apache-2.0
/*
 * Allocators of the host: files that have malloc and its family, and their probes, which are
 * attached to one process at a time, when it asks for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/elf.h"
#include "probe/kernel.h"
#include "probe/prober.h"

/* A file that was looked at. */
struct host_file {
	uint64_t dev, ino;
	struct timespec ctime;
	int fd; /* -1: no allocator */
	struct attach_req *reqs;
	size_t n;
};

/* size, its factor, block to be resized, where the result is stored: argument numbers */
#define ALLOC(sym, kind_, call, size, factor, old, where)                             \
	{                                                                             \
		.symbol = { sym }, .prog = "host_alloc", .kind = (kind_), .nargs = 3, \
		.name_kind = (call), .fn = MT_FN_HOST_ALLOC,                          \
		.arg = { size,                                                        \
			 factor,                                                      \
			 old,                                                         \
			 where,                                                       \
			 -1 }                                                         \
	}
#define C_ALLOC(sym, size, factor, old, where) \
	ALLOC(sym, PROBE_CALL, MT_HOST_OTHER, size, factor, old, where)
/* bad_alloc leaves the first kind */
#define NEW(sym) ALLOC(sym, PROBE_RETS, MT_HOST_NEW, 0, -1, -1, -1)
#define NEW_NOTHROW(sym) ALLOC(sym, PROBE_CALL, MT_HOST_NEW, 0, -1, -1, -1)
/* In the C library nobody is behind it; elsewhere it may be only the first to be called. */
#define FREE(sym, prog_, kind_, call)                                          \
	{                                                                      \
		.symbol = { sym }, .prog = prog_, .kind = (kind_), .nargs = 1, \
		.name_kind = (call), .fn = MT_FN_HOST_FREE,                    \
		.arg = { 0,                                                    \
			 -1,                                                   \
			 -1,                                                   \
			 -1,                                                   \
			 -1 }                                                  \
	}
#define DELETE(sym) FREE(sym, "host_wrap", PROBE_CALL, MT_HOST_NEW)

/* reallocarray calls realloc, in every C library. */
static const struct probe_def defs[] = {
	ALLOC("malloc", PROBE_CALL, MT_HOST_MALLOC, 0, -1, -1, -1),
	C_ALLOC("calloc", 0, 1, -1, -1),
	C_ALLOC("realloc", 1, -1, 0, -1),
	C_ALLOC("posix_memalign", 2, -1, -1, 0),
	C_ALLOC("aligned_alloc", 1, -1, -1, -1),
	C_ALLOC("memalign", 1, -1, -1, -1),
	C_ALLOC("valloc", 0, -1, -1, -1),
	C_ALLOC("pvalloc", 0, -1, -1, -1),
};

static const struct probe_def libc_defs[] = {
	FREE("free", "host_free", PROBE_ENTRY, MT_HOST_CFREE),
	FREE("cfree", "host_free", PROBE_ENTRY, MT_HOST_CFREE),
	FREE("free_sized", "host_free", PROBE_ENTRY, MT_HOST_CFREE),
	FREE("free_aligned_sized", "host_free", PROBE_ENTRY, MT_HOST_CFREE),
};

static const struct probe_def other_defs[] = {
	FREE("free", "host_wrap", PROBE_CALL, MT_HOST_CFREE),
	FREE("cfree", "host_wrap", PROBE_CALL, MT_HOST_CFREE),
	FREE("free_sized", "host_wrap", PROBE_CALL, MT_HOST_CFREE),
	FREE("sdallocx", "host_wrap", PROBE_CALL, MT_HOST_CFREE),
};

/* Allocators of their own have the operators too, which do not go by malloc there. */
static const struct probe_def cxx_defs[] = {
	NEW("_Znwm"),
	NEW("_Znam"),
	NEW_NOTHROW("_ZnwmRKSt9nothrow_t"),
	NEW_NOTHROW("_ZnamRKSt9nothrow_t"),
	NEW("_ZnwmSt11align_val_t"),
	NEW("_ZnamSt11align_val_t"),
	DELETE("_ZdlPv"),
	DELETE("_ZdaPv"),
	DELETE("_ZdlPvm"),
	DELETE("_ZdaPvm"),
	DELETE("_ZdlPvRKSt9nothrow_t"),
	DELETE("_ZdaPvRKSt9nothrow_t"),
	DELETE("_ZdlPvSt11align_val_t"),
	DELETE("_ZdaPvSt11align_val_t"),
	DELETE("_ZdlPvmSt11align_val_t"),
	DELETE("_ZdaPvmSt11align_val_t"),
};

static bool is_named(const char *path, const char *const *names, size_t n)
{
	const char *slash = strrchr(path, '/');
	size_t i;

	for (i = 0; i < n; i++)
		if (!fnmatch(names[i], slash ? slash + 1 : path, 0))
			return true;
	return false;
}

static bool is_libc(const char *path)
{
	static const char *const names[] = { "libc.so*", "libc-[0-9]*.so", "libc.musl-*",
					     "ld-musl-*" };

	return is_named(path, names, MT_ARRAY_SIZE(names));
}

/* By its exported symbols alone, without a table of them: most files only use it. */
static bool exports_malloc(const struct elf_image *img)
{
	const char *name;
	Elf64_Sym s;
	uint32_t i;

	for (i = 0; elf_image__dynsym(img, i, &s); i++) {
		if (s.st_shndx == SHN_UNDEF || !s.st_value || ELF64_ST_TYPE(s.st_info) != STT_FUNC)
			continue;
		name = elf_image__dynstr(img, s.st_name);
		if (name && !strcmp(name, "malloc"))
			return true;
	}
	return false;
}

static bool has_malloc(const struct elf_image *img)
{
	uint64_t vaddr;

	/* A program that is linked statically exports nothing. */
	if (!img->dynsym.n && !elf_image__interp(img))
		return !elf_image__symbol(img, "malloc", &vaddr, NULL);
	return exports_malloc(img);
}

/* False: one that the file has cannot be probed. */
static bool plan_all(struct batch *b, const struct probe_def *list, size_t n)
{
	struct probed_file *f = b->file;
	uint64_t vaddr;
	size_t i, first;

	for (i = 0; i < n; i++) {
		struct probe_report *rep = &f->reports[f->n_reports++];

		*rep = (struct probe_report){ .def = &list[i],
					      .symbol = list[i].symbol[0],
					      .cost = "-",
					      .returns = "-",
					      .how = "symbol",
					      .state = "missing" };
		if (elf_image__symbol(b->img, rep->symbol, &vaddr, NULL))
			continue;
		first = b->n;
		rep->state = "found";
		if (!batch__plan(b, &list[i], rep, vaddr))
			continue;
		rep->state = "failed";
		b->n = first;
		if (rep->same)
			continue;
		if (list == cxx_defs)
			return false;
		pr_warn("%s: %s cannot be probed: %s; blocks that it gives or takes have no HOST "
			"rows",
			f->path, rep->symbol, rep->why);
	}
	return true;
}

/* All of them or none: a delete without its new is of no use. */
static void plan_cxx(struct batch *b)
{
	size_t first = b->n, reports = b->file->n_reports;
	unsigned int sites = b->pr->n_sites;
	struct probe_report failed;

	if (plan_all(b, cxx_defs, MT_ARRAY_SIZE(cxx_defs)))
		return;
	failed = b->file->reports[b->file->n_reports - 1];
	b->file->reports[reports] = failed;
	b->file->n_reports = reports + 1;
	b->n = first;
	b->pr->n_sites = sites;
	pr_warn("%s: its operators new and delete are not probed, for not all returns of %s can be "
		"(%s): what they give has no HOST rows, those of malloc are there",
		b->file->path, failed.symbol, failed.why);
}

/* Where it takes long it is not to take it while a range is open. */
static void warm(struct prober *pr, const struct host_file *h)
{
	bool multi = features__has(pr->f, FEAT_MULTI);
	uint32_t type;
	size_t i;

	for (i = 0; i < h->n; i++) {
		type = !multi				   ? 0
		       : h->reqs[i].kind == ATTACH_SESSION ? MT_BPF_TRACE_UPROBE_SESSION
							   : MT_BPF_TRACE_UPROBE_MULTI;
		(void)progs__clone(pr->progs, h->reqs[i].prog, type, h->reqs[i].site);
	}
}

static int plan_file(struct prober *pr, struct host_file *h, struct elf_image *img, int fd,
		     const struct stat *st, const char *path)
{
	size_t n = MT_ARRAY_SIZE(defs) + MT_ARRAY_SIZE(libc_defs) + MT_ARRAY_SIZE(other_defs) +
		   MT_ARRAY_SIZE(cxx_defs);
	struct batch b = { .pr = pr, .img = img };
	unsigned int first_site = pr->n_sites;
	struct probed_file *f = calloc(1, sizeof(*f));
	void *more = realloc(pr->files, (pr->n_files + 1) * sizeof(*pr->files));

	if (more)
		pr->files = more;
	if (f) {
		f->path = strdup(path);
		f->reports = calloc(n, sizeof(*f->reports));
	}
	if (!more || !f || !f->path || !f->reports) {
		if (f) {
			free(f->path);
			free(f->reports);
		}
		free(f);
		return -ENOMEM;
	}
	f->no = (unsigned int)pr->n_files;
	f->fd = -1;
	f->dev = h->dev;
	f->ino = h->ino;
	f->size = (uint64_t)st->st_size;
	f->mtime = st->st_mtim;
	f->ctime = st->st_ctim;
	f->overlay = fd__on_overlay(fd);
	pr->files[pr->n_files++] = f;
	b.file = f;
	plan_all(&b, defs, MT_ARRAY_SIZE(defs));
	if (is_libc(path)) {
		plan_all(&b, libc_defs, MT_ARRAY_SIZE(libc_defs));
	} else {
		plan_all(&b, other_defs, MT_ARRAY_SIZE(other_defs));
		plan_cxx(&b);
	}
	if (elf_image__over(img)) {
		pr_warn("%s: %s; its allocator is not probed", path, elf__why(-E2BIG));
		pr->n_sites = first_site;
		b.n = 0;
	}
	/* Targets may bring any number of C libraries: those of the NPU have their sites. */
	if (pr->n_host_sites + pr->n_sites - first_site > MT_MAX_SITES / 2) {
		pr_warn("%s: its allocator is not probed, those of other files have all sites that "
			"are for them",
			path);
		pr->n_sites = first_site;
		b.n = 0;
	}
	pr->n_host_sites += pr->n_sites - first_site;
	hmap__free(&b.offsets);
	h->reqs = b.reqs;
	h->n = b.n;
	if (!b.n)
		return 0;
	h->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (h->fd < 0)
		return -errno;
	if (!pr->opts.dry_run) {
		sites__on(pr, first_site);
		warm(pr, h);
	}
	return 1;
}

bool hostmem__is_likely(const char *path)
{
	static const char *const names[] = { "libc.so*",    "libc-[0-9]*",  "libc.musl*",
					     "ld-musl*",    "libjemalloc*", "libtcmalloc*",
					     "libmimalloc*" };

	return is_named(path, names, MT_ARRAY_SIZE(names));
}

#define NOT_ONE (-1000) /* beside -errno */

int prober__host_file(struct prober *pr, int fd, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct elf_image *img;
	struct host_file *h;
	struct stat st;
	size_t i;
	int err, r;

	/* What is probed for its own calls is known by its file: it would be taken for done. */
	if (catalogue__wants(slash ? slash + 1 : path))
		return 0;
	if (fstat(fd, &st))
		return -errno;
	for (i = 0; i < pr->n_host_files; i++) {
		h = &pr->host_files[i];
		if (h->ino == st.st_ino && h->dev == st.st_dev &&
		    h->ctime.tv_sec == st.st_ctim.tv_sec && h->ctime.tv_nsec == st.st_ctim.tv_nsec)
			return h->fd >= 0 ? (int)i + 1 : 0;
	}
	h = realloc(pr->host_files, (pr->n_host_files + 1) * sizeof(*h));
	if (!h)
		return -ENOMEM;
	pr->host_files = h;
	h = &pr->host_files[pr->n_host_files++];
	*h = (struct host_file){
		.dev = st.st_dev, .ino = st.st_ino, .ctime = st.st_ctim, .fd = -1
	};
	err = elf_image__open_fd(fd, path, &img);
	if (!err) {
		r = has_malloc(img) ? plan_file(pr, h, img, fd, &st, path) : NOT_ONE;
		elf_image__close(img);
	} else {
		r = err == -ENOEXEC ? NOT_ONE : err;
	}
	/* Kept are allocators only: of all files in all processes there is no end. */
	if (r < 0) {
		free(h->reqs);
		pr->n_host_files--;
		return r == NOT_ONE ? 0 : r;
	}
	return r ? (int)pr->n_host_files : 0;
}

int prober__host_attach(struct prober *pr, int file, pid_t pid, struct attach **a)
{
	struct host_file *h;
	size_t failed, i;

	if (file < 1 || (size_t)file > pr->n_host_files)
		return -EINVAL;
	h = &pr->host_files[file - 1];
	if (!*a) {
		*a = attach__new(pr->progs, pr->f);
		if (!*a)
			return -ENOMEM;
		attach__in(*a, pid, "host_free");
	}
	failed = attach__file(*a, h->fd, h->reqs, h->n);
	if (failed >= h->n)
		return h->n ? h->reqs[0].err : -ENOENT;
	for (i = 0; failed && i < h->n; i++)
		if (h->reqs[i].err)
			pr_warn("pid %d: %s cannot be probed: %s; blocks that it gives or takes "
				"have no "
				"HOST rows",
				(int)pid, pr->sites[h->reqs[i].site].symbol,
				attach__why(h->reqs[i].err));
	return 0;
}

void hostmem__free(struct prober *pr)
{
	size_t i;

	for (i = 0; i < pr->n_host_files; i++) {
		if (pr->host_files[i].fd >= 0)
			close(pr->host_files[i].fd);
		free(pr->host_files[i].reqs);
	}
	free(pr->host_files);
}
