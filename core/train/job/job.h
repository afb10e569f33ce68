#pragma once
// What a worker knows of its job whatever the stage: data, model, optimizer, and where each of their tensors lies in
// the shared state.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/checkpoint/state/manifest.h"
#include "core/comm/job_memory.h"
#include "core/comm/sums/reduction_tree.h"
#include "core/data/formats/dataset.h"
#include "core/data/sampling/sampler.h"
#include "core/device/device.h"
#include "core/est/gradient_hooks.h"
#include "core/model/model.h"
#include "core/model/python/interpreter.h"
#include "core/model/python/python_model.h"
#include "core/optim/optimizer.h"
#include "core/optim/plateau.h"
#include "core/optim/schedule.h"
#include "core/spec/job_spec.h"

namespace estrain::train {

device::DeviceOptions device_options(const spec::JobSpec& spec);
model::MetricsWanted metrics_of(const spec::TrainSection& train);

struct PythonSide {
  model::Interpreter* interpreter = nullptr;  // that the module lives in
  device::Device* device = nullptr;           // that it computes on: a CPU
};

class Job {
 public:
  // Builds the model; with `draw_weights` its parameters and buffers hold what the job's seed gives, else nothing yet.
  // Throws Fault::spec where model, data and optimizer do not fit.
  // `cuda_streams`: the run has GPUs. The state has a place for each EST's CUDA generator, and updates are those that
  // CPU and GPU make alike: IEEE's square roots, multiply-adds rounded once, norms summed in the portable order.
  // `python`: of a job whose model is a module in Python. The module tries a mini-batch; the state has a place for each
  // EST's streams there.
  Job(const spec::JobSpec& spec, const data::DataPair& data, bool draw_weights, bool cuda_streams = false,
      PythonSide python = {});

  const spec::JobSpec& spec() const { return spec_; }
  const data::DataPair& data() const { return data_; }
  const data::Sampler& sampler() const { return *sampler_; }
  model::Model& model() { return *model_; }
  model::Interpreter* interpreter() const { return interpreter_; }  // null: the model is none in Python
  est::Backward backward() const;                                   // how its backward pass is run
  const optim::Optimizer& optimizer() const { return *optimizer_; }
  const checkpoint::Manifest& manifest() const { return manifest_; }
  const checkpoint::StateLayout& layout() const { return manifest_.layout; }
  // What D1's bits hold for, as the device that builds the state says.
  void set_processor(std::string processor) { manifest_.processor = std::move(processor); }
  // What its data files are: the identity's JSON.
  void set_data(std::string identity) { manifest_.data = std::move(identity); }

  // Parameters and buffers in state_dict order, tied ones once.
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  const std::vector<torch::Tensor>& buffers() const { return buffers_; }

  // Sizes of the shared memory that this job needs.
  comm::MemoryPlan memory_plan() const;

  comm::SumOrder sum_order() const;  // of the ESTs' gradients

  int64_t evaluation_samples() const;
  bool tells_perplexity() const;
  int64_t predictions_per_sample() const;  // of an evaluation; 0: the model makes none
  bool evaluates() const;                  // ever
  bool evaluates_after(Step step) const;
  bool saves_after(Step step) const;
  // Learning rates of the parameter groups for the update that follows `step`, by a schedule without a state; for all
  // schedules: learning_rates.h.
  std::vector<double> learning_rates(Step step);
  // Whether the schedule goes by evaluations, and the state has a place for what it learnt.
  bool follows_metric() const { return plateau_at_.has_value(); }
  // Whether the job ends where evaluations no longer get better, and the state has a place for how they were.
  bool may_end_early() const { return early_stop_at_.has_value(); }
  // Whether the state has averages of the parameters.
  bool keeps_average() const { return average_at_.has_value(); }
  bool evaluates_average() const { return keeps_average() && spec_.ema.evaluate; }

