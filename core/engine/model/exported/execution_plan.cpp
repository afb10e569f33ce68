#include "core/engine/model/exported/execution_plan.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/base/error.h"
#include "core/engine/model/block_watch.h"
#include "core/engine/model/exported/mode_switch.h"
#include "core/engine/model/exported/size_arithmetic.h"
#include "core/engine/model/model.h"
#include "core/engine/model/torch_error.h"

namespace estrain::model {
namespace {

using program::Argument;
using program::Call;

// Operators with effects beyond tensors.
constexpr std::string_view kRefused[] = {"aten::from_file"};

// A Switch names an operator changed by Module.eval(), and the argument to switch off.
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

// Operators that need their operand in a certain order in memory, and operators with the same results for any order.
struct View {
  std::string_view name;
  const char* copying;
};
constexpr View kViews[] = {
    {"aten::view", "aten::reshape"}, {"aten::_unsafe_view", "aten::reshape"}, {"aten::view_as", "aten::reshape_as"}};

// Operators that may return an operand or a view of an operand, without a mark in the schema: dropout with p = 0,
// type_as of the same type, and more.
constexpr std::string_view kSilentViews[] = {
    "aten::dropout",           "aten::feature_dropout", "aten::alpha_dropout",
    "aten::type_as",           "aten::meshgrid",        "aten::feature_alpha_dropout",
    "aten::sum_to_size",       "aten::atleast_1d",      "aten::atleast_2d",
    "aten::atleast_3d",        "aten::unsafe_chunk",    "aten::unsafe_split",
    "aten::cartesian_prod",    "aten::pixel_shuffle",   "aten::unsafe_split_with_sizes",
    "aten::broadcast_tensors", "aten::einsum",          "aten::_cast_Float"};

bool may_share_memory(const c10::FunctionSchema& schema, const c10::Argument& operand) {
  return operand.alias_info() != nullptr || std::ranges::find(kSilentViews, schema.name()) != std::end(kSilentViews);
}

// Batch norm writes its running statistics, but the schema does not declare the write.
bool writes_to(const c10::Argument& formal) {
  return (formal.alias_info() != nullptr && formal.alias_info()->isWrite()) || formal.name() == "running_mean" ||
         formal.name() == "running_var";
}

const Switch* switch_of(std::string_view name) {
  const auto found = std::ranges::find(kSwitches, name, &Switch::name);
  return found == std::end(kSwitches) ? nullptr : found;
}

Error unfit(const Call& call, const std::string& what) {
  return Error::make(Fault::mismatch, "{}{}{}: {}", call.full_name(), call.place().empty() ? "" : " at ", call.place(),
                     what)
      .advise("export the model again with the PyTorch release that this estrain is built with");
}

// Of an operator whose result depends on the order of its operand in memory.
Error unfit_strides(const std::string& name, const std::string& place) {
  return Error::make(Fault::mismatch, "{}{}{}: its operand is in another order in memory than at the export", name,
                     place.empty() ? "" : " at ", place)
      .advise("write it with operators that do not depend on the order: reshape, transpose, unfold, narrow");
}

bool are_numbers(const std::vector<program::SymInt>& strides, const program::SymInt& offset) {
  return offset.symbol.empty() && std::ranges::all_of(strides, [](const auto& size) { return size.symbol.empty(); });
}

constexpr const char* kTrainInPython = "or train the module in Python: model.name = \"python\" (examples/python)";

}  // namespace

MemoryGroups::MemoryGroups(int values) : parents_(static_cast<size_t>(values)) {
  std::iota(parents_.begin(), parents_.end(), 0);
}

int MemoryGroups::name_of(int value) const {
  while (parents_[at(value)] != value) value = parents_[at(value)];
  return value;
}

void MemoryGroups::note_write(int value, size_t call) { writes_[value] = call; }

bool MemoryGroups::is_written_after(int value, size_t call) const {
  return std::ranges::any_of(
      writes_, [&](const auto& write) { return write.second > call && name_of(write.first) == name_of(value); });
}

std::vector<int> MemoryGroups::group_of(int value) const {
  std::vector<int> group;
  for (int other = 0; other < static_cast<int>(parents_.size()); ++other)
    if (name_of(other) == name_of(value)) group.push_back(other);
  return group;
}

ExecutionPlan::ExecutionPlan(const program::Program& program, Use use, const StoredValues& stored, c10::Device device)
    : program_(program),
      use_(use),
      device_(device),
      values_(static_cast<size_t>(program.values)),
      stays_(static_cast<size_t>(program.values)),
      roots_(static_cast<size_t>(program.values)),
      memory_(program.values) {
  for (const auto& [number, tensor] : stored) {
    values_[static_cast<size_t>(number)] = tensor;
    stays_[static_cast<size_t>(number)] = true;
    roots_[static_cast<size_t>(number)] = {number};
  }
  for (const Call& call : program.calls) add(call);
  for (const auto& [buffer, from] : program.mutations) {
    const int to = std::ranges::find(program.buffers, buffer, &program::StoredTensor::name)->value;
    mutations_.emplace_back(to, from);
    written_.insert(to);
    if (use == Use::frozen)
      throw Error::make(Fault::spec, "{}: the program replaces its buffer {}", program.path, buffer)
          .advise("export the model in eval() mode as well: model.eval_file");
  }
  find_reordered();
  if (is_elsewhere()) let_views_copy();
  find_last_uses();
}

bool ExecutionPlan::is_elsewhere() const { return program_.device != (device_.is_cpu() ? "cpu" : "cuda"); }

void ExecutionPlan::find_reordered() {
  std::map<int, int> uses;
  for (const PlannedCall& step : steps_) {
    for (const Operand& operand : step.operands) {
      ++uses[operand.value];
      for (const Operand& item : operand.items) ++uses[item.value];
    }
  }
  for (const auto* list : {&program_.parameters, &program_.buffers}) {
    for (const program::StoredTensor& tensor : *list) {
      if (!tensor.alias_of.empty() || program::is_in_c_order(tensor)) continue;
      if (written_.contains(tensor.value))
        throw Error::make(Fault::mismatch, "{}: the program writes to its buffer {}, which is not in C order",
                          program_.path, tensor.name)
            .advise("register it as tensor.contiguous() before the export");
      reordered_.push_back({.value = tensor.value,
                            .stored = values_[static_cast<size_t>(tensor.value)].toTensor(),
                            .strides = tensor.strides,
                            .uses = uses[tensor.value],
                            .name = tensor.name});
    }
  }
}

// Autocast keeps only casts of leaves, and the copy is no leaf: autocast would cast a weight with two uses twice, and
// the gradient would be summed in another order than in Python.
void ExecutionPlan::reorder(const Reordered& one) {
  const auto casts = [](const program::Modes& modes) { return modes.autocast && modes.autocast->enabled; };
  const bool is_cast =
      at::autocast::is_autocast_enabled(one.stored.device().type()) || std::ranges::any_of(program_.modes, casts);
  if (is_cast && one.uses > 1 && one.stored.requires_grad())
    throw Error::make(Fault::mismatch, "{} is used more than once under autocast, and is not in C order", one.name)
        .advise("export the module in C order: module.to(memory_format=torch.contiguous_format); " +
                std::string(kTrainInPython));
  torch::Tensor copy = at::empty_strided(one.stored.sizes(), one.strides, one.stored.options());
  copy.copy_(one.stored);
  values_[static_cast<size_t>(one.value)] = copy;
}

std::vector<int64_t> ExecutionPlan::strides_of(const torch::Tensor& stored) const {
  const auto is_it = [&](const Reordered& one) { return one.stored.is_same(stored); };
  const auto found = std::ranges::find_if(reordered_, is_it);
  return found == reordered_.end() ? std::vector<int64_t>() : found->strides;
}

void ExecutionPlan::add(const Call& call) {
  PlannedCall step;
  step.results = call.results;
  step.modes = call.modes;
  step.place = call.place();
  step.name = call.full_name();
  if (call.is_arithmetic) {
    step.arithmetic = size_arithmetic(call.name);
    if (step.arithmetic == nullptr) throw unfit(call, "this arithmetic on sizes is not supported");
    for (const auto& [name, argument] : call.arguments) {
      std::optional<Operand> operand = to_number(argument);
      if (!operand) throw unfit(call, "arithmetic on sizes with an operand that is not a number");
      step.operands.push_back(std::move(*operand));
    }
    if (step.results.size() != 1 || step.results[0].is_list) throw unfit(call, "its result is one number");
  } else {
    add_operator(call, step);
    note_mode(step);
    if (use_ == Use::frozen && !freeze(call, step)) return;
    note_writes(call, step);
  }
  steps_.push_back(std::move(step));
}

void ExecutionPlan::add_operator(const Call& call, PlannedCall& step) {
  if (!call.name.starts_with("aten::"))
    throw unfit(call, "an operator from a library other than PyTorch's ATen")
        .advise("write it with PyTorch's own operators, whose gradients are supported; " + std::string(kTrainInPython));
  if (std::ranges::find(kRefused, call.name) != std::end(kRefused))
    throw unfit(call, "an operator with effects beyond tensors").advise("remove it from the model");
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
    std::optional<Operand> operand = to_operand(*found->second, formal, device_);
    if (!operand) throw unfit(call, fmt::format("its argument {} is of the wrong kind", formal.name()));
    step.operands.push_back(std::move(*operand));
    given.erase(found);
  }
  if (!given.empty()) throw unfit(call, fmt::format("it has no argument {}", given.begin()->first));
  if (step.results.size() > schema.returns().size()) throw unfit(call, "it gives fewer results");
  if (call.strides && is_elsewhere() && !are_numbers(*call.strides, call.offset))
    throw unfit_strides(call.full_name(), call.place());
  step.strides = call.strides;
  step.offset = call.offset;
}

