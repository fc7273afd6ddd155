// SPDX-License-Identifier: Apache-2.0
/* The driver sim-train: options, the loaded libraries, and the patterns it runs. */
#ifndef SIM_TRAIN_H
#define SIM_TRAIN_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

struct options {
	double seconds;
	uint64_t steps;
	int devices, threads, ranks;
	uint64_t seed;
	double rate; /* allocator operations a second and thread; 0: full speed */
	const char *truth;
	double late_dlopen;
	const char *layout; /* a b c c_symtab c10, or "none" */
	int leak, mindspore, host_malloc, no_torch, oom, exceptions, wait, quiet, load, exec, atb;
	int hccl, profiling;
	size_t workspace;
	uint64_t empty_cache; /* every n steps; 0: never */
	int layers;
};

extern struct options opt;
extern volatile sig_atomic_t stop;

/* ---- libs.c ---- */

struct libs {
	/* libascendcl.so */
	int (*aclInit)(const char *);
	int (*aclFinalize)(void);
	int (*aclrtSetDevice)(int32_t);
	int (*aclrtResetDevice)(int32_t);
	int (*aclrtGetDeviceCount)(uint32_t *);
	int (*aclrtCreateStream)(void **);
	int (*aclrtDestroyStream)(void *);
	int (*aclrtStreamGetId)(void *, int32_t *);
	int (*aclrtSynchronizeStream)(void *);
	int (*aclrtMalloc)(void **, size_t, int);
	int (*aclrtMallocAlign32)(void **, size_t, int);
	int (*aclrtMallocCached)(void **, size_t, int);
	int (*aclrtMallocWithCfg)(void **, size_t, int, void *);
	int (*aclrtMemAllocManaged)(void **, uint64_t, uint32_t);
	int (*aclrtFree)(void *);
	int (*aclrtMallocHost)(void **, size_t);
	int (*aclrtFreeHost)(void *);
	int (*aclrtHostRegister)(void *, uint64_t, int, void **);
	int (*aclrtHostRegisterV2)(void *, uint64_t, uint32_t);
	int (*aclrtHostUnregister)(void *);
	int (*aclrtMallocPhysical)(void **, size_t, const void *, uint64_t);
	int (*aclrtFreePhysical)(void *);
	int (*aclrtReserveMemAddress)(void **, size_t, size_t, void *, uint64_t);
	int (*aclrtReleaseMemAddress)(void *);
	int (*aclrtMapMem)(void *, size_t, size_t, void *, uint64_t);
	int (*aclrtUnmapMem)(void *);
	int (*aclrtMemPoolCreate)(void **, const void *);
	int (*aclrtMemPoolDestroy)(void *);
	int (*aclrtMemPoolMallocAsync)(void **, size_t, void *, void *);
	int (*aclrtMemPoolFreeAsync)(void *, void *);
	int (*aclrtMemcpy)(void *, size_t, const void *, size_t, int);
	int (*aclrtMemcpyAsync)(void *, size_t, const void *, size_t, int, void *);
	int (*aclrtMemset)(void *, size_t, int32_t, size_t);
	int (*aclrtMemsetAsync)(void *, size_t, int32_t, size_t, void *);
	/* libms_tools_ext.so */
	void (*mstxMarkA)(const char *, void *);
	uint64_t (*mstxRangeStartA)(const char *, void *);
	void (*mstxRangeEnd)(uint64_t);
	void *(*mstxDomainCreateA)(const char *);
	void (*mstxDomainMarkA)(void *, const char *, void *);
	uint64_t (*mstxDomainRangeStartA)(void *, const char *, void *);
	void (*mstxDomainRangeEnd)(void *, uint64_t);
	/* libtorch_npu.so */
	int (*npu_init)(int);
	void *(*npu_malloc)(size_t, void *);
	void (*npu_free)(void *);
	void (*npu_record_stream)(void *, void *);
	void (*npu_empty_cache)(void);
	void (*npu_stats)(int, int64_t *);
	int (*npu_op)(const char *, void *, size_t);
	void (*npu_sync)(void *);
	int (*npu_check)(int);
	void (*npu_profiling)(int);
	void *(*MallocBlock)(size_t, void *, int);
	void (*FreeBlock)(void *);
	void *(*GetBlockPtr)(const void *);
	/* libmindspore_memory_pool.so */
	int (*ms_init)(int, const char *);
	void *(*ms_alloc)(int, size_t, uint32_t);
	void (*ms_free)(int, void *);
	int (*ms_alloc_list)(int, const size_t *, size_t, uint32_t, void **);
	void (*ms_free_part)(void **, size_t, void **, const size_t *, size_t);
	void (*ms_record_event)(void *);
	void (*ms_sync_events)(void);
	/* libhccl.so, libatb.so */
	int (*HcclCommInitRootInfo)(uint32_t, const void *, uint32_t, void **);
	int (*HcclAllReduce)(void *, void *, uint64_t, int, int, void *, void *);
	int (*HcclCommDestroy)(void *);
	int (*atb_run)(void *, void *, uint64_t, void *, void *, uint64_t);
	/* libsim_truth.so */
	void (*truth_put)(const void *);
	void (*truth_flush)(void);
	int *truth_enabled;
	/* libascend_hal.so, libruntime.so: by name where needed */
	void *hal, *rt;
};

extern struct libs lib;

void libs_early(void); /* the truth recorder only */
void libs_load(void);

/* ---- patterns ---- */

struct worker {
	int id, rank, device;
	uint64_t rng;
	void *stream, *side;
	int32_t stream_id;
	uint64_t ops; /* allocator operations so far */
	uint64_t steps, oom, thrown;
	void **leaked;
	size_t nleaked;
	void **state;
	int nstate;
	void *hccl, *hccl_buf;
	uint64_t t_start;
	int failed;
};

static inline uint64_t rnd(struct worker *w)
{
	uint64_t z = w->rng += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

uint64_t now_ns(void);
size_t tensor_size(struct worker *w);
void torch_setup(struct worker *w);
void torch_step(struct worker *w);
void torch_load(struct worker *w);
void torch_finish(struct worker *w);
void ms_step(struct worker *w);
void acl_step(struct worker *w);
void host_section(struct worker *w);
void launch_setup(void);
void launch_one(struct worker *w);
void marks_step_begin(struct worker *w, uint64_t *range);
void marks_step_end(struct worker *w, uint64_t range);

/* catch.cc: NULL when the allocator threw */
void *catch_malloc(void *(*fn)(size_t, void *), size_t n, void *stream, int *threw);
void *catch_block(void *(*fn)(size_t, void *, int), size_t n, void *stream, int device, int *threw);
int catch_check(int (*fn)(int), int fail);
int catch_op(int (*fn)(const char *, void *, size_t), const char *name, void *stream, size_t ws,
	     int *threw);

#endif
