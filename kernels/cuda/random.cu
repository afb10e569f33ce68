// Random numbers from a counter (kernels/portable/random.h): a thread for each block of Philox, whose four words serve
// four elements 16 apart; so does it for dropout. A permutation is one thread's work: each of its steps depends on the
// one before.

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/families.h"
#include "kernels/portable/arithmetic/draws.h"

namespace estrain::kernels::cuda {
namespace {

using Arguments = RandomArguments;

// The element that takes word w of this thread's block.
__device__ int64_t element_of(int64_t block, int w) { return block / 16 * 64 + 16 * w + block % 16; }

// Formula::write(arguments, i, w, words) writes element i from word w of its block.
struct Uniform {
  static __device__ void write(const Arguments& a, int64_t i, int w, const PhiloxBlock& words) {
    a.out[i] = drawn_uniform(words.word[w], a.numbers[0], a.numbers[1]);
  }
};
struct Normal {
  static __device__ void write(const Arguments& a, int64_t i, int w, const PhiloxBlock& words) {
    const int h = w / 2 * 2;
    const NormalPair pair = drawn_normals(words.word[h], words.word[h + 1], a.numbers[0], a.numbers[1]);
    a.out[i] = w == h ? pair.first : pair.second;
  }
};
struct Bernoulli {
  static __device__ void write(const Arguments& a, int64_t i, int w, const PhiloxBlock& words) {
    a.out[i] = drawn_bernoulli(words.word[w], a.x == nullptr ? a.numbers[0] : a.x[i]);
  }
};
struct Exponential {
  static __device__ void write(const Arguments& a, int64_t i, int w, const PhiloxBlock& words) {
    a.out[i] = drawn_exponential(words.word[w], a.numbers[0]);
  }
};
struct Dropout {
  static __device__ void write(const Arguments& a, int64_t i, int w, const PhiloxBlock& words) {
    const bool kept = unit_below_one(words.word[w]) < a.numbers[0];
    a.out[i] = kept ? a.x[i] * a.numbers[1] : 0.0f;
    if (a.mask != nullptr) a.mask[i] = kept;
  }
};

template <typename Formula>
__global__ void draw_blocks(Arguments a) {
  const int64_t block = thread_index();
  if (element_of(block, 0) >= a.n) return;
  const PhiloxBlock words = philox_block(a.counter, static_cast<uint32_t>(block));
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const int64_t i = element_of(block, w);
    if (i < a.n) Formula::write(a, i, w, words);
  }
}

template <typename Formula>
void draw(const Arguments& a, const Execution& execution) {
  launch("random", queue_of(execution), grid_for((a.n + 63) / 64 * 16), draw_blocks<Formula>, a);
}

__global__ void apply_mask(float* out, const float* gradient, const bool* mask, int64_t n, float scale) {
  const int64_t i = thread_index();
  if (i < n) out[i] = mask[i] ? gradient[i] * scale : 0.0f;
}

void dropout_backward(float* out, const float* gradient, const bool* mask, int64_t n, float scale,
                      const Execution& execution) {
  launch("dropout_backward", queue_of(execution), grid_for(n), apply_mask, out, gradient, mask, n, scale);
}

__device__ uint64_t long_word(const PhiloxCounter& counter, int64_t i) {
  const PhiloxPlace place = philox_long_place(i);
  const PhiloxBlock words = philox_block(counter, place.block);
  return words.word[place.word] | static_cast<uint64_t>(words.word[place.word + 1]) << 32;
}

__global__ void draw_integers(int64_t* out, int64_t n, uint64_t lo, uint64_t range, PhiloxCounter counter) {
  const int64_t i = thread_index();
  if (i < n) out[i] = static_cast<int64_t>(lo + scaled_to_range(long_word(counter, i), range));
}

// The element that each i changes places with.
__global__ void draw_partners(int64_t* partners, int64_t n, PhiloxCounter counter) {
  const int64_t i = thread_index();
  if (i < n) {
    partners[i] = static_cast<int64_t>(scaled_to_range(long_word(counter, i), static_cast<uint64_t>(i) + 1));
  }
}

__global__ void exchange_partners(int64_t* out, const int64_t* partners, int64_t n) {
  if (threadIdx.x != 0) return;
  for (int64_t i = 0; i < n; ++i) out[i] = i;
  for (int64_t i = n - 1; i >= 0; --i) {
    const int64_t j = partners[i], x = out[i];
    out[i] = out[j];
    out[j] = x;
  }
}

}  // namespace

void random_integers(int64_t* out, int64_t n, int64_t lo, int64_t hi, const PhiloxCounter& counter,
                     const Execution& execution) {
  const uint64_t range = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);
  launch("random_integers", queue_of(execution), grid_for(n), draw_integers, out, n, static_cast<uint64_t>(lo), range,
         counter);
}

void permutation(int64_t* out, int64_t n, const PhiloxCounter& counter, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const Scratch<int64_t> partners(queue, n);
  launch("permutation_draws", queue, grid_for(n), draw_partners, partners.get(), n, counter);
  launch("permutation", queue, Grid{n > 0 ? 1 : 0, 32}, exchange_partners, out, partners.get(), n);
}

extern const RandomLoops random_kernels = {draw<Uniform>, draw<Normal>, draw<Bernoulli>, draw<Exponential>,
                                           draw<Dropout>, nullptr,      dropout_backward};

}  // namespace estrain::kernels::cuda
