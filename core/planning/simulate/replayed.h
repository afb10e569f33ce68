#pragma once
// The devices and jobs of a replayed pool (replay.h), in virtual time.

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/planning/dispatch/event.h"
#include "core/planning/dispatch/trace/pool_trace.h"

namespace estrain::simulate {

// The devices of a replayed pool: they join, leave, are taken and lent again at the moments of the trace.

using DeviceChange = std::variant<dispatch::HostGone, dispatch::Removed, dispatch::Added>;

class ReplayedDevices {
 public:
  using Slots = std::vector<dispatch::Slot>;

  explicit ReplayedDevices(const dispatch::PoolTrace& trace);

  // Calls `consider` with the moment of each event. Some moments are past.
  void for_each_moment(const std::function<void(double)>& consider) const;

  // Returns the devices that joined and left since the last call, in order of time.
  std::vector<DeviceChange> due(double now);
  void remove(const dispatch::Removed& removed) { to_remove_.push_back(removed); }
  void lose(const std::string& host);  // nothing of this host is removed or lent again
  // Returns the present devices of the devices to remove.
  std::vector<dispatch::Withdrawal> removals(const Slots& slots);

  // Returns the devices taken now. If the pool has fewer, returns all of the pool's.
  std::vector<dispatch::Withdrawal> taken(const Slots& slots, double now);
  // Returns the names of the devices due to come back.
  std::vector<std::string> lent(const Slots& slots, double now);

 private:
  const dispatch::PoolTrace& trace_;
  std::vector<std::pair<double, DeviceChange>> changes_;  // in order of time
  size_t next_change_ = 0, next_taken_ = 0;
  std::vector<dispatch::Removed> to_remove_;
  std::vector<std::pair<double, std::string>> to_lend_;  // moment, device
};

inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct ReplayedJob {
  const dispatch::PastJob* job = nullptr;
  std::vector<std::string> held;
  double trains_at = 0;  // the job trains from this moment on: after the start, or after a change
  double step = 0, saved_step = 0;
  double stops_at = kNever, changes_at = kNever;
  double moves_at = kNever;            // to a second host of the job: the launcher's host was lost
  std::vector<std::string> held_then;  // after the change
  double looked = 0;
  bool has_trained = false;

  int64_t devices() const { return static_cast<int64_t>(held.size()); }
  // Returns the moment at which the pool looked next, if the trace has such a moment soon.
  std::optional<double> measured_look() const;
  // Returns measured_look(), or a second after the last look.
  double next_look() const;
  bool has_ended() const { return step >= static_cast<double>(job->request.total_steps) - 1e-9; }
};

// The running jobs, in place of their launchers: jobs start, train, change and stop.
class ReplayedJobs {
 public:
  using JobId = dispatch::JobId;

  explicit ReplayedJobs(const dispatch::PoolTrace& trace) : trace_(trace) {}

  ReplayedJob& operator[](JobId id) { return running_[id]; }
  bool contains(JobId id) const { return running_.contains(id); }
  void erase(JobId id) { running_.erase(id); }
  std::vector<JobId> ids() const;
  int64_t devices_of(JobId id) const;

  double step_seconds(const ReplayedJob& running, double now) const;
  // Returns the time of a step as the job's launcher tells it at a look; 0: no time. If the trace has a pace of the job
  // on as many devices at this moment, the time told then; else 0 until the launcher has measured some steps on these
  // devices, by the rules of run/launch/profiling/speed_meter.h.
  double told_step_seconds(const ReplayedJob& running, double now) const;

  // Sets the devices in use on each host: including devices that jobs are about to take, and on the daemon's host a
  // device for each check at work.
  void in_use(std::map<std::string, int64_t> devices) { in_use_ = std::move(devices); }

  // Calls `consider` with the moment of each event of a job. Some moments are past.
  void for_each_moment(double now, const std::function<void(double)>& consider) const;

  // Lets all jobs train from `now` to `to`.
  void advance(double now, double to);

 private:
  const dispatch::PoolTrace& trace_;
  std::map<JobId, ReplayedJob> running_;
  std::map<std::string, int64_t> in_use_;
};

}  // namespace estrain::simulate
