// Random numbers from a counter (kernels/portable/random.h): one thread per Philox block, whose four words serve four
// elements 16 apart; the same for dropout. One warp makes a permutation, since each step depends on earlier steps on
// the same elements.

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/fours.h"
#include "kernels/cuda/lanes.h"
#include "kernels/portable/arithmetic/draws.h"

namespace estrain::kernels::cuda {
namespace {

using Arguments = RandomArguments;

// Returns the element for word w of this thread's block.
__device__ int64_t element_of(int64_t block, int w) { return block / 16 * 64 + 16 * w + block % 16; }

// Formula::write(arguments, i, w, words, x) writes element i from word w of its block and, if reads() is true, input x.
struct Uniform {
  static __device__ bool reads(const Arguments&) { return false; }
  static __device__ void write(const Arguments& a, int64_t i, int w, const PhiloxBlock& words, float) {
    a.out[i] = drawn_uniform(words.word[w], a.numbers[0], a.numbers[1]);
  }
};
struct Normal {
  static __device__ bool reads(const Arguments&) { return false; }
  static __device__ void write(const Arguments& a, int64_t i, int w, const PhiloxBlock& words, float) {
    const int h = w / 2 * 2;
    const NormalPair pair = drawn_normals(words.word[h], words.word[h + 1], a.numbers[0], a.numbers[1]);
    a.out[i] = w == h ? pair.first : pair.second;
  }
};
struct Bernoulli {
  static __device__ bool reads(const Arguments& a) { return a.x != nullptr; }
  static __device__ void write(const Arguments& a, int64_t i, int w, const PhiloxBlock& words, float x) {
    a.out[i] = drawn_bernoulli(words.word[w], a.x == nullptr ? a.numbers[0] : x);
  }
};
struct Exponential {
  static __device__ bool reads(const Arguments&) { return false; }
  static __device__ void write(const Arguments& a, int64_t i, int w, const PhiloxBlock& words, float) {
    a.out[i] = drawn_exponential(words.word[w], a.numbers[0]);
  }
};
struct Dropout {
  static __device__ bool reads(const Arguments&) { return true; }
  static __device__ void write(const Arguments& a, int64_t i, int w, const PhiloxBlock& words, float x) {
    const bool kept = unit_below_one(words.word[w]) < a.numbers[0];
    a.out[i] = kept ? x * a.numbers[1] : 0.0f;
    if (a.mask != nullptr) a.mask[i] = kept;
  }
};

template <typename Formula>
__global__ void draw_blocks(Arguments a) {
  const int64_t block = thread_index();
  if (element_of(block, 0) >= a.n) return;
  float x[4] = {};
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const int64_t i = element_of(block, w);
    if (i < a.n && Formula::reads(a)) x[w] = a.x[i];
  }
  const PhiloxBlock words = philox_block(a.counter, static_cast<uint32_t>(block));
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const int64_t i = element_of(block, w);
    if (i < a.n) Formula::write(a, i, w, words, x[w]);
  }
}

template <typename Formula>
void draw(const Arguments& a, const Execution& execution) {
  launch("random", queue_of(execution), grid_for((a.n + 63) / 64 * 16), draw_blocks<Formula>, a);
}

__global__ void apply_mask(float* out, const float* gradient, const bool* mask, int64_t n, float scale, bool aligned) {
  const Place place = place_of(n, aligned);
  if (place.count <= 0) return;
  bool kept[4] = {};
#pragma unroll
  for (int k = 0; k < 4; ++k) kept[k] = k < place.count && mask[place.at + k];
  const Four x = load(gradient, place);
  Four result;
#pragma unroll
  for (int k = 0; k < 4; ++k) result.of[k] = kept[k] ? x.of[k] * scale : 0.0f;
  store(out, place, result);
}

void dropout_backward(float* out, const float* gradient, const bool* mask, int64_t n, float scale,
                      const Execution& execution) {
  launch("dropout_backward", queue_of(execution), grid_of_fours(n), apply_mask, out, gradient, mask, n, scale,
         are_aligned(out, gradient));
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

// Draws the partner of each element i: the element to swap with i.
__global__ void draw_partners(int64_t* partners, int64_t n, PhiloxCounter counter) {
  const int64_t i = thread_index();
  if (i < n) {
    partners[i] = static_cast<int64_t>(scaled_to_range(long_word(counter, i), static_cast<uint64_t>(i) + 1));
  }
}

__device__ void exchange(int64_t& a, int64_t& b) {
  const int64_t x = a;
  a = b;
  b = x;
}

// Runs in one warp. The warp's lanes take 32 steps at a time: in parallel if no two steps touch the same element,
// otherwise one after another.
__global__ void exchange_partners(int64_t* out, const int64_t* partners, int64_t n) {
  __shared__ int64_t drawn[portable::kLanes];
  const int64_t lane = threadIdx.x;
  for (int64_t i = lane; i < n; i += portable::kLanes) out[i] = i;
  int64_t next = lane < n ? partners[n - 1 - lane] : -1;
  for (int64_t top = n - 1; top >= 0; top -= portable::kLanes) {
    const int64_t i = top - lane, j = next;
    next = i >= portable::kLanes ? partners[i - portable::kLanes] : -1;
    drawn[lane] = j;
    __syncwarp();
    bool meets = false;
#pragma unroll 8
    for (int64_t before = 0; before < portable::kLanes; ++before) {
      meets |= before < lane && i >= 0 && (drawn[before] == j || drawn[before] == i);
    }
    if (lane_largest(meets ? 1.0f : 0.0f) == 0) {
      if (i >= 0) exchange(out[i], out[j]);
    } else if (lane == 0) {
      for (int64_t step = 0; step < portable::kLanes && step <= top; ++step)
        exchange(out[top - step], out[drawn[step]]);
    }
    __syncwarp();
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

extern const RandomLoops random_kernels = {.uniform = draw<Uniform>,
                                           .normal = draw<Normal>,
                                           .bernoulli = draw<Bernoulli>,
                                           .exponential = draw<Exponential>,
                                           .dropout = draw<Dropout>,
                                           .words = nullptr,
                                           .dropout_backward = dropout_backward};

}  // namespace estrain::kernels::cuda
