#pragma once
// Operators for which LibTorch has no deterministic GPU kernel. Some raise an error under deterministic algorithms,
// some add in the order of arrival without a word (core/engine/cuda/README.md has the list).
// tests/core/engine/operators/nondeterministic_cases.h calls all of them.

#include <ATen/core/ivalue.h>

#include <memory>
#include <string_view>

#include "core/engine/device/device.h"

namespace estrain::operators {

// How a GPU computes a call of an operator below D2 (core/engine/cuda/determinism.h), in ascending order of concern.
enum class OnGpu {
  repeatable,  // LibTorch's own kernel has repeatable bits on GPUs of one model
  composed,    // by DeterministicOperators; LibTorch's own kernel has no repeatable bits
  unpinned,    // repeatable by an algorithm that a CUDA library chooses by its heuristics, not the run by measuring
  raises,      // LibTorch raises an error
};

const char* to_string(OnGpu kind);

using Arguments = c10::ArrayRef<const c10::IValue>;

// `name`: with the overload, "aten::scatter.reduce". `arguments`: of the call, in the schema's order.
OnGpu on_gpu(std::string_view name, Arguments arguments);

class DeterministicOperators {
 public:
  // During the object's lifetime the composed operators replace LibTorch's on `device`. Kernels registered later
  // (portable.h) replace the composed operators.
  explicit DeterministicOperators(const device::ComputeDevice& device);
  ~DeterministicOperators();
  DeterministicOperators(const DeterministicOperators&) = delete;
  DeterministicOperators& operator=(const DeterministicOperators&) = delete;

 private:
  struct Registrations;
  std::unique_ptr<Registrations> registrations_;
};

}  // namespace estrain::operators
