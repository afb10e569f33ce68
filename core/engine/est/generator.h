#pragma once
// The random streams of an EST: the states of torch's default generators, of the CPU and of a GPU. They are saved and
// restored at mini-batch boundaries, so many ESTs take turns on one process (EasyScale section 3.2, context switching).
//
// A GPU's generator is a counter on the host: saving the counter waits for no kernel, and kernels queued before keep
// their numbers.

#include <ATen/core/Generator.h>

#include <cstddef>
#include <cstdint>

namespace estrain::est {

// Returns the bytes of a saved state; all generators of one LibTorch have states of the same size.
size_t generator_state_bytes();

// Writes the state after `manual_seed(seed)`.
void seeded_generator_state(uint64_t seed, std::byte* state);

// Sets the default generator to `state` (64-byte aligned), or saves the generator's state.
void switch_generator_in(const std::byte* state);
void switch_seeded_generator_in(uint64_t seed);
void switch_generator_out(std::byte* state);

// The same for a CUDA generator of torch, given by the caller. The state is the seed and the offset in the Philox
// stream, int64 each, little-endian.
inline constexpr size_t cuda_generator_state_bytes = 16;
void seeded_cuda_generator_state(uint64_t seed, std::byte* state);
void switch_cuda_generator_in(at::Generator generator, const std::byte* state);
void switch_cuda_generator_out(const at::Generator& generator, std::byte* state);

}  // namespace estrain::est
