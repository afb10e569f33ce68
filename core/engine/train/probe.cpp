#include "core/engine/train/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/engine/device/cpu.h"
#include "core/engine/model/torch_error.h"
#include "core/engine/operators/deterministic.h"
#include "core/engine/operators/portable.h"
#include "core/engine/operators/random_stream.h"
#include "core/engine/train/carrier/gradient_squares.h"
#include "core/engine/train/evaluation/evaluation.h"
#include "core/engine/train/initial_state.h"
#include "core/engine/train/job/batch_tensors.h"
#include "core/engine/train/job/trial.h"
#include "core/engine/train/resident/memory_need.h"
#include "core/engine/train/shared/factor_offers.h"
#include "core/engine/train/shared/row_sums.h"
#include "core/engine/train/shared/table_gradients.h"
#include "core/engine/train/shared/whole_update.h"

namespace estrain::train {
namespace {

constexpr double kSecondsOfMeasuring = 2;
constexpr int kMostRounds = 20;
// The probe does not repeat a slower first round: LibTorch's preparations, done once, take only a small part of 6 s.
constexpr double kSecondsOfSlowRound = 6;

// A program may have thousands of layers: the report names only as many as fit a message.
constexpr size_t kMostLayers = 24;

comm::ProbedOperator as_report(const operators::OperatorUse& use) {
  std::vector<std::string> layers = use.layers;
  if (layers.size() > kMostLayers) {
    const std::string others = fmt::format("and {} more", layers.size() - kMostLayers);
    layers.resize(kMostLayers);
    layers.push_back(others);
  }
  return {.name = use.name,
          .coverage = operators::to_string(use.coverage),
          .which = use.which,
          .calls = use.calls,
          .layers = std::move(layers),
          .on_gpus = operators::to_string(use.on_gpu)};
}

double time_mini_batch(const DryRun& trial, const data::LoadedBatch& batch) {
  const int64_t begin = monotonic_ns();
  trial.run(batch);
  return static_cast<double>(monotonic_ns() - begin) * 1e-9;
}

// Switches to the portable kernels for a scope. Compiled code of a Python module would pass them by.
class PortableTurn {
 public:
  PortableTurn(device::ComputeDevice& device, model::Interpreter* python) : kernels_(device), python_(python) {
    if (python_ != nullptr) python_->run_eagerly(true);
  }
  ~PortableTurn() {
    if (python_ != nullptr) python_->run_eagerly(false);
  }
  PortableTurn(const PortableTurn&) = delete;
  PortableTurn& operator=(const PortableTurn&) = delete;

  const std::set<std::string>& names() const { return kernels_.names(); }

