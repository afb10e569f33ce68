#include "core/inspect/watch/records.h"

#include <sstream>

#include "core/base/error.h"
#include "core/base/files/long_files.h"
#include "core/base/files/run_files.h"
#include "core/state/record/logs/metrics_line.h"

namespace estrain::watch {
namespace {

constexpr uint64_t kMostMetrics = uint64_t{64} << 20, kMostEvents = uint64_t{64} << 10;
constexpr size_t kEvents = 20;

}  // namespace

void Records::follow() {
  follow_metrics();
  follow_events();
}

void Records::follow_metrics() {
  const std::string path = RunFiles(run_).metrics();
  const uint64_t size = size_of_file(path);
  if (size < read_) {
    losses_ = {};
    read_ = 0;
  }
  if (read_ == 0 && size > kMostMetrics)
    read_ = size - kMostMetrics;  // in the middle of a line, which counts as
                                  // damaged
  LineReader lines(path, read_);
  for (std::string_view text; lines.next(&text);) {
    try {
      const record::Line line = record::parse_line(text, "");
      if (const auto* step = std::get_if<record::StepRecord>(&line)) losses_.add(step->step.value, step->loss);
    } catch (const Error&) {
    }
  }
  read_ = lines.end();
}

void Records::follow_events() {
  report::TimelineReader timeline;
  std::istringstream lines(last_bytes(RunFiles(run_).events(), kMostEvents));
  for (std::string text; std::getline(lines, text);) {
    const Json event = parse_json_if_sound(text);
    if (event.is_object()) timeline.add(event);
  }
  events_ = timeline.finish().marks;
  if (events_.size() > kEvents) events_.erase(events_.begin(), events_.end() - kEvents);
}

}  // namespace estrain::watch
