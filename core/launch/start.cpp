#include "core/launch/start.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/algorithms/pinning.h"
#include "core/base/files.h"
#include "core/checkpoint/directory.h"
#include "core/checkpoint/est_streams.h"
#include "core/faults/diagnosis.h"
#include "core/host/allocation.h"
#include "core/launch/early_checks.h"
#include "core/launch/operator_probe.h"
#include "core/record/fingerprints.h"
#include "core/record/metrics.h"
#include "core/spec/enum_names.h"
#include "core/spec/parse.h"

namespace estrain::launch {
namespace {

// For a launcher that is about to end.
constexpr int kPatienceWithLockMs = 30'000;

spec::JobSpec read_spec(const StartRequest& request) {
  if (!request.spec_path.empty()) return spec::parse_file(request.spec_path, request.overrides);
  if (!request.resume || request.run.empty()) {
    const Error error(Fault::usage, "no job spec given");
    if (!request.run.empty() && RunDirectory(request.run).has_run())
      throw error.advise("there is a run in " + request.run + ": go on with it by --resume");
    throw error.advise("estrain train SPEC.toml, or estrain train --resume --run DIR");
  }
  const RunDirectory directory(request.run);
  if (!directory.has_run())
    throw Error::make(Fault::usage, "{}: no run to resume there", request.run)
        .advise("give the run directory that `estrain train` printed");
  return spec::parse_file(directory.spec(), request.overrides);
}

std::vector<Device> read_devices(const StartRequest& request, const spec::JobSpec& spec,
                                 const host::Allocation& allocation) {
  const std::string& list = request.devices.empty() ? spec.resources.devices : request.devices;
  std::vector<Device> devices = choose_devices(list, spec.job, allocation.cores);
  if (list == automatic_devices) {
    fmt::print(stderr, "devices \"auto\" are {} here: cores {} ({}), threads of a worker {}, ESTs {}\n",
               format_devices(devices), allocation.cores, allocation.cores_from, spec.job.threads, spec.job.ests);
  }
  return devices;
}

void refuse_changed_spec(const RunDirectory& directory, const spec::JobSpec& spec) {
  const std::vector<std::string> changed = spec::changed_keys(directory.read_spec(), spec);
  if (changed.empty()) return;
  throw Error::make(Fault::mismatch, "{}: the spec has changed since the run began: {}", directory.path(),
                    fmt::join(changed, ", "))
      .advise(
          "resume with the values that the run began with (job.toml in its directory), or start a new run with --run");
}

void refuse_other_checkpoint(const checkpoint::CheckpointFile& file, const spec::JobSpec& spec) {
  if (file.meta().ests != spec.job.ests) {
    throw Error::make(Fault::mismatch, "{}: made with {} ESTs, the job has {}", file.path(), file.meta().ests,
                      spec.job.ests)
        .advise("the number of ESTs is fixed for the life of a job");
  }
}

// What "auto" means for this run: what it was decided to mean when the run began, else what trying it shows.
void decide_determinism(const RunDirectory& directory, LaunchPlan& plan) {
  spec::JobSection& job = plan.spec.job;
  if (directory.has_run()) {
    const spec::JobSection begun = directory.read_spec().job;
    job.determinism = begun.determinism;
    job.kernels = begun.kernels;
  }
  if (job.determinism != spec::Determinism::automatic) return;
  const Verdict verdict = choose_determinism(plan.spec, probe_operators(plan.spec, plan.devices.front(), true));
  job.determinism = verdict.determinism;
  job.kernels = verdict.kernels;
  const std::string chosen(spec::to_string(verdict.determinism));
  directory.log_event("determinism", {{"chosen", chosen}, {"reason", verdict.reason}});
  fmt::print(stderr, "determinism \"auto\" is {} here: {}\n", chosen, verdict.reason);
}

void choose_checkpoint(const RunDirectory& directory, LaunchPlan& plan) {
  const checkpoint::NewestCheckpoint newest = checkpoint::CheckpointDirectory(directory.checkpoints()).newest_valid();
  for (const checkpoint::SkippedCheckpoint& skipped : newest.skipped) {
    fmt::print(stderr, "warning: {} is not valid ({}); falling back to the checkpoint before it\n", skipped.path,
               skipped.why);
    directory.log_event("checkpoint_skipped",
                        {{"step", skipped.step.value}, {"path", skipped.path}, {"why", skipped.why}});
  }
  if (!newest.file) {
    fmt::print(stderr, "{}: no valid checkpoint; starting over from step 0, which gives the same bits\n",
               directory.path());
    return;
  }
  refuse_other_checkpoint(*newest.file, plan.spec);
  plan.checkpoint = newest.file->path();
  plan.checkpoint_cpu = newest.file->meta().cpu;
  plan.from_step = newest.file->meta().step.value;
  if (plan.from_step >= plan.spec.train.steps.value_or(INT64_MAX))
    fmt::print(stderr, "{}: step {} is done, train.steps is {}: nothing is left to train\n", directory.path(),
               plan.from_step, *plan.spec.train.steps);
  algorithms::adopt(directory.algorithms(), newest.file->meta().algorithms, plan.checkpoint);
  plan.cuda_streams |= std::ranges::any_of(newest.file->layout().tensors, [](const checkpoint::StateTensor& tensor) {
    return tensor.slot == checkpoint::cuda_generator_slot;
  });
}

// Records that a power cut or a disk has damaged: told, and kept beside what is sound of them.
void mend_records(const RunDirectory& directory, const LaunchPlan& plan) {
  const Step last(plan.from_step);
  std::vector<std::optional<record::Damage>> damages = {
      record::mend_metrics(directory.path() + "/metrics.jsonl", last)};
  if (plan.spec.logging.fingerprints)
    damages.push_back(record::mend_fingerprints(directory.path() + "/fingerprints", last));
  for (const std::optional<record::Damage>& damage : damages) {
    if (!damage) continue;
    fmt::print(stderr, "warning: {} is damaged ({}): kept as {}; the run goes on with what is sound in it\n",
               damage->path, damage->why, damage->kept_as);
    directory.log_event(
        "records_damaged",
        {{"step", last.value}, {"path", damage->path}, {"kept_as", damage->kept_as}, {"why", damage->why}});
  }
}

}  // namespace

LaunchPlan plan_launch(const StartRequest& request) {
  LaunchPlan plan;
  plan.spec = read_spec(request);
  faults::FaultTable::with_rules(plan.spec.recovery.rules);  // their errors before anything is written
  const host::Allocation allocation = host::current_allocation();
  plan.devices = read_devices(request, plan.spec, allocation);
  plan.allow_mixed = request.allow_mixed;
  plan.oversubscribe = request.oversubscribe;
  plan.grace_seconds = request.grace_seconds;
  const bool any_kind = plan.spec.job.determinism == spec::Determinism::d2;
  const bool undecided = plan.spec.job.determinism == spec::Determinism::automatic;
  check_devices(plan.devices,
                {.mixed = plan.allow_mixed || any_kind || undecided, .oversubscribed = plan.oversubscribe});
  place_ests(plan.devices, plan.spec.job.ests);
  plan.run = std::filesystem::absolute(request.run.empty() ? "runs/" + plan.spec.job.name : request.run)
                 .lexically_normal()
                 .string();
  const RunDirectory directory(plan.run);
  const bool continues = directory.has_run();
  if (continues && !request.resume) {
    // Who is at work there is the better answer, if somebody is.
    directory.lock(0);
    throw Error::make(Fault::usage, "{}: there is a run already", plan.run)
        .advise("go on with it: --resume; or give this one a directory of its own: --run DIR");
  }
  check_before_start({plan.spec, plan.devices, std::nullopt}, Machine::here(plan.run, {request.spec_path}));
  plan.lock = directory.lock(request.resume ? kPatienceWithLockMs : 0);
  if (allocation.slurm_job) directory.log_event("allocation", describe(allocation));
  if (undecided) decide_determinism(directory, plan);
  check_devices(plan.devices, {.mixed = plan.allow_mixed || plan.spec.job.determinism == spec::Determinism::d2,
                               .oversubscribed = plan.oversubscribe});
  plan.cuda_streams = plan.spec.job.kernels == spec::Kernels::torch && std::ranges::any_of(plan.devices, is_gpu);
  if (continues) {
    refuse_changed_spec(directory, plan.spec);
    choose_checkpoint(directory, plan);
    mend_records(directory, plan);
  }
  directory.write_spec(plan.spec);
  if (!read_file_if_present(directory.changes())) write_file_atomically(directory.changes(), "");
  return plan;
}

}  // namespace estrain::launch
