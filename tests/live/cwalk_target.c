// SPDX-License-Identifier: Apache-2.0
/*
 * A program with stacks of all kinds, which notes each by glibc's backtrace()
 * before it calls the probed function.
 */
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "cwalk.h"

static struct cwalk_shared *shared;
static const char *volatile what; /* is done now; one thread at a time does something */

static struct cwalk_note *begin_note(void)
{
	struct cwalk_note *n = &shared->note[shared->n];

	snprintf(n->what, sizeof(n->what), "%s", what);
	n->end = MT_END_ROOT;
	return n;
}

static void site(void)
{
	shared->n++;
	cwalk_site(getpid(), syscall(SYS_gettid), shared->stops);
}

__attribute__((noinline)) static void note(void *arg)
{
	static void *pc[MT_UW_MAX_FRAMES + 8]; /* not on the stack, which is stored */
	struct cwalk_note *n = begin_note();
	int i;

	if (shared->n >= CWALK_NOTES - 1)
		_exit(4);
	n->n = backtrace(pc, MT_UW_MAX_FRAMES + 8);
	for (i = 0; i < n->n; i++)
		n->pc[i] = (uint64_t)(uintptr_t)pc[i];
	if (arg)
		((void (*)(struct cwalk_note *))arg)(n);
	site();
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

static int compare_ints(const void *a, const void *b)
{
	if (*(const int *)a == 3 && *(const int *)b == 4)
		note(NULL);
	return *(const int *)a - *(const int *)b;
}

static void sort(void)
{
	int v[] = { 5, 3, 4, 1 };

	qsort(v, 4, sizeof(int), compare_ints);
}

static void on_signal(int sig)
{
	note(NULL);
}

static void on_fault(int sig, siginfo_t *info, void *p)
{
	ucontext_t *uc = p;

	note(NULL);
#if defined(__aarch64__)
	uc->uc_mcontext.pc += (unsigned int)cwalk_fault_size;
#else
	uc->uc_mcontext.gregs[REG_RIP] += cwalk_fault_size;
#endif
}

__attribute__((noinline)) static void recurse(int depth)
{
	volatile char room[64];

	room[0] = (char)depth;
	if (depth)
		recurse(depth - 1);
	else
		note(NULL);
	room[1] = room[0];
}

/* ---- code without a file ---- */

static struct cwalk_note outer_of_jit;
static uint64_t jit_return;

/* backtrace() ends at it: the frames of its caller were noted before. */
static void complete_jit(struct cwalk_note *n)
{
	int i;

	for (i = 0; i < n->n && n->pc[i] != jit_return; i++)
		;
	/* libgcc shows it, or ends one before. */
	n->pc[i++] = jit_return;
	n->pc[i++] = CWALK_ANY; /* the call is at another place of the same function */
	memcpy(&n->pc[i], &outer_of_jit.pc[1],
	       sizeof(n->pc[0]) * (unsigned int)(outer_of_jit.n - 1));
	n->n = i + outer_of_jit.n - 1;
	n->guessed = 1;
}

__attribute__((noinline)) static void through_jit(void)
{
	static char *code;
	void *pc[MT_UW_MAX_FRAMES];
	void (*fn)(cwalk_fn *, void *);
	int i;

	if (!code) {
		code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy(code, cwalk_jit, (size_t)(cwalk_jit_end - cwalk_jit));
		mprotect(code, 4096, PROT_READ | PROT_EXEC);
		__builtin___clear_cache(code, code + 4096);
		jit_return = (uint64_t)(uintptr_t)(code + (cwalk_jit_after - cwalk_jit));
		/* All mappings before the reader looks at them. */
		return;
	}
	outer_of_jit.n = backtrace(pc, MT_UW_MAX_FRAMES);
	for (i = 0; i < outer_of_jit.n; i++)
		outer_of_jit.pc[i] = (uint64_t)(uintptr_t)pc[i];
	fn = (void (*)(cwalk_fn *, void *))(void *)code;
	fn(note, (void *)complete_jit);
	__asm__ volatile("" ::: "memory");
}

/* ---- other stacks ---- */

static ucontext_t outer, inner;

/* Its end is what makecontext put there: backtrace() says one frame more, or loops. */
static void complete_coroutine(struct cwalk_note *n)
{
	if (n->n > 2)
		n->n = 2;
	n->pc[n->n++] = CWALK_ANY;
	n->end = MT_END_ENTRY;
}

static void coroutine(void)
{
	note((void *)complete_coroutine);
	__asm__ volatile("" ::: "memory");
}

static void context(void)
{
	static char stack[65536];

	getcontext(&inner);
	inner.uc_stack.ss_sp = stack;
	inner.uc_stack.ss_size = sizeof(stack);
	inner.uc_link = &outer;
	makecontext(&inner, coroutine, 0);
	swapcontext(&outer, &inner);
}

static void *in_thread(void *arg)
{
	cwalk_omit(note, NULL, 3);
	sort();
	return NULL;
}

static void thread(void)
{
	pthread_t id;

	pthread_create(&id, NULL, in_thread, NULL);
	pthread_join(id, NULL);
}

static void all(int round)
{
	what = "recursion";
	recurse(round * 7 % 230);
	what = "qsort";
	sort();
	what = "signal";
	raise(SIGUSR1);
	what = "signal, own stack";
	raise(SIGUSR2);
	what = "fault in a leaf";
	cwalk_leaf_fault();
	what = "no frame pointer";
	cwalk_omit(note, NULL, round % 40);
	what = "alloca";
	cwalk_omit_alloca(note, NULL, round * 37 % 3000);
	what = "no frame record";
	cwalk_lr_only(note, NULL);
	what = "record on top";
	cwalk_split(note, NULL);
	what = "code without a file";
	through_jit();
	what = "makecontext";
	context();
	what = "thread";
	thread();
}

static void start(struct cwalk_shared *s)
{
	static char other[65536];
	const stack_t alt = { .ss_sp = other, .ss_size = sizeof(other) };
	struct sigaction sa = { .sa_handler = on_signal };
	void *pc[4];

	shared = s;
	sigaltstack(&alt, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &sa, NULL);
	sa.sa_sigaction = on_fault;
	sa.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &sa, NULL);
	through_jit();
	backtrace(pc, 4); /* loads what it needs */
}

