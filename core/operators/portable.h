#pragma once
// The portable kernels as LibTorch's operators: what a worker runs on with kernels = "portable".
//
// Registered with LibTorch's dispatcher below autograd, so that every model gets them, whoever wrote it. They compute
// in float32: an operator that is replaced refuses other floating-point types by name, and leaves integers to LibTorch.

#include <memory>
#include <set>
#include <string>

#include "core/device/device.h"

namespace estrain::operators {

class PortableOperators {
 public:
  // From here to its destruction the process computes with the portable kernels: on the CPU on the instruction set that
  // device::portable_isa() names, and on `device`, which must outlive it. One object at a time.
  explicit PortableOperators(device::Device& device);
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