 private:
  operators::PortableOperators kernels_;
  model::Interpreter* python_;
};

double time_portable(const DryRun& trial, const data::LoadedBatch& batch) {
  const PortableTurn turn(trial.device, trial.job.network().interpreter());
  return time_mini_batch(trial, batch);
}

// A lack of D2 is never an error of the probe: where a mini-batch fails with the portable kernels only, the report
// names the failure as an uncovered operator.
std::vector<operators::OperatorUse> scan_portable(const DryRun& trial, const data::LoadedBatch& batch) {
  std::string message;
  try {
    const PortableTurn turn(trial.device, trial.job.network().interpreter());
    return scan_operators(trial, batch, turn.names());
  } catch (const std::exception& error) {
    message = error.what();
  }
  trial.run(batch);
  return {{.name = "all of a mini-batch,",
           .coverage = operators::Coverage::uncovered,
           .which = "which fails with them: " + message.substr(0, message.find('\n')),
           .calls = 1,
           .layers = {}}};
}

// Builds a Python module as a worker at D2 does, so that the probe finds all obstacles to D2.
void make_job(std::optional<TrainingJob>& job, ProbeSetup& setup, const data::DataPair& data,
              device::ComputeDevice& device, bool has_portable) {
  const auto make = [&] {
    job.emplace(setup.spec, data, true, /*cuda_streams=*/false, PythonSide{setup.interpreter, &device});
  };
  if (setup.interpreter == nullptr || !has_portable) return make();
  const PortableTurn turn(device, setup.interpreter);
  operators::scan({.replaced = &turn.names(), .layer = model::current_block}, make);
}

bool is_covered(const std::vector<operators::OperatorUse>& uses) {
  return std::ranges::none_of(
      uses, [](const operators::OperatorUse& use) { return use.coverage == operators::Coverage::uncovered; });
}

// Takes the fastest mini-batch of each kind of kernel, by turns, so that other load of the machine slows both.
comm::ProbedSeconds measure(const DryRun& trial, const data::LoadedBatch& batch, bool has_portable) {
  double torch = time_mini_batch(trial, batch);
  // torch.compile compiles in the first mini-batch.
  const bool may_have_compiled = torch > kSecondsOfSlowRound && trial.job.network().interpreter() != nullptr;
  if (may_have_compiled) torch = std::min(torch, time_mini_batch(trial, batch));
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

comm::ProbedSize size_of(const TrainingJob& job) {
  const comm::MemoryPlan plan = job.memory_plan();
  return {.state_bytes = plan.state_bytes,
          .gradient_bytes = plan.gradient_bytes,
          .parameter_bytes = job.places().model.parameters_bytes(),
          .batch_bytes = job.samples().train().shape().bytes() * static_cast<size_t>(job.samples().sampler().batch()),
          .tensors = std::ssize(job.layout().tensors),
          .parameters = job.manifest().parameter_count,
          .digests = plan.digests,
          .evaluation_bytes = plan.evaluation_bytes(),
          .steps = job.timetable().total_steps()};
}

// Has mini-batches sum the gradients of tables by rows, as a worker of one host does on the CPU, and measures the rows.
// Where gradients are measured or audited, workers compute whole gradients.
class RowsOfProbe {
 public:
  explicit RowsOfProbe(const DryRun& trial) : trial_(trial), tables_(trial.job.network().parameters()) {}

  DryRun by_rows() {
    DryRun trial = trial_;
    const spec::JobSpec& spec = trial.job.spec();
    const bool are_whole = GradientSquares::are_wanted(spec) || spec.audit.every > 0 || spec.model.is_python();
    if (are_whole || !trial.device.torch_device().is_cpu()) return trial;
    trial.cut = [this](const torch::Tensor& loss) {
      return std::make_shared<FactorWatch::Cuts>(tables_.begin_pass(
          loss, [this](size_t parameter, const GradientFactors& gradient) { take(parameter, gradient); }));
    };
    return trial;
  }

  void report(comm::ProbedSize& size) const {
    for (const auto& [parameter, bytes] : bytes_) {
      size.table_bytes += trial_.job.network().parameters()[parameter].nbytes();
      size.row_bytes += bytes;
    }
  }

 private:
  void take(size_t parameter, const GradientFactors& gradient) {
    const auto width = static_cast<size_t>(trial_.job.network().parameters()[parameter].size(1));
    trial_.hooks.note_taken(parameter);
    rows_of_gradient(gradient, width, rows_);
    uint64_t& bytes = bytes_[parameter];
    bytes = std::max<uint64_t>(bytes, rows_.rows.size() * (sizeof(RowNumber) + width * sizeof(float)));
  }

  const DryRun& trial_;
  TableGradients tables_;
  RowValues rows_;
  std::map<size_t, uint64_t> bytes_;  // [parameter]: of the rows of a mini-batch
};

// Calls `measure` with the kernels that the job takes.
template <typename Measure>
auto with_kernels_of_job(const DryRun& trial, bool has_portable, Measure&& measure) {
  std::optional<PortableTurn> turn;
  if (has_portable && trial.job.spec().job.kernels == spec::Kernels::portable)
    turn.emplace(trial.device, trial.job.network().interpreter());
  return measure();
}

GpuBytes foretell_gpus(const DryRun& trial, const data::LoadedBatch& batch, uint64_t batch_bytes) {
  return bytes_of_gpus(trial.job, measure_pass(trial, as_tensors(batch, trial.device)), batch_bytes);
}

comm::ProbedError as_report(const Error& error) { return {error.message(), error.advice()}; }

// Takes the initial weights as the run's first worker does. A bad file of weights does not end the probe.
void try_first_state(TrainingJob& job, comm::ProbeReport& report) {
  constexpr std::align_val_t alignment{64};
  const std::unique_ptr<std::byte, void (*)(std::byte*)> state(
      static_cast<std::byte*>(::operator new(job.places().bytes, alignment)),
      [](std::byte* memory) { ::operator delete (memory, std::align_val_t{64}); });
  try {
    if (const auto taken = write_first_state(job, state.get())) report.init_words = taken->words();
  } catch (const Error& error) {
    report.init_error = as_report(error);
  }
}

// Updates the largest of the parameters that are updated whole, for the memory that this takes beside the state.
void try_largest_update(const TrainingJob& job) {
  const optim::Optimizer& optimizer = job.optimizer();
  const std::vector<torch::Tensor>& parameters = job.network().parameters();
  std::optional<size_t> largest;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (optimizer.updates_whole(i) && (!largest || parameters[i].numel() > parameters[*largest].numel())) largest = i;
  }
  if (!largest) return;
  std::vector<torch::Tensor> slots;
  const std::vector<int64_t> sizes = parameters[*largest].sizes().vec();
  for (const optim::SlotShape& slot : optimizer.slots(*largest, sizes)) slots.push_back(torch::zeros(slot.sizes));
  update_whole(optimizer.whole_settings(*largest, 0, 0), torch::zeros(sizes), torch::zeros(sizes), slots);
}

}  // namespace

comm::ProbeReport probe(ProbeSetup& setup) {
  // LibTorch counts the devices once, at the first use.
  const auto device = device::open_device(setup.device, setup.libraries, device_options(setup.spec));
  device::configure_cpu(setup.spec.job.threads);
  std::optional<operators::DeterministicOperators> deterministic;
  if (!device->torch_device().is_cpu()) deterministic.emplace(*device);
  const data::DataPair data = setup.data.get();
  const bool has_portable = setup.spec.job.precision == spec::Precision::fp32;
  std::optional<TrainingJob> made;
  make_job(made, setup, data, *device, has_portable);
  TrainingJob& job = *made;
  if (!device->torch_device().is_cpu()) job.network().model().to(device->torch_device());
  est::GradientHooks hooks(job.network().parameters(), *device, job.network().backward());
  const DryRun whole{job, hooks, *device};
  RowsOfProbe rows(whole);
  const DryRun trial = rows.by_rows();
  job.network().model().train();
  comm::ProbeReport report;
  const std::optional<Error> refusal = refusal_of_short_batch(trial, Step(0));
  if (refusal && job.samples().sampler().batch() == 1) throw Error(*refusal);  // the probe can try no mini-batch
  if (refusal) report.short_batch_error = as_report(*refusal);
  if (setup.one_sample) report.one_sample_error = why_one_sample_is_refused(trial).value_or("");
  report.samples_per_est = job.samples().sampler().samples_per_est();
  const data::LoadedBatch batch = job.samples().first_batch();
  std::vector<operators::OperatorUse> uses = uses_of_building(job.network());
  std::ranges::move(has_portable ? scan_portable(trial, batch) : scan_operators(trial, batch, {}),
                    std::back_inserter(uses));
  for (const operators::OperatorUse& use : uses) report.operators.push_back(as_report(use));
  report.size = size_of(job);
  const bool is_portable = has_portable && is_covered(uses);
  if (setup.measures) report.seconds = measure(trial, batch, is_portable);
  rows.report(report.size);
  try_largest_update(job);
  report.memory = own_memory_use();
  report.gpu_memory = device->memory();
  if (setup.foretells) {
    GpuBytes foretold =
        with_kernels_of_job(trial, is_portable, [&] { return foretell_gpus(whole, batch, report.size.batch_bytes); });
    report.gpu_bytes = std::move(foretold.memory);
    report.gpu_slot_bytes = std::move(foretold.slots);
  }
  if (setup.factors)
    report.factors = with_kernels_of_job(trial, is_portable, [&] { return probe_factors(whole, batch); });
  if (!setup.spec.train.metrics_file.empty() && data.test != nullptr) {
    job.network().model().want_outputs(true);
    try_users_metrics(job, *device);
  }
  report.notes = job.network().notes();
  report.settings = job.network().built_with().settings;
  report.has_evaluation = data.test != nullptr;
  if (setup.spec.model.init.empty()) return report;
  if (!device->torch_device().is_cpu()) job.network().model().to(torch::kCPU);
  try_first_state(job, report);
  return report;
}

}  // namespace estrain::train

void estrain_probe(estrain::train::ProbeSetup* setup, estrain::comm::ProbeReport* report) {
  estrain::model::translating_torch_errors([&] { *report = estrain::train::probe(*setup); });
}
