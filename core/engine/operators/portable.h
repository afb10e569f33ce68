#pragma once
// The portable kernels as LibTorch's operators, for workers with kernels = "portable".
//
// Portable kernels are registered with LibTorch's dispatcher below autograd, so that all models use them. They compute
// in float32: a replaced operator refuses other floating-point types by name, and leaves integers to LibTorch.

#include <memory>
#include <set>
#include <string>

#include "core/engine/device/device.h"

namespace estrain::operators {

class PortableOperators {
 public:
  // During the object's lifetime the process computes with the portable kernels: on the CPU with the instruction set
  // device::portable_isa(), and on `device` if `device` is a GPU. LibTorch uses neither cuDNN nor oneDNN for the other
  // operators. `device` must outlive the object. One object at a time.
  explicit PortableOperators(device::ComputeDevice& device);
  ~PortableOperators();
  PortableOperators(const PortableOperators&) = delete;
  PortableOperators& operator=(const PortableOperators&) = delete;

  // Replaced operators, as "aten::name.overload".
  const std::set<std::string>& names() const;

 private:
  struct Registrations;
  std::unique_ptr<Registrations> registrations_;
};

}  // namespace estrain::operators
