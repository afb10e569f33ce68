#pragma once
// Launches in a folder of their own, which resume from a copy of a run's checkpoint: to evaluate the state, or to train
// steps again. So any devices, a module in Python and a user's Dataset work as in training, and a lost worker is
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

// A sample that cannot be read, and is left out by data.skip_bad. In its place stands the next sample.
struct LeftOutRow {
  int64_t sample = 0;  // its number in the data
  std::string why;     // a line
};

struct EvaluatedSubject {
  Step step;  // of the state
  record::EvaluationRecord evaluation;
  std::vector<LeftOutRow> left_out = {};  // by their numbers
};

// Evaluates without training a step, in `folder`, an empty folder, and leaves the outputs in outputs_folder(folder).
// Throws Fault::usage for a subject that is neither a run nor a checkpoint, Fault::corrupt for a damaged checkpoint; an
// error with the exit code and the words of the launch if that fails.
EvaluatedSubject evaluate(const EvaluationRequest& request, const std::string& folder);

// For checkpoint::write_outputs().
std::string outputs_folder(const std::string& folder);

// Runs a part of a run again, to see whether the bits are the same: trains from the checkpoint of `run` at step `from`
// up to step `to`, with the run's spec and, stage by stage, the run's devices. Leaves a checkpoint of `to` and the
// fingerprints of the steps between in `folder`, which is made. The run is not touched. Throws Fault::usage if the
// checkpoint is missing, Fault::peer if the replay fails.
void replay(const std::string& run, Step from, Step to, const std::string& folder);

}  // namespace estrain::launch
