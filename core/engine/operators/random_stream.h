#pragma once
// The source of the portable random operators: each call draws from a counter-based stream of its own (Philox), so the
// call's numbers do not depend on how the work is cut.
//
// The key of a call is the next 64 bits of a generator: of the operator's generator argument, or else of LibTorch's
// default generator for the CPU, which holds the state of the current EST. These bits are integers, equal on every kind
// of device. Code that restores the default generator's state draws the same numbers again: gradient checkpointing
// restores the state before it computes a part of the forward pass again. Work outside ESTs (evaluation, mini-batches
// for practice) leaves the default generator alone and counts its calls.
//
// The process has one source, since autograd may compute on threads of its own.

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

#include "kernels/portable/random.h"

namespace estrain::operators {

// Virtual ranks of streams outside ESTs.
inline constexpr uint32_t evaluation_stream = 0xFFFFFFFF, generator_stream = 0xFFFFFFFE, warming_stream = 0xFFFFFFFD,
                          building_stream = 0xFFFFFFFC;

// Makes later random operators take their keys from the default generator, for EST `rank` in `step`.
void begin_est_stream(uint32_t rank, uint64_t step);

// Makes later random operators calls 0, 1, … of (seed, rank, step).
void begin_random_stream(uint64_t seed, uint32_t rank, uint64_t step);

// The next call's stream.
kernels::portable::Stream next_random_call(const std::optional<at::Generator>& generator);

}  // namespace estrain::operators