// Counts calls in training mode and calls in evaluation mode.
void ExecutionPlan::note_mode(PlannedCall& step) {
  const c10::FunctionSchema& schema = step.op->schema();
  const Switch* found = switch_of(schema.name());
  if (found == nullptr) return;
  const auto index = schema.argumentIndexWithName(found->argument);
  if (!index) return;
  if (schema.name() == "aten::batch_norm") step.training_at = static_cast<size_t>(*index);
  const c10::IValue& value = step.operands[static_cast<size_t>(*index)].constant;
  (value.isBool() && value.toBool() ? training_calls_ : evaluation_calls_) += 1;
}

// Returns false if an evaluation omits this call.
bool ExecutionPlan::freeze(const Call& call, PlannedCall& step) {
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
    // An add_ to an int64 scalar is batch norm's count of batches. The count only matters for momentum = None.
    const c10::IValue& target = values_[static_cast<size_t>(operand.value)];
    const bool counts = schema.name() == "aten::add_" && target.isTensor() && target.toTensor().dim() == 0 &&
                        target.toTensor().scalar_type() == at::kLong;
    if (!counts) throw refused("changes a buffer");
    return false;
  }
  return true;
}

// Writing to a view writes to the view's base.
void ExecutionPlan::note_writes(const Call& call, const PlannedCall& step) {
  const c10::FunctionSchema& schema = step.op->schema();
  std::set<int> shown;
  int shared = -1;  // an operand whose memory results may share
  const auto join = [&](int value) {
    if (shared >= 0) memory_.join(value, shared);
    shared = value;
  };
  const auto note = [&](const Operand& operand, const c10::Argument& formal, bool writes) {
    if (operand.value < 0) return;
    const std::set<int>& roots = roots_[static_cast<size_t>(operand.value)];
    const bool shares = may_share_memory(schema, formal);
    if (shares) shown.insert(roots.begin(), roots.end());
    if (writes) written_.insert(roots.begin(), roots.end());
    if (shares) join(operand.value);
    if (writes) memory_.note_write(operand.value, steps_.size());
  };
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const c10::Argument& formal = schema.arguments()[i];
    const bool writes = writes_to(formal);
    note(step.operands[i], formal, writes);
    for (const Operand& item : step.operands[i].items) note(item, formal, writes);
  }
  if (shared < 0) return;
  for (const Call::Result& result : call.results) {
    for (const int value : result.values) {
      roots_[static_cast<size_t>(value)].insert(shown.begin(), shown.end());
      join(value);
    }
  }
}

