#pragma once
// Floats in fewer bytes, without loss, for links slower than the packing. For core/hosts/net alone.
//
// The exponents of neighbouring gradients are much alike: their 8 bits hold 2 to 3 bits of information. The exponents
// are Huffman coded, by zstd without its search for repeats; sign and mantissa go unchanged, in planes of their own:
//
//   the exponents, coded | for each float the low 16 bits of (mantissa, sign) | for each its high 8 bits
//
// where (mantissa, sign) are the bits of the float after the exponent, and then the sign.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace estrain::net {

class FloatPacker {
 public:
  FloatPacker();
  // Packs floats at any address, as bytes. Returns the packed bytes, valid until the next call, or nothing if the
  // packed bytes are not shorter by at least a sixteenth. Throws Fault::io if zstd has no memory.
  std::span<const std::byte> pack(std::span<const std::byte> floats);

 private:
  std::unique_ptr<ZSTD_CCtx_s, size_t (*)(ZSTD_CCtx_s*)> coder_;
  std::vector<std::byte> exponents_, packed_;
};

class FloatUnpacker {
 public:
  FloatUnpacker();
  // Fills `floats`. Throws Fault::corrupt if `packed` does not hold exactly these floats, and Fault::io as pack() does.
  // Reads and writes nothing beyond the two spans.
  void unpack(std::span<const std::byte> packed, std::span<std::byte> floats);

 private:
  std::unique_ptr<ZSTD_DCtx_s, size_t (*)(ZSTD_DCtx_s*)> coder_;
  std::vector<std::byte> exponents_;
};

}  // namespace estrain::net
