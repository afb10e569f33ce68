#include "core/run/launch/preflight/start.h"

#include <fcntl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/base/json/json.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/base/process/child_process.h"
#include "core/base/visible_text.h"
#include "core/data/job_data.h"
#include "core/job/resources/allocation.h"
#include "core/job/spec/defaults.h"
#include "core/job/spec/enum_names.h"
#include "core/job/spec/keys/keys.h"
#include "core/job/spec/parsing/parse.h"
#include "core/run/faults/diagnosis.h"
#include "core/run/launch/preflight/early_checks.h"
#include "core/run/launch/preflight/operator_probe.h"
#include "core/run/launch/preflight/resumed.h"
#include "core/state/algorithms/pinning.h"
#include "core/state/checkpoint/directory.h"
#include "core/state/checkpoint/state/est_streams.h"
#include "core/state/record/logs/fingerprints.h"
#include "core/state/record/logs/metrics.h"
#include "core/state/record/logs/metrics_reader.h"
#include "core/state/run_directory/batch_changes.h"
#include "core/state/run_directory/term.h"
#include "core/state/run_directory/verdict.h"

namespace estrain::launch {
namespace {

// For a launcher that is about to end.
constexpr Nanoseconds kPatienceWithLock = 30s;

// The lock of a run directory. After a failed start no process works in the directory.
class Held {
 public:
  Held(const run_directory::RunDirectory& directory, Nanoseconds patience)
      : directory_(directory), lock_(directory.lock(patience)) {}
  Held(const run_directory::RunDirectory& directory, UniqueFd lock) : directory_(directory), lock_(std::move(lock)) {
    ::fcntl(lock_.get(), F_SETFD, FD_CLOEXEC);
  }
  ~Held() {
    if (lock_) directory_.disown(lock_.get());
  }
  Held(const Held&) = delete;
  UniqueFd release() { return std::move(lock_); }

