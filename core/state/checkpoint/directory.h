#pragma once
// RUN/checkpoints: step-%09d.h5 files, the symbolic link `latest` to the newest and, in a run with this link, `best` to
// the checkpoint of the best evaluation; and nothing else for long.
//
// Invariants, even after a power cut at any moment: a file with a checkpoint's name is complete unless it was damaged
// after publication; `latest` is replaced atomically and points to a complete checkpoint; a checkpoint exists once
// `publish` has returned; step 0 is never removed. One process writes at a time; other processes may read.

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/state/checkpoint/checkpoint_file.h"

namespace estrain::checkpoint {

// An unusable checkpoint, and the first error in the file.
struct SkippedCheckpoint {
  Step step;
  std::string path;
  std::string why;
};

struct NewestCheckpoint {
  std::optional<CheckpointFile> file;
  std::vector<SkippedCheckpoint> skipped;  // newer than `file`, newest first
};

class CheckpointDirectory {
 public:
  // The folder is created at the first publication; until then it may be absent. The disk must outlive the object.
  explicit CheckpointDirectory(std::string path, Disk& disk = real_disk()) : path_(std::move(path)), disk_(&disk) {}

  std::string path_of(Step step) const;
  // Published steps, ascending; the files may be damaged.
  std::vector<Step> steps() const;

  // Writes the checkpoint of meta.step (replacing an older file of the step) and points `latest` at it. On failure
  // (Fault::io, for example a full disk), other checkpoints and `latest` are unchanged, without temporary files.
  void publish(const StateLayout& layout, const std::byte* state, const CheckpointMeta& meta);

  // Returns the newest checkpoint with all bytes valid, and the damaged ones skipped before; nothing if all are bad.
  NewestCheckpoint newest_valid() const;

  // Removes checkpoints up to `newest`, the run's step, except for the newest `keep`, step 0 and step `best`. Leaves
  // later checkpoints alone: the run resumed from a step before, so the later files may be wrong. A damaged file does
  // not count among the kept ones, and stays as long as an older one is kept. To see damage, each file is opened at
  // most once, and files published by this object are never opened. Returns the steps removed.
  std::vector<Step> prune(Step newest, int64_t keep, std::optional<Step> best = std::nullopt);

  // Renames the checkpoints later than `step` to FILE.unvouched, so that no run continues from these, and points
  // `latest` at the newest remaining one. Returns the steps renamed. Without a checkpoint up to `step` does nothing.
  std::vector<Step> set_aside_later_than(Step step);

  // Points `best` at the checkpoint of a step, if the checkpoint exists.
  void point_best_at(Step step) const;

  // Removes the remains of an interrupted save; returns the number of files. Not during a save.
  int64_t remove_stale_temporaries() const;

 private:
  void point(const char* link, Step step) const;
  bool is_whole(Step step);

  std::string path_;
  Disk* disk_;
  std::set<Step> whole_;  // published by this object, or successfully opened
};

}  // namespace estrain::checkpoint
