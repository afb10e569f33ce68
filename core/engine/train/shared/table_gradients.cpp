#include "core/engine/train/shared/table_gradients.h"

#include <torch/csrc/autograd/function.h>

#include <utility>

#include "core/engine/train/shared/row_sums.h"
#include "core/engine/train/state/model_places.h"

namespace estrain::train {
namespace {

// With more lookups for each row, whole gradients are about as fast.
constexpr int64_t kRowsForLookup = 4;

bool looks_up_few_rows(const GradientFactors& factors, int64_t rows) {
  return takes_rows(factors, rows) && factors.right.numel() > 0 && factors.right.numel() <= rows / kRowsForLookup;
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

}  // namespace estrain::train
