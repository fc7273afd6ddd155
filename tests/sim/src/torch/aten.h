/* SPDX-License-Identifier: Apache-2.0 */
/* What operators of torch are called with: names and layouts of torch 2.7 (ascend-abi.md 2.7.7). */
#ifndef SIM_ATEN_H
#define SIM_ATEN_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#define SIM_EXPORT __attribute__((visibility("default")))

namespace c10 {
struct DispatchKeySet {
	uint64_t bits;
};

constexpr uint64_t kPrivateUse1 = 0x8800, kAutograd = 1ULL << 37, kPython = 1ULL << 27;
/* What a new thread includes: BackendSelect, ADInplaceOrView. */
constexpr uint64_t kIncluded = 0x804000000;

template <typename T> class ArrayRef {
public:
	const T *p;
	size_t n;
};

struct Scalar {
	uint64_t words[4];
};

struct StorageImpl {
	uint64_t before[2];
	void *data; /* @16 */
};

struct TensorImpl {
	uint64_t before[2];
	StorageImpl *storage; /* @16 */
	uint64_t between[5];
	int64_t ndim; /* @64 */
	int64_t sizes[5], strides[5]; /* or the address of both */
	int64_t offset, numel; /* @152, @160 */
	uint16_t dtype; /* @168 */
	int8_t device, index, has_device; /* @170 */
	uint64_t key_set; /* @176 */
};
static_assert(offsetof(TensorImpl, ndim) == 64 && offsetof(TensorImpl, offset) == 152 &&
		      offsetof(TensorImpl, device) == 170 && offsetof(TensorImpl, key_set) == 176,
	      "layout");

namespace impl {
struct PODLocalDispatchKeySet {
	uint64_t included, excluded;
};
extern SIM_EXPORT __thread PODLocalDispatchKeySet raw_local_dispatch_key_set;
} // namespace impl
} // namespace c10

namespace at {
class Tensor {
public:
	c10::TensorImpl *impl;
	Tensor(c10::TensorImpl *i = nullptr) : impl(i) {}
	Tensor(const Tensor &o) : impl(o.impl) {}
	~Tensor() {}
};

using TensorList = c10::ArrayRef<Tensor>;
using OptionalTensor = const std::optional<Tensor> &;
using Two = std::tuple<Tensor, Tensor>;
using TwoRefs = std::tuple<Tensor &, Tensor &>;

/* The result that kernels return, set by the caller: contents do not matter here. */
extern SIM_EXPORT thread_local c10::TensorImpl *next_result[2];
/* How often a kernel ran. */
extern SIM_EXPORT thread_local unsigned long kernels;

#define SIM_OP(name, ret, ...)                                               \
	struct SIM_EXPORT name {                                             \
		static ret call(__VA_ARGS__);                                \
		static ret redispatch(c10::DispatchKeySet keys, __VA_ARGS__); \
	}

namespace _ops {
SIM_OP(mm, Tensor, const Tensor &self, const Tensor &mat2);
SIM_OP(t, Tensor, const Tensor &self);
SIM_OP(add__Tensor, Tensor &, Tensor &self, const Tensor &other, const c10::Scalar &alpha);
SIM_OP(add_out, Tensor &, const Tensor &self, const Tensor &other, const c10::Scalar &alpha, Tensor &out);
SIM_OP(empty_like, Tensor, const Tensor &self);
SIM_OP(zeros_like, Tensor, const Tensor &self);
SIM_OP(sort, Two, const Tensor &self, int64_t dim, bool descending);
SIM_OP(sort_values, TwoRefs, const Tensor &self, int64_t dim, bool descending,
       Tensor &values, Tensor &indices);
SIM_OP(cat, Tensor, TensorList tensors, int64_t dim);
SIM_OP(native_layer_norm, Tensor, const Tensor &input, double eps, OptionalTensor weight, OptionalTensor bias);
/* Made of others: t and mm. */
SIM_OP(linear, Tensor, const Tensor &input, const Tensor &weight);
/* Made of others by torch, and of one piece for this device. */
SIM_OP(matmul, Tensor, const Tensor &self, const Tensor &other);
/* Ends by an exception. */
SIM_OP(inverse, Tensor, const Tensor &self);
} // namespace _ops
} // namespace at

#endif
