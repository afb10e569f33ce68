#include "core/model/exported.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nll_loss_nd.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/model/class_scores.h"
#include "core/model/scalar_type.h"
#include "core/model/torch_error.h"
#include "core/spec/enum_names.h"

namespace estrain::model {
namespace {

using program::Program;
using program::StoredTensor;
using program::Type;
using program::UserInput;

constexpr int64_t kIgnoredClass = -100;  // torch's ignore_index

// A tensor of the data that may be an input of the program.
struct Offer {
  Type type;
  std::vector<int64_t> dims;  // of one sample
};

Offer offered_input(const DataShape& shape) {
  if (const auto* image = std::get_if<ImageShape>(&shape))
    return {Type::f32, {image->channels, image->height, image->width}};
  if (const auto* vector = std::get_if<VectorShape>(&shape)) return {Type::f32, {vector->features}};
  return {Type::i64, {std::get<TokenShape>(shape).context}};
}

Offer offered_target(const DataShape& shape) {
  if (const auto* tokens = std::get_if<TokenShape>(&shape)) return {Type::i64, {tokens->context}};
  return {Type::i64, {}};
}

Error does_not_fit(const std::string& what) {
  return Error(Fault::spec, what)
      .advise("use the data for which the program was exported, or export it for these (examples/export)");
}

bool is_whole(Type type) {
  return type == Type::u8 || type == Type::i8 || type == Type::i16 || type == Type::i32 || type == Type::i64;
}

// Whether every value of type `from` can be represented in type `to`.
bool can_widen(Type from, Type to) {
  if (to == Type::boolean) return is_whole(from);
  if (to == Type::i64) return is_whole(from);
  if (to == Type::i32) return is_whole(from) && from != Type::i64;
  return to == Type::f64 && from == Type::f32;
}

std::optional<c10::ScalarType> widening(const UserInput& input, const Offer& offer, const std::string& what) {
  if (offer.type == input.type) return std::nullopt;
  if (can_widen(offer.type, input.type)) return scalar_type(input.type);
  throw does_not_fit(fmt::format("the program's input {} is {}, {} is {}", input.name, program::type_name(input.type),
                                 what, program::type_name(offer.type)));
}

std::string dims_text(const Offer& offer) {
  return offer.dims.empty() ? "[batch]" : fmt::format("[batch, {}]", fmt::join(offer.dims, ", "));
}

Error missing_array(const std::string& name, const NamedShape& shape) {
  std::vector<std::string> names;
  for (const NamedShape::Field& field : shape.fields) names.push_back(field.name);
  return Error::make(Fault::spec, "the program's input {} is not an array of the data, which has {}", name,
                     fmt::join(names, ", "))
      .advise("each input of the program needs an array of its name: rename forward's argument, or the array");
}

// Sizes of the program's inputs against those of the data; a symbol stands for one size wherever it stands.
class SizeCheck {
 public:
  explicit SizeCheck(const Program& program) : program_(program) {}

  void check(const UserInput& input, const Offer& offer, const std::string& what) {
    const auto refuse = [&](const std::string& why) {
      return does_not_fit(fmt::format("the program's input {} is {}, {} is {}{}", input.name,
                                      program::sizes_text(input.sizes), what, dims_text(offer), why));
    };
    if (input.sizes.size() != offer.dims.size() + 1) throw refuse("");
    if (input.sizes[0].symbol.empty()) {
      throw Error::make(Fault::spec, "the program takes only mini-batches of {} samples (its input {} is {})",
                        input.sizes[0].number, input.name, program::sizes_text(input.sizes))
          .advise("export it with a dynamic batch dimension, like examples/export");
    }
    batch_.insert(input.sizes[0].symbol);
    for (size_t d = 0; d < offer.dims.size(); ++d) {
      const program::Size& size = input.sizes[d + 1];
      if (size.symbol.empty() ? size.number != offer.dims[d] : !agrees(size.symbol, offer.dims[d])) throw refuse("");
    }
  }

