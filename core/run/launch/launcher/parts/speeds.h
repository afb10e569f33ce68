#pragma once
// The speed of the job: watches the speed, reports slow workers, loads speeds of earlier runs, keeps speeds for later
// runs, and follows the adviser (run/launch/profiling/adviser.h).

#include <string>
#include <vector>

#include "core/planning/profile/profile_store.h"
#include "core/run/launch/launcher/parts/run.h"

namespace estrain::launch {

class Speeds {
 public:
  explicit Speeds(Run& run) : run_(run) {}

  // Ten times a second. After each window of steps the adviser's advice is followed.
  void watch();
  // Loads speeds measured by earlier runs. An unreadable profile does not keep the job from training.
  void load_profiles();
  void keep_profiles();

  void note_decision(std::string what, std::string reason);
  Course course() const;

 private:
  std::vector<SpeedMeter::Worker> work_done() const;
  void measure_noise();
  void tell(const SpeedWatch::Speed& change);
  void follow_advice();
  profile::ProfileStore store(const std::string& path);

  Run& run_;
};

}  // namespace estrain::launch
