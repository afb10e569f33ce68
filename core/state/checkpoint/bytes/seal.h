#pragma once
// The seal of a checkpoint: the user block in front of the HDF5 file. Its digests cover every byte.
//
// HDF5 may crash on a damaged file, so everything in a checkpoint is checked against the seal before HDF5 reads it. The
// elements of each dataset (an "extent") have their own digest, checked when the elements are read. All other bytes,
// the structure, share one digest, checked when the file is opened. So sealing needs no second pass over the elements,
// neither for writing nor for reading. FORMAT.md has the layout of the block.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace estrain::checkpoint {

// The elements of one dataset: their place in the file, and the kernels::digest of the elements.
struct Extent {
  uint64_t offset;
  uint64_t bytes;
  uint64_t digest;

  bool operator==(const Extent&) const = default;
};

struct Seal {
  uint64_t user_block = 0;      // bytes of the seal itself, a power of two
  uint64_t length = 0;          // of the whole file
  uint64_t structure = 0;       // digest of all bytes after the user block, with zeros for extents
  std::vector<Extent> extents;  // by offset; none empty, none overlapping
};

// The smallest user block with space for `num_extents`.
uint64_t user_block_for(size_t num_extents);

// The user block's bytes.
std::vector<std::byte> encode(const Seal& seal);

constexpr size_t seal_head_bytes = 64;
// Tells whether a file that starts with these seal_head_bytes bytes is sealed.
bool is_seal(const std::byte* head);
// Returns the size of the user block that starts with `head`. Throws Fault::corrupt for an impossible size.
uint64_t user_block_of(const std::byte* head, uint64_t file_length);

// Throws Fault::corrupt if the block is damaged or does not belong to a file of `file_length` bytes, Fault::mismatch if
// a newer estrain wrote the block.
Seal decode(const std::vector<std::byte>& block, uint64_t file_length);

// The parts of the file between and after the extents.
struct FileStretch {
  uint64_t offset;
  uint64_t bytes;
};
std::vector<FileStretch> structure_of(const Seal& seal);
// The contribution of the stretch's bytes to Seal::structure.
uint64_t digest_of(const FileStretch& stretch, const std::byte* bytes);

}  // namespace estrain::checkpoint
