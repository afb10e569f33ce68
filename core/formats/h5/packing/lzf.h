#pragma once
// Decompresses LZF, libLZF's format: runs of literal bytes, and copies of earlier bytes. Internal to this folder.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace estrain::h5 {

// Returns the size of the decompressed bytes; nothing for data other than LZF, or cut short.
std::optional<size_t> lzf_size(std::span<const uint8_t> stored);
// Decompresses into `out`, which has room for lzf_size() bytes. lzf_size() must have returned a size.
void lzf_decompress(std::span<const uint8_t> stored, uint8_t* out);

}  // namespace estrain::h5
