#pragma once
// The measurements of jobs in Pollux's world: each job's alone, as in the paper, or the measurements of all jobs of an
// application together. The noise of gradients is known for epochs that a job has been in; later epochs are assumed to
// be like the last known epoch.

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/planning/scheduling/speed_model.h"
#include "core/planning/simulate/worlds/pollux_application.h"

namespace estrain::simulate {

class Learnt {
 public:
  // Alone, a job has the paper's model of its speed. Together, jobs have their measurements. Both are in
  // planning/scheduling/speed_model.h.
  enum class By { one_job, all_jobs };
  Learnt(const PolluxApplication& app, By by) : app_(app), by_(by) {}

  void observe(const scheduling::SpeedPoint& point, const StepTimes& times);
  void observe(int64_t epoch, const PolluxApplication::Noise& noise);

  const scheduling::SpeedModel& model() const { return by_ == By::all_jobs ? measured_.model() : model_; }

  // The batch with the most progress per second, as foretold.
  struct BestBatch {
    double speed = 0;  // 0: no batch is possible
    BatchSplit split;
  };
  BestBatch best(int64_t hosts, int64_t devices, int64_t epoch) const;
  // For a job in `epoch` with this progress. The number of epochs is known, since the owner set it.
  double seconds_left(int64_t hosts, int64_t devices, int64_t epoch, double progress) const;

 private:
  // Returns the last known epoch up to this epoch.
  int64_t told_by(int64_t epoch) const { return std::min(epoch, noises_.empty() ? 0 : noises_.rbegin()->first); }
  double step_seconds(int64_t hosts, int64_t devices, double local) const;
  BestBatch search(int64_t hosts, int64_t devices, const PolluxApplication::Noise& noise) const;
  PolluxApplication::Noise noise(int64_t epoch) const;

  const PolluxApplication& app_;
  By by_;
  scheduling::SpeedModel model_;                        // of one job
  scheduling::MeasuredSpeeds measured_;                 // of all
  std::map<int64_t, PolluxApplication::Noise> noises_;  // by epoch
  // By hosts and devices, and by epoch; a negative speed is not known yet.
  mutable std::map<std::pair<int64_t, int64_t>, std::vector<BestBatch>> best_;
};

}  // namespace estrain::simulate
