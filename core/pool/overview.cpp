#include "core/pool/overview.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/base/process/memory_use.h"
#include "core/base/visible_text.h"
#include "core/planning/dispatch/slots.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::pool {

using dispatch::Job;
using dispatch::Phase;
using dispatch::Slot;
using dispatch::State;

namespace {

Json id_or_null(dispatch::JobId id) { return id == 0 ? Json() : Json(id); }
Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

// The cause stands before the colon in the reason of a failed job.
std::string cause_of(const Job& job) { return job.reason.substr(0, job.reason.find(':')); }

std::string_view state_name(const Slot& slot) {
  if (slot.state == Slot::State::away) return "away";
  if (slot.state == Slot::State::leaving) return "leaving";
  return slot.holder == 0 ? "free" : "in use";
}

void add_guests_to(Json& status, const State& state) {
  status["guests"] = status["parted"] = Json::array();
  double held = 0;
  for (const auto& [id, job] : state.jobs) {
    if (!job.request.background) continue;
    held += job.attained;
    if (const auto names = dispatch::names_of(state, id); !names.empty())
      status["guests"].push_back({{"job", id}, {"beside", id_or_null(job.beside)}, {"devices", names}});
    if (is_over(job.phase)) continue;
    for (const dispatch::JobId host : job.not_beside) status["parted"].push_back({{"job", host}, {"guest", id}});
  }
  status["guest_device_seconds"] = held;
  status["tolerance"] = state.tolerance;
}

// The memory of hosts with devices, and the part that the jobs there need.
void add_memory_to(Json& status, const State& state) {
  status["memory"] = status["waits_for_memory"] = Json::array();
  std::map<std::string, std::map<dispatch::JobId, int64_t>> workers;
  for (const Slot& slot : state.slots) {
    workers.try_emplace(slot.host());
    for (const dispatch::JobId id : {slot.holder, slot.guest})
      if (id != 0) ++workers[slot.host()][id];
  }
  for (const auto& [host, bytes] : state.memory) {
    if (!workers.contains(host)) continue;
    double needed = 0;
    for (const auto& [id, count] : workers[host]) needed += state.jobs.at(id).memory.needs.with(count);
    status["memory"].push_back({{"host", host}, {"bytes", bytes}, {"needed", needed}});
  }
  status["gpu_memory"] = Json::array();
  for (const Slot& slot : state.slots) {
    const auto known = state.gpu_memory.find(slot.name);
    if (known == state.gpu_memory.end()) continue;
    const double needed = slot.holder == 0 ? 0 : dispatch::needed_of_gpu(state, state.jobs.at(slot.holder));
    status["gpu_memory"].push_back({{"device", slot.name}, {"bytes", known->second}, {"needed", needed}});
  }
  for (const auto& [id, job] : state.jobs) {
    if (job.phase == Phase::waiting && job.memory.waits_since > 0)
      status["waits_for_memory"].push_back({{"job", id}, {"reason", job.reason}});
  }
}

std::string format_memory(const Json& status) {
  const auto bytes = [](const Json& value) { return format_bytes(static_cast<uint64_t>(value.get<double>())); };
  std::string text;
  for (const Json& one : status.at("memory")) {
    const std::string host = one.at("host").get<std::string>();
    text += fmt::format("memory       {}{} of {} needed by jobs\n", host.empty() ? "" : visible_in_line(host) + ": ",
                        bytes(one.at("needed")), bytes(one.at("bytes")));
  }
  for (const Json& one : status.at("gpu_memory")) {
    text +=
        fmt::format("memory       {}: {} of {} needed by jobs\n", visible_in_line(one.at("device").get<std::string>()),
                    bytes(one.at("needed")), bytes(one.at("bytes")));
  }
  for (const Json& one : status.at("waits_for_memory")) {
    text += fmt::format("waits        job {}: {}\n", one.at("job").get<int64_t>(),
                        visible_in_line(one.at("reason").get<std::string>()));
  }
  return text;
}

// ", job 3, guest 5"
std::string jobs_on(const Json& device) {
  std::string text;
  for (const char* key : {"job", "guest"})
    if (!device.at(key).is_null()) text += fmt::format(", {} {}", key, device.at(key).get<int64_t>());
  return text;
}

std::string format_guests(const Json& status) {
  std::string text;
  for (const Json& one : status.at("guests")) {
    const std::string where =
        one.at("beside").is_null() ? "on free devices" : fmt::format("beside job {}", one.at("beside").get<int64_t>());
    text += fmt::format("guest        job {} {}\n", one.at("job").get<int64_t>(), where);
  }
  for (const Json& one : status.at("parted")) {
    text +=
        fmt::format("parted       job {} was slowed by guest {}: by more than {:.4g} %\n", one.at("job").get<int64_t>(),
                    one.at("guest").get<int64_t>(), 100 * status.at("tolerance").get<double>());
  }
  if (const double seconds = status.at("guest_device_seconds").get<double>(); seconds > 0)
    text += fmt::format("guests       {:.0f} device-seconds, not counted in utilisation and users\n", seconds);
  return text;
}

}  // namespace

