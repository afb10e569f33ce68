#pragma once
// The namespace that kernels/portable/arithmetic is compiled into here. To be included before its headers.

#ifndef ESTRAIN_ISA
#define ESTRAIN_ISA cuda
#define ESTRAIN_VECTORS "kernels/cuda/value.h"
#endif

#include "kernels/portable/arithmetic/value.h"
