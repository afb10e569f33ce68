#include "core/engine/operators/random_stream.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace estrain::operators {
namespace {

using kernels::portable::Stream;

struct Current {
  std::mutex lock;
  Stream stream;  // of the next call
  bool has_est = false;
};

Current& current() {
  static Current the_current;
  return the_current;
}

void begin(const Stream& stream, bool has_est) {
  Current& now = current();
  const std::lock_guard lock(now.lock);
  now.stream = stream;
  now.has_est = has_est;
}

uint64_t next_key(const at::Generator& generator) {
  auto* numbers = at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::lock_guard lock(numbers->mutex_);
  return numbers->random64();
}

}  // namespace

void begin_est_stream(uint32_t rank, uint64_t step) {
  begin({.key = 0, .rank = rank, .call = 0, .step = step}, /*has_est=*/true);
}

void begin_random_stream(uint64_t seed, uint32_t rank, uint64_t step) {
  begin({.key = seed, .rank = rank, .call = 0, .step = step}, /*has_est=*/false);
}

Stream next_random_call(const std::optional<at::Generator>& generator) {
  if (generator && generator->defined()) {
    return {.key = next_key(*generator), .rank = generator_stream, .call = 0, .step = 0};
  }
  Current& now = current();
  const std::lock_guard lock(now.lock);
  Stream call = now.stream;
  if (now.has_est) {
    call.key = next_key(at::detail::getDefaultCPUGenerator());
  } else {
    now.stream.call += 1;
  }
  return call;
}

}  // namespace estrain::operators
