#pragma once
// Decompresses LZF, libLZF's format: runs of literal bytes, and copies of earlier ones. Internal to this folder.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace estrain::h5 {

// The bytes that come of it; nothing where it is no such data, or is cut short.
std::optional<size_t> lzf_size(std::span<const uint8_t> stored);
// `out` has room for lzf_size() bytes, which is not nothing.
void lzf_decompress(std::span<const uint8_t> stored, uint8_t* out);

}  // namespace estrain::h5
