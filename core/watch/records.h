#pragma once
// Follows the files of a run at work, for `status --watch`. Each call reads what was added since the last one.

#include <cstdint>
#include <string>
#include <vector>

#include "core/report/series.h"
#include "core/report/timeline.h"

namespace estrain::watch {

class Records {
 public:
  explicit Records(std::string run) : run_(std::move(run)) {}

  // Reads on. A run that was resumed may have shorter files than before: they are read anew. Of a long file only the
  // end is read. What is damaged is passed over. Throws Fault::io.
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
