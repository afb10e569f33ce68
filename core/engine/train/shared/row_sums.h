#pragma once
// Sums of a table's gradients by rows: the rows that may differ from zero, in ascending order, and their values. All
// other elements of the sum are +0. A sum by rows takes memory for these rows alone.

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/train/shared/gradient_factors.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::train {

using RowNumber = uint32_t;

// `values`: [rows, width].
struct RowsView {
  std::span<const RowNumber> rows = {};
  const float* values = nullptr;
};

// Rows in memory that is used again.
class RowValues {
 public:
  RowsView view() const { return {{rows.data(), rows.size()}, values_.data()}; }
  float* values() { return values_.data(); }
  // Makes room for as many values; they are not set.
  void make_room(size_t values) {
    if (values_.size() < values) values_.resize(values);
  }

  std::vector<RowNumber> rows;

 private:
  std::vector<float> values_;
};

// Returns whether the gradient of these factors, of a table with as many rows, can be summed by rows.
bool takes_rows(const GradientFactors& factors, int64_t rows);

// Leaves the gradient of these factors in `out`: each row has the bits of the whole gradient.
void rows_of_gradient(const GradientFactors& gradient, size_t width, RowValues& out);

// Leaves left[0] + (left[1] + (… + own * factor)) in `out`, which is none of the terms: the bits of est::fold().
void fold_rows(std::span<const RowsView> left, RowsView own, float factor, size_t width, RowValues& out);

// The place of a parameter in a gradient slot while the place holds a sum by rows: the number of rows, the rows, and
// from a multiple of 64 bytes on the values.
class RowsPlace {
 public:
  // `elements`: of the parameter.
  RowsPlace(float* place, size_t elements, size_t width) : place_(place), elements_(elements), width_(width) {}

  // Returns whether a sum of as many rows has room in the place.
  bool fits(size_t rows) const;
  void write(RowsView sum);
  RowsView view() const;
  // Returns elements [begin, begin + n) of the whole sum, in `scratch` or in the place.
  const float* read(size_t begin, size_t n, float* scratch) const;
  // Replaces the sum by rows by the whole sum.
  void widen();
  // Writes the whole sum, where the place holds anything.
  void write_whole(RowsView sum);

 private:
  uint64_t& count() const { return *reinterpret_cast<uint64_t*>(place_); }
  RowNumber* rows() const { return reinterpret_cast<RowNumber*>(&count() + 1); }
  float* values(size_t rows) const;

  float* const place_;
  const size_t elements_, width_;
};

// Sums the gradients of a table over all ESTs of a job, from the factors of all ESTs.
class FactoredRows {
 public:
  // `plan`: of a worker that has all ESTs. Each gradient is multiplied by `factor`.
  FactoredRows(comm::FoldPlan plan, float factor)
      : plan_(std::move(plan)), factor_(factor), sums_(static_cast<size_t>(plan_.buffers)) {}

  // Returns the sum, until the next call. `of_ests`: [virtual rank].
  RowsView sum(std::span<const GradientFactors> of_ests, size_t width);

 private:
  const comm::FoldPlan plan_;
  const float factor_;
  std::vector<RowValues> sums_;  // [slot]
  RowValues own_, folded_;
};

}  // namespace estrain::train
