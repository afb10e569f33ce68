#pragma once
// `estrain status RUN --watch`: a view of a run, redrawn until the run ends or the user quits.

#include <cstdint>
#include <string>
#include <vector>

#include "core/inspect/report/charts/series.h"
#include "core/inspect/report/charts/timeline.h"

namespace estrain::watch {

// Follows the files of a running job. Each call reads only added lines.
class Records {
 public:
  explicit Records(std::string run) : run_(std::move(run)) {}

  // Reads new lines. After a resume, files may be shorter than before: then follow() reads the files again. Reads only
  // the end of a long file. Skips damaged lines. Throws Fault::io.
  void follow();

  const report::Series& losses() const { return losses_; }
  const std::vector<report::Mark>& events() const { return events_; }  // the last few, oldest first

 private:
  void follow_metrics();
  void follow_events();

  std::string run_;
  report::Series losses_;
  std::vector<report::Mark> events_;
  uint64_t read_ = 0;  // of metrics.jsonl
};

// Draws every `seconds`. When the run has ended, or on q or Ctrl-C, restores the terminal and prints
// the last view. Throws Fault::usage without a run or a terminal; shows other errors and tries
// again.
void watch_run(const std::string& run, double seconds);

}  // namespace estrain::watch
