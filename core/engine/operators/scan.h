#pragma once
// Finds the operators that a model uses, and whether each gives the same bits on every kind of device. This decides
// between D1 and D2 (EasyScale section 3.3 scans models for operators that depend on the hardware).
//
// It sees every call through LibTorch's dispatcher, including those of the backward pass and inside other operators. An
// operator without its own kernel (LibTorch composes it of others) is judged by its parts.

#include <ATen/core/operator_name.h>
#include <c10/core/DispatchKey.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::operators {

enum class Coverage {
  replaced,   // a portable kernel
  exact,      // LibTorch's own, which moves, compares or rounds once per element: the same bits everywhere
  uncovered,  // LibTorch's own, whose bits depend on the device
};
const char* to_string(Coverage coverage);

struct OperatorUse {
  std::string name;  // "aten::convolution"
  Coverage coverage = Coverage::exact;
  std::string which;  // what a portable kernel does not cover: "on Double", "with products"
  int64_t calls = 0;
  std::vector<std::string> layers;  // blocks of the model that use it, in order of first use

  std::string text() const;  // "aten::mm on Double"
};

struct ScanOptions {
  const std::set<std::string>* replaced = nullptr;  // PortableOperators::names()
  // The device of the tensors: an operator with its own kernel there is judged as a whole.
  c10::DispatchKey device = c10::DispatchKey::CPU;
  // Returns the model's current block; "" outside of blocks. Called on the scanning thread.
  std::function<std::string_view()> layer;
};

// How an operator is judged as a whole; nothing: by its parts. `name` as above.
std::optional<Coverage> judge(const c10::OperatorName& name, const ScanOptions& options);

struct Refusal;

// Runs `work` on this thread and lists the operators used, uncovered ones first, then by name. Where a portable kernel
// refuses a type or a case, LibTorch's own computes it meanwhile. Where none can, as in a backward pass of estrain's,
// the list ends there.
std::vector<OperatorUse> scan(const ScanOptions& options, const std::function<void()>& work);

// What the scan under way on this thread has found without a portable kernel, as OperatorUse::text(). None without one.
std::vector<std::string> uncovered_so_far();

// Tells the scan under way, if there is one, what a portable kernel does not cover.
void tell_scan(const Refusal& refusal);

// The name with the overload: "aten::mul.Tensor".
std::string full_name(const c10::OperatorName& name);

// Whether LibTorch's kernel gives the same bits on every CPU and GPU; `name` as above.
bool is_exact(std::string_view name);

}  // namespace estrain::operators
