#pragma once
// The folder `tensorboard` of a run (logging.tensorboard): its metrics for TensorBoard (FORMAT.md).
//
// It has the same metrics as metrics.jsonl: every step once, in spite of kills, resumes and power cuts. Missing or
// damaged parts are rewritten from there, with the time of writing instead of the time of the step.

#include <memory>
#include <span>
#include <string>

#include "core/state/record/logs/appended_file.h"
#include "core/state/record/logs/metrics.h"
#include "core/state/record/logs/step_record.h"

namespace estrain::record {

class TensorboardWriter {
 public:
  // Opens or creates the folder for steps after `last`. Drops later and damaged messages, and then begins a new file,
  // which tells a running TensorBoard to forget them. Adds what the folder lacks of `metrics`, which was opened for the
  // same step and may have grown since. Throws Fault::io, and Fault::usage for files that a run refuses to write to
  // (own_file.h).
  TensorboardWriter(const std::string& folder, const MetricsWriter& metrics, Step last);

  // Appends all in one write, or none (Fault::io). Skips steps already in the files.
  void append(std::span<const StepRecord> records);
  void append(const EvaluationRecord& evaluation);

 private:
  void take_up(Step last);
  void begin_file(int64_t number, Step from);
  void add_missing(const std::string& metrics);

  const std::string folder_;
  Step step_ = Step(-1), evaluated_ = Step(-1);  // of the last step and evaluation; -1: none
  std::unique_ptr<AppendedFile> file_;
};

}  // namespace estrain::record
