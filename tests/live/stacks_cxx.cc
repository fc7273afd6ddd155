// SPDX-License-Identifier: Apache-2.0
// stacks_cxx HAL ACL NUMBER NOTES: allocates from places that are hard to unwind, in several threads.
#include <alloca.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

extern "C" int stackcall_open(int fd, const char *hal, const char *acl);
extern "C" int stackcall(unsigned long long size);

static std::atomic<long> left_;

__attribute__((noinline)) static int leaf()
{
	left_--;
	return stackcall(4096) + 1;
}

struct Shape {
	virtual ~Shape() = default;
	virtual int area(int depth) = 0;
};

struct Square : Shape {
	int area(int depth) override
	{
		volatile char big[200];

		big[0] = (char)depth;
		return leaf() + big[0];
	}
};

struct Nest : Shape {
	std::unique_ptr<Shape> inner;
	explicit Nest(int n)
	{
		if (n)
			inner.reset(new Nest(n - 1));
		else
			inner.reset(new Square);
	}
	int area(int depth) override { return inner->area(depth + 1) + 1; }
};

static int compare(const void *a, const void *b)
{
	leaf();
	return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static int with_alloca(size_t n)
{
	char *p = (char *)alloca(n);

	memset(p, 1, n);
	return leaf() + p[n - 1];
}

struct Guard {
	~Guard() { leaf(); } // also while an exception passes
};

__attribute__((noinline)) static int throws(int n)
{
	Guard g;

	if (!n)
		throw std::runtime_error("deep");
	return throws(n - 1) + 1;
}

static int catches()
{
	try {
		return throws(5);
	} catch (const std::exception &) {
		return leaf();
	}
}

static void on_signal(int)
{
	leaf();
}

/* backtrace() does not go on behind a stack that was made by hand: not compared there. */
static void work(int seed)
{
	unsigned int r = (unsigned int)seed;
	std::vector<std::function<int()>> ways;
	int values[] = { 3, 1, 2 };

	ways.push_back(leaf);
	ways.push_back([] { return Nest(20).area(0); });
	ways.push_back([] { return Nest(0).area(0); });
	ways.push_back([&] { qsort(values, 3, sizeof(int), compare); values[0] ^= 2; return 0; });
	ways.push_back([&] { return with_alloca(100 + r % 5000); });
	ways.push_back(catches);
	ways.push_back([] { return raise(SIGUSR1); });
	while (left_ > 0)
		ways[(size_t)rand_r(&r) % ways.size()]();
}

int main(int argc, char **argv)
{
	struct sigaction sa = {};
	std::vector<std::thread> threads;

	if (argc != 5 || stackcall_open(open(argv[4], O_WRONLY | O_CREAT | O_APPEND, 0600), argv[1], argv[2]))
		return 1;
	left_ = atol(argv[3]);
	sa.sa_handler = on_signal;
	sigaction(SIGUSR1, &sa, nullptr);
	puts("up");
	fflush(stdout);
	getchar();
	for (int i = 1; i < 4; i++)
		threads.emplace_back(work, i);
	work(0);
	for (auto &t : threads)
		t.join();
	puts("done");
	fflush(stdout);
	getchar();
	return 0;
}
