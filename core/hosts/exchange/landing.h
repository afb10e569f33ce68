#pragma once
// Where the payload of a frame goes, and what follows once it is there. Without `arrived` it is read and dropped.

#include <cstddef>
#include <functional>
#include <span>

namespace estrain::hosts {

struct Landing {
  std::span<std::byte> at = {};
  std::function<void()> arrived = {};
};

}  // namespace estrain::hosts
