#include "core/hosts/net/packing/packed_floats.h"

#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_c_literalCompressionMode
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>

#include "core/base/error.h"

namespace estrain::net {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr size_t kAtATime = 256;   // floats: the planes' sources stay in registers and the first cache
constexpr int kNoSearch = -1000;   // a level at which zstd searches for no repeats
constexpr size_t kPlainBytes = 3;  // of a float that are not coded

template <typename Context>
Context* required(Context* made) {
  if (made == nullptr) throw Error(Fault::io, "zstd has no memory");
  return made;
}

// Room for one call, kept for the next call: a process has thousands of connections, and packs for one at a time.
struct Scratch {
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> coder{required(::ZSTD_createCCtx()), ::ZSTD_freeCCtx};
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> decoder{required(::ZSTD_createDCtx()), ::ZSTD_freeDCtx};
  std::vector<std::byte> exponents, left;

  Scratch() {
    ::ZSTD_CCtx_setParameter(coder.get(), ZSTD_c_compressionLevel, kNoSearch);
    ::ZSTD_CCtx_setParameter(coder.get(), ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
  }
};

Scratch& scratch_of_thread() {
  static thread_local Scratch scratch;
  return scratch;
}

enum Part : uint8_t { zeros_left_out = 1, exponents_coded = 2 };

constexpr size_t kBlock = 8 * sizeof(float);
constexpr size_t kSamples = 256;   // blocks that are looked at first
constexpr size_t kSparsePart = 4;  // at least a quarter of the samples are zeros
using Bytes = std::span<const std::byte>;

size_t blocks_in(size_t bytes) { return (bytes + kBlock - 1) / kBlock; }
size_t map_bytes(size_t bytes) { return (blocks_in(bytes) + 7) / 8; }

Bytes block_of(Bytes bytes, size_t i) { return bytes.subspan(i * kBlock, std::min(kBlock, bytes.size() - i * kBlock)); }

bool is_zero(Bytes block) {
  if (block.size() != kBlock) return std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0}; });
  uint64_t words[kBlock / sizeof(uint64_t)], any = 0;
  std::memcpy(words, block.data(), sizeof words);
  for (const uint64_t word : words) any |= word;
  return any == 0;
}

// Whether blocks spread over `floats` tell that leaving zeros out is worth a pass over all.
bool seems_sparse(Bytes floats) {
  const size_t blocks = blocks_in(floats.size()), samples = std::min(blocks, kSamples);
  size_t zeros = 0;
  for (size_t i = 0; i < samples; ++i) zeros += static_cast<size_t>(is_zero(block_of(floats, i * blocks / samples)));
  return kSparsePart * zeros >= samples && samples > 0;
}

// Writes the map of zeros to `map` and the other blocks to `left`. Each whole block is copied, and the copy of a block
// of zeros is written over: no branch depends on the floats.
void leave_zeros_out(Bytes floats, std::byte* map, std::vector<std::byte>& left) {
  const size_t whole = floats.size() / kBlock;
  left.resize(floats.size() + kBlock);
  std::memset(map, 0, map_bytes(floats.size()));
  size_t kept = 0;
  for (size_t i = 0; i < whole; ++i) {
    const std::byte* const block = floats.data() + i * kBlock;
    const size_t stays = is_zero(Bytes(block, kBlock)) ? 0 : 1;
    map[i / 8] |= static_cast<std::byte>(stays << (i % 8));
    std::memcpy(left.data() + kept, block, kBlock);
    kept += stays * kBlock;
  }
  if (const Bytes last = floats.subspan(whole * kBlock); !is_zero(last)) {
    map[whole / 8] |= static_cast<std::byte>(1U << (whole % 8));
    std::memcpy(left.data() + kept, last.data(), last.size());
    kept += last.size();
  }
  left.resize(kept);
}

bool stands_in(Bytes map, size_t block) {
  return (map[block / 8] & static_cast<std::byte>(1U << (block % 8))) != std::byte{0};
}

// The bytes that `map` leaves of `bytes`.
size_t bytes_left(Bytes map, size_t bytes) {
  size_t left = 0;
  for (size_t i = 0; i < blocks_in(bytes); ++i)
    if (stands_in(map, i)) left += std::min(kBlock, bytes - i * kBlock);
  return left;
}

void put_zeros_back(Bytes map, Bytes left, std::span<std::byte> floats) {
  std::memset(floats.data(), 0, floats.size());
  for (size_t i = 0; i < blocks_in(floats.size()); ++i) {
    if (!stands_in(map, i)) continue;
    const size_t bytes = std::min(kBlock, floats.size() - i * kBlock);
    std::memcpy(floats.data() + i * kBlock, left.data(), bytes);
    left = left.subspan(bytes);
  }
}

// Visits blocks of floats: `visit(index of the first float, number of floats)`.
template <typename Visit>
void for_blocks(size_t floats, Visit&& visit) {
  for (size_t at = 0; at < floats; at += kAtATime) visit(at, std::min(kAtATime, floats - at));
}

constexpr size_t kMostPutAside = 4;
std::vector<std::vector<std::byte>>& put_aside() {
  static thread_local std::vector<std::vector<std::byte>> buffers;
  return buffers;
}

}  // namespace

LentBuffer::LentBuffer() {
  if (put_aside().empty()) return;
  memory_ = std::move(put_aside().back());
  put_aside().pop_back();
}

LentBuffer::~LentBuffer() {
  if (!memory_.empty() && put_aside().size() < kMostPutAside) put_aside().push_back(std::move(memory_));
}

