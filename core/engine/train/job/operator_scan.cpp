#include "core/engine/train/job/operator_scan.h"

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/engine/operators/random_stream.h"
#include "core/engine/train/job/batch_tensors.h"

namespace estrain::train {

void Trial::run(const model::Batch& batch) const {
  operators::begin_random_stream(0, operators::warming_stream, 0);
  hooks.backward_on_device(job.network().model().loss(batch), [](size_t, const torch::Tensor&) {});
  device.finish();
}

void Trial::run(const data::LoadedBatch& batch) const { run(as_tensors(batch, device)); }

std::vector<operators::OperatorUse> scan_operators(const Trial& trial, const data::LoadedBatch& batch,
                                                   const std::set<std::string>& replaced) {
  const model::Batch tensors = as_tensors(batch, trial.device);  // copies to the device are no operators
  const auto key = c10::computeDispatchKey(std::nullopt, std::nullopt, trial.device.torch_device());
  model::Interpreter* python = trial.job.network().interpreter();
  if (python != nullptr) python->tell_modules(true);
  auto uses = operators::scan({.replaced = &replaced, .device = key, .layer = model::current_block}, [&] {
    trial.run(tensors);
    if (trial.job.timetable().evaluates()) trial.job.network().model().evaluate(tensors);
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

}  // namespace estrain::train
