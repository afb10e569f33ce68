#pragma once
// Evaluates a state of a run, in a folder of its own: a launch that resumes from a copy of the checkpoint, evaluates,
// and trains no step. So any devices, a module in Python and a user's Dataset work as in training, and a lost worker is
// replaced. The run is not touched, and may be running.

#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/state/checkpoint/models/output_parts.h"
#include "core/state/record/logs/step_record.h"

namespace estrain::launch {

struct EvaluationRequest {
  std::string subject;                 // a run directory: its newest valid checkpoint; or a checkpoint
  std::string devices;                 // empty: the spec's
  std::vector<std::string> overrides;  // KEY=VALUE, of keys that do not define bits
  bool accept_data = false, allow_mixed = false, oversubscribe = false;
};

struct EvaluatedSubject {
  Step step;  // of the state
  record::EvaluationRecord evaluation;
};

// Evaluates in `folder`, an empty folder, and leaves the outputs in outputs_folder(folder). Throws Fault::usage for a
// subject that is neither a run nor a checkpoint, Fault::corrupt for a damaged checkpoint; an error with the exit code
// and the words of the launch if that fails.
EvaluatedSubject evaluate(const EvaluationRequest& request, const std::string& folder);

// For checkpoint::write_outputs().
std::string outputs_folder(const std::string& folder);

}  // namespace estrain::launch
