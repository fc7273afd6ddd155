// SPDX-License-Identifier: Apache-2.0
/*
 * Files that shrink while they are mapped: reading a page that is gone raises
 * SIGBUS. A package update or a hostile target must not end the tracer, so such
 * a page of a registered mapping becomes one of zeros, which the parsers reject.
 */
#include "probe/elf.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* A process maps some 300 libraries; more images than this at once are unguarded. */
#define MAX_GUARDED 1024

static struct {
	_Atomic(uintptr_t) start; /* 0: free, 1: being filled in */
	_Atomic(size_t) size;
} guarded[MAX_GUARDED];
static struct sigaction before;
static long page_size;

static bool is_guarded(uintptr_t addr)
{
	size_t i;

	for (i = 0; i < MAX_GUARDED; i++) {
		uintptr_t start = atomic_load(&guarded[i].start);

		if (start > 1 && addr >= start && addr - start < atomic_load(&guarded[i].size))
			return true;
	}
	return false;
}

static void on_sigbus(int sig, siginfo_t *info, void *ctx)
{
	uintptr_t page = (uintptr_t)info->si_addr & ~((uintptr_t)page_size - 1);

	if (info->si_code == BUS_ADRERR && is_guarded((uintptr_t)info->si_addr) &&
	    mmap((void *)page, (size_t)page_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
		return;
	if ((before.sa_flags & SA_SIGINFO) && before.sa_sigaction)
		before.sa_sigaction(sig, info, ctx);
	else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
		before.sa_handler(sig);
	else
		signal(SIGBUS, SIG_DFL); /* the access is repeated and ends the process */
}

static void install(void)
{
	struct sigaction sa = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	page_size = sysconf(_SC_PAGESIZE);
	sigemptyset(&sa.sa_mask);
	sigaction(SIGBUS, &sa, &before);
}

void elf_guard__add(const void *p, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uintptr_t idle = 0;
	size_t i;

	pthread_once(&once, install);
	for (i = 0; i < MAX_GUARDED; i++, idle = 0) {
		if (!atomic_compare_exchange_strong(&guarded[i].start, &idle, 1))
			continue;
		atomic_store(&guarded[i].size, size);
		atomic_store(&guarded[i].start, (uintptr_t)p);
		return;
	}
}

void elf_guard__del(const void *p)
{
	size_t i;

	for (i = 0; i < MAX_GUARDED; i++) {
		if (atomic_load(&guarded[i].start) == (uintptr_t)p) {
			atomic_store(&guarded[i].start, 0);
			return;
		}
	}
}
