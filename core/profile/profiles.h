#pragma once
// All that has been measured, by piece of work. In memory and pure: time is passed in; the file is profile_store.h's.

#include <cstdint>
#include <vector>

#include "core/base/json.h"
#include "core/profile/capability.h"
#include "core/profile/stage_speed.h"
#include "core/profile/work.h"

namespace estrain::profile {

struct Entry {
  Work work;
  Capability capability;

  int64_t last_measured() const;  // seconds since 1970; 0: never
};

class Profiles {
 public:
  static constexpr size_t kMostEntries = 1000;  // those measured longest ago go first

  const std::vector<Entry>& entries() const { return entries_; }
  const Capability* find(const Work& work) const;                  // null: nothing known
  Capability& at(const Work& work);                                // made where there is none
  Profiles of(const spec::JobSpec& spec, const Host& host) const;  // what is known of this job, on any kind of device

  // Takes in what a stage of the job did: of each kind in it the time of a mini-batch and of the exchange.
  void learn(const spec::JobSpec& spec, const Host& host, const StageSpeed& stage, int64_t now);

  // From two stages of one lone worker with different numbers of ESTs, n and m: c(n) = t + u/n and c(m) = t + u/m give
  // the time of a mini-batch t and of the update u within the last one. No effect where the update is not in there.
  void learn_update(const spec::JobSpec& spec, const Host& host, const StageSpeed& few, const StageSpeed& many,
                    int64_t now);

  // The document of the file. Throws Fault::corrupt, saying what is wrong, for one that is not of this form or holds
  // numbers that cannot be times.
  Json to_json() const;
  static Profiles from_json(const Json& document);

 private:
  void forget_oldest();

  std::vector<Entry> entries_;
};

}  // namespace estrain::profile