std::span<std::byte> LentBuffer::first(size_t bytes) {
  if (memory_.size() < bytes) memory_ = std::vector<std::byte>(bytes);
  return std::span(memory_).first(bytes);
}

Bytes FloatPacker::pack(Bytes floats, bool codes) {
  if (floats.size() % sizeof(float) != 0) return {};
  const bool sparse = seems_sparse(floats);
  if (floats.empty() || (!sparse && !codes)) return {};
  const size_t most = floats.size() - floats.size() / 16, map = sparse ? map_bytes(floats.size()) : 0;
  const std::span<std::byte> packed = packed_.first(1 + map + floats.size());
  if (sparse) {
    std::vector<std::byte>& left = scratch_of_thread().left;
    leave_zeros_out(floats, packed.data() + 1, left);
    floats = left;
  }
  const std::span<std::byte> rest = packed.subspan(1 + map);
  const size_t coded = codes ? code(floats, rest.first(floats.size() - floats.size() / 16)) : 0;
  if (coded == 0 && !sparse) return {};
  if (coded == 0 && !floats.empty()) std::memcpy(rest.data(), floats.data(), floats.size());
  const size_t whole = 1 + map + (coded != 0 ? coded : floats.size());
  packed[0] = static_cast<std::byte>((sparse ? zeros_left_out : 0) | (coded != 0 ? exponents_coded : 0));
  return whole > most ? Bytes{} : packed.first(whole);
}

size_t FloatPacker::code(Bytes floats, std::span<std::byte> to) {
  const size_t n = floats.size() / sizeof(float), plain = kPlainBytes * n;
  if (to.size() <= plain) return 0;
  Scratch& scratch = scratch_of_thread();
  scratch.exponents.resize(n);
  for_blocks(n, [&](size_t at, size_t count) {
    auto* exponents = reinterpret_cast<uint8_t*>(scratch.exponents.data()) + at;
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, floats.data() + (at + i) * sizeof bits, sizeof bits);
      exponents[i] = static_cast<uint8_t>(bits >> 23);
    }
  });
  const size_t coded = ::ZSTD_compress2(scratch.coder.get(), to.data(), to.size() - plain, scratch.exponents.data(), n);
  if (::ZSTD_isError(coded) != 0) return 0;
  std::byte* const low = to.data() + coded;
  std::byte* const high = low + 2 * n;
  for_blocks(n, [&](size_t at, size_t count) {
    uint16_t lows[kAtATime];
    uint8_t highs[kAtATime];
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, floats.data() + (at + i) * sizeof bits, sizeof bits);
      bits = std::rotl(bits, 1);
      lows[i] = static_cast<uint16_t>(bits);
      highs[i] = static_cast<uint8_t>(bits >> 16);
    }
    std::memcpy(low + 2 * at, lows, 2 * count);
    std::memcpy(high + at, highs, count);
  });
  return coded + plain;
}

namespace {

void decode(Bytes packed, std::span<std::byte> floats) {
  const size_t n = floats.size() / sizeof(float), plain = kPlainBytes * n;
  if (packed.size() < plain)
    throw Error::make(Fault::corrupt, "{} bytes do not hold {} packed floats", packed.size(), n);
  const size_t coded = packed.size() - plain;
  Scratch& scratch = scratch_of_thread();
  scratch.exponents.resize(n);
  const size_t told = ::ZSTD_decompressDCtx(scratch.decoder.get(), scratch.exponents.data(), n, packed.data(), coded);
  if (::ZSTD_isError(told) != 0 || told != n) throw Error(Fault::corrupt, "packed floats that cannot be unpacked");
  const std::byte* const low = packed.data() + coded;
  const std::byte* const high = low + 2 * n;
  for_blocks(n, [&](size_t at, size_t count) {
    const auto* exponents = reinterpret_cast<const uint8_t*>(scratch.exponents.data()) + at;
    const auto* highs = reinterpret_cast<const uint8_t*>(high) + at;
    uint16_t lows[kAtATime];
    std::memcpy(lows, low + 2 * at, 2 * count);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t bits = std::rotr(uint32_t{exponents[i]} << 24 | uint32_t{highs[i]} << 16 | lows[i], 1);
      std::memcpy(floats.data() + (at + i) * sizeof bits, &bits, sizeof bits);
    }
  });
}

}  // namespace

void unpack_floats(Bytes packed, std::span<std::byte> floats) {
  const auto wrong = [&] {
    return Error::make(Fault::corrupt, "{} bytes do not hold {} packed bytes", packed.size(), floats.size());
  };
  const auto parts = packed.empty() ? uint8_t{0} : static_cast<uint8_t>(packed[0]);
  const bool sparse = (parts & zeros_left_out) != 0, coded = (parts & exponents_coded) != 0;
  const size_t map_size = sparse ? map_bytes(floats.size()) : 0;
  if (parts == 0 || parts > (zeros_left_out | exponents_coded) || floats.size() % sizeof(float) != 0 ||
      packed.size() < 1 + map_size)
    throw wrong();
  const Bytes map = packed.subspan(1, map_size);
  Bytes rest = packed.subspan(1 + map_size);
  const size_t left = sparse ? bytes_left(map, floats.size()) : floats.size();
  if (!coded && rest.size() != left) throw wrong();
  if (!sparse) return decode(rest, floats);
  if (coded) {
    std::vector<std::byte>& whole = scratch_of_thread().left;
    whole.resize(left);
    decode(rest, whole);
    rest = whole;
  }
  put_zeros_back(map, rest, floats);
}

}  // namespace estrain::net
