#pragma once
// Floats in fewer bytes, without loss, for links that are slower than the packing. For core/hosts/net alone.
//
// The exponents of neighbouring gradients are much alike: of their 8 bits, 2 to 3 tell anything. They are Huffman
// coded, by zstd without its search for repeats; sign and mantissa go as they are, in planes of their own:
//
//   the exponents, coded | for each float the low 16 bits of (mantissa, sign) | for each its high 8 bits
//
// where (mantissa, sign) are the bits of the float behind the exponent, and the sign behind them.

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
  // Floats at any address, as bytes. Returns the packed bytes, which stay until the next call; nothing where they would
  // not be shorter by a sixteenth at least. Throws Fault::io where zstd has no memory.
  std::span<const std::byte> pack(std::span<const std::byte> floats);

 private:
  std::unique_ptr<ZSTD_CCtx_s, size_t (*)(ZSTD_CCtx_s*)> coder_;
  std::vector<std::byte> exponents_, packed_;
};

class FloatUnpacker {
 public:
  FloatUnpacker();
  // Writes as many floats as `floats` has room for. Throws Fault::corrupt where that is not what was packed, and
  // Fault::io as above. Reads and writes nothing beyond the two spans.
  void unpack(std::span<const std::byte> packed, std::span<std::byte> floats);

 private:
  std::unique_ptr<ZSTD_DCtx_s, size_t (*)(ZSTD_DCtx_s*)> coder_;
  std::vector<std::byte> exponents_;
};

}  // namespace estrain::net