// Lets views run as reshapes where a copy has the values of the view until the end.
void ExecutionPlan::let_views_copy() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    PlannedCall& step = steps_[i];
    if (!step.op || step.operands.empty() || step.operands[0].value < 0) continue;
    const auto view = std::ranges::find(kViews, toString(step.op->operator_name()), &View::name);
    if (view != std::end(kViews) && !memory_.is_written_after(step.operands[0].value, i))
      step.op = c10::Dispatcher::singleton().findSchemaOrThrow(view->copying, "");
  }
}

void ExecutionPlan::find_last_uses() {
  std::vector<bool> used(stays_);
  for (const int output : program_.outputs) used[static_cast<size_t>(output)] = true;
  for (const auto& [to, from] : mutations_) used[static_cast<size_t>(from)] = true;
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

UsedCall ExecutionPlan::use_of(const Call& call, const PlannedCall& step) const {
  UsedCall use{.module = call.module};
  const auto add = [&](const Operand& operand, bool writes) {
    if (operand.value < 0) return;
    use.reads.push_back(operand.value);
    if (writes) std::ranges::copy(memory_.group_of(operand.value), std::back_inserter(use.changes));
  };
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const bool writes = step.op && writes_to(step.op->schema().arguments()[i]);
    add(step.operands[i], writes);
    for (const Operand& item : step.operands[i].items) add(item, writes);
  }
  for (const Call::Result& result : step.results) std::ranges::copy(result.values, std::back_inserter(use.gives));
  use.measures = call.name.starts_with("aten::sym_");
  use.draws = step.op && step.op->hasTag(at::Tag::nondeterministic_seeded);
  const auto is_number = [](const c10::Argument& result) {
    const c10::TypeKind kind = result.type()->kind();
    return kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType;
  };
  use.gives_numbers = !step.op || std::ranges::all_of(step.op->schema().returns(), is_number);
  return use;
}

