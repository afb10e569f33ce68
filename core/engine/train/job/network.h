#pragma once
// A Network is the model trained by a job, with its tensors and its backward pass.

#include <memory>
#include <vector>

#include "core/engine/device/device.h"
#include "core/engine/est/gradient_hooks.h"
#include "core/engine/model/model.h"
#include "core/engine/model/python/interpreter.h"
#include "core/engine/model/python/python_model.h"
#include "core/engine/train/job/samples.h"

namespace estrain::train {

model::MetricsWanted metrics_of(const spec::JobSpec& spec);

struct PythonSide {
  model::Interpreter* interpreter = nullptr;  // of the module
  device::ComputeDevice* device = nullptr;    // which runs the model, module or program; null: the CPU
};

class Network {
 public:
  struct Options {
    bool draws_weights;  // initialise parameters and buffers from the job's seed; else they have no values
    bool evaluates;      // the model must be able to evaluate
    PythonSide python;   // for a Python module
  };

  // How a Python module was built while operators were scanned (core/engine/operators/scan.h).
  struct BuiltWith {
    std::vector<std::string> uncovered;  // operators without a portable kernel
    std::vector<std::string> unkept;     // with uncovered operators: tensors of the module outside the state
    std::vector<std::string> settings;   // notes on settings that the user's code has changed: each note is a sentence
  };

  // Builds the model. A Python module tries a mini-batch of `samples`. Throws Fault::spec if model and data do not fit.
  Network(const spec::JobSpec& spec, const JobSamples& samples, const Options& options);

  model::Model& model() const { return *model_; }
  model::Interpreter* interpreter() const { return interpreter_; }  // null: no Python module
  est::Backward backward() const;
  const BuiltWith& built_with() const { return built_with_; }

  // Parameters and buffers in state_dict order, tied tensors once.
  const model::NamedTensors& tensors() const { return tensors_; }
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  const std::vector<torch::Tensor>& buffers() const { return buffers_; }
  // Returns UsersModel::gradient_strides() of each parameter.
  const std::vector<std::vector<int64_t>>& gradient_strides() const { return gradient_strides_; }

  // Returns the number of predictions for a sample of this shape in an evaluation; may be 0.
  int64_t predictions_per_sample(const data::SampleShape& shape) const;

  // Returns UsersModel::notes(), or nothing for a model of the zoo.
  std::vector<std::string> notes() const;

 private:
  BuiltWith built_with_;
  model::Interpreter* interpreter_;
  std::shared_ptr<model::Model> model_;
  model::NamedTensors tensors_;
  std::vector<torch::Tensor> parameters_, buffers_;
  std::vector<std::vector<int64_t>> gradient_strides_;
};

}  // namespace estrain::train
