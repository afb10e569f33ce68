#pragma once
// The settings that make LibTorch give repeatable bits on the same GPU.

namespace estrain::cuda {

// TF32 keeps 10 mantissa bits of the factors of a float32 product or convolution, and sums in float32. GPUs before
// sm_80 lack it and always compute in float32.
enum class Tf32 { never, allowed };

// Deterministic algorithms everywhere, an operator that has none throws; TF32 where it is allowed. The environment has
// its own part in this (core/run/launch/preflight/devices.cpp). Call once, before the first operator.
void compute_deterministically(Tf32 tf32);

}  // namespace estrain::cuda
