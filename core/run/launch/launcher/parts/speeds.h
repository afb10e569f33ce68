#pragma once
// The speed of the job: watches the speed, reports slow workers, loads speeds of earlier runs, keeps speeds for later
// runs, logs the speed of stages, and follows the adviser (run/launch/profiling/adviser.h).

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/planning/profile/profile_store.h"
#include "core/run/decisions/event.h"
#include "core/run/launch/launcher/parts/run_view.h"
#include "core/run/launch/profiling/adviser.h"

namespace estrain::launch {

// Decides which news of slow workers the user reads: for each worker a slowdown at most once a minute, the recovery of
// each slowdown that was told, and nothing of the only worker of a stage, which has no other worker to be slower than.
// events.jsonl has all news.
class SlowNews {
 public:
  bool tells(const SpeedWatch::Speed& change, size_t workers, MonotonicTime now);

 private:
  struct Told {
    MonotonicTime at{};
    bool slow = false;  // the last line about the worker says that the worker is slow
  };
  std::map<int64_t, Told> told_;  // by worker
};

class Speeds {
 public:
  Speeds(const RunView& run, ChangeHistory past) : run_(run), adviser_(run.spec, std::move(past)) {}

  const AdviserState& adviser() const { return adviser_; }
  // Tells the adviser of an event, at this moment.
  std::vector<AdviceAction> advise(const AdviceEvent& event);

  // The run is attached to its memory, on this host with `cores` for the run's use.
  void settle(int64_t cores);
  void begin_training();
  // Takes up the stage under way in a fresh launcher.
  void go_on();
  void begin_stage() { advise(StageBegan{Step(run_.trained())}); }
  // A stage begins with other shares than the stage before.
  void begin_shares();
  // A stage begins with another batch than the stage before, as in a new launch.
  void begin_batch();
  // Measures step_seconds() from this time and step on.
  void measure_rate_from(MonotonicTime time, int64_t step);

  // Ten times a second. After each window of steps, asks for the change that the adviser proposes.
  std::optional<decisions::Event> watch();
  // Loads speeds measured by earlier runs. An unreadable profile does not keep the job from training.
  void load_profiles();
  // Keeps nothing of a run in the background, or of a stage with guests on the run's devices
  // (run/launch/control/shared_mark.h).
  void keep_profiles();

  void note_decision(std::string what, std::string reason);
  Course course() const;

  // Logs the speed of the ending stage.
  void log_stage(int64_t stage);
  // Once: how long the user waited from the start of this process to the end of the first step.
  void note_first_step();
  // The mean since the stage began; 0: no step yet.
  double step_seconds() const;
  bool has_steps() const { return run_.trained() > rate_from_step_; }

 private:
  std::vector<SpeedMeter::Worker> work_done() const;
  void measure_noise();
  void tell(const SpeedWatch::Speed& change);
  std::optional<decisions::Event> follow(AdviceAction action);
  void tell_of_slow_reading(const SpeedMeter::MeasuredSteps& span);
  bool stage_was_shared() const;
  profile::ProfileStore store(const std::string& path);

  const RunView run_;
  AdviserState adviser_;
  SlowNews slow_news_;
  bool first_step_seen_ = false;
  // For rates: when and where the stage began.
  MonotonicTime rate_from_{};
  int64_t rate_from_step_ = 0;
};

}  // namespace estrain::launch
