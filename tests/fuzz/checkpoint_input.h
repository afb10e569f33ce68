#pragma once
// Reads a checkpoint as a resume does.

#include <cstring>
#include <vector>

#include "core/state/checkpoint/bytes/seal.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {

// Opens, checks, and reads the whole state. False if refused.
inline bool read_whole_checkpoint(const std::string& path) {
  return accepts([&] {
    const auto file = checkpoint::CheckpointFile::open(path);
    file.verify();
    require(file.layout().bytes < (64 << 20), "what fits a small file is small");
    std::vector<uint64_t> state(file.layout().bytes / 8 + 1);
    file.read_state(file.layout(), reinterpret_cast<std::byte*>(state.data()));
  });
}

// Corrects the digests of the seal, if the header is valid: `everything`, or only the digest of the user block. Listed
// extents are unchanged.
inline std::string resealed(std::string bytes, bool everything) {
  using namespace checkpoint;
  auto* start = reinterpret_cast<std::byte*>(bytes.data());
  if (bytes.size() < 512 || !is_seal(start)) return bytes;
  uint32_t block_bytes;
  uint64_t num_extents, structure;
  std::memcpy(&block_bytes, start + 20, 4);
  std::memcpy(&num_extents, start + 32, 8);
  std::memcpy(&structure, start + 40, 8);
  if (block_bytes < 512 || (block_bytes & (block_bytes - 1)) != 0 || block_bytes > bytes.size()) return bytes;
  if (num_extents > (block_bytes - seal_head_bytes) / sizeof(Extent)) return bytes;
  Seal seal{block_bytes, bytes.size(), structure, std::vector<Extent>(num_extents)};
  if (num_extents > 0) std::memcpy(seal.extents.data(), start + seal_head_bytes, num_extents * sizeof(Extent));
  if (everything) {
    uint64_t from = block_bytes;
    for (const Extent& extent : seal.extents) {
      if (extent.offset < from || extent.bytes > bytes.size() || extent.offset > bytes.size() - extent.bytes)
        return bytes;
      from = extent.offset + extent.bytes;
    }
    seal.structure = 0;
    for (const FileStretch& stretch : structure_of(seal)) seal.structure += digest_of(stretch, start + stretch.offset);
  }
  const std::vector<std::byte> block = encode(seal);
  std::memcpy(start, block.data(), block.size());
  return bytes;
}

}  // namespace estrain::fuzz
