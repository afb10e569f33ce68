#pragma once
// Durations in nanoseconds.

#include <cstdint>

constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;
