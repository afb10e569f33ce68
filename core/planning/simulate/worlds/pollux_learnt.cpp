#include "core/planning/simulate/worlds/pollux_learnt.h"

#include <algorithm>
#include <limits>

namespace estrain::simulate {

void Learnt::observe(const scheduling::SpeedPoint& point, const StepTimes& times) {
  const double compute = times.step - times.sync;
  const bool is_news =
      by_ == By::all_jobs ? measured_.observe(point, compute, times.step) : model_.observe(point, compute, times.step);
  if (is_news) best_.clear();
}

double Learnt::step_seconds(int64_t hosts, int64_t devices, double local) const {
  if (by_ == By::all_jobs) return measured_.step_seconds(hosts, devices, local);
  return model_.step_seconds(hosts, devices, local);
}

void Learnt::observe(int64_t epoch, const PolluxApplication::Noise& noise) {
  const auto [at, is_new] = noises_.try_emplace(epoch, noise);
  if (!is_new && at->second == noise) return;
  at->second = noise;
  for (auto& [shape, epochs] : best_) epochs[static_cast<size_t>(epoch)].speed = -1;
}

PolluxApplication::Noise Learnt::noise(int64_t epoch) const {
  if (noises_.empty()) return {};
  const auto after = noises_.upper_bound(epoch);
  return after == noises_.begin() ? after->second : std::prev(after)->second;
}

Learnt::BestBatch Learnt::search(int64_t hosts, int64_t devices, const PolluxApplication::Noise& noise) const {
  BestBatch best;
  for (const double batch : app_.batches(devices)) {
    const BatchSplit split = app_.split(batch, devices);
    if (split.local < 1) continue;
    const auto local = static_cast<double>(split.local);
    const double seconds =
        step_seconds(hosts, devices, local) + model().compute_seconds(local) * static_cast<double>(split.accumulated);
    const auto whole = static_cast<double>(devices * split.local * (split.accumulated + 1));
    const double speed = PolluxApplication::gain(noise, whole / static_cast<double>(app_.limits().init)) / seconds;
    if (speed > best.speed) best = {speed, split};
  }
  return best;
}

Learnt::BestBatch Learnt::best(int64_t hosts, int64_t devices, int64_t epoch) const {
  std::vector<BestBatch>& epochs = best_[{hosts, devices}];
  if (epochs.empty()) epochs.resize(static_cast<size_t>(app_.limits().epochs), {-1, {}});
  epoch = told_by(epoch);
  BestBatch& known = epochs[static_cast<size_t>(epoch)];
  if (known.speed < 0) known = search(hosts, devices, noise(epoch));
  return known;
}

double Learnt::seconds_left(int64_t hosts, int64_t devices, int64_t epoch, double progress) const {
  const int64_t epochs = app_.limits().epochs;
  double seconds = 0;
  while (epoch < epochs) {
    const double speed = best(hosts, devices, epoch).speed;
    if (speed <= 0) return std::numeric_limits<double>::infinity();
    const int64_t same_until = epoch < told_by(epochs) ? epoch + 1 : epochs;
    seconds += (app_.progress(same_until) - progress) / speed;
    progress = app_.progress(same_until);
    epoch = same_until;
  }
  return seconds;
}

}  // namespace estrain::simulate
