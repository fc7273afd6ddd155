// SPDX-License-Identifier: Apache-2.0
/*
 * A few operators of libtorch_cpu: how a call goes through gradients to a kernel, or
 * to other operators; and the schemas by which they are registered.
 */
#include "aten.h"

#include <stdexcept>

namespace at {
thread_local c10::TensorImpl *next_result[2];
thread_local unsigned long kernels;

/* As RegisterSchema.cpp has them: texts that code refers to. */
extern SIM_EXPORT const char *const schemas[];
const char *const schemas[] = {
	"mm(Tensor self, Tensor mat2) -> Tensor",
	"t(Tensor(a) self) -> Tensor(a)",
	"add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
	"add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
	"empty_like(Tensor self) -> Tensor",
	"zeros_like(Tensor self) -> Tensor",
	"sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
	"sort.values(Tensor self, int dim=-1, bool descending=False, *, Tensor(a!) values, Tensor(b!) indices) -> "
	"(Tensor(a!) values, Tensor(b!) indices)",
	"cat(Tensor[] tensors, int dim=0) -> Tensor",
	"native_layer_norm(Tensor input, float eps, Tensor? weight=None, Tensor? bias=None) -> Tensor",
	"linear(Tensor input, Tensor weight) -> Tensor",
	"matmul(Tensor self, Tensor other) -> Tensor",
	"inverse(Tensor self) -> Tensor",
};

namespace {
inline __attribute__((always_inline)) uint64_t of(const Tensor &t)
{
	return t.impl ? t.impl->key_set : 0;
}

/* What a call is dispatched by: each caller has it in itself, as released libraries do. */
inline __attribute__((always_inline)) uint64_t keys(uint64_t tensors)
{
	auto &local = c10::impl::raw_local_dispatch_key_set;

	return (tensors | (local.included ^ c10::kIncluded)) & ~local.excluded;
}

/* Something that happens below: the operators that a kernel calls are not the program's. */
__attribute__((noinline)) void kernel(const Tensor *calls)
{
	kernels++;
	if (calls) {
		c10::TensorImpl *keep = next_result[0];

		_ops::empty_like::call(*calls);
		next_result[0] = keep;
	}
	asm volatile("" ::: "memory");
}
} // namespace

/* Returns with gradients: through redispatch; without: the kernel at once. */
#define SIM_CALL(name, tensors, args, result)                                        \
	do {                                                                         \
		uint64_t k_ = keys(tensors);                                         \
		if (k_ & c10::kAutograd)                                             \
			return name::redispatch({ k_ & ~c10::kAutograd }, SIM_ALL args); \
		kernel(nullptr);                                                     \
		return result;                                                       \
	} while (0)
#define SIM_ALL(...) __VA_ARGS__

namespace _ops {
Tensor mm::redispatch(c10::DispatchKeySet, const Tensor &self, const Tensor &)
{
	kernel(&self);
	return Tensor(next_result[0]);
}

Tensor mm::call(const Tensor &self, const Tensor &mat2)
{
	SIM_CALL(mm, of(self) | of(mat2), (self, mat2), Tensor(next_result[0]));
}

Tensor t::redispatch(c10::DispatchKeySet, const Tensor &)
{
	kernel(nullptr);
	return Tensor(next_result[0]);
}

Tensor t::call(const Tensor &self)
{
	SIM_CALL(t, of(self), (self), Tensor(next_result[0]));
}

Tensor &add__Tensor::redispatch(c10::DispatchKeySet, Tensor &self, const Tensor &, const c10::Scalar &)
{
	kernel(nullptr);
	return self;
}

Tensor &add__Tensor::call(Tensor &self, const Tensor &other, const c10::Scalar &alpha)
{
	SIM_CALL(add__Tensor, of(self) | of(other), (self, other, alpha), self);
}

Tensor &add_out::redispatch(c10::DispatchKeySet, const Tensor &, const Tensor &, const c10::Scalar &, Tensor &out)
{
	kernel(nullptr);
	return out;
}

Tensor &add_out::call(const Tensor &self, const Tensor &other, const c10::Scalar &alpha, Tensor &out)
{
	SIM_CALL(add_out, of(self) | of(other), (self, other, alpha, out), out);
}

Tensor empty_like::redispatch(c10::DispatchKeySet, const Tensor &)
{
	kernel(nullptr);
	return Tensor(next_result[0]);
}

Tensor empty_like::call(const Tensor &self)
{
	SIM_CALL(empty_like, of(self), (self), Tensor(next_result[0]));
}

Tensor zeros_like::redispatch(c10::DispatchKeySet, const Tensor &)
{
	kernel(nullptr);
	return Tensor(next_result[0]);
}

Tensor zeros_like::call(const Tensor &self)
{
	SIM_CALL(zeros_like, of(self), (self), Tensor(next_result[0]));
}

Two sort::redispatch(c10::DispatchKeySet, const Tensor &, int64_t, bool)
{
	kernel(nullptr);
	return { Tensor(next_result[0]), Tensor(next_result[1]) };
}

Two sort::call(const Tensor &self, int64_t dim, bool descending)
{
	SIM_CALL(sort, of(self), (self, dim, descending), Two(Tensor(next_result[0]), Tensor(next_result[1])));
}

TwoRefs sort_values::redispatch(c10::DispatchKeySet, const Tensor &, int64_t, bool, Tensor &values, Tensor &indices)
{
	kernel(nullptr);
	return { values, indices };
}

TwoRefs sort_values::call(const Tensor &self, int64_t dim, bool descending, Tensor &values, Tensor &indices)
{
	SIM_CALL(sort_values, of(self), (self, dim, descending, values, indices), TwoRefs(values, indices));
}

Tensor cat::redispatch(c10::DispatchKeySet, TensorList, int64_t)
{
	kernel(nullptr);
	return Tensor(next_result[0]);
}

Tensor cat::call(TensorList tensors, int64_t dim)
{
	SIM_CALL(cat, of(tensors.p[0]), (tensors, dim), Tensor(next_result[0]));
}

Tensor native_layer_norm::redispatch(c10::DispatchKeySet, const Tensor &, double, OptionalTensor, OptionalTensor)
{
	kernel(nullptr);
	return Tensor(next_result[0]);
}

Tensor native_layer_norm::call(const Tensor &input, double eps, OptionalTensor weight, OptionalTensor bias)
{
	SIM_CALL(native_layer_norm, of(input), (input, eps, weight, bias), Tensor(next_result[0]));
}

/* With gradients on it is its parts; without, a mode sees it. */
Tensor linear::redispatch(c10::DispatchKeySet, const Tensor &input, const Tensor &weight)
{
	Tensor turned = t::call(weight);

	return mm::call(input, turned);
}

Tensor linear::call(const Tensor &input, const Tensor &weight)
{
	uint64_t k = keys(of(input) | of(weight));

	kernels += k == 1;
	Tensor turned = t::call(weight);
	return mm::call(input, turned);
}

Tensor matmul::redispatch(c10::DispatchKeySet, const Tensor &self, const Tensor &)
{
	kernel(&self);
	return Tensor(next_result[0]);
}

Tensor matmul::call(const Tensor &self, const Tensor &other)
{
	SIM_CALL(matmul, of(self) | of(other), (self, other), Tensor(next_result[0]));
}

Tensor inverse::redispatch(c10::DispatchKeySet, const Tensor &self)
{
	kernel(&self);
	throw std::runtime_error("singular");
}

Tensor inverse::call(const Tensor &self)
{
	SIM_CALL(inverse, of(self), (self), Tensor(next_result[0]));
}
} // namespace _ops

/* By these it is known what torch makes of other operators. */
namespace compositeimplicitautograd {
SIM_EXPORT Tensor linear(const Tensor &input, const Tensor &weight)
{
	return _ops::linear::redispatch({ 0 }, input, weight);
}

SIM_EXPORT Tensor matmul(const Tensor &self, const Tensor &other)
{
	return _ops::mm::call(self, other);
}
} // namespace compositeimplicitautograd
} // namespace at
