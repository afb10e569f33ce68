#pragma once
// What makes LibTorch give the same bits on the same GPU again and again.

namespace estrain::cuda {

// Deterministic algorithms everywhere, an operator that has none throws; products and convolutions in float32's own
// precision (no TF32). What must be said in the environment, core/launch/devices.cpp says. Call once, before the first
// operator.
void compute_deterministically();

}  // namespace estrain::cuda
