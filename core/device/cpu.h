#pragma once
// The CPU as a device: how LibTorch is set up on it, and what decides its bits.

#include <cstdint>
#include <string>

#include "kernels/isa.h"
#include "kernels/optimizer.h"

namespace estrain::device {

// Sets the number of intra-op threads, which is part of the bits. Call once, before the first operator.
void configure_cpu(int64_t intra_op_threads);

// The instruction set that ATen's own kernels use in this process (ATEN_CPU_CAPABILITY respected).
kernels::Isa aten_isa();

// The instruction set for the portable kernels, as wide as the device kind allows: with "default", the capability of
// cpu:sse, 128-bit code, fused multiply-add in hardware where the processor has it.
kernels::Isa portable_isa();

// ATen's float square roots (MKL's vector library), which are not IEEE's on every processor.
kernels::SquareRoots aten_square_roots();

// Vendor, model and capability: the kind of device that D1's bits hold for.
std::string describe_processor();

}  // namespace estrain::device
