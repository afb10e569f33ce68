#include "core/model/plan.h"

#include <ATen/ScalarOps.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/size_arithmetic.h"
#include "core/model/torch_error.h"

namespace estrain::model {
namespace {

using program::Argument;
using program::Call;
using Operand = Plan::Operand;

constexpr int64_t kStrided = 7;  // of the schema's layouts

// Operators that reach beyond tensors.
constexpr std::string_view kRefused[] = {"aten::from_file"};

// What Module.eval() changes: the argument that says so, and whether it is given as "off".
struct Switch {
  std::string_view name, argument;
};
constexpr Switch kSwitches[] = {
    {"aten::dropout", "train"},
    {"aten::dropout_", "train"},
    {"aten::feature_dropout", "train"},
    {"aten::feature_dropout_", "train"},
    {"aten::alpha_dropout", "train"},
    {"aten::feature_alpha_dropout", "train"},
    {"aten::native_dropout", "train"},
    {"aten::batch_norm", "training"},
    {"aten::rrelu", "training"},
    {"aten::lstm", "train"},
    {"aten::gru", "train"},
    {"aten::rnn_tanh", "train"},
    {"aten::rnn_relu", "train"},
};
constexpr std::string_view kAttention = "aten::scaled_dot_product_attention";

const Switch* switch_of(std::string_view name) {
  const auto found = std::ranges::find(kSwitches, name, &Switch::name);
  return found == std::end(kSwitches) ? nullptr : found;
}

Error unfit(const Call& call, const std::string& what) {
  return Error::make(Fault::mismatch, "{}{}{}: {}", call.full_name(), call.place().empty() ? "" : " at ", call.place(),
                     what)
      .advise("export the model again with the PyTorch release that this estrain is built on");
}

torch::Tensor wrapped(const at::Scalar& number) {  // as Python's bindings give a number in a tensor's place
  torch::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

at::MemoryFormat memory_format(int64_t number) {
  switch (number) {
    case 1:
      return at::MemoryFormat::Contiguous;
    case 2:
      return at::MemoryFormat::ChannelsLast;
    case 3:
      return at::MemoryFormat::ChannelsLast3d;
    default:
      return at::MemoryFormat::Preserve;
  }
}

// What an operator asks for in one place.
class Formal {
 public:
  explicit Formal(const c10::Argument& argument) : argument_(argument), type_(argument.real_type()) {
    if (const auto optional = type_->cast<c10::OptionalType>()) type_ = optional->getElementType(), optional_ = true;
    if (const auto list = type_->cast<c10::ListType>()) item_ = list->getElementType();
  }
  bool is_optional() const { return optional_; }
  c10::TypeKind kind() const { return type_->kind(); }
  bool is(c10::TypeKind kind) const { return type_->kind() == kind; }
  bool is_whole() const { return is(c10::TypeKind::IntType) || is(c10::TypeKind::SymIntType); }
  bool is_list() const { return item_ != nullptr; }
  c10::TypeKind item() const { return item_->kind(); }
  bool is_list_of_optional() const { return is_list() && item() == c10::TypeKind::OptionalType; }
  bool is_list_of_whole() const {
    return is_list() && (item() == c10::TypeKind::IntType || item() == c10::TypeKind::SymIntType);
  }
  bool is_list_of_float() const { return is_list() && item() == c10::TypeKind::FloatType; }
  size_t length() const { return static_cast<size_t>(std::clamp(argument_.N().value_or(1), 1, 16)); }

 private:
  const c10::Argument& argument_;
  c10::TypePtr type_, item_;
  bool optional_ = false;
};

struct BadArgument {};

// Turns one argument of a call into an operand of what `formal` asks for. Throws BadArgument where it cannot be.
struct ToOperand {
  const Formal& formal;

  static Operand constant(c10::IValue value) { return {.constant = std::move(value)}; }

  Operand number(const at::Scalar& value) const {
    if (formal.is(c10::TypeKind::TensorType)) return constant(wrapped(value));
    if (formal.is(c10::TypeKind::NumberType)) return constant(value);
    if (formal.is(c10::TypeKind::FloatType)) return constant(value.toDouble());
    if (formal.is_whole() && !value.isFloatingPoint()) return constant(value.toLong());
    if (formal.is(c10::TypeKind::BoolType) && !value.isFloatingPoint()) return constant(value.toLong() != 0);
    if (formal.is_list_of_whole() && !value.isFloatingPoint())
      return constant(std::vector<int64_t>(formal.length(), value.toLong()));
    if (formal.is_list_of_float()) return constant(std::vector<double>(formal.length(), value.toDouble()));
    throw BadArgument{};
  }

  Operand operator()(program::None) const {
    if (!formal.is_optional()) throw BadArgument{};
    return {};
  }
  Operand operator()(program::Value value) const {
    return {.kind = Operand::Kind::value,
            .value = value.number,
            .is_tensor = formal.is(c10::TypeKind::TensorType),
            .is_float = formal.is(c10::TypeKind::FloatType)};
  }
  Operand operator()(bool value) const {
    if (formal.is(c10::TypeKind::BoolType)) return constant(value);
    return number(value);
  }
  Operand operator()(int64_t value) const { return number(value); }
  Operand operator()(double value) const { return number(value); }
  Operand operator()(const std::string& value) const {
    if (!formal.is(c10::TypeKind::StringType)) throw BadArgument{};
    return constant(value);
  }
  Operand operator()(const std::vector<int64_t>& value) const {
    if (formal.is_list_of_float()) return constant(std::vector<double>(value.begin(), value.end()));
    if (!formal.is_list_of_whole()) throw BadArgument{};
    return constant(value);
  }
  Operand operator()(const std::vector<double>& value) const {
    if (!formal.is_list_of_float()) throw BadArgument{};
    return constant(value);
  }
  Operand operator()(const std::vector<bool>& value) const {
    if (!formal.is_list() || formal.item() != c10::TypeKind::BoolType) throw BadArgument{};
    c10::List<bool> list;
    for (const bool item : value) list.push_back(item);
    return constant(list);
  }
  Operand operator()(const std::vector<program::Item>& items) const {
    Operand list;
    if (formal.is_list_of_optional()) {
      list.kind = Operand::Kind::optional_tensors;
    } else if (formal.is_list() && formal.item() == c10::TypeKind::TensorType) {
      list.kind = Operand::Kind::tensors;
    } else if (formal.is_list_of_whole()) {
      list.kind = Operand::Kind::integers;
    } else {
      throw BadArgument{};
    }
    for (const program::Item& item : items) {
      if (const auto* value = std::get_if<program::Value>(&item)) {
        list.items.push_back({.kind = Operand::Kind::value, .value = value->number});
      } else if (const auto* whole = std::get_if<int64_t>(&item)) {
        if (list.kind != Operand::Kind::integers) throw BadArgument{};
        list.items.push_back(constant(*whole));
      } else {
        if (list.kind != Operand::Kind::optional_tensors) throw BadArgument{};
        list.items.emplace_back();
      }
    }
    return list;
  }
  Operand operator()(program::Type type) const {
    if (!formal.is(c10::TypeKind::ScalarTypeType) && !formal.is_whole()) throw BadArgument{};
    return constant(static_cast<int64_t>(scalar_type(type)));
  }
  Operand operator()(program::Layout layout) const {
    if (layout.number != kStrided) throw BadArgument{};
    return constant(static_cast<int64_t>(c10::Layout::Strided));
  }
  Operand operator()(program::MemoryFormat format) const {
    return constant(static_cast<int64_t>(memory_format(format.number)));
  }
  Operand operator()(const program::Device& device) const {
    if (device.type != "cpu") throw BadArgument{};
    return constant(c10::Device(c10::kCPU));
  }
};

// Of a size's arithmetic: numbers and values.
Operand bare_operand(const Call& call, const Argument& argument) {
  if (const auto* value = std::get_if<program::Value>(&argument))
    return {.kind = Operand::Kind::value, .value = value->number};
  if (const auto* whole = std::get_if<int64_t>(&argument)) return {.constant = *whole};
  if (const auto* real = std::get_if<double>(&argument)) return {.constant = *real};
  if (const auto* truth = std::get_if<bool>(&argument)) return {.constant = *truth};
  throw unfit(call, "arithmetic of sizes with what is no number");
}

// Grad mode and autocast as the calls' modes want them; at the end as they were.
class ModeSwitch {
 public:
  ModeSwitch(const std::vector<program::Modes>& modes, bool with_gradients)
      : modes_(modes), with_gradients_(with_gradients), grad_before_(c10::GradMode::is_enabled()) {}
  ~ModeSwitch() { enter(0); }
  ModeSwitch(const ModeSwitch&) = delete;
  ModeSwitch& operator=(const ModeSwitch&) = delete;

  void enter(size_t index) {
    if (index == current_) return;
    const program::Modes &from = modes_[current_], &to = modes_[index];
    current_ = index;
    if (with_gradients_) c10::GradMode::set_enabled(to.grad.value_or(grad_before_));
    if (from.autocast || to.autocast) autocast(from, to);
  }

 private:
  // As torch.autocast's __enter__ and __exit__: casts of weights are kept until the outermost block is left.
  void autocast(const program::Modes& from, const program::Modes& to) {
    const int64_t was = from.autocast ? from.autocast->outermost : -1, is = to.autocast ? to.autocast->outermost : -1;
    if (was != is && was >= 0 && at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    if (was < 0) {
      enabled_before_ = at::autocast::is_autocast_enabled(at::kCPU);
      type_before_ = at::autocast::get_autocast_dtype(at::kCPU);
      cache_before_ = at::autocast::is_autocast_cache_enabled();
    }
    if (was != is && is >= 0) at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(at::kCPU, is >= 0 ? to.autocast->enabled : enabled_before_);
    at::autocast::set_autocast_dtype(at::kCPU, is >= 0 ? scalar_type(to.autocast->type) : type_before_);
    at::autocast::set_autocast_cache_enabled(is >= 0 ? to.autocast->cache : cache_before_);
  }

  const std::vector<program::Modes>& modes_;
  const bool with_gradients_, grad_before_;
  size_t current_ = 0;
  bool enabled_before_ = false, cache_before_ = false;
  c10::ScalarType type_before_{};
};

}  // namespace

c10::ScalarType scalar_type(program::Type type) {
  switch (type) {
    case program::Type::u8:
      return at::kByte;
    case program::Type::i8:
      return at::kChar;
    case program::Type::i16:
      return at::kShort;
    case program::Type::i32:
      return at::kInt;
    case program::Type::i64:
      return at::kLong;
    case program::Type::f16:
      return at::kHalf;
    case program::Type::f32:
      return at::kFloat;
    case program::Type::f64:
      return at::kDouble;
    case program::Type::c32:
      return at::kComplexHalf;
    case program::Type::c64:
      return at::kComplexFloat;
    case program::Type::c128:
      return at::kComplexDouble;
    case program::Type::boolean:
      return at::kBool;
    case program::Type::bf16:
      return at::kBFloat16;
  }
  throw Error(Fault::bug, "unknown element type");
}

Plan::Plan(const program::Program& program, Use use, const StoredValues& stored)
    : program_(program),
      use_(use),
      values_(static_cast<size_t>(program.values)),
      stays_(static_cast<size_t>(program.values)),
      roots_(static_cast<size_t>(program.values)) {
  for (const auto& [number, tensor] : stored) {
    values_[static_cast<size_t>(number)] = tensor;
    stays_[static_cast<size_t>(number)] = true;
    roots_[static_cast<size_t>(number)] = {number};
  }
  for (const Call& call : program.calls) add(call);
  for (const auto& [buffer, from] : program.mutations) {
    const auto found = std::ranges::find(program.buffers, buffer, &program::StoredTensor::name);
    written_.insert(found->value);
    if (use == Use::frozen)
      throw Error::make(Fault::spec, "{}: the program replaces its buffer {}", program.path, buffer)
          .advise("export the model in eval() mode as well: model.eval_file");
  }
  find_last_uses();
}

void Plan::add(const Call& call) {
  Step step;
  step.results = call.results;
  step.modes = call.modes;
  step.place = call.place();
  step.name = call.full_name();
  if (call.is_arithmetic) {
    step.arithmetic = size_arithmetic(call.name);
    if (step.arithmetic == nullptr) throw unfit(call, "this arithmetic of sizes is not known here");
    for (const auto& [name, argument] : call.arguments) step.operands.push_back(bare_operand(call, argument));
    if (step.results.size() != 1 || step.results[0].is_list) throw unfit(call, "it gives one number");
  } else {
    add_operator(call, step);
    note_mode(step);
    if (use_ == Use::frozen && !freeze(call, step)) return;
    note_writes(call, step);
  }
  steps_.push_back(std::move(step));
}

void Plan::add_operator(const Call& call, Step& step) {
  if (!call.name.starts_with("aten::"))
    throw unfit(call, "an operator of another library than PyTorch's ATen")
        .advise("write it with PyTorch's own operators, whose gradients are known here");
  if (std::ranges::find(kRefused, call.name) != std::end(kRefused))
    throw unfit(call, "an operator that reaches beyond tensors").advise("a model has no use for it");
  step.op = c10::Dispatcher::singleton().findSchema({call.name, call.overload});
  if (!step.op) throw unfit(call, "this LibTorch has no such operator");
  const c10::FunctionSchema& schema = step.op->schema();
  std::map<std::string_view, const Argument*> given;
  for (const auto& [name, argument] : call.arguments)
    if (!given.emplace(name, &argument).second) throw unfit(call, fmt::format("its argument {} is given twice", name));
  for (const c10::Argument& formal : schema.arguments()) {
    const auto found = given.find(formal.name());
    if (found == given.end()) {
      if (!formal.default_value()) throw unfit(call, fmt::format("its argument {} is missing", formal.name()));
      step.operands.push_back({.constant = *formal.default_value()});
      continue;
    }
    try {
      step.operands.push_back(std::visit(ToOperand{Formal(formal)}, *found->second));
    } catch (const BadArgument&) {
      throw unfit(call, fmt::format("its argument {} is of a kind that it does not take", formal.name()));
    }
    given.erase(found);
  }
  if (!given.empty()) throw unfit(call, fmt::format("it has no argument {}", given.begin()->first));
  if (step.results.size() > schema.returns().size()) throw unfit(call, "it gives fewer results");
}

// How many of the calls compute as in training, and how many as in evaluation.
void Plan::note_mode(Step& step) {
  const c10::FunctionSchema& schema = step.op->schema();
  const Switch* found = switch_of(schema.name());
  if (found == nullptr) return;
  const auto index = schema.argumentIndexWithName(found->argument);
  if (!index) return;
  if (schema.name() == "aten::batch_norm") step.training_at = static_cast<size_t>(*index);
  const c10::IValue& value = step.operands[static_cast<size_t>(*index)].constant;
  (value.isBool() && value.toBool() ? training_calls_ : evaluation_calls_) += 1;
}

// False: in evaluation there is no such call.
bool Plan::freeze(const Call& call, Step& step) {
  const c10::FunctionSchema& schema = step.op->schema();
  const auto set = [&](std::string_view argument, c10::IValue value) {
    const auto index = schema.argumentIndexWithName(argument);
    if (index) step.operands[static_cast<size_t>(*index)] = {.constant = std::move(value)};
    return index.has_value();
  };
  const auto refused = [&](const std::string& what) {
    return Error::make(Fault::spec, "{}{}{} {}, which cannot be switched off for an evaluation", call.full_name(),
                       step.place.empty() ? "" : " at ", step.place, what)
        .advise("export the model in eval() mode as well: model.eval_file; or set train.eval_every = \"never\"");
  };
  if (const Switch* found = switch_of(schema.name())) return set(found->argument, false);
  if (schema.name() == kAttention) return set("dropout_p", 0.0);
  if (step.op->hasTag(at::Tag::nondeterministic_seeded)) throw refused("draws random numbers");
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const Operand& operand = step.operands[i];
    const bool writes = schema.arguments()[i].alias_info() != nullptr && schema.arguments()[i].alias_info()->isWrite();
    if (!writes || operand.kind != Operand::Kind::value) continue;
    const std::set<int>& roots = roots_[static_cast<size_t>(operand.value)];
    if (roots.empty()) continue;
    // Batch norm's count of batches, which only a momentum of None would use.
    const c10::IValue& target = values_[static_cast<size_t>(operand.value)];
    const bool counts = schema.name() == "aten::add_" && target.isTensor() && target.toTensor().dim() == 0 &&
                        target.toTensor().scalar_type() == at::kLong;
    if (!counts) throw refused("changes a buffer");
    return false;
  }
  return true;
}

// A view shows what it is a view of; what is written there is written to that.
void Plan::note_writes(const Call& call, const Step& step) {
  const c10::FunctionSchema& schema = step.op->schema();
  std::set<int> shown;
  const auto note = [&](const Operand& operand, const c10::Argument& formal, bool writes) {
    if (operand.value < 0) return;
    const std::set<int>& roots = roots_[static_cast<size_t>(operand.value)];
    if (formal.alias_info() != nullptr) shown.insert(roots.begin(), roots.end());
    if (writes) written_.insert(roots.begin(), roots.end());
  };
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const c10::Argument& formal = schema.arguments()[i];
    // Batch norm writes its running statistics, which its schema does not say.
    const bool writes = (formal.alias_info() != nullptr && formal.alias_info()->isWrite()) ||
                        formal.name() == "running_mean" || formal.name() == "running_var";
    note(step.operands[i], formal, writes);
    for (const Operand& item : step.operands[i].items) note(item, formal, writes);
  }
  if (shown.empty()) return;
  for (const Call::Result& result : call.results)
    for (const int value : result.values) roots_[static_cast<size_t>(value)].insert(shown.begin(), shown.end());
}

void Plan::find_last_uses() {
  std::vector<bool> used(stays_);
  for (const int output : program_.outputs) used[static_cast<size_t>(output)] = true;
  for (const auto& [buffer, from] : program_.mutations) used[static_cast<size_t>(from)] = true;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const auto visit = [&](int value) {
      if (value < 0 || used[static_cast<size_t>(value)]) return;
      used[static_cast<size_t>(value)] = true;
      step->last.push_back(value);
    };
    for (const Operand& operand : step->operands) {
      visit(operand.value);
      for (const Operand& item : operand.items) visit(item.value);
    }
    for (const Call::Result& result : step->results)
      for (const int value : result.values) visit(value);
  }
}

