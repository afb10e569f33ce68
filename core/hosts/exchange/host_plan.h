#pragma once
// The part of each host of a job in a stage. The coordinator sends a copy to each of them.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json/json.h"

namespace estrain::hosts {

struct HostShare {
  std::string name;               // "" is the coordinator's
  std::string address;            // "10.0.0.2:7000"; empty for the coordinator, which connects to all others itself
  std::vector<EstRange> workers;  // one behind the other, at least one
  bool sees_run = true;           // the run directory: it may lead on

  EstRange ests() const { return {workers.front().begin, workers.back().end}; }
};

struct HostPlan {
  uint64_t stage = 0;            // counts the stages of a run, from 1
  int64_t step = 0;              // whose state they go on from
  int64_t evaluation_batch = 1;  // samples
  bool any_processor = false;    // bits do not depend on it, or others are accepted
  bool clear = false;            // what the workers exchange goes without encryption
  std::vector<HostShare> hosts;
  size_t own = 0;  // which of the hosts this is
  // Another host needs these to continue as coordinator: the device of each worker as the coordinator calls it, and the
  // options that the run was started with.
  std::vector<std::string> devices;
  bool allow_mixed = false, oversubscribe = false;
  double grace_seconds = 0;

  int64_t ests() const { return hosts.back().ests().end.value; }
  const HostShare& here() const { return hosts[own]; }
  // The number of workers on the hosts before this one; it is the rank of its first worker.
  int64_t workers_before(size_t host) const;
  // The largest numbers that a frame can carry.
  static constexpr uint64_t most_stages = uint64_t{1} << 24;
  static constexpr int64_t most_steps = int64_t{1} << 40;

  Json to_json() const;
  // Throws Fault::corrupt where ranges do not follow each other from EST 0 on, or a number is out of bounds.
  static HostPlan from_json(const Json& json);
};

}  // namespace estrain::hosts
