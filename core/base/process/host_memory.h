#pragma once
// A device's function that allocates host memory to copy from. Ordinary memory works; page-locked memory is faster.

#include <cstddef>
#include <functional>
#include <memory>

namespace estrain {

// Returns memory at a multiple of 64; null: refused. Null or an empty function: use ordinary memory. Thread-safe.
using HostMemory = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

}  // namespace estrain
