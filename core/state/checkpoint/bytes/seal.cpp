#include "core/state/checkpoint/bytes/seal.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/error.h"
#include "kernels/digest.h"

namespace estrain::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

// The magic contains each kind of line end and an end-of-file mark, so that copying as text damages the magic.
constexpr char magic[16] = {'e', 's', 't', 'r', 'a', 'i', 'n', '-', 's', 't', 'a', 't', 'e', '\r', '\n', '\x1a'};
constexpr uint32_t current_version = 1;
constexpr uint64_t smallest_block = 512;

struct Head {
  char magic[16];
  uint32_t version;
  uint32_t user_block;
  uint64_t length;
  uint64_t num_extents;
  uint64_t structure;
  uint64_t block_digest;  // of the user block, with zero for this field
  uint64_t reserved;
};
static_assert(sizeof(Head) == seal_head_bytes);
static_assert(sizeof(Extent) == 24);

Head head_of(const std::byte* bytes) {
  Head head;
  std::memcpy(&head, bytes, sizeof head);
  return head;
}

uint64_t block_digest(std::vector<std::byte> block) {
  Head head = head_of(block.data());
  head.block_digest = 0;
  std::memcpy(block.data(), &head, sizeof head);
  return kernels::digest(block.data(), block.size());
}

void require_ordered(const Seal& seal) {
  uint64_t free_from = seal.user_block;
  for (const Extent& extent : seal.extents) {
    if (extent.offset < free_from || extent.bytes == 0 || extent.bytes > seal.length ||
        extent.offset > seal.length - extent.bytes)
      throw Error(Fault::corrupt, "the seal lists elements that overlap or lie outside the file");
    free_from = extent.offset + extent.bytes;
  }
}

}  // namespace

uint64_t user_block_for(size_t num_extents) {
  return std::max(smallest_block, std::bit_ceil(seal_head_bytes + num_extents * sizeof(Extent)));
}

std::vector<std::byte> encode(const Seal& seal) {
  std::vector<std::byte> block(seal.user_block);
  Head head{};
  std::memcpy(head.magic, magic, sizeof magic);
  head.version = current_version;
  head.user_block = static_cast<uint32_t>(seal.user_block);
  head.length = seal.length;
  head.num_extents = seal.extents.size();
  head.structure = seal.structure;
  std::memcpy(block.data(), &head, sizeof head);
  if (!seal.extents.empty())
    std::memcpy(block.data() + sizeof head, seal.extents.data(), seal.extents.size() * sizeof(Extent));
  head.block_digest = block_digest(block);
  std::memcpy(block.data(), &head, sizeof head);
  return block;
}

bool is_seal(const std::byte* head) { return std::memcmp(head, magic, sizeof magic) == 0; }

uint64_t user_block_of(const std::byte* head, uint64_t file_length) {
  const uint64_t size = head_of(head).user_block;
  if (size < smallest_block || !std::has_single_bit(size)) throw Error(Fault::corrupt, "its seal is damaged");
  if (size > file_length) throw Error::make(Fault::corrupt, "truncated: only {} bytes are left", file_length);
  return size;
}

Seal decode(const std::vector<std::byte>& block, uint64_t file_length) {
  const Head head = head_of(block.data());
  if (head.block_digest != block_digest(block)) throw Error(Fault::corrupt, "its seal is damaged");
  if (head.version != current_version)
    throw Error::make(Fault::mismatch, "written in format {}; this estrain reads format {}", head.version,
                      current_version);
  if (head.length != file_length)
    throw Error::make(Fault::corrupt, "truncated or extended: {} bytes, sealed with {}", file_length, head.length);
  if (head.num_extents > (block.size() - sizeof head) / sizeof(Extent))
    throw Error(Fault::corrupt, "its seal is damaged");
  Seal seal = {block.size(), head.length, head.structure, std::vector<Extent>(head.num_extents)};
  if (!seal.extents.empty())
    std::memcpy(seal.extents.data(), block.data() + sizeof head, seal.extents.size() * sizeof(Extent));
  require_ordered(seal);
  return seal;
}

std::vector<FileStretch> structure_of(const Seal& seal) {
  std::vector<FileStretch> stretches;
  uint64_t from = seal.user_block;
  const auto add_until = [&](uint64_t end) {
    if (end > from) stretches.push_back({from, end - from});
  };
  for (const Extent& extent : seal.extents) {
    add_until(extent.offset);
    from = extent.offset + extent.bytes;
  }
  add_until(seal.length);
  return stretches;
}

uint64_t digest_of(const FileStretch& stretch, const std::byte* bytes) {
  const uint64_t lead = stretch.offset % 4;  // bytes of the first word that belong to an extent
  std::vector<std::byte> words(lead + stretch.bytes);
  std::memcpy(words.data() + lead, bytes, stretch.bytes);
  return kernels::digest(words.data(), words.size(), stretch.offset / 4);
}

}  // namespace estrain::checkpoint
