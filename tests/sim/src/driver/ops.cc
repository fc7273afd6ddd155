// SPDX-License-Identifier: Apache-2.0
/*
 * sim-ops [ROUNDS]: calls operators of the simulated libtorch_cpu and writes what a dispatch
 * mode would see of them to standard output, one line a row. Prints READY and waits for a line
 * before the first, prints DONE and waits for one at the end.
 */
#include "../torch/aten.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

using at::Tensor;
using c10::TensorImpl;

namespace {
struct Memory {
	TensorImpl impl = {};
	c10::StorageImpl storage = {};
	int64_t many[16] = {};

	Memory(uint64_t address, int device, std::initializer_list<int64_t> shape, uint16_t dtype = 6)
	{
		int64_t n = 1, i = 0;

		impl.storage = &storage;
		storage.data = (void *)address;
		impl.ndim = (int64_t)shape.size();
		for (int64_t x : shape) {
			n *= x;
			(impl.ndim > 5 ? many : impl.sizes)[i++] = x;
		}
		if (impl.ndim > 5)
			impl.sizes[0] = (int64_t)many;
		impl.numel = n;
		impl.dtype = dtype;
		impl.device = (int8_t)(device < 0 ? 0 : 20);
		impl.index = (int8_t)(device < 0 ? -1 : device);
		impl.has_device = 1;
		impl.key_set = (device < 0 ? 0x8001 : c10::kPrivateUse1) | c10::kAutograd;
	}
};

Memory a(0x12c041200000, 0, { 2, 3 }), b(0x12c041200200, 0, { 3, 4 }), c(0x12c041200400, 1, { 2, 4 }, 5),
	deep(0x12c041200600, 0, { 1, 2, 1, 2, 1, 2, 1 }), host(0x7f0000001000, -1, { 2, 3 }),
	scalar(0x12c041200800, 0, {}, 7), indices(0x12c041200a00, 0, { 2, 3 }, 4);
Tensor A(&a.impl), B(&b.impl), C(&c.impl), D(&deep.impl), H(&host.impl), S(&scalar.impl), I(&indices.impl), none;
c10::Scalar one = {};

void start(const char *name) { printf("START aten.%s\n", name); }
void end(const char *name) { printf("END aten.%s\n", name); }

void touch(const char *how, const Tensor &t)
{
	static const int bytes[] = { 1, 1, 2, 4, 8, 2, 4, 8 };
	const TensorImpl *x = t.impl;

	if (!x || x->device != 20)
		return;
	printf("%s %d %llu %lld [", how, x->index, (unsigned long long)(uintptr_t)x->storage->data + x->offset * bytes[x->dtype],
	       (long long)(x->numel * bytes[x->dtype]));
	for (int64_t i = 0; i < x->ndim; i++)
		printf("%s%lld", i ? ", " : "", (long long)(x->ndim > 5 ? (int64_t *)x->sizes[0] : x->sizes)[i]);
	printf("]\n");
}

void two(const char *name, const Tensor &x, const Tensor &y, const Tensor &r)
{
	start(name);
	touch("READ", x);
	touch("READ", y);
	touch("WRITE", r);
	end(name);
}

void plain()
{
	at::next_result[0] = C.impl;
	two("mm.default", A, B, C);
	at::_ops::mm::call(A, B);
	/* of the host: a row of the operator, none of its tensors */
	at::next_result[0] = H.impl;
	two("mm.default", H, H, H);
	at::_ops::mm::call(H, H);
	start("add_.Tensor");
	touch("WRITE", A);
	touch("READ", S);
	touch("WRITE", A);
	end("add_.Tensor");
	at::_ops::add__Tensor::call(A, S, one);
	start("add.out");
	touch("READ", A);
	touch("READ", S);
	touch("WRITE", D);
	touch("WRITE", D);
	end("add.out");
	at::_ops::add_out::call(A, S, one, D);
	/* views: no access */
	start("t.default"), end("t.default");
	at::_ops::t::call(A);
	at::next_result[0] = D.impl;
	start("empty_like.default"), end("empty_like.default");
	at::_ops::empty_like::call(A);
	start("zeros_like.default"), touch("WRITE", D), end("zeros_like.default");
	at::_ops::zeros_like::call(A);
}

void several()
{
	Tensor list[] = { A, none, D, H, S };

	at::next_result[0] = A.impl;
	at::next_result[1] = I.impl;
	start("sort.default");
	touch("READ", A);
	touch("WRITE", A);
	touch("WRITE", I);
	end("sort.default");
	at::_ops::sort::call(A, -1, false);
	start("sort.values");
	touch("READ", A);
	touch("WRITE", D);
	touch("WRITE", I);
	touch("WRITE", D);
	touch("WRITE", I);
	end("sort.values");
	at::_ops::sort_values::call(A, -1, false, D, I);
	start("cat.default");
	for (const Tensor &x : list)
		touch("READ", x);
	touch("WRITE", A);
	end("cat.default");
	at::_ops::cat::call({ list, 5 }, 0);
	start("native_layer_norm.default");
	touch("READ", A);
	touch("READ", B);
	touch("WRITE", A);
	end("native_layer_norm.default");
	at::_ops::native_layer_norm::call(A, 1e-5, std::optional<Tensor>(B), std::nullopt);
}

void composites()
{
	uint64_t &off = c10::impl::raw_local_dispatch_key_set.excluded;

	/* with gradients: its parts; of one piece for this device: seen behind them */
	at::next_result[0] = C.impl;
	start("t.default"), end("t.default");
	two("mm.default", A, C, C);
	at::_ops::linear::call(A, B);
	two("matmul.default", A, B, C);
	at::_ops::matmul::call(A, B);
	/* inference mode: itself */
	off = c10::kAutograd;
	two("linear.default", A, B, C);
	at::_ops::linear::call(A, B);
	off = 0;
	/* tensors made there */
	a.impl.key_set = b.impl.key_set = c10::kPrivateUse1;
	two("linear.default", A, B, C);
	at::_ops::linear::call(A, B);
	a.impl.key_set = b.impl.key_set = c10::kPrivateUse1 | c10::kAutograd;
	/* no mode looks at this */
	off = c10::kPython;
	at::_ops::mm::call(A, B);
	off = 0;
}

/* A frame as large as what an exception has left below. */
__attribute__((noinline)) void deeper(int n)
{
	volatile char room[4096];

	room[0] = room[4095] = (char)n;
	if (n)
		deeper(n - 1);
	else
		plain();
	asm volatile("" ::"r"(room) : "memory");
}

void throwing()
{
	start("inverse.default");
	touch("READ", A);
	try {
		at::_ops::inverse::call(A);
	} catch (const std::runtime_error &) {
		printf("THROWN\n");
	}
	/* what is open above the stack pointer is open no more */
	deeper(4);
}
} // namespace

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;

	fprintf(stderr, "READY\n");
	(void)getchar();
	for (int i = 0; i < rounds; i++) {
		plain();
		several();
		composites();
		throwing();
	}
	printf("kernels %lu\n", at::kernels);
	fflush(stdout);
	fprintf(stderr, "DONE\n");
	(void)getchar();
	return 0;
}
