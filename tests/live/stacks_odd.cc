// SPDX-License-Identifier: Apache-2.0
// stacks-odd KIND HAL PART NUMBER NOTES: allocates from where code is odd, and notes who called
// (stackcall.c). KIND: memfd, deleted, replaced, unlinked (while it is traced), twice (the second time while it
// is traced): PART is mapped so; longjmp, coroutine, vdso.
#include <coroutine>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <unistd.h>

extern "C" int stackcall_open(int fd, const char *hal, const char *acl);
extern "C" int stackcall(unsigned long long size);

typedef int part_fn(int (*call)(unsigned long long), unsigned long long size);
static part_fn *part;

__attribute__((noinline)) static int leaf()
{
	int err = part ? part(stackcall, 4096) : stackcall(4096);

	__asm__ volatile("" ::: "memory");
	return err;
}

static int copy_to(const char *from, int out)
{
	int in = open(from, O_RDONLY | O_CLOEXEC);

	while (sendfile(out, in, nullptr, 1 << 20) > 0)
		;
	return close(in);
}

/* PART from a file in memory, from one that is removed, from one in whose place another is. */
static part_fn *load(const std::string &kind, const char *path, const char *notes)
{
	std::string name = std::string(notes) + ".so";
	int fd = kind == "memfd" ? memfd_create("part", 0) : open(name.c_str(), O_RDWR | O_CREAT, 0700);
	void *h;

	copy_to(path, fd);
	h = dlopen(kind == "memfd" ? ("/proc/self/fd/" + std::to_string(fd)).c_str() : name.c_str(), RTLD_NOW);
	close(fd);
	if (kind != "memfd" && kind != "unlinked")
		unlink(name.c_str());
	if (kind == "replaced") {
		fd = open(name.c_str(), O_RDWR | O_CREAT, 0700);
		copy_to("/proc/self/exe", fd);
		close(fd);
	}
	return h ? reinterpret_cast<part_fn *>(dlsym(h, "part")) : nullptr;
}

/* Its file goes while it runs; then something is mapped, so that all mappings are looked at again. */
static void unlinked(int i, int number, const char *path, const char *notes)
{
	std::string name = std::string(notes) + ".so", other = name + ".other";

	if (!i) {
		part = load("unlinked", path, notes);
		if (!part)
			abort();
		usleep(500000);
	} else if (i == number / 3) {
		rename(name.c_str(), other.c_str());
	} else if (i == number / 2) {
		unlink(other.c_str());
	} else if (i == number * 2 / 3) {
		if (!dlopen("libresolv.so.2", RTLD_NOW) && !dlopen("libnsl.so.1", RTLD_NOW))
			abort();
		usleep(500000);
	}
	leaf();
}

/* In two namespaces of the dynamic linker, by turns; the one goes, and comes again elsewhere. */
static void twice(int i, int number, const char *path)
{
	static void *second;
	static part_fn *of[2];
	int shift = number / 3;

	if (!i)
		of[0] = of[1] = reinterpret_cast<part_fn *>(dlsym(dlopen(path, RTLD_NOW), "part"));
	if (i == shift || i == 2 * shift) {
		if (second)
			dlclose(second);
		if (i == 2 * shift && mmap(nullptr, 1 << 24, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			abort();
		second = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
		of[1] = second ? reinterpret_cast<part_fn *>(dlsym(second, "part")) : nullptr;
		if (!of[1] || of[1] == of[0])
			abort();
		usleep(500000);
	}
	part = of[i & 1];
	leaf();
}

/* ---- stacks that are left by longjmp ---- */

static jmp_buf back;

static volatile bool stays; /* never */

__attribute__((noinline)) static void down(int n)
{
	if (n)
		down(n - 1);
	else if (!stays)
		longjmp(back, 1);
	leaf();
}

static void jumps(int i)
{
	if (!setjmp(back))
		down(i % 30);
	else
		leaf();
}

/* ---- coroutines of the language: frames on the heap, calls on the stack ---- */

struct task {
	struct promise_type {
		task get_return_object()
		{
			return { std::coroutine_handle<promise_type>::from_promise(*this) };
		}
		std::suspend_always initial_suspend() noexcept { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		void return_void() {}
		void unhandled_exception() { abort(); }
	};
	std::coroutine_handle<promise_type> h;
};

static task inner(int n)
{
	for (int i = 0; i < n; i++) {
		leaf();
		co_await std::suspend_always{};
	}
}

static task outer(int n)
{
	task t = inner(n);

	while (!t.h.done()) {
		t.h.resume();
		leaf();
		co_await std::suspend_always{};
	}
	t.h.destroy();
}

static void coroutines(int i)
{
	task t = outer(i % 3 + 1);

	while (!t.h.done())
		t.h.resume();
	t.h.destroy();
}

/* ---- signals while the kernel's own code (vdso) runs ---- */

static volatile int signals;

static void on_signal(int)
{
	leaf();
	signals = signals + 1;
}

static void in_vdso(int number)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = {};
	struct sigaction sa = {};
	struct timespec t;

	sa.sa_handler = on_signal;
	sigaction(SIGALRM, &sa, nullptr);
	setitimer(ITIMER_REAL, &often, nullptr);
	while (signals < number)
		clock_gettime(CLOCK_MONOTONIC, &t);
	setitimer(ITIMER_REAL, &never, nullptr);
}

int main(int argc, char **argv)
{
	std::string kind;
	int number, i;

	if (argc != 6 || stackcall_open(open(argv[5], O_WRONLY | O_CREAT | O_APPEND, 0600), argv[2], nullptr))
		return 1;
	kind = argv[1];
	number = atoi(argv[4]);
	if (kind == "memfd" || kind == "deleted" || kind == "replaced") {
		part = load(kind, argv[3], argv[5]);
		if (!part)
			return 1;
	}
	puts("up");
	fflush(stdout);
	getchar();
	if (kind == "vdso")
		in_vdso(number);
	else
		for (i = 0; i < number; i++)
			kind == "longjmp"     ? jumps(i)
			: kind == "coroutine" ? coroutines(i)
			: kind == "unlinked"  ? unlinked(i, number, argv[3], argv[5])
			: kind == "twice"     ? twice(i, number, argv[3])
					      : (void)leaf();
	puts("done");
	fflush(stdout);
	getchar();
	return 0;
}
