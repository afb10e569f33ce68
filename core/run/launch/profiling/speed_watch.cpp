#include "core/run/launch/profiling/speed_watch.h"

#include <algorithm>

namespace estrain::launch {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

// Forgets workers that have ended, and everything if a new stage has begun: counts start from zero again.
void SpeedWatch::mark(int64_t step, int64_t now_ns, const std::vector<SpeedMeter::Worker>& workers) {
  std::map<int64_t, Watched> next;
  for (const SpeedMeter::Worker& worker : workers) {
    const auto known = watched_.find(worker.id);
    if (known != watched_.end() && known->second.at_mark.mini_batches <= worker.mini_batches)
      next[worker.id] = known->second;
    next[worker.id].at_mark = worker;
  }
  watched_ = std::move(next);
  marked_step_ = step;
  marked_ns_ = now_ns;
}

std::vector<SpeedWatch::Speed> SpeedWatch::observe(int64_t step, int64_t now_ns,
                                                   const std::vector<SpeedMeter::Worker>& workers) {
  const bool same_stage =
      watched_.size() == workers.size() && std::ranges::all_of(workers, [&](const SpeedMeter::Worker& worker) {
        const auto known = watched_.find(worker.id);
        return known != watched_.end() && known->second.at_mark.mini_batches <= worker.mini_batches;
      });
  if (!same_stage || marked_step_ < 0 || step < marked_step_) {
    mark(step, now_ns, workers);
    return {};
  }
  if (step - marked_step_ < SpeedMeter::kWindowSteps || now_ns - marked_ns_ < SpeedMeter::kWindowNs) return {};
  std::map<int64_t, double> taken, reading;  // seconds per mini-batch in this window; waiting for data
  for (const SpeedMeter::Worker& worker : workers) {
    const SpeedMeter::Worker& before = watched_[worker.id].at_mark;
    if (worker.mini_batches == before.mini_batches) return {};
    const auto mini_batches = static_cast<double>(worker.mini_batches - before.mini_batches);
    taken[worker.id] = static_cast<double>(worker.computing_ns - before.computing_ns) * 1e-9 / mini_batches;
    reading[worker.id] = static_cast<double>(worker.reading_ns - before.reading_ns) * 1e-9 / mini_batches;
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
  mark(step, now_ns, workers);
  return changes;
}

const SpeedWatch::Speed* SpeedWatch::find(int64_t worker) const {
  const auto known = watched_.find(worker);
  return known != watched_.end() && known->second.speed.seconds > 0 ? &known->second.speed : nullptr;
}

}  // namespace estrain::launch
