#include "core/planning/simulate/replayed_jobs.h"

#include <algorithm>
#include <set>

namespace estrain::simulate {

using dispatch::PastJob;

namespace {

constexpr double kSame = 1e-3;  // s between two moments taken as the same

}  // namespace

std::optional<double> ReplayedJob::measured_look() const {
  constexpr double kAtMost = 1.5;  // s
  const auto pace = std::ranges::upper_bound(job->paces, looked + kSame, {}, &PastJob::PastPace::to);
  if (pace == job->paces.end() || pace->to > looked + kAtMost) return std::nullopt;
  return pace->to;
}

double ReplayedJob::next_look() const {
  constexpr double kLook = 1;  // s
  return measured_look().value_or(looked + kLook);
}

std::vector<dispatch::JobId> ReplayedJobs::ids() const {
  std::vector<JobId> ids;
  for (const auto& [id, running] : running_) ids.push_back(id);
  return ids;
}

int64_t ReplayedJobs::devices_of(JobId id) const {
  const auto running = running_.find(id);
  return running == running_.end() ? 0 : running->second.devices();
}

double ReplayedJobs::step_seconds(const ReplayedJob& running, double now) const {
  const std::string type = dispatch::Slot{0, running.held.front()}.type();
  std::set<std::string> hosts;
  for (const std::string& name : running.held) hosts.insert(dispatch::Slot{0, name}.host());
  int64_t in_use = 0, cores = 0;
  for (const std::string& host : hosts) {
    if (const auto at = in_use_.find(host); at != in_use_.end()) in_use += at->second;
    cores += trace_.cores_of(host);
  }
  return running.job->step_seconds_at(now, {type, running.devices(), std::max(in_use, running.devices()), cores});
}

double ReplayedJobs::told_step_seconds(const ReplayedJob& running, double now) const {
  constexpr double kColdSteps = 2, kWindowSteps = 5, kWindow = 0.25;
  const std::string type = dispatch::Slot{0, running.held.front()}.type();
  const PastJob::PastPace* pace =
      running.job->pace_at(now - kSame, type, running.devices());  // the pace with its end now
  if (pace != nullptr && pace->from < now && now < pace->to + kSame) return now > pace->to - kSame ? pace->told : 0;
  const double seconds = step_seconds(running, now);
  const double measured = running.trains_at + kColdSteps * seconds + std::max(kWindowSteps * seconds, kWindow);
  return now >= measured ? seconds : 0;
}

void ReplayedJobs::for_each_moment(double now, const std::function<void(double)>& consider) const {
  for (const auto& [id, running] : running_) {
    for (const double at :
         {running.trains_at, running.stops_at, running.changes_at, running.moves_at, running.next_look()})
      consider(at);
    const double left = static_cast<double>(running.job->request.total_steps) - running.step;
    consider(std::max(now, running.trains_at) + left * step_seconds(running, now));
  }
}

void ReplayedJobs::advance(double now, double to) {
  for (auto& [id, running] : running_) {
    const double trained = to - std::max(now, running.trains_at);
    const auto total = static_cast<double>(running.job->request.total_steps);
    if (trained > 0 && running.stops_at == kNever)
      running.step = std::min(total, running.step + trained / step_seconds(running, now));
  }
}

}  // namespace estrain::simulate
