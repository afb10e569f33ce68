#include "core/engine/train/shared/table_gradients.h"

#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/engine/train/state/model_places.h"
#include "core/state/comm/sums/reduction_tree.h"
#include "kernels/sum.h"

namespace estrain::train {
namespace {

// With more lookups for each row, whole gradients are about as fast.
constexpr int64_t kRowsForLookup = 4;

bool looks_up_few_rows(const GradientFactors& factors, int64_t rows) {
  return factors.form == comm::FactorForm::embedding && !factors.scales_by_frequency && factors.right.numel() > 0 &&
         factors.right.numel() <= rows / kRowsForLookup;
}

}  // namespace

TableGradients::TableGradients(const std::vector<torch::Tensor>& parameters) : parameters_(parameters) {
  std::vector<size_t> tables;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (may_be_table(parameters[i].sizes())) tables.push_back(i);
  }
  look_at(std::move(tables));
}

void TableGradients::look_at(std::vector<size_t> tables) {
  tables_ = std::move(tables);
  watch_.reset();
  std::vector<torch::Tensor> tensors;
  for (const size_t table : tables_) tensors.push_back(parameters_[table]);
  if (!tensors.empty()) watch_.emplace(tensors);
}

FactorWatch::Cuts TableGradients::begin_pass(const torch::Tensor& loss, const FactorWatch::See& take) {
  FactorWatch::Cuts pass;
  if (is_idle()) return pass;
  std::vector<FactorWatch::Use> uses = watch_->uses(loss);
  std::erase_if(uses, [](const FactorWatch::Use& use) { return use.factors.form != comm::FactorForm::embedding; });
  for (FactorWatch::Use& use : uses) use.parameter = tables_[use.parameter];
  if (std::exchange(is_first_, false)) {
    std::vector<size_t> tables;
    for (const FactorWatch::Use& use : uses) tables.push_back(use.parameter);
    look_at(std::move(tables));
  }
  for (FactorWatch::Use& use : uses) {
    if (!looks_up_few_rows(use.factors, parameters_[use.parameter].size(0))) continue;
    pass.cut(use);
    FactorWatch::see(std::move(use), take);
  }
  return pass;
}

bool TableSums::can_fold(const Fold& fold) const {
  for (size_t i = 0; i < fold.sums.size(); ++i) {
    if (!touched_[fold.target + i].contains(fold.parameter)) return false;
  }
  return true;
}

torch::Tensor TableSums::places_of(const torch::Tensor& looked_up, Rows& rows, Places& places) {
  const torch::Tensor numbers = looked_up.to(torch::kLong).contiguous();
  torch::Tensor found = torch::empty_like(numbers);
  const int64_t* const row = numbers.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    int32_t& place = places[static_cast<size_t>(row[i])];
    if (place == 0) {
      rows.push_back(row[i]);
      place = static_cast<int32_t>(rows.size());
    }
    found.mutable_data_ptr<int64_t>()[i] = place - 1;
  }
  return found;
}

// The gradient of a smaller table, which has the rows looked up alone: each row is the same sum.
TableSums::RowValues TableSums::rows_of(const GradientFactors& gradient, Places& places) {
  RowValues found;
  const torch::Tensor compact = places_of(gradient.right, found.rows, places);
  const bool has_padding = gradient.padding >= 0 && gradient.padding < std::ssize(places);
  const int64_t padding = has_padding ? places[static_cast<size_t>(gradient.padding)] - 1 : -1;
  found.values = at::embedding_dense_backward(gradient.left, compact, std::ssize(found.rows), padding,
                                              /*scale_grad_by_freq=*/false);
  return found;
}

// Fills the sum of a table with zeros: all rows, if none is known, else the rows that may differ from zero.
void TableSums::clear(const Fold& fold, int64_t rows, int64_t width) {
  const auto clear_rows = [&](int64_t row, int64_t count) {
    std::memset(fold.out + row * width, 0, static_cast<size_t>(count * width) * sizeof(float));
  };
  const auto known = touched_[fold.target].find(fold.parameter);
  if (known == touched_[fold.target].end()) return clear_rows(0, rows);
  for (const int64_t row : known->second) clear_rows(row, 1);
}