 private:
  const run_directory::RunDirectory& directory_;
  UniqueFd lock_;
};

std::string absolute_run(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

void require_run_to_resume(const StartRequest& request) {
  if (!request.resume || request.run.empty()) {
    const Error error(Fault::usage, "no job spec given");
    if (!request.run.empty() && run_directory::RunDirectory(request.run).has_run())
      throw error.advise("there is a run in " + request.run + ": resume it by --resume");
    throw error.advise("estrain train SPEC.toml, or estrain train --resume --run DIR; `estrain init` writes a spec");
  }
  if (!run_directory::RunDirectory(request.run).has_run())
    throw Error::make(Fault::usage, "{}: no run to resume there", request.run)
        .advise("give the run directory that `estrain train` printed");
}

// Tells whether the last launch failed, and no launch ever trained a step: the directory holds a spec, records without
// steps, and at most a checkpoint of step 0.
bool failed_before_first_step(const run_directory::RunDirectory& directory) {
  const std::optional<std::string> text = read_file_if_present(directory.verdict());
  if (!text) return false;
  const Json verdict = parse_json_if_sound(*text);
  if (!verdict.is_object() || !verdict.contains("outcome") || verdict.at("outcome") != "failed") return false;
  if (verdict.contains("step") && verdict.at("step") != 0) return false;
  const std::vector<Step> saved = checkpoint::CheckpointDirectory(directory.checkpoints()).steps();
  if (std::ranges::any_of(saved, [](Step step) { return step.value > 0; })) return false;
  if (!std::filesystem::exists(directory.metrics())) return true;
  record::MetricsReader lines(directory.metrics());
  return !lines.next() && lines.unreadable() == 0;
}

// Leaves the events and logs of the failed launches, which tell why they failed.
void clear_failed_start(const run_directory::RunDirectory& directory) {
  for (const std::string& path : {directory.spec(), directory.changes(), directory.algorithms(), directory.metrics(),
                                  directory.fingerprints(), directory.checkpoints()}) {
    std::error_code failure;
    std::filesystem::remove_all(path, failure);
    if (failure) throw system_error("cannot remove " + path, failure.value());
  }
  fmt::print(stderr, "{}: the start before failed without a step; this run takes the directory over\n",
             directory.path());
}

void refuse_second_run(const run_directory::RunDirectory& directory) {
  if (!directory.has_run() || failed_before_first_step(directory)) return;
  throw Error::make(Fault::usage, "{}: there is a run already", directory.path())
      .advise("resume it: --resume; or give this one a directory of its own: --run DIR");
}

// The records of a run to resume, from its directory.
struct Begun {
  checkpoint::NewestCheckpoint newest;
  // The spec of the run, and its place: the newest checkpoint; without a checkpoint job.toml.
  std::optional<spec::JobSpec> spec;
  std::string source;
};

std::vector<HostOffer> with_own(const StartRequest& request, int64_t cores) {
  std::vector<HostOffer> hosts = {{request.own_host, cores}};
  hosts.insert(hosts.end(), request.hosts.begin(), request.hosts.end());
  return hosts;
}

void refuse_hosts_not_named(const StartRequest& request, const Assignment& devices) {
  if (request.hosts.empty()) return;
  for (const std::string& host : other_hosts(devices_of(devices), request.own_host)) {
    if (std::ranges::find(request.hosts, host, &HostOffer::name) != request.hosts.end()) continue;
    throw Error::make(Fault::usage, "--devices names host {}, --hosts does not", host)
        .advise("name it in both, or leave --devices out: all that the hosts have");
  }
}

// Tells whether the newest stage of the run had GPUs; nothing: no stage is on record.
std::optional<bool> had_gpus(const StartRequest& request) {
  std::optional<bool> found;
  if (!request.resume) return found;
  const run_directory::RunDirectory directory(run_directory_of(request));
  for_each_object_with("\"stage\"", directory.events(), [&](const Json& event) {
    if (text_in(event, "event") != "stage") return;
    const Json& devices = list_in(event, "devices");
    found = std::ranges::any_of(
        devices, [](const Json& device) { return as_text(device).value_or("").find("cuda") != std::string::npos; });
  });
  return found;
}

// Returns the GPUs for "auto". Below D2 a run keeps to the kind of device that it began on.
resources::AutomaticGpus gpus_for(const StartRequest& request, const spec::JobSpec& spec,
                                  const resources::Allocation& allocation) {
  resources::AutomaticGpus gpus = automatic_gpus(allocation);
  if (!request.hosts.empty())
    gpus.leave("with --hosts, \"auto\" takes cores; name the GPUs: --devices nodeA/cuda:0,nodeB/cuda:0");
  if (spec.job.determinism == spec::Determinism::d2) return gpus;
  const std::optional<bool> before = had_gpus(request);
  if (before == false)
    gpus.leave(
        "the run began on CPUs, and below D2 GPUs would change its bits; --devices cuda:0 takes them all the same");
  if (before == true && gpus.usable == 0) {
    throw Error(Fault::infeasible,
                "devices \"auto\": the run began on GPUs, and none is usable here; below D2 CPUs "
                "would change its bits")
        .advise(gpus.unused > 0 ? gpus.why : "resume on a machine with GPUs, or name the devices: --devices cpu*4");
  }
  return gpus;
}

Assignment read_devices(const StartRequest& request, const spec::JobSpec& spec,
                        const resources::Allocation& allocation) {
  const std::string& list = !request.devices.empty() ? request.devices
                            : request.hosts.empty()  ? spec.resources.devices
                                                     : std::string(automatic_devices);
  if (list != automatic_devices) return choose_devices(list, spec.job, allocation.cores, request.own_host);
  const resources::AutomaticGpus gpus = gpus_for(request, spec, allocation);
  if (!gpus.warning().empty()) fmt::print(stderr, "warning: {}\n", gpus.warning());
  Assignment devices = request.hosts.empty() ? choose_devices(gpus.device_list(spec.job.ests), spec.job,
                                                              allocation.cores, request.own_host)
                                             : choose_over_hosts(with_own(request, allocation.cores), spec.job);
  const std::string source = gpus.usable > 0 ? fmt::format("GPUs {} ({})", gpus.usable, gpus.from)
                                             : fmt::format("cores {} ({}), threads of a worker {}", allocation.cores,
                                                           allocation.cores_from, spec.job.threads);
  fmt::print(stderr, "devices \"auto\" are {} here: {}, ESTs {}\n", placement::format_devices(devices), source,
             spec.job.ests);
  return devices;
}

std::optional<spec::JobSpec> spec_of(const checkpoint::CheckpointFile& file) {
  try {
    return spec::parse_text(file.meta().spec, file.path());
  } catch (const Error& error) {
    fmt::print(stderr, "warning: the spec in this checkpoint is not one of this version of estrain: {}\n",
               visible(error.message()));
    return std::nullopt;
  }
}

std::optional<spec::JobSpec> read_if_sound(const run_directory::RunDirectory& directory) {
  try {
    return directory.read_spec();
  } catch (const Error&) {
    return std::nullopt;
  }
}

Begun look_at(const run_directory::RunDirectory& directory) {
  Begun begun;
  begun.newest = checkpoint::CheckpointDirectory(directory.checkpoints()).newest_valid();
  if (begun.newest.file) begun.spec = spec_of(*begun.newest.file);
  begun.source = begun.spec ? begun.newest.file->path() : directory.spec();
  if (!begun.spec) begun.spec = read_if_sound(directory);
  return begun;
}

// Returns the spec of job.toml, with --set; if job.toml is missing or damaged, the spec of the checkpoint.
spec::JobSpec spec_to_go_on_with(const StartRequest& request, const run_directory::RunDirectory& directory,
                                 const Begun& begun) {
  try {
    directory.read_spec();
  } catch (const Error& error) {
    if (!begun.spec)
      throw error.advise("give the spec that the run began with: estrain train SPEC.toml --resume --run " +
                         directory.path());
    fmt::print(stderr, "warning: {}\nThe run continues with the spec of {}.\n", visible(error.message()), begun.source);
    directory.log_event("spec_restored", {{"from", begun.source}, {"why", error.message()}});
    return spec::parse_text(spec::to_toml(*begun.spec), begun.source, request.overrides);
  }
  return spec::parse_file(directory.spec(), request.overrides);
}

Error changed_spec(const run_directory::RunDirectory& directory, const Begun& begun,
                   const std::vector<std::string>& changed, const std::string& other_way) {
  std::vector<std::string> values;
  for (const std::string& name : changed) {
    const auto* key = spec::find_key(name);
    values.push_back(fmt::format("{} = {}", name, key->write(spec::with_defaults(*begun.spec)).value_or("(not set)")));
  }
  return Error::make(Fault::mismatch, "{}: the spec has changed since the run began: {}", directory.path(),
                     fmt::join(changed, ", "))
      .advise(fmt::format("resume with the values of {}: {}; {}or start a new run with --run", begun.source,
                          fmt::join(values, ", "), other_way))
      .exiting_with(estrain::exit_code(Fault::spec));
}

// Refuses a spec that has changed in keys that define bits. Returns the change of the schedule, if the user asks for
// one, or resumes with one on record.
std::optional<ScheduleChange> settle_spec(const StartRequest& request, const run_directory::RunDirectory& directory,
                                          const Begun& begun, const spec::JobSpec& spec) {
  if (!begun.spec) return std::nullopt;
  const std::vector<std::string> changed = spec::changed_keys(*begun.spec, spec);
  if (changed.empty()) return std::nullopt;
  const Step step = begun.newest.file ? begun.newest.file->meta().step : Step(0);
  const ScheduleChange change(*begun.spec, spec, changed, step);
  if (!change.others().empty()) throw changed_spec(directory, begun, change.others(), "");
  const std::string log = read_file_if_present(directory.changes()).value_or("");
  if (change.is_asked_for(request.overrides) || change.is_in(log)) return change;
  throw changed_spec(
      directory, begun, changed,
      fmt::format("change the schedule for the steps after step {}: {}; ", step, change.as_words_of_command()));
}

void note_schedule(const run_directory::RunDirectory& directory, const ScheduleChange& change, LaunchPlan& plan) {
  plan.changes += change.line();
  directory.log_event("schedule_changed", {{"step", plan.from_step}, {"what", change.in_words()}});
  fmt::print(stderr, "{}: continues from step {} with another schedule, counted from the job's beginning: {}\n",
             directory.path(), plan.from_step, visible(change.in_words()));
}

// A schedule does not depend on the job's length.
void tell_longer_run(const run_directory::RunDirectory& directory, const Begun& begun, const spec::JobSpec& spec) {
  if (!begun.spec) return;
  const spec::TrainSection &was = begun.spec->train, &is = spec.train;
  if (was.steps && is.steps && *is.steps <= *was.steps) return;
  if (was.epochs && is.epochs && *is.epochs <= *was.epochs) return;
  const std::string words = words_of_longer_run(spec.schedule);
  if (words.empty()) return;
  fmt::print(stderr, "{}: trains longer; schedule \"{}\" has a length of its own: {}\n", directory.path(),
             spec::to_string(spec.schedule.name), words);
}

void refuse_other_checkpoint(const checkpoint::CheckpointFile& file, const spec::JobSpec& spec) {
  if (file.meta().ests != spec.job.ests) {
    throw Error::make(Fault::mismatch, "{}: made with {} ESTs, the job has {}", file.path(), file.meta().ests,
                      spec.job.ests)
        .advise("the number of ESTs is fixed for the life of a job");
  }
}

// Decides the meaning of "auto" for this run: the decision at the run's beginning, else the result of a trial.
void decide_determinism(const run_directory::RunDirectory& directory, const Begun& begun, LaunchPlan& plan) {
  spec::JobSection& job = plan.spec.job;
  if (job.determinism != spec::Determinism::automatic) return;
  if (begun.spec) {
    job.determinism = begun.spec->job.determinism;
    job.kernels = begun.spec->job.kernels;
  }
  if (job.determinism != spec::Determinism::automatic) return;
  const BitsChoice verdict =
      choose_determinism(plan.spec, probe_operators(plan.spec, plan.devices.front().device, true));
  verdict.settle(job);
  const std::string chosen(spec::to_string(verdict.determinism));
  directory.log_event("determinism", {{"chosen", chosen}, {"reason", verdict.reason}});
  fmt::print(stderr, "determinism \"auto\" is {} here: {}\n", chosen, verdict.reason);
}

// Takes the changes of the batch on the run's record, in place of the changes of the spec.
void take_recorded_changes(const run_directory::RunDirectory& directory, const Begun& begun, LaunchPlan& plan) {
  const run_directory::BatchChanges of_checkpoint =
      begun.spec ? begun.spec->elastic.changes : run_directory::BatchChanges{};
  const std::optional<std::string> log = read_file_if_present(directory.changes());
  const run_directory::BatchChanges recorded = log ? run_directory::batch_changes_in(*log) : of_checkpoint;
  if (plan.spec.elastic.changes != recorded && !plan.spec.elastic.changes.empty())
    fmt::print(stderr, "warning: elastic.changes are not those of {}, which count\n", directory.changes());
  plan.spec.elastic.changes = recorded;
  if (!begun.newest.file) return;
  const Step step = begun.newest.file->meta().step;
  const auto trained = [step](run_directory::BatchChanges changes) {
    std::erase_if(changes, [step](const batches::BatchChange& change) { return change.after >= step.value; });
    return changes;
  };
  if (trained(recorded) == trained(of_checkpoint)) return;
  throw Error::make(Fault::mismatch, "{}: the changes of the batch up to step {} are others than those of {}",
                    directory.changes(), step, begun.newest.file->path())
      .advise("remove it: the checkpoint has a copy of it as of its step");
}

// Requires the data of the checkpoint, or notes the differences as a change of the run.
void settle_data(const run_directory::RunDirectory& directory, const checkpoint::CheckpointMeta& meta,
                 LaunchPlan& plan) {
  plan.changes = meta.changes;
  const std::vector<data::DataChange> changes = changes_since(meta.data, plan.spec);
  if (!changes.empty() && !plan.accepts_data) throw data::changed_data(changes).within(directory.path());
  plan.accepts_data = !changes.empty();
  plan.changes += change_log_lines(changes, meta.step);
  for (const data::DataChange& change : changes) {
    directory.log_event("data_accepted", {{"step", meta.step.value}, {"what", change.in_words()}});
    fmt::print(stderr, "{}: continues from step {} with other data, as accepted: {}\n", directory.path(), meta.step,
               visible(change.in_words()));
  }
}

void choose_checkpoint(const run_directory::RunDirectory& directory, const Begun& begun, LaunchPlan& plan) {
  const checkpoint::NewestCheckpoint& newest = begun.newest;
  for (const checkpoint::SkippedCheckpoint& skipped : newest.skipped) {
    fmt::print(stderr, "warning: {} is not valid ({}); falling back to the checkpoint before it\n", skipped.path,
               visible(skipped.why));
    directory.log_event("checkpoint_skipped",
                        {{"step", skipped.step.value}, {"path", skipped.path}, {"why", skipped.why}});
  }
  if (!newest.file) {
    fmt::print(stderr, "{}: no valid checkpoint; starting over from step 0, which gives the same bits\n",
               directory.path());
    return;
  }
  refuse_other_checkpoint(*newest.file, plan.spec);
  settle_data(directory, newest.file->meta(), plan);
  plan.checkpoint = newest.file->path();
  plan.checkpoint_cpu = newest.file->meta().cpu;
  plan.from_step = newest.file->meta().step.value;
  if (plan.from_step >= plan.spec.train.steps.value_or(INT64_MAX))
    fmt::print(stderr,
               "{}: step {} is done, train.steps is {}: nothing is left to train; to train on: --set train.steps={}\n",
               directory.path(), plan.from_step, *plan.spec.train.steps, plan.from_step + *plan.spec.train.steps);
  algorithms::adopt(directory.algorithms(), newest.file->meta().algorithms, plan.checkpoint);
  plan.options.cuda_streams |= std::ranges::any_of(
      newest.file->layout().tensors,
      [](const checkpoint::StateTensor& tensor) { return tensor.slot == checkpoint::cuda_generator_slot; });
}

// Reports records damaged by a power cut or a disk, and keeps the damaged records beside the sound ones.
void mend_records(const run_directory::RunDirectory& directory, const LaunchPlan& plan) {
  const Step last(plan.from_step);
  std::vector<std::optional<record::Damage>> damages = {record::mend_metrics(directory.metrics(), last)};
  if (plan.spec.logging.fingerprints) damages.push_back(record::mend_fingerprints(directory.fingerprints(), last));
  for (const std::optional<record::Damage>& damage : damages) {
    if (!damage) continue;
    fmt::print(stderr, "warning: {} is damaged ({}): kept as {}; the run continues with what is sound in it\n",
               damage->path, damage->why, damage->kept_as);
    directory.log_event(
        "records_damaged",
        {{"step", last.value}, {"path", damage->path}, {"kept_as", damage->kept_as}, {"why", damage->why}});
  }
}

// Checks all things independent of the run directory: devices, fault rules, this machine.
void check_request(const StartRequest& request, const resources::Allocation& allocation, LaunchPlan& plan) {
  plan.fault_rules = faults::text_of_rules(plan.spec.recovery.rules);
  faults::FaultTable::with_rules_of(plan.fault_rules, plan.spec.recovery.rules);
  plan.devices = read_devices(request, plan.spec, allocation);
  refuse_hosts_not_named(request, plan.devices);
  const bool any_kind = plan.spec.job.determinism == spec::Determinism::d2;
  const bool undecided = plan.spec.job.determinism == spec::Determinism::automatic;
  check_devices(devices_of(plan.devices), {.mixed = plan.options.allow_mixed || any_kind || undecided,
                                           .oversubscribed = plan.options.oversubscribe,
                                           .background = plan.options.background,
                                           .own = request.own_host});
  placement::place_ests(plan.devices, plan.spec.job.ests);
  check_hosts(devices_of(plan.devices), plan.spec, request.own_host);
  check_before_start({plan.spec, on_own_host(plan.devices, request.own_host), std::nullopt},
                     Machine::here(plan.run, {request.spec_path}));
}

}  // namespace

std::vector<std::string> resume_command(const StartRequest& request) {
  std::vector<std::string> words = {
      own_executable(), "train", "--resume", "--run", request.run, "--grace", fmt::format("{}", request.grace_seconds)};
  if (!request.devices.empty()) words.insert(words.end(), {"--devices", request.devices});
  for (const std::string& text : request.overrides) words.insert(words.end(), {"--set", text});
  if (request.accept_data) words.emplace_back("--accept-data");
  if (request.lock >= 0) words.insert(words.end(), {"--lock", std::to_string(request.lock)});
  if (request.allow_mixed) words.emplace_back("--allow-mixed");
  if (request.oversubscribe) words.emplace_back("--oversubscribe");
  if (request.background) words.emplace_back("--background");
  if (!request.shared_mark.empty()) words.insert(words.end(), {"--shared-mark", request.shared_mark});
  if (!request.own_host.empty()) words.insert(words.end(), {"--name", request.own_host});
  if (!request.listen.empty()) words.insert(words.end(), {"--listen", request.listen});
  return words;
}

std::string run_directory_of(const StartRequest& request) {
  if (request.spec_path.empty()) require_run_to_resume(request);
  const std::string name =
      request.spec_path.empty() ? "" : spec::parse_file(request.spec_path, request.overrides).job.name;
  return absolute_run(request.run.empty() ? "runs/" + name : request.run);
}

void note_failed_start(const StartRequest& request, const Error& error) {
  try {
    const run_directory::RunDirectory directory(run_directory_of(request));
    if (!std::filesystem::is_directory(directory.path()) ||
        (!request.resume && directory.has_run() && !failed_before_first_step(directory)))
      return;
    if (const auto lock = directory.try_lock(); lock && !directory.has_scribe())
      run_directory::write_verdict(directory.path(), run_directory::RunVerdict::failed(error));
  } catch (const Error&) {  // no run directory exists for the verdict
  }
}

LaunchPlan plan_launch(const StartRequest& request) {
  if (request.accept_data && !request.resume)
    throw Error(Fault::usage, "--accept-data belongs to --resume: a new run takes its data as they are");
  LaunchPlan plan;
  plan.accepts_data = request.accept_data;
  plan.options.allow_mixed = request.allow_mixed;
  plan.options.oversubscribe = request.oversubscribe;
  plan.options.background = request.background;
  plan.options.shared_mark = request.shared_mark;
  plan.options.own_host = request.own_host;
  plan.options.listen = request.listen;
  plan.grace_seconds = request.grace_seconds;
  const resources::Allocation allocation = resources::current_allocation();
  if (allocation.ended_job) fmt::print(stderr, "warning: {}\n", resources::words_of_ended_job(allocation));
  const bool given = !request.spec_path.empty();
  if (given) {
    plan.spec = spec::parse_file(request.spec_path, request.overrides);
  } else {
    require_run_to_resume(request);
  }
  plan.run = absolute_run(request.run.empty() ? "runs/" + plan.spec.job.name : request.run);
  const run_directory::RunDirectory directory(plan.run);
  if (!request.resume && directory.has_run()) {
    const Held held(directory, 0s);  // a process at work in the directory is the better answer
    refuse_second_run(directory);
  }
  if (given) check_request(request, allocation, plan);  // before anything is made

  // From here on this process alone changes the directory: look at the directory's content anew.
  Held held = request.lock >= 0 ? Held(directory, UniqueFd(request.lock))
                                : Held(directory, request.resume ? kPatienceWithLock : 0s);
  if (!request.resume) refuse_second_run(directory);
  if (!request.resume && directory.has_run()) clear_failed_start(directory);
  if (const auto before = run_directory::read_term(plan.run))
    run_directory::write_term(plan.run, {before->term + 1, 0});
  const bool continues = directory.has_run();
  const Begun begun = continues ? look_at(directory) : Begun{};
  if (!given) {
    plan.spec = spec_to_go_on_with(request, directory, begun);
    check_request(request, allocation, plan);
  }
  if (allocation.slurm_job) directory.log_event("allocation", describe(allocation));
  decide_determinism(directory, begun, plan);
  check_devices(devices_of(plan.devices),
                {.mixed = plan.options.allow_mixed || plan.spec.job.determinism == spec::Determinism::d2,
                 .oversubscribed = plan.options.oversubscribe,
                 .own = request.own_host});
  plan.options.cuda_streams =
      plan.spec.job.kernels == spec::Kernels::torch && std::ranges::any_of(devices_of(plan.devices), &Device::is_gpu);
  if (continues) {
    take_recorded_changes(directory, begun, plan);
    const std::optional<ScheduleChange> change = settle_spec(request, directory, begun, plan.spec);
    choose_checkpoint(directory, begun, plan);
    if (change) note_schedule(directory, *change, plan);
    tell_longer_run(directory, begun, plan.spec);
    mend_records(directory, plan);
  }
  const std::string log = read_file_if_present(directory.changes()).value_or("");
  plan.changes = run_directory::with_batch_changes(plan.changes, plan.spec.elastic.changes, log);
  run_directory::remove_verdict(plan.run);
  plan.lock = held.release();
  return plan;
}

}  // namespace estrain::launch
