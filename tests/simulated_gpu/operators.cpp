// LibTorch's operators on a simulated GPU. LibTorch's own CUDA code runs, creates the result tensors and launches
// kernels that compute nothing; in their place in the stream, LibTorch's CPU code computes the values.
//
// Part of libestrain_cuda.so, whose portable operators replace these as they replace LibTorch's.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/_index_put_impl_cuda_dispatch.h>
#include <ATen/ops/add_cuda_dispatch.h>
#include <ATen/ops/cumprod_cuda_dispatch.h>
#include <ATen/ops/cumsum_cuda_dispatch.h>
#include <ATen/ops/div_cuda_dispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/floor_divide_cuda_dispatch.h>
#include <ATen/ops/fmod_cuda_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_add_cuda_dispatch.h>
#include <ATen/ops/pow_cuda_dispatch.h>
#include <ATen/ops/prod_cuda_dispatch.h>
#include <ATen/ops/remainder_cuda_dispatch.h>
#include <ATen/ops/scatter_add_cuda_dispatch.h>
#include <ATen/ops/scatter_reduce_cuda_dispatch.h>
#include <ATen/ops/sort_cuda_dispatch.h>
#include <ATen/ops/sub_cuda_dispatch.h>
#include <ATen/ops/sum_cuda_dispatch.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/engine/device/quiet_warnings.h"
#include "tests/kernels/cuda/emulation/launch.h"
#include "tests/simulated_gpu/layer_operators.h"
#include "tests/simulated_gpu/machine.h"
#include "tests/simulated_gpu/random_operators.h"

namespace estrain::simulated {
namespace {

using at::Tensor;
using Stack = torch::jit::Stack;

// They allocate, create views, or copy through the runtime.
const std::set<std::string> kComputeNothing = {
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::as_strided",
    "aten::view",
    "aten::_reshape_alias",
    "aten::unfold",
    "aten::set_.source_Storage",
    "aten::set_",
    "aten::set_.source_Storage_storage_offset",
    "aten::set_.source_Tensor",
    "aten::resize_",
    "aten::record_stream",
    "aten::_local_scalar_dense",
    "aten::is_set_to",
    "aten::view.dtype",
};

Machine& machine() { return Machine::of_process(); }
Stream* current_stream() { return machine().stream(c10::cuda::getCurrentCUDAStream().stream()); }

// The same memory as a CPU tensor; does not keep it alive, like a launched kernel.
Tensor on_cpu(const Tensor& tensor) {
  Tensor seen = at::from_blob(tensor.unsafeGetTensorImpl()->mutable_data(), tensor.sizes(), tensor.strides(),
                              tensor.options().device(at::kCPU).requires_grad(false));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) seen.unsafeGetTensorImpl()->set_wrapped_number(true);
  return seen;
}

// A host tensor may change before it is read.
Tensor argument_of(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (tensor.is_cuda()) return on_cpu(tensor);
  Tensor copy = tensor.clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

c10::IValue argument_of(const c10::IValue& value) {
  if (value.isTensor()) return argument_of(value.toTensor());
  if (value.isDevice()) return c10::Device(at::kCPU);
  if (value.isTensorList()) {
    c10::List<Tensor> all;
    for (const Tensor& tensor : value.toTensorVector()) all.push_back(argument_of(tensor));
    return all;
  }
  if (value.isList() && value.toListRef().size() > 0 && value.toListRef()[0].isTensor()) {
    c10::List<std::optional<Tensor>> all;
    for (const c10::IValue& tensor : value.toListRef())
      all.push_back(tensor.isNone() ? std::nullopt : std::optional(argument_of(tensor.toTensor())));
    return all;
  }
  return value;
}

void give(const c10::IValue& computed, const c10::IValue& result) {
  if (result.isTensorList()) {
    const auto from = computed.toTensorVector(), to = result.toTensorVector();
    for (size_t i = 0; i < to.size(); ++i) give(from[i], to[i]);
    return;
  }
  if (!result.isTensor() || !result.toTensor().defined()) return;
  const Tensor from = computed.toTensor(), to = result.toTensor();
  if (from.defined() && to.numel() > 0 && from.const_data_ptr() != to.const_data_ptr()) Tensor(to).copy_(from);
}

// Without autograd, as below an operator's dispatch.
class Computing {
  const at::AutoDispatchBelowADInplaceOrView below_;
  const c10::AutoGradMode without_graph_{false};
};

// LibTorch splits it into a copy by the runtime and copies on the device.
bool goes_between_host_and_device(const c10::OperatorHandle& op, const Stack& stack) {
  if (op.schema().name() != "aten::copy_") return false;
  const auto arguments = torch::jit::last(stack, 3);
  return arguments[0].toTensor().device() != arguments[1].toTensor().device();
}

// Returns a number, for which LibTorch waits.
bool answers_the_host(const c10::OperatorHandle& op) {
  return std::ranges::any_of(op.schema().returns(), [](const c10::Argument& result) {
    const auto kind = result.type()->kind();
    return kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType;
  });
}

// The state of the device's generator when an operator draws from it; in a captured graph, known only when it computes.
struct RandomNumbers {
  at::PhiloxCudaState place;

  explicit RandomNumbers(c10::DeviceIndex device) {
    at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(device);
    const std::lock_guard lock(generator.mutex());
    place = at::check_generator<at::CUDAGeneratorImpl>(generator)->philox_cuda_state(0);
  }
  Philox philox() const {
    if (!place.captured_) return {place.seed_.val, place.offset_.val};
    return {static_cast<uint64_t>(*place.seed_.ptr),
            static_cast<uint64_t>(*place.offset_.ptr) + place.offset_intragraph_};
  }
};

// Operators whose code LibTorch compiles when they are first called, by CUDA's compiler.
const std::set<std::string> kCompiledLate = {"aten::prod", "aten::prod.dim_int"};

c10::IValue without_memory(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return value;
  const Tensor tensor = value.toTensor();
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta).requires_grad(false));
}

