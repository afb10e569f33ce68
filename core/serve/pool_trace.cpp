#include "core/serve/pool_trace.h"

#include <algorithm>
#include <charconv>
#include <deque>

#include "core/base/json/json_text.h"

namespace estrain::serve {
namespace {

using dispatch::Job;
using dispatch::JobId;

struct Mean {
  double sum = 0;
  int64_t times = 0;
  void add(double value) { sum += value, ++times; }
  double or_else(double other) const { return times == 0 ? other : sum / static_cast<double>(times); }
};

// How long one kind of work of the pool took, by job.
class Durations {
 public:
  // From each line `from` of a job to its next line `to`.
  Durations(const std::vector<Line>& history, std::string_view from, std::string_view to) {
    std::map<JobId, double> began;
    for (const Line& line : history) {
      if (line.job == 0) continue;
      if (line.what == to && began.contains(line.job)) {
        by_job_[line.job].add(line.time - began[line.job]);
        all_.add(line.time - began[line.job]);
      }
      began.erase(line.job);  // what lies between has cut it short
      if (line.what == from) began[line.job] = line.time;
    }
  }
  // Where the job has none, the mean of all jobs.
  double of(JobId job) const {
    const auto at = by_job_.find(job);
    return at == by_job_.end() ? all_.or_else(0) : at->second.or_else(0);
  }

 private:
  std::map<JobId, Mean> by_job_;
  Mean all_;
};

// A job that ended before it was looked at has the speed that was expected.
Json seen_json(const dispatch::Job& job) {
  const dispatch::Request& request = job.request;
  const int64_t usual = std::clamp<int64_t>(request.devices, 1, std::min(request.most, request.ests));
  Json seen = Json::array();
  if (job.speeds.seen().empty())
    seen.push_back({request.type, usual, usual, job.speeds.step_seconds(request.type, usual, request.ests)});
  for (const auto& [key, steps] : job.speeds.seen()) {
    const auto& [type, devices, in_use] = key;
    seen.push_back({type, devices, in_use, steps.seconds / static_cast<double>(steps.steps)});
  }
  return seen;
}

Json job_json(const Job& job, double first) {
  const dispatch::Request& request = job.request;
  const double changes = static_cast<double>(std::max<int64_t>(1, job.starts - 1));
  return {{"job", job.id},
          {"name", request.name},
          {"user", request.user},
          {"priority", request.priority},
          {"submit_s", job.submitted - first},
          {"ests", request.ests},
          {"devices", request.devices},
          {"least", request.least},
          {"most", request.most},
          {"type", request.type},
          {"mixes_types", request.mixes_types},
          {"weighs_offers", request.weighs_offers},
          {"deadline_s", request.deadline ? Json(*request.deadline - first) : Json()},
          {"steps", request.total_steps},
          {"mini_batch_s", job.speeds.expected()},
          {"lost_s", job.lost / changes},
          {"seen", seen_json(job)}};
}

// "within 2 s"
Json seconds_in(std::string_view reason) {
  constexpr std::string_view kBefore = "within ";
  double seconds = 0;
  if (!reason.starts_with(kBefore)) return {};
  reason.remove_prefix(kBefore.size());
  const auto [end, wrong] = std::from_chars(reason.data(), reason.data() + reason.size(), seconds);
  return wrong == std::errc() ? Json(seconds) : Json();
}

// Devices that are away still are left out.
std::string lines_of_taken_devices(const std::vector<Line>& history, double first) {
  std::string text;
  std::deque<const Line*> taken;
  for (const Line& line : history) {
    for (int64_t i = 0; line.what == "take" && i < line.devices; ++i) taken.push_back(&line);
    for (int64_t i = 0; line.what == "lend" && i < line.devices && !taken.empty(); ++i) {
      const Line& take = *taken.front();
      taken.pop_front();
      if (take.time < first) continue;
      text +=
          json_text(
              {{"taken_s", take.time - first}, {"within_s", seconds_in(take.reason)}, {"lent_s", line.time - first}}) +
          "\n";
    }
  }
  return text;
}

std::string lines_without_daemon(const std::vector<Line>& history, double first) {
  std::string text;
  double left = 0;
  for (const Line& line : history) {
    if (line.what == "away") left = line.time;
    if (line.what == "served" && left > 0 && line.time > first)
      text += json_text({{"away_s", std::max(left, first) - first}, {"served_s", line.time - first}}) + "\n";
  }
  return text;
}

}  // namespace

std::string trace_of(const dispatch::State& state, const std::vector<Line>& history, int64_t cores) {
  Json devices = Json::array();
  for (const dispatch::Slot& slot : state.slots) devices.push_back(slot.name);
  std::string text = json_text({{"pool", {{"devices", devices}, {"cores", cores}, {"policy", state.policy}}}}) + "\n";
  const std::pair<const char*, Durations> durations[] = {
      {"check_s", {history, "submitted", "admitted"}}, {"start_s", {history, "started", "trains"}},
      {"grow_s", {history, "grows", "changed"}},       {"shrink_s", {history, "shrinks", "changed"}},
      {"stop_s", {history, "stops", "stopped"}},
  };
  double first = 0;
  for (const auto& [id, job] : state.jobs) first = first == 0 ? job.submitted : std::min(first, job.submitted);
  for (const auto& [id, job] : state.jobs) {
    if (job.phase != dispatch::Phase::done || job.request.total_steps < 1) continue;
    Json line = job_json(job, first);
    for (const auto& [name, duration] : durations) line[name] = duration.of(id);
    text += json_text(line) + "\n";
  }
  return text + lines_of_taken_devices(history, first) + lines_without_daemon(history, first);
}

}  // namespace estrain::serve
