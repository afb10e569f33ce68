#pragma once
// A job in Pollux's world, run like in the reference simulator: first the charge; then progress at the speed of the
// epoch's gain, epoch by epoch, each taking a whole number of seconds.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/planning/scheduling/speed_model.h"
#include "core/planning/simulate/world.h"
#include "core/planning/simulate/worlds/pollux_application.h"

namespace estrain::simulate {

// The measurements of jobs in Pollux's world: each job's alone, as in the paper, or the measurements of all jobs of an
// application together. The noise of gradients is known for epochs that a job has been in; later epochs are assumed to
// be like the last known epoch.
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

// The duration of epochs on each shape; shared by all jobs of the same application, batch and choice of batch.
class EpochTable {
 public:
  // batch 0: the best batch of each epoch.
  EpochTable(const PolluxApplication& app, double batch) : app_(app), batch_(batch) {}

  // Seconds from the beginning of `epoch` to the end of the job; infinite if the shape was not measured.
  double seconds_from(int64_t hosts, int64_t devices, int64_t epoch);
  // Progress per second; 0 if not measured.
  double speed(const PolluxApplication::Counts& counts, int64_t epoch, BatchSplit& split) const;

 private:
  const PolluxApplication& app_;
  double batch_;
  std::unordered_map<int64_t, std::vector<double>> seconds_;  // by shape; [epoch]
};

class PolluxJob : public SimulatedJob {
 public:
  PolluxJob(const PolluxApplication& app, double batch, double charge, std::shared_ptr<EpochTable> table,
            std::shared_ptr<Learnt> learnt);

  void run(double from, double seconds) override;
  void place(const scheduling::Placement& placement) override;

  const PolluxApplication& app() const { return app_; }
  double batch() const { return batch_; }
  int64_t epoch() const { return epoch_; }
  scheduling::Outlook::Epochs epochs() const {
    return {static_cast<double>(epoch_), static_cast<double>(app_.limits().epochs - epoch_)};
  }
  double progress() const { return progress_; }
  EpochTable& table() const { return *table_; }
  const Learnt* learnt() const { return learnt_.get(); }

 private:
  double speed();
  void choose_batch();

  const PolluxApplication& app_;
  double batch_;
  double charge_;
  std::shared_ptr<EpochTable> table_;
  std::shared_ptr<Learnt> learnt_;  // if speeds are unknown; the job's own, or the application's
  std::unique_ptr<scheduling::Outlook> outlook_;
  BatchSplit split_;  // current split, if speeds are learnt
  PolluxApplication::Counts counts_;
  int64_t epoch_ = 0;
  double progress_ = 0;
  double countdown_ = 0;
};

}  // namespace estrain::simulate