// Replaces the arguments by an operator's results on the device, without values.
void make_results(const c10::OperatorHandle& op, Stack& stack) {
  const size_t arguments = op.schema().arguments().size();
  Stack results;
  for (const c10::IValue& value : torch::jit::last(stack, arguments)) results.push_back(without_memory(value));
  op.callBoxed(results);
  torch::jit::drop(stack, arguments);
  for (const c10::IValue& result : results) {
    const Tensor like = result.toTensor();
    stack.push_back(at::empty_strided(like.sizes(), like.strides(), like.options().device(at::kCUDA)));
  }
}

// The implementation of an operator on the device.
struct Computation {
  c10::OperatorHandle op;
  LayerOperator of_layer;
  Drawing drawing;
  std::optional<RandomNumbers> numbers;
  Stack given, wanted;

  explicit Computation(const c10::OperatorHandle& of)
      : op(of), of_layer(layer_operator_of(toString(of.operator_name()))), drawing(drawing_of(of)) {
    if (drawing != nullptr) numbers.emplace(c10::cuda::current_device());
  }

  Stack results() const {
    const Computing computing;
    if (of_layer != nullptr) return of_layer(given);
    if (drawing != nullptr) return drawing(given, numbers->philox());
    Stack values = given;
    op.callBoxed(values);
    return values;
  }
  void compute() const {
    const Stack values = results();
    const Computing computing;
    for (size_t i = 0; i < wanted.size(); ++i) give(values[i], wanted[i]);
  }
};

class ComputedByCpu : public c10::OperatorKernel {
 public:
  explicit ComputedByCpu(c10::SafeKernelFunction of_cuda) : of_cuda_(std::move(of_cuda)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) const {
    if (goes_between_host_and_device(op, *stack)) return of_cuda_.callBoxed(op, keys, stack);
    const bool is_part = ComputedElsewhere::is_so();  // part of an operator that is computed as a whole
    const ComputedElsewhere computed_elsewhere;
    if (is_part) return of_cuda_.callBoxed(op, keys, stack);
    const size_t arguments = op.schema().arguments().size();
    machine().load(op.schema().name());
    Computation computation(op);
    const Stack given(torch::jit::last(*stack, arguments).begin(), torch::jit::last(*stack, arguments).end());
    {
      const Computing computing;
      for (const c10::IValue& value : given) computation.given.push_back(argument_of(value));
    }
    if (computation.drawing == nullptr && answers_the_host(op)) {
      torch::jit::drop(*stack, arguments);
      const auto results = std::make_shared<Stack>();
      machine().put(current_stream(), [computation, results] { *results = computation.results(); });
      C10_CUDA_CHECK(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()));
      for (c10::IValue& result : *results) stack->push_back(std::move(result));
      return;
    }
    if (kCompiledLate.contains(toString(op.operator_name()))) {
      make_results(op, *stack);
    } else {
      of_cuda_.callBoxed(op, keys, stack);
    }
    for (size_t i = 0; i < given.size(); ++i) {  // an out= tensor may have new sizes after the call
      const auto* alias = op.schema().arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite()) computation.given[i] = argument_of(given[i]);
    }
    for (const c10::IValue& value : torch::jit::last(*stack, op.schema().returns().size()))
      computation.wanted.push_back(argument_of(value));
    machine().put(current_stream(), [computation] { computation.compute(); });
  }

 private:
  const c10::SafeKernelFunction of_cuda_;
};

