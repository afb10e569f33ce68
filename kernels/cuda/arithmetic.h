#pragma once
// The namespace for kernels/portable/arithmetic in CUDA code. Include this file before the headers of that folder.

#ifndef ESTRAIN_ISA
#define ESTRAIN_ISA cuda
#define ESTRAIN_VECTORS "kernels/cuda/value.h"
#endif

#include "kernels/portable/arithmetic/value.h"