void Plan::push(const Operand& operand) {
  const auto value_of = [this](const Operand& item) -> const c10::IValue& {
    return item.value >= 0 ? values_[static_cast<size_t>(item.value)] : item.constant;
  };
  switch (operand.kind) {
    case Operand::Kind::constant:
      stack_.push_back(operand.constant);
      return;
    case Operand::Kind::value: {
      const c10::IValue& value = values_[static_cast<size_t>(operand.value)];
      if (operand.is_tensor && value.isScalar()) {
        stack_.emplace_back(wrapped(value.toScalar()));
      } else if (operand.is_float && value.isInt()) {
        stack_.emplace_back(static_cast<double>(value.toInt()));
      } else {
        stack_.push_back(value);
      }
      return;
    }
    case Operand::Kind::tensors: {
      c10::List<at::Tensor> list;
      for (const Operand& item : operand.items) list.push_back(value_of(item).toTensor());
      stack_.emplace_back(std::move(list));
      return;
    }
    case Operand::Kind::optional_tensors: {
      c10::List<std::optional<at::Tensor>> list;
      for (const Operand& item : operand.items) {
        const c10::IValue& value = value_of(item);
        list.push_back(value.isNone() ? std::nullopt : std::optional(value.toTensor()));
      }
      stack_.emplace_back(std::move(list));
      return;
    }
    case Operand::Kind::integers: {
      c10::List<int64_t> list;
      for (const Operand& item : operand.items) list.push_back(value_of(item).toInt());
      stack_.emplace_back(std::move(list));
      return;
    }
  }
}