  // The allowed sizes of mini-batches. If torch's range starts at 2, it also allows 0 and 1.
  program::Range samples() const {
    program::Range range;
    for (const std::string& symbol : batch_) {
      if (known_.contains(symbol))
        throw does_not_fit(fmt::format("the program needs mini-batches of {} samples", known_.at(symbol)));
      const auto found = program_.ranges.find(symbol);
      if (found == program_.ranges.end()) continue;
      if (found->second.low > 2) range.low = std::max(range.low, found->second.low);
      if (found->second.high) range.high = std::min(range.high.value_or(INT64_MAX), *found->second.high);
    }
    return range;
  }

 private:
  bool agrees(const std::string& symbol, int64_t size) {
    if (known_.emplace(symbol, size).first->second != size) return false;
    const auto found = program_.ranges.find(symbol);
    if (found == program_.ranges.end()) return true;
    return (found->second.low <= 2 || size >= found->second.low) && size <= found->second.high.value_or(size);
  }

  const Program& program_;
  std::map<std::string, int64_t> known_;
  std::set<std::string> batch_;
};

// "2.11" of "2.11.0+cu130"
std::string release_of(const std::string& version) {
  const size_t first = version.find('.');
  return version.substr(0, first == std::string::npos ? first : version.find('.', first + 1));
}

void check_release(const Program& program) {
  if (release_of(program.torch_version) == release_of(TORCH_VERSION)) return;
  throw Error::make(Fault::mismatch, "{}: exported by torch {}; this estrain is built with LibTorch {}", program.path,
                    program.torch_version, TORCH_VERSION)
      .advise(fmt::format("export it again with torch {}", release_of(TORCH_VERSION)));
}

void check_mode(const Program& program, const Plan& plan) {
  if (program.is_marked_training || plan.training_calls() > 0 || plan.evaluation_calls() == 0) return;
  throw Error::make(Fault::spec, "{}: exported in eval() mode: dropout and batch norm do not train", program.path)
      .advise("call module.train() before the export; examples/export can record that they are off on purpose");
}

torch::Tensor loaded(const StoredTensor& stored, bool draws) {
  torch::Tensor tensor = torch::empty(stored.sizes, torch::dtype(scalar_type(stored.type)));
  if (draws && !stored.bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
  return tensor;
}

void check_parameter(const Program& program, const StoredTensor& parameter) {
  if (parameter.type != Type::f32) {
    throw Error::make(Fault::mismatch, "{}: parameter {} is {}, but must be float32", program.path, parameter.name,
                      program::type_name(parameter.type))
        .advise("export the model in float32; job.precision = \"bf16\" computes as torch.autocast does");
  }
  const size_t count = parameter.bytes.size() / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, parameter.bytes.data() + i * sizeof(float), sizeof value);
    if (std::isfinite(value)) continue;
    throw Error::make(Fault::corrupt, "{}: parameter {} holds {} at element {}", program.path, parameter.name, value, i)
        .advise("export the model before it diverges");
  }
}

void check_buffer(const Program& program, const StoredTensor& buffer) {
  if (buffer.type == Type::f32 || buffer.type == Type::f64 || buffer.type == Type::i64 || buffer.type == Type::u8)
    return;
  throw Error::make(Fault::mismatch,
                    "{}: buffer {} is {}, but a checkpoint can hold only float32, float64, int64 and uint8",
                    program.path, buffer.name, program::type_name(buffer.type))
      .advise("register it with persistent=False if it is constant, or use another type");
}

// Splits "a.b.weight" into its module and the rest of the name.
std::pair<std::string, std::string> split_name(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

void check_name(const Program& program, const std::string& name) {
  const bool sound = !name.empty() && name.front() != '.' && name.back() != '.' &&
                     name.find("..") == std::string::npos && name.size() <= 1024 &&
                     std::ranges::count(name, '.') < 100 && name.find('/') == std::string::npos &&
                     std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (sound) return;
  throw Error::make(Fault::corrupt, "{}: \"{}\" is not the name of a module or tensor", program.path, name)
      .advise("export it again (examples/export)");
}

// Also creates the modules in between.
torch::nn::Module& module_at(torch::nn::Module& root, const std::string& path) {
  torch::nn::Module* at = &root;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const auto children = at->named_children();
    const auto* child = children.find(name);
    at = child != nullptr ? child->get() : at->register_module(name, std::make_shared<torch::nn::Module>(name)).get();
    begin = end + 1;
  }
  return *at;
}

}  // namespace

