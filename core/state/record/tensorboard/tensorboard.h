#pragma once
// The folder `tensorboard` of a run (logging.tensorboard): its metrics for TensorBoard (FORMAT.md).
//
// Each writer begins a new file, whose first messages tell TensorBoard to forget the steps after the last one in
// metrics.jsonl. Earlier files may have some of them, and TensorBoard still shows each step once. No file is read back.

#include <memory>
#include <span>
#include <string>

#include "core/state/record/logs/appended_file.h"
#include "core/state/record/logs/metrics.h"
#include "core/state/record/logs/step_record.h"

namespace estrain::record {

class TensorboardWriter {
 public:
  // Creates the folder, and in it a file for what comes after the last step of `metrics`. If it is the first one, adds
  // all of `metrics`, with the time of writing instead of the time of the step. Throws Fault::io, and Fault::usage for
  // a folder that a run refuses to write to (base/files/own_file.h); then it leaves no file behind.
  TensorboardWriter(const std::string& folder, const MetricsWriter& metrics);

  // Append all in one write, or none (Fault::io). Skip what has been appended. The caller appends records to `metrics`
  // after that: where it is killed in between, the next writer's file makes TensorBoard forget them.
  void append(std::span<const StepRecord> records);
  void append(const EvaluationRecord& evaluation);

 private:
  void add_all(const std::string& metrics);

  Step step_ = Step(-1), evaluated_ = Step(-1);  // of the last step and evaluation; -1: none
  std::unique_ptr<AppendedFile> file_;
};

}  // namespace estrain::record
