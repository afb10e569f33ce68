#include "core/planning/dispatch/shared_speeds.h"

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/median.h"

namespace estrain::dispatch {

SharedSpeeds::SharedSpeeds(const State& state) {
  const auto add = [](All& all, JobId job, const auto& measured) {
    if (measured.times > 0 && all.size() < kJobs) all.push_back({job, measured.seconds, measured.times});
  };
  std::set<std::string> hosts;
  for (const Slot& slot : state.slots) hosts.insert(slot.host());
  hosts_ = std::ssize(hosts);
  for (const auto& [host, link] : state.links) {
    if (!hosts.contains(host)) continue;
    if (!link_) link_ = link;
    link_->bytes_per_second = std::min(link_->bytes_per_second, link.bytes_per_second);
    link_->round_trip_seconds = std::max(link_->round_trip_seconds, link.round_trip_seconds);
  }
  for (auto newest = state.jobs.rbegin(); newest != state.jobs.rend(); ++newest) {
    const auto& [id, job] = *newest;
    for (const auto& [one, time] : job.speeds.mini_batches()) {
      for (const auto& [other, other_time] : job.speeds.mini_batches()) {
        std::vector<double>& ratios = ratios_[{one, other}];
        if (one != other && ratios.size() < kJobs) ratios.push_back(other_time.seconds / time.seconds);
      }
    }
    if (job.work.empty()) continue;
    auto& steps = steps_[{work_of(job), job.batch_in_force()}];
    for (const auto& [key, measured] : job.speeds.measured()) add(steps[key], id, measured);
    auto& by_type = by_type_[{work_of(job), job.batch_in_force()}];
    for (const auto& [type, measured] : job.speeds.mini_batches()) add(by_type[type], id, measured);
    if (!job.request.batch) continue;
    auto& mini_batches = mini_batches_[work_of(job)];
    for (const auto& [batch, measured] : job.batch_times.measured()) add(mini_batches[batch], id, measured);
  }
}

// A job's exchange among hosts that are not known yet: over links as slow as the slowest.
void SharedSpeeds::expect_exchanges(const Job& job, JobSpeeds& speeds) const {
  if (!link_ || !(job.gradient_bytes > 0)) return;
  for (int64_t hosts = 2; hosts <= std::min(hosts_, job.request.ests); ++hosts)
    speeds.expect_exchange(hosts, plan::exchange_seconds(job.gradient_bytes, hosts, *link_));
}

// From the type that the job knows best.
void SharedSpeeds::expect_other_types(JobSpeeds& speeds) const {
  const auto& known = speeds.mini_batches();
  if (known.empty()) return;
  const auto times = [](const auto& entry) { return entry.second.times; };
  const auto& [best, measured] = *std::ranges::max_element(known, {}, times);
  for (const auto& [types, ratios] : ratios_) {
    const auto& [one, other] = types;
    if (one != best || ratios.empty() || known.contains(other) || speeds.expected_on().contains(other)) continue;
    speeds.expect_on(best, measured.seconds);
    speeds.expect_on(other, measured.seconds * upper_median(ratios));
  }
}

SharedSpeeds::Work SharedSpeeds::work_of(const Job& job) {
  return {job.work, job.request.ests, job.request.batch ? job.request.batch->terms.own : 0};
}

SharedSpeeds::Mean SharedSpeeds::mean_of_others(const All& all, JobId job) {
  Mean mean;
  for (const MeasuredByJob& one : all) {
    if (one.job == job) continue;
    const int64_t times = std::min(one.times, kTimes);
    mean.times += times;
    mean.seconds += (one.seconds - mean.seconds) * static_cast<double>(times) / static_cast<double>(mean.times);
  }
  return mean;
}

double SharedSpeeds::slower(const Job& job, const std::map<JobSpeeds::DevicesKey, All>& all,
                            const JobSpeeds::DevicesKey& key) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  double ratio = 1;
  std::pair nearest{kFar, kFar};
  for (const auto& [at, own] : job.speeds.measured()) {
    const auto same = all.find(at);
    if (at.type != key.type || own.times == 0 || same == all.end()) continue;
    const Mean others = mean_of_others(same->second, job.id);
    const std::pair away = apart(at, key);
    if (others.times == 0 || away >= nearest) continue;
    nearest = away;
    ratio = own.seconds / others.seconds;
  }
  return ratio;
}

JobSpeeds SharedSpeeds::speeds_of(const Job& job) const {
  JobSpeeds speeds;
  speeds.expect(job.speeds.expected());
  expect_exchanges(job, speeds);
  for (const auto& [type, seconds] : job.speeds.expected_on()) speeds.expect_on(type, seconds);
  for (const auto& [type, measured] : job.speeds.mini_batches()) speeds.restore_mini_batch(type, measured);
  for (const auto& [key, measured] : job.speeds.measured()) speeds.restore(key, measured);
  const auto known = steps_.find({work_of(job), job.batch_in_force()});
  if (job.work.empty() || known == steps_.end()) {
    expect_other_types(speeds);
    return speeds;
  }
  for (const auto& [key, all] : known->second) {
    const auto own = job.speeds.measured().find(key);
    if (own != job.speeds.measured().end() && own->second.times > 0) continue;
    const Mean others = mean_of_others(all, job.id);
    if (others.times > 0) speeds.restore(key, {others.seconds * slower(job, known->second, key), others.times});
  }
  for (const auto& [type, all] : by_type_.at(known->first)) {
    const Mean others = mean_of_others(all, job.id);
    if (others.times > 0 && !job.speeds.mini_batches().contains(type))
      speeds.restore_mini_batch(type, {others.seconds, others.times});
  }
  expect_other_types(speeds);
  return speeds;
}

scheduling::BatchTimes SharedSpeeds::batch_times_of(const Job& job) const {
  scheduling::BatchTimes times = job.batch_times;
  const auto known = mini_batches_.find(work_of(job));
  if (job.work.empty() || known == mini_batches_.end()) return times;
  for (const auto& [batch, all] : known->second) {
    const Mean others = mean_of_others(all, job.id);
    if (!job.batch_times.measured().contains(batch) && others.times > 0)
      times.restore(batch, {others.seconds, others.times});
  }
  return times;
}

}  // namespace estrain::dispatch