// In the order of the modules in Python, which is the order of parameters and buffers.
void Exported::make_modules(const Program& program) {
  for (const std::string& name : program.modules) {
    check_name(program, name);
    module_at(*this, name);
  }
}

Exported::Exported(const ProgramFiles& files, const DataShape& shape, bool draws)
    : loss_(files.section.loss), loss_target_(files.section.loss_target), label_smoothing_(files.label_smoothing) {
  training_.program = std::make_unique<Program>(program::read_program(files.program, files.section.file));
  const Program& program = *training_.program;
  check_release(program);
  make_modules(program);
  StoredValues stored;
  for (const auto* list : {&program.parameters, &program.buffers, &program.constants}) {
    for (const StoredTensor& tensor : *list) {
      check_name(program, tensor.name);
      if (tensor.alias_of.empty()) stored.emplace(tensor.value, loaded(tensor, draws || list == &program.constants));
    }
  }
  for (const StoredTensor& parameter : program.parameters) check_parameter(program, parameter);
  training_.plan = std::make_unique<Plan>(program, Plan::Use::training, stored);
  check_mode(program, *training_.plan);
  const std::set<int>& written = training_.plan->written();
  for (const StoredTensor& parameter : program.parameters) {
    if (written.contains(parameter.value))
      throw Error::make(Fault::mismatch, "{}: the program writes to its parameter {}", program.path, parameter.name)
          .advise("make it a buffer, or leave its updates to the optimizer");
  }
  // Registers parameters under every name that they have.
  for (const StoredTensor& parameter : program.parameters) {
    const auto [module, name] = split_name(parameter.name);
    module_at(*this, module).register_parameter(name, stored.at(parameter.value), parameter.requires_grad);
  }
  for (const StoredTensor& buffer : program.buffers) {
    if (!buffer.persistent && !written.contains(buffer.value)) {
      const torch::Tensor constant = loaded(buffer, true);
      if (!buffer.bytes.empty()) stored.at(buffer.value).copy_(constant);
      continue;
    }
    check_buffer(program, buffer);
    const auto [module, name] = split_name(buffer.name);
    module_at(*this, module).register_buffer(name, stored.at(buffer.value));
  }
  bind(training_, shape);
  make_evaluation(files, shape, stored);
  if (loss_ != spec::Loss::output) target_ = target_source(program, shape);
}

void Exported::make_evaluation(const ProgramFiles& files, const DataShape& shape, const StoredValues& stored) {
  if (files.evaluation.empty()) {
    try {
      evaluation_.plan = std::make_unique<Plan>(*training_.program, Plan::Use::frozen, stored);
      evaluation_.sources = training_.sources;
      evaluation_.samples = training_.samples;
    } catch (const Error& error) {
      no_evaluation_ = error;  // matters only to jobs that evaluate
    }
    return;
  }
  evaluation_.program = std::make_unique<Program>(program::read_program(files.evaluation, files.section.eval_file));
  const Program& program = *evaluation_.program;
  check_release(program);
  const Program& trained = *training_.program;
  StoredValues own;
  const auto take = [&](const std::vector<StoredTensor>& list, const std::vector<StoredTensor>& from) {
    for (const StoredTensor& tensor : list) {
      const auto found = std::ranges::find(from, tensor.name, &StoredTensor::name);
      if (found == from.end() || found->sizes != tensor.sizes || found->type != tensor.type) {
        throw Error::make(Fault::mismatch, "{}: its {} differs from that of {}", program.path, tensor.name,
                          trained.path)
            .advise("export both files from one model");
      }
      own.emplace(tensor.value, stored.at(found->value));
    }
  };
  take(program.parameters, trained.parameters);
  take(program.buffers, trained.buffers);
  for (const StoredTensor& constant : program.constants)
    if (constant.alias_of.empty()) own.emplace(constant.value, loaded(constant, true));
  evaluation_.plan = std::make_unique<Plan>(program, Plan::Use::evaluation, own);
  for (const int value : evaluation_.plan->written()) {
    const auto changes = [&](const std::vector<StoredTensor>& list) {
      return std::ranges::find(list, value, &StoredTensor::value) != list.end();
    };
    const bool trains = evaluation_.plan->training_calls() > 0;
    if (trains && (changes(program.parameters) || changes(program.buffers)))
      throw Error::make(Fault::spec, "{}: exported in train() mode: it changes its buffers", program.path)
          .advise("call module.eval() before the export");
  }
  bind(evaluation_, shape);
}

