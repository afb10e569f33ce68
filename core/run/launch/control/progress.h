#pragma once
// The output for the user while a job runs: one line, rewritten again and again, on a terminal; plain lines now and
// then otherwise.

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "core/base/clock.h"

namespace estrain::launch {

// A moment of a running job. Pure data: made from shared memory by the launcher, shown by `train`, sent to `status`.
struct Progress {
  int64_t step = 0, total_steps = 0;
  int64_t epoch = 0;                   // counted from 0, as in metrics.jsonl
  std::optional<int64_t> epochs = {};  // of the whole job, if the spec says it in epochs
  double loss = 0;
  double lr = 0;
  double samples_per_second = 0;
  std::optional<double> accuracy;  // of the last evaluation
  std::string devices;
  std::optional<double> seconds_left;
};

// Returns the time until the last step, at this speed; 0 after the last step.
double seconds_until_done(const Progress& progress, double seconds_per_step);

std::string format_progress(const Progress& progress);
std::string format_duration(double seconds);  // "42 s", "3 min 05 s", "2 h 10 min"

// The terminal or file for printed lines.
struct Screen {
  bool terminal = false;  // else no control characters at all
  bool erases = false;    // knows "erase to the end of the line"; else spaces overwrite the line
  size_t columns = 80;    // a longer line would run into the next row and stay

  // Returns the present state of `out`: a terminal may change its size.
  static Screen of(std::FILE* out);
};

// Prints to `out`. On a terminal a line of progress stays open until the next output, also when the launcher re-execs
// itself: a new printer assumes an open line.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(double every_seconds) : ProgressPrinter(every_seconds, stdout, Screen::of) {}
  ProgressPrinter(double every_seconds, std::FILE* out, Screen (*screen_of)(std::FILE*));
  bool due(MonotonicTime now) const { return now >= next_; }
  void show(const Progress& progress, MonotonicTime now);
  // Prints a line that stays: a resize, a warning, the end.
  void note(const std::string& line);

 private:
  void clear_line(const Screen& screen);

  std::FILE* const out_;
  Screen (*const screen_of_)(std::FILE*);
  const Nanoseconds period_;
  MonotonicTime next_{};
  bool line_open_ = true;
};

}  // namespace estrain::launch
