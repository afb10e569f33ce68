#include "core/run/launch/control/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/base/process/child_process.h"
#include "core/base/visible_text.h"

namespace estrain::launch {

std::string format_duration(double seconds) {
  const int64_t whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

double seconds_until_done(const Progress& progress, double seconds_per_step) {
  return seconds_per_step * static_cast<double>(std::max<int64_t>(0, progress.total_steps - progress.step));
}

std::string format_progress(const Progress& progress) {
  std::string line = fmt::format("step {}", progress.step);
  if (progress.step <= progress.total_steps) line += fmt::format("/{}", progress.total_steps);  // users may lower it
  line += fmt::format("  epoch {}", progress.epoch + 1);
  if (progress.epochs && progress.epoch < *progress.epochs) line += fmt::format(" of {}", *progress.epochs);
  if (progress.samples_per_second > 0)  // a step was trained
    line += fmt::format("  loss {:.4f}  {:.1f} samples/s", progress.loss, progress.samples_per_second);
  line += "  on " + progress.devices;
  if (progress.accuracy) line += fmt::format("  test accuracy {:.2f} %", 100 * *progress.accuracy);
  if (progress.seconds_left) line += fmt::format("  {} left", format_duration(*progress.seconds_left));
  return line;
}

Screen Screen::of(std::FILE* out) {
  const int fd = ::fileno(out);
  Screen screen;
  screen.terminal = ::isatty(fd) == 1;
  screen.erases = environment_variable("TERM").value_or("dumb") != "dumb";
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) screen.columns = size.ws_col;
  return screen;
}

ProgressPrinter::ProgressPrinter(double every_seconds, std::FILE* out, Screen (*screen_of)(std::FILE*))
    : out_(out),
      screen_of_(screen_of),
      period_(nanoseconds(Seconds(every_seconds * (screen_of(out).terminal ? 1 : 10)))) {}

// Clears the line, but not the last column: a terminal may begin the next row when the last column is filled.
void ProgressPrinter::clear_line(const Screen& screen) {
  if (line_open_ && screen.terminal) {
    const std::string blank = screen.erases ? "\033[K" : std::string(screen.columns - 1, ' ') + "\r";
    fmt::print(out_, "\r{}", blank);
  }
  line_open_ = false;
}

void ProgressPrinter::show(const Progress& progress, MonotonicTime now) {
  const Screen screen = screen_of_(out_);
  clear_line(screen);
  const std::string line = format_progress(progress);
  if (screen.terminal)
    std::fputs(line.substr(0, screen.columns - 1).c_str(), out_);
  else
    fmt::print(out_, "{}\n", line);
  std::fflush(out_);
  line_open_ = screen.terminal;
  next_ = now + period_;
}

void ProgressPrinter::note(const std::string& line) {
  clear_line(screen_of_(out_));
  fmt::print(out_, "{}\n", visible(line));
  std::fflush(out_);
}

}  // namespace estrain::launch
