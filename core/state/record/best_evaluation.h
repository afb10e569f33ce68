#pragma once
// Finds the best evaluation of a run so far, by checkpoint.best: the first among equals.

#include <optional>
#include <span>

#include "core/job/spec/job_spec.h"
#include "core/state/record/logs/step_record.h"

namespace estrain::record {

class BestEvaluation {
 public:
  explicit BestEvaluation(spec::Best by) : by_(by) {}

  // Returns true if the evaluation is the best now. NaN never is; without predictions an evaluation has no accuracy.
  bool take(const EvaluationRecord& evaluation);

  std::optional<Step> step() const { return step_; }

 private:
  spec::Best by_;
  std::optional<Step> step_;
  double value_ = 0;
};

}  // namespace estrain::record
