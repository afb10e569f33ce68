#pragma once
// A job as a policy sees it: what its owner asked for, how far it is, what it holds, and what can be foretold of it.
// Times are in seconds on the clock of the pool, which in a simulation is virtual.

#include <cstdint>
#include <optional>
#include <string>

#include "core/pool/cluster.h"

namespace estrain::pool {

// A job's speed as far as it is known or has been learnt. A simulation takes it from tables, a daemon from profiles.
class Outlook {
 public:
  virtual ~Outlook() = default;

  // Until the job ends, from now, with devices of this shape all the way; no charge for the change. Infinite where the
  // job cannot run so.
  virtual double seconds_left(const Shape& shape) const = 0;

  // One training step with the batch that the owner asked for, on so many devices of the first type, packed.
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
  int64_t requested = 1;  // devices, by the owner: the size of the gang
  size_t type = 0;        // of the cluster's types, by the owner: where the gang runs
  int64_t most = 1;       // devices it can make use of
  bool mixes_types = false;
  bool changes_batch = false;  // its owner lets the pool change the batch
  std::string owner;           // a user or a virtual cluster; may be empty
  int64_t quota = 0;           // devices that the owner has a right to
  std::optional<double> deadline;
  double weight = 1;  // how much the job counts: its priority, and what its owner has had of late

  Placement placement;            // held now
  double attained = 0;            // device-seconds held until now
  double held = 0;                // seconds with devices until now
  double lost = 0;                // seconds that changes of devices have cost
  std::optional<double> started;  // when it first had devices
  int64_t starts = 0;             // times it was given another placement

  const Outlook* outlook = nullptr;
};

}  // namespace estrain::pool