void Plan::take_results(const Step& step) {
  for (size_t i = 0; i < step.results.size(); ++i) {
    const Call::Result& result = step.results[i];
    if (!result.is_list) {
      if (!result.values.empty()) values_[static_cast<size_t>(result.values[0])] = std::move(stack_.at(i));
      continue;
    }
    const std::vector<at::Tensor> tensors = stack_.at(i).toTensorVector();
    TORCH_CHECK(tensors.size() == result.values.size(), "it gives ", tensors.size(), " tensors, not ",
                result.values.size());
    for (size_t k = 0; k < tensors.size(); ++k) values_[static_cast<size_t>(result.values[k])] = tensors[k];
  }
}

// As Python's batch_norm does, before it asks LibTorch.
void Plan::require_values_per_channel(const Step& step) const {
  const at::Tensor& input = stack_.front().toTensor();
  if (!stack_.at(step.training_at).toBool() || input.dim() < 2 || input.numel() != input.size(1)) return;
  throw Error::make(Fault::spec, "batch normalisation at {} needs more than one value per channel when training",
                    step.place);
}

void Plan::make(Step& step) {
  stack_.clear();
  for (const Operand& operand : step.operands) push(operand);
  if (step.training_at > 0) require_values_per_channel(step);
  if (step.op) {
    step.op->callBoxed(stack_);
  } else {
    stack_ = {step.arithmetic(stack_)};
  }
  take_results(step);
  stack_.clear();
  for (const int value : step.last) values_[static_cast<size_t>(value)] = {};
}

