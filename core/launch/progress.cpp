#include "core/launch/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "core/base/clock.h"

namespace estrain::launch {

std::string format_duration(double seconds) {
  const int64_t whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string format_progress(const Progress& progress) {
  std::string line = fmt::format("step {}", progress.step);
  if (progress.step <= progress.total_steps) line += fmt::format("/{}", progress.total_steps);  // which may be lowered
  line += fmt::format("  epoch {}", progress.epoch);
  if (progress.samples_per_second > 0)  // there was a step
    line += fmt::format("  loss {:.4f}  {:.1f} samples/s", progress.loss, progress.samples_per_second);
  line += "  on " + progress.devices;
  if (progress.accuracy) line += fmt::format("  test accuracy {:.2f} %", 100 * *progress.accuracy);
  if (progress.seconds_left) line += fmt::format("  {} left", format_duration(*progress.seconds_left));
  return line;
}

ProgressPrinter::ProgressPrinter(double every_seconds)
    : terminal_(::isatty(STDOUT_FILENO) == 1), period_ns_(nanoseconds(every_seconds * (terminal_ ? 1 : 10))) {}

void ProgressPrinter::clear_line() {
  if (line_open_) std::fputs("\r\033[K", stdout);
  line_open_ = false;
}

void ProgressPrinter::show(const Progress& progress, int64_t now_ns) {
  clear_line();
  const std::string line = format_progress(progress);
  std::fputs(line.c_str(), stdout);
  if (!terminal_) std::fputc('\n', stdout);
  std::fflush(stdout);
  line_open_ = terminal_;
  next_ns_ = now_ns + period_ns_;
}

void ProgressPrinter::note(const std::string& line) {
  clear_line();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace estrain::launch
