#pragma once
// The source of the portable random operators: each call draws from a counter-based stream of its own (Philox), so its
// numbers do not depend on how the work is cut.
//
// The key of a call is the next 64 bits of a generator: of the one that the operator is given, else of LibTorch's
// default generator for the CPU, in which the EST at hand has its state. Those bits are integers, equal on every kind
// of device. Code that restores that generator's state draws the same numbers again: gradient checkpointing does so
// before it computes a part of the forward pass again. Work of no EST (evaluation, mini-batches for practice)
// leaves the default generator alone and counts its calls.
//
// One for the process, since autograd may compute on threads of its own.

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

#include "kernels/portable/random.h"

namespace estrain::operators {

// Virtual ranks of streams that belong to no EST.
inline constexpr uint32_t evaluation_stream = 0xFFFFFFFF, generator_stream = 0xFFFFFFFE, warming_stream = 0xFFFFFFFD,
                          building_stream = 0xFFFFFFFC;

// The random operators that follow take their keys from the default generator, for EST `rank` in `step`.
void begin_est_stream(uint32_t rank, uint64_t step);

// The random operators that follow are calls 0, 1, … of (seed, rank, step).
void begin_random_stream(uint64_t seed, uint32_t rank, uint64_t step);

// How many calls have drawn without a generator of their own, in this process.
uint64_t random_calls();

// The next call's stream.
kernels::portable::Stream next_random_call(const std::optional<at::Generator>& generator);

}  // namespace estrain::operators