void Exported::bind(Part& part, const DataShape& shape) {
  const Program& program = *part.program;
  const size_t inputs = program.inputs.size();
  const auto* named = std::get_if<NamedShape>(&shape);
  if (inputs == 0) throw Error::make(Fault::spec, "{}: the program takes no tensors", program.path);
  if (named == nullptr && inputs > 2) {
    std::vector<std::string> names;
    for (const UserInput& input : program.inputs) names.push_back(input.name);
    throw Error::make(Fault::spec, "{}: the program takes {} inputs ({}), but the data have two, samples and labels",
                      program.path, inputs, fmt::join(names, ", "))
        .advise("provide a dataset with each input's name in an HDF5 file: data.format = \"hdf5\"");
  }
  SizeCheck sizes(program);
  for (size_t i = 0; i < inputs; ++i) {
    const UserInput& input = program.inputs[i];
    Source source{.name = input.name, .field = i, .is_named = named != nullptr, .widened = {}};
    Offer offer = i == 0 || named != nullptr ? Offer{} : offered_target(shape);
    std::string what = i == 0 ? "a sample of the data" : "its label";
    if (named == nullptr && i == 0) offer = offered_input(shape);
    if (named != nullptr) {
      const auto found = std::ranges::find(named->fields, input.name, &NamedShape::Field::name);
      if (found == named->fields.end()) throw missing_array(input.name, *named);
      source.field = static_cast<size_t>(found - named->fields.begin());
      offer = {found->type, found->dims};
      what = "the array of that name";
    }
    source.widened = widening(input, offer, what);
    sizes.check(input, offer, what);
    part.sources.push_back(std::move(source));
  }
  part.samples = sizes.samples();
}

// The source of the target for a loss outside the program. Also counts its elements.
Exported::Source Exported::target_source(const Program& program, const DataShape& shape) {
  const bool counts = loss_ != spec::Loss::mse;
  if (const auto* named = std::get_if<NamedShape>(&shape)) {
    const auto found = std::ranges::find(named->fields, loss_target_, &NamedShape::Field::name);
    if (loss_target_.empty() || found == named->fields.end()) {
      throw Error::make(Fault::spec, "model.loss = \"{}\" needs model.loss_target, the target array",
                        spec::to_string(loss_))
          .advise("name a dataset of the HDF5 file");
    }
    int64_t elements = 1;
    for (const int64_t dim : found->dims) elements *= dim;
    predictions_ = counts ? elements : 0;
    return {.name = loss_target_, .field = static_cast<size_t>(found - named->fields.begin()), .is_named = true};
  }
  const bool is_input = program.inputs.size() > 1 && program.inputs[1].name == loss_target_;
  if (!loss_target_.empty() && !is_input)
    throw Error::make(Fault::spec, "model.loss_target: {} is not the name of the data's labels", loss_target_)
        .advise("remove it: the loss uses the labels");
  int64_t elements = 1;
  for (const int64_t dim : offered_target(shape).dims) elements *= dim;
  predictions_ = counts ? elements : 0;
  return {.name = "labels", .field = 1};
}

