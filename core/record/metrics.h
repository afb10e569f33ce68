#pragma once
// The file metrics.jsonl of a run: a line per step and per evaluation (FORMAT.md). Losses stand as numbers to read and
// as exact bits to compare.

#include <span>
#include <string>
#include <vector>

#include "core/record/appended_file.h"
#include "core/record/step_record.h"

namespace estrain::record {

class MetricsWriter {
 public:
  // Opens the file for steps after `last`; lines beyond and a torn last line are dropped. Throws Fault::io,
  // Fault::corrupt.
  MetricsWriter(const std::string& path, Step last);

  // Adds all lines in one write, or none (Fault::io). Steps that the file has are passed over.
  void append(std::span<const StepRecord> records);
  // Nothing if the file holds the evaluation of that step or a later one: a recovery may repeat one, with the same
  // bits.
  void append(const EvaluationRecord& evaluation);

 private:
  struct Kept {
    uint64_t bytes = 0;
    Step step = Step(-1), evaluated = Step(-1);  // of the last step and the last evaluation
  };
  static Kept whole_lines_until(const std::string& path, Step last);
  MetricsWriter(const std::string& path, const Kept& kept);

  Step step_, evaluated_;
  AppendedFile file_;
};

struct Metrics {
  std::vector<StepRecord> steps;  // without digests
  std::vector<EvaluationRecord> evaluations;
};

// Reads a whole file; a torn last line is left out. Throws Fault::io, Fault::corrupt naming the line.
Metrics read_metrics(const std::string& path);

}  // namespace estrain::record
