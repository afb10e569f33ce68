#include "core/data/files/python_order.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace estrain::data {
namespace {

struct CodePoint {
  uint32_t value;
  size_t bytes;
};

// The bytes of a sequence by its first byte; 0 where none begins so.
size_t length_of(uint8_t first) {
  return first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

CodePoint first_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const CodePoint alone = {0xdc00u + byte(0), 1};
  const size_t length = length_of(byte(0));
  if (length == 1) return {byte(0), 1};
  if (length == 0 || length > text.size()) return alone;
  uint32_t value = byte(0) & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return alone;
    value = value << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<uint32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xd800 && value < 0xe000;
  return value < least[length] || value > 0x10ffff || is_surrogate ? alone : CodePoint{value, length};
}

}  // namespace

bool python_sorts_before(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const CodePoint x = first_of(a), y = first_of(b);
    if (x.value != y.value) return x.value < y.value;
    a.remove_prefix(x.bytes), b.remove_prefix(y.bytes);
  }
  return a.empty() && !b.empty();
}

}  // namespace estrain::data
