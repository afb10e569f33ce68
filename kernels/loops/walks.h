#pragma once
// Walks over arrays in vectors, in code compiled per instruction set. ESTRAIN_ISA is the name of the instruction set,
// ESTRAIN_VECTORS the header of its vectors.

#include ESTRAIN_VECTORS
#include "kernels/digest_weights.h"

namespace estrain::kernels::ESTRAIN_ISA {

// A whole vector, or the partial last vector of an array. `Part` in the loops is Whole or Tail.
struct Whole {
  static inline Floats read(const float* from) { return load(from); }
  static inline void write(float* to, Floats x) { store(to, x); }
  static inline void write_past_caches(float* to, Floats x) { stream(to, x); }
  static inline Floats keep(Floats x) { return x; }
};
struct Tail {
  size_t n;
  inline Floats read(const float* from) const { return load(from, n); }
  inline void write(float* to, Floats x) const { store(to, x, n); }
  inline void write_past_caches(float* to, Floats x) const { store(to, x, n); }
  inline Floats keep(Floats x) const { return first(x, n); }  // zero after the end of the array
};

// Calls body(i, part) for each vector that starts at an element i of [begin, end).
template <typename Body>
static inline void for_vectors(size_t begin, size_t end, Body body) {
  size_t i = begin;
  for (; i + width <= end; i += width) body(i, Whole{});
  if (i < end) body(i, Tail{end - i});
}

// Calls body(begin, end, table, key) for each part of [0, n) in one block of the digest: element i of the part has the
// weight table[i - begin] * key.
template <typename Body>
static inline void for_digest_blocks(size_t n, uint64_t first_word, Body body) {
  for (size_t begin = 0; begin < n;) {
    const uint64_t word = first_word + begin;
    const size_t left = static_cast<size_t>(digest_block - word % digest_block);
    const size_t end = n - begin < left ? n : begin + left;
    body(begin, end, digest_table.entry + word % digest_block, digest_key(word / digest_block));
    begin = end;
  }
}

}  // namespace estrain::kernels::ESTRAIN_ISA
