#pragma once
// Finds the operators of a model, and whether each operator gives the same bits on every kind of device. The answer
// decides between D1 and D2 (EasyScale section 3.3 scans models for operators that depend on the hardware).
//
// A scan sees every call through LibTorch's dispatcher, including calls of the backward pass and calls inside
// operators. An operator without a kernel of its own (LibTorch composes it) is judged by its parts.

#include <ATen/core/operator_name.h>
#include <c10/core/DispatchKey.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/operators/deterministic.h"

namespace estrain::operators {

enum class Coverage {
  replaced,   // a portable kernel
  exact,      // LibTorch's own, moves, compares or rounds once per element: the same bits everywhere
  uncovered,  // LibTorch's own, with bits that depend on the device
};
const char* to_string(Coverage coverage);

struct OperatorUse {
  std::string name;  // "aten::convolution"
  Coverage coverage = Coverage::exact;
  std::string which;                 // the gap of the portable kernel: "on Double", "with products"
  OnGpu on_gpu = OnGpu::repeatable;  // of all calls the one of most concern
  int64_t calls = 0;
  std::vector<std::string> layers;  // blocks of the model with the operator, in order of first use

  std::string text() const;  // "aten::mm on Double"
};

struct ScanOptions {
  const std::set<std::string>* replaced = nullptr;  // PortableOperators::names()
  // The device of the tensors: an operator with a kernel of its own on this device is judged as a whole.
  c10::DispatchKey device = c10::DispatchKey::CPU;
  // Returns the model's current block; "" outside of blocks. Called on the scanning thread.
  std::function<std::string_view()> layer;
};

// Returns the verdict on an operator as a whole; nothing: the parts decide. `name` as above.
std::optional<Coverage> judge(const c10::OperatorName& name, const ScanOptions& options);

struct Refusal;

// Runs `work` on this thread and lists the operators in use, uncovered operators first, then by name. Where a portable
// kernel refuses a type or a case, LibTorch's own kernel computes the result meanwhile. Where LibTorch has no such
// kernel, as in a backward pass of estrain's, the list ends.
std::vector<OperatorUse> scan(const ScanOptions& options, const std::function<void()>& work);

// Returns the uncovered operators of the scan under way on this thread, as OperatorUse::text(); nothing without a scan.
std::vector<std::string> uncovered_so_far();

// Tells the scan under way about a refusal of a portable kernel; does nothing without a scan.
void tell_scan(const Refusal& refusal);

// Returns the name with the overload: "aten::mul.Tensor".
std::string full_name(const c10::OperatorName& name);

// Returns whether LibTorch's kernel gives the same bits on every CPU and GPU; `name` as above.
bool is_exact(std::string_view name);

}  // namespace estrain::operators
