#pragma once
// A call of CUDA, cuDNN or cuBLASLt that failed where it must not.

#include <stdexcept>
#include <string>

namespace estrain::kernels::pinned {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace estrain::kernels::pinned
