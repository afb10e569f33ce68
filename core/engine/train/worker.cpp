#include "core/engine/train/worker.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/process/build_id.h"
#include "core/data/files/identity.h"
#include "core/data/job_data.h"
#include "core/data/reading/skip_bad.h"
#include "core/engine/device/cpu.h"
#include "core/engine/model/torch_error.h"
#include "core/engine/operators/deterministic.h"
#include "core/engine/operators/portable.h"
#include "core/engine/train/carrier/carrier.h"
#include "core/engine/train/evaluation/evaluation.h"
#include "core/engine/train/initial_state.h"
#include "core/engine/train/job/trial.h"
#include "core/engine/train/stage.h"
#include "core/engine/train/workplace/exchange_ahead.h"
#include "core/engine/train/workplace/step_trace.h"
#include "core/state/algorithms/pinning.h"
#include "core/state/audit/audit.h"
#include "core/state/checkpoint/checkpoint_file.h"

namespace estrain::train {
namespace {

// The builder may read a checkpoint for long. If the builder is lost, the launcher replaces it or ends the others.
constexpr std::chrono::minutes kGlance{1};

// Combines the build ids of parts into one id. Returns 0 if all build ids are 0.
uint64_t build_of(std::initializer_list<uint64_t> parts) {
  uint64_t build = 0;
  for (const uint64_t part : parts) build = build * 31 + part;
  return build;
}

// If the program or LibTorch was replaced while the job ran, a worker started now may compute different bits. A user's
// Python has loaded LibTorch's part for CUDA for a worker on the CPU, too.
void require_same_builds(comm::BuildWords run, const device::ComputeDevice& device) {
  const auto* own_code = reinterpret_cast<const void*>(&estrain_run_worker);
  const auto refuse = [](const char* what) {
    throw Error::make(Fault::mismatch, "this worker runs another build of {} than the run's first one", what)
        .caused_by("program_replaced");
  };
  const uint64_t program =
      build_of({build_id_of_program(), build_id_of_code(own_code), build_id_of_library("libtorch_cpu.so")});
  const uint64_t cuda =
      device.torch_device().is_cpu()
          ? 0
          : build_of({build_id_of_library("libestrain_cuda.so"), build_id_of_library("libtorch_cuda.so")});
  if (!run.admits_program(program)) refuse("estrain or LibTorch");
  if (!run.admits_cuda(cuda)) refuse("estrain's or LibTorch's part for CUDA");
}

using Checkpoint = std::optional<checkpoint::CheckpointFile>;

// Returns the identity of the data: of the files for a new run; of the checkpoint for a resumed run, unless the user
// accepts different files.
data::DataIdentity data_of_run(const std::vector<data::DataFile>& files, const Checkpoint& file, bool accepts_data) {
  if (!file || accepts_data) return data::identify(files);
  return data::require_same_job(data::DataIdentity::from_json(file->meta().data), files);
}

// The job's files: with the modules that a user's Python code has imported.
std::vector<data::DataFile> files_of_job(const WorkerSetup& setup, const data::DataPair& data) {
  std::vector<data::DataFile> files = data.files;
  if (setup.interpreter == nullptr) return files;
  const auto names = data::module_names(setup.spec.model, setup.interpreter->imported());
  std::ranges::copy(with_context("model", [&] { return data::open_files(names); }), std::back_inserter(files));
  return files;
}

void build_state(TrainingJob& job, comm::JobMemory& memory, const WorkerSetup& setup,
                 const std::vector<data::DataFile>& files) {
  Checkpoint file;
  if (!setup.options.checkpoint.empty()) file = checkpoint::CheckpointFile::open(setup.options.checkpoint);
  job.set_data(data_of_run(files, file, setup.options.accepts_data).to_json());
  memory.lay_out(job.memory_plan());
  if (!file) {
    if (const auto taken = write_first_state(job, memory.state_of(Step(0))))
      fmt::print(stderr, "{}: {}\n", job.spec().model.init, taken->words());
    return;
  }
  const Step step = file->meta().step;
  read_state(*file, job, memory.state_of(step));
  memory.commit().begin_at(step, file->meta().lr);
}

// Checks that this worker's files are the builder's.
void require_data_of_run(const std::vector<data::DataFile>& files, const comm::JobMemory& memory) {
  const std::string known = checkpoint::Manifest::from_json(memory.manifest()).data;
  data::require_same(data::DataIdentity::from_json(known), files);
}

// At D1, GPUs of different models give different bits. The launcher does not know the models of GPUs.
void require_same_gpu(const TrainingJob& job, const comm::JobMemory& memory) {
  const std::string theirs = checkpoint::Manifest::from_json(memory.manifest()).processor;
  if (job.manifest().processor == theirs) return;
  throw Error::make(Fault::infeasible, "this worker is on \"{}\", the run's state is of \"{}\": other bits below D2",
                    job.manifest().processor, theirs)
      .advise("use GPUs of one model, or accept other bits with --allow-mixed");
}

bool asks_users_function(const WorkerSetup& setup) {
  return !setup.spec.train.metrics_file.empty() && !std::filesystem::is_directory(setup.outputs);
}

// Of this host alone: hosts may see the same run directory. The workers of a host have one memory.
std::string rows_of_host(const WorkerSetup& setup) {
  struct stat status {};
  if (::fstat(setup.memory, &status) != 0) throw system_error("the job's memory", errno);
  std::string kernel = text_if_readable("/proc/sys/kernel/random/boot_id");
  std::erase(kernel, '\n');
  return fmt::format("{}/{}-{}", setup.rows, kernel, status.st_ino);
}

// With the committed state.
void try_function_of_user(Workplace& place) {
  const Step step = place.memory.commit().committed();
  place.model.read_parameters_of(step);
  place.model.load_buffers(step);
  try_users_metrics(place.job, place.device);
}

// Returns the steps of logging.trace. Returns no steps if all are over, since a loaded profiler costs time.
std::vector<int64_t> steps_to_trace(const spec::JobSpec& spec, const comm::JobMemory& memory) {
  const std::vector<int64_t>& steps = spec.logging.trace;
  return !steps.empty() && steps[1] > memory.commit().committed().value ? steps : std::vector<int64_t>{};
}

// Refuses D2 before training starts if an operator's bits would depend on the device.
void check_operators(Workplace& place, const operators::PortableOperators& portable) {
  place.model.read_parameters_of(place.memory.commit().committed());
  place.model.load_buffers(place.memory.commit().committed());
  const data::LoadedBatch batch = place.job.samples().first_batch();
  refuse_uncovered(scan_operators({place.job, place.hooks, place.device}, batch, portable.names()));
}

// Ends the run now if the last mini-batch of an epoch would end it later.
void refuse_short_batches(Workplace& place, const std::string& checkpoint) {
  const Step step = place.memory.commit().committed();
  if (shortest_batch(place.job, step) != 1) return;
  place.model.read_parameters_of(step);
  place.model.load_buffers(step);
  const std::optional<Error> refusal = refusal_of_short_batch({place.job, place.hooks, place.device}, step);
  if (!refusal) return;
  if (checkpoint.empty()) throw Error(*refusal);
  throw refusal->within("this run cannot get to the end of its epoch")
      .advise(fmt::format("go on in a new run, from this one's weights: model.init = \"{}\", and {}", checkpoint,
                          refusal->advice()));
}

// This worker's sign of life in its current stage. Choosing algorithms takes longer than many a step.
std::atomic<comm::WorkerPulse*> current_pulse{nullptr};

void beat() {
  if (comm::WorkerPulse* pulse = current_pulse.load()) pulse->beat(comm::Activity::computing, monotonic_ns());
}

void pin_algorithms(device::ComputeDevice& device, const WorkerSetup& setup) {
  algorithms::Pinning pinning;
  pinning.run = setup.algorithms;
  pinning.store = setup.algorithm_store;
  pinning.may_replace = setup.options.allow_mixed;
  pinning.beat = beat;
  pinning.warn = [](const std::string& warning) { fmt::print(stderr, "warning: {}\n", warning); };
  pinning.chosen = [](const algorithms::Choice& choice, size_t among) {
    fmt::print(stderr, "{}: {}, the fastest of {}\n", choice.key,
               choice.algorithm.empty() ? "LibTorch's own kernel" : choice.algorithm, among);
  };
  device.pin_algorithms(pinning);
}

void require_test_data(const TrainingJob& job) {
  if (job.samples().evaluated() > 0) return;
  throw Error(Fault::spec, "there are no test data to evaluate")
      .advise("name some: --set data.test_path=… --accept-data, or what the data's format needs");
}

Stage::Left run_stage(Workplace& place, StageOrder order) {
  current_pulse = &place.memory.pulse(order.rank());
  if (place.next_exchange != nullptr) place.next_exchange->keep_only(order.exchange);
  Stage::Left left = Stage(place, order).run();
  order.again = true;
  order.exchange = 0;  // the stage has taken the prepared exchange, or has dropped it
  while (left == Stage::Left::again) left = Stage(place, order).run();
  current_pulse = nullptr;
  return left;
}

// Returns the order to prepare an exchange, if the order waits in the socket. Call this function only within
// a stage, when the launcher sends a worker no other order.
std::optional<comm::ExchangeOrder> receive_in_stage(comm::WorkersOwnChannel& launcher) {
  comm::WorkerOrder order;
  if (launcher.receive(&order, std::chrono::milliseconds(0)) != comm::Received::message) return std::nullopt;
  if (const auto* prepare = std::get_if<comm::ExchangeOrder>(&order)) return *prepare;
  throw Error(Fault::bug, "the launcher sent an order to a worker in its stage");
}

void obey(Workplace& place, comm::WorkersOwnChannel& launcher) {
  comm::WorkerOrder order;
  while (launcher.receive(&order, kForever) == comm::Received::message) {
    const auto* prepare = std::get_if<comm::ExchangeOrder>(&order);
    if (prepare != nullptr) {
      if (place.next_exchange != nullptr) place.next_exchange->prepare(*prepare);
      continue;
    }
    const auto* run = std::get_if<comm::RunStage>(&order);
    if (run == nullptr) return;
    const bool changed = place.job.take_changes(run->changes);
    if (changed && run->worker == WorkerRank(0)) refuse_short_batches(place, "");
    try {
      const Stage::Left left = run_stage(place, {run->worker, run->ranges, run->beyond, run->restarted, run->exchanges,
                                                 false, run->kinds, run->exchange});
      launcher.send(comm::LeftStage{.finished = left == Stage::Left::finished});
    } catch (const audit::AuditError& finding) {
      launcher.send(comm::AuditFound{finding.vouched});
      throw;
    }
  }
}

void report_bad_samples(const data::DataPair& data, comm::WorkersOwnChannel& launcher) {
  if (!data.bad) return;
  data.bad->report_to([&launcher](const data::BadSamples::Found& found) {
    launcher.send(comm::LeftOutSample{found.set, found.sample, found.why});
  });
}

// The operators that take the place of LibTorch's in this process.
struct OwnOperators {
  std::optional<operators::DeterministicOperators> deterministic;  // on a GPU
  std::optional<operators::PortableOperators> portable;            // with job.kernels = "portable"

