#include "core/engine/train/job/trial.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <utility>

#include "core/base/error.h"
#include "core/engine/operators/random_stream.h"
#include "core/engine/train/job/batch_tensors.h"

namespace estrain::train {
namespace {

Error refused(const TrainingJob& job, const std::string& why) {
  const int64_t samples = job.samples().train().size(), each = job.samples().sampler().samples_per_est();
  const std::string share =
      fmt::format("{} training samples over {} ESTs (job.ests) are {} each", samples, job.spec().job.ests, each);
  if (job.samples().sampler().batch() == 1) {
    return Error::make(Fault::infeasible, "every mini-batch has one sample ({}, data.batch = {}): {}", share,
                       job.spec().data.batch, why)
        .advise(each == 1 ? "use fewer ESTs or more data" : "set data.batch to 2 or more");
  }
  return Error::make(Fault::infeasible, "the last mini-batch of an epoch has one sample ({}, data.batch = {}): {}",
                     share, job.spec().data.batch, why)
      .advise("set data.drop_last = true, or another data.batch, which does not leave one sample over");
}

}  // namespace

void DryRun::run(const model::MiniBatch& batch, est::DeviceGradientSink take) const {
  operators::begin_random_stream(0, operators::warming_stream, 0);
  const torch::Tensor loss = job.network().model().loss(batch);
  const std::shared_ptr<void> cuts = cut ? cut(loss) : nullptr;
  hooks.backward_on_device(loss, std::move(take));
  device.finish();
}

void DryRun::run(const data::LoadedBatch& batch) const { run(as_tensors(batch, device)); }

c10::DispatchKey key_of(const device::ComputeDevice& device) {
  return c10::computeDispatchKey(std::nullopt, std::nullopt, device.torch_device());
}

std::vector<operators::OperatorUse> scan_operators(const DryRun& trial, const data::LoadedBatch& batch,
                                                   const std::set<std::string>& replaced) {
  // Copies to the device are no operators.
  const model::MiniBatch tensors = as_tensors(batch, trial.device);
  const model::MiniBatch evaluated = as_evaluated_tensors(batch, trial.device);
  model::Interpreter* python = trial.job.network().interpreter();
  if (python != nullptr) python->tell_modules(true);
  auto uses =
      operators::scan({.replaced = &replaced, .device = key_of(trial.device), .layer = model::current_block}, [&] {
        trial.run(tensors);
        if (trial.job.timetable().evaluates()) trial.job.network().model().evaluate(evaluated);
      });
  if (python != nullptr) python->tell_modules(false);
  return uses;
}

std::vector<operators::OperatorUse> uses_of_building(const Network& network) {
  std::vector<operators::OperatorUse> uses;
  if (network.built_with().unkept.empty()) return uses;
  for (const std::string& name : network.built_with().uncovered)
    uses.push_back({.name = name,
                    .coverage = operators::Coverage::uncovered,
                    .which = "in the module's function, for",
                    .calls = 1,
                    .layers = network.built_with().unkept});
  return uses;
}

void refuse_uncovered(const std::vector<operators::OperatorUse>& uses) {
  std::vector<std::string> found;
  for (const operators::OperatorUse& use : uses) {
    if (use.coverage != operators::Coverage::uncovered) continue;
    std::string text = use.text();
    if (!use.layers.empty()) text += fmt::format(" ({})", fmt::join(use.layers, ", "));
    found.push_back(text);
  }
  if (found.empty()) return;
  throw Error::make(Fault::infeasible, "D2 cannot be had with this model: no portable kernel for {}",
                    fmt::join(found, "; "))
      .advise("use job.determinism = \"D1\", or \"auto\"; `estrain check` lists every operator");
}

std::optional<int64_t> shortest_batch(const TrainingJob& job, Step step) {
  return job.timetable().batches().shortest_batch(step, Step(job.timetable().total_steps()));
}

std::optional<std::string> why_one_sample_is_refused(const DryRun& trial) {
  const data::LoadedBatch batch = trial.job.samples().first_batch();
  const model::MiniBatch tensors = as_tensors(batch, trial.device);
  const at::NoGradGuard no_graph;
  operators::begin_random_stream(0, operators::warming_stream, 0);
  try {
    trial.job.network().model().loss(tensors.first(1));
    trial.device.finish();
  } catch (const Error& error) {
    if (error.fault() != Fault::spec) throw;
    return error.message();
  }
  return std::nullopt;
}

std::optional<Error> refusal_of_short_batch(const DryRun& trial, Step step) {
  if (shortest_batch(trial.job, step) != 1) return std::nullopt;
  const std::optional<std::string> why = why_one_sample_is_refused(trial);
  return why ? std::optional(refused(trial.job, *why)) : std::nullopt;
}

}  // namespace estrain::train
