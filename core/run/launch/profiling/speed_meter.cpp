#include "core/run/launch/profiling/speed_meter.h"

#include <algorithm>

namespace estrain::launch {
namespace {

void add(SpeedMeter::MeasuredSteps& sum, const SpeedMeter::MeasuredSteps& span) {
  if (sum.steps == 0) {
    sum = span;
    return;
  }
  sum.to_step = span.to_step;
  sum.steps += span.steps;
  sum.seconds += span.seconds;
  for (size_t i = 0; i < sum.workers.size(); ++i) {
    sum.workers[i].computing += span.workers[i].computing;
    sum.workers[i].mini_batches += span.workers[i].mini_batches;
    sum.workers[i].reading += span.workers[i].reading;
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

double SpeedMeter::Worker::seconds_per_mini_batch() const {
  return mini_batches > 0 ? seconds(computing).count() / static_cast<double>(mini_batches) : 0;
}

double SpeedMeter::MeasuredSteps::step_seconds() const { return steps > 0 ? seconds / static_cast<double>(steps) : 0; }

double SpeedMeter::MeasuredSteps::exchange_seconds() const {
  double slowest = 0;
  for (const Worker& worker : workers) {
    slowest = std::max(slowest, static_cast<double>(worker.ests) * worker.seconds_per_mini_batch());
  }
  return std::max(0.0, step_seconds() - slowest);
}

double SpeedMeter::MeasuredSteps::reading_share() const {
  Nanoseconds reading{}, computing{};
  for (const Worker& worker : workers) {
    reading += worker.reading;
    computing += worker.computing;
  }
  return computing > 0ns ? static_cast<double>(reading.count()) / static_cast<double>(computing.count()) : 0;
}

void SpeedMeter::begin(int64_t step) {
  first_step_ = step + kColdSteps;
  mark_.reset();
  stage_ = {};
  windows_.clear();
  complete_ = 0;
}

bool SpeedMeter::observe(int64_t step, MonotonicTime step_at, int64_t evaluated, const std::vector<Worker>& workers) {
  if (step < first_step_) return false;
  const auto mark_here = [&] { mark_ = Snapshot{step, step_at, evaluated, workers}; };
  if (!mark_ || mark_->evaluated != evaluated || mark_->workers.size() != workers.size()) {
    mark_here();
    return false;
  }
  if (step - mark_->step < kWindowSteps || step_at - mark_->time < kWindow) return false;
  MeasuredSteps window{mark_->step, step, step - mark_->step, estrain::seconds(step_at - mark_->time).count(), workers};
  for (size_t i = 0; i < workers.size(); ++i) {
    window.workers[i].computing -= mark_->workers[i].computing;
    window.workers[i].mini_batches -= mark_->workers[i].mini_batches;
    window.workers[i].reading -= mark_->workers[i].reading;
  }
  mark_here();
  add(stage_, window);
  complete_ += 1;
  windows_.push_back(std::move(window));
  if (windows_.size() > kRecentWindows) windows_.pop_front();
  return true;
}

SpeedMeter::MeasuredSteps SpeedMeter::recent(size_t windows) const {
  MeasuredSteps sum;
  for (size_t i = windows_.size() - std::min(windows, windows_.size()); i < windows_.size(); ++i) add(sum, windows_[i]);
  return sum;
}

// Forgets workers that have ended, and everything if a new stage has begun: counts start from zero again.
void SpeedWatch::mark(int64_t step, MonotonicTime now, const std::vector<SpeedMeter::Worker>& workers) {
  std::map<int64_t, Watched> next;
  for (const SpeedMeter::Worker& worker : workers) {
    const auto known = watched_.find(worker.id);
    if (known != watched_.end() && known->second.at_mark.mini_batches <= worker.mini_batches)
      next[worker.id] = known->second;
    next[worker.id].at_mark = worker;
  }
  watched_ = std::move(next);
  marked_step_ = step;
  marked_ = now;
}

std::vector<SpeedWatch::Speed> SpeedWatch::observe(int64_t step, MonotonicTime now,
                                                   const std::vector<SpeedMeter::Worker>& workers) {
  const bool same_stage =
      watched_.size() == workers.size() && std::ranges::all_of(workers, [&](const SpeedMeter::Worker& worker) {
        const auto known = watched_.find(worker.id);
        return known != watched_.end() && known->second.at_mark.mini_batches <= worker.mini_batches;
      });
  if (!same_stage || marked_step_ < 0 || step < marked_step_) {
    mark(step, now, workers);
    return {};
  }
  if (step - marked_step_ < SpeedMeter::kWindowSteps || now - marked_ < SpeedMeter::kWindow) return {};
  std::map<int64_t, double> taken, reading;  // seconds per mini-batch in this window; waiting for data
  for (const SpeedMeter::Worker& worker : workers) {
    const SpeedMeter::Worker& before = watched_[worker.id].at_mark;
    if (worker.mini_batches == before.mini_batches) return {};
    const auto mini_batches = static_cast<double>(worker.mini_batches - before.mini_batches);
    taken[worker.id] = seconds(worker.computing - before.computing).count() / mini_batches;
    reading[worker.id] = seconds(worker.reading - before.reading).count() / mini_batches;
  }
  std::vector<Speed> changes;
  for (const SpeedMeter::Worker& worker : workers) {
    Watched& watched = watched_[worker.id];
    std::vector<double> others;
    for (const SpeedMeter::Worker& other : workers) {
      if (other.id != worker.id && other.kind == worker.kind) others.push_back(taken[other.id]);
    }
    const double own = taken[worker.id];
    const double usual = others.empty() ? watched.best : median(others);
    if (watched.best == 0 || own < watched.best) watched.best = own;
    if (usual <= 0) {
      watched.speed.seconds = own;
      watched.speed.reading_seconds = reading[worker.id];
      continue;
    }
    const double factor = own / usual;
    Speed& speed = watched.speed;
    if (factor >= kSlow && watched.slow_windows++ == 0) speed.since_step = marked_step_;
    if (factor < kUsual || (factor < kSlow && !speed.slow)) watched.slow_windows = 0;
    const bool slow = watched.slow_windows >= 2;
    const bool was_slow = speed.slow;
    speed = {worker.id, slow, factor, own, usual, speed.since_step, reading[worker.id]};
    if (slow != was_slow) changes.push_back(speed);
  }
  mark(step, now, workers);
  return changes;
}

const SpeedWatch::Speed* SpeedWatch::find(int64_t worker) const {
  const auto known = watched_.find(worker);
  return known != watched_.end() && known->second.speed.seconds > 0 ? &known->second.speed : nullptr;
}

}  // namespace estrain::launch
