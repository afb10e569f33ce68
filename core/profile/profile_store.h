#pragma once
// The database of profiles: one JSON file that a user can read, and delete at any time.
//
//   {"format": "estrain profiles 1",
//    "profiles": [{"work": {"model.name": "gpt", …, "device": "cpu:avx2", "cpu": …, "cores": "2", "build": …},
//                  "mini_batch": [{"workers", "seconds", "spread", "samples", "measured"}…],
//                  "update": {"seconds", …},
//                  "exchange": [{"workers", "partial_sums", "seconds", …}…],
//                  "memory": {"worker", "state", "gradients", "batch"}}…]}
//
// Seconds are of a mini-batch, an update, an exchange; "measured" is seconds since 1970; bytes. Several jobs may use it
// at a time: each change reads, changes and replaces the file under a lock (the file with ".lock" behind its name), so
// none is lost, and readers see a whole file.

#include <functional>
#include <map>
#include <string>

#include "core/profile/profiles.h"

namespace estrain::profile {

// ESTRAIN_PROFILES; else estrain/profiles.json in XDG_CACHE_HOME, or in .cache of HOME. Empty where none of them is
// set.
std::string default_store_path(const std::map<std::string, std::string, std::less<>>& environment);

class ProfileStore {
 public:
  // `warn` is told, in one sentence, of a file that was set aside.
  ProfileStore(std::string path, std::function<void(const std::string&)> warn)
      : path_(std::move(path)), warn_(std::move(warn)) {}

  const std::string& path() const { return path_; }

  // What is in the file; nothing where there is none. A file that is damaged or none of ours is renamed to
  // PATH.bad, and said to be so: it will be built anew. Throws Fault::io where there is a file that cannot be read.
  Profiles load() const;

  // Reads, lets `change` change, and writes. Makes the folder. Throws Fault::io where that cannot be done, or where
  // another process holds the lock for longer than two seconds.
  void update(const std::function<void(Profiles&)>& change) const;

 private:
  Profiles read() const;  // throws Fault::corrupt, too
  Profiles load_locked() const;

  std::string path_;
  std::function<void(const std::string&)> warn_;
};

}  // namespace estrain::profile
