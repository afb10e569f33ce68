#include "core/launch/control/run_status.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/base/files/long_files.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/checkpoint/directory.h"
#include "core/launch/control/control_socket.h"
#include "core/launch/control/progress.h"
#include "core/launch/directory/run_directory.h"
#include "core/spec/parsing/parse.h"

namespace estrain::launch {
namespace {

constexpr int kPatienceMs = 5000;

// What is not finite stands as null.
bool is_sound_step(const Json& line) {
  const auto is_number = [&](const char* key) {
    return line.contains(key) && (line.at(key).is_number() || line.at(key).is_null());
  };
  return whole_in(line, "step") && whole_in(line, "epoch") && is_number("loss") && is_number("lr");
}

// The last step, and the last evaluation, which may lie far back. Damaged lines are passed over.
void add_last_metrics(const std::string& path, Json& status) {
  BackwardLineReader lines(path);
  for (std::string_view text; (!status.contains("step") || !status.contains("test_accuracy")) && lines.next(&text);) {
    const bool is_evaluation = text.find("\"eval\"") != text.npos;
    if (status.contains(is_evaluation ? "test_accuracy" : "step")) continue;
    const Json line = parse_json_if_sound(text);
    if (const auto accuracy = number_in(object_in(line, "eval"), "accuracy")) status["test_accuracy"] = *accuracy;
    if (is_sound_step(line))
      for (const char* key : {"step", "epoch", "loss", "lr"}) status[key] = line.at(key);
  }
}

void add_owner_elsewhere(const RunDirectory& directory, Json& status) {
  const std::optional<DistantOwner> owner = directory.owner_elsewhere();
  if (!owner) return;
  status["state"] = "elsewhere";
  status["host"] = owner->host;
  status["pid"] = owner->pid;
  status["slurm_job"] = owner->slurm_job.empty() ? Json() : Json(owner->slurm_job);
  status["seconds_since_sign_of_life"] = owner->silent_seconds;
}

// As job.toml has it; where that is gone or damaged, as the newest checkpoint has it.
spec::JobSpec recorded_spec(const RunDirectory& directory) {
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

// Of a run that has no launcher here.
Json recorded_status(const RunDirectory& directory) {
  const spec::JobSpec spec = recorded_spec(directory);
  Json status = {{"ok", true},
                 {"name", spec.job.name},
                 {"model", spec.model.name},
                 {"run", directory.path()},
                 {"state", "not running"},
                 {"ests", spec.job.ests}};
  for_each_object(directory.events(), [&](const Json& event) {
    const std::string name = text_in(event, "event").value_or("");
    if (name == "start") status["state"] = "not running";
    if (name == "finished" || name == "stopped" || name == "failed") status["state"] = name;
    if (name == "failed") status["error"] = text_in(event, "error").value_or("");
  });
  if (const Json wrong = find_wrong_devices(directory); !wrong.empty()) status["audit"] = {{"wrong_devices", wrong}};
  add_owner_elsewhere(directory, status);
  const std::vector<Step> saved = checkpoint::CheckpointDirectory(directory.checkpoints()).steps();
  if (!saved.empty()) status["last_checkpoint_step"] = saved.back().value;
  add_last_metrics(directory.path() + "/metrics.jsonl", status);
  return status;
}

std::string text_or_dash(const Json& status, const char* key, const char* format) {
  if (!status.contains(key) || status.at(key).is_null()) return "-";
  const Json& value = status.at(key);
  if (value.is_number_float()) return fmt::format(fmt::runtime(format), value.get<double>());
  if (value.is_number()) return std::to_string(value.get<int64_t>());
  return as_text(value).value_or("-");
}

std::string text_of_audits(const Json& audit) {
  const int64_t passed = whole_in(audit, "passed").value_or(0);
  if (whole_in(audit, "every").value_or(0) == 0 && passed == 0) return "";
  return fmt::format("  audits           {} passed, the newest at step {}; {:.3g} % more work\n", passed,
                     whole_in(audit, "newest_step").value_or(0), 100 * number_in(audit, "share").value_or(0));
}

std::string text_of_wrong_devices(const Json& status) {
  std::string text;
  for (const Json& device : object_in(status, "audit").value("wrong_devices", Json::array())) {
    text += fmt::format("  wrong results    {}, worker {}, found by the audit of step {}: have it checked\n",
                        text_in(device, "device").value_or(""), whole_in(device, "worker").value_or(0),
                        whole_in(device, "step").value_or(0));
  }
  return text;
}

std::string scaled_or_dash(const Json& row, const char* key, double factor) {
  const auto value = number_in(row, key);
  return value ? fmt::format("{:.3g}", factor * *value) : "-";
}

std::string text_of_hosts(const Json& hosts) {
  if (hosts.empty()) return "";
  std::string text = "  host          workers  ESTs  ms a step  ms exchange  ms round trip  MB/s     connection\n";
  for (const Json& row : hosts) {
    const bool leads = row.value("leads", false);
    const std::string name = row.value("host", "");
    text += fmt::format("  {:<13} {:<8} {:<5} {:<10} {:<12} {:<14} {:<8} {}\n", name.empty() ? "this one" : name,
                        row.value("workers", INT64_C(0)), row.value("ests", INT64_C(0)),
                        scaled_or_dash(row, "step_seconds", 1e3), scaled_or_dash(row, "exchange_seconds", 1e3),
                        scaled_or_dash(row, "round_trip_seconds", 1e3), scaled_or_dash(row, "bytes_per_second", 1e-6),
                        leads ? "leads" : row.value("secrecy", ""));
  }
  return text;
}

std::string text_of_status(const Json& status) {
  std::string text = fmt::format("{} ({}, {} ESTs): {}\n", status.value("name", ""), status.value("model", ""),
                                 status.value("ests", INT64_C(0)), status.value("state", ""));
  text += fmt::format("  run directory    {}\n", status.value("run", ""));
  if (status.contains("host")) {
    text +=
        fmt::format("  at work on       {}, process {}{}; last sign of life {} ago\n",
                    text_or_dash(status, "host", "{}"), status.at("pid").get<int64_t>(),
                    status.at("slurm_job").is_null() ? "" : ", Slurm job " + text_or_dash(status, "slurm_job", "{}"),
                    format_duration(status.at("seconds_since_sign_of_life")));
  }
  text += fmt::format("  step             {}{}\n", text_or_dash(status, "step", "{}"),
                      status.contains("total_steps") ? " of " + text_or_dash(status, "total_steps", "{}") : "");
  text += fmt::format("  loss             {}\n", text_or_dash(status, "loss", "{:.4f}"));
  text += fmt::format("  test accuracy    {}\n", text_or_dash(status, "test_accuracy", "{:.4f}"));
  text += fmt::format("  last checkpoint  {}\n", text_or_dash(status, "last_checkpoint_step", "{}"));
  if (status.contains("error")) text += fmt::format("  error            {}\n", text_or_dash(status, "error", "{}"));
  if (status.contains("waits_for_room"))
    text += fmt::format("  waits for room   {}\n", text_or_dash(status, "waits_for_room", "{}"));
  text += text_of_wrong_devices(status);
  if (!status.contains("workers")) return text;
  text += fmt::format("  samples/s        {}\n", text_or_dash(status, "samples_per_second", "{:.1f}"));
  if (status.contains("seconds_left"))
    text += fmt::format("  time left        {}\n", format_duration(status.at("seconds_left")));
  if (const Json plan = status.value("plan", Json::object()); plan.contains("estimated_step_seconds")) {
    text += fmt::format("  plan             {:.3g} ms a step expected, {:.3g} measured: {}\n",
                        1000 * plan.at("estimated_step_seconds").get<double>(),
                        1000 * plan.at("measured_step_seconds").get<double>(), plan.value("reason", ""));
  }
  text += text_of_audits(object_in(status, "audit"));
  text += text_of_hosts(status.value("hosts", Json::array()));
  text += "  worker  pid      device      ESTs        ms a mini-batch\n";
  for (const Json& worker : status.at("workers")) {
    const std::string ests =
        fmt::format("{} to {}", worker.at("ests").at(0).get<int64_t>(), worker.at("ests").at(1).get<int64_t>() - 1);
    const std::string speed = worker.contains("seconds_per_mini_batch")
                                  ? fmt::format("{:.3g}", 1000 * worker.at("seconds_per_mini_batch").get<double>())
                                  : "-";
    text += fmt::format("  {:<7} {:<8} {:<11} {:<11} {}", worker.at("id").get<int64_t>(),
                        worker.at("pid").get<int64_t>(), worker.at("device").get<std::string>(), ests, speed);
    if (worker.contains("slow")) {
      text += fmt::format(", slow: {:.1f} times the usual since step {}", worker.at("slow").at("factor").get<double>(),
                          worker.at("slow").at("since_step").get<int64_t>());
    }
    text += '\n';
  }
  const auto held = status.value("held", std::vector<std::string>());
  if (held.size() > status.at("workers").size())
    text += fmt::format("  held, some of it idle: {}\n", fmt::join(held, ","));
  for (const Json& decision : status.value("decisions", Json::array())) {
    text += fmt::format("  step {}: {}: {}\n", decision.at("step").get<int64_t>(),
                        decision.at("what").get<std::string>(), decision.at("reason").get<std::string>());
  }
  return text;
}

bool may_be_run(const std::string& path) {
  try {
    return RunDirectory(path).has_run();
  } catch (const Error&) {
    return true;  // who asks for its status is told why not
  }
}

}  // namespace

Json run_status(const std::string& run) {
  const RunDirectory directory(run);
  if (!directory.has_run())
    throw Error::make(Fault::usage, "{}: no run there", run)
        .advise("give the run directory that `estrain train` printed");
  if (!launcher_answers(run)) return recorded_status(directory);
  return ask_launcher(run, conduct::StatusRequest{}, kPatienceMs);
}

Json wrong_device(const Json& fault) {
  Json device = Json::object();
  for (const char* key : {"device", "worker", "step", "vouched_step"})
    if (fault.contains(key)) device[key] = fault.at(key);
  return device;
}

Json find_wrong_devices(const RunDirectory& run) {
  Json devices = Json::array();
  for_each_object(run.events(), [&](const Json& event) {
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

std::string format_status(const Json& status) {
  try {
    return text_of_status(status);
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::peer, "the launcher's answer makes no sense: {}", error.what());
  }
}

std::string format_status_table(const std::vector<Json>& runs) {
  std::string text = fmt::format("{:<28} {:<12} {:>10} {:>10} {:>12} {:<12}\n", "run", "state", "step", "loss",
                                 "samples/s", "devices");
  for (const Json& status : runs) {
    text += fmt::format("{:<28} {:<12} {:>10} {:>10} {:>12} {:<12}\n", text_in(status, "run").value_or(""),
                        text_in(status, "state").value_or(""), text_or_dash(status, "step", "{}"),
                        text_or_dash(status, "loss", "{:.4f}"), text_or_dash(status, "samples_per_second", "{:.1f}"),
                        text_or_dash(status, "devices", "{}"));
  }
  return text;
}

}  // namespace estrain::launch
