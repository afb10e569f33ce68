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
  std::map<Step, checkpoint::CheckpointFile> checkpoints;   // those that open; their elements are unchecked
  std::vector<UnreadableCheckpoint> unreadable;
};

// Throws Fault::usage for a path that is neither a run nor a checkpoint, Fault::corrupt for a damaged checkpoint or
// record, Fault::io.
Subject open_subject(const std::string& path);

}  // namespace estrain::verify
