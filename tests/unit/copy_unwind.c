// SPDX-License-Identifier: Apache-2.0
/* Stacks of our own, walked by libdw over a copy of them: the frames that backtrace() sees. */
#include <criterion/criterion.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "symbol/copy_unwind.h"

#define TRAMPOLINE 0x7fffffffe000ULL

/* ../live/stacks_code.S: nothing describes them. */
int with_record(int (*call)(unsigned long long), unsigned long long arg);

/* The loader's; no header has it. */
extern void *__libc_stack_end;

static struct mt_uw_map maps[256];
static int files[256];
static size_t n_maps;

static struct stack_copy copy;
static _Alignas(8) uint8_t bytes[MT_COPY_MAX + MT_COPY_PIECE];
static void *truth[MT_UW_MAX_FRAMES];
static int n_truth;
static size_t wanted = sizeof(bytes);

static int on_object(struct dl_phdr_info *o, size_t size, void *ctx)
{
	const char *path = *o->dlpi_name ? o->dlpi_name : "/proc/self/exe";
	int fd = open(path, O_RDONLY | O_CLOEXEC), i;

	for (i = 0; fd >= 0 && i < o->dlpi_phnum && n_maps < 256; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		files[n_maps] = fd;
		maps[n_maps++] = (struct mt_uw_map){ .start = o->dlpi_addr + p->p_vaddr,
						     .end = o->dlpi_addr + p->p_vaddr + p->p_memsz,
						     .bias = o->dlpi_addr,
						     .file = (uint32_t)n_maps };
	}
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct mt_uw_map *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Files by what they were before they were sorted. */
static int file_of(void *ctx, uint32_t no)
{
	return files[no - 1];
}

static bool low_of(void *ctx, uint32_t no, uint64_t *low)
{
	return copy_space__low(files[no - 1], low);
}

static const struct copy_files of_maps = { NULL, file_of, low_of };

static void read_maps(void)
{
	n_maps = 0;
	dl_iterate_phdr(on_object, NULL);
	qsort(maps, n_maps, sizeof(*maps), by_start);
}

/* With a sanitizer backtrace() is its own, and stands in the list itself. */
#ifdef __SANITIZE_ADDRESS__
#define BEFORE 1
#else
#define BEFORE 0
#endif

/* Whole frames, of which a sanitizer lets nobody read what lies between variables. */
__attribute__((no_sanitize_address, noinline)) static void copy_words(const void *from, size_t n)
{
	const volatile uint64_t *v = from;
	uint64_t *to = (uint64_t *)(uintptr_t)bytes;
	size_t i;

	for (i = 0; i < n / 8; i++)
		to[i] = v[i];
}

/* Our registers and stack, as a probe at this place would have them. */
__attribute__((noinline)) static int note(unsigned long long unused)
{
	static ucontext_t u;
	uint64_t *r = (uint64_t *)copy.head.regs, sp;
	char *top = (char *)__libc_stack_end;

	n_truth = backtrace(truth, MT_UW_MAX_FRAMES) - BEFORE;
	memmove(truth, truth + BEFORE, (size_t)n_truth * sizeof(*truth));
	getcontext(&u);
#if defined(__x86_64__)
	static const int of[] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
				  REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
				  REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };
	size_t i;

	for (i = 0; i < 17; i++)
		r[i] = (uint64_t)u.uc_mcontext.gregs[of[i]];
	sp = r[7];
#else
	memcpy(r, u.uc_mcontext.regs, 31 * 8);
	r[31] = sp = u.uc_mcontext.sp;
	r[32] = u.uc_mcontext.pc;
#endif
	copy.from = sp & ~(MT_COPY_PIECE - 1ULL);
	copy.n = (size_t)(top - (char *)(uintptr_t)copy.from);
	if (copy.n > wanted)
		copy.n = wanted;
	copy_words((void *)(uintptr_t)copy.from, copy.n);
	copy.bytes = bytes;
	return 0;
}

__attribute__((noinline)) static int recurse(int depth)
{
	volatile char room[100];
	int r;

	room[0] = (char)depth;
	r = depth ? recurse(depth - 1) : note(0);
	return r + room[0] * 0;
}

static int compare(const void *a, const void *b)
{
	note(0);
	return *(const int *)a - *(const int *)b;
}

static struct copy_frame frames[MT_UW_MAX_FRAMES];
static bool root;

