#pragma once
// Allocates host memory that a device copies from. Ordinary memory works; page-locked memory is faster.

#include <cstddef>
#include <functional>
#include <memory>

namespace estrain {

// Allocates this many bytes at a multiple of 64; null without such memory. Thread-safe. Empty: ordinary memory.
using HostMemory = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

}  // namespace estrain