class Operators {
 public:
  Operators() {
    const device::QuietWarnings quiet;
    auto& dispatcher = c10::Dispatcher::singleton();
    auto names = dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CUDA);
    names.push_back({"aten::copy_", ""});  // one kernel for all devices
    for (const c10::OperatorName& name : names) {
      const auto op = dispatcher.findSchema(name);
      if (!op || kComputeNothing.contains(toString(name))) continue;
      auto functor = std::make_unique<ComputedByCpu>(op->getComputedKernelForDispatchKey(c10::DispatchKey::CUDA));
      of_name_[toString(name)] = functor.get();
      registered_.push_back(dispatcher.registerImpl(name, c10::DispatchKey::CUDA,
                                                    c10::KernelFunction::makeFromBoxedFunctor(std::move(functor)),
                                                    std::nullopt, nullptr, "simulated GPU"));
    }
    kernels::cuda::emulation::launch_later = [](void* stream, const char* name, std::function<void()> work) {
      if (const cudaError_t earlier = cudaGetLastError(); earlier != cudaSuccess) {  // as in kernels/cuda/grid.h
        throw std::runtime_error(std::string("an earlier call failed, before kernel ") + name + ": " +
                                 cudaGetErrorString(earlier));
      }
      machine().load(name);
      machine().put(machine().stream(stream), std::move(work));
    };
  }

  // LibTorch's own implementation, even if replaced.
  template <typename... Arguments>
  Stack call_all(const std::string& name, const std::string& overload, const Arguments&... arguments) const {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
    Stack stack;
    torch::jit::push(stack, arguments...);
    (*of_name_.at(overload.empty() ? name : name + "." + overload))(op, c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                                    &stack);
    return stack;
  }
  template <typename... Arguments>
  Tensor call(const std::string& name, const std::string& overload, const Arguments&... arguments) const {
    return call_all(name, overload, arguments...).back().toTensor();
  }

 private:
  std::map<std::string, const ComputedByCpu*> of_name_;
  std::vector<c10::RegistrationHandleRAII> registered_;
};

// Runs before any computation and after loading LibTorch's CUDA library, which this one needs.
const Operators& operators = *new Operators();

}  // namespace
}  // namespace estrain::simulated

// Functions that core/engine/cuda calls without the dispatcher; the linker finds these before those of
// libtorch_cuda.so.
namespace at::cuda {

using estrain::simulated::operators;

Tensor add(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  return operators.call("aten::add", "Tensor", self, other, alpha);
}
Tensor sub(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  return operators.call("aten::sub", "Tensor", self, other, alpha);
}
Tensor& add_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  operators.call("aten::add_", "Tensor", self, other, alpha);
  return self;
}
Tensor& sub_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  operators.call("aten::sub_", "Tensor", self, other, alpha);
  return self;
}
Tensor& add_out(Tensor& out, const Tensor& self, const Tensor& other, const Scalar& alpha) {
  operators.call("aten::add", "out", self, other, alpha, out);
  return out;
}
Tensor& sub_out(Tensor& out, const Tensor& self, const Tensor& other, const Scalar& alpha) {
  operators.call("aten::sub", "out", self, other, alpha, out);
  return out;
}
Tensor div(const Tensor& self, const Tensor& other) { return operators.call("aten::div", "Tensor", self, other); }
Tensor& div_(Tensor& self, const Tensor& other) {
  operators.call("aten::div_", "Tensor", self, other);
  return self;
}
Tensor& div_out(Tensor& out, const Tensor& self, const Tensor& other) {
  operators.call("aten::div", "out", self, other, out);
  return out;
}
Tensor pow(const Tensor& self, const Scalar& exponent) {
  return operators.call("aten::pow", "Tensor_Scalar", self, exponent);
}
Tensor sum(const Tensor& self, OptionalIntArrayRef dims, bool keepdim, std::optional<ScalarType> dtype) {
  return operators.call("aten::sum", "dim_IntList", self, dims, keepdim, dtype);
}

Tensor div(const Tensor& self, const Tensor& other, std::optional<std::string_view> mode) {
  return operators.call("aten::div", "Tensor_mode", self, other, mode);
}
Tensor floor_divide(const Tensor& self, const Tensor& other) {
  return operators.call("aten::floor_divide", "", self, other);
}
Tensor remainder(const Tensor& self, const Tensor& other) {
  return operators.call("aten::remainder", "Tensor", self, other);
}
Tensor fmod(const Tensor& self, const Tensor& other) { return operators.call("aten::fmod", "Tensor", self, other); }
Tensor prod(const Tensor& self, int64_t dim, bool keepdim, std::optional<ScalarType> dtype) {
  return operators.call("aten::prod", "dim_int", self, dim, keepdim, dtype);
}
Tensor cumsum(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype) {
  return operators.call("aten::cumsum", "", self, dim, dtype);
}
Tensor cumprod(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype) {
  return operators.call("aten::cumprod", "", self, dim, dtype);
}
std::tuple<Tensor, Tensor> sort(const Tensor& self, std::optional<bool> stable, int64_t dim, bool descending) {
  const auto results = operators.call_all("aten::sort", "stable", self, stable, dim, descending);
  return {results[0].toTensor(), results[1].toTensor()};
}
Tensor& _index_put_impl_(Tensor& self, const c10::List<std::optional<Tensor>>& indices, const Tensor& values,
                         bool accumulate, bool unsafe) {
  operators.call("aten::_index_put_impl_", "", self, indices, values, accumulate, unsafe);
  return self;
}
Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  return operators.call("aten::index_add", "", self, dim, index, source, alpha);
}
Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  return operators.call("aten::scatter_add", "", self, dim, index, source);
}
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self) {
  return operators.call("aten::scatter_reduce", "two", self, dim, index, source, reduce, include_self);
}

}  // namespace at::cuda
