#include "kernels/loops/sum.h"

#include "kernels/loops/walks.h"

namespace estrain::kernels::ESTRAIN_ISA {

static uint64_t digest_words(const void* words, size_t n, uint64_t first_word) {
  const float* values = static_cast<const float*>(words);  // only loaded into registers: no word changes
  uint64_t sum = 0;
  for_digest_blocks(n, first_word, [&](size_t begin, size_t end, const uint32_t* table, uint64_t key) {
    Words block = no_words();
    for_vectors(begin, end,
                [&](size_t i, auto part) { block = add_weighted(block, part.read(values + i), table + (i - begin)); });
    sum += total(block) * key;
  });
  return sum;
}

// Writes at least 1 MiB past the caches, if dst is aligned and not src: nothing reads the sum before the next backward
// pass, and writing past the caches avoids reading memory first.
static void scale(float* dst, const float* src, float factor, size_t n) {
  const Floats factors = broadcast(factor);
  if (n < (1u << 18) || reinterpret_cast<uintptr_t>(dst) % (width * sizeof(float)) != 0 || dst == src) {
    for_vectors(0, n, [&](size_t i, auto part) { part.write(dst + i, part.read(src + i) * factors); });
    return;
  }
  for_vectors(0, n, [&](size_t i, auto part) { part.write_past_caches(dst + i, part.read(src + i) * factors); });
  fence();
}

static void add(float* dst, const float* a, const float* b, size_t n) {
  for_vectors(0, n, [&](size_t i, auto part) { part.write(dst + i, part.read(a + i) + part.read(b + i)); });
}

static void fold_scaled(float* dst, const float* const* operands, size_t num_operands, const float* src, float factor,
                        size_t n) {
  const Floats factors = broadcast(factor);
  for_vectors(0, n, [&](size_t i, auto part) {
    Floats sum = part.read(src + i) * factors;
    for (size_t k = num_operands; k-- > 0;) sum = part.read(operands[k] + i) + sum;
    part.write(dst + i, sum);
  });
}

static void add_zero(float* dst, const float* a, size_t n) {
  const Floats zero = broadcast(0.0f);
  for_vectors(0, n, [&](size_t i, auto part) { part.write(dst + i, part.read(a + i) + zero); });
}

extern const SumLoops sum_loops = {
    .digest_words = digest_words, .scale = scale, .add = add, .fold_scaled = fold_scaled, .add_zero = add_zero};

}  // namespace estrain::kernels::ESTRAIN_ISA
