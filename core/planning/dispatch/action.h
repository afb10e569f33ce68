#pragma once
// The daemon's orders. Each process started for an order reports back as an event of Dispatcher.

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/planning/dispatch/state.h"

namespace estrain::dispatch {

// Look for reasons why the job cannot run. Answered by checked().
struct CheckJob {
  JobId job;
};

// Start the job's launcher, or resume the job from its checkpoint. Answered by trains(), or ended().
struct StartJob {
  JobId job;
  std::vector<std::string> devices;
  std::string home;  // the host of the new launcher; empty: the daemon's own host
};

// Give the job free devices. A job may decline devices if it weighs offers. Answered by changed().
struct GrowJob {
  JobId job;
  std::vector<std::string> added;
  std::vector<std::string> all;  // the job's devices after the growth
};

// Take these devices back. Answered by changed().
struct ShrinkJob {
  JobId job;
  std::vector<std::string> given_back;
  double within;  // s
};

// Train with another batch from the next step on, with learning rates scaled for that batch. Answered by changed(), or
// batch_refused().
struct ChangeBatch {
  JobId job;
  int64_t batch;     // samples per EST and step
  double lr_factor;  // of the rates of the job's schedule
};

// Stop the job with a checkpoint. Answered by ended().
struct StopJob {
  JobId job;
  std::vector<std::string> devices;  // all devices of the job
  double within;                     // s
};

// Kill the job's launcher now: its devices must be free, and the job has not let go of them. Answered by ended().
struct KillJob {
  JobId job;
};

// The devices asked back are free.
struct Released {
  ClientId client;
  std::vector<std::string> devices;
  double seconds;  // from the request to the release
};

// A line for the history: the news of a job, and the reason.
struct Note {
  JobId job;            // 0: of the pool
  std::string what;     // "submitted", "devices", "started", "batch", "ended", …
  int64_t devices = 0;  // devices meant for the job from now on
  std::string reason;
  std::vector<std::string> names = {};  // of these devices; of a job's devices, groups: "nodeB/cuda" twice
};
inline Note note_of(const Job& job, std::string what, std::string reason) {
  Note note{job.id, std::move(what), job.targeted(), std::move(reason)};
  for (const auto& [group, count] : job.target) note.names.insert(note.names.end(), static_cast<size_t>(count), group);
  return note;
}

using Action = std::variant<CheckJob, StartJob, GrowJob, ShrinkJob, ChangeBatch, StopJob, KillJob, Released, Note>;

}  // namespace estrain::dispatch
