#pragma once
// The gradients of a step in shared memory: slots of partial sums (reduction_tree.h), and norms of the summed
// gradients. Slot numbers are assigned per stage. The memory has as many slots as ESTs, the most for any placement;
// only written slots take memory.

#include <cstdint>

#include "core/state/comm/memory/memory_header.h"
#include "core/state/comm/memory/shared_mapping.h"

namespace estrain::comm {

// A partial sum of the gradients of all parameters.
struct GradientSlot {
  float* values;
  uint8_t* presence;  // [parameters]: 1 where an EST below reached the parameter in this step
};

class GradientSlots {
 public:
  GradientSlots(SharedMapping& memory, const MemoryHeader& words) : memory_(memory), words_(words) {}

  GradientSlot operator[](int64_t slot) const;
  float* norms() const { return memory_.at<float>(words_.norms); }  // [parameters]: of the summed gradients
  // Gives back the memory of the slots from `first` on; these slots read as zero from now on.
  void release_from(int64_t first);

 private:
  SharedMapping& memory_;
  const MemoryHeader& words_;
};

}  // namespace estrain::comm
