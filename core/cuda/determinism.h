#pragma once
// The settings that make LibTorch give repeatable bits on the same GPU.

namespace estrain::cuda {

// TF32 keeps 10 mantissa bits of the factors of a float32 product or convolution, and sums in float32. GPUs before
// sm_80 lack it and always compute in float32.
enum class Tf32 { never, allowed };

// Selects deterministic algorithms everywhere (an operator without one throws), and TF32 if allowed.
// core/launch/devices.cpp sets the environment variables. Call it once, before the first operator.
void compute_deterministically(Tf32 tf32);

}  // namespace estrain::cuda