Json jobs_json(const PoolDirectory& directory, const State& state) {
  Json jobs = Json::array();
  for (const auto& [id, job] : state.jobs) {
    jobs.push_back({{"job", id},
                    {"name", job.request.name},
                    {"user", job.request.user},
                    {"uid", job.request.uid},
                    {"priority", job.request.priority},
                    {"phase", phase_name(job.phase)},
                    {"reason", job.reason},
                    {"background", job.request.background},
                    {"beside", id_or_null(job.beside)},
                    {"devices", dispatch::names_of(state, id)},
                    {"step", job.step},
                    {"total_steps", job.request.total_steps},
                    {"batch", job.request.batch ? Json(job.batch_in_force()) : Json()},
                    {"lr_factor", job.request.batch ? Json(job.batch.lr_factor) : Json()},
                    {"submitted", job.submitted},
                    {"started", or_null(job.started)},
                    {"finished", or_null(job.finished)},
                    {"jct_s", job.finished ? Json(*job.finished - job.submitted) : Json()},
                    {"deadline", or_null(job.request.deadline)},
                    {"device_seconds", job.attained},
                    {"changes", std::max<int64_t>(0, job.starts - 1)},
                    {"run", directory.run(id)}});
  }
  return jobs;
}

std::string format_jobs(const State& state, double now) {
  if (state.jobs.empty()) return "no jobs; estrain pool submit\n";
  std::string text = fmt::format("{:>4}  {:<16} {:<10} {:<10} {:<14} {:>15}  {:>6}  {:>10}  {}\n", "job", "name",
                                 "user", "phase", "devices", "step", "batch", "since", "why");
  for (const auto& [id, job] : state.jobs) {
    const std::vector<std::string> held = dispatch::names_of(state, id);
    const std::string devices = held.empty() ? "-" : launch::counted_devices(placement::devices_from(held));
    const std::string steps = job.request.total_steps > 0 ? fmt::format("{}/{}", job.step, job.request.total_steps)
                                                          : std::to_string(job.step);
    const std::string batch = job.request.batch ? std::to_string(job.batch_in_force()) : "-";
    text += fmt::format("{:>4}  {:<16} {:<10} {:<10} {:<14} {:>15}  {:>6}  {:>10}  {}\n", id,
                        visible_in_line(job.request.name), visible_in_line(job.request.user), phase_name(job.phase),
                        visible_in_line(devices), steps, batch, duration(job.finished.value_or(now) - job.submitted),
                        visible_in_line(job.reason));
  }
  return text;
}

Json status_json(const State& state, bool is_served, double now) {
  Json status = {{"served", is_served}, {"policy", state.policy}, {"devices", Json::array()}, {"jobs", Json::object()}};
  for (const Slot& slot : state.slots) {
    const auto rack = state.racks.find(slot.host());
    status["devices"].push_back({{"name", slot.name},
                                 {"rack", rack == state.racks.end() ? Json() : Json(rack->second)},
                                 {"state", state_name(slot)},
                                 {"job", id_or_null(slot.holder)},
                                 {"guest", id_or_null(slot.guest)}});
  }
  double first = now, last = 0, attained = 0;
  Json faults = Json::object();
  for (const auto& [id, job] : state.jobs) {
    const std::string phase(phase_name(job.phase));
    status["jobs"][phase] = status["jobs"].value(phase, 0) + 1;
    first = std::min(first, job.submitted);
    last = std::max(last, job.finished.value_or(now));
    if (!job.request.background) attained += job.attained;
    if (job.phase == Phase::failed) faults[cause_of(job)] = faults.value(cause_of(job), 0) + 1;
  }
  const double available = (last - first) * static_cast<double>(state.slots.size());
  status["utilisation"] = available > 0 ? attained / available : 0;
  status["users"] = Json::object();
  for (const auto& [user, usage] : state.usage) status["users"][user] = usage.device_seconds;
  status["faults"] = faults;
  status["held"] = Json::array();
  for (const auto& [id, job] : state.jobs) {
    if (job.phase == Phase::held) status["held"].push_back({{"job", id}, {"reason", job.reason}});
  }
  status["batches"] = Json::array();
  for (const auto& [id, job] : state.jobs) {
    if (job.request.batch && !is_over(job.phase) && job.batch_in_force() != job.request.batch->terms.own)
      status["batches"].push_back({{"job", id}, {"batch", job.batch_in_force()}, {"lr_factor", job.batch.lr_factor}});
  }
  add_guests_to(status, state);
  add_memory_to(status, state);
  status["charge_s"] = state.charge;
  return status;
}

