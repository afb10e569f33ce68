#include "core/state/record/tensorboard/crc32c.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace estrain::record {
namespace {

constexpr size_t kLanes = 8;
using Tables = std::array<std::array<uint32_t, 256>, kLanes>;

// tables[k][b]: the effect of byte b on the remainder when k bytes follow it.
constexpr Tables make_tables() {
  constexpr uint32_t polynomial = 0x82F63B78;
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? polynomial : 0);
    tables[0][byte] = rest;
  }
  for (size_t lane = 1; lane < kLanes; ++lane)
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[lane - 1][byte];
      tables[lane][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  return tables;
}

constexpr Tables kTables = make_tables();
static_assert(std::endian::native == std::endian::little);

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t rest = ~0u;
  for (; bytes.size() >= kLanes; bytes.remove_prefix(kLanes)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), kLanes);
    word ^= rest;
    rest = 0;
    for (size_t i = 0; i < kLanes; ++i) rest ^= kTables[kLanes - 1 - i][word >> (8 * i) & 0xFF];
  }
  for (const char byte : bytes) rest = (rest >> 8) ^ kTables[0][(rest ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~rest;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

}  // namespace estrain::record
