#include "core/hosts/net/packing/packed_floats.h"

#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_c_literalCompressionMode
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

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

// Visits blocks of floats: `visit(index of the first float, number of floats)`.
template <typename Visit>
void for_blocks(size_t floats, Visit&& visit) {
  for (size_t at = 0; at < floats; at += kAtATime) visit(at, std::min(kAtATime, floats - at));
}

}  // namespace

FloatPacker::FloatPacker() : coder_(required(::ZSTD_createCCtx()), ::ZSTD_freeCCtx) {
  ::ZSTD_CCtx_setParameter(coder_.get(), ZSTD_c_compressionLevel, kNoSearch);
  ::ZSTD_CCtx_setParameter(coder_.get(), ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
}

std::span<const std::byte> FloatPacker::pack(std::span<const std::byte> floats) {
  const size_t n = floats.size() / sizeof(float), plain = kPlainBytes * n;
  if (floats.size() % sizeof(float) != 0) return {};
  const size_t most_coded = n - n / 4;  // three quarters of a byte for each: a sixteenth of all is saved
  exponents_.resize(n);
  packed_.resize(most_coded + plain);
  for_blocks(n, [&](size_t at, size_t count) {
    auto* exponents = reinterpret_cast<uint8_t*>(exponents_.data()) + at;
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, floats.data() + (at + i) * sizeof bits, sizeof bits);
      exponents[i] = static_cast<uint8_t>(bits >> 23);
    }
  });
  const size_t coded = ::ZSTD_compress2(coder_.get(), packed_.data(), most_coded, exponents_.data(), n);
  if (::ZSTD_isError(coded) != 0) return {};
  std::byte* const low = packed_.data() + coded;
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
  return std::span(packed_).first(coded + plain);
}

FloatUnpacker::FloatUnpacker() : coder_(required(::ZSTD_createDCtx()), ::ZSTD_freeDCtx) {}

void FloatUnpacker::unpack(std::span<const std::byte> packed, std::span<std::byte> floats) {
  const size_t n = floats.size() / sizeof(float), plain = kPlainBytes * n;
  if (floats.size() % sizeof(float) != 0 || packed.size() < plain)
    throw Error::make(Fault::corrupt, "{} bytes do not hold {} packed floats", packed.size(), n);
  const size_t coded = packed.size() - plain;
  exponents_.resize(n);
  const size_t told = ::ZSTD_decompressDCtx(coder_.get(), exponents_.data(), n, packed.data(), coded);
  if (::ZSTD_isError(told) != 0 || told != n) throw Error(Fault::corrupt, "packed floats that cannot be unpacked");
  const std::byte* const low = packed.data() + coded;
  const std::byte* const high = low + 2 * n;
  for_blocks(n, [&](size_t at, size_t count) {
    const auto* exponents = reinterpret_cast<const uint8_t*>(exponents_.data()) + at;
    const auto* highs = reinterpret_cast<const uint8_t*>(high) + at;
    uint16_t lows[kAtATime];
    std::memcpy(lows, low + 2 * at, 2 * count);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t bits = std::rotr(uint32_t{exponents[i]} << 24 | uint32_t{highs[i]} << 16 | lows[i], 1);
      std::memcpy(floats.data() + (at + i) * sizeof bits, &bits, sizeof bits);
    }
  });
}

}  // namespace estrain::net
