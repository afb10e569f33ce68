#pragma once
// The CPU as a device: setting up LibTorch, and the properties of the CPU that decide the bits.

#include <cstdint>
#include <string>

#include "kernels/isa.h"
#include "kernels/optimizer.h"

namespace estrain::device {

// Sets the number of intra-op threads. The number affects the bits. Call this once, before the first operator.
void configure_cpu(int64_t intra_op_threads);

// Returns the instruction set of ATen's own kernels in this process (respecting ATEN_CPU_CAPABILITY).
kernels::Isa aten_isa();

// Returns the widest instruction set of the device kind for the portable kernels. The capability "default" of cpu:sse
// means 128-bit code, with hardware fused multiply-add if the processor has it.
kernels::Isa portable_isa();

// Returns ATen's float square roots (MKL's vector library). On some processors these differ from IEEE's.
kernels::SquareRoots aten_square_roots();

// Returns vendor, model and capability: the kind of device for which D1's bits hold.
std::string describe_processor();

}  // namespace estrain::device
