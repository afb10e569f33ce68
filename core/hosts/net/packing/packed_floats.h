#pragma once
// Floats in fewer bytes, without loss. For core/hosts/net alone.
//
// A packed payload is
//
//   byte 0: 1: zeros are left out; 2: exponents are coded; 3: both | the map of zeros | the floats that are left
//
// Zeros: the gradient of an embedding has zeros in all rows that no sample of the step names. The floats are cut into
// blocks of 8, the last may be shorter. The map has a bit for each block, from the lowest bit of its first byte: 1 if
// the block has a bit that is not 0 (-0.0 has one). Blocks of zeros are left out. Looking for zeros costs less than
// sending them on any network.
//
// Exponents, for links slower than the coding: the exponents of neighbouring gradients are much alike: their 8 bits
// hold 2 to 3 bits of information. The exponents are Huffman coded, by zstd without its search for repeats; sign and
// mantissa go unchanged, in planes of their own:
//
//   the exponents, coded | for each float the low 16 bits of (mantissa, sign) | for each its high 8 bits
//
// where (mantissa, sign) are the bits of the float after the exponent, and then the sign.

#include <cstddef>
#include <span>
#include <vector>

namespace estrain::net {

// A LentBuffer is memory for a payload's packed or sealed bytes. Its end puts the memory aside for the next LentBuffer
// of the thread: of thousands of connections, few have such bytes on their way at a time.
class LentBuffer {
 public:
  LentBuffer();
  ~LentBuffer();
  LentBuffer(const LentBuffer&) = delete;

  // The same memory at each call, unless a call asks for more than all calls before. Undefined content.
  std::span<std::byte> first(size_t bytes);

 private:
  std::vector<std::byte> memory_;
};

class FloatPacker {
 public:
  // Packs floats at any address, as bytes. Exponents are coded if `codes`. Returns the packed bytes, valid until the
  // next call, or nothing if the packed bytes are not shorter by at least a sixteenth. Throws Fault::io if zstd has no
  // memory.
  std::span<const std::byte> pack(std::span<const std::byte> floats, bool codes);

 private:
  // Writes the coded floats to `to`. Returns the bytes written; 0: `to` is too small.
  size_t code(std::span<const std::byte> floats, std::span<std::byte> to);

  LentBuffer packed_;
};

// Fills `floats`. Throws Fault::corrupt if `packed` does not hold exactly these floats, and Fault::io as pack() does.
// Reads and writes nothing beyond the two spans.
void unpack_floats(std::span<const std::byte> packed, std::span<std::byte> floats);

}  // namespace estrain::net
