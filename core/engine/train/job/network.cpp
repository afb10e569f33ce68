#include "core/engine/train/job/network.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "core/base/error.h"
#include "core/data/files/mapped_files.h"
#include "core/data/job_data.h"
#include "core/engine/model/exported/exported.h"
#include "core/engine/model/zoo/build.h"
#include "core/engine/operators/random_stream.h"
#include "core/engine/operators/scan.h"
#include "core/engine/train/job/batch_tensors.h"

namespace estrain::train {
namespace {

model::DataShape model_shape(const data::SampleShape& shape) {
  switch (shape.kind) {
    case data::SampleShape::Kind::image:
      return model::ImageShape{shape.channels, shape.height, shape.width};
    case data::SampleShape::Kind::vector:
      return model::VectorShape{shape.length};
    case data::SampleShape::Kind::tokens:
      return model::TokenShape{shape.length};
    case data::SampleShape::Kind::fields: {
      model::NamedShape named;
      for (const data::SampleShape::Field& part : shape.parts)
        named.fields.push_back({part.name, part.type, part.dims, part.is_ragged, part.pad});
      return named;
    }
  }
  throw Error(Fault::bug, "unknown kind of sample");
}

model::Initializer initializer(const spec::JobSpec& spec, bool draws_weights) {
  if (!draws_weights) return model::Initializer::skip();
  return model::Initializer::draw(at::detail::createCPUGenerator(static_cast<uint64_t>(spec.job.seed)));
}

// The bytes lie in the memory of `files`. The caller may close the files once the model is built.
model::ProgramFiles program_files(const spec::JobSpec& spec, const std::vector<data::DataFile>& files,
                                  const device::ComputeDevice* device) {
  const auto bytes_of = [&](const char* what) -> std::span<const std::byte> {
    const auto found = std::ranges::find(files, what, &data::DataFile::what);
    if (found == files.end()) return {};
    return found->content.bytes;
  };
  return {.section = spec.model,
          .program = bytes_of(data::program_file),
          .evaluation = bytes_of(data::evaluation_program_file),
          .label_smoothing = spec.train.label_smoothing,
          .precision = spec.job.precision,
          .device = device == nullptr ? c10::Device(c10::kCPU) : device->torch_device(),
          .release = data::release_pages};
}

std::shared_ptr<model::Model> build_zoo_model(const spec::JobSpec& spec, const JobSamples& samples,
                                              bool draws_weights) {
  model::Initializer init = initializer(spec, draws_weights);
  const int64_t classes = samples.classes(spec.model);
  const auto weights = static_cast<int64_t>(spec.train.loss_weights.size());
  if (weights != 0 && weights != classes) {
    throw Error::make(Fault::spec, "train.loss_weights has {} weights, but the model has {} classes", weights, classes)
        .advise("give one weight for each class");
  }
  return model::build_model(spec.model, spec.train.label_smoothing, model_shape(samples.train().shape()), classes,
                            init);
}

std::shared_ptr<model::PythonModel> build_module(const spec::JobSpec& spec, const JobSamples& samples,
                                                 const PythonSide& python) {
  if (python.interpreter == nullptr) throw Error(Fault::bug, "a module in Python, and no interpreter");
  // Portable random operators called by the user's code take keys from the seeded default generator.
  operators::begin_est_stream(operators::building_stream, 0);
  return model::build_python_model(spec.model, spec.train.label_smoothing, model_shape(samples.train().shape()),
                                   *python.interpreter, static_cast<uint64_t>(spec.job.seed));
}

void try_out(model::PythonModel& module, const JobSamples& samples, const Network::Options& options) {
  operators::begin_random_stream(0, operators::warming_stream, 0);
  const data::LoadedBatch batch = samples.first_batch();
  module.try_out(as_tensors(batch, *options.python.device), options.evaluates);
}

void prepare(model::Model& model, const spec::JobSpec& spec) {
  model.set_precision(spec.job.precision);
  model.want_metrics(metrics_of(spec));
  model.want_loss({spec.train.terms, spec.train.weight == spec::Weight::tokens, spec.train.loss_weights});
}

// Operators without a portable kernel give different results on different kinds of device, so one place computes them:
// parameters and buffers are the state, given by the first worker to all; constants become a part of the state.
Network::BuiltWith keep_what_was_built(model::PythonModel& module) {
  Network::BuiltWith built{.uncovered = operators::uncovered_so_far(), .unkept = {}, .settings = {}};
  if (!built.uncovered.empty()) built.unkept = module.keep_constants();
  return built;
}

std::string note_of_setting(const std::string& name) {
  return name + " of the model's Python code is not applied: estrain chooses a GPU's algorithms and types";
}

// The mini-batches of other ESTs and workers would be computed by another setting: they must have the same bits.
void refuse_changed(const std::vector<std::string>& settings) {
  if (settings.empty()) return;
  throw Error::make(Fault::spec, "forward or backward of the model's Python code left {} changed",
                    fmt::join(settings, ", "))
      .advise("leave the setting to estrain, or set it back in the same call; job.precision = \"tf32\" allows TF32")
      .caused_by("user_code");
}

// Builds the module on the CPU, so that the first values are the same for all devices, and then moves the module. The
// settings that importing and building have changed had no part in anything computed on a GPU: they are set back.
std::shared_ptr<model::PythonModel> build_on_device(const spec::JobSpec& spec, const JobSamples& samples,
                                                    const PythonSide& python, Network::BuiltWith& built) {
  const std::unique_ptr<device::KeptSettings> settings = python.device->keep_settings();
  auto module = build_module(spec, samples, python);
  built = keep_what_was_built(*module);
  module->move_to(python.device->torch_device());
  if (settings == nullptr) return module;
  for (const std::string& name : settings->restore()) built.settings.push_back(note_of_setting(name));
  python.interpreter->guard_calls([&device = *python.device](const std::function<void()>& call) {
    const std::unique_ptr<device::KeptSettings> kept = device.keep_settings();
    call();
    refuse_changed(kept->restore());
  });
  return module;
}

std::shared_ptr<model::UsersModel> build_users_model(const spec::JobSpec& spec, const JobSamples& samples,
                                                     const Network::Options& options, Network::BuiltWith& built) {
  if (!spec.model.is_python()) {
    auto program = model::build_program(program_files(spec, samples.data().files, options.python.device),
                                        model_shape(samples.train().shape()), options.draws_weights);
    prepare(*program, spec);
    return program;
  }
  auto module = build_on_device(spec, samples, options.python, built);
  prepare(*module, spec);
  try_out(*module, samples, options);
  return module;
}

std::shared_ptr<model::Model> build(const spec::JobSpec& spec, const JobSamples& samples,
                                    const Network::Options& options, Network::BuiltWith& built) {
  if (!spec.model.is_users()) {
    auto model = build_zoo_model(spec, samples, options.draws_weights);
    prepare(*model, spec);
    return model;
  }
  auto model = build_users_model(spec, samples, options, built);
  if (options.evaluates) {
    model->require_evaluation();
    model->require_outputs();
  }
  return model;
}

}  // namespace

model::MetricsWanted metrics_of(const spec::JobSpec& spec) {
  const spec::TrainSection& train = spec.train;
  // The mean of binary cross entropies is by number, whatever their weights.
  const bool weighted = !train.loss_weights.empty() && spec.model.loss != spec::Loss::bce_with_logits;
  return {train.top_k, train.per_class, weighted, train.metrics};
}

Network::Network(const spec::JobSpec& spec, const JobSamples& samples, const Options& options)
    : interpreter_(options.python.interpreter),
      model_(build(spec, samples, options, built_with_)),
      tensors_(model::named_tensors(*model_)) {
  for (const auto& [name, tensor] : tensors_.parameters) parameters_.push_back(tensor);
  for (const auto& [name, tensor] : tensors_.buffers) buffers_.push_back(tensor);
  const auto* users = dynamic_cast<const model::UsersModel*>(model_.get());
  for (const torch::Tensor& parameter : parameters_)
    gradient_strides_.push_back(users != nullptr ? users->gradient_strides(parameter) : std::vector<int64_t>());
}

est::Backward Network::backward() const {
  if (interpreter_ == nullptr) return [](const torch::Tensor& loss) { loss.backward(); };
  return [python = interpreter_](const torch::Tensor& loss) { python->backward(loss); };
}

std::vector<std::string> Network::notes() const {
  const auto* users = dynamic_cast<const model::UsersModel*>(model_.get());
  return users != nullptr ? users->notes() : std::vector<std::string>();
}

int64_t Network::predictions_per_sample(const data::SampleShape& shape) const {
  const auto* users = dynamic_cast<const model::UsersModel*>(model_.get());
  return users != nullptr ? users->predictions_per_sample() : shape.targets();
}

}  // namespace estrain::train
