#pragma once
// The filters through which chunks of a dataset were written: compression, checksums. Beside HDF5's own filters,
// estrain reads LZF, h5py's own filter. HDF5 would load any other filter from the folders in HDF5_PLUGIN_PATH, with
// code that then runs in this process: HDF5 loads filters only once allowed.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace estrain::h5 {

// Lets this process load plugins from now on.
void allow_plugins();

// The rest is internal to this folder.

// For the start of a process: registers LZF, and loads no plugins.
void set_up_filters();

// Throws Fault::mismatch naming the first unavailable filter of an open dataset, and as require_whole_chunks().
void require_filters(int64_t dataset, const std::string& where);
// Throws Fault::corrupt for an open dataset that declares smaller chunks to LZF than it has. HDF5 reads a whole chunk
// from what LZF returns.
void require_whole_chunks(int64_t dataset, const std::string& where);

// LZF is libLZF's format: runs of literal bytes, and copies of earlier bytes.
// Returns the size of the decompressed bytes; nothing for data other than LZF, or cut short.
std::optional<size_t> lzf_size(std::span<const uint8_t> stored);
// Decompresses into `out`, which has room for lzf_size() bytes. lzf_size() must have returned a size.
void lzf_decompress(std::span<const uint8_t> stored, uint8_t* out);

}  // namespace estrain::h5
