#pragma once
// A look at a run for the pool: selected facts of the launcher's status. The daemon looks at the runs of its own host,
// agents look at theirs, and report the look in hosts/NAME/agent.json.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/json/fields.h"

namespace estrain::pool {

// The batch that a run trains with now, in a look or in the answer of `estrain change`.
struct BatchLook {
  int64_t batch = 0;             // samples per EST and step
  double lr_factor = 1;          // on the learning rates of the job's schedule
  std::optional<int64_t> epoch;  // of the run now, from 0
  double noise_scale = 0;        // of the job's gradients, in samples; 0: not known
  ESTRAIN_FIELDS(batch, lr_factor, epoch, noise_scale)
};

// The measured link from the launcher's host to another host of the run.
struct LinkLook {
  std::string host;
  double bytes_per_second = 0, round_trip_seconds = 0;
  bool operator==(const LinkLook&) const = default;
  ESTRAIN_FIELDS(host, bytes_per_second, round_trip_seconds)
};

struct JobLook {
  std::string state;                                // as in launch::RunStatus
  std::optional<int64_t> step;                      // absent: no step is known
  int64_t total_steps = 0;                          // 0: not known
  std::optional<std::vector<std::string>> held;     // devices, in the launcher's words; absent: not known
  int64_t devices_at_work = 0;                      // devices with a worker: a job may use only a part of `held`
  double step_seconds = 0;                          // lately; 0: not known
  std::optional<BatchLook> batch;                   // where the batch may be changed
  std::map<std::string, double> mini_batches = {};  // s of an EST's, the mean over the workers of a type of device
  std::vector<LinkLook> links = {};
  double worker_bytes = 0;  // of the largest worker on the launcher's host, at its peak; 0: not known
  bool trains() const { return state == "training"; }
  ESTRAIN_FIELDS(state, step, total_steps, held, devices_at_work, step_seconds, batch, mini_batches, links,
                 worker_bytes)
};

// Asks the launcher of the run directory `run`, and waits for its answer, at most `patience`. Returns nothing if no
// launcher listens on this host, or if the launcher does not answer in time or refuses.
std::optional<JobLook> look_at_run(const std::string& run, Nanoseconds patience);

inline constexpr Nanoseconds kLookPatience = 200ms;

}  // namespace estrain::pool
