#pragma once
// The records of a run directory, and the difference between two runs, as needed by a report. The size of the records
// does not grow with the run.

#include <string>
#include <utility>
#include <vector>

#include "core/inspect/report/charts/series.h"
#include "core/inspect/report/charts/timeline.h"

namespace estrain::report {

struct RunRecords {
  std::string path;
  std::string name, model;  // from job.toml; if job.toml is unreadable, the directory's name and ""
  std::string spec;         // job.toml's text
  int64_t steps = 0;        // recorded
  int64_t last_step = 0, last_epoch = 0;
  Series loss, lr, samples_per_second;                // over steps
  Series test_loss, test_accuracy;                    // over steps with an evaluation
  std::vector<std::pair<std::string, Series>> terms;  // of the loss, over steps
  int64_t without_update = 0;                         // steps, by train.nonfinite = "skip"
  Timeline timeline;
  std::vector<std::string> damage;  // unreadable parts, a sentence each
};

// The run may be running. Skips unreadable parts of a damaged file and lists these parts in `damage`. Throws
// Fault::usage if there is no run, Fault::io.
RunRecords read_run(const std::string& path);

// The difference between two runs: the result of `estrain verify`, and the distance of their losses.
struct RunDifference {
  bool compared = false;  // if false, `words` gives the reason
  bool identical = false;
  int64_t first_step = 0;  // the first step with a difference
  std::string words;       // from verify::to_text
  Series losses;           // |loss of A - loss of B| at common steps
};

// Incomparable runs are also a result: two runs without a common step, a damaged record. Throws Fault::io if the losses
// are unreadable.
RunDifference difference_of(const std::string& a, const std::string& b);

}  // namespace estrain::report
