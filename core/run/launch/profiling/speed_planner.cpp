#include "core/run/launch/profiling/speed_planner.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace estrain::launch {
namespace {

// Devices of a kind are alike to the planner if their speeds differ by at most this share.
constexpr double kAlike = 0.10;

}  // namespace

// Devices that are alike, and the workers on these devices.
struct SpeedPlanner::Group {
  std::string kind;
  std::string model;
  double seconds = 0;            // per mini-batch while no other worker computes
  std::vector<int64_t> workers;  // -1: an idle device

  bool takes(const std::string& other_kind, double other_seconds) const {
    return kind == other_kind && std::abs(other_seconds - seconds) <= kAlike * seconds;
  }
  void add(double other_seconds, int64_t worker) {
    const auto count = static_cast<double>(workers.size());
    seconds = (seconds * count + other_seconds) / (count + 1);
    workers.push_back(worker);
  }
};

std::vector<plan::DeviceGroup> SpeedPlanner::as_devices(const std::vector<Group>& groups) {
  std::vector<plan::DeviceGroup> devices;
  for (const Group& group : groups) {
    devices.push_back({.kind = group.kind,
                       .count = std::ssize(group.workers),
                       .mini_batches_per_second = 1 / group.seconds,
                       .model = group.model});
  }
  return devices;
}

profile::StageSpeed as_stage_speed(const SpeedMeter::MeasuredSteps& span) {
  profile::StageSpeed stage;
  stage.steps = span.steps;
  stage.seconds = span.seconds;
  for (const SpeedMeter::Worker& worker : span.workers) {
    stage.workers.push_back({worker.kind, worker.ests, worker.mini_batches, seconds(worker.computing).count()});
  }
  return stage;
}

void SpeedPlanner::learn(const SpeedMeter::MeasuredSteps& span, int64_t now) {
  const auto idle = [](const SpeedMeter::Worker& worker) { return worker.mini_batches == 0; };
  if (span.steps == 0 || std::ranges::any_of(span.workers, idle)) return;
  profiles.learn(*spec_, host_, as_stage_speed(span), now);
}

// Returns the time per mini-batch of a worker, without a lone worker's update work within the mini-batch.
double SpeedPlanner::computing_seconds(const SpeedMeter::MeasuredSteps& span, size_t worker) const {
  const SpeedMeter::Worker& one = span.workers[worker];
  const double seconds = one.seconds_per_mini_batch();
  if (!profile::updates_within_mini_batch(*spec_, static_cast<int64_t>(span.workers.size()))) return seconds;
  const profile::Capability* known = profiles.find(profile::describe_work(*spec_, one.kind, host_));
  if (known == nullptr || !known->update) return seconds;
  return std::max(seconds / 2, seconds - known->update->seconds / static_cast<double>(one.ests));
}

profile::PlanInputs SpeedPlanner::inputs(const Devices& devices) const {
  std::vector<profile::KindCount> counts;
  for (const auto& [kind, count] : count_devices(devices)) counts.push_back({kind, count});
  return profile::plan_job(profiles, *spec_, host_, counts, 0, allow_mixed_);
}