namespace {

// Converts classes, which may be stored in smaller types, to the int64 that the losses need.
torch::Tensor as_classes(const torch::Tensor& target) {
  return at::isIntegralType(target.scalar_type(), /*includeBool=*/false) ? target.to(torch::kLong) : target;
}

const torch::Tensor& tensor_of(const Batch& batch, const Exported::Source& source) {
  if (source.is_named) return batch.fields.at(source.field);
  return source.field == 0 ? batch.input : batch.target;
}

}  // namespace

std::vector<torch::Tensor> Exported::outputs(Part& part, const Batch& batch) {
  const int64_t samples = batch.size();
  if (samples < part.samples.low || samples > part.samples.high.value_or(samples)) {
    throw Error::make(Fault::spec, "the program takes mini-batches of {} to {} samples, but this one has {}",
                      part.samples.low, part.samples.high ? std::to_string(*part.samples.high) : "any number of",
                      samples)
        .advise("set data.batch and train.eval_batch to fit, and data.drop_last = true");
  }
  std::vector<torch::Tensor> inputs;
  for (const Source& source : part.sources) {
    const torch::Tensor& tensor = tensor_of(batch, source);
    inputs.push_back(source.widened ? tensor.to(*source.widened) : tensor);
  }
  return part.plan->run(inputs);
}

torch::Tensor Exported::loss_of(const std::vector<torch::Tensor>& outputs, const torch::Tensor& target,
                                int64_t reduction) {
  const torch::Tensor& output = outputs.front();
  switch (loss_) {
    case spec::Loss::output:
      if (output.numel() != 1) {
        throw Error::make(Fault::spec, "the program's first output is [{}], not one number, so it is not a loss",
                          fmt::join(output.sizes(), ", "))
            .advise("let the module return its loss first, or set model.loss");
      }
      return (output.dim() == 0 ? output : output.reshape({})).to(torch::kFloat);
    case spec::Loss::cross_entropy:
      return at::cross_entropy_loss(output, as_classes(target), /*weight=*/{}, reduction, kIgnoredClass,
                                    reduction == at::Reduction::Mean ? label_smoothing_ : 0);
    case spec::Loss::mse:
      return at::mse_loss(output, target.to(output.scalar_type()), reduction);
    case spec::Loss::bce_with_logits:
      return at::binary_cross_entropy_with_logits(output, target.to(output.scalar_type()), {}, {}, reduction);
    case spec::Loss::nll:
      return at::nll_loss_nd(output, as_classes(target), {}, reduction, kIgnoredClass);
  }
  throw Error(Fault::bug, "unknown loss");
}

namespace {

// ": in this mini-batch ids are -3 to 1999, …"; whole numbers alone.
std::string values_text(const std::vector<Exported::Source>& sources, const Batch& batch) {
  std::vector<std::string> texts;
  for (const Exported::Source& source : sources) {
    const torch::Tensor& tensor = tensor_of(batch, source);
    if (tensor.numel() == 0 || !at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) continue;
    texts.push_back(
        fmt::format("{} {} to {}", source.name, tensor.min().item<int64_t>(), tensor.max().item<int64_t>()));
  }
  return texts.empty() ? "" : fmt::format("; the mini-batch has {}", fmt::join(texts, ", "));
}

}  // namespace

template <typename Body>
auto Exported::telling_values(const Batch& batch, Body&& body) const {
  const auto with_values = [&](const Error& error) {
    if (error.message().find(label_out_of_range) == std::string::npos) return error;
    std::vector<Source> sources = training_.sources;
    const auto is_target = [&](const Source& source) { return source.name == target_->name; };
    if (target_ && std::ranges::none_of(sources, is_target)) sources.push_back(*target_);
    return Error(error.fault(), error.message() + values_text(sources, batch))
        .advise("correct the data, or export a model that has a class for each value");
  };
  try {
    return body();
  } catch (const c10::Error& error) {
    throw with_values(from_torch(error));
  } catch (const Error& error) {
    throw with_values(error);
  }
}

