#include "core/est/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/from_blob.h>
#include <torch/types.h>

#include <cstring>

namespace estrain::est {
namespace {

void write_state(const at::Generator& generator, std::byte* out) {
  const at::Tensor state = generator.get_state();
  std::memcpy(out, state.const_data_ptr(), state.nbytes());
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
  const at::Tensor view =
      at::from_blob(const_cast<std::byte*>(state), {static_cast<int64_t>(generator_state_bytes())}, torch::kByte);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(view);
}

void switch_generator_out(std::byte* state) { write_state(at::detail::getDefaultCPUGenerator(), state); }

}  // namespace estrain::est
