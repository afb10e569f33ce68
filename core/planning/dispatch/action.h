#pragma once
// The Dispatcher's orders to the pool's daemon, which answers an order about a job by the Dispatcher event named there.

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
  std::vector<std::string> devices;  // names, as in Slot
  std::string home;                  // the host of the new launcher; empty: the daemon's own host
};

// Give the job free devices. A job that weighs offers may decline. Answered by changed(), with the devices then held.
struct GrowJob {
  JobId job;
  std::vector<std::string> added;
  std::vector<std::string> all;  // the job's devices after the growth
};

// Take these devices back. Answered by changed().
struct ShrinkJob {
  JobId job;
  std::vector<std::string> given_back;
  double within;  // s for the job to let go
};

// Train with another batch from the next step on, with learning rates scaled for that batch. Answered by changed(), or
// batch_refused().
struct ChangeBatch {
  JobId job;
  int64_t batch;     // samples per EST and step
  double lr_factor;  // on the learning rates of the job's schedule
};

// Stop the job with a checkpoint. Answered by ended().
struct StopJob {
  JobId job;
  std::vector<std::string> devices;  // all devices of the job
  double within;                     // s for the job to let go
};

// Kill the job's launcher now: the job has not let go of devices in time, or does not answer. Answered by ended().
struct KillJob {
  JobId job;
};

// Tell the client of a withdrawal (Dispatcher::withdraw()) that the devices are free. Client 0: nobody waits.
struct Released {
  ClientId client;
  std::vector<std::string> devices;
  double seconds;  // from the request to the release
};

// Write a line of the history: the news of a job or of the pool, and the reason.
struct Note {
  JobId job;            // 0: of the pool
  std::string what;     // "submitted", "devices", "started", "batch", "ended", …
  int64_t devices = 0;  // number meant for the job from now on; for the pool: concerned
  std::string reason;
  std::vector<std::string> names = {};  // of the pool's devices; for a job, the devices' groups: "nodeB/cuda" twice
};
inline Note note_of(const Job& job, std::string what, std::string reason) {  // with the job's target as devices
  Note note{job.id, std::move(what), job.targeted(), std::move(reason)};
  for (const auto& [group, count] : job.target) note.names.insert(note.names.end(), static_cast<size_t>(count), group);
  return note;
}

using Action = std::variant<CheckJob, StartJob, GrowJob, ShrinkJob, ChangeBatch, StopJob, KillJob, Released, Note>;

}  // namespace estrain::dispatch