static int unwind(void)
{
	struct copy_space *s;
	int n;

	read_maps();
	cr_assert_eq(copy_space__new(maps, n_maps, &of_maps, &s), 0);
	cr_assert(copy_space__is(s, maps, n_maps));
	n = copy_space__unwind(s, &copy, frames, MT_UW_MAX_FRAMES, &root);
	copy_space__free(s);
	return n;
}

/* All but the first, which is at another instruction of note(). */
static void same(int n, int first)
{
	int i;

	cr_assert_eq(n, n_truth, "%d frames, not %d", n, n_truth);
	for (i = first; i < n; i++)
		cr_assert_eq(frames[i].pc, (uint64_t)(uintptr_t)truth[i], "frame %d: %llx, not %p",
			     i, (unsigned long long)frames[i].pc, truth[i]);
}

Test(copy_unwind, whole)
{
	recurse(20);
	same(unwind(), 1);
	cr_assert(root);
	cr_assert(frames[0].exact && !frames[1].exact);
}

Test(copy_unwind, through_libc)
{
	int v[] = { 2, 1 };

	qsort(v, 2, sizeof(*v), compare);
	same(unwind(), 1);
	cr_assert(root);
}

/* backtrace() stops there; a record on the stack leads on. */
Test(copy_unwind, code_without_description)
{
	int n, i;

	with_record(note, 0);
	n = unwind();
	cr_assert(root);
	cr_assert_gt(n, n_truth);
	for (i = 1; i < n_truth; i++)
		cr_assert_eq(frames[i].pc, (uint64_t)(uintptr_t)truth[i]);
}

Test(copy_unwind, cut)
{
	int n, i;

	wanted = 8192;
	recurse(100);
	n = unwind();
	cr_assert_not(root);
	cr_assert_lt(n, n_truth);
	cr_assert_gt(n, 10);
	for (i = 1; i < n; i++)
		cr_assert_eq(frames[i].pc, (uint64_t)(uintptr_t)truth[i]);
}

/* Return probes have put their trampoline in the place of two return addresses. */
Test(copy_unwind, return_probes)
{
	uint64_t *word;
	size_t i;
	int found = 0;

	recurse(5);
	copy.head.trampoline = TRAMPOLINE;
	for (i = 0; i < copy.n / 8; i++) {
		word = (uint64_t *)(uintptr_t)bytes + i;
		if (*word != (uint64_t)(uintptr_t)truth[3 + 3 * found] || found == 2)
			continue;
		/* The second one has two probes: the younger one found the trampoline. */
		copy.head.returns[2 * found].slot = copy.head.returns[2 * found + 1].slot =
			copy.from + 8 * i;
		copy.head.returns[2 * found].orig = found ? TRAMPOLINE : *word;
		copy.head.returns[2 * found + 1].orig = *word;
		*word = TRAMPOLINE;
		found++;
	}
	cr_assert_eq(found, 2);
	same(unwind(), 1);
	cr_assert(root);
}

Test(copy_unwind, another_space)
{
	struct copy_space *s;

	read_maps();
	cr_assert_eq(copy_space__new(maps, n_maps, &of_maps, &s), 0);
	maps[0].end++;
	cr_assert_not(copy_space__is(s, maps, n_maps));
	cr_assert_not(copy_space__is(s, maps, n_maps - 1));
	cr_assert_not(copy_space__is(NULL, maps, n_maps));
	cr_assert_null(copy_space__map(s, 1));
	cr_assert_eq(copy_space__map(s, maps[1].start)->file, maps[1].file);
	copy_space__free(s);
	/* Nothing is known of the process at all. */
	recurse(1);
	cr_assert_eq(copy_space__new(maps, 0, &of_maps, &s), 0);
	cr_assert_leq(copy_space__unwind(s, &copy, frames, MT_UW_MAX_FRAMES, &root), 1);
	cr_assert_not(root);
	copy_space__free(s);
}

/* What a target can put there: it must end, and not crash. */
Test(copy_unwind, nonsense)
{
	unsigned int seed = 1, i, j;

	for (j = 0; j < 200; j++) {
		recurse(3);
		for (i = 0; i < copy.n; i++)
			if (rand_r(&seed) % 16 < 4)
				bytes[i] = (uint8_t)rand_r(&seed);
		for (i = 0; j % 2 && i < 15; i++)
			copy.head.regs[i] = copy.from + (unsigned int)rand_r(&seed) % (2 * copy.n);
		cr_assert_leq(unwind(), MT_UW_MAX_FRAMES);
	}
}
