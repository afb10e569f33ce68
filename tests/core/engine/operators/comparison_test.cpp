// Every portable operator against LibTorch's own: values within rounding, and the same type, shape and strides.

#include <ATen/core/dispatch/Dispatcher.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/engine/device/quiet_warnings.h"
#include "core/engine/operators/random_stream.h"
#include "core/engine/operators/scan.h"
#include "tests/core/engine/operators/comparison_cases.h"
#include "tests/core/engine/operators/portable_cpu.h"

namespace estrain::operators::comparing {
namespace {

using c10::IValue;
using c10::OperatorHandle;
using torch::Tensor;
using Arguments = std::vector<IValue>;

struct Outcome {
  std::string error;            // empty: none
  std::vector<Tensor> results;  // what it returns, and the arguments that it writes
  std::vector<Tensor> gradients;
};

// One call of one form of an operator.
struct Call {
  const Comparison* comparison;
  OperatorHandle op;
  std::string form;
  Arguments arguments;
  Outcome expected = {};
};

std::string name_of(const OperatorHandle& op) { return full_name(op.operator_name()); }

std::optional<OperatorHandle> find(const std::string& name) {
  const size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findSchema(
      {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
}

// A copy with the same strides.
Tensor twin(const Tensor& x) {
  if (!x.defined()) return x;
  int64_t last = 0;
  for (int64_t d = 0; d < x.dim(); ++d) last += (x.size(d) - 1) * x.stride(d);
  const Tensor memory = x.as_strided({x.numel() == 0 ? 0 : last + 1}, {1}).clone();
  Tensor copy = memory.as_strided(x.sizes(), x.strides(), 0);
  if (x.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

IValue twin(const IValue& value) {
  if (value.isTensor()) return twin(value.toTensor());
  if (value.isTensorList()) {
    std::vector<Tensor> copies;
    for (const Tensor& each : value.toTensorVector()) copies.push_back(twin(each));
    return copies;
  }
  return value;
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

void append_tensors(const IValue& value, std::vector<Tensor>& all) {
  if (value.isTensor()) all.push_back(value.toTensor());
  if (value.isTensorList())
    for (const Tensor& each : value.toTensorVector()) all.push_back(each);
}

std::vector<Tensor> gradients_of(const std::vector<Tensor>& results, const std::vector<Tensor>& inputs) {
  Tensor loss = torch::zeros({});
  for (const Tensor& y : results) {
    if (!y.requires_grad()) continue;
    const Tensor weights =
        (torch::arange(y.numel(), torch::kFloat) / static_cast<double>(std::max<int64_t>(y.numel(), 1)) - 0.5)
            .view(y.sizes());
    loss = loss + (y * weights).sum();
  }
  if (!loss.requires_grad()) return {};
  return torch::autograd::grad({loss}, inputs, {}, {}, false, true);
}

Outcome run(const Call& call) {
  Outcome outcome;
  Arguments stack;
  for (const IValue& each : call.arguments) stack.push_back(twin(each));
  std::vector<Tensor> inputs, written;
  if (call.comparison->has_gradients) {
    for (const IValue& each : stack) append_tensors(each, inputs);
    std::erase_if(inputs, [](const Tensor& x) { return !x.is_floating_point(); });
    for (const Tensor& x : inputs) x.requires_grad_(true);
  }
  const auto& declared = call.op.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i)
    if (writes(declared[i])) written.push_back(stack[i].toTensor());
  try {
    call.op.callBoxed(&stack);
    for (const IValue& each : stack) append_tensors(each, outcome.results);
    outcome.results.insert(outcome.results.end(), written.begin(), written.end());
    outcome.gradients = gradients_of(outcome.results, inputs);
  } catch (const c10::Error& error) {
    outcome.error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  return outcome;
}

// "": within rounding.
std::string difference_of_values(const Tensor& got, const Tensor& expected, double tolerance) {
  if (expected.numel() == 0) return "";
  if (!expected.is_floating_point()) return got.equal(expected) ? "" : "other values";
  const Tensor a = got.to(torch::kDouble), b = expected.to(torch::kDouble);
  if (!a.isnan().equal(b.isnan())) return "other NaNs";
  const Tensor is_finite = b.isfinite();
  if (!a.isfinite().equal(is_finite)) return "other infinities";
  if (!torch::where(b.isinf(), a, torch::zeros_like(a)).equal(torch::where(b.isinf(), b, torch::zeros_like(b))))
    return "infinities of another sign";
  const Tensor x = torch::where(is_finite, a, torch::zeros_like(a)),
               y = torch::where(is_finite, b, torch::zeros_like(b));
  const double scale = y.abs().max().item<double>(), error = (x - y).abs().max().item<double>();
  return error <= tolerance * std::max(scale, 1.0) ? ""
                                                   : fmt::format("values differ by {:.2g} of {:.2g}", error, scale);
}

std::string difference_of(const Tensor& got, const Tensor& expected, const Comparison& comparison, bool is_gradient) {
  if (got.defined() != expected.defined()) return got.defined() ? "defined, not undefined" : "undefined";
  if (!expected.defined()) return "";
  if (got.scalar_type() != expected.scalar_type())
    return fmt::format("{} for {}", at::toString(got.scalar_type()), at::toString(expected.scalar_type()));
  if (got.sizes() != expected.sizes()) return fmt::format("sizes {} for {}", got.sizes(), expected.sizes());
  if (!is_gradient && got.strides() != expected.strides())
    return fmt::format("strides {} for {} of sizes {}", got.strides(), expected.strides(), got.sizes());
  return comparison.draws ? "" : difference_of_values(got, expected, comparison.tolerance);
}

std::string difference_of(const Outcome& got, const Call& call) {
  const Outcome& expected = call.expected;
  if (got.error.empty() != expected.error.empty())
    return got.error.empty() ? "no error: " + expected.error : "an error: " + got.error;
  if (got.results.size() != expected.results.size() || got.gradients.size() != expected.gradients.size())
    return "another number of results";
  for (size_t i = 0; i < got.results.size(); ++i) {
    if (std::ranges::find(call.comparison->scratch, i) != call.comparison->scratch.end()) continue;
    const std::string difference = difference_of(got.results[i], expected.results[i], *call.comparison, false);
    if (!difference.empty()) return fmt::format("result {}: {}", i, difference);
  }
  for (size_t i = 0; i < got.gradients.size(); ++i) {
    const std::string difference = difference_of(got.gradients[i], expected.gradients[i], *call.comparison, true);
    if (!difference.empty()) return fmt::format("gradient {}: {}", i, difference);
  }
  return "";
}

// Whether `form` takes what `op` takes, and then perhaps places for the results.
bool takes_the_same(const OperatorHandle& form, const OperatorHandle& op, bool into) {
  const auto &wanted = op.schema().arguments(), &declared = form.schema().arguments();
  const size_t places = into ? op.schema().returns().size() : 0;
  if (declared.size() != wanted.size() + places) return false;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (*declared[i].type() != *wanted[i].type()) return false;
  return true;
}

// The registered forms of an operator that write to their first argument, or to places for the results.
struct Forms {
  std::vector<OperatorHandle> in_place, into;

  Forms(const OperatorHandle& op, const std::set<std::string>& registered) {
    const std::string base = op.operator_name().name;
    for (const std::string& name : registered) {
      const std::optional<OperatorHandle> form = find(name);
      if (!form || name == name_of(op)) continue;
      if (form->operator_name().name == base + "_" && takes_the_same(*form, op, false)) in_place.push_back(*form);
      const bool writes_last = writes(form->schema().arguments().back());
      if (form->operator_name().name == base && writes_last && takes_the_same(*form, op, true)) into.push_back(*form);
    }
  }
};

bool may_be_written(const Tensor& x) {
  for (int64_t d = 0; d < x.dim(); ++d)
    if (x.stride(d) == 0 && x.size(d) > 1) return false;
  return true;
}

// Places of other strides than a result would get.
Tensor turned_place(const Tensor& result) {
  std::vector<int64_t> order, sizes;
  for (int64_t d = result.dim() - 1; d >= 0; --d) order.push_back(d);
  for (const int64_t d : order) sizes.push_back(result.size(d));
  return torch::zeros(sizes, result.options()).permute(order);
}

// Some of LibTorch's own kernels refuse places of other sizes or strides, give them other ones, or write past the order
// of such elements.
bool takes_such_places(const Call& call, const Outcome& plain) {
  const Outcome& into = call.expected;
  if (!into.error.empty()) return false;
  for (size_t i = 0; i < plain.results.size(); ++i) {
    const Tensor &result = plain.results[i], &written = into.results[i];
    const Tensor place = call.arguments[call.comparison->arguments.size() + i].toTensor();
    if (written.sizes() != result.sizes() || !written.equal(result)) return false;
    if (place.sizes() == result.sizes() && written.strides() != place.strides()) return false;
  }
  return true;
}

std::vector<Call> calls_of(const std::vector<Comparison>& all, const std::set<std::string>& registered) {
  std::vector<Call> calls;
  std::map<std::string, Forms> forms;
  for (const Comparison& comparison : all) {
    const std::optional<OperatorHandle> op = find(comparison.name);
    REQUIRE_MESSAGE(op.has_value(), comparison.name);
    calls.push_back({&comparison, *op, "", comparison.arguments});
    calls.back().expected = run(calls.back());
    const Outcome plain = calls.back().expected;
    const Forms& each = forms.try_emplace(comparison.name, *op, registered).first->second;
    for (const OperatorHandle& form : each.in_place) {
      if (!may_be_written(comparison.arguments[0].toTensor())) continue;
      calls.push_back({&comparison, form, "in place", comparison.arguments});
      calls.back().expected = run(calls.back());
    }
    for (const OperatorHandle& form : each.into) {
      if (!plain.error.empty()) continue;
      for (const bool turns : {false, true}) {
        Arguments arguments = comparison.arguments;
        for (const Tensor& result : plain.results)
          arguments.push_back(turns ? turned_place(result) : torch::empty({0}, result.options()));
        Call call{&comparison, form, turns ? "into turned places" : "into new places", arguments};
        call.expected = run(call);
        if (takes_such_places(call, plain)) calls.push_back(std::move(call));
      }
    }
  }
  return calls;
}

std::set<std::string> registered_operators() {
  const PortableOperators portable(cpu);
  std::set<std::string> names = portable.names();
  names.insert("aten::copy_");
  return names;
}

TEST_CASE("every portable operator has LibTorch's values within rounding, and its types, shapes and strides") {
  const device::QuietWarnings quiet;
  const std::vector<Comparison> all = comparisons();
  const std::set<std::string> registered = registered_operators();
  const std::vector<Call> calls = calls_of(all, registered);
  std::set<std::string> missing = registered;
  const PortableOperators portable(cpu);
  begin_random_stream(1, 0, 0);
  for (const Call& call : calls) {
    const std::string name = name_of(call.op), difference = difference_of(run(call), call);
    if (call.expected.error.empty()) missing.erase(name);
    CHECK_MESSAGE(difference.empty(), name, ": ", call.comparison->what, call.form.empty() ? "" : ", ", call.form, ": ",
                  difference);
  }
  CHECK_MESSAGE(missing.empty(), "operators without a comparison: ", fmt::format("{}", missing));
}

// A device whose tensors have no memory: what a kernel must not take for an address on another one.
class Elsewhere : public device::CpuDevice {
 public:
  c10::Device torch_device() const override { return at::kMeta; }
};

// Tensors of a call that the kernel may not take from another device than the first one's.
std::vector<size_t> later_tensors(const Arguments& arguments) {
  std::vector<size_t> places;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_tensor =
        arguments[i].isTensor() && arguments[i].toTensor().defined() && arguments[i].toTensor().dim() > 0;
    if (is_tensor || (arguments[i].isTensorList() && !arguments[i].toTensorVector().empty())) places.push_back(i);
  }
  if (!places.empty()) places.erase(places.begin());
  return places;
}

IValue on_device(const IValue& value, at::Device device) {
  if (value.isTensor() && value.toTensor().defined()) return value.toTensor().to(device);
  if (!value.isTensorList()) return value;
  std::vector<Tensor> moved;
  for (const Tensor& each : value.toTensorVector()) moved.push_back(each.to(device));
  return moved;
}

TEST_CASE("every portable operator refuses an operand that is on another device") {
  const device::QuietWarnings quiet;
  const std::vector<Comparison> all = comparisons();
  Elsewhere elsewhere;
  const PortableOperators portable(elsewhere);
  std::set<std::string> seen;
  for (const Comparison& comparison : all) {
    const std::vector<size_t> places = later_tensors(comparison.arguments);
    if (places.empty() || !portable.names().contains(comparison.name) || !seen.insert(comparison.name).second) continue;
    const std::optional<OperatorHandle> op = find(comparison.name);
    for (const size_t place : places) {
      Arguments stack;
      for (size_t i = 0; i < comparison.arguments.size(); ++i)
        stack.push_back(i == place ? comparison.arguments[i] : on_device(comparison.arguments[i], at::kMeta));
      CAPTURE(comparison.name);
      CAPTURE(place);
      std::string message;
      try {
        op->callBoxed(&stack);
      } catch (const c10::Error& error) {
        message = error.what_without_backtrace();
      }
      CHECK_MESSAGE(message.find("on the same device") != std::string::npos, comparison.name, ", operand ", place, ": ",
                    message);
    }
  }
  CHECK(seen.size() > 60);
}

}  // namespace
}  // namespace estrain::operators::comparing
