#include "core/train/probe.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/base/clock.h"
#include "core/device/cpu.h"
#include "core/model/torch_error.h"
#include "core/operators/random_stream.h"
#include "core/train/batch_tensors.h"
#include "core/train/operator_scan.h"

namespace estrain::train {
namespace {

constexpr double kSecondsOfMeasuring = 2;
constexpr int kMostRounds = 20;

Json as_json(const operators::OperatorUse& use) {
  return {{"name", use.name},
          {"coverage", operators::to_string(use.coverage)},
          {"type", use.type},
          {"calls", use.calls},
          {"layers", use.layers}};
}

double time_mini_batch(Job& job, est::GradientHooks& hooks, const data::Batch& batch) {
  operators::begin_random_stream(0, operators::warming_stream, 0);
  const int64_t begin = monotonic_ns();
  hooks.backward(job.model().loss(as_tensors(batch)), [](size_t, const float*) {});
  return static_cast<double>(monotonic_ns() - begin) * 1e-9;
}

// The fastest mini-batch of each, by turns so that what else the machine does falls on both.
Json measure(Job& job, est::GradientHooks& hooks, const data::Batch& batch) {
  double torch = time_mini_batch(job, hooks, batch), portable = 0;
  {
    const operators::PortableOperators kernels;
    portable = time_mini_batch(job, hooks, batch);
  }
  const int64_t begin = monotonic_ns();
  for (int round = 0; round < kMostRounds; ++round) {
    torch = std::min(torch, time_mini_batch(job, hooks, batch));
    {
      const operators::PortableOperators kernels;
      portable = std::min(portable, time_mini_batch(job, hooks, batch));
    }
    if (static_cast<double>(monotonic_ns() - begin) * 1e-9 > kSecondsOfMeasuring) break;
  }
  return {{"torch", torch}, {"portable", portable}};
}

}  // namespace

void probe(ProbeSetup& setup) {
  device::configure_cpu(setup.spec.job.threads);
  const data::DataPair data = setup.data.get();
  Job job(setup.spec, data, true);
  est::GradientHooks hooks(job.parameters());
  job.model().train();
  const data::Batch batch = first_batch(job);
  std::vector<operators::OperatorUse> uses;
  {
    const operators::PortableOperators kernels;
    uses = scan_operators(job, hooks, batch, kernels);
  }
  for (const operators::OperatorUse& use : uses) setup.report["operators"].push_back(as_json(use));
  if (setup.measures) setup.report["seconds"] = measure(job, hooks, batch);
}

}  // namespace estrain::train

void estrain_probe(estrain::train::ProbeSetup* setup) {
  estrain::model::translating_torch_errors([&] { estrain::train::probe(*setup); });
}
