#include "kernels/digest.h"

#include <cstring>

#include "kernels/digest_weights.h"
#include "kernels/loops/sum.h"

namespace estrain::kernels {
namespace {

constexpr DigestTable make_table() {
  DigestTable table = {};
  for (uint64_t j = 0; j < digest_block; ++j) table.entry[j] = static_cast<uint32_t>(splitmix64(j) >> 32) | 1;
  return table;
}

}  // namespace

constinit const DigestTable digest_table = make_table();

uint64_t digest(const void* data, size_t bytes, uint64_t first_word, Isa isa) {
  const size_t words = bytes / 4;
  uint64_t sum = sum_loops(isa).digest_words(data, words, first_word);
  if (bytes % 4 != 0) {
    uint32_t last = 0;
    std::memcpy(&last, static_cast<const char*>(data) + words * 4, bytes % 4);
    sum += sum_loops(isa).digest_words(&last, 1, first_word + words);
  }
  return sum;
}

uint64_t digest(const void* data, size_t bytes, uint64_t first_word) {
  return digest(data, bytes, first_word, best_isa());
}

}  // namespace estrain::kernels
