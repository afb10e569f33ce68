#include "kernels/portable/random.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/portable/calls/device_kernels.h"

namespace estrain::kernels::portable {
namespace {

constexpr int64_t max_elements = int64_t{1} << 34;

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

void check_count(int64_t n, int64_t max) {
  if (n > max) throw std::invalid_argument("a random call of more than 2^34 words");
}

PhiloxCounter counter_of(const Stream& stream) {
  return {{low(stream.key), high(stream.key) ^ high(stream.step)}, {stream.call, low(stream.step), stream.rank}};
}

RandomArguments arguments_of(float* out, int64_t n, const Stream& stream) {
  check_count(n, max_elements);
  RandomArguments arguments = {};
  arguments.out = out;
  arguments.n = n;
  arguments.counter = counter_of(stream);
  return arguments;
}

// The 64-bit words of a group, elements [first, first + 32); first is a multiple of 32.
struct LongWords {
  uint32_t words[kGroup];
  uint64_t of(int64_t i) const {
    const int64_t at = i % 16 + (i / 16) % 2 * 32;
    return words[at] | static_cast<uint64_t>(words[at + 16]) << 32;
  }
};

}  // namespace

PhiloxWords philox(uint64_t key, const uint32_t (&counter)[4]) {
  const PhiloxBlock out = philox_block(low(key), high(key), {{counter[0], counter[1], counter[2], counter[3]}});
  return {{out.word[0], out.word[1], out.word[2], out.word[3]}};
}

void uniform(float* out, int64_t n, float from, float to, const Stream& stream, const Execution& execution) {
  RandomArguments arguments = arguments_of(out, n, stream);
  arguments.numbers[0] = from;
  arguments.numbers[1] = to;
  random_loops_of(execution).uniform(arguments, execution);
}

void normal(float* out, int64_t n, float mean, float deviation, const Stream& stream, const Execution& execution) {
  RandomArguments arguments = arguments_of(out, n, stream);
  arguments.numbers[0] = mean;
  arguments.numbers[1] = deviation;
  random_loops_of(execution).normal(arguments, execution);
}

void bernoulli(float* out, int64_t n, float p, const Stream& stream, const Execution& execution) {
  RandomArguments arguments = arguments_of(out, n, stream);
  arguments.numbers[0] = p;
  random_loops_of(execution).bernoulli(arguments, execution);
}

void bernoulli(float* out, const float* p, int64_t n, const Stream& stream, const Execution& execution) {
  RandomArguments arguments = arguments_of(out, n, stream);
  arguments.x = p;
  random_loops_of(execution).bernoulli(arguments, execution);
}

void exponential(float* out, int64_t n, float rate, const Stream& stream, const Execution& execution) {
  RandomArguments arguments = arguments_of(out, n, stream);
  arguments.numbers[0] = rate;
  random_loops_of(execution).exponential(arguments, execution);
}

void random_integers(int64_t* out, int64_t n, int64_t lo, int64_t hi, const Stream& stream,
                     const Execution& execution) {
  check_count(n, max_elements / 2);
  const PhiloxCounter counter = counter_of(stream);
  if (execution.device != nullptr) {
    return execution.device->kernels->random_integers(out, n, lo, hi, counter, execution);
  }
  const uint64_t range = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);
  LongWords group;
  for (int64_t i = 0; i < n; ++i) {
    if (i % 32 == 0) random_loops_of(execution).words(group.words, i / 32, 1, counter);
    out[i] = static_cast<int64_t>(static_cast<uint64_t>(lo) + scaled_to_range(group.of(i), range));
  }
}

void permutation(int64_t* out, int64_t n, const Stream& stream, const Execution& execution) {
  check_count(n, max_elements / 2);
  const PhiloxCounter counter = counter_of(stream);
  if (execution.device != nullptr) return execution.device->kernels->permutation(out, n, counter, execution);
  for (int64_t i = 0; i < n; ++i) out[i] = i;
  LongWords group;
  for (int64_t i = n - 1; i >= 0; --i) {
    if (i == n - 1 || i % 32 == 31) random_loops_of(execution).words(group.words, i / 32, 1, counter);
    std::swap(out[i], out[scaled_to_range(group.of(i), static_cast<uint64_t>(i) + 1)]);
  }
}

float dropout_scale(double p) { return p == 1 ? 0 : static_cast<float>(1 / (1 - p)); }

void dropout(float* out, bool* mask, const float* x, int64_t n, double p, const Stream& stream,
             const Execution& execution) {
  RandomArguments arguments = arguments_of(out, n, stream);
  arguments.x = x;
  arguments.mask = mask;
  arguments.numbers[0] = static_cast<float>(1 - p);
  arguments.numbers[1] = dropout_scale(p);
  random_loops_of(execution).dropout(arguments, execution);
}

void dropout_backward(float* out, const float* gradient, const bool* mask, int64_t n, float scale,
                      const Execution& execution) {
  random_loops_of(execution).dropout_backward(out, gradient, mask, n, scale, execution);
}

}  // namespace estrain::kernels::portable
