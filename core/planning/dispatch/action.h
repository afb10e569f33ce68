#pragma once
// The daemon's orders. Everything that it starts reports back as an event of Dispatcher.

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

// Look for what would keep the job from running. Answered by checked().
struct CheckJob {
  JobId job;
};

// Start its launcher, or go on from its checkpoint. Answered by trains(), or ended().
struct StartJob {
  JobId job;
  std::vector<std::string> devices;
  std::string home;  // the host that it is started on; empty: the daemon's own
};

// Give it devices that are free. It may decline some where it weighs offers. Answered by changed().
struct GrowJob {
  JobId job;
  std::vector<std::string> added;
  std::vector<std::string> all;  // that it then has
};

// Take these back. Answered by changed().
struct ShrinkJob {
  JobId job;
  std::vector<std::string> given_back;
  double within;  // s
};

// Train with another batch from the next step on, and rates that are scaled for it. Answered by changed(), or
// batch_refused().
struct ChangeBatch {
  JobId job;
  int64_t batch;     // samples per EST and step
  double lr_factor;  // of the rates of its schedule
};

// Stop it with a checkpoint. Answered by ended().
struct StopJob {
  JobId job;
  std::vector<std::string> devices;  // all that it holds
  double within;                     // s
};

// End its launcher now: its devices must be free, and it has not let go of them. Answered by ended().
struct KillJob {
  JobId job;
};

// The devices asked back are free.
struct Released {
  ClientId client;
  std::vector<std::string> devices;
  double seconds;  // that it took
};

// A line for the history: what became of a job, and why.
struct Note {
  JobId job;            // 0: of the pool
  std::string what;     // "submitted", "devices", "started", "batch", "ended", …
  int64_t devices = 0;  // that it is to have from now on
  std::string reason;
  std::vector<std::string> names = {};  // of these devices; of a job's, groups: "nodeB/cuda" twice
};
inline Note note_of(const Job& job, std::string what, std::string reason) {
  Note note{job.id, std::move(what), job.targeted(), std::move(reason)};
  for (const auto& [group, count] : job.target) note.names.insert(note.names.end(), static_cast<size_t>(count), group);
  return note;
}

using Action = std::variant<CheckJob, StartJob, GrowJob, ShrinkJob, ChangeBatch, StopJob, KillJob, Released, Note>;

}  // namespace estrain::dispatch