std::string format_status(const Json& status) {
  std::string text = fmt::format("policy       {}{}\n", visible_in_line(status.at("policy").get<std::string>()),
                                 status.at("served").get<bool>() ? "" : "; no daemon serves the pool");
  for (const Json& device : status.at("devices")) {
    const Json& rack = device.at("rack");
    text += fmt::format("  {:<12} {}{}{}\n", visible_in_line(device.at("name").get<std::string>()),
                        device.at("state").get<std::string>(), jobs_on(device),
                        rack.is_null() ? "" : ", rack " + visible_in_line(rack.get<std::string>()));
  }
  text += "jobs        ";
  for (const auto& [phase, count] : status.at("jobs").items())
    text += fmt::format(" {} {}", count.get<int64_t>(), phase);
  text += fmt::format("\nutilisation  {:.0f} % of the device-seconds since the first submission\n",
                      100 * status.at("utilisation").get<double>());
  for (const auto& [user, seconds] : status.at("users").items())
    text += fmt::format("  {:<12} {:.0f} device-seconds of late\n", visible_in_line(user), seconds.get<double>());
  text += format_guests(status);
  text += format_memory(status);
  for (const Json& one : status.at("batches")) {
    text += fmt::format("batch        job {}: {} samples, learning rates times {:.6g}\n", one.at("job").get<int64_t>(),
                        one.at("batch").get<int64_t>(), one.at("lr_factor").get<double>());
  }
  for (const Json& one : status.at("held")) {
    text += fmt::format("held         job {}: {}\n", one.at("job").get<int64_t>(),
                        visible_in_line(one.at("reason").get<std::string>()));
  }
  for (const auto& [cause, count] : status.at("faults").items())
    text += fmt::format("failed       {} x {}\n", count.get<int64_t>(), visible_in_line(cause));
  return text;
}

Json devices_json(const State& state, const std::string& own) {
  Json devices = Json::array();
  for (const Slot& slot : state.slots) {
    const auto job = state.jobs.find(slot.holder);
    const bool is_held = job != state.jobs.end();
    devices.push_back({{"device", slot.name},
                       {"host", slot.host().empty() ? own : slot.host()},
                       {"type", slot.type()},
                       {"state", state_name(slot)},
                       {"for_good", slot.for_good},
                       {"job", is_held ? Json(slot.holder) : Json()},
                       {"guest", id_or_null(slot.guest)},
                       {"name", is_held ? Json(job->second.request.name) : Json()},
                       {"user", is_held ? Json(job->second.request.user) : Json()},
                       {"since", slot.since > 0 ? Json(slot.since) : Json()}});
  }
  return devices;
}

std::string format_devices(const Json& devices, double now) {
  if (devices.empty()) return "no devices; estrain pool devices add, or estrain agent --pool\n";
  const auto text_of = [](const Json& value) {
    return value.is_null() ? "-" : visible_in_line(value.get<std::string>());
  };
  std::string text = fmt::format("{:<12} {:<18} {:<16} {:>4}  {:<16} {:<10} {:>10}  {:>5}\n", "host", "device", "state",
                                 "job", "name", "user", "since", "guest");
  for (const Json& device : devices) {
    std::string state = text_of(device.at("state"));
    if (state == "leaving") state += device.at("for_good").get<bool>() ? ", removed" : ", taken";
    if (state == "away") state += ", taken";
    const Json& since = device.at("since");
    const auto number_of = [&](const char* key) {
      return device.at(key).is_null() ? "-" : std::to_string(device.at(key).get<int64_t>());
    };
    text += fmt::format("{:<12} {:<18} {:<16} {:>4}  {:<16} {:<10} {:>10}  {:>5}\n", text_of(device.at("host")),
                        text_of(device.at("device")), state, number_of("job"), text_of(device.at("name")),
                        text_of(device.at("user")), since.is_null() ? "-" : duration(now - since.get<double>()),
                        number_of("guest"));
  }
  return text;
}

Json history_json(const std::vector<Line>& lines) {
  Json history = Json::array();
  for (const Line& line : lines) {
    history.push_back({{"time", line.time},
                       {"job", line.job},
                       {"what", line.what},
                       {"devices", line.devices},
                       {"reason", line.reason},
                       {"names", line.names}});
  }
  return history;
}

std::string in_brackets(const std::vector<std::string>& names) {
  std::map<std::string, int64_t> counts;
  for (const std::string& name : names) ++counts[name];
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(count == 1 ? name : fmt::format("{}*{}", name, count));
  return parts.empty() ? "" : fmt::format(" [{}]", fmt::join(parts, ","));
}

std::string format_history(const std::vector<Line>& lines) {
  std::string text;
  const double first = lines.empty() ? 0 : lines.front().time;
  for (const Line& line : lines) {
    text += fmt::format("{:>10.1f} s  {:<8} {:<10} {:>3}  {}{}\n", line.time - first,
                        line.job == 0 ? "pool" : fmt::format("job {}", line.job), line.what, line.devices,
                        visible_in_line(line.reason), visible_in_line(in_brackets(line.names)));
  }
  return text;
}

}  // namespace estrain::pool
