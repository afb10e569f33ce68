#pragma once
// RUN/checkpoints: step-%09d.h5 files, symbolic links `latest` to the newest and, in a run that keeps it, `best` to
// that of the best evaluation; and nothing else for long.
//
// Invariants, a power cut at any moment included: a file with such a name is whole or was damaged after it was
// published; `latest` is replaced atomically and leads to a whole checkpoint; what `publish` returned from is there;
// step 0 is never removed. One process writes at a time; others may read.

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/checkpoint/checkpoint_file.h"

namespace estrain::checkpoint {

// A checkpoint that could not be used, and the first thing that is wrong with it.
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
  // The folder is made when something is published; until then it may be absent. The disk must outlive the object.
  explicit CheckpointDirectory(std::string path, Disk& disk = real_disk()) : path_(std::move(path)), disk_(&disk) {}

  std::string path_of(Step step) const;
  // Published steps, ascending; the files may be damaged.
  std::vector<Step> steps() const;

  // Writes the checkpoint of meta.step (replacing one of that step) and points `latest` at it. If that fails
  // (Fault::io, a full disk for one) all other checkpoints and `latest` are as before and no temporary file is left.
  void publish(const StateLayout& layout, const std::byte* state, const CheckpointMeta& meta);

  // The newest checkpoint of which every byte is right; damaged ones are skipped and told. Nothing if none is.
  NewestCheckpoint newest_valid() const;

  // Of the checkpoints up to `newest`, where the run is, removes all but the newest `keep` and step 0. Later ones are
  // left alone: the run went on from before them, so that they may be wrong. That of step `best` stays, too. A damaged
  // one does not count among those that are kept, and stays as long as an older one is kept; each file is opened once
  // at most to see that, and none that this object published. Returns the steps removed.
  std::vector<Step> prune(Step newest, int64_t keep, std::optional<Step> best = std::nullopt);

  // Points `best` at the checkpoint of a step, if it is there.
  void point_best_at(Step step) const;

  // Removes what an interrupted save left behind; returns how many files. Not while a save is under way.
  int64_t remove_stale_temporaries() const;

 private:
  void point(const char* link, Step step) const;
  bool is_whole(Step step);

  std::string path_;
  Disk* disk_;
  std::set<Step> whole_;  // published here, or seen to open
};

}  // namespace estrain::checkpoint
