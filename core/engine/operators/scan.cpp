#include "core/engine/operators/scan.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/engine/operators/refusal.h"

namespace estrain::operators {
namespace {

// RecordFunction::inputs() throws where this code is compiled with assertions and LibTorch without. A template's
// argument may name a private member.
Arguments arguments_of(const at::RecordFunction& function);
template <auto member>
struct Opened {
  friend Arguments arguments_of(const at::RecordFunction& function) { return function.*member; }
};
template struct Opened<&at::RecordFunction::inputs_>;

constexpr std::string_view own_operators = "estrain::";  // pass tensors between Python and this library

struct Call {
  std::string name;
  std::string layer;
  std::string which;          // the gap of the portable kernel or of a kernel inside the call
  bool inside_known = false;  // inside an operator judged as a whole
  OnGpu on_gpu = OnGpu::repeatable;
  std::optional<Coverage> coverage;  // for a call judged as a whole, outside other such calls
  bool is_operator = false;          // otherwise a step of autograd's engine
  bool is_backward = false;          // begins a node of the backward pass
  bool has_parts = false;
};

class Scanner {
 public:
  explicit Scanner(const ScanOptions& options) : options_(options) {}

  void begin(const at::RecordFunction& function);
  void end();
  void refused(const Refusal& refusal);
  bool was_stopped() const { return stopped_; }
  std::vector<OperatorUse> uses() const;

 private:
  void note(const Call& call, Coverage coverage);
  std::string layer_of(const at::RecordFunction& function);

