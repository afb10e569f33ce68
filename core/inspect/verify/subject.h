#pragma once
// One side of a comparison: a run directory, or a single checkpoint, treated as a run with one known state.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/inspect/verify/history.h"
#include "core/job/spec/job_spec.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/record/logs/fingerprints.h"
#include "core/state/record/logs/metrics.h"

namespace estrain::verify {

struct UnreadableCheckpoint {
  Step step;
  std::string path;
  std::string why;
};

struct Subject {
  std::string path;
  bool is_run = false;
  std::optional<spec::JobSpec> spec;  // nothing if the text is no longer readable
  std::string changes;                // text of the change log
  std::vector<RecordedStage> stages;
  record::Metrics metrics;                                  // empty for a checkpoint
  std::unique_ptr<record::FingerprintReader> fingerprints;  // may be absent
  // Paths of the readable checkpoints, all closed: a run may have more checkpoints than a process may have open files.
  std::map<Step, std::string> checkpoints;
  std::string processor;                         // of the newest checkpoint; empty without a checkpoint
  std::vector<UnreadableCheckpoint> unreadable;  // damaged checkpoints of a run
};

// Throws Fault::usage for a path that is neither a run nor a checkpoint, Fault::corrupt for a damaged record or
// a single damaged checkpoint, Fault::io whenever the system refuses, since unread data cannot count as
// identical.
Subject open_subject(const std::string& path);

// Opens a checkpoint of `subject`, without checking elements. Returns nothing if no checkpoint has this step, or a
// running job has pruned it. Throws Fault::io, Fault::corrupt.
std::optional<checkpoint::CheckpointFile> open_checkpoint(const Subject& subject, Step step);

}  // namespace estrain::verify
