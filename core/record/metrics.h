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

  // Adds all lines in one write, or none (Fault::io).
  void append(std::span<const StepRecord> records);
  void append(const EvaluationRecord& evaluation);

 private:
  AppendedFile file_;
};

struct Metrics {
  std::vector<StepRecord> steps;  // without digests
  std::vector<EvaluationRecord> evaluations;
};

// Reads a whole file; a torn last line is left out. Throws Fault::io, Fault::corrupt naming the line.
Metrics read_metrics(const std::string& path);

}  // namespace estrain::record
