#pragma once
// The records of a run directory, as far as a report shows them. Their size does not grow with the run.

#include <string>
#include <vector>

#include "core/report/series.h"
#include "core/report/timeline.h"

namespace estrain::report {

struct RunRecords {
  std::string path;
  std::string name, model;  // of job.toml; the directory's name and nothing where that cannot be read
  std::string spec;         // job.toml's text
  int64_t steps = 0;        // recorded
  int64_t last_step = 0, last_epoch = 0;
  Series loss, lr, samples_per_second;  // over steps
  Series test_loss, test_accuracy;      // over steps, where there was an evaluation
  int64_t without_update = 0;           // steps, by train.nonfinite = "skip"
  Timeline timeline;
  std::vector<std::string> damage;  // what could not be read, a sentence each
};

// A run that is at work may be read. What cannot be read of a damaged file is passed over and told in `damage`. Throws
// Fault::usage where there is no run, Fault::io.
RunRecords read_run(const std::string& path);

}  // namespace estrain::report
