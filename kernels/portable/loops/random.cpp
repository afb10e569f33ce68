#include "kernels/portable/loops/random.h"

#include "kernels/loops/walks.h"
#include "kernels/portable/loops/philox.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {

using Arguments = RandomArguments;

// Fewer elements than this are not worth a second thread.
static constexpr int64_t least_elements = 32768;
static constexpr int64_t lanes = static_cast<int64_t>(width);

using Bytes = uint8_t __attribute__((vector_size(sizeof(Floats) / sizeof(float))));

// Converts lanes of -1 (kept) and 0 to bytes 1 and 0, and back.
ESTRAIN_FUNCTION void write_mask(bool* to, Integers kept) {
  const Bytes bytes = __builtin_convertvector(kept & 1, Bytes);
  __builtin_memcpy(to, &bytes, sizeof bytes);
}
ESTRAIN_FUNCTION Integers read_mask(const bool* from) {
  Bytes bytes;
  __builtin_memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(bytes, Integers);
}

// Formulas: formula(arguments, i, words) writes the elements i + 16 w + lane, w = 0 to 3.
struct Uniform {
  ESTRAIN_FUNCTION void run(const Arguments& a, int64_t i, const Bits (&words)[4]) {
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) store(a.out + i + 16 * w, drawn_uniform(words[w], a.numbers[0], a.numbers[1]));
  }
};

struct Normal {
  ESTRAIN_FUNCTION void run(const Arguments& a, int64_t i, const Bits (&words)[4]) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const NormalPair pair = drawn_normals(words[2 * h], words[2 * h + 1], a.numbers[0], a.numbers[1]);
      store(a.out + i + 32 * h, pair.first);
      store(a.out + i + 32 * h + 16, pair.second);
    }
  }
};

struct Bernoulli {
  ESTRAIN_FUNCTION void run(const Arguments& a, int64_t i, const Bits (&words)[4]) {
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
      const Floats p = a.x == nullptr ? broadcast(a.numbers[0]) : load(a.x + i + 16 * w);
      store(a.out + i + 16 * w, drawn_bernoulli(words[w], p));
    }
  }
};

struct Exponential {
  ESTRAIN_FUNCTION void run(const Arguments& a, int64_t i, const Bits (&words)[4]) {
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) store(a.out + i + 16 * w, drawn_exponential(words[w], a.numbers[0]));
  }
};

struct Dropout {
  ESTRAIN_FUNCTION void run(const Arguments& a, int64_t i, const Bits (&words)[4]) {
    const Floats keep = broadcast(a.numbers[0]), scale = broadcast(a.numbers[1]);
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
      const Integers kept = unit_below_one(words[w]) < keep;
      store(a.out + i + 16 * w, kept ? load(a.x + i + 16 * w) * scale : broadcast(0.0f));
      if (a.mask != nullptr) write_mask(a.mask + i + 16 * w, kept);
    }
  }
};

// The arguments for n elements from `begin` on.
static inline Arguments part_from(const Arguments& arguments, int64_t begin, int64_t n) {
  Arguments part = arguments;
  part.out = arguments.out + begin;
  part.x = arguments.x == nullptr ? nullptr : arguments.x + begin;
  part.mask = arguments.mask == nullptr ? nullptr : arguments.mask + begin;
  part.n = n;
  return part;
}

// Processes whole groups of `a`, whose first element is number `first` of the call.
template <typename Formula>
static inline void draw_groups(const Arguments& a, int64_t first) {
  for (int64_t i = 0; i < a.n; i += kGroup) {
#pragma GCC unroll 4
    for (int64_t sub = 0; sub < 16; sub += lanes) {
      Bits words[4];
      philox_blocks(a.counter, static_cast<uint32_t>((first + i) / 4 + sub), words);
      Formula::run(a, i + sub, words);
    }
  }
}

// Processes a group of which only the first `a.n` elements exist, through full-size arrays.
template <typename Formula>
static inline void draw_part(const Arguments& a, int64_t first) {
  const size_t n = static_cast<size_t>(a.n);
  float out[kGroup] = {}, x[kGroup] = {};
  bool mask[kGroup] = {};
  if (a.x != nullptr) __builtin_memcpy(x, a.x, n * sizeof(float));
  Arguments whole = a;
  whole.out = out;
  whole.x = a.x == nullptr ? nullptr : x;
  whole.mask = a.mask == nullptr ? nullptr : mask;
  whole.n = kGroup;
  draw_groups<Formula>(whole, first);
  __builtin_memcpy(a.out, out, n * sizeof(float));
  if (a.mask != nullptr) __builtin_memcpy(a.mask, mask, n);
}

template <typename Formula>
static void draw(const Arguments& arguments, const Execution& execution) {
  const Arguments a = arguments;
  for_ranges(execution, a.n, kGroup, least_elements, [&](int64_t begin, int64_t end) {
    const int64_t whole = begin + (end - begin) / kGroup * kGroup;
    draw_groups<Formula>(part_from(a, begin, whole - begin), begin);
    if (whole < end) draw_part<Formula>(part_from(a, whole, end - whole), whole);
  });
}

static void words(uint32_t* out, int64_t first, int64_t num_groups, const PhiloxCounter& counter) {
  for (int64_t group = 0; group < num_groups; ++group) {
    for (int64_t sub = 0; sub < 16; sub += lanes) {
      Bits four[4];
      philox_blocks(counter, static_cast<uint32_t>((first + group) * 16 + sub), four);
      for (int w = 0; w < 4; ++w) __builtin_memcpy(out + group * kGroup + 16 * w + sub, &four[w], sizeof four[w]);
    }
  }
}

static void dropout_backward(float* out, const float* gradient, const bool* mask, int64_t n, float scale,
                             const Execution& execution) {
  const Floats factor = broadcast(scale);
  for_ranges(execution, n, kGroup, least_elements, [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      store(out + i, read_mask(mask + i) != 0 ? load(gradient + i) * factor : broadcast(0.0f));
    }
    if (i == end) return;
    const Tail tail = {static_cast<size_t>(end - i)};
    bool last[width] = {};
    __builtin_memcpy(last, mask + i, tail.n);
    tail.write(out + i, read_mask(last) != 0 ? tail.read(gradient + i) * factor : broadcast(0.0f));
  });
}

extern const RandomLoops random_loops = {.uniform = draw<Uniform>,
                                         .normal = draw<Normal>,
                                         .bernoulli = draw<Bernoulli>,
                                         .exponential = draw<Exponential>,
                                         .dropout = draw<Dropout>,
                                         .words = words,
                                         .dropout_backward = dropout_backward};

}  // namespace estrain::kernels::ESTRAIN_ISA
