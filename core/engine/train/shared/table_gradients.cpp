#include "core/engine/train/shared/table_gradients.h"

#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/state/comm/sums/reduction_tree.h"
#include "kernels/sum.h"

namespace estrain::train {
namespace {

// Of smaller tables, or with more lookups for each row, whole gradients are about as fast.
constexpr int64_t kLeastElements = int64_t{1} << 18;
constexpr int64_t kRowsForLookup = 4;

bool may_be_table(const torch::Tensor& parameter) {
  return parameter.dim() == 2 && parameter.numel() >= kLeastElements;
}

bool looks_up_few_rows(const GradientFactors& factors, int64_t rows) {
  return factors.form == comm::FactorForm::embedding && !factors.scales_by_frequency && factors.right.numel() > 0 &&
         factors.right.numel() <= rows / kRowsForLookup;
}

}  // namespace

TableGradients::TableGradients(const std::vector<torch::Tensor>& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!may_be_table(parameters[i])) continue;
    tables_.push_back(i);
    tensors_.push_back(parameters[i]);
  }
  if (!tables_.empty()) watch_.emplace(tensors_);
}

TableGradients::Pass::~Pass() {
  for (const Cut& cut : cuts_) *cut.edge = cut.before;
}

TableGradients::Pass TableGradients::begin_pass(const torch::Tensor& loss, const FactorWatch::See& take) {
  Pass pass;
  if (is_idle()) return pass;
  std::vector<size_t> tables;
  std::vector<torch::Tensor> tensors;
  for (FactorWatch::Use& use : watch_->uses(loss)) {
    if (use.factors.form != comm::FactorForm::embedding) continue;
    const size_t parameter = tables_[use.parameter];
    tables.push_back(parameter);
    tensors.push_back(tensors_[use.parameter]);
    if (!looks_up_few_rows(use.factors, tensors.back().size(0))) continue;
    // The node computes no gradient for an edge that leads nowhere.
    torch::autograd::Edge& edge = use.node->next_edges()[use.output];
    pass.cuts_.push_back({&edge, std::exchange(edge, {})});
    FactorWatch::see(std::move(use),
                     [take, parameter](size_t, const GradientFactors& factors) { take(parameter, factors); });
  }
  if (std::exchange(is_first_, false)) {
    tables_ = std::move(tables);
    tensors_ = std::move(tensors);
    if (!tables_.empty()) watch_.emplace(tensors_);
  }
  return pass;
}

bool TableSums::can_fold(const Fold& fold) const {
  for (size_t i = 0; i < fold.sums.size(); ++i) {
    if (!touched_[fold.target + i].contains(fold.parameter)) return false;
  }
  return true;
}

void TableSums::fold(const Fold& fold, const GradientFactors& gradient, int64_t rows, int64_t width) {
  std::vector<int32_t>& places = places_[fold.parameter];
  places.resize(static_cast<size_t>(rows));
  const auto place_of = [&](int64_t row) -> int32_t& { return places[static_cast<size_t>(row)]; };

  // The gradient of a smaller table, which has the rows looked up alone: each row is the same sum.
  const torch::Tensor indices = gradient.right.to(torch::kLong).contiguous();
  torch::Tensor compact = torch::empty_like(indices);
  const int64_t* const looked_up = indices.const_data_ptr<int64_t>();
  Rows touched;
  for (int64_t i = 0; i < indices.numel(); ++i) {
    int32_t& place = place_of(looked_up[i]);
    if (place == 0) {
      touched.push_back(looked_up[i]);
      place = static_cast<int32_t>(touched.size());
    }
    compact.mutable_data_ptr<int64_t>()[i] = place - 1;
  }
  const int64_t padding = gradient.padding < 0 || gradient.padding >= rows ? -1 : place_of(gradient.padding) - 1;
  const torch::Tensor values = at::embedding_dense_backward(
      gradient.left, compact, static_cast<int64_t>(touched.size()), padding, /*scale_grad_by_freq=*/false);

  const size_t bytes_of_row = static_cast<size_t>(width) * sizeof(float);
  auto& of_target = touched_[fold.target];
  if (const auto before = of_target.find(fold.parameter); !fold.sums.empty()) {
    // The first of the sums, which is in the place of the result.
  } else if (before == of_target.end()) {
    std::memset(fold.out, 0, static_cast<size_t>(rows) * bytes_of_row);
  } else {
    for (const int64_t row : before->second) std::memset(fold.out + row * width, 0, bytes_of_row);
  }
  for (size_t i = 0; i < fold.sums.size(); ++i) {
    for (const int64_t row : touched_[fold.target + i].at(fold.parameter)) {
      if (place_of(row) != 0) continue;
      place_of(row) = -1;
      touched.push_back(row);
    }
  }
  of_target.erase(fold.parameter);

  const std::vector<float> zeros(static_cast<size_t>(width), 0.0f);
  std::array<const float*, comm::kDeepestStack> operands;
  for (const int64_t row : touched) {
    const int32_t place = std::exchange(place_of(row), 0);
    const float* const own = place > 0 ? values.const_data_ptr<float>() + (place - 1) * width : zeros.data();
    float* const out = fold.out + row * width;
    if (fold.sums.empty()) {
      kernels::scale(out, own, fold.factor, static_cast<size_t>(width));
      continue;
    }
    for (size_t i = 0; i < fold.sums.size(); ++i) operands[i] = fold.sums[i] + row * width;
    kernels::fold_scaled(out, operands.data(), fold.sums.size(), own, fold.factor, static_cast<size_t>(width));
  }
  of_target.emplace(fold.parameter, std::move(touched));
}

}  // namespace estrain::train