std::vector<SpeedPlanner::Group> SpeedPlanner::groups(const SpeedMeter::MeasuredSteps& span, const Devices& held,
                                                      const profile::PlanInputs& inputs) const {
  std::vector<Group> groups;
  const auto put = [&](const std::string& kind, double seconds, int64_t worker) {
    const auto group = std::ranges::find_if(groups, [&](const Group& other) { return other.takes(kind, seconds); });
    if (group != groups.end()) return group->add(seconds, worker);
    groups.push_back({kind, host_.model_of(kind), seconds, {worker}});
  };
  std::map<std::string, int64_t> idle = count_devices(held);
  const std::vector<double> always = profile::crowded_all_the_time(as_stage_speed(span), inputs.job.crowding);
  const double crowding = inputs.job.crowding_of(std::ssize(span.workers));
  for (size_t i = 0; i < span.workers.size(); ++i) {
    const SpeedMeter::Worker& worker = span.workers[i];
    if (idle[worker.kind] == 0) continue;  // the job no longer holds the device
    idle[worker.kind] -= 1;
    put(worker.kind, computing_seconds(span, i) * always[i] / crowding, worker.id);
  }
  std::map<std::string, double> known;
  for (const plan::DeviceGroup& group : inputs.groups) known[group.kind] = 1 / group.mini_batches_per_second;
  for (const Group& group : groups) known.try_emplace(group.kind, group.seconds);
  double mean = 0;
  for (const auto& [kind, seconds] : known) mean += seconds / static_cast<double>(known.size());
  for (const auto& [kind, count] : idle) {
    const auto at = known.find(kind);
    for (int64_t i = 0; i < count; ++i) put(kind, at == known.end() ? mean : at->second, -1);
  }
  return groups;
}

plan::Plan SpeedPlanner::current(const SpeedMeter::MeasuredSteps& span) const { return evaluated(span, span); }

// The plan of the shares of `moved`, of the same workers, at the speeds of `span`.
plan::Plan SpeedPlanner::evaluated(const SpeedMeter::MeasuredSteps& span,
                                   const SpeedMeter::MeasuredSteps& moved) const {
  std::vector<std::string> kinds;
  for (const SpeedMeter::Worker& worker : span.workers) kinds.push_back(worker.kind);
  const Devices devices = placement::devices_from(kinds);
  const profile::PlanInputs in = inputs(devices);
  const std::vector<Group> present = groups(span, devices, in);
  std::vector<plan::WorkerShare> shares;
  for (const SpeedMeter::Worker& worker : moved.workers) {
    const auto group = std::ranges::find_if(
        present, [&](const Group& g) { return std::ranges::find(g.workers, worker.id) != g.workers.end(); });
    shares.push_back({group - present.begin(), worker.ests});
  }
  return plan::evaluate(in.job, as_devices(present), std::move(shares));
}

// Gives each worker one EST, then each further EST to the worker that would finish it first.
Placement SpeedPlanner::balanced(const SpeedMeter::MeasuredSteps& span) const {
  SpeedMeter::MeasuredSteps moved = span;
  std::vector<double> seconds;
  for (size_t i = 0; i < span.workers.size(); ++i) seconds.push_back(computing_seconds(span, i));
  for (SpeedMeter::Worker& worker : moved.workers) worker.ests = 1;
  for (int64_t left = spec_->job.ests - static_cast<int64_t>(span.workers.size()); left > 0; --left) {
    size_t next = 0;
    const auto done = [&](size_t i) { return static_cast<double>(moved.workers[i].ests + 1) * seconds[i]; };
    for (size_t i = 1; i < seconds.size(); ++i) {
      if (done(i) < done(next)) next = i;
    }
    moved.workers[next].ests += 1;
  }
  Placement placement;
  placement.plan = evaluated(span, moved);
  for (const SpeedMeter::Worker& worker : moved.workers) {
    placement.devices.push_back({placement::parse_device(worker.kind).value(), worker.ests});
    placement.workers.push_back(worker.id);
  }
  return placement;
}

Placement SpeedPlanner::best(const SpeedMeter::MeasuredSteps& span, const Devices& held) const {
  const profile::PlanInputs in = inputs(held);
  std::vector<Group> all = groups(span, held, in);
  Placement placement;
  placement.plan = plan::best_plan(in.job, as_devices(all));
  for (const plan::WorkerShare& share : placement.plan.workers) {
    Group& group = all[static_cast<size_t>(share.group)];
    placement.devices.push_back({placement::parse_device(group.kind).value(), share.ests});
    placement.workers.push_back(group.workers.front());
    group.workers.erase(group.workers.begin());
  }
  return placement;
}

}  // namespace estrain::launch
