#include "core/engine/train/shared/row_sums.h"

#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/sum.h"

namespace estrain::train {
namespace {

constexpr size_t kValuesAlignment = 64;  // bytes

void copy_floats(float* to, const float* from, size_t n) { std::memcpy(to, from, n * sizeof(float)); }
void clear_floats(float* to, size_t n) { std::memset(to, 0, n * sizeof(float)); }

// Bytes from the start of a place to the values of a sum of as many rows.
size_t head_bytes(size_t rows) {
  const size_t bytes = sizeof(uint64_t) + rows * sizeof(RowNumber);
  return (bytes + kValuesAlignment - 1) / kValuesAlignment * kValuesAlignment;
}

// Goes through the rows of several sums in ascending order.
class RowMerge {
 public:
  explicit RowMerge(std::span<const RowsView> sums) : sums_(sums) { next_.fill(0); }

  // Finds the next row. Returns false if there is none.
  bool advance() {
    row_ = std::numeric_limits<uint64_t>::max();
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (next_[i] < sums_[i].rows.size()) row_ = std::min<uint64_t>(row_, sums_[i].rows[next_[i]]);
    }
    return row_ != std::numeric_limits<uint64_t>::max();
  }
  RowNumber row() const { return static_cast<RowNumber>(row_); }
  // Takes the row from sum i: returns its values, or `zeros`. Call this function once for each sum and row.
  const float* take(size_t i, size_t width, const float* zeros) {
    if (next_[i] == sums_[i].rows.size() || sums_[i].rows[next_[i]] != row_) return zeros;
    return sums_[i].values + next_[i]++ * width;
  }

 private:
  const std::span<const RowsView> sums_;
  std::array<size_t, comm::kDeepestStack + 1> next_;
  uint64_t row_ = 0;
};

}  // namespace

bool takes_rows(const GradientFactors& factors, int64_t rows) {
  return factors.form == comm::FactorForm::embedding && !factors.scales_by_frequency &&
         rows <= std::numeric_limits<RowNumber>::max() && factors.right.numel() <= std::numeric_limits<uint32_t>::max();
}

// The gradient of a smaller table, which has the rows looked up alone: each row is the same sum.
void rows_of_gradient(const GradientFactors& gradient, size_t width, RowValues& out) {
  const int64_t lookups = gradient.right.numel();
  const int64_t* const looked_up = gradient.right.const_data_ptr<int64_t>();
  std::vector<uint64_t> sorted(static_cast<size_t>(lookups));  // a row, above the number of the lookup
  for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = static_cast<uint64_t>(looked_up[i]) << 32 | i;
  std::sort(sorted.begin(), sorted.end());

  const torch::Tensor places = at::empty({lookups}, torch::kLong);
  int64_t* const place_of = places.mutable_data_ptr<int64_t>();
  int64_t padding = -1;
  out.rows.clear();
  for (const uint64_t each : sorted) {
    const auto row = static_cast<RowNumber>(each >> 32);
    if (out.rows.empty() || out.rows.back() != row) {
      if (row == gradient.padding) padding = std::ssize(out.rows);
      out.rows.push_back(row);
    }
    place_of[static_cast<uint32_t>(each)] = std::ssize(out.rows) - 1;
  }
  const torch::Tensor values = at::embedding_dense_backward(gradient.left, places, std::ssize(out.rows), padding,
                                                            /*scale_grad_by_freq=*/false);
  out.make_room(out.rows.size() * width);
  copy_floats(out.values(), values.const_data_ptr<float>(), out.rows.size() * width);
}

