#pragma once
// The settings that make LibTorch give repeatable bits on the same GPU.

namespace estrain::cuda {

// TF32 keeps 10 mantissa bits of the factors of a float32 product or convolution, and sums in float32. GPUs before
// sm_80 lack TF32 and always compute in float32.
enum class Tf32 { never, allowed };

// Sets deterministic algorithms everywhere: an operator without such an algorithm throws. Sets TF32 where
// allowed. The environment also matters (core/run/launch/preflight/devices.cpp). Call this once, before the first
// operator.
void compute_deterministically(Tf32 tf32);

}  // namespace estrain::cuda
