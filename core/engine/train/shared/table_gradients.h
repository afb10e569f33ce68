#pragma once
// Gradients of tables of embeddings by rows. The gradient of a table is zero in all rows that a mini-batch has not
// looked up. If these are most rows of a large table, the backward pass does not compute the gradient: the rows looked
// up and the gradients of the outputs (gradient_factors.h) go to the fold of the sums, which reads and writes the rows
// looked up alone.

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/engine/train/shared/gradient_factors.h"
#include "core/state/comm/sums/reduction_tree.h"

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

// A worker's sums of the gradients of tables: knows which rows of a sum may differ from zero.
class TableSums {
 public:
  // The partial sums that an EST's gradient is added to, outermost first, as for est::fold(). `out`: where the result
  // goes, in slot number `target` of this worker; sum i has slot number target + i.
  struct Fold {
    size_t parameter = 0, target = 0;
    std::vector<const float*> sums = {};
    float* out = nullptr;
    float factor = 1;
  };

  explicit TableSums(size_t slots) : touched_(slots) {}

  // Forgets which rows of a sum differ from zero: the sum is written as a whole.
  void forget(size_t slot, size_t parameter) { touched_[slot].erase(parameter); }
  void forget(size_t slot) { touched_[slot].clear(); }
  // Returns whether the rows of all sums of a fold are known.
  bool can_fold(const Fold& fold) const;
  // Adds the gradient of a table, [rows, width], whose factors are those of an embedding: the bits of est::fold().
  // Reads and writes the rows that differ from zero. If no row of `out` is known, first fills `out` with zeros.
  void fold(const Fold& fold, const GradientFactors& gradient, int64_t rows, int64_t width);

  using Rows = std::vector<int64_t>;
  using Places = std::vector<int32_t>;  // [row]
  // Appends the rows that have no place yet to `rows`, and returns the place of each row looked up. Leaves the places,
  // counted from 1, in `places`.
  static torch::Tensor places_of(const torch::Tensor& looked_up, Rows& rows, Places& places);

 private:
  struct RowValues {
    Rows rows;             // each once
    torch::Tensor values;  // float32 [row, width]
  };

  // Leaves the place of each row in `places`, counted from 1.
  static RowValues rows_of(const GradientFactors& gradient, Places& places);
  void clear(const Fold& fold, int64_t rows, int64_t width);

  std::vector<std::unordered_map<size_t, Rows>> touched_;  // [slot][parameter]: all other rows are zeros
  std::unordered_map<size_t, Places> places_;              // [parameter]: zeros between two folds
};

// The sum of a table's gradients over all ESTs of a job, from the factors of all ESTs.
class FactoredTable {
 public:
  // Returns whether the gradient of these factors can be summed by rows.
  static bool takes(const GradientFactors& factors) {
    return factors.form == comm::FactorForm::embedding && !factors.scales_by_frequency;
  }

  // `sizes`: of the table. `plan`: of a worker that has all ESTs. Each gradient is multiplied by `factor`.
  FactoredTable(at::IntArrayRef sizes, comm::FoldPlan plan, float factor);

  // Leaves the sum in `out`, where the call before has left its sum: writes the rows that differ from zero, and those
  // of the call before. The first call writes all rows. `of_ests`: [virtual rank].
  void sum(std::vector<GradientFactors> of_ests, float* out);

 private:
  const int64_t rows_, width_;
  const comm::FoldPlan plan_;
  const float factor_;
  TableSums::Places places_;  // zeros between two calls
  std::optional<TableSums::Rows> before_;
};

}  // namespace estrain::train
