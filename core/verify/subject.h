#pragma once
// One side of a comparison: a run directory, or a checkpoint alone, which is a run of which one state is known.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint_file.h"
#include "core/record/fingerprints.h"
#include "core/record/metrics.h"
#include "core/spec/job_spec.h"
#include "core/verify/stage.h"

namespace estrain::verify {

struct UnreadableCheckpoint {
  Step step;
  std::string path;
  std::string why;
};

struct Subject {
  std::string path;
  bool is_run = false;
  std::optional<spec::JobSpec> spec;  // none where its text can no longer be read
  std::string changes;                // text of the change log
  std::vector<Stage> stages;
  record::Metrics metrics;                                  // empty for a checkpoint
  std::unique_ptr<record::FingerprintReader> fingerprints;  // may be absent
  // Paths of those that open. None stays open: a run may have more of them than a process may have files.
  std::map<Step, std::string> checkpoints;
  std::string processor;                         // that the newest of them was made on; empty if there is none
  std::vector<UnreadableCheckpoint> unreadable;  // damaged ones of a run
};

// Throws Fault::usage for a path that is neither a run nor a checkpoint, Fault::corrupt for a damaged record or a
// damaged checkpoint that is given alone, Fault::io wherever the system refuses: what was not looked at is not
// identical.
Subject open_subject(const std::string& path);

// One of its checkpoints, elements unchecked. Nothing where it has none of that step, or a running job pruned it since.
// Throws Fault::io, Fault::corrupt.
std::optional<checkpoint::CheckpointFile> open_checkpoint(const Subject& subject, Step step);

}  // namespace estrain::verify
