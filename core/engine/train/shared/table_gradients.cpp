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

TableGradients::Pass::~Pass() {
  for (const Cut& cut : cuts_) *cut.edge = cut.before;
}

TableGradients::Pass TableGradients::begin_pass(const torch::Tensor& loss, const FactorWatch::See& take) {
  Pass pass;
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
    // The node computes no gradient for an edge that leads nowhere.
    torch::autograd::Edge& edge = use.node->next_edges()[use.output];
    pass.cuts_.push_back({&edge, std::exchange(edge, {})});
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

// The gradient of a smaller table, which has the rows looked up alone: each row is the same sum.
TableSums::RowValues TableSums::rows_of(const GradientFactors& gradient, Places& places) {
  RowValues found;
  const torch::Tensor indices = gradient.right.to(torch::kLong).contiguous();
  torch::Tensor compact = torch::empty_like(indices);
  const int64_t* const looked_up = indices.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < indices.numel(); ++i) {
    int32_t& place = places[static_cast<size_t>(looked_up[i])];
    if (place == 0) {
      found.rows.push_back(looked_up[i]);
      place = static_cast<int32_t>(found.rows.size());
    }
    compact.mutable_data_ptr<int64_t>()[i] = place - 1;
  }
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

}  // namespace estrain::train
