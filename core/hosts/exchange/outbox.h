#pragma once
// Frames to another host, in order.

#include <cstddef>
#include <span>
#include <vector>

#include "core/net/frame.h"

namespace estrain::hosts {

class Outbox {
 public:
  virtual ~Outbox() = default;
  // Of shared memory. The bytes stay as they are until the receiver has them, unless the stage is aborted, and then
  // nothing that follows from them is committed.
  virtual void send(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) = 0;
  virtual void send_copy(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) = 0;
};

}  // namespace estrain::hosts
