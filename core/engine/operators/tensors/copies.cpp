// Copies of float32 between tensors of different strides, such as reshape makes of a permuted tensor: row by row, if
// both have rows of neighbours. LibTorch's own kernel takes several times as long for short rows; it does other copies.

#include <ATen/Parallel.h>
#include <ATen/ops/copy_native.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/engine/operators/registry.h"

namespace estrain::operators {
namespace {

using at::Tensor;

constexpr size_t kMostDims = 6;
constexpr int64_t kWorkForThreads = 32768;  // elements: from this size on LibTorch divides a copy over threads

struct Dim {
  int64_t size = 1, to = 0, from = 0;  // strides
};

// The dimensions of a copy from the outermost to the innermost, in the order of the target's memory. Neighbouring
// dimensions are joined if the copy can walk along both as one.
struct Dims {
  std::array<Dim, kMostDims> dims;
  size_t count = 0;

  // Returns false for too many dimensions, or for a target whose elements may share memory.
  bool gather(const Tensor& to, const Tensor& from) {
    for (int64_t d = 0; d < to.dim(); ++d) {
      if (to.size(d) == 1) continue;
      if (count == kMostDims) return false;
      dims[count++] = {to.size(d), to.stride(d), from.stride(d)};
    }
    std::stable_sort(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count),
                     [](const Dim& a, const Dim& b) { return a.to > b.to; });
    for (size_t d = 0; d + 1 < count; ++d)
      if (dims[d].to < dims[d + 1].to * dims[d + 1].size) return false;
    join();
    return true;
  }

 private:
  void join() {
    size_t kept = 0;
    for (size_t d = 1; d < count; ++d) {
      const Dim& inner = dims[d];
      if (dims[kept].to == inner.to * inner.size && dims[kept].from == inner.from * inner.size) {
        dims[kept] = {dims[kept].size * inner.size, inner.to, inner.from};
      } else {
        dims[++kept] = inner;
      }
    }
    if (count > 0) count = kept + 1;
  }
};

inline void copy_row(float* to, const float* from, int64_t n) {
  constexpr int64_t kShort = 128, kFloats = 4;
  if (n > kShort) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) std::memcpy(to + i, from + i, kFloats * sizeof(float));
  for (; i < n; ++i) to[i] = from[i];
}

// Copies rows of `row` floats, along the dimensions [0, outer) around a row.
void copy_rows(float* to, const float* from, const Dim* dims, size_t outer, int64_t row) {
  if (outer == 0) return copy_row(to, from, row);
  const Dim dim = dims[0];
  if (outer == 1) {
    for (int64_t i = 0; i < dim.size; ++i) copy_row(to + i * dim.to, from + i * dim.from, row);
    return;
  }
  for (int64_t i = 0; i < dim.size; ++i) copy_rows(to + i * dim.to, from + i * dim.from, dims + 1, outer - 1, row);
}

bool is_plain(const Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.layout() == at::kStrided && !x.is_neg();
}

// Returns false, without a copy, if the tensors do not fit.
bool copied_by_rows(const Tensor& to, const Tensor& from) {
  if (!is_plain(to) || !is_plain(from) || to.sizes() != from.sizes() || to.numel() == 0) return false;
  if (to.storage().is_alias_of(from.storage())) return false;
  if (to.numel() >= kWorkForThreads && at::get_num_threads() > 1) return false;
  Dims all;
  if (!all.gather(to, from)) return false;
  int64_t row = 1;
  size_t outer = all.count;
  if (outer > 0) {
    const Dim& last = all.dims[outer - 1];
    if (last.to != 1 || last.from != 1) return false;
    row = last.size;
    --outer;
  }
  copy_rows(to.mutable_data_ptr<float>(), from.const_data_ptr<float>(), all.dims.data(), outer, row);
  return true;
}

Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  return copied_by_rows(self, source) ? self : at::native::copy_(self, source, non_blocking);
}

}  // namespace

void register_copies(OperatorRegistry& registry) { registry.hasten("copy_", operators::copy_); }

}  // namespace estrain::operators
