#pragma once
// Gradients of tables of embeddings by rows. The gradient of a table is zero in all rows that a mini-batch has not
// looked up. If these are most rows of a large table, the backward pass does not compute the gradient: the rows looked
// up and the gradients of the outputs (gradient_factors.h) go to the fold of the sums, which keeps sums by rows
// (row_sums.h).

#include <torch/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "core/engine/train/shared/gradient_factors.h"

namespace estrain::train {

class TableGradients {
 public:
  // Finds the tables among these parameters in the first pass.
  explicit TableGradients(const std::vector<torch::Tensor>& parameters);

  // No later pass has gradients of tables by rows.
  bool is_idle() const { return !watch_; }

  // Before the backward pass of `loss`: the pass will call `take` for each table of which the mini-batch has looked up
  // few rows, instead of computing the gradient, while the result lives. `parameter`: as in the constructor's list.
  [[nodiscard]] FactorWatch::Cuts begin_pass(const torch::Tensor& loss, const FactorWatch::See& take);

 private:
  void look_at(std::vector<size_t> tables);

  const std::vector<torch::Tensor> parameters_;
  std::vector<size_t> tables_;        // parameters
  std::optional<FactorWatch> watch_;  // of tables_; nothing: there are none
  bool is_first_ = true;
};

}  // namespace estrain::train
