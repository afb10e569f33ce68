#pragma once
// The CPU as a device: setting up LibTorch, and what determines its bits.

#include <cstdint>
#include <string>

#include "kernels/isa.h"
#include "kernels/optimizer.h"

namespace estrain::device {

// Sets the number of intra-op threads, which is part of the bits. Call it once, before the first operator.
void configure_cpu(int64_t intra_op_threads);

// The instruction set of ATen's own kernels in this process (respecting ATEN_CPU_CAPABILITY).
kernels::Isa aten_isa();

// The widest instruction set for the portable kernels that the device kind allows. The capability "default" of cpu:sse
// means 128-bit code, with hardware fused multiply-add if the processor has it.
kernels::Isa portable_isa();

// ATen's float square roots (MKL's vector library), which differ from IEEE's on some processors.
kernels::SquareRoots aten_square_roots();

// Vendor, model and capability: the kind of device for which D1's bits hold.
std::string describe_processor();

}  // namespace estrain::device
