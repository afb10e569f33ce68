#pragma once
// The file `metrics.prom` of a run (logging.openmetrics): the run's current status in the OpenMetrics text format,
// which Prometheus' node_exporter also reads as a text file (FORMAT.md). The file is replaced as a whole, so a reader
// finds the old or the new file; not synced.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/state/record/logs/step_record.h"

namespace estrain::record {

class OpenMetricsWriter {
 public:
  // `run` is the run directory, `job` the job's name.
  OpenMetricsWriter(std::string run, std::string job) : run_(std::move(run)), job_(std::move(job)) {}

  void note(const StepRecord& step);
  void note(const EvaluationRecord& evaluation) { evaluation_ = evaluation; }

  // Writes the file if something is new, at most once a second. Throws Fault::io; the next call tries again.
  void write_if_due(MonotonicTime now);
  void write();

  std::string text() const;

 private:
  void follow_events();

  const std::string run_, job_;
  std::optional<StepRecord> step_;
  std::optional<EvaluationRecord> evaluation_;
  double step_time_ = 0;                   // seconds since 1970
  std::map<std::string, int64_t> events_;  // by name
  int64_t workers_ = 0;
  uint64_t read_ = 0;  // bytes of events.jsonl
  MonotonicTime next_{};
  bool is_new_ = true;
};

}  // namespace estrain::record