const std::vector<ProgramBlock>& ExecutionPlan::blocks() {
  if (use_ != Use::training) throw Error(Fault::bug, "blocks of a program that does not train");
  if (!blocks_.empty()) return blocks_;
  ProgramUses uses{.values = program_.values, .outputs = program_.outputs};
  for (const program::StoredTensor& parameter : program_.parameters)
    uses.parameters.emplace(parameter.value, parameter.name);
  for (const program::StoredTensor& buffer : program_.buffers)
    if (written_.contains(buffer.value)) uses.written_buffers.insert(buffer.value);
  for (const program::UserInput& input : program_.inputs) uses.inputs.push_back(input.value);
  for (size_t i = 0; i < steps_.size(); ++i) uses.calls.push_back(use_of(program_.calls[i], steps_[i]));
  return blocks_ = blocks_of(uses);
}

// Before the call.
void ExecutionPlan::tell_of_block(size_t call) {
  const auto block = std::ranges::find(blocks(), call, &ProgramBlock::begin);
  if (block == blocks_.end()) return;
  if (block->activation < 0) {
    begin_block(block->name, {});
    return;
  }
  c10::IValue& activation = values_[static_cast<size_t>(block->activation)];
  activation = begin_block(block->name, activation.toTensor());
}

void ExecutionPlan::take_results(const PlannedCall& step) {
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

// Python's batch_norm does the same check before the call of LibTorch.
void ExecutionPlan::require_values_per_channel(const PlannedCall& step) const {
  const at::Tensor& input = stack_.front().toTensor();
  if (!stack_.at(step.training_at).toBool() || input.dim() < 2 || input.numel() != input.size(1)) return;
  throw Error::make(Fault::spec, "batch normalisation at {} needs more than one value per channel when training",
                    step.place);
}

// A size that is not a number is that of the export on the same kind of device.
void ExecutionPlan::require_strides(const PlannedCall& step) const {
  const at::Tensor& operand = stack_.front().toTensor();
  const auto differs = [](const program::SymInt& at_export, int64_t here) {
    return at_export.symbol.empty() && at_export.number != here;
  };
  bool is_other = differs(step.offset, operand.storage_offset());
  for (int64_t d = 0; d < operand.dim(); ++d)
    is_other =
        is_other || (operand.size(d) > 1 && differs(step.strides->at(static_cast<size_t>(d)), operand.stride(d)));
  if (is_other) throw unfit_strides(step.name, step.place);
}

void ExecutionPlan::make(PlannedCall& step) {
  stack_.clear();
  for (const Operand& operand : step.operands) stack_.push_back(evaluate(operand, values_));
  if (step.training_at > 0) require_values_per_channel(step);
  if (step.strides) require_strides(step);
  if (step.op) {
    step.op->callBoxed(stack_);
  } else {
    stack_ = {step.arithmetic(stack_)};
  }
  take_results(step);
  stack_.clear();
  for (const int value : step.last) values_[static_cast<size_t>(value)] = {};
}

std::vector<torch::Tensor> ExecutionPlan::run(const std::vector<torch::Tensor>& inputs) {
  const auto let_go = [this] {
    for (size_t i = 0; i < values_.size(); ++i)
      if (!stays_[i]) values_[i] = {};
    for (const Reordered& one : reordered_) values_[static_cast<size_t>(one.value)] = one.stored;
    stack_.clear();
    set_current_block({});
  };
  std::vector<torch::Tensor> outputs;
  const PlannedCall* at = nullptr;
  const auto where = [&] { return at == nullptr ? program_.path : fmt::format("{} at {}", at->name, at->place); };
  try {
    for (size_t i = 0; i < inputs.size(); ++i) values_[static_cast<size_t>(program_.inputs[i].value)] = inputs[i];
    for (const Reordered& one : reordered_) reorder(one);
    {
      ModeSwitch modes(program_, use_ == Use::training, device_.type());
      const bool tells = use_ == Use::training && blocks_are_watched();
      for (size_t i = 0; i < steps_.size(); ++i) {
        PlannedCall& step = steps_[i];
        at = &step;
        set_current_block(step.place);
        modes.enter(step.modes);
        if (tells) tell_of_block(i);
        make(step);
      }
      at = nullptr;
    }
    for (const int output : program_.outputs) outputs.push_back(values_[static_cast<size_t>(output)].toTensor());
    const c10::AutoGradMode off(false);
    for (const auto& [to, from] : mutations_)
      values_[static_cast<size_t>(to)].toTensor().copy_(values_[static_cast<size_t>(from)].toTensor());
  } catch (const c10::Error& error) {
    let_go();
    const Error meant = from_torch(error);
    // If LibTorch refuses a call, the user's program is at fault.
    const Fault fault = meant.fault() == Fault::bug ? Fault::mismatch : meant.fault();
    throw Error(fault, meant.message()).within(where()).advise(meant.advice());
  } catch (const Error&) {
    let_go();
    throw;
  } catch (const std::exception& error) {
    let_go();
    throw Error::make(Fault::mismatch, "{}: {}", where(), error.what());
  }
  let_go();
  return outputs;
}

}  // namespace estrain::model