void fold_rows(std::span<const RowsView> left, RowsView own, float factor, size_t width, RowValues& out) {
  out.rows.clear();
  if (left.empty()) {
    out.rows.assign(own.rows.begin(), own.rows.end());
    out.make_room(own.rows.size() * width);
    kernels::scale(out.values(), own.values, factor, own.rows.size() * width);
    return;
  }
  std::array<RowsView, comm::kDeepestStack + 1> terms;
  std::ranges::copy(left, terms.begin());
  terms[left.size()] = own;
  size_t most_rows = 0;
  for (size_t i = 0; i <= left.size(); ++i) most_rows += terms[i].rows.size();
  out.make_room(most_rows * width);

  const std::vector<float> zeros(width, 0.0f);
  std::array<const float*, comm::kDeepestStack> operands;
  for (RowMerge merge({terms.data(), left.size() + 1}); merge.advance();) {
    for (size_t i = 0; i < left.size(); ++i) operands[i] = merge.take(i, width, zeros.data());
    const float* const values = merge.take(left.size(), width, zeros.data());
    kernels::fold_scaled(out.values() + out.rows.size() * width, operands.data(), left.size(), values, factor, width);
    out.rows.push_back(merge.row());
  }
}

float* RowsPlace::values(size_t rows) const { return place_ + head_bytes(rows) / sizeof(float); }

// A sum of many rows is read and added faster as a whole.
bool RowsPlace::fits(size_t rows) const {
  return rows <= elements_ / width_ / 2 &&
         head_bytes(rows) + rows * width_ * sizeof(float) <= elements_ * sizeof(float);
}

void RowsPlace::write(RowsView sum) {
  count() = sum.rows.size();
  std::copy(sum.rows.begin(), sum.rows.end(), rows());
  copy_floats(values(sum.rows.size()), sum.values, sum.rows.size() * width_);
}

RowsView RowsPlace::view() const { return {{rows(), count()}, values(count())}; }

const float* RowsPlace::read(size_t begin, size_t n, float* scratch) const {
  const RowsView sum = view();
  const size_t first_row = begin / width_, rows = (begin + n + width_ - 1) / width_ - first_row;
  const auto first = std::lower_bound(sum.rows.begin(), sum.rows.end(), first_row);
  const float* const values = sum.values + static_cast<size_t>(first - sum.rows.begin()) * width_;
  const auto left = static_cast<size_t>(sum.rows.end() - first);
  if (left >= rows && first[static_cast<ptrdiff_t>(rows) - 1] == first_row + rows - 1)
    return values + (begin - first_row * width_);
  clear_floats(scratch, n);
  for (size_t i = 0; i < left && first[static_cast<ptrdiff_t>(i)] < first_row + rows; ++i) {
    const size_t at = first[static_cast<ptrdiff_t>(i)] * width_;
    const size_t from = std::max(at, begin), to = std::min(at + width_, begin + n);
    copy_floats(scratch + (from - begin), values + i * width_ + (from - at), to - from);
  }
  return scratch;
}

void RowsPlace::widen() {
  const RowsView sum = view();
  const std::vector<RowNumber> rows(sum.rows.begin(), sum.rows.end());
  const std::vector<float> values(sum.values, sum.values + rows.size() * width_);
  write_whole({rows, values.data()});
}

void RowsPlace::write_whole(RowsView sum) {
  clear_floats(place_, elements_);
  for (size_t i = 0; i < sum.rows.size(); ++i)
    copy_floats(place_ + sum.rows[i] * width_, sum.values + i * width_, width_);
}

RowsView FactoredRows::sum(std::span<const GradientFactors> of_ests, size_t width) {
  for (size_t est = 0; est < of_ests.size(); ++est) {
    const auto [depth, merges] = plan_.arrivals[est];
    const auto target = static_cast<size_t>(depth - merges);
    std::array<RowsView, comm::kDeepestStack> left;
    for (size_t i = 0; i < static_cast<size_t>(merges); ++i) left[i] = sums_[target + i].view();
    rows_of_gradient(of_ests[est], width, own_);
    fold_rows({left.data(), static_cast<size_t>(merges)}, own_.view(), factor_, width, folded_);
    std::swap(sums_[target], folded_);
  }
  return sums_[0].view();
}

}  // namespace estrain::train
