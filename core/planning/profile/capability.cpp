#include "core/planning/profile/capability.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace estrain::profile {
namespace {

// The exchange is the difference between step and compute time, so a deviation below this fraction of the step is
// noise.
constexpr double kNoisyPart = 0.2;

}  // namespace

bool Estimate::observe(const Measurement& measurement, int64_t now, double floor) {
  const double off = std::abs(measurement.seconds - seconds);
  const bool known = samples > 0;
  const bool wrong = known && off > kMargin * std::max(seconds, floor);
  if (!known || wrong || age(now) > kStale) {
    *this = {measurement.seconds, measurement.spread, 1, now};
    return wrong;
  }
  const double weight = 1.0 / static_cast<double>(std::min(samples + 1, kMemory));
  const double seen = std::max(measurement.spread, seconds > 0 ? off / seconds : 0);
  spread += weight * (seen - spread);
  seconds += weight * (measurement.seconds - seconds);
  samples += 1;
  measured = now;
  return false;
}

void Estimate::scale(double factor) {
  seconds *= factor;
  samples = 0;
}

void Capability::observe_mini_batch(int64_t workers, const Measurement& measurement, int64_t now) {
  auto at = std::ranges::lower_bound(mini_batches, workers, {}, &MiniBatchSample::workers);
  if (at == mini_batches.end() || at->workers != workers) at = mini_batches.insert(at, {workers, {}});
  const double before = at->estimate.seconds;
  if (!at->estimate.observe(measurement, now) || before <= 0) return;
  const double factor = measurement.seconds / before;
  for (MiniBatchSample& other : mini_batches) {
    if (other.workers != workers) other.estimate.scale(factor);
  }
  if (update) update->scale(factor);
}

void Capability::mend(int64_t workers, double seconds, double turns_taken) {
  if (mini_batches.empty() || mini_batch(workers) != nullptr || base()->workers > workers) return;
  const double factor = seconds / (base()->estimate.seconds * turns_taken);
  if (factor <= kMostCrowding && factor >= kLeastCrowding) return;
  for (MiniBatchSample& sample : mini_batches) sample.estimate.scale(factor);
  if (update) update->scale(factor);
}

void Capability::observe_exchange(int64_t workers, int64_t partial_sums, const Measurement& measurement,
                                  double step_seconds, int64_t now) {
  const auto place = [](const ExchangeSample& sample) { return std::tuple(sample.workers, sample.partial_sums); };
  auto at = std::ranges::lower_bound(exchanges, std::tuple(workers, partial_sums), {}, place);
  if (at == exchanges.end() || place(*at) != std::tuple(workers, partial_sums))
    at = exchanges.insert(at, {workers, partial_sums, {}});
  const double before = at->estimate.seconds;
  if (at->estimate.observe(measurement, now, kNoisyPart * step_seconds / Estimate::kMargin) && before > 0) {
    for (ExchangeSample& other : exchanges) {
      if (place(other) != std::tuple(workers, partial_sums)) other.estimate.scale(measurement.seconds / before);
    }
  }
  if (exchanges.size() > most_exchange_samples)
    exchanges.erase(
        std::ranges::min_element(exchanges, {}, [](const ExchangeSample& sample) { return sample.estimate.measured; }));
}

const Estimate* Capability::mini_batch(int64_t workers) const {
  const auto at = std::ranges::lower_bound(mini_batches, workers, {}, &MiniBatchSample::workers);
  return at != mini_batches.end() && at->workers == workers ? &at->estimate : nullptr;
}

}  // namespace estrain::profile
