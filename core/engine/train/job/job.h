#pragma once
// A TrainingJob holds a worker's samples, network, optimizer, timetable, and the places of the job's tensors in the
// shared state. Of a TrainingJob, only the changes of the batch differ from stage to stage.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/engine/optim/optimizer.h"
#include "core/engine/optim/schedule.h"
#include "core/engine/train/job/network.h"
#include "core/engine/train/job/samples.h"
#include "core/engine/train/state/state_places.h"
#include "core/job/batches/batch_schedule.h"
#include "core/job/spec/job_spec.h"
#include "core/state/checkpoint/state/manifest.h"
#include "core/state/comm/job_memory.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::train {

// A Timetable tells how long a job trains, and after which steps the job evaluates and saves.
class Timetable {
 public:
  // `batches` must outlive the timetable, and may change between stages.
  Timetable(const spec::JobSpec& spec, const batches::BatchSchedule& batches, bool has_test_data)
      : spec_(spec), batches_(batches), has_test_data_(has_test_data) {}

  const batches::BatchSchedule& batches() const { return batches_; }
  int64_t total_steps() const;
  bool evaluates() const;  // after at least one step
  bool evaluates_after(Step step) const;
  bool saves_after(Step step) const;

 private:
  const spec::JobSpec& spec_;
  const batches::BatchSchedule& batches_;
  const bool has_test_data_;
};

// A GradientSum is the sum of the gradients of all ESTs: each gradient is multiplied by 1/N, and the order of the
// additions is fixed. By weight, gradients are of sums of losses, and are added as they are: the update multiplies the
// sum by 1/(total weight).
struct GradientSum {
  comm::SumOrder order;
  int64_t ests;
  bool by_weight = false;

  float factor() const { return by_weight ? 1.0f : 1.0f / static_cast<float>(ests); }
  comm::FoldPlan fold(EstRange own) const { return comm::plan_fold(order, ests, own); }
  comm::FinishPlan finish(const std::vector<EstRange>& ranges) const { return comm::plan_finish(order, ests, ranges); }
};

device::DeviceOptions device_options(const spec::JobSpec& spec);

// Returns whether evaluations have a perplexity: the loss is the cross entropy of tokens.
bool tells_perplexity(const spec::JobSpec& spec, const JobSamples& samples);

class TrainingJob {
 public:
  // Builds the model. `draws_weights`: initialise parameters and buffers from the job's seed; else they have no values.
  // `cuda_streams`: the run has GPUs. The state then has a place for each EST's CUDA generator, and CPU and GPU use the
  // same arithmetic for updates: IEEE square roots, fused multiply-adds, norms summed in the portable order. `python`:
  // for a Python module. The module tries a mini-batch, and the state has a place for each EST's streams in Python.
  // Throws Fault::spec if model, data and optimizer do not fit.
  TrainingJob(const spec::JobSpec& spec, const data::DataPair& data, bool draws_weights, bool cuda_streams = false,
              PythonSide python = {});

  const spec::JobSpec& spec() const { return spec_; }
  const JobSamples& samples() const { return samples_; }
  const Timetable& timetable() const { return timetable_; }
  const Network& network() const { return network_; }
  const optim::Optimizer& optimizer() const { return optimizer_; }
  // Learning rates of schedules without a state; learning_rates.h has the rates of all schedules.
  optim::GroupSchedules& schedules() { return schedules_; }
  const StatePlaces& places() const { return places_; }

  const checkpoint::Manifest& manifest() const { return manifest_; }
  const checkpoint::StateLayout& layout() const { return manifest_.layout; }
  // Sets the processor for which D1's bits hold, as named by the device that builds the state.
  void set_processor(std::string processor) { manifest_.processor = std::move(processor); }
  // Takes up changes of the batch recorded since the launch. Call this function between two stages. Returns false if
  // there are no new changes. Throws as the constructor.
  bool take_changes(const std::vector<batches::BatchChange>& recorded);
  // Sets the identity of the job's data files, as JSON.
  void set_data(std::string identity) { manifest_.data = std::move(identity); }

  // Returns the sizes of the shared memory for this job.
  comm::MemoryPlan memory_plan() const;

  GradientSum gradient_sum() const;
  uint64_t seed_of(VirtualRank rank) const { return static_cast<uint64_t>(spec_.job.seed + rank.value); }

 private:
  StatePlaces lay_out(bool cuda_streams);
  void name_digests();

  const spec::JobSpec& spec_;
  JobSamples samples_;
  const Timetable timetable_;
  const Network network_;
  checkpoint::Manifest manifest_;
  const optim::Optimizer optimizer_;
  optim::GroupSchedules schedules_;
  const StatePlaces places_;
};

}  // namespace estrain::train
