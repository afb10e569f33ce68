#pragma once
// A job as a policy sees it: its owner's request, its progress, its devices, and predictions. Times are in seconds on
// the pool's clock, which is virtual in a simulation.

#include <cstdint>
#include <optional>
#include <string>

#include "core/planning/scheduling/cluster.h"

namespace estrain::scheduling {

// A job's known or learnt speed. A simulation takes it from tables, a daemon from profiles.
class Outlook {
 public:
  virtual ~Outlook() = default;

  // Seconds until the job ends if it keeps devices of this shape, without a charge for the change. Infinite if the job
  // cannot run with it.
  virtual double seconds_left(const Shape& shape) const = 0;

  // Seconds of a training step with the owner's batch on this many devices of the first type, packed.
  virtual double step_seconds(int64_t devices) const = 0;
  virtual double steps_left() const = 0;

  // Both 0 where the world does not know of epochs.
  struct Epochs {
    double done = 0, to_come = 0;
  };
  virtual Epochs epochs() const { return {}; }
};

struct Job {
  std::string name;
  int64_t order = 0;  // its number, for as long as it is there
  double submitted = 0;
  int64_t requested = 1;  // devices requested by the owner: the size of the gang
  size_t type = 0;        // index of the device type requested by the owner for the gang
  int64_t most = 1;       // the most devices that it can use
  bool mixes_types = false;
  bool is_background = false;  // runs in the gaps of others, where the world has such
  bool changes_batch = false;  // whether its owner lets the pool change the batch
  std::string owner;           // a user or a virtual cluster; may be empty
  int64_t quota = 0;           // devices guaranteed to the owner
  std::optional<double> deadline;
  double weight = 1;  // how much the job counts: its priority, and what its owner has had of late

  Placement placement;            // current devices
  double attained = 0;            // device-seconds so far
  double held = 0;                // seconds with devices so far
  double lost = 0;                // seconds lost by changes of devices
  std::optional<double> started;  // time of its first devices
  int64_t starts = 0;             // number of placements so far

  const Outlook* outlook = nullptr;
};

}  // namespace estrain::scheduling
