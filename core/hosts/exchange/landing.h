#pragma once
// The place for the payload of a frame, and the act that follows its arrival. Without `arrived` the payload is dropped.

#include <cstddef>
#include <functional>
#include <span>

namespace estrain::hosts {

struct Landing {
  std::span<std::byte> at = {};
  std::function<void()> arrived = {};
};

}  // namespace estrain::hosts
