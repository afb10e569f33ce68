#pragma once
// The source of the portable random operators: a counter instead of a state (keyed by seed, virtual rank, step and
// call), so that an EST draws the same numbers wherever it runs and however often it moves.
//
// An operator without a generator uses the calls of the last stream begun on this thread, numbered from 0. An operator
// with a generator takes its key from the generator's next 64 bits (integers: equal on every kind of device) and does
// not affect the stream.

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

#include "kernels/portable/random.h"

namespace estrain::operators {

// Virtual ranks of streams that belong to no EST.
inline constexpr uint32_t evaluation_stream = 0xFFFFFFFF, generator_stream = 0xFFFFFFFE, warming_stream = 0xFFFFFFFD;

// Makes the following random operators on this thread calls 0, 1, … of (seed, rank, step).
void begin_random_stream(uint64_t seed, uint32_t rank, uint64_t step);

// The next call's stream.
kernels::portable::Stream next_random_call(const std::optional<at::Generator>& generator);

}  // namespace estrain::operators
