#include "core/run/launch/control/run_status.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "core/base/clock.h"
#include "core/base/counted.h"
#include "core/base/files/long_files.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/job/spec/parsing/parse.h"
#include "core/run/launch/control/control_socket.h"
#include "core/run/launch/control/progress.h"
#include "core/state/checkpoint/directory.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::launch {
namespace {

constexpr Nanoseconds kPatience = 5s;
constexpr Nanoseconds kPatienceElsewhere = 3s;
constexpr Nanoseconds kReplacement = 1s;

// Accepts null for a value that is not finite.
bool is_sound_step(const Json& line) {
  const auto is_number = [&](const char* key) {
    return line.contains(key) && (line.at(key).is_number() || line.at(key).is_null());
  };
  return whole_in(line, "step") && whole_in(line, "epoch") && is_number("loss") && is_number("lr");
}

OrNull<double> finite_in(const Json& line, const char* key) { return {number_in(line, key)}; }

// Adds the last step and the last evaluation, which may lie far back. Damaged lines are skipped.
void add_last_metrics(const std::string& path, RunStatus& status) {
  BackwardLineReader lines(path);
  for (std::string_view text; (!status.step || !status.test_accuracy) && lines.next(&text);) {
    const bool is_evaluation = text.find("\"eval\"") != text.npos;
    if (is_evaluation ? status.test_accuracy.has_value() : status.step.has_value()) continue;
    const Json line = parse_json_if_sound(text);
    if (const auto accuracy = number_in(object_in(line, "eval"), "accuracy")) status.test_accuracy = accuracy;
    if (!is_sound_step(line)) continue;
    status.step = whole_in(line, "step");
    status.epoch = whole_in(line, "epoch");
    status.loss = finite_in(line, "loss");
    status.lr = finite_in(line, "lr");
  }
}

// Adds the beginning or end of the last launch, from the end of the events: many lines may stand before.
void add_last_event(const std::string& path, RunStatus& status) {
  BackwardLineReader lines(path);
  constexpr std::array<std::string_view, 4> kEnds = {"start", "finished", "stopped", "failed"};
  for (std::string_view text; lines.next(&text);) {
    if (std::ranges::none_of(kEnds, [&](std::string_view word) { return text.find(word) != text.npos; })) continue;
    const Json event = parse_json_if_sound(text);
    const std::string name = event.is_object() ? text_in(event, "event").value_or("") : "";
    if (name == "start") return;
    if (name != "finished" && name != "stopped" && name != "failed") continue;
    status.state = name;
    if (name == "failed") status.error = text_in(event, "error").value_or("");
    return;
  }
}

void add_owner_elsewhere(const run_directory::RunDirectory& directory, RunStatus& status) {
  const std::optional<run_directory::DistantOwner> owner = directory.owner_elsewhere();
  if (!owner) return;
  status.state = "elsewhere";
  status.host = owner->host;
  status.pid = owner->pid;
  status.slurm_job.emplace();
  if (!owner->slurm_job.empty()) status.slurm_job->value = owner->slurm_job;
  status.seconds_since_sign_of_life = owner->silent_seconds;
}

// Returns the spec of job.toml; if that file is missing or damaged, the spec of the newest checkpoint.
spec::JobSpec recorded_spec(const run_directory::RunDirectory& directory) {
  try {
    return directory.read_spec();
  } catch (const Error&) {
    const checkpoint::CheckpointDirectory checkpoints(directory.checkpoints());
    const std::vector<Step> saved = checkpoints.steps();
    if (saved.empty()) throw;
    const std::string newest = checkpoints.path_of(saved.back());
    return spec::parse_text(checkpoint::CheckpointFile::open(newest).meta().spec, newest);
  }
}

// Returns the status of a run without a launcher here.
RunStatus recorded_status(const run_directory::RunDirectory& directory) {
  const spec::JobSpec spec = recorded_spec(directory);
  RunStatus status;
  status.name = spec.job.name;
  status.model = spec.model.name;
  status.run = directory.path();
  status.state = "not running";
  status.ests = spec.job.ests;
  add_last_event(directory.events(), status);
  if (std::vector<WrongDevice> wrong = find_wrong_devices(directory); !wrong.empty())
    status.audit.emplace().wrong_devices = std::move(wrong);
  add_owner_elsewhere(directory, status);
  const std::vector<Step> saved = checkpoint::CheckpointDirectory(directory.checkpoints()).steps();
  if (!saved.empty()) status.last_checkpoint_step.emplace().value = saved.back().value;
  add_last_metrics(directory.metrics(), status);
  return status;
}

std::string or_dash(const std::optional<int64_t>& value) { return value ? std::to_string(*value) : "-"; }

std::string or_dash(const std::optional<double>& value, const char* format) {
  return value && std::isfinite(*value) ? fmt::format(fmt::runtime(format), *value) : "-";
}

// Returns the value of a present field that is not null.
template <typename T>
std::optional<T> value_of(const std::optional<OrNull<T>>& field) {
  return field ? field->value : std::nullopt;
}

std::string text_of_owner(const RunStatus& status) {
  if (!status.host) return "";
  const std::optional<std::string> slurm_job = value_of(status.slurm_job);
  return fmt::format("  at work on       {}, process {}{}; last sign of life {} ago\n", *status.host,
                     status.pid.value_or(0), slurm_job ? ", Slurm job " + *slurm_job : "",
                     format_duration(status.seconds_since_sign_of_life.value_or(0)));
}

std::string text_of_audits(const RunStatus& status) {
  if (!status.audit) return "";
  const AuditStatus& audit = *status.audit;
  const int64_t passed = audit.passed.value_or(0);
  if (audit.every.value_or(0) == 0 && passed == 0) return "";
  return fmt::format("  audits           {} passed, the newest at step {}; {:.3g} % more work\n", passed,
                     audit.newest_step.value_or(0), 100 * audit.share.value_or(0));
}

std::string text_of_wrong_devices(const RunStatus& status) {
  std::string text;
  if (!status.audit) return text;
  for (const WrongDevice& wrong : status.audit->wrong_devices) {
    text += fmt::format("  wrong results    {}, worker {}, found by the audit of step {}: have it checked\n",
                        wrong.device.value_or(""), wrong.worker.value_or(0), wrong.step.value_or(0));
  }
  return text;
}

std::string scaled_or_dash(const std::optional<double>& value, double factor) {
  return value ? fmt::format("{:.3g}", factor * *value) : "-";
}

std::string text_of_hosts(const RunStatus& status) {
  if (!status.hosts) return "";
  std::string text = "  host          workers  ESTs  ms a step  ms exchange  ms round trip  MB/s     connection\n";
  for (const HostStatus& row : *status.hosts) {
    text +=
        fmt::format("  {:<13} {:<8} {:<5} {:<10} {:<12} {:<14} {:<8} {}\n", row.host.empty() ? "this one" : row.host,
                    row.workers, row.ests, scaled_or_dash(row.step_seconds, 1e3),
                    scaled_or_dash(row.exchange_seconds, 1e3), scaled_or_dash(row.round_trip_seconds, 1e3),
                    scaled_or_dash(row.bytes_per_second, 1e-6), row.leads ? "leads" : row.secrecy);
  }
  return text;
}

std::string text_of_batch(const RunStatus& status) {
  if (!status.batch) return "";
  std::string text = fmt::format("  batch            {} samples an EST, learning rates times {:.6g}\n", *status.batch,
                                 status.lr_factor.value_or(1));
  if (status.gradient_noise)
    text += fmt::format("  gradient noise   {:.3g} samples, from {} steps\n", status.gradient_noise->scale,
                        status.gradient_noise->steps);
  return text;
}

std::string text_of_plan(const RunStatus& status) {
  if (!status.plan || !status.plan->estimated_step_seconds) return "";
  return fmt::format("  plan             {:.3g} ms a step expected, {:.3g} measured: {}\n",
                     1000 * *status.plan->estimated_step_seconds, 1000 * status.plan->measured_step_seconds,
                     status.plan->reason.value_or(""));
}

std::string text_of_worker(const WorkerStatus& worker) {
  const std::string ests = fmt::format("{} to {}", worker.ests.begin.value, worker.ests.end.value - 1);
  const std::string speed =
      worker.seconds_per_mini_batch ? fmt::format("{:.3g}", 1000 * *worker.seconds_per_mini_batch) : "-";
  const std::optional<double> wait = worker.data_wait();
  std::string text =
      fmt::format("  {:<7} {:<8} {:<11} {:<11} {:<16} {}", worker.id, worker.pid > 0 ? std::to_string(worker.pid) : "-",
                  worker.device, ests, speed, wait ? fmt::format("{:.1f} %", 100 * *wait) : "-");
  if (worker.slow) {
    text += fmt::format(", slow: {:.1f} times the usual since step {}", worker.slow->factor, worker.slow->since_step);
  }
  return text + '\n';
}

std::string text_of_workers(const RunStatus& status) {
  std::string text = "  worker  pid      device      ESTs        ms a mini-batch  waits for data\n";
  for (const WorkerStatus& worker : *status.workers) text += text_of_worker(worker);
  if (status.held && status.held->size() > status.workers->size())
    text += fmt::format("  held, some of it idle: {}\n", fmt::join(*status.held, ","));
  if (!status.decisions) return text;
  for (const DecisionStatus& decision : *status.decisions)
    text += fmt::format("  step {}: {}: {}\n", decision.step, decision.what, decision.reason);
  return text;
}

bool may_be_run(const std::string& path) {
  try {
    return run_directory::RunDirectory(path).has_run();
  } catch (const Error&) {
    return true;  // a request for its status is told the reason
  }
}

// Asks a launcher. Returns nothing if the launcher ends meanwhile. A launcher that ends or replaces itself hangs up
// before its socket is closed or answers again: it is asked again for a second.
std::optional<RunStatus> status_of_launcher(const std::string& run, const run_directory::RunDirectory& directory) {
  const MonotonicTime deadline = MonotonicClock::now() + kReplacement;
  for (;;) {
    try {
      return status_from_json(ask_launcher(run, decisions::StatusRequest{}, kPatience));
    } catch (const Error& error) {
      if (!launcher_answers(run) && directory.has_run()) return std::nullopt;
      if (error.fault() != Fault::peer || MonotonicClock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

RunStatus run_status(const std::string& run) {
  const run_directory::RunDirectory directory(run);
  const bool answers = launcher_answers(run);  // the launcher may be starting a run without records yet
  if (!answers && !directory.has_run())
    throw Error::make(Fault::usage, "{}: no run there", run)
        .advise("give the run directory that `estrain train` printed");
  if (answers) {
    if (const auto status = status_of_launcher(run, directory)) return *status;
  }
  if (may_be_reached_elsewhere(run)) {
    try {
      return status_from_json(ask_launcher(run, decisions::StatusRequest{}, kPatienceElsewhere));
    } catch (const Error&) {  // the run directory's files tell the host and the progress
    }
  }
  return recorded_status(directory);
}

Json status_as_json(const RunStatus& status) { return codec::fields_of(status); }

RunStatus status_from_json(const Json& json) {
  RunStatus status;
  try {
    codec::from_field(json, status);
  } catch (const Error& error) {
    throw Error::make(Fault::peer, "the launcher's answer makes no sense: {}", error.message());
  }
  const auto keep_null = [&json](const char* key, auto& field) {
    if (json.contains(key) && json.at(key).is_null()) field.emplace();
  };
  keep_null("slurm_job", status.slurm_job);
  keep_null("loss", status.loss);
  keep_null("lr", status.lr);
  keep_null("last_checkpoint_step", status.last_checkpoint_step);
  return status;
}

WrongDevice wrong_device(const Json& fault) {
  return {text_in(fault, "device"), whole_in(fault, "worker"), whole_in(fault, "step"),
          whole_in(fault, "vouched_step")};
}

std::vector<WrongDevice> find_wrong_devices(const run_directory::RunDirectory& run) {
  std::vector<WrongDevice> devices;
  for_each_object_with("wrong_results", run.events(), [&](const Json& event) {
    if (text_in(event, "event") == "fault" && text_in(event, "cause") == "wrong_results")
      devices.push_back(wrong_device(event));
  });
  return devices;
}

std::vector<std::string> find_runs(const std::string& folder) {
  std::vector<std::string> runs;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure)) {
    if (may_be_run(at->path().string())) runs.push_back(at->path().string());
  }
  std::ranges::sort(runs);
  return runs;
}

std::string format_status(const RunStatus& status) {
  std::string text =
      fmt::format("{} ({}, {}): {}\n", status.name, status.model, counted(status.ests, "EST"), status.state);
  text += fmt::format("  run directory    {}\n", status.run);
  text += text_of_owner(status);
  text += fmt::format("  step             {}{}\n", or_dash(status.step),
                      status.total_steps ? " of " + or_dash(status.total_steps) : "");
  text += fmt::format("  loss             {}\n", or_dash(value_of(status.loss), "{:.4f}"));
  text += fmt::format("  test accuracy    {}\n", or_dash(status.test_accuracy, "{:.4f}"));
  text += fmt::format("  last checkpoint  {}\n", or_dash(value_of(status.last_checkpoint_step)));
  if (status.error) text += fmt::format("  error            {}\n", *status.error);
  if (status.waits_for_room) text += fmt::format("  waits for room   {}\n", *status.waits_for_room);
  text += text_of_wrong_devices(status);
  if (!status.workers) return text;
  text += fmt::format("  samples/s        {}\n", or_dash(status.samples_per_second, "{:.1f}"));
  if (status.seconds_left) text += fmt::format("  time left        {}\n", format_duration(*status.seconds_left));
  text += text_of_batch(status);
  return text + text_of_plan(status) + text_of_audits(status) + text_of_hosts(status) + text_of_workers(status);
}

std::string format_status_table(const std::vector<RunStatus>& runs) {
  std::string text = fmt::format("{:<28} {:<12} {:>10} {:>10} {:>12} {:<12}\n", "run", "state", "step", "loss",
                                 "samples/s", "devices");
  for (const RunStatus& status : runs) {
    text += fmt::format("{:<28} {:<12} {:>10} {:>10} {:>12} {:<12}\n", status.run, status.state, or_dash(status.step),
                        or_dash(value_of(status.loss), "{:.4f}"), or_dash(status.samples_per_second, "{:.1f}"),
                        status.devices.value_or("-"));
  }
  return text;
}

}  // namespace estrain::launch
