#pragma once
// The namespace for kernels/portable/arithmetic in CUDA code. Include it before those headers.

#ifndef ESTRAIN_ISA
#define ESTRAIN_ISA cuda
#define ESTRAIN_VECTORS "kernels/cuda/value.h"
#endif

#include "kernels/portable/arithmetic/value.h"