  OwnOperators(device::ComputeDevice& device, const WorkerSetup& setup) {
    if (!device.torch_device().is_cpu()) deterministic.emplace(device);
    if (setup.spec.job.kernels == spec::Kernels::portable) {
      portable.emplace(device);
    } else if (setup.spec.job.algorithms == spec::Algorithms::measured) {
      pin_algorithms(device, setup);
    }
  }
};

// At D2, a module in Python may call other operators at any step. Returns nothing for other jobs.
std::optional<operators::ScanOptions> operators_to_watch(const WorkerSetup& setup, const device::ComputeDevice& device,
                                                         const OwnOperators& own) {
  if (setup.interpreter == nullptr || setup.spec.job.determinism != spec::Determinism::d2) return std::nullopt;
  return operators::ScanOptions{
      .replaced = &own.portable->names(), .device = key_of(device), .layer = model::current_block};
}

std::unique_ptr<TrainingJob> make_job(const WorkerSetup& setup, const data::DataPair& data,
                                      device::ComputeDevice& device,
                                      const std::optional<operators::ScanOptions>& watched) {
  const bool draws = setup.options.builds && setup.options.checkpoint.empty();
  std::unique_ptr<TrainingJob> made;
  const auto make = [&] {
    made = std::make_unique<TrainingJob>(setup.spec, data, draws, setup.options.cuda_streams,
                                         PythonSide{setup.interpreter, &device});
  };
  if (!watched) {
    make();
    return made;
  }
  operators::scan(*watched, make);  // LibTorch computes operators without a portable kernel
  refuse_uncovered(uses_of_building(made->network()));
  return made;
}

// Builds the state in the job's memory, or waits until the builder has built it.
void share_state(TrainingJob& job, comm::JobMemory& memory, const WorkerSetup& setup,
                 const std::vector<data::DataFile>& files) {
  if (setup.options.builds) {
    build_state(job, memory, setup, files);
    if (!asks_users_function(setup)) memory.set_ready();
    return;
  }
  while (!memory.wait_ready(kGlance)) {
  }
  require_data_of_run(files, memory);
}

// For an evaluation that writes the network's outputs to files, or gives them to the user's function of metrics.
void gather_outputs(Workplace& place, const WorkerSetup& setup, std::optional<checkpoint::OutputParts>& outputs) {
  const bool writes = std::filesystem::is_directory(setup.outputs);
  if (!writes && !asks_users_function(setup)) return;
  require_test_data(place.job);
  place.job.network().model().want_outputs(true);
  if (writes) {
    place.outputs = &outputs.emplace(setup.outputs, static_cast<int64_t>(::getpid()));
    return;
  }
  place.rows = rows_of_host(setup);
  if (!setup.options.builds) return;
  std::filesystem::remove_all(place.rows);  // outputs of a builder that was lost
  try_function_of_user(place);
  place.memory.set_ready();  // not before: if this worker is lost, another one builds the state, and tries the function
}

// Checks the operators of D2, or warms up a worker for which other workers would wait: a worker that joins a running
// job, or a worker of one of several GPUs, since GPUs wait for each other's kernels.
void run_first_pass(Workplace& place, const WorkerSetup& setup, const OwnOperators& own) {
  if (setup.options.builds && setup.spec.job.determinism == spec::Determinism::d2) {
    check_operators(place, *own.portable);
  } else if (place.memory.gate().started() > 0 || !place.device.torch_device().is_cpu()) {
    warm_up(place);
  }
}

// The builder notes what the user should know of the data and of the network.
comm::Ready ready_with_notes(const TrainingJob& job, bool is_builder) {
  comm::Ready ready;
  if (!is_builder) return ready;
  for (const std::string& note : job.samples().data().notes) ready.notes.push_back("data: " + note);
  for (const std::string& note : job.network().built_with().settings) ready.notes.push_back("model: " + note);
  return ready;
}

}  // namespace

void run_worker(WorkerSetup& setup) {
  // LibTorch counts the devices once, at the first use.
  const auto device = device::open_device(setup.options.device, setup.libraries, device_options(setup.spec));
  device::configure_cpu(setup.spec.job.threads);
  const OwnOperators own(*device, setup);
  comm::JobMemory memory(setup.memory);
  require_same_builds(memory.builds(), *device);
  data::DataPair data = setup.data.get();
  report_bad_samples(data, setup.launcher);
  const std::optional<operators::ScanOptions> watched = operators_to_watch(setup, *device, own);
  const std::unique_ptr<TrainingJob> made = make_job(setup, data, *device, watched);
  TrainingJob& job = *made;
  job.set_processor(device->describe());
  share_state(job, memory, setup, files_of_job(setup, data));
  data.files.clear();  // the data sets keep the files' contents
  if (!device->torch_device().is_cpu() && !setup.options.allow_mixed) require_same_gpu(job, memory);
  BoundModel model(job.network(), job.places(), memory, *device);
  est::GradientHooks hooks(job.network().parameters(), *device, job.network().backward());
  StepTrace trace(steps_to_trace(setup.spec, memory), setup.traces, *device, beat);
  Workplace place{*device, job, memory, model, hooks, setup.doorbell, &trace};
  place.courier = setup.courier;
  place.refused_memory = setup.refused_memory;
  std::optional<checkpoint::OutputParts> outputs;
  gather_outputs(place, setup, outputs);
  place.vouched = memory.commit().committed();
  job.network().model().train();
  run_first_pass(place, setup, own);
  std::optional<operators::Watch> watch;
  if (watched) place.watch = &watch.emplace(*watched);
  std::optional<ExchangeAhead> next_exchange;
  if (!device->torch_device().is_cpu())
    place.next_exchange = &next_exchange.emplace(
        *device, memory, may_be_resident(job), [&setup] { return receive_in_stage(setup.launcher); },
        [&setup](const comm::ExchangeReport& prepared) { setup.launcher.send(prepared); });
  if (setup.options.builds) refuse_short_batches(place, setup.options.checkpoint);
  place.require_memory();
  setup.launcher.send(ready_with_notes(job, setup.options.builds));
  obey(place, setup.launcher);
}

}  // namespace estrain::train

void estrain_run_worker(estrain::train::WorkerSetup* setup) {
  estrain::model::translating_torch_errors([&] { estrain::train::run_worker(*setup); });
}
