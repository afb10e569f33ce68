#pragma once
#include <stdint.h>

namespace estrain::kernels {

// Windows along one dimension: output o reads through tap t the input o * stride - padding + t * dilation.
struct WindowAxis {
  int64_t in, out, kernel, stride, padding, dilation;
};

}  // namespace estrain::kernels
