// SPDX-License-Identifier: Apache-2.0
// What is hard to unwind, without frame pointers: virtual calls, alloca, aligned locals, exceptions,
// callbacks out of qsort, std::function, deep recursion, signal handlers, tail calls, makecontext.
#include <alloca.h>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <pthread.h>
#include <stdexcept>
#include <sys/time.h>
#include <ucontext.h>
#include <vector>

static volatile unsigned long sink;

__attribute__((noinline)) static void leaf(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sink = sink * 31 + i;
}

struct Shape {
	virtual ~Shape() = default;
	virtual void draw(unsigned n) = 0;
};

struct Flat : Shape {
	void draw(unsigned n) override
	{
		char *p = static_cast<char *>(alloca(n % 300 + 16));

		memset(p, static_cast<int>(n), n % 300 + 16);
		leaf(200);
		sink += static_cast<unsigned char>(p[n % 16]);
	}
};

struct Aligned : Shape {
	void draw(unsigned n) override
	{
		alignas(64) volatile double v[16];

		for (auto &x : v)
			x = n;
		leaf(200);
		char *p = static_cast<char *>(alloca(n % 100 + 1));
		p[0] = 1;
		leaf(50);
		sink += static_cast<unsigned long>(v[n % 16]) + static_cast<unsigned char>(p[0]);
	}
};

__attribute__((noinline)) static void thrower(unsigned n)
{
	leaf(50);
	if (n % 3 == 0)
		throw std::runtime_error("x");
	leaf(50);
}

static int by_value(const void *a, const void *b)
{
	leaf(10);
	return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

__attribute__((noinline)) static void recurse(unsigned n, const std::function<void(unsigned)> &f)
{
	if (!n)
		f(n);
	else
		recurse(n - 1, f);
	leaf(5);
}

__attribute__((noinline)) static void tail(unsigned n)
{
	leaf(n);
}

__attribute__((noinline)) static void jump(unsigned n)
{
	sink++;
	tail(n + 1);
}

static void round_of(unsigned n)
{
	Flat flat;
	Aligned aligned;
	Shape *shapes[] = { &flat, &aligned };
	std::vector<int> v(20);

	shapes[n % 2]->draw(n);
	try {
		thrower(n);
	} catch (const std::exception &) {
		leaf(100);
	}
	for (auto &x : v)
		x = static_cast<int>(n * 7919 % 101);
	qsort(v.data(), v.size(), sizeof(int), by_value);
	recurse(n % 40, [&](unsigned k) { shapes[k % 2]->draw(n); });
	jump(100);
}

static void *forever(void *)
{
	for (unsigned n = 0;; n++)
		round_of(n);
	return nullptr;
}

static void on_signal(int)
{
	leaf(20000);
}

static ucontext_t outer, inner;

static void coroutine()
{
	for (unsigned n = 0;; n++) {
		leaf(2000);
		swapcontext(&inner, &outer);
	}
}

static void *switcher(void *)
{
	static char stack[65536];

	getcontext(&inner);
	inner.uc_stack.ss_sp = stack;
	inner.uc_stack.ss_size = sizeof(stack);
	inner.uc_link = &outer;
	makecontext(&inner, coroutine, 0);
	for (;;) {
		swapcontext(&outer, &inner);
		leaf(500);
	}
	return nullptr;
}

int main()
{
	struct itimerval t = { { 0, 3000 }, { 0, 3000 } };
	struct sigaction sa = {};
	pthread_t id;

	sa.sa_handler = on_signal;
	sa.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &sa, nullptr);
	pthread_create(&id, nullptr, forever, nullptr);
	pthread_create(&id, nullptr, switcher, nullptr);
	setitimer(ITIMER_REAL, &t, nullptr);
	forever(nullptr);
}
