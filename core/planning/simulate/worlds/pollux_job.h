#pragma once
// A job in Pollux's world, run like in the reference simulator: first the charge; then progress at the speed of the
// epoch's gain, epoch by epoch, each taking a whole number of seconds.

#include <memory>
#include <unordered_map>
#include <vector>

#include "core/planning/simulate/world.h"
#include "core/planning/simulate/worlds/pollux_application.h"
#include "core/planning/simulate/worlds/pollux_learnt.h"

namespace estrain::simulate {

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
