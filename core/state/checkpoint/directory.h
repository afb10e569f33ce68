#pragma once
// RUN/checkpoints: step-%09d.h5 files, symbolic links `latest` to the newest and, in a run that keeps it, `best` to
// that of the best evaluation; and nothing else for long.
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
#include "core/state/checkpoint/checkpoint_file.h"

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

  // Removes checkpoints up to `newest`, where the run is, except for the newest `keep`, step 0 and step `best`. Later
  // ones are left alone: the run went on from before them, so they may be wrong. A damaged one does not count among
  // those that are kept, and stays as long as an older one is kept. To see damage, each file is opened at most once,
  // and none that this object published. Returns the steps removed.
  std::vector<Step> prune(Step newest, int64_t keep, std::optional<Step> best = std::nullopt);

  // Renames the checkpoints later than `step` to FILE.unvouched, so that no run continues from them, and points
  // `latest` at the newest of the others. Returns their steps. Without a checkpoint up to `step` it does nothing.
  std::vector<Step> set_aside_later_than(Step step);

  // Points `best` at the checkpoint of a step, if it is there.
  void point_best_at(Step step) const;

  // Removes the remains of an interrupted save; returns the number of files. Not during a save.
  int64_t remove_stale_temporaries() const;

 private:
  void point(const char* link, Step step) const;
  bool is_whole(Step step);

  std::string path_;
  Disk* disk_;
  std::set<Step> whole_;  // published here, or successfully opened
};

}  // namespace estrain::checkpoint
