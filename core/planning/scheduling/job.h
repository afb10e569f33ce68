#pragma once
// A job as a policy sees the job: the owner's request, progress, devices, and predictions. Times are in seconds on the
// pool's clock, which is virtual in a simulation.

#include <cstdint>
#include <optional>
#include <string>

#include "core/planning/scheduling/cluster.h"

namespace estrain::scheduling {

// A job's known or learnt speed. A simulation reads speeds from tables, a daemon from profiles.
class Outlook {
 public:
  virtual ~Outlook() = default;

  // Returns the seconds until the job ends if the job keeps devices of this shape, without a charge for the change.
  // Infinite if the job cannot run with this shape.
  virtual double seconds_left(const Shape& shape) const = 0;

  // Returns the seconds of a training step with the owner's batch on this many devices of the first type, packed.
  virtual double step_seconds(int64_t devices) const = 0;
  virtual double steps_left() const = 0;

  // Both 0 if the world does not know of epochs.
  struct Epochs {
    double done = 0, to_come = 0;
  };
  virtual Epochs epochs() const { return {}; }
};

struct JobView {
  std::string name;
  int64_t order = 0;  // the job's number while the job exists
  double submitted = 0;
  int64_t requested = 1;  // devices requested by the owner: the size of the gang
  size_t type = 0;        // index of the device type requested by the owner for the gang
  int64_t most = 1;       // the most devices of use to the job
  bool mixes_types = false;
  bool is_background = false;  // runs in the gaps of foreground jobs, in worlds with background jobs
  bool changes_batch = false;  // whether the owner lets the pool change the batch
  std::string owner;           // a user or a virtual cluster; may be empty
  int64_t quota = 0;           // devices guaranteed to the owner
  std::optional<double> deadline;
  double weight = 1;  // how much the job counts: its priority, and the owner's recent use

  Placement placement;            // current devices
  double attained = 0;            // device-seconds so far
  double held = 0;                // seconds with devices so far
  double lost = 0;                // seconds lost by changes of devices
  std::optional<double> started;  // time of the job's first devices
  int64_t starts = 0;             // number of placements so far

  const Outlook* outlook = nullptr;
};

}  // namespace estrain::scheduling
