#include "cmd/plan_report.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "cmd/job_hosts.h"
#include "core/base/json/json_text.h"
#include "core/base/process/memory_use.h"
#include "core/planning/profile/alternatives.h"

namespace estrain::cmd {
namespace {

constexpr double kPatienceSeconds = 10;  // with agents

std::string sent_text(const plan::HostsPlan& plan) {
  return plan.hosts.size() == 1 ? "-" : fmt::format("{:.2f}", plan.bytes_sent / 1e6);
}

// Seconds of a mini-batch on one worker of a host.
double pace_of(const launch::HostStatus& row) {
  return *row.step_seconds * static_cast<double>(row.workers) / static_cast<double>(row.ests);
}

using profile::Alternative;

std::string age_text(int64_t seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

double samples_per_second(const PlanReport& report, const plan::Plan& plan) {
  return plan.throughput * static_cast<double>(report.batch);
}

Json to_json(const PlanReport& report, const Alternative& one) {
  Json ests = Json::array(), kinds = Json::array();
  for (const plan::WorkerShare& share : one.plan.workers) {
    ests.push_back(share.ests);
    kinds.push_back(report.groups[static_cast<size_t>(share.group)].kind);
  }
  return {{"devices", one.devices},
          {"kinds", kinds},
          {"ests", ests},
          {"step_seconds", one.plan.step_seconds},
          {"compute_seconds", one.plan.compute_seconds},
          {"exchange_seconds", one.plan.exchange_seconds},
          {"partial_sums", one.plan.partial_sums},
          {"mini_batches_per_second", one.plan.throughput},
          {"samples_per_second", samples_per_second(report, one.plan)},
          {"waste", one.plan.waste},
          {"slack", one.plan.slack},
          {"reason", one.plan.reason},
          {"best", one.best},
          {"given", one.given}};
}

Json to_json(const PlanReport& report, const profile::Basis& basis) {
  const bool now = std::ranges::find(report.measured, basis.kind) != report.measured.end();
  return {{"device", basis.kind},
          {"seconds_per_mini_batch", basis.mini_batch_seconds},
          {"spread", basis.spread},
          {"samples", basis.samples},
          {"age_seconds", basis.age_seconds},
          {"measured_now", now},
          {"worker_bytes", basis.worker_bytes}};
}

// "+2 cpu:avx2, -1 cpu:sse"
std::string change_text(const plan::Proposal& proposal) {
  std::string text;
  for (size_t i = 0; i < proposal.change.size(); ++i) {
    if (proposal.change[i] == 0) continue;
    text += fmt::format("{}{:+} {}", text.empty() ? "" : ", ", proposal.change[i], proposal.devices[i].kind);
  }
  return text;
}

Json to_json(const PlanReport& report, const plan::Proposal& proposal) {
  return {{"change", change_text(proposal)},
          {"devices", profile::device_list(proposal.plan.workers, proposal.devices)},
          {"devices_changed", proposal.devices_changed},
          {"step_seconds", proposal.plan.step_seconds},
          {"samples_per_second", samples_per_second(report, proposal.plan)},
          {"speed_up", proposal.speed_up},
          {"speed_up_per_device", proposal.speed_up_per_device},
          {"reason", proposal.reason}};
}

void print_threads(const PlanReport& report) {
  for (const PlanWithThreads& each : report.threads) {
    fmt::print("job.threads = {}: {:.2f} ms a step with --devices {}{}\n", each.threads, 1e3 * each.step_seconds,
               each.devices, each.threads == report.own_threads ? " (current)" : "");
  }
  if (report.threads.front().threads != report.own_threads)
    fmt::print("threads define the bits: a job keeps its initial number\n");
}

void print_proposals(const PlanReport& report) {
  if (report.proposals.empty()) return fmt::print("the offered devices would not make the job faster\n");
  fmt::print("\n   {:<24} {:>9} {:>9} {:>11}  devices then\n", "offer", "step ms", "speed-up", "per device");
  for (const plan::Proposal& proposal : report.proposals) {
    fmt::print("   {:<24} {:>9.2f} {:>9.2f} {:>11.2f}  {}\n", change_text(proposal), 1e3 * proposal.plan.step_seconds,
               proposal.speed_up, proposal.speed_up_per_device,
               profile::device_list(proposal.plan.workers, proposal.devices));
  }
  fmt::print("\n");
}

std::string ests_text(const plan::Plan& plan) {
  const auto [least, most] = std::ranges::minmax(plan.workers, {}, &plan::WorkerShare::ests);
  const std::string each =
      least.ests == most.ests ? std::to_string(most.ests) : fmt::format("{} to {}", least.ests, most.ests);
  return fmt::format("{} x {}", plan.workers.size(), each);
}

void print_basis(const PlanReport& report) {
  fmt::print("waste: unused mini-batches/s of devices with ESTs\n");
  for (const profile::Basis& basis : report.basis) {
    std::string line = fmt::format("{}: {:.2f} ms a mini-batch, measured {} ago, {} time{}", basis.kind,
                                   1e3 * basis.mini_batch_seconds, age_text(basis.age_seconds), basis.samples,
                                   basis.samples == 1 ? "" : "s");
    if (basis.samples == 0)
      line = fmt::format("{}: {:.2f} ms a mini-batch, inferred", basis.kind, 1e3 * basis.mini_batch_seconds);
    if (basis.spread > 0) line += fmt::format(", spread {:.0f} %", 100 * basis.spread);
    if (basis.worker_bytes > 0) {
      line += fmt::format("; a worker takes {}", format_bytes(static_cast<uint64_t>(basis.worker_bytes)));
    }
    fmt::print("{}\n", line);
  }
  fmt::print("profiles: {}\n", report.database);
}

}  // namespace

std::vector<std::string> HostsTable::names() const {
  std::vector<std::string> names = {own_};
  for (const placement::Share& share : assignment_) {
    if (!share.device.host.empty() && std::ranges::find(names, share.device.host) == names.end())
      names.push_back(share.device.host);
  }
  return names;
}

void HostsTable::measure(const std::string& run, const launch::RunStatus* status) {
  for (const std::string& name : names()) hosts_.push_back({name, {}});
  if (status != nullptr && status->hosts) {
    Json rows = Json::array();
    const launch::HostStatus& own = status->hosts->front();
    for (const launch::HostStatus& row : *status->hosts) {
      const auto host = std::ranges::find(hosts_, row.host, &plan::HostDevices::name);
      if (host == hosts_.end() || !row.bytes_per_second) continue;
      rows.push_back({{"host", row.host},
                      {"bytes_per_second", *row.bytes_per_second},
                      {"round_trip_seconds", row.round_trip_seconds.value_or(0)}});
      if (row.step_seconds && own.step_seconds) host->slowness = pace_of(row) / pace_of(own);
    }
    return take_links(rows);
  }
  if (run.empty())
    throw Error(Fault::usage, "how far the other hosts are is not known")
        .advise("give --run DIR: a run over these hosts, or a run directory for which their agents wait");
  std::vector<std::string> others = names();
  others.erase(others.begin());
  take_links(look_at_hosts({.run = run, .names = others, .seconds = kPatienceSeconds, .measure = true}).rows);
}

plan::Link HostsTable::slowest_link() const {
  plan::Link slowest = hosts_.at(1).link;
  for (auto host = hosts_.begin() + 1; host != hosts_.end(); ++host) {
    const plan::Link& link = host->link;
    slowest.bytes_per_second = std::min(slowest.bytes_per_second, link.bytes_per_second);
    slowest.round_trip_seconds = std::max(slowest.round_trip_seconds, link.round_trip_seconds);
  }
  return slowest;
}

void HostsTable::take_links(const Json& rows) {
  for (auto host = hosts_.begin() + 1; host != hosts_.end(); ++host) {
    const std::string& name = host->name;
    const auto row = std::ranges::find_if(rows, [&](const Json& each) { return each.value("host", "") == name; });
    if (row == rows.end() || !row->contains("bytes_per_second"))
      throw Error::make(Fault::peer, "how far host {} is is not known: {}", name,
                        row == rows.end() ? "the run has no link to it" : row->value("error", ""))
          .advise("start an agent there, or leave it out of --devices");
    host->link = {row->value("bytes_per_second", 0.0), row->value("round_trip_seconds", 0.0)};
  }
}

void HostsTable::make_plans(const plan::PlannedJob& job, const std::vector<plan::DeviceGroup>& groups,
                            const plan::GradientTraffic& traffic) {
  planned_.clear();
  for (plan::HostDevices devices : hosts_) {
    for (const placement::Share& share : assignment_) {
      placement::Device device = share.device;
      const bool here = device.host.empty() || device.host == own_;
      if ((here ? own_ : device.host) != devices.name) continue;
      device.host.clear();
      const auto known = std::ranges::find(groups, device.text(), &plan::DeviceGroup::kind);
      if (known == groups.end())
        throw Error::make(Fault::infeasible, "{} has not been measured: this host has none", device.text());
      const std::string kind = here ? device.text() : devices.name + "/" + device.text();
      auto group = std::ranges::find(devices.groups, kind, &plan::DeviceGroup::kind);
      if (group == devices.groups.end()) {
        plan::DeviceGroup added = *known;
        added.model = known->family();
        added.kind = kind;
        added.count = 0;
        added.mini_batches_per_second /= devices.slowness;
        group = devices.groups.insert(group, added);
      }
      ++group->count;
    }
    planned_.push_back(std::move(devices));
  }
  plans_ = plan::plans_over_hosts(job, traffic, planned_);
}

std::string HostsTable::devices_of(const plan::HostsPlan& plan) const {
  std::string list;
  for (const plan::HostsPlan::Part& part : plan.hosts)
    list += (list.empty() ? "" : ",") + profile::device_list(part.plan.workers, planned_[part.host].groups);
  return list;
}

void HostsTable::print(int64_t batch) const {
  size_t width = 7;
  for (const plan::HostsPlan& plan : plans_) width = std::max(width, devices_of(plan).size());
  fmt::print("\n   {:>5} {:<{}} {:>9} {:>10} {:>16} {:>8}\n", "hosts", "devices", width, "step ms", "samples/s",
             "between hosts ms", "MB sent");
  const plan::HostsPlan& best = plan::best_of(plans_);
  for (const plan::HostsPlan& plan : plans_) {
    const double mini_batches = static_cast<double>(std::transform_reduce(
        plan.hosts.begin(), plan.hosts.end(), int64_t{0}, std::plus(), [](const auto& part) { return part.ests; }));
    fmt::print("{} {:>5} {:<{}} {:>9.2f} {:>10.1f} {:>16.2f} {:>8}\n", &plan == &best ? "->" : "  ", plan.hosts.size(),
               devices_of(plan), width, 1e3 * plan.step_seconds,
               mini_batches * static_cast<double>(batch) / plan.step_seconds, 1e3 * plan.exchange_seconds,
               sent_text(plan));
  }
  fmt::print("\nbest over hosts: --devices {}: {}\n", devices_of(best), best.reason);
  for (auto host = hosts_.begin() + 1; host != hosts_.end(); ++host) {
    const plan::Link& link = host->link;
    fmt::print("{}: {:.1f} MB/s, {:.2f} ms there and back, as measured{}\n", host->name, link.bytes_per_second / 1e6,
               1e3 * link.round_trip_seconds,
               host->slowness == 1 ? "" : fmt::format("; {:.2f} times as long for a mini-batch", host->slowness));
  }
}

Json HostsTable::to_json(int64_t batch) const {
  Json rows = Json::array();
  const plan::HostsPlan& best = plan::best_of(plans_);
  for (const plan::HostsPlan& plan : plans_) {
    Json hosts = Json::array();
    int64_t ests = 0;
    for (const plan::HostsPlan::Part& part : plan.hosts) {
      ests += part.ests;
      hosts.push_back({{"host", planned_[part.host].name}, {"ests", part.ests}, {"partial_sums", part.partial_sums}});
    }
    rows.push_back({{"hosts", hosts},
                    {"devices", devices_of(plan)},
                    {"step_seconds", plan.step_seconds},
                    {"compute_seconds", plan.compute_seconds},
                    {"exchange_seconds", plan.exchange_seconds},
                    {"bytes_sent", plan.bytes_sent},
                    {"factored", plan.factored},
                    {"samples_per_second", static_cast<double>(ests * batch) / plan.step_seconds},
                    {"reason", plan.reason},
                    {"best", &plan == &best}});
  }
  return rows;
}

const Alternative& PlanReport::best() const { return *std::ranges::find(table, true, &Alternative::best); }

void print_json(const PlanReport& report) {
  Json json = {{"plans", Json::array()}, {"profiles", Json::array()}};
  for (const Alternative& one : report.table) json["plans"].push_back(to_json(report, one));
  for (const profile::Basis& basis : report.basis) json["profiles"].push_back(to_json(report, basis));
  if (report.weighs_offer) {
    json["proposals"] = Json::array();
    for (const plan::Proposal& proposal : report.proposals) json["proposals"].push_back(to_json(report, proposal));
  }
  for (const PlanWithThreads& each : report.threads) {
    json["threads"].push_back(
        {{"threads", each.threads}, {"devices", each.devices}, {"step_seconds", each.step_seconds}});
  }
  if (report.over_hosts) json["over_hosts"] = report.over_hosts->to_json(report.batch);
  if (!report.gpu_bytes.empty()) json["gpu_bytes"] = report.gpu_bytes;
  if (!report.gpu_slot_bytes.empty()) json["gpu_slot_bytes"] = report.gpu_slot_bytes;
  json["crowding"] = report.crowding;
  json["database"] = report.database;
  fmt::print("{}\n", json_text(json));
}

void print_text(const PlanReport& report) {
  size_t width = 7;
  for (const Alternative& one : report.table) width = std::max(width, one.devices.size());
  fmt::print("   {:<{}} {:>14} {:>9} {:>10} {:>7} {:>12}\n", "devices", width, "ESTs", "step ms", "samples/s", "waste",
             "exchange ms");
  for (const Alternative& one : report.table) {
    fmt::print("{} {:<{}} {:>14} {:>9.2f} {:>10.1f} {:>7.1f} {:>12.2f}{}\n", one.best ? "->" : "  ", one.devices, width,
               ests_text(one.plan), 1e3 * one.plan.step_seconds, samples_per_second(report, one.plan), one.plan.waste,
               1e3 * one.plan.exchange_seconds, one.given ? "  (as listed)" : "");
  }
  fmt::print("\nbest: --devices {}: {}\n", report.best().devices, report.best().plan.reason);
  if (!report.gpu_memory.empty()) fmt::print("GPU memory: {}\n", report.gpu_memory);
  if (report.over_hosts) report.over_hosts->print(report.batch);
  if (!report.threads.empty()) print_threads(report);
  if (report.weighs_offer) print_proposals(report);
  print_basis(report);
}

}  // namespace estrain::cmd
