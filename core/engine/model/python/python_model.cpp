#include "core/engine/model/python/python_model.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/engine/model/block_watch.h"
#include "core/engine/model/state_dict.h"
#include "core/engine/model/torch_error.h"

namespace estrain::model {
namespace {

void check_name(const std::string& name) {
  if (is_sound_name(name)) return;
  throw Error::make(Fault::mismatch, "\"{}\" is no name that a checkpoint can hold", name).advise("rename the module");
}

void check_place(const std::string& what, const torch::Tensor& tensor, c10::Device wanted) {
  if (tensor.device() != wanted && wanted.is_cpu())
    throw Error::make(Fault::mismatch, "{} is on {}, but must be on the CPU", what, tensor.device().str())
        .advise("leave devices to estrain: build the module on the CPU");
  if (tensor.device() != wanted)
    throw Error::make(Fault::mismatch, "{} is on {} after the module's to(\"{}\")", what, tensor.device().str(),
                      wanted.str())
        .advise("let the module's to(), or the _apply() behind it, move all parameters and buffers");
  if (tensor.layout() != torch::kStrided || !tensor.is_contiguous())
    throw Error::make(Fault::mismatch, "{} is not contiguous, which the state's memory is", what)
        .advise(
            "build it with tensor.contiguous(), a module with to(memory_format=torch.contiguous_format); an exported "
            "program (estrain export) keeps its order");
}

void check_parameter(const PythonModule::Named& parameter) {
  const std::string what = "parameter " + parameter.name;
  check_name(parameter.name);
  check_place(what, parameter.tensor, c10::kCPU);
  require_parameter_type(what, parameter.tensor.scalar_type());
}

void check_buffer(const PythonModule::Named& buffer, c10::Device device) {
  const std::string what = "buffer " + buffer.name;
  check_name(buffer.name);
  check_place(what, buffer.tensor, device);
  require_buffer_type(what, buffer.tensor.scalar_type());
}

}  // namespace

PythonModel::PythonModel(const spec::ModelSection& section, double label_smoothing, const DataShape& shape,
                         Interpreter& interpreter, uint64_t seed)
    : UsersModel(section, label_smoothing), interpreter_(interpreter) {
  const PythonModule module = interpreter.build(seed);
  make_modules(module);
  bind(module, shape);
}

// Makes modules in the order of the modules in Python, the order of parameters and buffers.
void PythonModel::make_modules(const PythonModule& module) {
  for (const std::string& name : module.modules) {
    check_name(name);
    module_at(*this, name);
  }
  for (const PythonModule::Named& parameter : module.parameters) {
    check_parameter(parameter);
    const auto [owner, name] = split_name(parameter.name);
    module_at(*this, owner).register_parameter(name, parameter.tensor, parameter.tensor.requires_grad());
  }
  for (const PythonModule::Named& buffer : module.buffers) add_buffer(buffer);
  constants_ = module.constants;
  for (const std::string& name : module.synced) notes_.push_back(note_of_synced(name));
  kept_elsewhere_ = module.kept_elsewhere;
}

void PythonModel::add_buffer(const PythonModule::Named& buffer) {
  check_buffer(buffer, device_);
  const auto [owner, name] = split_name(buffer.name);
  module_at(*this, owner).register_buffer(name, buffer.tensor);
}

std::vector<std::string> PythonModel::keep_constants() {
  std::vector<std::string> outside = kept_elsewhere_, kept;
  for (const PythonModule::Named& constant : std::exchange(constants_, {})) {
    if (!is_buffer_type(constant.tensor.scalar_type()) || !constant.tensor.is_contiguous()) {
      outside.push_back(constant.name);
      constants_.push_back(constant);
    } else {
      add_buffer(constant);
      kept.push_back(constant.name);
    }
  }
  interpreter_.keep(kept);
  return outside;
}

void PythonModel::move_to(c10::Device device) {
  if (device.is_cpu()) return;
  interpreter_.move_to(device);
  device_ = device;
  for (const auto& parameter : named_parameters()) check_place("parameter " + parameter.key(), *parameter, device);
  for (const auto& buffer : named_buffers()) check_place("buffer " + buffer.key(), *buffer, device);
}

void PythonModel::try_out(const MiniBatch& batch, bool evaluates) {
  std::map<std::string, torch::Tensor> before;
  for (const auto& buffer : named_buffers()) before.emplace(buffer.key(), buffer.value().clone());
  for (const PythonModule::Named& constant : constants_) before.emplace(constant.name, constant.tensor.clone());
  const std::vector<std::string> written = interpreter_.first_backward(loss(batch));
  if (evaluates) evaluate(batch);
  for (const std::string& call : interpreter_.calls_to_ranks()) notes_.push_back(note_of_ranks(call));
  for (const PythonModule::Named& constant : constants_)
    if (std::ranges::find(written, constant.name) != written.end()) add_buffer(constant);
  const torch::NoGradGuard no_graph;
  for (const auto& buffer : named_buffers()) buffer.value().copy_(before.at(buffer.key()));
}

void PythonModel::bind(const PythonModule& module, const DataShape& shape) {
  if (const auto* named = std::get_if<NamedShape>(&shape)) {
    bind_by_name(module, *named);
  } else {
    bind_by_position(module);
  }
  find_target(shape, sources_.size() > 1 ? sources_[1].name : "");
}

void PythonModel::bind_by_name(const PythonModule& module, const NamedShape& shape) {
  std::set<std::string> taken(module.by_name.begin(), module.by_name.end());
  for (const PythonModule::Argument& argument : module.arguments) taken.insert(argument.name);
  std::vector<std::string> names, given;
  for (size_t i = 0; i < shape.fields.size(); ++i) {
    const std::string& name = shape.fields[i].name;
    given.push_back(name);
    if (!taken.contains(name) && !module.takes_any_name) continue;
    names.push_back(name);
    sources_.push_back({.name = name, .field = i, .is_named = true, .widened = {}});
  }
  for (const PythonModule::Argument& argument : module.arguments) {
    if (!argument.is_required || std::ranges::find(names, argument.name) != names.end()) continue;
    throw Error::make(Fault::spec, "forward's argument {} is no array of the data, which are {}", argument.name,
                      fmt::join(given, ", "))
        .advise("rename the argument or the array, or give the argument a default");
  }
  if (names.empty()) throw Error(Fault::spec, "forward takes none of the data's arrays");
  interpreter_.pass_by_name(names);
}

void PythonModel::bind_by_position(const PythonModule& module) {
  const std::vector<PythonModule::Argument>& arguments = module.arguments;
  if (arguments.empty()) throw Error(Fault::spec, "forward takes no tensor").advise("give it an argument: the sample");
  if (arguments.size() > 2 && arguments[2].is_required) {
    throw Error::make(Fault::spec, "forward needs {} too, but the data have two tensors, samples and labels",
                      arguments[2].name)
        .advise("provide a dataset with each argument's name in an HDF5 file: data.format = \"hdf5\"");
  }
  sources_.push_back({.name = arguments[0].name, .field = 0});
  if (arguments.size() > 1 && (arguments[1].is_required || gives_loss()))
    sources_.push_back({.name = arguments[1].name, .field = 1});
  interpreter_.pass_by_position();
}

std::vector<torch::Tensor> PythonModel::outputs(const MiniBatch& batch, bool trains) {
  std::vector<torch::Tensor> inputs;
  for (const InputSource& source : sources_) inputs.push_back(tensor_of(batch, source).clone());
  if (trains) begin_block("the whole module", {});
  return interpreter_.forward(inputs, trains);
}

std::shared_ptr<PythonModel> build_python_model(const spec::ModelSection& section, double label_smoothing,
                                                const DataShape& shape, Interpreter& interpreter, uint64_t seed) {
  return with_context("model", [&] {
    return translating_torch_errors(
        [&] { return std::make_shared<PythonModel>(section, label_smoothing, shape, interpreter, seed); });
  });
}

}  // namespace estrain::model
