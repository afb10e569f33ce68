#pragma once
// The sum of the gradients of all ESTs: each gradient is multiplied by 1/N, and the order of the additions is fixed.

#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::train {

struct GradientSum {
  comm::SumOrder order;
  int64_t ests;

  float factor() const { return 1.0f / static_cast<float>(ests); }
  comm::FoldPlan fold(EstRange own) const { return comm::plan_fold(order, ests, own); }
  comm::FinishPlan finish(const std::vector<EstRange>& ranges) const { return comm::plan_finish(order, ests, ranges); }
};

}  // namespace estrain::train
