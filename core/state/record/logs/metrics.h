#pragma once
// The file metrics.jsonl of a run: a line per step and per evaluation (FORMAT.md). Losses are given as numbers for
// reading and as exact bits for comparing.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/state/record/logs/appended_file.h"
#include "core/state/record/logs/damage.h"
#include "core/state/record/logs/step_record.h"

namespace estrain::record {

class MetricsWriter {
 public:
  // Opens the file for steps after `last`, and creates a missing file. Drops the lines of later steps and a torn last
  // line. Reads backwards, and at most about kCheckedBytes (16 MiB) of the kept lines. Throws Fault::io, and
  // Fault::corrupt if mend_metrics() would mend the file.
  MetricsWriter(const std::string& path, Step last);

  // Appends all lines in one write, or none (Fault::io). Skips steps already in the file.
  void append(std::span<const StepRecord> records);
  // Appends a line (Fault::io). Does nothing if the file has the evaluation of the step or a later evaluation: a
  // recovery may repeat an evaluation, with the same bits.
  void append(const EvaluationRecord& evaluation);

  const std::string& path() const { return path_; }
  // Returns the file's last step, within the range read at the opening; -1: no step.
  Step last_step() const { return step_; }
  Step last_evaluation() const { return evaluated_; }

 private:
  uint64_t take_up(const std::string& path, Step last);

  const std::string path_;
  Step step_ = Step(-1), evaluated_ = Step(-1);  // of the last step and its evaluation; -1: none
  AppendedFile file_;
};

// Call this before a run resumes from step `last`. If a line up to `last` is unreadable, within the range checked by
// MetricsWriter, sets the file aside and replaces the file by the readable lines up to `last`. Returns the new name of
// the damaged file, or nothing if the file is intact or missing. Throws Fault::io.
std::optional<Damage> mend_metrics(const std::string& path, Step last);

struct Metrics {
  std::vector<StepRecord> steps;  // without digests
  std::vector<EvaluationRecord> evaluations;
};

// Reads a whole file; ignores a torn last line. Throws Fault::io, Fault::corrupt naming the line.
Metrics read_metrics(const std::string& path);

}  // namespace estrain::record
