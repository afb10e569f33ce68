#pragma once
// Wakes a process that waits for an eventfd.

#include <unistd.h>

#include <cstdint>

namespace estrain::comm {

inline void ring(int bell) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t rung = ::write(bell, &one, sizeof one);
}

}  // namespace estrain::comm
