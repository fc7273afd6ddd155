// SPDX-License-Identifier: Apache-2.0
/*
 * Allocates from the simulated driver and notes who called, as glibc's backtrace() sees it: the
 * ground truth of C stacks. For Python's ctypes, and for C++ programs.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define DEPTH 250

static int (*hal_alloc)(void **, unsigned long long, unsigned long long);
static int (*hal_free)(void *);
static int (*acl_malloc)(void **, size_t, int);
static int (*acl_free)(void *);
static int (*acl_init)(const char *);
static int (*acl_set_device)(int);
static int out = -1;

/* Where to write to, and the folder of the simulated libraries. 0 or -1. */
int stackcall_open(int fd, const char *hal, const char *acl)
{
	void *h = dlopen(hal, RTLD_NOW | RTLD_GLOBAL), *a;
	void *warm[1];

	backtrace(warm, 1); /* loads libgcc_s now */
	out = fd;
	*(void **)&hal_alloc = h ? dlsym(h, "halMemAlloc") : NULL;
	*(void **)&hal_free = h ? dlsym(h, "halMemFree") : NULL;
	a = acl ? dlopen(acl, RTLD_NOW | RTLD_GLOBAL) : NULL;
	*(void **)&acl_malloc = a ? dlsym(a, "aclrtMalloc") : NULL;
	*(void **)&acl_free = a ? dlsym(a, "aclrtFree") : NULL;
	*(void **)&acl_init = a ? dlsym(a, "aclInit") : NULL;
	*(void **)&acl_set_device = a ? dlsym(a, "aclrtSetDevice") : NULL;
	if (acl_init && (acl_init(NULL) || acl_set_device(0)))
		return -1;
	return hal_alloc && hal_free ? 0 : -1;
}

struct note {
	uint64_t tid, n;
	uint64_t frames[DEPTH];
};

static void note(int skip)
{
	void *frames[DEPTH + 4];
	struct note r;
	int n = backtrace(frames, DEPTH + 4), i;

	/* Its first frames are these functions. */
	r.tid = (uint64_t)syscall(SYS_gettid);
	r.n = (uint64_t)(n - skip);
	for (i = skip; i < n; i++)
		r.frames[i - skip] = (uint64_t)(uintptr_t)frames[i];
	if (write(out, &r, 16 + 8 * r.n) < 0)
		abort();
}

/* One allocation of so many bytes and its release; callers from ours on are noted. */
__attribute__((noinline)) int stackcall(unsigned long long size)
{
	void *p = NULL;
	int err;

	note(2);
	err = hal_alloc(&p, size, 0);
	if (!err)
		err = hal_free(p);
	return err;
}

/* The same by the call that encloses the driver's: for the thread that called stackcall_open. */
__attribute__((noinline)) int stackcall_acl(unsigned long long size)
{
	void *p = NULL;
	int err;

	note(2);
	err = acl_malloc(&p, size, 0);
	if (!err)
		err = acl_free(p);
	return err;
}

#define PARTS 8

static uint64_t parts[PARTS][2];
static int n_parts;

/* The evaluation loop of the interpreter that calls this: its exported part. 0 or -1. */
int stackcall_loop(uint64_t *start)
{
	void *loop = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
	ElfW(Sym) *sym;
	Dl_info info;

	if (!loop || !dladdr1(loop, &info, (void **)&sym, RTLD_DL_SYMENT) || !sym)
		return -1;
	*start = parts[0][0] = (uint64_t)(uintptr_t)loop;
	parts[0][1] = *start + sym->st_size;
	n_parts = 1;
	return (int)sym->st_size;
}

/* What the compiler has split off from it: distances from its start. */
void stackcall_part(long start, long end)
{
	if (n_parts < 1 || n_parts >= PARTS)
		return;
	parts[n_parts][0] = parts[0][0] + (uint64_t)start;
	parts[n_parts++][1] = parts[0][0] + (uint64_t)end;
}

/* How many calls of it are on the stack. */
int stackcall_calls(void)
{
	void *frames[DEPTH + 4];
	int n = backtrace(frames, DEPTH + 4), i, k, calls = 0;

	for (i = 0; i < n; i++)
		for (k = 0; k < n_parts; k++)
			calls += (uint64_t)(uintptr_t)frames[i] > parts[k][0] &&
				 (uint64_t)(uintptr_t)frames[i] <= parts[k][1];
	return calls;
}

static void *native(void *arg)
{
	void (*fn)(void);

	stackcall(8192);
	*(void **)&fn = arg;
	if (fn)
		fn();
	stackcall(8192);
	return NULL;
}

/* Allocates from a thread of C, which calls fn (or not: NULL) in between. */
int stackcall_native(void *fn)
{
	pthread_t t;
	int err = pthread_create(&t, NULL, native, fn);

	return err ? err : pthread_join(t, NULL);
}

static void (*switched)(void);

static void on_other_stack(void)
{
	switched();
}

/* Calls fn on a stack of its own, as coroutines in C do: nobody who looks there sees its caller. */
int stackcall_switched(void *fn)
{
	static char stack[1 << 20];
	ucontext_t here, there;

	*(void **)&switched = fn;
	if (getcontext(&there))
		return -1;
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &here;
	makecontext(&there, on_other_stack, 0);
	return swapcontext(&here, &there);
}
