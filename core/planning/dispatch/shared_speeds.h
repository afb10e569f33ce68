#pragma once
// Jobs that do the same work share the speeds that they have measured. The runs of a sweep do: they differ in seeds and
// learning rates, and a step takes them the same time. So a pool knows how fast a new job is on many devices before the
// job has used them.
//
// The work is the same if `estrain check` says the same of both jobs (planning/profile/work.h), and if they have the
// same number of ESTs and the same batch. The noise of gradients is not shared: it depends on the learning rates, too.

#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

// Made for one decision. The state must outlive it, and its jobs must stay.
class SharedSpeeds {
 public:
  static constexpr size_t kJobs = 8;     // that count for one number of devices: the newest, also those that are over
  static constexpr int64_t kTimes = 20;  // measurements of a job that count

  explicit SharedSpeeds(const State& state);

  // What step_seconds() needs: the job's own speeds, and the mean of the others' where it has none. That mean is
  // multiplied by how much slower the job was than the others, with the nearest number of devices that both have used.
  Speeds speeds_of(const Job& job) const;
  // The job's own times of a mini-batch, by batch, and the mean of the others' where it has none.
  scheduling::BatchTimes batch_times_of(const Job& job) const;

 private:
  struct Measured {
    JobId job;
    double seconds;
    int64_t times;
  };
  using All = std::vector<Measured>;  // for one number of devices, or one batch; the newest job first
  struct Mean {
    double seconds = 0;
    int64_t times = 0;  // 0: nobody has measured it
  };
  // What `estrain check` said; the number of ESTs; the owner's batch if the pool may change it, else 0.
  using Work = std::tuple<std::string_view, int64_t, int64_t>;
  static Work work_of(const Job& job);
  static Mean mean_of_others(const All& all, JobId job);
  static double slower(const Job& job, const std::map<Speeds::Key, All>& all, const Speeds::Key& key);

  std::map<std::pair<Work, int64_t>, std::map<Speeds::Key, All>> steps_;  // by work and the batch in force
  std::map<Work, std::map<int64_t, All>> mini_batches_;
};

}  // namespace estrain::dispatch
