#pragma once
// Frames to another host, in order.

#include <cstddef>
#include <span>
#include <vector>

#include "core/hosts/net/frame.h"

namespace estrain::hosts {

class StepOutbox {
 public:
  virtual ~StepOutbox() = default;
  // Sends from shared memory. The bytes do not change until the receiver has them. After an abort of the stage the
  // bytes may change, but then no result of the bytes is committed.
  virtual void send(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) = 0;
  virtual void send_copy(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) = 0;
};

}  // namespace estrain::hosts
