#pragma once
// All measurements, by kind of work. In memory and pure: the caller passes the time; profile_store.h handles the file.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/planning/profile/capability.h"
#include "core/planning/profile/stage_speed.h"
#include "core/planning/profile/work.h"

namespace estrain::profile {

struct Entry {
  Work work;
  Capability capability;

  int64_t last_measured() const;  // seconds since 1970; 0: never
};

class Profiles {
 public:
  static constexpr size_t kMostEntries = 1000;  // the oldest measurements are dropped first

  const std::vector<Entry>& entries() const { return entries_; }
  const Capability* find(const Work& work) const;                          // null: nothing known
  Capability& at(const Work& work);                                        // creates a missing entry
  Profiles of(const spec::JobSpec& spec, const MachineFacts& host) const;  // this job's measurements, on all kinds

  // Adds the measurements of a stage: for each of its kinds, the times of a mini-batch and of the exchange.
  void learn(const spec::JobSpec& spec, const MachineFacts& host, const StageSpeed& stage, int64_t now);

  // Learns the update from two stages of a single worker with n and m ESTs: c(n) = t + u/n and c(m) = t + u/m give the
  // time t of a mini-batch and u of the update within the last one. No effect if the update is separate.
  void learn_update(const spec::JobSpec& spec, const MachineFacts& host, const StageSpeed& few, const StageSpeed& many,
                    int64_t now);

  // Adds the mean cost of a change of devices in a run that has such devices now.
  void learn_change(const spec::JobSpec& spec, const MachineFacts& host, const std::string& device, double seconds,
                    int64_t now);
  // Returns the median over all kinds of work; nothing if no change was measured.
  std::optional<double> change_seconds() const;

  // Returns the seconds of a mini-batch of this job by device, for all devices ever measured: of this work; else by the
  // median ratio to `device` of works measured on both. Without a measurement on `device`, this job takes `seconds`
  // there.
  std::map<std::string, double> guess_mini_batches(const spec::JobSpec& spec, const MachineFacts& host,
                                                   const std::string& device, double seconds) const;

  // The file's JSON document. Reading throws Fault::corrupt, with the reason, for another format or impossible
  // times.
  Json to_json() const;
  static Profiles from_json(const Json& document);

 private:
  void forget_oldest();

  std::vector<Entry> entries_;
};

}  // namespace estrain::profile
