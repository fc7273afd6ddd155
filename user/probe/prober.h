/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to probe/: probes being put together for a file, those found by other ways, or later. */
#ifndef MEMTAP_PROBER_H
#define MEMTAP_PROBER_H

#include "base/base.h"
#include "memtap/event.h"
#include "probe/probe.h"

struct site_info {
	struct probed_file *file;
	const char *symbol;
	bool is_return;
	uint16_t fn;
	struct mt_site cfg;
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
	/* Operators, by number - 1, and how many of a library were too many. */
	char **ops;
	size_t n_ops, cap_ops, ops_refused;
	unsigned int n_torches;
	struct host_file *host_files; /* hostmem.c */
	size_t n_host_files;
	unsigned int n_host_sites;
};

enum batch_what {
	BATCH_ALL, /* what the file wants */
	BATCH_FALL_BACK, /* only what takes the place of a withdrawn probe */
	BATCH_METHODS, /* only what prober__look has found */
};

/* What is being put together for one file. */
struct batch {
	struct prober *pr;
	struct probed_file *file;
	struct elf_image *img;
	pid_t pid;
	int py_minor; /* 3.N of the Python around, 0 = unknown */
	struct attach_req *reqs;
	size_t n, cap;
	struct hmap offsets; /* (offset, kind) taken: aliases are one site */
	bool full;
	char site_why[96]; /* of the function being planned: why it got no site number */
	struct mspool_stats ms[2]; /* of MindSpore's pools: the newer one, the older one */
	struct atb_layout atb;
	enum batch_what what;
};

/* Probes of torch_npu's allocator by its own functions (fall-back 1 of ascend-abi.md 4.1). */
static inline bool is_pta_function(unsigned int fn)
{
	return fn == MT_FN_PTA_ALLOC || fn == MT_FN_PTA_FREE;
}

/* Methods of MindSpore's pools that tell the pool's totals. */
static inline bool is_ms_pool(unsigned int fn)
{
	return fn == MT_FN_MS_ALLOC || fn == MT_FN_MS_FREE || fn == MT_FN_MS_PART;
}

/* Functions of ATB and of what runs its kernels. */
static inline bool is_atb(unsigned int fn)
{
	return fn >= MT_FN_ATB_POOL && fn <= MT_FN_ATB_LAUNCH;
}

/* What is taken away together: the allocator's report, its functions, all the rest. */
static inline unsigned int group_of(const struct probed_file *f, unsigned int fn)
{
	return f->no * 3 + (fn == MT_FN_PTA_REPORT ? 1 : is_pta_function(fn) ? 2 : 0);
}

/* plan.c: requests for one function at vaddr. 0 or -errno with rep->why. */
int batch__plan(struct batch *b, const struct probe_def *d, struct probe_report *rep,
		uint64_t vaddr);

/* A site number with its configuration in the map; 0 = no more room, with b->site_why. */
unsigned int batch__site(struct batch *b, const struct probe_def *d, const char *symbol,
			 unsigned int pair, int sp_off, bool is_return);
/* Attach a program there. 0 or -errno. */
int batch__request(struct batch *b, const struct probe_def *d, const char *prog,
		   enum attach_kind kind, uint64_t off, unsigned int site);
/* prober_ops.c: requests for the operators of a library. 0 or -errno with rep->why. */
int ops__plan(struct batch *b, const struct probe_def *d, struct probe_report *rep);
void ops__free(struct prober *pr);
/* hostmem.c */
void hostmem__free(struct prober *pr);

/* prober.c: look up, plan and attach what the batch is about. */
void batch__run(struct batch *b, int fd);
void batch__free(struct batch *b);
void file__count(struct probed_file *f);
/* Sites from this number on see from now on. */
void sites__on(struct prober *pr, unsigned int first);
/* Keeps a descriptor of the file for later. */
void file__keep(struct probed_file *f, int fd);

/* prober_pta.c */
int pta__find(struct batch *b, const struct probe_def *d, struct probe_report *rep,
	      uint64_t *vaddr);
/* Behind the attach: is there a way to see this library's tensors? Keeps what a fall-back needs. */
void pta__settle(struct prober *pr, struct probed_file *f, int fd);

/* prober_atb.c: is what its probe reads known? 0 or -ENOTSUP with rep->why. */
int atb__check(const struct batch *b, const struct probe_def *d, struct probe_report *rep);
/* What the program needs to know of the library, into its site. */
void atb__site(const struct batch *b, const struct probe_def *d, struct mt_site *s);

/* prober_methods.c */
/* Behind the attach: is anything unfilled? Keeps what prober__look needs. */
void methods__settle(struct batch *b, int fd);
/* Address of a function that prober__look has found for this report, 0 = none. */
uint64_t methods__found(const struct probed_file *f, const struct probe_report *rep);
void methods__free(struct pymethods *ms);

#endif
