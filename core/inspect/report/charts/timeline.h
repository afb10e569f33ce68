#pragma once
// The history of a run from its events.jsonl: consecutive launches on an axis of running time, the ESTs of each worker
// over time, other events, and the uses of time.
//
// Running time excludes the time between launches. A killed launcher writes no final event: the launch ends with its
// last event.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json/json.h"

namespace estrain::report {

// A worker's ESTs during a stage.
struct StageBlock {
  EstRange ests;
  size_t device = 0;  // in Timeline::devices
};

struct StageBar {
  double from = 0, to = 0;  // seconds of running time
  int64_t stage = 0, step = 0;
  std::vector<StageBlock> blocks;
};

enum class MarkKind { launch, end, fault, recovered, resize, slow, trouble, note };

struct Mark {
  double at = 0;  // seconds of running time
  int64_t step = -1;
  MarkKind kind = MarkKind::note;
  std::string time;   // as recorded, UTC
  std::string event;  // the event's name in events.jsonl
  std::string words;
};

struct TimeStretch {
  double from = 0, to = 0;
};

// Seconds; only measured time.
struct TimeSpent {
  double running = 0;       // all launches
  double starting = 0;      // until the first step of each launch
  double stepping = 0;      // steps covered by `stage_speed`
  double exchange = 0;      // of these
  double computing = 0;     // of these, the mean of the workers
  double recovering = 0;    // from last signs of life to the next steps
  double standing = 0;      // pauses for resizes and rebalances
  double saving = 0;        // checkpoints, in parallel with training
  int64_t checkpoints = 0;  // number written
};

// A device's speed over all stages, from `stage_speed`.
struct DeviceWork {
  int64_t mini_batches = 0;
  double computing_seconds = 0;
  double reading_seconds = 0;  // of these, waiting for data
};

struct Timeline {
  double length = 0;                 // seconds of running time
  std::vector<std::string> devices;  // "cpu", "cpu #2", "cuda:0": further devices of a kind are numbered
  std::vector<StageBar> stages;
  std::vector<Mark> marks;                 // oldest first; at most kMostMarks
  int64_t marks_left_out = 0;              // dropped from the middle
  std::vector<TimeStretch> recoveries;     // from a fault to the next step
  std::vector<double> checkpoints;         // times of writing; at most kMostMarks
  std::map<std::string, int64_t> counts;   // of events by name
  std::map<std::string, DeviceWork> work;  // by kind of device
  TimeSpent spent;
  std::string state;  // "finished", "stopped", "failed" or, without a final event, ""
  int64_t ests = 0;
};

constexpr size_t kMostMarks = 500;

class TimelineReader {
 public:
  // Call in the order of the file. A field of the wrong type counts as absent; an event without a time gets the
  // previous event's time.
  void add(const Json& event);
  Timeline finish();

 private:
  void launch(const Mark& mark);
  void end_stage(double at);
  void begin_stage(const Json& event, double at);
  void add_stage_speed(const Json& event);
  void add_mark(Mark mark, MarkKind kind, std::string words);
  void count_times(const std::string& name, const Json& event, double at);
  size_t device_index(const std::string& kind, std::map<std::string, int>& seen);

  Timeline line_;
  double wall_ = 0;  // of the last event, seconds since 1970; 0: no event yet
  double launch_at_ = -1;
  double fault_at_ = -1;  // of a fault without recovery so far
  bool stage_open_ = false;
};

}  // namespace estrain::report
