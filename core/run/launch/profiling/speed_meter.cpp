#include "core/run/launch/profiling/speed_meter.h"

#include <algorithm>

namespace estrain::launch {
namespace {

void add(SpeedMeter::Span& sum, const SpeedMeter::Span& span) {
  if (sum.steps == 0) {
    sum = span;
    return;
  }
  sum.to_step = span.to_step;
  sum.steps += span.steps;
  sum.seconds += span.seconds;
  for (size_t i = 0; i < sum.workers.size(); ++i) {
    sum.workers[i].computing_ns += span.workers[i].computing_ns;
    sum.workers[i].mini_batches += span.workers[i].mini_batches;
    sum.workers[i].reading_ns += span.workers[i].reading_ns;
  }
}

}  // namespace

double SpeedMeter::Worker::seconds_per_mini_batch() const {
  return mini_batches > 0 ? static_cast<double>(computing_ns) * 1e-9 / static_cast<double>(mini_batches) : 0;
}

double SpeedMeter::Span::step_seconds() const { return steps > 0 ? seconds / static_cast<double>(steps) : 0; }

double SpeedMeter::Span::exchange_seconds() const {
  double slowest = 0;
  for (const Worker& worker : workers) {
    slowest = std::max(slowest, static_cast<double>(worker.ests) * worker.seconds_per_mini_batch());
  }
  return std::max(0.0, step_seconds() - slowest);
}

double SpeedMeter::Span::reading_share() const {
  int64_t reading = 0, computing = 0;
  for (const Worker& worker : workers) {
    reading += worker.reading_ns;
    computing += worker.computing_ns;
  }
  return computing > 0 ? static_cast<double>(reading) / static_cast<double>(computing) : 0;
}

void SpeedMeter::begin(int64_t step) {
  first_step_ = step + kColdSteps;
  mark_.reset();
  stage_ = {};
  windows_.clear();
  complete_ = 0;
}

bool SpeedMeter::observe(int64_t step, int64_t step_ns, int64_t evaluated, const std::vector<Worker>& workers) {
  if (step < first_step_) return false;
  const auto mark_here = [&] { mark_ = Mark{step, step_ns, evaluated, workers}; };
  if (!mark_ || mark_->evaluated != evaluated || mark_->workers.size() != workers.size()) {
    mark_here();
    return false;
  }
  if (step - mark_->step < kWindowSteps || step_ns - mark_->ns < kWindowNs) return false;
  Span window{mark_->step, step, step - mark_->step, static_cast<double>(step_ns - mark_->ns) * 1e-9, workers};
  for (size_t i = 0; i < workers.size(); ++i) {
    window.workers[i].computing_ns -= mark_->workers[i].computing_ns;
    window.workers[i].mini_batches -= mark_->workers[i].mini_batches;
    window.workers[i].reading_ns -= mark_->workers[i].reading_ns;
  }
  mark_here();
  add(stage_, window);
  complete_ += 1;
  windows_.push_back(std::move(window));
  if (windows_.size() > kRecentWindows) windows_.pop_front();
  return true;
}

SpeedMeter::Span SpeedMeter::recent(size_t windows) const {
  Span sum;
  for (size_t i = windows_.size() - std::min(windows, windows_.size()); i < windows_.size(); ++i) add(sum, windows_[i]);
  return sum;
}

}  // namespace estrain::launch
