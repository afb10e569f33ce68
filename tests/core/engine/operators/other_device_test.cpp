// Every portable operator refuses operands on two devices by name, before a kernel takes an operand's address. The
// device beside the CPU is LibTorch's meta device, whose tensors have no memory.

#include <ATen/core/dispatch/Dispatcher.h>
#include <doctest/doctest.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "core/engine/device/cpu.h"
#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/portable.h"

namespace estrain::operators {
namespace {

class MetaDevice : public device::CpuDevice {
 public:
  c10::Device torch_device() const override { return {c10::kMeta}; }
};

torch::Tensor on(c10::DeviceType device) { return torch::ones({2, 2}, torch::dtype(torch::kFloat).device(device)); }

c10::TypePtr without_optional(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

// How many tensors the argument takes in the test. LibTorch takes indices, a list of optional tensors, from all
// devices.
size_t tensors_of(const c10::Argument& formal) {
  const c10::TypePtr type = without_optional(formal.real_type());
  if (type->kind() == c10::TypeKind::TensorType) return 1;
  const auto list = type->cast<c10::ListType>();
  return list && list->getElementType()->kind() == c10::TypeKind::TensorType ? 2 : 0;
}

c10::IValue list_of(const c10::TypePtr& item, size_t length) {
  switch (item->kind()) {
    case c10::TypeKind::FloatType:
      return std::vector<double>(length, 1);
    case c10::TypeKind::BoolType:
      return length == 3 ? c10::List<bool>({true, true, true}) : c10::List<bool>({true, true});
    case c10::TypeKind::OptionalType:
      return c10::List<std::optional<torch::Tensor>>({std::optional(torch::zeros({1}, torch::kLong))});
    default:
      return std::vector<int64_t>(length, 1);
  }
}

c10::IValue value_of(const c10::Argument& formal) {
  if (formal.default_value()) return *formal.default_value();
  const c10::TypePtr type = formal.real_type();
  if (const auto list = type->cast<c10::ListType>())
    return list_of(list->getElementType(), static_cast<size_t>(formal.N().value_or(2)));
  switch (type->kind()) {
    case c10::TypeKind::FloatType:
      return 0.5;
    case c10::TypeKind::BoolType:
      return false;
    case c10::TypeKind::NumberType:
      return at::Scalar(1);
    case c10::TypeKind::StringType:
      return "none";
    case c10::TypeKind::OptionalType:
      return {};
    default:
      return int64_t{1};
  }
}

// The arguments of a call whose tensor `other` is not on the CPU.
std::vector<c10::IValue> arguments_of(const c10::FunctionSchema& schema, size_t other) {
  std::vector<c10::IValue> stack;
  size_t tensors = 0;
  const auto next = [&] { return on(tensors++ == other ? c10::kMeta : c10::kCPU); };
  for (const c10::Argument& formal : schema.arguments()) {
    const size_t count = tensors_of(formal);
    if (count == 0) stack.push_back(value_of(formal));
    if (count == 1) stack.emplace_back(next());
    if (count == 2) {
      c10::List<torch::Tensor> list;
      for (size_t i = 0; i < count; ++i) list.push_back(next());
      stack.emplace_back(list);
    }
  }
  return stack;
}

std::string error_of_call(const c10::OperatorHandle& op, size_t other) {
  std::vector<c10::IValue> stack = arguments_of(op.schema(), other);
  try {
    op.callBoxed(stack);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("every portable operator refuses an operand on another device, and says which operator it is") {
  MetaDevice device;
  const PortableOperators portable(device);
  size_t calls = 0;
  for (const std::string& name : portable.names()) {
    CAPTURE(name);
    const size_t dot = name.find('.');
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
        name.substr(0, dot).c_str(), dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
    size_t tensors = 0;
    for (const c10::Argument& formal : op.schema().arguments()) tensors += tensors_of(formal);
    for (size_t other = 0; tensors > 1 && other < tensors; ++other, ++calls) {
      CAPTURE(other);
      const std::string error = error_of_call(op, other);
      CHECK(error.find("found at least two devices") != std::string::npos);
      CHECK(error.find("in the portable kernel of " + name + ")") != std::string::npos);
    }
  }
  CHECK(calls > 500);
}

TEST_CASE("a kernel runs only where all of its operands are") {
  const torch::Tensor here = on(c10::kCPU), elsewhere = on(c10::kMeta);
  CHECK(execution_on(here, here, torch::Tensor(), std::optional<torch::Tensor>()).device == nullptr);
  CHECK_THROWS_WITH(execution_on(here, here, elsewhere), doctest::Contains("at least two devices, cpu and meta"));
  CHECK_THROWS_WITH(execution_on(here, torch::Tensor(), std::optional(elsewhere)), doctest::Contains("two devices"));
}

}  // namespace
}  // namespace estrain::operators
