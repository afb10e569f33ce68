#include "cmd/plan_report.h"

#include <algorithm>

#include "core/base/json/json_text.h"
#include "core/base/process/memory_use.h"

namespace estrain::cmd {
namespace {

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
  for (const plan::Share& share : one.plan.workers) {
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
  const auto [least, most] = std::ranges::minmax(plan.workers, {}, &plan::Share::ests);
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
  if (report.over_hosts) report.over_hosts->print(report.batch);
  if (!report.threads.empty()) print_threads(report);
  if (report.weighs_offer) print_proposals(report);
  print_basis(report);
}

}  // namespace estrain::cmd
