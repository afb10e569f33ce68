#pragma once
// A RunDirectory is the folder of a run: its files, lock and owner.

#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/files/run_files.h"
#include "core/base/files/unique_fd.h"
#include "core/base/json/json.h"
#include "core/job/spec/job_spec.h"
#include "core/state/run_directory/run_owner.h"

namespace estrain::run_directory {

class RunDirectory : public RunFiles {
 public:
  using RunFiles::RunFiles;

  // Tells whether a run was ever started here and left its spec, or a checkpoint. Throws Fault::usage for a path that
  // leads nowhere.
  bool has_run() const;
  // Makes the folder and takes its lock for as long as the descriptor (or a copy inherited by a child) is open. Throws
  // Fault::usage if the lock stays taken for `patience`. A launcher that has ended leaves the lock to its scribe,
  // which may be writing a last checkpoint: lock() waits for the scribe, however long it takes, unless `patience`
  // is 0, and says so on stderr; if the scribe waits for room on the disk, the message names its process. Throws
  // Fault::usage, too, if a run must not write to a file of this run (base/files/own_file.h). An owner on another host
  // at work a moment ago is watched for half a minute: the lock may not show the owner. A scribe of this run on this
  // host counts as the lock's holder, too: the lock file of its launcher may have been deleted.
  UniqueFd lock(Nanoseconds patience) const;
  // For the launcher at work, again and again: if the lock file was deleted, makes the file anew, becomes its owner,
  // and has the descriptor `lock` hold the new file's lock. Returns false if another launcher owns a new file: this
  // launcher must not write any more. Throws Error if the file cannot be made now.
  bool keep_lock(int lock) const;
  // Tells whether a process of this host writes the files of a run here.
  bool has_scribe() const;
  // These three are for a process resuming a run whose launcher was on another host. try_lock() takes the lock if the
  // lock is free now. watch_owner() is for hosts that do not see each other's locks: it watches for half a minute
  // whether the former owner is at work, and throws Fault::usage if the owner is. own() makes the directory this
  // process's.
  std::optional<UniqueFd> try_lock() const;
  void watch_owner() const;
  void own(const UniqueFd& lock) const;
  // Returns the last process with the lock; nothing if no process had the lock, or the last one ended as expected.
  std::optional<RunOwner> owner() const;
  // Returns the owner if it is on another host and has shown life within kSilentSeconds.
  std::optional<DistantOwner> owner_elsewhere() const;
  // Ends the ownership of a launcher that ends as expected.
  void disown(int lock) const;
  void write_spec(const spec::JobSpec& spec) const;
  spec::JobSpec read_spec() const;

  // Appends {"time": …, "event": name, …} to events.jsonl. If the append fails (a full disk), prints a warning: a job
  // does not end because its history lacks a line.
  void log_event(std::string_view name, const Json& details) const;

 private:
  void require_own_files() const;
};

}  // namespace estrain::run_directory
