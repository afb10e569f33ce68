#pragma once
// The time at which a silent process was last seen at work: a pure function of looks at its files in /proc.

#include <cstdint>

#include "core/base/process/process_stat.h"

namespace estrain::launch {

class WorkSign {
 public:
  // A smaller share of processor time counts as no processor time: threads in the background look around.
  static constexpr double kNone = 0.01;

  // Call again and again while the process is silent since `silent_since_ns` (both monotonic). The process is at work
  // if it has taken processor time since its last work was found, or since the first look at the silence; or if it
  // runs, or would run if other processes did not hold the processor.
  void observe(int64_t now_ns, int64_t silent_since_ns, const ProcessStat& stat);
  void mark(int64_t now_ns) { at_ns_ = now_ns; }  // the process counts as at work

  int64_t at_ns() const { return at_ns_; }  // 0: never

 private:
  int64_t at_ns_ = 0;
  int64_t silent_since_ns_ = -1;  // of the last look
  int64_t from_ns_ = 0;           // since when the processor time is counted
  uint64_t ticks_ = 0;            // of processor time, taken until then
};

}  // namespace estrain::launch
