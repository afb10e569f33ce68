#include "core/operators/random_stream.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace estrain::operators {
namespace {

thread_local kernels::portable::Stream current;

}  // namespace

void begin_random_stream(uint64_t seed, uint32_t rank, uint64_t step) {
  current = {.key = seed, .rank = rank, .call = 0, .step = step};
}

kernels::portable::Stream next_random_call(const std::optional<at::Generator>& generator) {
  if (!generator || !generator->defined()) {
    kernels::portable::Stream call = current;
    current.call += 1;
    return call;
  }
  auto* numbers = at::check_generator<at::CPUGeneratorImpl>(*generator);
  const std::lock_guard lock(numbers->mutex_);
  return {.key = numbers->random64(), .rank = generator_stream, .call = 0, .step = 0};
}

}  // namespace estrain::operators
