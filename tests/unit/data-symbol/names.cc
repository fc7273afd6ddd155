// SPDX-License-Identifier: Apache-2.0
// Functions of every kind that a symbol table and DWARF can hold, to be looked up by address.
extern "C" int puts(const char *);
extern "C" void *malloc(unsigned long);
extern "C" void free(void *);

volatile int sink;

namespace shop {

static inline __attribute__((always_inline)) int weigh_inner(int n)
{
	sink = n;
	return sink * 3;
}

static inline __attribute__((always_inline)) int weigh_outer(int n)
{
	int a = weigh_inner(n);

	sink = a;
	return a + weigh_inner(a);
}

struct Basket {
	int items[4];
	__attribute__((noinline)) Basket();
	__attribute__((noinline)) virtual int weigh(int n) const;
	virtual ~Basket();
};

Basket::Basket()
{
	for (int &i : items)
		i = sink;
}

Basket::~Basket()
{
	sink = 0;
}

int Basket::weigh(int n) const
{
	int sum = 0;

	for (int i : items)
		sum += weigh_outer(i + n);
	return sum;
}

template <typename T, int N> __attribute__((noinline)) T scale(T v)
{
	struct Local {
		static __attribute__((noinline)) T twice(T w)
		{
			sink++;
			return w + w;
		}
	};

	return Local::twice(v) * N;
}

} // namespace shop

static __attribute__((noinline)) int hidden_helper(int n)
{
	auto f = [n](int m) __attribute__((noinline)) {
		sink = n;
		return m - sink;
	};

	return f(n) + f(n + 1);
}

extern "C" __attribute__((weak)) int weak_one(int n)
{
	sink = n;
	return n;
}

extern "C" int alias_of_entry(int n);

extern "C" int entry(int n)
{
	shop::Basket b;
	void *p = malloc(static_cast<unsigned long>(n) + 1);

	if (!p)
		__builtin_abort();
	puts("entry");
	free(p);
	return b.weigh(n) + shop::scale<int, 7>(n) + static_cast<int>(shop::scale<long, 9>(n)) +
	       hidden_helper(n) + weak_one(n);
}

extern "C" __attribute__((alias("entry"))) int alias_of_entry(int n);
