#pragma once
// The seal of a checkpoint: the user block in front of the HDF5 file, which covers every byte of it by a digest.
//
// HDF5 may crash on a damaged file, so nothing of a checkpoint reaches it that was not checked against the seal.
// Elements of datasets ("extents") have a digest each, checked when they are read; all other bytes, the structure,
// share one, checked when the file is opened. So sealing costs no second pass over the elements, neither when writing
// nor when reading. The layout of the block is in FORMAT.md.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace estrain::checkpoint {

// The elements of one dataset: where they stand in the file, and kernels::digest of them.
struct Extent {
  uint64_t offset;
  uint64_t bytes;
  uint64_t digest;

  bool operator==(const Extent&) const = default;
};

struct Seal {
  uint64_t user_block = 0;      // bytes of the seal itself, a power of two
  uint64_t length = 0;          // of the whole file
  uint64_t structure = 0;       // digest of all bytes behind the user block, those of extents taken as zeros
  std::vector<Extent> extents;  // by offset; none empty, none overlapping
};

// The smallest user block that has room for `num_extents`.
uint64_t user_block_for(size_t num_extents);

// The user block's bytes.
std::vector<std::byte> encode(const Seal& seal);

constexpr size_t seal_head_bytes = 64;
// Whether a file that starts with these seal_head_bytes bytes is sealed.
bool is_seal(const std::byte* head);
// The size of the user block that starts so. Throws Fault::corrupt for a size that cannot be.
uint64_t user_block_of(const std::byte* head, uint64_t file_length);

// Throws Fault::corrupt where the block is damaged or does not belong to a file of `file_length` bytes, Fault::mismatch
// where a newer estrain wrote it.
Seal decode(const std::vector<std::byte>& block, uint64_t file_length);

// The stretches of the file between and behind the extents.
struct Stretch {
  uint64_t offset;
  uint64_t bytes;
};
std::vector<Stretch> structure_of(const Seal& seal);
// What the stretch's bytes add to Seal::structure.
uint64_t digest_of(const Stretch& stretch, const std::byte* bytes);

}  // namespace estrain::checkpoint