  const ScanOptions& options_;
  std::vector<Call> open_;
  std::map<std::pair<std::string, std::string>, OperatorUse> found_;  // by name and refused case
  std::unordered_map<int64_t, std::string> forward_layers_;           // by autograd's sequence number
  std::vector<std::string> backward_layers_;
  bool stopped_ = false;  // by a refusal without a kernel of LibTorch's instead
};

// Set on the scanning thread, and on autograd's threads at work for it: LibTorch calls the observer there, too.
Scanner* scanner = nullptr;

// Returns whether the operator has a kernel on the CPU, where another worker may run it, or on this device.
bool has_own_kernel(const c10::OperatorName& name, c10::DispatchKey device) {
  const auto found = c10::Dispatcher::singleton().findOp(name);
  return found && (found->hasKernelForDispatchKey(c10::DispatchKey::CPU) || found->hasKernelForDispatchKey(device));
}

// Returns whether an operator, such as `x.numel()`, returns only whole numbers, booleans or words, and writes nothing.
bool has_no_arithmetic(const c10::OperatorName& name) {
  const auto found = c10::Dispatcher::singleton().findSchema(name);
  if (!found || found->schema().returns().empty()) return false;
  const auto writes = [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  };
  const auto is_plain = [](const c10::Argument& result) {
    const auto kind = result.type()->kind();
    return kind == c10::TypeKind::IntType || kind == c10::TypeKind::SymIntType || kind == c10::TypeKind::BoolType ||
           kind == c10::TypeKind::SymBoolType || kind == c10::TypeKind::StringType ||
           kind == c10::TypeKind::DeviceObjType;
  };
  return std::ranges::none_of(found->schema().arguments(), writes) &&
         std::ranges::all_of(found->schema().returns(), is_plain);
}

std::string Scanner::layer_of(const at::RecordFunction& function) {
  if (!backward_layers_.empty()) return backward_layers_.back();
  std::string layer(options_.layer ? options_.layer() : std::string_view());
  if (function.seqNr() >= 0 && !layer.empty()) forward_layers_.insert_or_assign(function.seqNr(), layer);
  return layer;
}

void Scanner::begin(const at::RecordFunction& function) {
  Call call;
  call.is_backward = function.scope() == at::RecordScope::BACKWARD_FUNCTION;
  call.is_operator = function.operator_name().has_value();
  if (call.is_backward) {
    const auto forward = forward_layers_.find(function.seqNr());
    backward_layers_.push_back(forward == forward_layers_.end() ? "" : forward->second);
  }
  if (call.is_backward || !call.is_operator) {
    open_.push_back(std::move(call));
    return;
  }
  const c10::OperatorName name = *function.operator_name();
  call.name = full_name(name);
  call.layer = layer_of(function);
  call.on_gpu = operators::on_gpu(call.name, arguments_of(function));
  call.inside_known = !open_.empty() && (open_.back().inside_known || open_.back().coverage);
  if (!open_.empty()) open_.back().has_parts = true;
  const std::optional<Coverage> coverage = judge(name, options_);
  if (!call.inside_known) call.coverage = coverage;
  open_.push_back(std::move(call));
}

void Scanner::end() {
  const Call call = std::move(open_.back());
  open_.pop_back();
  if (call.is_backward) backward_layers_.pop_back();
  if (!call.is_operator || call.inside_known || call.name.starts_with(own_operators)) return;
  if (call.coverage) {
    note(call, call.which.empty() ? *call.coverage : Coverage::uncovered);
  } else if (!call.has_parts) {
    note(call, Coverage::uncovered);
  }
}

void Scanner::refused(const Refusal& refusal) {
  const auto whole = std::ranges::find_if(open_, [](const Call& call) { return call.coverage.has_value(); });
  if (whole != open_.end()) {
    if (whole->which.empty()) whole->which = refusal.which;
    return;
  }
  Call call;
  call.name = "aten::" + refusal.name;
  call.which = refusal.which;
  if (!backward_layers_.empty()) call.layer = backward_layers_.back();
  note(call, Coverage::uncovered);
  stopped_ = true;
}

void Scanner::note(const Call& call, Coverage coverage) {
  OperatorUse& use = found_[{call.name, call.which}];
  use.name = call.name;
  use.which = call.which;
  use.coverage = coverage;
  use.on_gpu = std::max(use.on_gpu, call.on_gpu);
  use.calls += 1;
  if (!call.layer.empty() && std::ranges::find(use.layers, call.layer) == use.layers.end())
    use.layers.push_back(call.layer);
}

std::vector<OperatorUse> Scanner::uses() const {
  std::vector<OperatorUse> all;
  for (const auto& [key, use] : found_) all.push_back(use);
  std::ranges::stable_sort(all, [](const OperatorUse& a, const OperatorUse& b) {
    return (a.coverage == Coverage::uncovered) > (b.coverage == Coverage::uncovered);
  });
  return all;
}

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function) {
  if (scanner != nullptr) scanner->begin(function);
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) {
  if (scanner != nullptr) scanner->end();
}

// Observes this thread during the object's lifetime.
class Observing {
 public:
  explicit Observing(Scanner& with) {
    scanner = &with;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_begin, on_end)
                                             .needsInputs(true)
                                             .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~Observing() {
    at::removeCallback(handle_);
    scanner = nullptr;
  }
  Observing(const Observing&) = delete;
  Observing& operator=(const Observing&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::optional<Coverage> judge(const c10::OperatorName& name, const ScanOptions& options) {
  const std::string full = full_name(name);
  if (options.replaced->contains(full)) return Coverage::replaced;
  if (is_exact(full) || name.name.starts_with(own_operators) || has_no_arithmetic(name)) return Coverage::exact;
  if (has_own_kernel(name, options.device)) return Coverage::uncovered;
  return std::nullopt;
}

const char* to_string(Coverage coverage) {
  switch (coverage) {
    case Coverage::replaced:
      return "replaced";
    case Coverage::exact:
      return "exact";
    case Coverage::uncovered:
      break;
  }
  return "not covered";
}

std::vector<std::string> uncovered_so_far() {
  std::vector<std::string> names;
  if (scanner == nullptr) return names;
  for (const OperatorUse& use : scanner->uses())
    if (use.coverage == Coverage::uncovered) names.push_back(use.text());
  return names;
}

std::string OperatorUse::text() const { return which.empty() ? name : name + " " + which; }

bool is_scanning() { return scanner != nullptr; }

void tell_scan(const Refusal& refusal) {
  if (scanner != nullptr) scanner->refused(refusal);
}

std::vector<OperatorUse> scan(const ScanOptions& options, const std::function<void()>& work) {
  Scanner found(options);
  try {
    const Observing observing(found);
    work();
  } catch (...) {
    if (!found.was_stopped()) throw;
  }
  return found.uses();
}

}  // namespace estrain::operators
