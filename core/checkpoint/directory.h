#pragma once
// RUN/checkpoints: step-%09d.h5 files, `latest` (a symbolic link to the newest), and nothing else for long.
//
// Invariants, even after a power cut at any moment: a file with such a name is complete unless it was damaged after
// publication; `latest` is replaced atomically and points to a complete checkpoint; a checkpoint exists once `publish`
// has returned; step 0 is never removed. One process writes at a time; others may read.

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/checkpoint/checkpoint_file.h"

namespace estrain::checkpoint {

// An unusable checkpoint, and the first error in it.
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

  // Writes the checkpoint of meta.step (replacing one of that step) and points `latest` at it. On failure (Fault::io,
  // for example a full disk), all other checkpoints and `latest` are unchanged, without temporary files.
  void publish(const StateLayout& layout, const std::byte* state, const CheckpointMeta& meta);

  // The newest checkpoint that is valid in every byte, and the damaged ones skipped before it; nothing if none is.
  NewestCheckpoint newest_valid() const;

  // Removes the checkpoints up to `newest`, the run's current step, except the newest `keep` and step 0. Later ones are
  // left alone: the run resumed from before them, so they may be wrong. A damaged one does not count as kept, but stays
  // as long as an older one is kept. To find damage, each file is opened at most once, and files published by this
  // object never. Returns the removed steps.
  std::vector<Step> prune(Step newest, int64_t keep);

  // Removes the remains of an interrupted save; returns the number of files. Not during a save.
  int64_t remove_stale_temporaries() const;

 private:
  void point_latest_at(Step step) const;
  bool is_whole(Step step);

  std::string path_;
  Disk* disk_;
  std::set<Step> whole_;  // published here, or successfully opened
};

}  // namespace estrain::checkpoint
