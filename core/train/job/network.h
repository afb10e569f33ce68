#pragma once
// The model that a job trains, its tensors, and the way its backward pass is run.

#include <memory>
#include <vector>

#include "core/device/device.h"
#include "core/est/gradient_hooks.h"
#include "core/model/model.h"
#include "core/model/python/interpreter.h"
#include "core/model/python/python_model.h"
#include "core/train/job/samples.h"

namespace estrain::train {

model::MetricsWanted metrics_of(const spec::TrainSection& train);

struct PythonSide {
  model::Interpreter* interpreter = nullptr;  // that the module lives in
  device::ComputeDevice* device = nullptr;    // that it computes on: a CPU
};

class Network {
 public:
  struct Options {
    bool draws_weights;  // parameters and buffers hold what the job's seed gives; else nothing yet
    bool evaluates;      // the model must be able to evaluate
    PythonSide python;   // of a job whose model is a module in Python
  };

  // Builds the model. A module in Python tries a mini-batch of `samples`. Throws Fault::spec where model and data do
  // not fit.
  Network(const spec::JobSpec& spec, const Samples& samples, const Options& options);

  model::Model& model() const { return *model_; }
  model::Interpreter* interpreter() const { return interpreter_; }  // null: the model is none in Python
  est::Backward backward() const;

  // Parameters and buffers in state_dict order, tied ones once.
  const model::NamedTensors& tensors() const { return tensors_; }
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  const std::vector<torch::Tensor>& buffers() const { return buffers_; }

  // Predictions that an evaluation makes of a sample of this shape; 0: the model makes none.
  int64_t predictions_per_sample(const data::SampleShape& shape) const;

 private:
  model::Interpreter* interpreter_;
  std::shared_ptr<model::Model> model_;
  model::NamedTensors tensors_;
  std::vector<torch::Tensor> parameters_, buffers_;
};

}  // namespace estrain::train
