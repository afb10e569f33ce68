#pragma once
// The database of profiles: a JSON file for users to read, and to delete at any time.
//
//   {"format": "estrain profiles 1",
//    "profiles": [{"work": {"model.name": "gpt", …, "device": "cpu:avx2", "cpu": …, "cores": "2", "build": …},
//                  "mini_batch": [{"workers", "seconds", "spread", "samples", "measured"}…],
//                  "update": {"seconds", …},
//                  "exchange": [{"workers", "partial_sums", "seconds", …}…],
//                  "change": {"seconds", …},
//                  "memory": {"worker", "state", "gradients", "batch"}}…]}
//
// "seconds" are for a mini-batch, an update, an exchange or a change of devices; "measured" is in seconds since 1970;
// memory is in bytes. Several jobs may use the file at the same time: each change reads, modifies and replaces the file
// under a lock (the file with ".lock" appended to its name). No change is lost, and readers see a whole file.

#include <functional>
#include <map>
#include <string>

#include "core/planning/profile/profiles.h"

namespace estrain::profile {

// ESTRAIN_PROFILES; otherwise estrain/profiles.json in XDG_CACHE_HOME, or in .cache of HOME. Empty if all three are
// unset.
std::string default_store_path(const std::map<std::string, std::string, std::less<>>& environment);

class ProfileStore {
 public:
  // Calls `warn` with a sentence if a file is renamed because of damage.
  ProfileStore(std::string path, std::function<void(const std::string&)> warn)
      : path_(std::move(path)), warn_(std::move(warn)) {}

  const std::string& path() const { return path_; }

  // Returns the content of the file; empty if the file is missing. A damaged or foreign file is renamed to PATH.bad
  // with a warning, and a new file will be made. Throws Fault::io if the file is unreadable.
  Profiles load() const;

  // Reads the file, applies `change`, and writes the file. Creates the folder. Throws Fault::io if a write fails, or if
  // another process holds the lock for more than two seconds.
  void update(const std::function<void(Profiles&)>& change) const;

 private:
  Profiles read() const;  // also throws Fault::corrupt
  Profiles load_locked() const;

  std::string path_;
  std::function<void(const std::string&)> warn_;
};

}  // namespace estrain::profile
