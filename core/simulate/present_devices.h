#pragma once
// The part of a cluster that jobs can have: devices are away for a while, and somebody must give them up.

#include <map>
#include <optional>
#include <vector>

#include "core/simulate/world.h"

namespace estrain::simulate {

class PresentDevices {
 public:
  PresentDevices(const pool::Cluster& all, std::vector<Absence> absences);

  // When devices go or come back next; infinite: never.
  double next_change(double now) const;
  // Follows the clock.
  void move_to(double now);
  // Nothing: all devices are away.
  const std::optional<pool::Cluster>& cluster() const { return cluster_; }

  // The placement that each job is left with, as a pool of real jobs has it (core/dispatch): who holds most gives up a
  // device, the last in the queue first, and gets it back when one is free. In the order of `jobs`.
  std::vector<pool::Placement> fit(const std::vector<SimulatedJob*>& jobs);
  // The policy placed it anew: it gets nothing back.
  void forget(const SimulatedJob* job) { owed_.erase(job); }

 private:
  int64_t away_at(double now) const;

  const pool::Cluster& all_;
  const std::vector<Absence> absences_;
  int64_t away_ = 0;
  std::optional<pool::Cluster> cluster_;
  std::map<const SimulatedJob*, int64_t> owed_;
};

}  // namespace estrain::simulate
