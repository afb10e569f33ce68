#pragma once
// The file metrics.jsonl of a run: a line per step and per evaluation (FORMAT.md). Losses stand as numbers to read and
// as exact bits to compare.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/record/appended_file.h"
#include "core/record/damage.h"
#include "core/record/step_record.h"

namespace estrain::record {

class MetricsWriter {
 public:
  // Opens the file for steps after `last`; lines beyond and a torn last line are dropped. Reads it backwards, and no
  // more than kCheckedBytes of the lines that stay. Throws Fault::io, and Fault::corrupt where mend_metrics would
  // mend.
  MetricsWriter(const std::string& path, Step last);

  // Adds all lines in one write, or none (Fault::io). Steps that the file has are passed over.
  void append(std::span<const StepRecord> records);
  // Nothing if the file holds the evaluation of that step or a later one: a recovery may repeat one, with the same
  // bits.
  void append(const EvaluationRecord& evaluation);

  const std::string& path() const { return path_; }
  // That the file holds, as far as it was looked at when it was opened; -1: none.
  Step last_step() const { return step_; }
  Step last_evaluation() const { return evaluated_; }

 private:
  uint64_t take_up(const std::string& path, Step last);

  const std::string path_;
  Step step_ = Step(-1), evaluated_ = Step(-1);  // of the last step and its evaluation; -1: none
  AppendedFile file_;
};

// Before a run goes on from step `last`: a file in which something up to that step cannot be read, as far as
// MetricsWriter looks, is put aside, and all lines up to `last` that can be read take its place. Nothing where the file
// is sound, or there is none. Throws Fault::io.
std::optional<Damage> mend_metrics(const std::string& path, Step last);

struct Metrics {
  std::vector<StepRecord> steps;  // without digests
  std::vector<EvaluationRecord> evaluations;
};

// Reads a whole file; a torn last line is left out. Throws Fault::io, Fault::corrupt naming the line.
Metrics read_metrics(const std::string& path);

}  // namespace estrain::record
