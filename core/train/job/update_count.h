#pragma once
// The count of the updates that were applied to a parameter, which its optimizer goes by.

#include "core/train/job/job.h"

namespace estrain::train {

// A step's update counts for the parameters that some EST reached: torch.optim skips those without a gradient.
inline void count_update(const Job& job, std::byte* old_state, std::byte* new_state, size_t parameter, bool reached) {
  *job.updates(new_state, parameter) = *job.updates(old_state, parameter) + (reached ? 1 : 0);
}

}  // namespace estrain::train
