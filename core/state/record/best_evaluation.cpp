#include "core/state/record/best_evaluation.h"

#include <cmath>

namespace estrain::record {

bool BestEvaluation::take(const EvaluationRecord& evaluation) {
  if (by_ == spec::Best::none || (by_ == spec::Best::accuracy && evaluation.predictions == 0)) return false;
  const double value = by_ == spec::Best::loss ? evaluation.loss : -evaluation.accuracy;
  if (std::isnan(value) || (step_ && value >= value_)) return false;
  step_ = evaluation.step;
  value_ = value;
  return true;
}

}  // namespace estrain::record
