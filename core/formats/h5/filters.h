#pragma once
// The filters through which chunks of a dataset were written: compression, checksums. Beside HDF5's own filters,
// estrain reads LZF, h5py's own filter. HDF5 would load any other filter from the folders in HDF5_PLUGIN_PATH, with
// code that then runs in this process: HDF5 loads filters only once allowed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace estrain::h5 {

// Lets this process load plugins from now on.
void allow_plugins();

// The rest is internal to this folder.

// For the start of a process: registers LZF, and loads no plugins.
void set_up_filters();

inline constexpr int kLzf = 32000;  // HDF5's number of LZF

struct ChunkFilter {
  int id;
  std::string name;                     // as stored; may be empty
  std::array<unsigned, 3> values = {};  // the first parameters; a parameter that the file lacks is 0
};
// In the order of writing. Empty for a contiguous dataset.
std::vector<ChunkFilter> filters_of(int64_t dataset, const std::string& where);
// Returns the bytes of a whole chunk before the filters; UINT64_MAX for more than can be counted.
uint64_t bytes_of_chunk(int64_t dataset, const std::string& where);

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
