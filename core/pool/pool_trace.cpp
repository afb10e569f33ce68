#include "core/pool/pool_trace.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/trace/pool_trace.h"

namespace estrain::pool {
namespace {

using dispatch::Away;
using dispatch::Counted;
using dispatch::Job;
using dispatch::JobId;
using dispatch::PastJob;
using dispatch::seconds_in;
using dispatch::Taken;

struct Mean {
  double sum = 0;
  int64_t times = 0;
  void add(double value) { sum += value, ++times; }
  double or_else(double other) const { return times == 0 ? other : sum / static_cast<double>(times); }
};

// The moment of the event in the line. A daemon that finds a job at work learns only then that the job trains.
double moment_of(const Line& line) { return line.time - seconds_in(Counted::began_earlier, line.reason).value_or(0); }

// The durations of one kind of work of the pool, by job.
class Durations {
 public:
  // Measures from each line `from` of a job to its next line `to`. A duration cut short by other lines counts in no
  // mean; each() has the mean in its place, and later durations keep their number. Neither another decision nor a new
  // daemon cuts a duration short.
  Durations(const std::vector<Line>& history, std::string_view from, std::string_view to) {
    std::map<JobId, double> began;
    for (const Line& line : history) {
      if (line.job == 0 || line.what == "devices" || line.what == "found") continue;
      if (line.what == to && began.contains(line.job)) {
        const double took = moment_of(line) - began[line.job];
        each_[line.job].back() = took;
        by_job_[line.job].add(took);
        all_.add(took);
      }
      began.erase(line.job);
      if (line.what != from) continue;
      began[line.job] = line.time;
      each_[line.job].emplace_back();
    }
  }
  // Returns the mean of all jobs for a job without durations.
  double of(JobId job) const {
    const auto at = by_job_.find(job);
    return at == by_job_.end() ? all_.or_else(0) : at->second.or_else(0);
  }
  bool any() const { return all_.times > 0; }
  // In order of time.
  std::vector<double> each(JobId job) const {
    std::vector<double> all;
    if (!each_.contains(job)) return all;
    for (const std::optional<double>& one : each_.at(job)) all.push_back(one.value_or(of(job)));
    return all;
  }

 private:
  std::map<JobId, Mean> by_job_;
  std::map<JobId, std::vector<std::optional<double>>> each_;  // nothing: cut short
  Mean all_;
};

// A job that ended before the first look has the expected speed.
std::vector<PastJob::PastSpeed> seen_of(const Job& job) {
  const dispatch::Request& request = job.request;
  const int64_t usual = std::clamp<int64_t>(request.devices, 1, std::min(request.most, request.ests));
  if (job.speeds.seen().empty())
    return {{request.type, usual, usual,
             job.speeds.step_seconds({request.type, usual, 1}, request.ests) / job.owners_steps()}};
  std::vector<PastJob::PastSpeed> all;
  for (const auto& [key, steps] : job.speeds.seen()) {
    const auto& [type, devices, in_use] = key;
    all.push_back({type, devices, in_use, steps.seconds / steps.steps});
  }
  return all;
}

std::vector<PastJob::PastPace> paces_of(const Job& job, double first) {
  std::vector<PastJob::PastPace> all;
  for (const dispatch::JobSpeeds::Pace& pace : job.speeds.paces().all()) {
    all.push_back({pace.type, pace.devices, pace.in_use, std::max(0.0, pace.from - first), pace.to - first,
                   (pace.to - pace.from) / pace.steps, pace.told});
  }
  return all;
}

int64_t whole_owners_steps(const Job& job, int64_t step) { return std::llround(job.in_owners_steps(step)); }

PastJob past_of(const Job& job, double first) {
  const double changes = static_cast<double>(std::max<int64_t>(1, job.starts - 1));
  PastJob past;
  past.id = job.id;
  past.request = job.request;
  if (job.request.batch && job.batch.own_steps > 0) past.request.total_steps = job.batch.own_steps;
  past.request.batch.reset();  // a replay leaves batches alone
  past.submitted = job.submitted - first;
  if (past.request.deadline) *past.request.deadline -= first;
  past.mini_batch = job.speeds.expected() / job.owners_steps();
  past.work = job.work;
  past.program = job.memory.program;
  if (job.request.early_stop) {
    past.most_steps = whole_owners_steps(job, job.request.total_steps);
    past.request.total_steps = whole_owners_steps(job, job.step);
    past.evaluations = job.evaluations.kept;
    for (dispatch::Evaluation& one : past.evaluations) one.step = whole_owners_steps(job, one.step);
  }
  past.lost = job.lost / changes;
  past.seen = seen_of(job);
  past.paces = paces_of(job, first);
  return past;
}

// Devices that are away still are left out.
std::vector<Taken> taken_devices(const std::vector<Line>& history, double first) {
  struct Open {
    const Line* line;
    std::string name;
  };
  std::vector<Taken> all;
  std::deque<Open> taken;
  for (const Line& line : history) {
    for (const std::string& name : line.names) {
      if (line.what == "take") taken.push_back({&line, name});
      if (line.what != "lend") continue;
      const auto at = std::ranges::find(taken, name, &Open::name);
      if (at == taken.end()) continue;
      const Open take = *at;
      taken.erase(at);
      if (take.line->time < first) continue;
      all.push_back(
          {take.line->time - first, line.time - first, seconds_in(Counted::within, take.line->reason), take.name});
    }
  }
  std::ranges::stable_sort(all, {}, &Taken::from);
  return all;
}

// Walks back from the present devices to the devices at the first submission.
class DevicesBefore {
 public:
  DevicesBefore(const dispatch::State& state, double first) : first_(first) {
    for (const dispatch::Slot& slot : state.slots) {
      if (!slot.for_good) there_.push_back(slot.name);
    }
  }

