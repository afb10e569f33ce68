#pragma once
// The database of profiles: one JSON file that a user can read, and delete at any time.
//
//   {"format": "estrain profiles 1",
//    "profiles": [{"work": {"model.name": "gpt", …, "device": "cpu:avx2", "cpu": …, "cores": "2", "build": …},
//                  "mini_batch": [{"workers", "seconds", "spread", "samples", "measured"}…],
//                  "update": {"seconds", …},
//                  "exchange": [{"workers", "partial_sums", "seconds", …}…],
//                  "change": {"seconds", …},
//                  "memory": {"worker", "state", "gradients", "batch"}}…]}
//
// "seconds" are those of a mini-batch, an update, an exchange or a change of devices; "measured" is in seconds since
// 1970; memory is in bytes. Several jobs may use the file at the same time: each change reads, modifies and replaces it
// under a lock (the file with ".lock" appended to its name). So no change is lost, and readers see a whole file.

#include <functional>
#include <map>
#include <string>

#include "core/planning/profile/profiles.h"

namespace estrain::profile {

// ESTRAIN_PROFILES; otherwise estrain/profiles.json in XDG_CACHE_HOME, or in .cache of HOME. Empty if none of these is
// set.
std::string default_store_path(const std::map<std::string, std::string, std::less<>>& environment);

class ProfileStore {
 public:
  // Calls `warn` with one sentence if a file is renamed because it is damaged.
  ProfileStore(std::string path, std::function<void(const std::string&)> warn)
      : path_(std::move(path)), warn_(std::move(warn)) {}

  const std::string& path() const { return path_; }

  // The content of the file; empty if it is missing. A damaged or foreign file is renamed to PATH.bad with a warning,
  // and a new one will be made. Throws Fault::io if the file is unreadable.
  Profiles load() const;

  // Reads the file, applies `change`, and writes it. Creates the folder. Throws Fault::io if that fails, or if another
  // process holds the lock for more than two seconds.
  void update(const std::function<void(Profiles&)>& change) const;

 private:
  Profiles read() const;  // also throws Fault::corrupt
  Profiles load_locked() const;

  std::string path_;
  std::function<void(const std::string&)> warn_;
};

}  // namespace estrain::profile
