#include "core/inspect/watch/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/inspect/watch/records.h"
#include "core/inspect/watch/terminal.h"
#include "core/run/launch/control/run_status.h"

namespace estrain::watch {
namespace {

constexpr size_t kSpans = 240;
constexpr int64_t kLongestWaitNs = 3600 * INT64_C(1'000'000'000);

bool has_ended(const launch::RunStatus& status) {
  const std::string& state = status.state;
  return state == "finished" || state == "stopped" || state == "failed" || state == "not running";
}

class Watch {
 public:
  explicit Watch(const std::string& run) : run_(run), records_(run) { view_.status = launch::run_status(run); }

  bool has_ended() const { return watch::has_ended(view_.status); }
  const View& view() const { return view_; }

  void look_again() {
    try {
      view_.status = launch::run_status(run_);
      view_.trouble.clear();
    } catch (const Error& error) {
      if (error.fault() == Fault::usage) throw;
      view_.trouble = error.message();
    }
    read_records();
  }
  void read_records() {
    try {
      records_.follow();
    } catch (const Error& error) {
      view_.trouble = error.message();
    }
    view_.losses = records_.losses().in_spans(kSpans);
    view_.events = records_.events();
  }

 private:
  const std::string& run_;
  Records records_;
  View view_;
};

// Returns the final look.
Look draw_until_done(Watch& watch, double seconds) {
  Terminal terminal;
  const int64_t period = nanoseconds(seconds);
  int64_t next = monotonic_ns() + period;
  for (;;) {
    terminal.draw(lines_of(watch.view(), terminal.look()));
    if (watch.has_ended()) break;
    const int64_t left = std::min(next - monotonic_ns(), kLongestWaitNs);
    const auto happened = terminal.wait(left > 0 ? static_cast<int>(left / 1'000'000 + 1) : 0);
    if (happened == Terminal::Happened::quit) break;
    if (monotonic_ns() < next) continue;
    watch.look_again();
    next = monotonic_ns() + period;
  }
  return terminal.look();
}

}  // namespace

void watch_run(const std::string& run, double seconds) {
  Watch watch(run);
  watch.read_records();
  Look look = draw_until_done(watch, seconds);
  for (const std::string& line : lines_of(watch.view(), look)) fmt::print("{}\n", line);
}

}  // namespace estrain::watch