std::vector<torch::Tensor> Plan::run(const std::vector<torch::Tensor>& inputs) {
  const auto let_go = [this] {
    for (size_t i = 0; i < values_.size(); ++i)
      if (!stays_[i]) values_[i] = {};
    stack_.clear();
    set_current_block({});
  };
  std::vector<torch::Tensor> outputs;
  const Step* at = nullptr;
  try {
    for (size_t i = 0; i < inputs.size(); ++i) values_[static_cast<size_t>(program_.inputs[i].value)] = inputs[i];
    {
      ModeSwitch modes(program_.modes, use_ == Use::training);
      for (Step& step : steps_) {
        at = &step;
        set_current_block(step.place);
        modes.enter(step.modes);
        make(step);
      }
      at = nullptr;
    }
    for (const int output : program_.outputs) outputs.push_back(values_[static_cast<size_t>(output)].toTensor());
    const c10::AutoGradMode off(false);
    for (const auto& [buffer, from] : program_.mutations) {
      const auto found = std::ranges::find(program_.buffers, buffer, &program::StoredTensor::name);
      values_[static_cast<size_t>(found->value)].toTensor().copy_(values_[static_cast<size_t>(from)].toTensor());
    }
  } catch (const c10::Error& error) {
    const std::string where = at == nullptr ? program_.path : fmt::format("{} at {}", at->name, at->place);
    let_go();
    const Error meant = from_torch(error);
    // What LibTorch refuses of a user's program is no fault of ours.
    const Fault fault = meant.fault() == Fault::bug ? Fault::mismatch : meant.fault();
    throw Error(fault, meant.message()).within(where).advise(meant.advice());
  } catch (const Error&) {
    let_go();
    throw;
  } catch (const std::exception& error) {
    const std::string where = at == nullptr ? program_.path : fmt::format("{} at {}", at->name, at->place);
    let_go();
    throw Error::make(Fault::mismatch, "{}: {}", where, error.what());
  }
  let_go();
  return outputs;
}

}  // namespace estrain::model
