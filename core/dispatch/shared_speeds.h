#pragma once
// What jobs of one work have measured, for those of them that have not: the runs of a sweep differ in seeds and rates,
// and take the same time for a step. A pool then knows a new job's speed on many devices before the job has been there.
//
// Jobs are of one work if a check said so of both (profile/work.h), and if they have as many ESTs and the same batch.
// Only speeds are shared: how noisy gradients are depends on the rates, too.

#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/dispatch/state.h"

namespace estrain::dispatch {

// Of one moment: refers to the state.
class SharedSpeeds {
 public:
  static constexpr size_t kJobs = 8;     // that count for one number of devices: the newest, also those that are over
  static constexpr int64_t kTimes = 20;  // measurements of a job that count

  explicit SharedSpeeds(const State& state);

  // The job's own speeds, and those of the others where it has none: their mean, times how much slower the job is than
  // they were with the nearest number of devices that both have measured.
  Speeds speeds_of(const Job& job) const;
  // The same of its mini-batches, by batch. They are taken as the others measured them.
  pool::BatchTimes batch_times_of(const Job& job) const;

 private:
  struct Measured {
    JobId job;
    double seconds;
    int64_t times;
  };
  using All = std::vector<Measured>;  // of one number of devices, or one batch: the newest job first
  struct Mean {
    double seconds = 0;
    int64_t times = 0;  // 0: nobody has measured it
  };
  // What the check said, ESTs, and the owner's batch where the pool may change it.
  using Work = std::tuple<std::string_view, int64_t, int64_t>;
  static Work work_of(const Job& job);
  static Mean mean_of_others(const All& all, JobId job);
  static double slower(const Job& job, const std::map<Speeds::Key, All>& all, const Speeds::Key& key);

  std::map<std::pair<Work, int64_t>, std::map<Speeds::Key, All>> steps_;  // by work and the batch in force
  std::map<Work, std::map<int64_t, All>> mini_batches_;
};

}  // namespace estrain::dispatch
