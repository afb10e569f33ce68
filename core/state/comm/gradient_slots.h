#pragma once
// The gradients of a step in shared memory: slots of partial sums (reduction_tree.h), and norms of their sums. Slot
// numbers are handed out per stage. There are as many slots as ESTs, the most that any placement needs; memory is only
// taken by those that were ever written.

#include <cstdint>

#include "core/state/comm/memory/memory_header.h"
#include "core/state/comm/memory/shared_mapping.h"

namespace estrain::comm {

// A partial sum of the gradients of all parameters.
struct GradientSlot {
  float* values;
  uint8_t* presence;  // [parameters]: 1 where some EST below reached the parameter in this step
};

class GradientSlots {
 public:
  GradientSlots(SharedMapping& memory, const MemoryHeader& words) : memory_(memory), words_(words) {}

  GradientSlot operator[](int64_t slot) const;
  float* norms() const { return memory_.at<float>(words_.norms); }  // [parameters]: of the summed gradients
  // Gives back the memory of the slots from `first` on; they read as zero from now on.
  void release_from(int64_t first);

 private:
  SharedMapping& memory_;
  const MemoryHeader& words_;
};

}  // namespace estrain::comm
