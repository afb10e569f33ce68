#include "core/engine/est/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/from_blob.h>
#include <torch/types.h>

#include <cstring>

#include "core/base/error.h"

namespace estrain::est {
namespace {

void write_state(const at::Generator& generator, std::byte* out) {
  const at::Tensor state = generator.get_state();
  std::memcpy(out, state.const_data_ptr(), state.nbytes());
}

at::Tensor view_of(const std::byte* state, size_t bytes) {
  return at::from_blob(const_cast<std::byte*>(state), {static_cast<int64_t>(bytes)}, torch::kByte);
}

}  // namespace

size_t generator_state_bytes() {
  static const size_t bytes = at::detail::getDefaultCPUGenerator().get_state().nbytes();
  return bytes;
}

void seeded_generator_state(uint64_t seed, std::byte* state) {
  write_state(at::detail::createCPUGenerator(seed), state);
}

void switch_generator_in(const std::byte* state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(view_of(state, generator_state_bytes()));
}

void switch_seeded_generator_in(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(seed);
}

void switch_generator_out(std::byte* state) { write_state(at::detail::getDefaultCPUGenerator(), state); }

void seeded_cuda_generator_state(uint64_t seed, std::byte* state) {
  const uint64_t words[2] = {seed, 0};
  static_assert(sizeof words == cuda_generator_state_bytes);
  std::memcpy(state, words, sizeof words);
}

void switch_cuda_generator_in(at::Generator generator, const std::byte* state) {
  generator.set_state(view_of(state, cuda_generator_state_bytes));
}

void switch_cuda_generator_out(const at::Generator& generator, std::byte* state) {
  const at::Tensor found = generator.get_state();
  if (found.nbytes() != cuda_generator_state_bytes) {
    throw Error::make(Fault::bug, "the state of a CUDA generator has {} bytes, not {}", found.nbytes(),
                      cuda_generator_state_bytes);
  }
  std::memcpy(state, found.const_data_ptr(), found.nbytes());
}

}  // namespace estrain::est
