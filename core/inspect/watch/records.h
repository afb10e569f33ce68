#pragma once
// Follows the files of a running job, for `status --watch`. Each call reads only added lines.

#include <cstdint>
#include <string>
#include <vector>

#include "core/inspect/report/charts/series.h"
#include "core/inspect/report/charts/timeline.h"

namespace estrain::watch {

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

}  // namespace estrain::watch
