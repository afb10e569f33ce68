#include "core/train/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>

#include "core/base/clock.h"
#include "core/device/cpu.h"
#include "core/model/torch_error.h"
#include "core/operators/portable.h"
#include "core/operators/random_stream.h"
#include "core/train/initial_state.h"
#include "core/train/job/operator_scan.h"
#include "core/train/job/short_batch.h"

namespace estrain::train {
namespace {

constexpr double kSecondsOfMeasuring = 2;
constexpr int kMostRounds = 20;
// A first round that takes longer is not repeated: what LibTorch does once, it does in a small part of that.
constexpr double kSecondsOfSlowRound = 6;

// A program may have thousands of layers: what is told of them fits a message.
constexpr size_t kMostLayers = 24;

comm::ProbedOperator as_report(const operators::OperatorUse& use) {
  std::vector<std::string> layers = use.layers;
  if (layers.size() > kMostLayers) {
    const std::string others = fmt::format("and {} more", layers.size() - kMostLayers);
    layers.resize(kMostLayers);
    layers.push_back(others);
  }
  return {use.name, operators::to_string(use.coverage), use.type, use.calls, std::move(layers)};
}

double time_mini_batch(const Trial& trial, const data::LoadedBatch& batch) {
  const int64_t begin = monotonic_ns();
  trial.run(batch);
  return static_cast<double>(monotonic_ns() - begin) * 1e-9;
}

double time_portable(const Trial& trial, const data::LoadedBatch& batch) {
  const operators::PortableOperators kernels(trial.device);
  return time_mini_batch(trial, batch);
}

// The fastest mini-batch of each, by turns so that what else the machine does falls on both.
comm::ProbedSeconds measure(const Trial& trial, const data::LoadedBatch& batch, bool has_portable) {
  double torch = time_mini_batch(trial, batch);
  double portable = has_portable ? time_portable(trial, batch) : 0;
  const int64_t begin = monotonic_ns();
  const bool repeats = torch + portable <= kSecondsOfSlowRound;
  for (int round = 0; repeats && round < kMostRounds; ++round) {
    torch = std::min(torch, time_mini_batch(trial, batch));
    if (has_portable) portable = std::min(portable, time_portable(trial, batch));
    if (static_cast<double>(monotonic_ns() - begin) * 1e-9 > kSecondsOfMeasuring) break;
  }
  return {torch, has_portable ? std::optional(portable) : std::nullopt};
}

comm::ProbedSize size_of(const Job& job) {
  const comm::MemoryPlan plan = job.memory_plan();
  return {.state_bytes = plan.state_bytes,
          .gradient_bytes = plan.gradient_bytes,
          .batch_bytes = job.samples().train().shape().bytes() * static_cast<size_t>(job.samples().sampler().batch()),
          .tensors = std::ssize(job.layout().tensors),
          .parameters = job.manifest().parameter_count,
          .digests = plan.digests,
          .evaluation_bytes = plan.evaluation_bytes(),
          .steps = job.timetable().total_steps()};
}

comm::ProbedError as_report(const Error& error) { return {error.message(), error.advice()}; }

// Takes the initial weights as the run's first worker will. Their file does not keep the rest from being looked at.
void try_first_state(Job& job, comm::ProbeReport& report) {
  constexpr std::align_val_t alignment{64};
  const std::unique_ptr<std::byte, void (*)(std::byte*)> state(
      static_cast<std::byte*>(::operator new(job.places().bytes, alignment)),
      [](std::byte* memory) { ::operator delete (memory, std::align_val_t{64}); });
  try {
    write_first_state(job, state.get());
  } catch (const Error& error) {
    report.init_error = as_report(error);
  }
}

}  // namespace

comm::ProbeReport probe(ProbeSetup& setup) {
  // LibTorch asks once what devices there are.
  const auto device = device::open_device(setup.device, setup.libraries, device_options(setup.spec));
  device::configure_cpu(setup.spec.job.threads);
  const data::DataPair data = setup.data.get();
  Job job(setup.spec, data, true, /*cuda_streams=*/false, {setup.interpreter, device.get()});
  if (!device->torch_device().is_cpu()) job.network().model().to(device->torch_device());
  est::GradientHooks hooks(job.network().parameters(), *device, job.network().backward());
  const Trial trial{job, hooks, *device};
  job.network().model().train();
  comm::ProbeReport report;
  const std::optional<Error> refusal = refusal_of_short_batch(trial, Step(0));
  if (refusal && job.samples().sampler().batch() == 1) throw Error(*refusal);  // no mini-batch can be tried
  if (refusal) report.short_batch_error = as_report(*refusal);
  const data::LoadedBatch batch = job.samples().first_batch();
  const bool has_portable = setup.spec.job.precision == spec::Precision::fp32;
  std::vector<operators::OperatorUse> uses;
  if (has_portable) {
    const operators::PortableOperators kernels(*device);
    uses = scan_operators(trial, batch, kernels.names());
  } else {
    uses = scan_operators(trial, batch, {});
  }
  for (const operators::OperatorUse& use : uses) report.operators.push_back(as_report(use));
  if (setup.measures) report.seconds = measure(trial, batch, has_portable);
  report.memory = own_memory_use();
  report.size = size_of(job);
  report.notes = job.network().notes();
  if (setup.spec.model.init.empty()) return report;
  if (!device->torch_device().is_cpu()) job.network().model().to(torch::kCPU);
  try_first_state(job, report);
  return report;
}

}  // namespace estrain::train

void estrain_probe(estrain::train::ProbeSetup* setup, estrain::comm::ProbeReport* report) {
  estrain::model::translating_torch_errors([&] { *report = estrain::train::probe(*setup); });
}
