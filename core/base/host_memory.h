#pragma once
// Who gives memory of the host that a device copies from: ordinary memory would do, some is quicker.

#include <cstddef>
#include <functional>
#include <memory>

namespace estrain {

// So many bytes from a multiple of 64 on; null where there are none of this kind. Thread-safe. Empty: ordinary memory.
using HostMemory = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

}  // namespace estrain
