// SPDX-License-Identifier: Apache-2.0
// stacks_lines HAL NOTES: allocates below calls that the compiler inlines.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

extern "C" int stackcall_open(int fd, const char *hal, const char *acl);
extern "C" int stackcall(unsigned long long size);

namespace inner {

template <typename T> struct Holder {
	T value;
	__attribute__((always_inline)) int take(unsigned long long size)
	{
		return stackcall(size + value) + 1;
	}
};

static inline __attribute__((always_inline)) int twice(int n)
{
	Holder<int> h{ n };
	int r = h.take(4096);

	r += h.take(8192);
	return r;
}

} // namespace inner

__attribute__((noinline)) static int plain(int n)
{
	return stackcall(100 + n) + 2;
}

__attribute__((noinline)) static int outer(int n)
{
	int r = inner::twice(n);

	return r + plain(n) + inner::twice(n + 1);
}

__attribute__((noinline)) static int sorts()
{
	std::vector<int> v = { 3, 1, 2 };

	std::sort(v.begin(), v.end(), [](int a, int b) {
		stackcall(300);
		return a < b;
	});
	return v[0];
}

int main(int argc, char **argv)
{
	if (argc != 3 || stackcall_open(open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600), argv[1], nullptr))
		return 1;
	puts("up");
	fflush(stdout);
	getchar();
	int sum = 0;

	for (int i = 0; i < 5; i++)
		sum += outer(i) + sorts();
	printf("done %d\n", sum);
	fflush(stdout);
	getchar();
	return 0;
}
