#pragma once
// An unexpected failure of a call to CUDA, cuDNN or cuBLASLt.

#include <stdexcept>
#include <string>

namespace estrain::kernels::pinned {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace estrain::kernels::pinned