void TableSums::fold(const Fold& fold, const GradientFactors& gradient, int64_t rows, int64_t width) {
  Places& places = places_[fold.parameter];
  places.resize(static_cast<size_t>(rows));
  auto [touched, values] = rows_of(gradient, places);
  if (fold.sums.empty()) clear(fold, rows, width);
  for (size_t i = 0; i < fold.sums.size(); ++i) {
    for (const int64_t row : touched_[fold.target + i].at(fold.parameter)) {
      if (places[static_cast<size_t>(row)] != 0) continue;
      places[static_cast<size_t>(row)] = -1;
      touched.push_back(row);
    }
  }

  const std::vector<float> zeros(static_cast<size_t>(width), 0.0f);
  std::array<const float*, comm::kDeepestStack> operands;
  for (const int64_t row : touched) {
    const int32_t place = std::exchange(places[static_cast<size_t>(row)], 0);
    const float* const own = place > 0 ? values.const_data_ptr<float>() + (place - 1) * width : zeros.data();
    float* const out = fold.out + row * width;
    if (fold.sums.empty()) {
      kernels::scale(out, own, fold.factor, static_cast<size_t>(width));
      continue;
    }
    for (size_t i = 0; i < fold.sums.size(); ++i) operands[i] = fold.sums[i] + row * width;
    kernels::fold_scaled(out, operands.data(), fold.sums.size(), own, fold.factor, static_cast<size_t>(width));
  }
  touched_[fold.target][fold.parameter] = std::move(touched);
}

FactoredTable::FactoredTable(at::IntArrayRef sizes, comm::FoldPlan plan, float factor)
    : rows_(sizes[0]), width_(sizes[1]), plan_(std::move(plan)), factor_(factor), places_(static_cast<size_t>(rows_)) {}

// Folds as a worker that has all ESTs, in a table of the rows looked up by any EST.
void FactoredTable::sum(std::vector<GradientFactors> of_ests, float* out) {
  TableSums::Rows rows;
  for (GradientFactors& factors : of_ests) {
    factors.right = TableSums::places_of(factors.right, rows, places_);
    const bool has_padding = factors.padding >= 0 && factors.padding < rows_;
    factors.padding = has_padding ? places_[static_cast<size_t>(factors.padding)] - 1 : -1;
  }
  for (const int64_t row : rows) places_[static_cast<size_t>(row)] = 0;

  const auto slots = static_cast<size_t>(plan_.buffers);
  std::vector<torch::Tensor> sums;
  for (size_t slot = 0; slot < slots; ++slot) sums.push_back(torch::empty({std::ssize(rows), width_}));
  TableSums by_rows(slots);
  for (size_t est = 0; est < of_ests.size(); ++est) {
    const auto [depth, merges] = plan_.arrivals[est];
    const auto target = static_cast<size_t>(depth - merges);
    TableSums::Fold fold{.target = target, .out = sums[target].mutable_data_ptr<float>(), .factor = factor_};
    for (size_t i = 0; i < static_cast<size_t>(merges); ++i)
      fold.sums.push_back(sums[target + i].const_data_ptr<float>());
    by_rows.fold(fold, of_ests[est], std::ssize(rows), width_);
  }

  const auto bytes_of = [this](int64_t count) { return static_cast<size_t>(count * width_) * sizeof(float); };
  if (!before_) std::memset(out, 0, bytes_of(rows_));
  for (const int64_t row : before_.value_or(TableSums::Rows())) std::memset(out + row * width_, 0, bytes_of(1));
  const float* const sum = sums[0].const_data_ptr<float>();
  for (int64_t i = 0; i < std::ssize(rows); ++i)
    std::memcpy(out + rows[static_cast<size_t>(i)] * width_, sum + i * width_, bytes_of(1));
  before_ = std::move(rows);
}

}  // namespace estrain::train
