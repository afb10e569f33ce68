#include "cmd/plan_hosts.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "cmd/job_hosts.h"
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
  for (const std::string& name : names()) hosts_.push_back({{name, {}, {}}});
  if (status != nullptr && status->hosts) {
    Json rows = Json::array();
    const launch::HostStatus& own = status->hosts->front();
    for (const launch::HostStatus& row : *status->hosts) {
      const auto host = std::ranges::find(hosts_, row.host, [](const Host& each) { return each.devices.name; });
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

void HostsTable::take_links(const Json& rows) {
  for (auto host = hosts_.begin() + 1; host != hosts_.end(); ++host) {
    const std::string& name = host->devices.name;
    const auto row = std::ranges::find_if(rows, [&](const Json& each) { return each.value("host", "") == name; });
    if (row == rows.end() || !row->contains("bytes_per_second"))
      throw Error::make(Fault::peer, "how far host {} is is not known: {}", name,
                        row == rows.end() ? "the run has no link to it" : row->value("error", ""))
          .advise("start an agent there, or leave it out of --devices");
    host->devices.link = {row->value("bytes_per_second", 0.0), row->value("round_trip_seconds", 0.0)};
  }
}

void HostsTable::make_plans(const plan::Job& job, const std::vector<plan::DeviceGroup>& groups, double gradient_bytes) {
  planned_.clear();
  for (const Host& host : hosts_) {
    plan::HostDevices devices = host.devices;
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
        added.mini_batches_per_second /= host.slowness;
        group = devices.groups.insert(group, added);
      }
      ++group->count;
    }
    planned_.push_back(std::move(devices));
  }
  plans_ = plan::plans_over_hosts(job, {gradient_bytes}, planned_);
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
    const plan::Link& link = host->devices.link;
    fmt::print("{}: {:.1f} MB/s, {:.2f} ms there and back, as measured{}\n", host->devices.name,
               link.bytes_per_second / 1e6, 1e3 * link.round_trip_seconds,
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
                    {"samples_per_second", static_cast<double>(ests * batch) / plan.step_seconds},
                    {"reason", plan.reason},
                    {"best", &plan == &best}});
  }
  return rows;
}

}  // namespace estrain::cmd
