#pragma once
// The folder `tensorboard` of a run (logging.tensorboard): its metrics as TensorBoard reads them (FORMAT.md).
//
// It says what metrics.jsonl says: every step once, also over kills, resumes and power cuts. What it lacks, or what is
// damaged in it, is written again from there; then the time of writing stands for the time of the step.

#include <memory>
#include <span>
#include <string>

#include "core/record/appended_file.h"
#include "core/record/metrics.h"
#include "core/record/step_record.h"

namespace estrain::record {

class TensorboardWriter {
 public:
  // Opens the folder for steps after `last`, which is made where there is none. What is beyond, or damaged, is dropped,
  // and a new file begun, which tells a TensorBoard that has seen it to forget it. What the folder lacks
  // of `metrics`, which was opened for the same step and may have grown since, is added. Throws Fault::io, and
  // Fault::usage for what a run does not write to (own_file.h).
  TensorboardWriter(const std::string& folder, const MetricsWriter& metrics, Step last);

  // Adds all in one write, or none (Fault::io). Steps that the files have are passed over.
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