static void wait_for_reader(struct cwalk_shared *s)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	s->ready = 1;
	while (s->ready == 1)
		nanosleep(&ms, NULL);
}

void cwalk_target(struct cwalk_shared *s, int rounds, int stops)
{
	int i;

	start(s);
	wait_for_reader(s);
	if (stops)
		raise(SIGSTOP);
	s->stops = stops;
	for (i = 0; i < rounds; i++)
		all(i);
	_exit(0);
}

/* ---- what is stepped through ---- */

static int step_compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void nothing(void *arg)
{
	__asm__ volatile("" ::: "memory");
}

static int sink;

static void step_work(int i)
{
	int v[] = { 5, 3, 4, 1, 9, 2 };
	char text[64];

	snprintf(text, sizeof(text), "%d %s %5.2f", i, "x", i * 1.5);
	qsort(v, 6, sizeof(int), step_compare);
	sink += write(open("/dev/null", O_WRONLY | O_CLOEXEC), text, strlen(text)) > 0;
	cwalk_omit(nothing, NULL, 3);
	cwalk_omit_alloca(nothing, NULL, 100 + i);
	cwalk_lr_only(nothing, NULL);
	cwalk_split(nothing, NULL);
	free(malloc(100));
	sink += atoi(text) + (int)strtod("1.25", NULL) + getpid();
}

void cwalk_steps(struct cwalk_shared *s)
{
	start(s);
	wait_for_reader(s);
	raise(SIGSTOP);
	s->from = 1;
	step_work(1);
	s->to = 1;
	raise(SIGSTOP);
	_exit(0);
}
