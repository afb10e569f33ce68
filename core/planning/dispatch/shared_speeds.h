#pragma once
// Jobs doing the same work share their measured speeds. The runs of a sweep do the same work: seeds and learning rates
// differ, and a step takes the same time. A pool therefore knows how fast a new job is on many devices before the job
// has used these devices.
//
// The work is the same if `estrain check` says the same of both jobs (planning/profile/work.h), and if both jobs have
// the same number of ESTs and the same batch. Jobs do not share the noise of gradients: learning rates matter, too.
// Where no job of the work knows a type of device, the ratios of all jobs that know two types tell.

#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

// Made for a single decision. The state must outlive the SharedSpeeds, and the state's jobs must stay.
class SharedSpeeds {
 public:
  static constexpr size_t kJobs = 8;     // jobs that count for each number of devices: the newest, also ended jobs
  static constexpr int64_t kTimes = 20;  // measurements of a job that count

  explicit SharedSpeeds(const State& state);

  // Returns the input of step_seconds(), with the exchange over the slowest link: the job's own speeds, else the mean
  // of the other jobs, multiplied by how much slower this job was than the others at the nearest number of devices used
  // by both.
  JobSpeeds speeds_of(const Job& job) const;
  // Returns the job's own times of a mini-batch, by batch, and the mean of the other jobs for batches without a time.
  scheduling::BatchTimes batch_times_of(const Job& job) const;

 private:
  struct MeasuredByJob {
    JobId job;
    double seconds;
    int64_t times;
  };
  using All = std::vector<MeasuredByJob>;  // for each number of devices, or each batch; the newest job first
  struct Mean {
    double seconds = 0;
    int64_t times = 0;  // 0: not measured
  };
  // The answer of `estrain check`; the number of ESTs; the owner's batch if the pool may change the batch, else 0.
  using Work = std::tuple<std::string_view, int64_t, int64_t>;
  void expect_exchanges(const Job& job, JobSpeeds& speeds) const;
  void expect_other_types(JobSpeeds& speeds) const;
  static Work work_of(const Job& job);
  static Mean mean_of_others(const All& all, JobId job);
  static double slower(const Job& job, const std::map<JobSpeeds::DevicesKey, All>& all,
                       const JobSpeeds::DevicesKey& key);

  // By work and the batch in force: of steps; of an EST's mini-batch, by type of device.
  std::map<std::pair<Work, int64_t>, std::map<JobSpeeds::DevicesKey, All>> steps_;
  std::map<std::pair<Work, int64_t>, std::map<std::string, All>> by_type_;
  std::map<Work, std::map<int64_t, All>> mini_batches_;
  // How many times the time on the first type jobs of any work took on the second, the newest job first.
  std::map<std::pair<std::string, std::string>, std::vector<double>> ratios_;
  std::optional<plan::Link> link_;  // the slowest known to a host of the pool
  int64_t hosts_ = 0;               // of the pool
};

}  // namespace estrain::dispatch
