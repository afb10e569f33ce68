#pragma once
// A hash of many bytes (FNV-1a, 64 bits), which tests compare instead of long lists from PyTorch.

#include <cstdint>
#include <cstring>
#include <span>

namespace estrain::data {

template <typename T>
uint64_t fnv(std::span<const T> values) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (std::byte byte : std::as_bytes(values)) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3u;
  return hash;
}

inline uint32_t bits(float value) {
  uint32_t result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

}  // namespace estrain::data