  // Places in one copy of the state, `base`.
  float* parameter(std::byte* base, size_t i) const { return at<float>(base, parameter_at_[i]); }
  float* slot(std::byte* base, size_t i, size_t k) const { return at<float>(base, slots_at_[i][k]); }
  size_t num_slots(size_t i) const { return slots_at_[i].size(); }
  // All averages lie among each other as the parameters do.
  float* average(std::byte* base, size_t i) const { return at<float>(base, *average_at_ + parameter_at_[i]); }
  std::byte* averages(std::byte* base) const { return base + *average_at_; }
  double* early_stop(std::byte* base) const { return at<double>(base, *early_stop_at_); }  // best, evaluations since
  double* plateau(std::byte* base) const { return at<double>(base, *plateau_at_); }
  size_t plateau_bytes() const { return (3 + optimizer_->groups().groups.size()) * sizeof(double); }
  void write_plateau(std::byte* base, const optim::PlateauState& state, const std::vector<double>& rates) const;
  int64_t* updates(std::byte* base, size_t i) const { return at<int64_t>(base, updates_at_[i]); }
  uint64_t seed_of(VirtualRank rank) const {
    return static_cast<uint64_t>(spec_.job.seed + rank.value);
  }  // of its generators
  std::byte* generator(std::byte* base, VirtualRank rank) const {
    return base + generators_at_[static_cast<size_t>(rank.value)];
  }
  bool has_cuda_streams() const { return !cuda_generators_at_.empty(); }
  std::byte* cuda_generator(std::byte* base, VirtualRank rank) const {
    return base + cuda_generators_at_[static_cast<size_t>(rank.value)];
  }
  std::byte* python_streams(std::byte* base, VirtualRank rank) const {
    return base + python_streams_at_[static_cast<size_t>(rank.value)];
  }
  float* last_loss(std::byte* base, VirtualRank rank) const {
    return at<float>(base, losses_at_[static_cast<size_t>(rank.value)]);
  }
  std::byte* buffers(std::byte* base) const { return base + buffers_at_; }
  size_t buffers_offset() const { return buffers_at_; }
  size_t buffers_bytes() const { return buffers_bytes_; }
  // Parameters stand at the start of the state, buffers behind them.
  float* parameters_at(std::byte* base) const { return at<float>(base, 0); }
  size_t parameters_bytes() const { return gradient_bytes_; }
  // Of buffer i from the start of all buffers.
  size_t buffer_offset(size_t i) const { return buffer_at_[i]; }
  // Elements from the start of a gradient slot to parameter i's gradient: where the parameter lies in the state.
  size_t gradient_offset(size_t i) const { return parameter_at_[i] / sizeof(float); }
  size_t elements(size_t i) const { return static_cast<size_t>(parameters_[i].numel()); }

 private:
  template <typename T>
  static T* at(std::byte* base, uint64_t offset) {
    return reinterpret_cast<T*>(base + offset);
  }
  void build_model(bool draw_weights, PythonSide python);
  std::shared_ptr<model::PythonModel> build_python_model(const model::DataShape& shape, PythonSide python);
  void try_out(model::PythonModel& model, device::Device& device) const;
  void lay_out(const model::NamedTensors& named);
  void lay_out_optimizer(const std::vector<std::string>& names);
  void lay_out_ests(bool cuda_streams);
  void name_metrics(int64_t classes);
  void lay_out_schedule();
  void lay_out_early_stop();
  void lay_out_averages(bool cuda_streams);
  void count_steps();

  const spec::JobSpec& spec_;
  const data::DataPair& data_;
  std::unique_ptr<data::Sampler> sampler_;
  model::Interpreter* interpreter_;
  std::shared_ptr<model::Model> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<optim::Schedule> schedules_;  // one per parameter group
  std::vector<torch::Tensor> parameters_, buffers_;
  checkpoint::Manifest manifest_;
  std::vector<uint64_t> parameter_at_, updates_at_, generators_at_, losses_at_, cuda_generators_at_, python_streams_at_;
  std::vector<std::vector<uint64_t>> slots_at_;
  std::optional<uint64_t> plateau_at_, early_stop_at_, average_at_;
  std::vector<size_t> buffer_at_;
  uint64_t gradient_bytes_ = 0, buffers_at_ = 0;
  size_t buffers_bytes_ = 0;
};

}  // namespace estrain::train
