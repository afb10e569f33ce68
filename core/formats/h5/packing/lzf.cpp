#include "core/formats/h5/packing/lzf.h"

#include <cstring>

namespace estrain::h5 {
namespace {

// Calls literals(bytes, count) and copy(distance, count) in order. Returns false if the input ends within a part, or
// copy() returns false.
template <typename Literals, typename Copy>
bool for_each_part(std::span<const uint8_t> in, Literals literals, Copy copy) {
  constexpr size_t first_copy = 32, long_copy = 7, least_copy = 2;
  for (size_t at = 0; at < in.size();) {
    const size_t head = in[at++];
    if (head < first_copy) {
      const size_t count = head + 1;
      if (count > in.size() - at) return false;
      literals(in.data() + at, count);
      at += count;
      continue;
    }
    size_t count = head >> 5;
    if (in.size() - at < (count == long_copy ? 2u : 1u)) return false;
    if (count == long_copy) count += in[at++];
    const size_t distance = ((head & 31) << 8 | in[at++]) + 1;
    if (!copy(distance, count + least_copy)) return false;
  }
  return true;
}

}  // namespace

std::optional<size_t> lzf_size(std::span<const uint8_t> stored) {
  size_t size = 0;
  const bool whole = for_each_part(
      stored, [&](const uint8_t*, size_t count) { size += count; },
      [&](size_t distance, size_t count) {
        if (distance > size) return false;
        size += count;
        return true;
      });
  return whole ? std::optional(size) : std::nullopt;
}

void lzf_decompress(std::span<const uint8_t> stored, uint8_t* out) {
  for_each_part(
      stored,
      [&](const uint8_t* bytes, size_t count) {
        std::memcpy(out, bytes, count);
        out += count;
      },
      [&](size_t distance, size_t count) {
        for (; count > 0; --count, ++out) *out = *(out - distance);  // may overlap
        return true;
      });
}

}  // namespace estrain::h5
