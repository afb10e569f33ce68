#include "core/state/comm/gradient_slots.h"

namespace estrain::comm {

GradientSlot GradientSlots::operator[](int64_t slot) const {
  const auto number = static_cast<uint64_t>(slot);
  return {memory_.at<float>(words_.gradients + number * words_.gradient_bytes),
          memory_.at<uint8_t>(words_.presence + number * static_cast<uint64_t>(words_.parameters))};
}

void GradientSlots::release_from(int64_t first) {
  const uint64_t offset = words_.gradients + static_cast<uint64_t>(first) * words_.gradient_bytes;
  const uint64_t end = words_.gradients + static_cast<uint64_t>(words_.ests) * words_.gradient_bytes;
  memory_.release(offset, end);
}

}  // namespace estrain::comm
