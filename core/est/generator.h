#pragma once
// The random stream of an EST: the state of torch's default CPU generator, saved and restored at mini-batch boundaries
// so that many ESTs take turns on one process (EasyScale section 3.2, context switching).

#include <cstddef>
#include <cstdint>

namespace estrain::est {

// Bytes of a saved state; the same for all generators of one LibTorch.
size_t generator_state_bytes();

// Writes the state that `manual_seed(seed)` gives.
void seeded_generator_state(uint64_t seed, std::byte* state);

// Makes the default generator go on from `state` (64-byte aligned), and the reverse.
void switch_generator_in(const std::byte* state);
void switch_generator_out(std::byte* state);

}  // namespace estrain::est
