#pragma once
// What the portable random operators draw from: a counter, not a state (design: keyed by seed, virtual rank, step and
// call), so that an EST draws the same numbers wherever it runs and however often it was moved.
//
// An operator that is given no generator takes the calls of the stream that was begun last on this thread, numbered
// from 0. One that is given a generator takes its key from the generator's next 64 bits (integers: equal on every kind
// of device) and leaves the stream alone.

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

#include "kernels/portable/random.h"

namespace estrain::operators {

// Virtual ranks of streams that belong to no EST.
inline constexpr uint32_t evaluation_stream = 0xFFFFFFFF, generator_stream = 0xFFFFFFFE, warming_stream = 0xFFFFFFFD;

// The random operators that follow on this thread are calls 0, 1, … of (seed, rank, step).
void begin_random_stream(uint64_t seed, uint32_t rank, uint64_t step);

// The next call's stream.
kernels::portable::Stream next_random_call(const std::optional<at::Generator>& generator);

}  // namespace estrain::operators