torch::Tensor Exported::compute_loss(const Batch& batch) {
  const torch::Tensor loss = telling_values(batch, [&] {
    const std::vector<torch::Tensor> given = outputs(training_, batch);
    return loss_of(given, target_ ? tensor_of(batch, *target_) : torch::Tensor(), at::Reduction::Mean);
  });
  if (!loss.requires_grad() && at::GradMode::is_enabled())
    throw Error(Fault::spec, "the program's loss depends on no parameter that is trained")
        .advise("export a module whose forward returns its loss (or, with model.loss, its prediction) first");
  return loss;
}

void Exported::require_outputs() const {
  const Part& part = evaluation_.program ? evaluation_ : training_;
  if (part.program->outputs.size() > wanted().outputs.size()) return;
  throw Error::make(Fault::spec, "{}: the program gives {} outputs, and train.metrics names {} behind the first",
                    part.program->path, part.program->outputs.size(), wanted().outputs.size())
      .advise("return the metrics from forward in eval() mode, behind the loss or the prediction");
}

void Exported::add_outputs(const std::vector<torch::Tensor>& outputs, int64_t samples,
                           std::vector<torch::Tensor>& columns) const {
  for (size_t i = 0; i < wanted().outputs.size(); ++i) {
    const torch::Tensor& output = outputs.at(i + 1);
    const bool is_one = output.numel() == 1;
    if (!is_one && output.numel() != samples) {
      throw Error::make(Fault::spec,
                        "metric {}: the program's output {} is [{}]: a number for each of the {} samples, or one for "
                        "the mini-batch, is wanted",
                        wanted().outputs[i], i + 2, fmt::join(output.sizes(), ", "), samples)
          .advise("average it in the module, or leave it out of train.metrics");
    }
    columns.push_back(output.to(torch::kFloat).reshape(-1).expand({samples}));
  }
}

Evaluation Exported::compute_evaluation(const Batch& batch) {
  return telling_values(batch, [&] { return evaluation_of(batch); });
}

Evaluation Exported::evaluation_of(const Batch& batch) {
  require_evaluation();
  const std::vector<torch::Tensor> given = outputs(evaluation_, batch);
  const int64_t samples = batch.size();
  std::vector<torch::Tensor> columns;
  if (loss_ == spec::Loss::output) {
    add_outputs(given, samples, columns);
    return {loss_of(given, {}, at::Reduction::Mean).expand({samples}), torch::zeros({samples}, torch::kLong), 0,
            std::move(columns)};
  }
  const torch::Tensor& target = tensor_of(batch, *target_);
  const torch::Tensor losses = loss_of(given, target, at::Reduction::None).to(torch::kFloat).reshape({samples, -1});
  torch::Tensor correct;
  if (loss_ == spec::Loss::mse) {
    correct = torch::zeros({samples}, torch::kLong);
  } else {
    const torch::Tensor hit = loss_ == spec::Loss::bce_with_logits ? given.front().gt(0).eq(target.to(torch::kBool))
                                                                   : given.front().argmax(1).eq(target);
    correct = hit.reshape({samples, -1}).sum(1);
  }
  if (loss_ == spec::Loss::cross_entropy || loss_ == spec::Loss::nll) {
    const torch::Tensor scores = given.front().movedim(1, -1);
    columns = class_columns(wanted(), scores.reshape({-1, scores.size(-1)}), as_classes(target).reshape(-1), samples);
  }
  add_outputs(given, samples, columns);
  return {losses.mean(1), correct, predictions_, std::move(columns)};
}

std::shared_ptr<Exported> build_program(const ProgramFiles& files, const DataShape& shape, bool draws) {
  return with_context("model", [&] {
    return translating_torch_errors([&] { return std::make_shared<Exported>(files, shape, draws); });
  });
}

}  // namespace estrain::model
