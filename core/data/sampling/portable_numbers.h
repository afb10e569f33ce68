#pragma once
// Real numbers from random words. Only IEEE double operations: the same on every machine, unlike libm's functions.

#include <cstdint>

namespace estrain::data {

// In [0, 1).
constexpr double unit(uint32_t word) { return word * 0x1p-32; }

double exponential(double x);
// Of a positive x.
double logarithm(double x);

}  // namespace estrain::data
