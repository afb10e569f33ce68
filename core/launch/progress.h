#pragma once
// What the user sees while a job runs: one line that is rewritten on a terminal, plain lines now and then otherwise.

#include <cstdint>
#include <optional>
#include <string>

namespace estrain::launch {

// A moment of a running job. Pure data: made from shared memory by the launcher, shown by `train`, sent to `status`.
struct Progress {
  int64_t step = 0, total_steps = 0;
  int64_t epoch = 0;
  double loss = 0;
  double lr = 0;
  double samples_per_second = 0;
  std::optional<double> accuracy;  // of the last evaluation
  std::string devices;
  std::optional<double> seconds_left;
};

std::string format_progress(const Progress& progress);
std::string format_duration(double seconds);  // "42 s", "3 min 05 s", "2 h 10 min"

// Prints to stdout.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(double every_seconds);
  bool due(int64_t now_ns) const { return now_ns >= next_ns_; }
  void show(const Progress& progress, int64_t now_ns);
  // A line of its own that stays: a resize, a warning, the end.
  void note(const std::string& line);

 private:
  void clear_line();

  const bool terminal_;
  const int64_t period_ns_;
  int64_t next_ns_ = 0;
  bool line_open_ = false;
};

}  // namespace estrain::launch