  void undo(const Line& line) {
    if (line.time < first_ || line.names.empty()) return;
    const double at = line.time - first_;
    if (line.what == "add") {
      added_.push_front({at, line.names});
      for (const std::string& name : line.names) {
        const auto last = std::find(there_.rbegin(), there_.rend(), name);
        if (last != there_.rend()) there_.erase(std::next(last).base());
      }
    } else if (line.what == "remove") {
      removed_.push_front({at, seconds_in(Counted::within, line.reason), line.names});
      there_.insert(there_.end(), line.names.begin(), line.names.end());
    } else if (line.what == "lost") {
      lost_.push_front({at, dispatch::host_in(line.names.front())});
      there_.insert(there_.end(), line.names.begin(), line.names.end());
    }
  }

  void tell(dispatch::PoolTrace& trace) const {
    trace.devices = there_;
    trace.added.assign(added_.begin(), added_.end());
    trace.removed.assign(removed_.begin(), removed_.end());
    trace.lost.assign(lost_.begin(), lost_.end());
  }

 private:
  double first_;
  std::vector<std::string> there_;
  std::deque<dispatch::Added> added_;
  std::deque<dispatch::Removed> removed_;
  std::deque<dispatch::HostGone> lost_;
};

std::vector<Away> times_without_daemon(const std::vector<Line>& history, double first) {
  std::vector<Away> all;
  double left = 0;
  for (const Line& line : history) {
    if (line.what == "away") left = line.time;
    if (line.what == "served" && left > 0 && line.time > first)
      all.push_back({std::max(left, first) - first, line.time - first});
  }
  return all;
}

std::vector<Line> without_guests(std::vector<Line> history, const dispatch::State& state) {
  std::erase_if(history, [&](const Line& line) { return dispatch::is_guest(state, line.job); });
  return history;
}

}  // namespace

std::string trace_of(const dispatch::State& state, const std::vector<Line>& lines, int64_t cores) {
  const std::vector<Line> history = without_guests(lines, state);
  dispatch::PoolTrace trace;
  trace.cores = cores;
  trace.policy = state.policy;
  for (const auto& [host, host_cores] : state.cores) trace.hosts.push_back({host, host_cores});
  const Durations check(history, "submitted", "admitted"), start(history, "started", "trains"),
      grow(history, "grows", "changed"), shrink(history, "shrinks", "changed"), stop(history, "stops", "stopped"),
      move(history, "orphaned", "moved");
  double first = 0;
  for (const auto& [id, job] : state.jobs) first = first == 0 ? job.submitted : std::min(first, job.submitted);
  for (const auto& [id, job] : state.jobs) {
    if (job.phase != dispatch::Phase::done || job.request.total_steps < 1 || job.request.background) continue;
    PastJob& past = trace.jobs.emplace_back(past_of(job, first));
    past.check = check.of(id);
    past.start = start.of(id);
    past.grow = grow.of(id);
    past.shrink = shrink.of(id);
    past.stop = stop.of(id);
    if (move.any()) past.move = move.of(id);
    for (const auto& [what, durations] :
         {std::pair("start", &start), {"grow", &grow}, {"shrink", &shrink}, {"stop", &stop}, {"move", &move}}) {
      for (const double seconds : durations->each(id)) past.took.push_back({what, seconds});
    }
    for (const Line& line : history) {
      if (line.job != id || line.what != "changed") continue;
      if (const auto lost = seconds_in(Counted::stood_still, line.reason)) past.took.push_back({"lost", *lost});
    }
  }
  DevicesBefore devices(state, first);
  for (auto line = history.rbegin(); line != history.rend(); ++line) devices.undo(*line);
  devices.tell(trace);
  trace.taken = taken_devices(history, first);
  trace.away = times_without_daemon(history, first);
  return trace.text();
}

}  // namespace estrain::pool
